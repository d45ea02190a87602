"""What a writer noted, and the check of a project against it."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import msgspec

from engrambus.app import open_project
from engrambus.backends.facts import decode_work_facts
from engrambus.core.journal import Journal
from engrambus.errors import EngramBusError
from engrambus.evidence.receipts import bodies_of, receipt_id
from engrambus.gateway import Gateway
from engrambus.policy import find_project, load_journal_key
from engrambus.space.tuples import TupleDone, TupleRecord
from engrambus.testing import GatewayClient
from tests.torture.workload import LATER_LANE, NOTES_LANE, SPENT_MICROS, OpenProject, TortureProject

CHECK_SECONDS = 60
"""Longest time that opening and checking a small project may take; who takes longer waits for something."""
CHECKED_PER_SECOND = 100
"""Acknowledged writes that a check gets through in a second at least, beside other work."""


UNREAD = "verify could not read"
"""Begins a problem that is none while a disk fails."""


class Problem(msgspec.Struct, frozen=True):
    """Something that must not happen."""

    kind: str
    """`lost`, `wrong` or `traceback`."""
    text: str


class Notes:
    """The notes of writers: what they tried, what was acknowledged, what was refused."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self.tried: dict[str, list[frozenset[str]]] = {}
        self.done: dict[str, set[str]] = {}
        self.ends: dict[str, str] = {}
        self.refused: list[tuple[str, str, frozenset[str]]] = []
        self.problems: list[Problem] = []
        self.finished = False
        for line in lines:
            self.add(line)

    def add(self, line: str) -> None:
        """Take one note."""
        word, _, rest = line.partition(" ")
        if word == "finish":
            self.finished = True
        elif word == "refused":
            kind, code, names = rest.split(" ", 2)
            self.refused.append((kind, code, frozenset(names.split(","))))
        elif word == "traceback":
            self.problems.append(Problem("traceback", rest))
        elif word == "unsound":
            self.problems.append(Problem("wrong", f"verify under way: {rest}"))
        elif word == "unread":
            self.problems.append(Problem("wrong", f"{UNREAD}: {rest}"))
        elif word == "end":
            tuple_id, _, receipt = rest.partition(" ")
            self.ends[tuple_id] = receipt
        elif word.endswith("?"):
            self.tried.setdefault(word[:-1], []).append(frozenset(rest.split(",")))
        else:
            self.done.setdefault(word, set()).update(rest.split(","))

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged writes."""
        kinds = ("put", "promote", "forget", "out", "body", "take", "spend")
        return len(self.ends) + sum(len(self.done.get(kind, ())) for kind in kinds)

    def check_undisturbed(
        self, kinds: Iterable[str] = ("put", "promote", "forget", "out", "body", "end", "take", "spend")
    ) -> None:
        """Check that a writer that nothing disturbed did everything: otherwise the other cases prove nothing."""
        assert self.finished, self.problems
        assert (self.refused, self.problems) == ([], [])
        assert all(self.ends if kind == "end" else self.names(kind) for kind in kinds)

    def names(self, kind: str) -> set[str]:
        """Return the ids of acknowledged actions of a kind."""
        return self.done.get(kind, set())

    def attempted(self, kind: str) -> set[str]:
        """Return the ids that any action of a kind tried."""
        return set().union(*self.tried.get(kind, ()))


def check_project(project: TortureProject, notes: Notes, *, repaired: tuple[str, ...] = ()) -> list[Problem]:
    """Open a project and compare it with the notes; return what is not as promised.

    `repaired` begin the names of copies that `verify --repair` may have to make again.
    """
    try:
        with closing(open_project(project.root, project.settings)) as gateway:
            client = GatewayClient(OpenProject(gateway))
            found = client.call("verify", repair=bool(repaired)).findings
            if found and all(finding.repaired and finding.where.startswith(repaired) for finding in found):
                found = client.call("verify").findings
            problems = [Problem("wrong", f"verify: {finding!r}") for finding in found]
            problems += _check_knowledge(project, client, notes)
            problems += _check_work(gateway, client, notes)
            client.call("put_engram", claim="The project takes writes again", pointers=_any_pointer(project))
            return problems
    except EngramBusError as refusal:
        # A crash is no damage: whatever the disk was left with, the project opens and nobody has to decide anything.
        return [Problem("lost" if notes.acknowledged else "wrong", f"refused {refusal.code}: {refusal}")]
    except Exception:
        return [Problem("traceback", traceback.format_exc())]


def _any_pointer(project: TortureProject) -> list[dict[str, str]]:
    return [{"type": "artifact", "ref": f"{project.pointer}#L1-L2"}]


def _check_knowledge(project: TortureProject, client: GatewayClient, notes: Notes) -> list[Problem]:
    put, forgotten = _journalled_engrams(project)
    found = {engram_id: client.try_call("get_engram", id=engram_id)[0] == "ok" for engram_id in put}
    listed = _listed(client)
    acknowledged, forget_tried = notes.names("put"), notes.attempted("forget")
    refused = set().union(*(names for kind, _, names in notes.refused if kind == "put"))
    rules = {
        ("lost", "acknowledged and not in the journal"): acknowledged - set(put),
        ("lost", "acknowledged and not found"): acknowledged - forget_tried - {name for name in found if found[name]},
        ("lost", "acknowledged and not listed"): acknowledged - forget_tried - listed,
        ("wrong", "written twice"): {name for name in put if put[name] > 1},
        ("wrong", "refused, and there all the same"): refused & (set(put) | listed),
        ("wrong", "forgotten, and there again"): notes.names("forget")
        & ({name for name in found if found[name]} | listed),
        ("wrong", "in the journal and not listed"): set(put) - set(forgotten) - listed,
        ("wrong", "listed and not in the journal"): listed - set(put),
    }
    problems = [Problem(kind, f"{text}: {sorted(names)}") for (kind, text), names in rules.items() if names]
    for names in notes.tried.get("put", ()):
        if len(names & set(put)) not in (0, len(names)):
            problems.append(Problem("wrong", f"half of a commit is there: {sorted(names)}"))
    for engram_id in notes.names("promote") & listed:
        if client.call("get_engram", id=engram_id).scope != "project":
            problems.append(Problem("lost", f"acknowledged promotion of {engram_id}"))
    return problems


def _listed(client: GatewayClient) -> set[str]:
    listed: set[str] = set()
    cursor = None
    while True:
        page = client.query(k=100, cursor=cursor)
        listed |= {engram.id for engram in page.engrams}
        cursor = page.cursor
        if cursor is None:
            return listed


def _journalled_engrams(project: TortureProject) -> tuple[Counter[str], Counter[str]]:
    """Count every engram put and forgotten by the journal, which must be valid to its last byte."""
    settings = project.settings
    key = load_journal_key(settings.key_folder(find_project(project.root).project_id))
    put: Counter[str] = Counter()
    forgotten: Counter[str] = Counter()
    with closing(Journal(project.catalog / "memory.jsonl", key, "memory")) as journal:
        for line, _ in journal.read(journal.start):
            for fact in msgspec.json.decode(line.facts):
                if fact["fact"] == "engram.put":
                    put[fact["engram"]["id"]] += 1
                if fact["fact"] == "engram.forgotten":
                    forgotten[fact["id"]] += 1
    return put, forgotten


def _check_work(gateway: Gateway, client: GatewayClient, notes: Notes) -> list[Problem]:
    space = gateway.tuple_space.space
    records = {record.id: record for record in space.rd_all({}, limit=1_000_000)}
    ends: dict[str, list[str]] = {}
    problems: list[Problem] = []
    for line in space.store.lines_after(0, 10_000_000):
        for fact in decode_work_facts(line.facts):
            if isinstance(fact, TupleDone):
                ends.setdefault(fact.id, []).append(fact.receipt.id)
                if receipt_id(fact.receipt) != fact.receipt.id:
                    problems.append(Problem("wrong", f"the receipt {fact.receipt.id} has another id"))
                problems += [
                    Problem("lost", f"body {sha} of an acknowledged receipt")
                    for sha in bodies_of(fact.receipt)
                    if not gateway.tuple_space.bodies.is_intact(sha)
                ]
    if missing := notes.names("out") - set(records):
        problems.append(Problem("lost", f"acknowledged tuples: {sorted(missing)}"))
    for tuple_id, receipt in notes.ends.items():
        if ends.get(tuple_id) != [receipt]:
            problems.append(Problem("lost", f"the end of {tuple_id}: {receipt} became {ends.get(tuple_id)}"))
    if doubled := [tuple_id for tuple_id, receipts in ends.items() if len(receipts) > 1]:
        problems.append(Problem("wrong", f"ended twice: {doubled}"))
    problems += _check_taken_and_spent(records, notes)
    for pointer in notes.names("body"):
        code, _ = client.try_call("deref_pointer", pointer=pointer)
        if code != "ok":
            problems.append(Problem("lost", f"acknowledged body {pointer}: {code}"))
    return problems


def _check_taken_and_spent(records: dict[str, TupleRecord], notes: Notes) -> list[Problem]:
    """Check that what was taken is gone, and that what was handed back waits and has spent what was reported once."""
    names = {record.tuple.map_pos.get("name") for record in records.values() if record.tuple.lane == NOTES_LANE}
    problems = [Problem("lost", f"taken, and there again: {name}") for name in notes.names("take") & names]
    for tuple_id in notes.names("spend"):
        record = records.get(tuple_id)
        if record is None or (record.state, record.attempts, record.own_spent.micros) != ("waiting", 1, SPENT_MICROS):
            problems.append(Problem("lost", f"acknowledged spending and release: {record!r}"))
    for record in records.values():
        if record.tuple.lane == LATER_LANE and record.own_spent.micros not in (0, SPENT_MICROS):
            problems.append(Problem("wrong", f"spent twice: {record!r}"))
    return problems


def in_process(function: Callable[[], list[Problem]], seconds: float = CHECK_SECONDS) -> list[Problem]:
    """Run a check in a forked process, so that nothing it caches or patches stays; a hang is a problem too."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(msgspec.json.encode(function()))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    answer, end = b"", time.monotonic() + seconds
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
            piece = pipe.read(1 << 16)
            if not piece:
                break
            answer += piece
        else:
            os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if not answer:
        return [Problem("traceback", f"the check did not end within {seconds} s")]
    return msgspec.json.decode(answer, type=list[Problem])


def read_notes(path: Path) -> Notes:
    """Return the notes in a file; a last line without an end was never said."""
    return Notes(path.read_text().split("\n")[:-1])
