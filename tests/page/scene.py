"""A team at work on Engram Bus's own sources: what the page shows in its tests and its pictures."""

from __future__ import annotations

import ast
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import engrambus
from engrambus.core import SECOND, SystemClock
from engrambus.errors import BudgetExceeded, DerefDenied
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from tests.projects import Repository, commit_files, git, make_gateway

SOURCE = Path(engrambus.__file__).parent
ROOMS = ("core", "policy", "knowledge", "operations", "evidence")
TEAM = {
    "lead": ("architect", None),
    "storage": ("director", "lead"),
    "edges": ("director", "lead"),
    "nora": ("manager", "storage"),
    "emil": ("programmer", "nora"),
    "ida": ("programmer", "nora"),
    "kai": ("programmer", "edges"),
    "tests": ("tool", "edges"),
}
GOAL = "Budgets that hold under load"

SAID = (
    ("lead", "decision", "Every spend is checked and written in one commit; nothing is reserved and forgotten.",
     "policy/turns.py", "def check_tokens", 14),
    ("storage", "fact", "Whoever takes the write lock first brings the index up to the journal before deciding.",
     "backends/sqlite/journal_index.py", "def _up_to_date", 28),
    ("emil", "fact", "A turn ends with an accepted message, at a hook's boundary, or after ten idle minutes.",
     "policy/turns.py", "def present_turn", 6),
    ("kai", "perf", "A query over HTTP adds less than a millisecond to the same query in process.",
     "edges/http/calls.py", "async def __call__", 20),
    ("ida", "todo", "Count what a broadcast costs each child, not only its sender.",
     "knowledge/messages/budget.py", "def ", 20),
    ("tests", "test", "2,000 steps of the state machine gave the same answers on both back ends.",
     "testing/machine.py", "class ", 8),
    ("lead", "policy", "Org and global stay closed until an admin opens them.", "policy/scopes.py",
     "def shared_scopes", 4),
    ("nora", "decision", "A grant holds for its child without the token; the token is only for passing less on.",
     "operations/pointers.py", "A grant also holds", 6),
    ("emil", "risk", "A grant narrowed twice is debited to every block, so its cap can be hit before its holder "
     "expects it.", "policy/grants/spend.py", "def check_spend", 14),
    ("kai", "fact", "Host and Origin are checked before anything of a request is read.", "edges/http/guard.py",
     "def _check", 12),
    ("ida", "fact", "A digest nobody in the run has read is refused, so a claim cannot cite a phantom read.",
     "operations/engrams.py", "PhantomRead", 6),
    ("storage", "constraint", "Only the journal is true: any index may be deleted at any time.",
     "backends/sqlite/journal_index.py", "def _build", 14),
    ("tests", "test", "A kill between append and sync loses no acknowledged line in 300 rounds.",
     "core/journal/group.py", "class ", 20),
    ("edges", "todo", "Say in the OpenAPI document that lists may be given by commas.", "edges/http/requests.py",
     "def read_query", 8),
    ("kai", "risk", "A reader that takes nothing for ten seconds is cut off, which a laptop that slept may well be.",
     "edges/http/streams.py", "STALL_SECONDS", 3),
    ("emil", "fact", "Spending debits every block of a grant; revoking one takes all that was narrowed from it.",
     "policy/grants/verifying.py", "def ", 20),
    ("nora", "fact", "Inline tokens are counted on the message as sent, since that is what its reader pays.",
     "knowledge/messages/budget.py", "def ", 12),
    ("ida", "perf", "Thirty-two postings enter the index at a time, at a fraction of one by one.",
     "backends/sqlite/projection.py", "def flush", 20),
    ("lead", "constraint", "A refusal changes nothing: when a check raises, no fact is written.",
     "operations/ports.py", "A change is a function", 4),
    ("edges", "decision", "An operation is declared once; every edge is made from the declaration.",
     "operations/declare.py", "def operation(", 14),
    ("tests", "test", "Both back ends pass the same suite, one test at a time.", "testing/conformance/__init__.py",
     "class Conformance", 3),
    ("ida", "risk", "Two places count a deref against the turn: the check before reading and the one after.",
     "operations/pointers.py", "def _paid", 40),
    ("kai", "fact", "A stream is told of nothing its reader may not see; the audience stands in the event itself.",
     "operations/events/values.py", "def sight_of", 4),
    ("emil", "todo", "Name the block that ran out when a narrowed grant is refused.", "policy/grants/spend.py",
     "def check_spend", 14),
)  # fmt: skip


class SlowClock:
    """The wall clock, so many seconds late; it catches up as the scene goes on."""

    def __init__(self, seconds: int) -> None:
        self.late = seconds * SECOND

    def now(self) -> int:
        """Microseconds since 1970-01-01T00:00:00Z."""
        return SystemClock().now() - self.late

    def passed(self) -> int:
        """Microseconds since some moment."""
        return SystemClock().passed() - self.late

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self.late = max(0, self.late - int(seconds * SECOND))


class Scene(NamedTuple):
    """A project in the middle of its work."""

    gateway: Gateway
    repository: Repository
    tokens: dict[str, str]

    def call(self, operation: str, who: str | None = None, /, **fields: Any) -> Any:
        """Call an operation as an agent, or as the admin."""
        declared = OPERATIONS[operation]
        credential = Credential(token=self.tokens[who]) if who else LOCAL_ADMIN
        return self.gateway.call(declared, to_request(fields, declared.request), credential)

    def ref(self, path: str, needle: str, lines: int = 1) -> str:
        """The pointer at some lines of a file, from the one that holds a text."""
        text = (self.repository.path / path).read_text("utf-8").splitlines()
        first = next((number for number, line in enumerate(text, 1) if needle in line), 0)
        assert first, f"{needle!r} is no longer in {path}: let the scene point elsewhere"
        return f"repo:{path}#L{first}-L{min(len(text), first + lines - 1)}@{self.repository.sha}"


def make_scene(folder: Path, *, engrams: int = 260) -> Scene:
    """A team of eight that has been at it for two hours."""
    path = folder / "engrambus"
    shutil.copytree(SOURCE, path / "src/engrambus", ignore=shutil.ignore_patterns("__pycache__", "vendor"))
    clock = SlowClock(7200)
    settings = Settings.from_environment({"HOME": str(folder / "home")})
    sha = _first_commit(path)
    scene = Scene(make_gateway(path, settings, clock), Repository(path, sha), {})
    scene.call("open_run", goal=GOAL)
    for name, (role, parent) in TEAM.items():
        clock.pass_by(5)
        scene.tokens[name] = scene.call("add_agent", name=name, role=role, parent=parent).token
    _talk(scene, clock, engrams)
    _change_the_sources(scene)
    _pin(scene)
    clock.pass_by(7200)
    _spend(scene)
    _ask_for_more(scene)
    return scene


def _first_commit(path: Path) -> str:
    git(path, "init", "-q", "-b", "main")
    git(path, "remote", "add", "origin", "https://github.com/example/engrambus.git")
    return commit_files(path, {"README.md": "# Engram Bus\n"})


def _talk(scene: Scene, clock: SlowClock, engrams: int) -> None:
    """Older engrams say what the sources say of themselves; the newest are written for their readers."""
    chance = random.Random(5)
    found = list(_docstrings())
    chance.shuffle(found)
    older = engrams - len(SAID)
    pace = (clock.late / SECOND - 60) / (engrams + 12)
    speakers = [name for name in TEAM if name != "lead"]
    kinds = ("fact", "fact", "fact", "fact", "decision", "todo", "test", "perf", "risk")
    for number, (claim, path, first, last) in enumerate(found[:older]):
        clock.pass_by(pace * chance.uniform(0.1, 1.9))
        refs = [f"repo:src/engrambus/{path}#L{first}-L{last}@{scene.repository.sha}"]
        if chance.random() < 0.25:
            _, other, begin, end = chance.choice(found)
            refs.append(f"repo:src/engrambus/{other}#L{begin}-L{end}@{scene.repository.sha}")
        kind, who = chance.choice(kinds), chance.choice(speakers)
        _put(scene, who, kind, claim, refs, scope="run" if kind == "test" else "project")
        _meanwhile(scene, number, chance)
    pace = clock.late / SECOND / (len(SAID) + 1)
    for number, (who, kind, claim, path, needle, lines) in enumerate(SAID):
        clock.pass_by(pace * chance.uniform(0.5, 1.5))
        refs = [scene.ref(f"src/engrambus/{path}", needle, lines)]
        if "Two places" in claim:
            refs.append(scene.ref("src/engrambus/policy/turns.py", "def check_may_deref", 12))
        _put(scene, who, kind, claim, refs)
        _meanwhile(scene, number, chance)


def _meanwhile(scene: Scene, number: int, chance: random.Random) -> None:
    """What happens beside the engrams: reports, reads, briefs."""
    who = chance.choice(("emil", "ida", "kai"))
    if number % 9 == 5:
        _report(scene, who, wordy=chance.random() < 0.3)
    if number % 3 == 0:
        _read(
            scene, who, chance.choice(("policy/turns.py", "core/ids.py", "policy/scopes.py", "operations/fitting.py"))
        )
    if number % 60 == 30:
        scene.call("brief", "lead")
    if number % 8 == 3:
        scene.call("brief", "emil")


def _put(scene: Scene, who: str, kind: str, claim: str, refs: list[str], **more: Any) -> None:
    pointers = [{"type": "repo", "ref": ref} for ref in dict.fromkeys(refs)]
    scene.call("put_engram", who, claim=claim, kind=kind, pointers=pointers, **more)


def _report(scene: Scene, who: str, *, wordy: bool) -> None:
    """A report; one that is too long is sent back, and another in its place."""
    shape = "ROLE: programmer\nTASK_STATUS: in_progress\nOUTPUT: {summary: %s}\n"
    if wordy:
        with suppress(BudgetExceeded):
            scene.call("send_message", who, text=shape % ("We looked at it again. " * 200))
    scene.call("send_message", who, text=shape % ("The check holds; two cases are left. " * 8))


def _read(scene: Scene, who: str, path: str, first: int = 10) -> None:
    pointer = f"repo:src/engrambus/{path}#L{first}-L{first + 15}@{scene.repository.sha}"
    with suppress(DerefDenied):
        scene.call("deref_pointer", who, pointer=pointer)


def _spend(scene: Scene) -> None:
    """What the turns that are open now have used."""
    for who, reads in (("emil", 3), ("ida", 2), ("kai", 1), ("nora", 1)):
        for path in ("policy/turns.py", "core/ids.py", "policy/scopes.py")[:reads]:
            _read(scene, who, path)
    scene.call(
        "issue_grant", "nora", child_id="emil", cap_tokens=900, uses=3,
        pointer=f"repo:src/engrambus/policy/grants/spend.py@{scene.repository.sha}",
    )  # fmt: skip


def _change_the_sources(scene: Scene) -> None:
    """Somebody commits: some lines move, some change, a file goes."""
    root = scene.repository.path
    files: dict[str, str | None] = {"src/engrambus/core/tokens.py": None}
    turns = "src/engrambus/policy/turns.py"
    files[turns] = (root / turns).read_text().replace("def check_tokens(turn: Turn,", "def check_tokens(now: Turn,")
    streams = "src/engrambus/edges/http/streams.py"
    files[streams] = (root / streams).read_text().replace("STALL_SECONDS = 10.0", "STALL_SECONDS = 30.0")
    spend = "src/engrambus/policy/grants/spend.py"
    files[spend] = "# A line more above all others.\n" + (root / spend).read_text()
    commit_files(root, files)


def _pin(scene: Scene) -> None:
    (row,) = scene.call("feed", q="only the journal is true").rows
    scene.call("pin_engram", id=row.engram.id)


def _ask_for_more(scene: Scene) -> None:
    sha = scene.repository.sha
    scene.call(
        "request_deref", "ida", pointer=f"repo:src/engrambus/operations/grants.py#L1-L200@{sha}",
        reason="To see whether approving twice can issue two grants.",
        intended_use="One engram about the race, or none.", max_tokens=1200,
    )  # fmt: skip
    scene.call(
        "request_deref", "kai", pointer=f"repo:src/engrambus/edges/http/streams.py#L40-L100@{sha}",
        reason="The stall timer: does a heartbeat reset it?", max_tokens=600,
    )  # fmt: skip


def _docstrings() -> Iterator[tuple[str, str, int, int]]:
    """What the sources say of themselves: a claim, and the lines that show it."""
    for room in ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and (said := ast.get_docstring(node)):
                    claim = said.partition("\n")[0]
                    if 30 < len(claim) < 160 and claim.endswith("."):
                        last = min(node.end_lineno or node.lineno, node.lineno + 40)
                        yield claim, str(path.relative_to(SOURCE)), node.lineno, last
