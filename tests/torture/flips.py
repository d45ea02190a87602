"""Part 4: flips of one bit, and truncations, of every file of a project: no wrong answer and no traceback.

A project is made once, and a second one whose last process was killed, so that its databases have `-wal` files. Each
round puts the project's files back, damages one of them without a trace in its times, as a disk does, asks a fixed list
of questions and compares the answers with those of the undamaged project. What is made from the journals must answer as
before. A damaged journal or body may be refused, with a code that says so.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engrambus.app import open_project, open_worker_dependencies
from engrambus.core import digest
from engrambus.edges.integrations.doctor import examine
from engrambus.errors import EngramBusError, IndexDamaged
from engrambus.evidence.receipts import bodies_of
from engrambus.gateway import LOCAL_ADMIN, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from engrambus.space.tuples import Price, TupleSpace, WorkView, read_pattern
from engrambus.space.work import LaneWorkerPool, ProcessRunner
from engrambus.testing.work import PERSON
from tests.projects import make_gateway, make_repository
from tests.space.worker_harness import CATALOG, MODULE, YOOLS, step
from tests.torture.notes import Problem, in_process
from tests.torture.outcome import Outcome

ENGRAMS = 60
TUPLES = 6
ROUNDS = 1000
ROUNDS_PER_PROCESS = 50
FAR_US = 1 << 55
EVERYTHING = read_pattern({})
NOTES = "notes.jsonl"
"""A memory store of several segments, so that its decoded lines are cached."""
JOURNAL_CODES = frozenset({"JOURNAL_DAMAGED", "JOURNAL_FOREIGN", "FORMAT_UNKNOWN"})
BODY_CODES = frozenset({"OBJECT_DAMAGED"})


class Target(NamedTuple):
    """A file, or the files of one kind, to be damaged."""

    name: str
    project: str
    """`closed`, or `killed`: the one with `-wal` files."""
    pattern: str
    """Which files below `.catalog` it is; one of them is drawn each round."""
    codes: frozenset[str] = frozenset()
    """Refusals that tell of the damage."""
    tells: str = "\0"
    """Beginning of questions whose answer may be another one, because it tells of the damage."""
    asks: str = "usual"
    """Which questions are asked: the usual ones, or slower ones about memory stores or about meaning."""


TARGETS = (
    Target("memory.jsonl", "closed", "memory.jsonl", JOURNAL_CODES),
    Target("tuples.jsonl", "closed", "tuples.jsonl", JOURNAL_CODES),
    Target("memory.jsonl, no index", "no index", "memory.jsonl", JOURNAL_CODES),
    Target("tuples.jsonl, no index", "no index", "tuples.jsonl", JOURNAL_CODES),
    Target("segments of tuples.jsonl", "no index", "tuples.0*.jsonl*", JOURNAL_CODES),
    Target("memory.jsonl.synced", "closed", "*.jsonl.synced"),
    Target("index.db", "closed", "derived-*/index.db"),
    Target("work.db", "closed", "derived-*/work.db"),
    Target("anchors.db", "closed", "derived-*/anchors.db"),
    Target("alignments.db", "closed", "derived-*/alignments.db"),
    Target("vectors.db", "closed", "derived-*/vectors.db", asks="meaning"),
    Target("index.db, killed", "killed", "derived-*/index.db"),
    Target("index.db-wal", "killed", "derived-*/index.db-wal"),
    Target("work.db-wal", "killed", "derived-*/work.db-wal"),
    Target("anchors.db-wal", "killed", "derived-*/anchors.db-wal"),
    Target("alignments.db-wal", "killed", "derived-*/alignments.db-wal"),
    Target("receipts", "closed", "receipts/*/*.json"),
    Target("receipts.written", "closed", "derived-*/receipts.written"),
    Target("cas", "closed", "cas/*/*", BODY_CODES, tells="check ", asks="bodies"),
    Target("episodes.jsonl", "closed", "sam/episodes.jsonl", asks="memories"),
    Target("episodes.written", "closed", "derived-*/episodes.written", asks="memories"),
    Target("memory-cache", "closed", "derived-*/memory-cache/*/*", asks="notes"),
)


def flip_everything(
    folder: Path, outcome: Outcome, *, rounds: int | None, seed: int, files: Sequence[str] = ()
) -> None:
    """Damage every file, or those with these names, `rounds` times, and count what became of that."""
    projects = make_projects(folder)
    targets = [target for target in TARGETS if not files or target.name in files]
    count = rounds or ROUNDS
    # Some rounds of each file, then some more: if the time is up, all files had about as many.
    batches = [
        (target, range(first, min(first + ROUNDS_PER_PROCESS, count)))
        for first in range(0, count, ROUNDS_PER_PROCESS)
        for target in targets
    ]
    for target, numbers in outcome.until_over(batches):
        for case, found in flip(projects[target.project], target, numbers, seed):
            outcome.add(case, 0, found)
    outcome.possible = count * len(targets)


def flip(project: FlippedProject, target: Target, numbers: Sequence[int], seed: int) -> list[tuple[str, list[Problem]]]:
    """Run some rounds in a forked process; return the problems of each."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _quiet()
            found = [
                project.round(target, number, random.Random(f"{seed} {target.name} {number}")) for number in numbers
            ]
        except BaseException:
            found = [(f"{target.name} rounds {numbers}", [Problem("traceback", traceback.format_exc())])]
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(msgspec.json.encode(found))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    if not answer:
        return [(f"{target.name} rounds {numbers}", [Problem("traceback", "the process died")])]
    return msgspec.json.decode(answer, type=list[tuple[str, list[Problem]]])


def _quiet() -> None:
    """Drop what is said about damaged files: there are thousands of them."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - the process ends with it


def damage(path: Path, chance: random.Random, *, whole_lines: bool) -> str:
    """Flip a bit of a random byte, or cut the file at a random length, a page's or any; return what was done.

    A disk leaves no trace in the times of a file. A journal is not cut between two lines: that is taken for an older
    copy that a person has put back, and said (decision 97).
    """
    status = path.stat()
    kind = chance.choice(("flip", "flip", "flip", "cut", "cut at a page"))
    if kind == "flip":
        offset, bit = chance.randrange(status.st_size), 1 << chance.randrange(8)
        with path.open("r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ bit]))
        what = f"flip at {offset} of {bit}"
    else:
        length = chance.randrange(status.st_size)
        if kind == "cut at a page":
            length -= length % 4096
        if whole_lines and length and path.read_bytes()[length - 1] == ord("\n"):
            length -= 1
        os.truncate(path, length)
        what = f"cut at {length} of {status.st_size}"
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return what


class FlippedProject:
    """A project whose files are damaged and put back."""

    def __init__(self, folder: Path, root: Path, whole: Path) -> None:
        self.root = root
        self._whole = whole
        environment = {"HOME": str(folder / "home"), "PATH": os.environ["PATH"]}
        self.settings = Settings.from_environment(environment)
        self.semantic = Settings.from_environment({**environment, "ENGRAMBUS_SEMANTIC": "1"})
        self._expected: dict[str, dict[str, Any]] = {}

    @property
    def catalog(self) -> Path:
        """The folder of everything that the bus stores."""
        return self.root / ".catalog"

    def save(self) -> None:
        """Take what is there now as the undamaged state, and note its answers."""
        shutil.rmtree(self._whole, ignore_errors=True)
        shutil.copytree(self.catalog, self._whole)
        for kind in QUESTIONS:
            self._expected[kind] = self.answers(kind)
            self.restore()
            assert self.answers(kind) == self._expected[kind], "the answers are not the same twice"
            self.restore()

    def restore(self) -> None:
        """Put the undamaged files back."""
        shutil.rmtree(self.catalog, ignore_errors=True)
        shutil.copytree(self._whole, self.catalog)

    def round(self, target: Target, number: int, chance: random.Random) -> tuple[str, list[Problem]]:
        """Damage a file and ask; return the case and its problems."""
        self.restore()
        paths = sorted(path for path in self.catalog.glob(target.pattern) if path.is_file() and path.stat().st_size)
        assert paths, f"there is no {target.pattern}"
        path = chance.choice(paths)
        case = f"{target.name} round {number}, {damage(path, chance, whole_lines=path.suffix == '.jsonl')}"
        try:
            if number % 10 == 0:
                self.check(target.codes)
            answers = self.answers(target.asks, target.codes)
        except Exception:
            return case, [Problem("traceback", traceback.format_exc())]
        expected = self._expected[target.asks]
        if "open" in answers:
            return case, []
        wrong = [
            question
            for question in expected
            if answers.get(question) != expected[question]
            and not isinstance(answers.get(question), Refused)
            and not question.startswith(target.tells)
        ]
        return case, [Problem("wrong", ", ".join(wrong))] if wrong else []

    def answers(self, kind: str, codes: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Open the project anew and return the answer to each question; refusals with one of these codes count."""
        answers: dict[str, Any] = {}
        try:
            with closing(open_project(self.root, self.semantic if kind == "meaning" else self.settings)) as gateway:
                for question, ask in QUESTIONS[kind](gateway):
                    try:
                        answers[question] = _ask_again(ask)
                    except EngramBusError as refusal:
                        if refusal.code not in codes:
                            raise
                        answers[question] = Refused(refusal.code)
        except EngramBusError as refusal:
            if refusal.code not in codes:
                raise
            answers["open"] = Refused(refusal.code)
        return answers

    def check(self, codes: frozenset[str]) -> None:
        """Run `doctor` and `verify`: they may find anything, but must not fail."""
        list(examine(self.root, self.settings))
        try:
            with closing(open_project(self.root, self.settings)) as gateway:
                call(gateway, "verify")
        except EngramBusError as refusal:
            if refusal.code not in codes:
                raise


class Refused(msgspec.Struct, frozen=True):
    """A refusal that tells of damage."""

    code: str


def make_projects(folder: Path) -> dict[str, FlippedProject]:
    """Make a project in three states: closed, without its indexes, and left by a process that was killed."""
    root = make_repository(folder / "repository").path
    closed = FlippedProject(folder, root, folder / "closed")
    _fill(closed, folder)
    closed.save()
    closed.restore()
    killed = FlippedProject(folder, root, folder / "killed")
    assert in_process(lambda: _work_and_die(killed)) != []
    killed.save()
    closed.restore()
    for index in closed.catalog.glob("derived-*/*.db*"):
        index.unlink()
    bare = FlippedProject(folder, root, folder / "bare")
    bare.save()
    return {"closed": closed, "killed": killed, "no index": bare}


def _fill(project: FlippedProject, folder: Path) -> None:
    """Put engrams, memories and work, and have every file made that is made from them."""
    text = "\n".join(f"line {number} of a text to point at" for number in range(40))
    lines = (
        json.dumps(
            {"memory_id": f"m{number}", "ts_utc": "2026-01-05T09:00:00Z", "text": f"note {number} " + "x" * 4000}
        )
        for number in range(300)
    )
    (project.root / NOTES).write_text("\n".join(lines) + "\n")
    with closing(make_gateway(project.root, project.settings)) as gateway:
        _put(gateway, range(ENGRAMS))
        call(gateway, "store_artifact", text=text, name="a.txt")
        for number in range(8):
            call(gateway, "keep_episode", text=f"The team decided matter {number} with care.", kind="decision")
        _work(gateway, project.settings, range(TUPLES))
        call(gateway, "collect_garbage", hot_days=0, warm_days=0)
        gateway.tuple_space.space.store.rotate(least_bytes=1, before_us=1 << 60)
        _work(gateway, project.settings, range(TUPLES, TUPLES + 2))
    for kind in QUESTIONS:
        project.answers(kind)


def _work_and_die(project: FlippedProject) -> list[Problem]:
    """Put some more, and end without closing anything: the databases keep their `-wal` files."""
    for cache in project.catalog.glob("derived-*/a*.db"):
        cache.unlink()
    gateway = open_project(project.root, project.settings)
    _put(gateway, range(ENGRAMS, ENGRAMS + 10))
    _work(gateway, project.settings, range(20, 22))
    for _, ask in _usual(gateway):
        ask()
    os._exit(0)


def _put(gateway: Gateway, numbers: range) -> None:
    words = ("orbit", "ledger", "parser", "cursor", "lease")
    drafts = [
        {
            "claim": f"The {words[number % 5]} number {number} keeps its {words[number % 3]} value in a table.",
            "kind": ("fact", "risk", "decision")[number % 3],
            "pointers": [{"type": "repo", "ref": f"src/parser.py:{1 + number % 20}-{2 + number % 20}"}],
        }
        for number in numbers
    ]
    call(gateway, "put_engrams", engrams=drafts)


def _work(gateway: Gateway, settings: Settings, numbers: range) -> None:
    """Put tuples, and work them off."""
    deps = open_worker_dependencies(gateway, settings)
    runner = ProcessRunner(deps.bodies, gateway.project_files.state_path("scratch"), deps.clock, [MODULE])
    deps = msgspec.structs.replace(deps, registry=YOOLS, catalog=lambda: CATALOG, runner=runner)
    # The project's catalog does not declare the tests' yools, so tuples are put without it.
    space = TupleSpace(deps.space.store, settings=deps.space.settings)
    run = gateway.identify(LOCAL_ADMIN).run.run_id

    def out(*steps: dict[str, Any], lane: str = "build", **options: Any) -> str:
        return space.out({"lane": lane, "payload": list(steps)}, authority=PERSON, run=run, **options)[0].id

    for number in numbers:
        out(step("agent.sum.numbers", a=number, b=1))
    out(step("agent.fail.always"))
    LaneWorkerPool(deps, read_pattern({"lane": "build"}), concurrency=1).run(until_empty=True)
    out(step("agent.sum.numbers", a=numbers[-1], b=1))  # a hit
    LaneWorkerPool(deps, read_pattern({"lane": "build"}), concurrency=1).run(until_empty=True)
    runner.close()
    out(lane="facts", idempotency=(f"key {numbers[-1]}", digest(b"the same request")))
    space.in_({"lane": "facts"}, by="me")
    out(step("agent.deploy.prod"), lane="waiting")
    space.cancel(out(step("agent.deploy.prod"), lane="waiting"))
    (claim,) = space.claim({"id": out(step("agent.spend.money", usd=1, times=1), lane="later")}, worker="w")
    space.start_step(claim, 0, Price(micros=9), yool="agent.spend.money.v1")
    space.record_cost(claim.id, claim.fence, 0, Price(micros=7), synced=True)
    space.release([(claim.id, claim.fence)], counts_attempt=True, delay_us=FAR_US)
    (claim,) = space.claim({"id": out(step("agent.spend.money", usd=2, times=1), lane="running")}, worker="w")
    space.start_step(claim, 0, Price(micros=9), yool="agent.spend.money.v1")
    # Claims are not synced, and lines behind the last sync may be cut: the last line of the journal is synced.
    out(step("agent.deploy.prod"), lane="waiting")


Asked = Iterator[tuple[str, Callable[[], Any]]]


def _usual(gateway: Gateway) -> Asked:
    """Yield each question with what asks it."""
    for text in ("orbit value", "ledger number 7", "parser table", "lease", "nothing of the kind"):
        yield f"query {text}", partial(call, gateway, "query_engrams", q=text)
    for operation in ("list_runs", "feed", "check_evidence", "list_work"):
        yield operation, partial(call, gateway, operation)
    anchored = "line 7 of the parser\nline 8 of the parser\nline 9 of the parser\n"
    yield "anchor", partial(call, gateway, "anchor_text", text=anchored)
    yield "events", lambda: [line.checksum for line in gateway.store.lines_after(0, 1000)]
    yield "work events", lambda: [line.checksum for line in gateway.tuple_space.space.store.lines_after(0, 1000)]
    yield from _tuples(gateway)
    yield "receipts", lambda: [receipt.id for receipt in _receipts(gateway)]
    for receipt in _receipts(gateway):
        yield f"receipt {receipt.id}", partial(_call_receipt, gateway, "receipt_get", receipt.id)
        yield f"check {receipt.id}", partial(_call_receipt, gateway, "receipt_verify", receipt.id)


def _tuples(gateway: Gateway) -> Asked:
    """Yield questions about tuples in every state, and about what was made from them."""
    space = gateway.tuple_space.space

    def ask(question: Callable[[WorkView], Any]) -> Callable[[], Any]:
        def answer() -> Any:
            with space.store.read() as view:
                return question(view)

        return answer

    yield "tuples", ask(lambda view: view.matching(EVERYTHING, limit=1000))
    yield "unfinished", ask(lambda view: view.list_unfinished(limit=1000))
    # Not of all lanes: the lease of the claimed tuple ends while this goes on.
    yield "claimable", ask(lambda view: view.claimable(read_pattern({"lane": "waiting"}), epoch=1, limit=1000))
    yield "next due", ask(lambda view: view.next_due_us(read_pattern({"lane": "later"})))
    yield "ended", ask(lambda view: view.list_ended(None, limit=1000))
    yield "dead", ask(lambda view: view.list_dead(None, limit=1000))
    yield "totals", ask(lambda view: (view.run_totals(), view.lane_counts(), view.waiting_groups()))
    yield "running steps", ask(lambda view: view.running_steps())
    yield "costs", ask(lambda view: [view.cost_history(yool.entry.full_name) for yool in YOOLS])
    yield "asked", ask(lambda view: [view.idempotent_put(f"key {number}") for number in range(20)])
    yield "uses", ask(lambda view: view.newest_receipts(None, limit=1000))
    yield (
        "deleted",
        ask(
            lambda view: [
                (sha, view.purged_at_us(sha))
                for _, receipt in view.list_receipts(None, limit=1000)
                for sha in bodies_of(receipt)
            ]
        ),
    )


def _bodies(gateway: Gateway) -> Asked:
    for sha in sorted({sha for receipt in _receipts(gateway) for sha in bodies_of(receipt)}):
        if _is_deleted(gateway, sha):
            continue
        yield f"body {sha}", partial(call, gateway, "deref_pointer", pointer=f"artifact:{sha}")
    for receipt in _receipts(gateway):
        yield f"check {receipt.id}", partial(_call_receipt, gateway, "receipt_verify", receipt.id)


def _meaning(gateway: Gateway) -> Asked:
    for text in ("celestial path", "rental agreement", "orbit value"):
        yield f"query {text}", partial(call, gateway, "query_engrams", q=text)


def _memories(gateway: Gateway) -> Asked:
    yield "memories", partial(_read_memory, gateway, ".catalog/sam/episodes.jsonl")


def _notes(gateway: Gateway) -> Asked:
    yield "notes", partial(_read_memory, gateway, NOTES)


QUESTIONS: dict[str, Callable[[Gateway], Asked]] = {
    "usual": _usual,
    "bodies": _bodies,
    "meaning": _meaning,
    "memories": _memories,
    "notes": _notes,
}


def _ask_again(ask: Callable[[], Any]) -> Any:
    """Ask, and once more if the index was found damaged on the way: the gateway repeats its own calls."""
    try:
        return ask()
    except IndexDamaged:
        return ask()


def _receipts(gateway: Gateway) -> list[Any]:
    def read() -> list[Any]:
        with gateway.tuple_space.space.store.read() as view:
            return [receipt for _, receipt in view.list_receipts(None, limit=100, after=0)]

    receipts: list[Any] = _ask_again(read)
    return receipts


def _is_deleted(gateway: Gateway, sha: str) -> bool:
    def read() -> bool:
        with gateway.tuple_space.space.store.read() as view:
            return view.purged_at_us(sha) is not None

    return bool(_ask_again(read))


def _read_memory(gateway: Gateway, store: str) -> Any:
    package = call(
        gateway,
        "memory_read",
        query="matter decided note 17",
        store_paths=[store],
        budget={"max_excerpt_tokens": 400},
        now_utc="2030-01-01T00:00:00Z",
        dropped="counts",
    )
    return package["selection"]["selected"]


def _call_receipt(gateway: Gateway, operation: str, receipt_id: str) -> Any:
    """Ask about a receipt; that its file was damaged and written again is told, and is no other answer."""
    answer = call(gateway, operation, id=receipt_id)
    answer.pop("file", None)
    return answer


def call(gateway: Gateway, operation: str, **fields: Any) -> Any:
    """Call an operation as the admin; return its answer as JSON's values, without times."""
    declared = OPERATIONS[operation]
    answer = gateway.call(declared, to_request(fields, declared.request), LOCAL_ADMIN)
    return _timeless(msgspec.to_builtins(answer))


_TIMES = frozenset(
    {"as_of", "age", "age_s", "expires_in", "ttl", "took_ms", "now", "uptime", "index_bytes", "disk", "unclaimed"}
)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(part) for name, part in value.items() if name not in _TIMES}
    if isinstance(value, list):
        return [_timeless(part) for part in value]
    return value
