"""Finding pasted lines in 10,000 files against git's own search."""

from __future__ import annotations

import random
import subprocess
import time
from functools import partial
from pathlib import Path

from bench.measure import Row, at_least, microseconds, percentile, sample
from engrambus.evidence.anchoring import Anchors
from engrambus.evidence.pointers import GitRepository, Repositories

FILES = 10_000
LOOKUPS = 300
GREPS = 10
LINES = 6


def anchor_rows(scratch: Path) -> list[Row]:
    """A lookup of some quoted lines, next to `git grep -F` for one line of them; and what the index costs at first."""
    commit = _make_repository(scratch / "anchoring")
    repository = GitRepository(scratch / "anchoring")
    anchors = Anchors(Repositories(repository), scratch / "anchors.db")
    start = time.perf_counter()
    anchors.find("nothing of the kind is anywhere in it", revision=commit)
    built = (time.perf_counter() - start) * 1e6
    chosen = random.Random(5)
    numbers = chosen.choices(range(FILES), k=LOOKUPS)
    texts = ["\n".join(f"> {line}" for line in _source(number).split("\n")[4 : 4 + LINES]) for number in numbers]
    for text in texts:
        assert anchors.find(text, revision=commit).pointer is not None
    again = [_source(number).split("\n")[6] for number in chosen.choices(range(FILES), k=GREPS)]
    fresh = Anchors(Repositories(repository), scratch / "anchors.db")
    times = sample([partial(fresh.find, text, revision=commit) for text in texts])
    greps = sample([partial(_grep, scratch / "anchoring", commit, line) for line in again])
    read_all = sample([partial(_read_all, scratch / "anchoring", commit)])[0]
    fresh.close()
    anchors.close()
    repository.close()
    p95, grep = percentile(times, 0.95), percentile(greps, 0.5)
    measured = f"{LINES} quoted lines in {FILES:,} files, p95"
    return [
        Row("anchor", measured, microseconds(p95), f"git grep -F {microseconds(grep)}", *at_least(grep / p95, 5.0)),
        Row(
            "anchor", "first index", microseconds(built), f"raw cat-file of every file {microseconds(read_all)}",
            f"{built / read_all:.2f} ×", "–", None,
        ),
    ]  # fmt: skip


def _source(number: int) -> str:
    chosen = random.Random(number)
    lines = ["# Licensed to the people who use it.", "import os", ""]
    for part in range(8):
        lines += [
            f"def step_{number}_{part}(order, limit):",
            f"    if order.total > {chosen.randrange(10**6)}:",
            f"        raise ValueError(order, {chosen.randrange(10**6)})",
            f"    return refund(order, {chosen.randrange(10**6)})",
            "",
        ]
    return "\n".join(lines)


def _make_repository(path: Path) -> str:
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    stream = ["commit refs/heads/main\ncommitter Ada <ada@example.org> 1700000000 +0000\ndata 5\nfirst\n"]
    for number in range(FILES):
        text = _source(number)
        stream.append(f"M 100644 inline pkg{number % 97:02}/module_{number:05}.py\ndata {len(text)}\n{text}\n")
    subprocess.run(["git", "fast-import", "--quiet"], cwd=path, input="".join(stream).encode(), check=True)
    done = subprocess.run(["git", "rev-parse", "main"], cwd=path, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _grep(path: Path, commit: str, line: str) -> None:
    subprocess.run(["git", "grep", "-n", "-F", "-e", line, commit], cwd=path, stdout=subprocess.DEVNULL, check=True)


def _read_all(path: Path, commit: str) -> None:
    listed = subprocess.run(["git", "ls-tree", "-r", commit], cwd=path, capture_output=True, check=True).stdout
    ids = b"".join(line.split(b"\t")[0].split(b" ")[2] + b"\n" for line in listed.splitlines())
    subprocess.run(["git", "cat-file", "--batch"], cwd=path, input=ids, stdout=subprocess.DEVNULL, check=True)
