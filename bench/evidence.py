"""Dereference against git itself."""

from __future__ import annotations

import random
import subprocess
from functools import partial
from pathlib import Path

from bench.measure import Row, at_most, in_turns, microseconds, percentile
from engrambus.evidence.pointers import Pointer, RepoAddress, parse_ref
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.operations import OPERATIONS
from engrambus.operations.pointers import DerefPointer

READS = 2000


def deref_rows(gateway: Gateway, repository: Path, refs: list[str]) -> list[Row]:
    """The resolver, and the whole operation, against a raw `cat-file --batch` read of the same file."""
    chosen = random.Random(3).choices(refs, k=READS)
    git = subprocess.Popen(
        ["git", "cat-file", "--batch"], cwd=repository, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert git.stdin is not None
    assert git.stdout is not None
    send, receive = git.stdin, git.stdout

    def raw(name: bytes) -> None:
        send.write(name)
        send.flush()
        size = int(receive.readline().split()[2])
        receive.read(size + 1)

    names = []
    for ref in chosen:
        address = parse_ref(ref)
        assert isinstance(address, RepoAddress)
        names.append(f"{address.revision}:{address.path}\n".encode())
    resolve, deref = gateway.evidence.read, OPERATIONS["deref_pointer"]
    pointers = [Pointer(type="repo", ref=ref) for ref in chosen]
    requests = [DerefPointer(pointer=pointer, max_tokens=1200) for pointer in pointers]
    for name, pointer in zip(names[:200], pointers[:200], strict=True):
        raw(name)
        resolve(pointer)
    raw_times, times, whole = in_turns(
        [partial(raw, name) for name in names],
        [partial(resolve, pointer) for pointer in pointers],
        [partial(gateway.call, deref, request, LOCAL_ADMIN) for request in requests],
    )
    send.close()
    git.wait()
    receive.close()
    raw95 = percentile(raw_times, 0.95)
    comparison = f"raw cat-file {microseconds(raw95)}"
    rows = []
    for measured, durations, bar in (("resolver, git, p95", times, 2.0), ("whole operation, git, p95", whole, None)):
        p95 = percentile(durations, 0.95)
        ratio = at_most(p95 / raw95, bar) if bar else (f"{p95 / raw95:.2f} ×", "–", None)
        rows.append(Row("deref", measured, microseconds(p95), comparison, *ratio))
    return rows
