"""A team at work on Stigmergy's own sources: what the page shows in its tests and its pictures."""

from __future__ import annotations

import ast
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import stigmergy
from stigmergy.core import SECOND, SystemClock
from stigmergy.errors import BudgetExceeded, DerefDenied
from stigmergy.operations import LOCAL_ADMIN, OPERATIONS, Credential, Gateway, to_request
from stigmergy.settings import Settings
from tests.projects import Repository, commit_files, git, make_gateway

SOURCE = Path(stigmergy.__file__).parent
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
     "policy/turns.py", "def check_tokens", 12),
    ("lead", "constraint", "A refusal changes nothing: no fact is written when a check raises.",
     "operations/ports.py", "A change is a function", 4),
    ("storage", "constraint", "An index may be deleted at any time; only the journal is true.",
     "backends/sqlite/index.py", "def build_index", 14),
    ("emil", "risk", "A grant that is narrowed twice is debited to every block, so a cap can be hit earlier than its "
     "holder expects.", "policy/grants/spend.py", "def check_spend", 14),
    ("ida", "risk", "Two readers that resume from the same mark read the same lines twice; the feed caches only the "
     "newest five hundred.", "operations/events/feed.py", "def lines_after", 10),
    ("kai", "risk", "A reader that takes nothing is cut off after ten seconds, which a suspended laptop may well be.",
     "edges/http/events.py", "STALL_SECONDS", 3),
    ("nora", "todo", "Count what a broadcast costs each child, not only its sender.", "knowledge/messages/budget.py",
     "def ", 20),
    ("ida", "fact", "A turn closes on an accepted message, on a hook boundary, or after ten idle minutes.",
     "policy/turns.py", "def present_turn", 6),
    ("tests", "test", "The state machine ran 2,000 steps against both back ends and found no difference.",
     "testing/machine.py", "class ", 8),
    ("kai", "perf", "A query over HTTP adds less than a millisecond to the same query in process.",
     "edges/http/calls.py", "async def __call__", 20),
    ("lead", "policy", "Org and global stay closed until an admin opens them.", "policy/scopes.py",
     "def shared_scopes", 4),
)  # fmt: skip


class SlowClock:
    """The wall clock, so many seconds late; it catches up as the scene goes on."""

    def __init__(self, seconds: int) -> None:
        self.late = seconds * SECOND

    def now(self) -> int:
        """Microseconds since 1970-01-01T00:00:00Z."""
        return SystemClock().now() - self.late

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
        first = next(number for number, line in enumerate(text, 1) if needle in line)
        return f"repo:{path}#L{first}-L{min(len(text), first + lines - 1)}@{self.repository.sha}"


def make_scene(folder: Path, *, engrams: int = 260) -> Scene:
    """A team of eight that has been at it for two hours."""
    path = folder / "stigmergy"
    shutil.copytree(SOURCE, path / "src/stigmergy", ignore=shutil.ignore_patterns("__pycache__", "vendor"))
    clock = SlowClock(7200)
    settings = Settings.from_environment({"HOME": str(folder / "home")})
    sha = _first_commit(path)
    scene = Scene(make_gateway(path, settings, clock), Repository(path, sha), {})
    scene.call("open_run", goal=GOAL)
    for name, (role, parent) in TEAM.items():
        clock.pass_by(5)
        scene.tokens[name] = scene.call("add_agent", name=name, role=role, parent=parent).token
    _talk(scene, clock, engrams)
    _spend(scene)
    _change_the_sources(scene)
    clock.pass_by(7200)
    _ask_for_more(scene)
    return scene


def _first_commit(path: Path) -> str:
    git(path, "init", "-q", "-b", "main")
    git(path, "remote", "add", "origin", "https://github.com/example/stigmergy.git")
    return commit_files(path, {"README.md": "# Stigmergy\n"})


def _talk(scene: Scene, clock: SlowClock, engrams: int) -> None:
    chance = random.Random(5)
    found = list(_docstrings())
    chance.shuffle(found)
    pace = clock.late / SECOND / (engrams + 20)
    speakers = [name for name in TEAM if name != "lead"]
    kinds = ("fact", "fact", "fact", "fact", "decision", "todo", "test", "perf", "risk")
    said = iter(SAID)
    for number, (claim, path, first, last) in enumerate(found[:engrams]):
        clock.pass_by(pace * chance.uniform(0.1, 1.9))
        refs = [f"repo:src/stigmergy/{path}#L{first}-L{last}@{scene.repository.sha}"]
        if chance.random() < 0.25:
            _, other, begin, end = chance.choice(found)
            refs.append(f"repo:src/stigmergy/{other}#L{begin}-L{end}@{scene.repository.sha}")
        kind, who = chance.choice(kinds), chance.choice(speakers)
        _put(scene, who, kind, claim, refs, scope="run" if kind == "test" else "project")
        if number % (engrams // len(SAID)) == engrams // len(SAID) - 1:
            who, kind, claim, path, needle, lines = next(said, (None,) * 6)  # type: ignore[assignment]
            if who:
                _put(scene, who, kind, claim, [scene.ref(f"src/stigmergy/{path}", needle, lines)])
        if number % 40 == 20:
            _report(scene, chance.choice(("emil", "ida", "kai")))
        if number % 60 == 30:
            scene.call("brief", "lead")
            scene.call("brief", "emil")


def _put(scene: Scene, who: str, kind: str, claim: str, refs: list[str], **more: Any) -> None:
    pointers = [{"type": "repo", "ref": ref} for ref in dict.fromkeys(refs)]
    scene.call("put_engram", who, claim=claim, kind=kind, pointers=pointers, **more)


def _report(scene: Scene, who: str) -> None:
    """A report that was too long, and the one sent in its place."""
    wordy = "We looked at it again. " * 200
    shape = "ROLE: programmer\nTASK_STATUS: in_progress\nOUTPUT: {summary: %s}\n"
    try:
        scene.call("send_message", who, text=shape % wordy)
    except BudgetExceeded:
        scene.call("send_message", who, text=shape % "The check holds; two cases are left.")


def _spend(scene: Scene) -> None:
    for who in ("emil", "ida", "kai", "nora"):
        for path, first in (("policy/turns.py", 10), ("core/ids.py", 5), ("policy/scopes.py", 20))[: len(who) - 1]:
            try:
                pointer = f"repo:src/stigmergy/{path}#L{first}-L{first + 12}@{scene.repository.sha}"
                scene.call("deref_pointer", who, pointer=pointer)
            except DerefDenied:
                break
    scene.call(
        "issue_grant", "nora", child_id="emil", cap_tokens=900, uses=3,
        pointer=f"repo:src/stigmergy/policy/grants/spend.py@{scene.repository.sha}",
    )  # fmt: skip


def _change_the_sources(scene: Scene) -> None:
    """Somebody commits: some lines move, some change, a file goes."""
    root = scene.repository.path
    files: dict[str, str | None] = {"src/stigmergy/core/tokens.py": None}
    turns = "src/stigmergy/policy/turns.py"
    files[turns] = (root / turns).read_text().replace("def check_tokens(turn: Turn,", "def check_tokens(now: Turn,")
    spend = "src/stigmergy/policy/grants/spend.py"
    files[spend] = "# A line more above all others.\n" + (root / spend).read_text()
    commit_files(root, files)


def _ask_for_more(scene: Scene) -> None:
    sha = scene.repository.sha
    scene.call(
        "request_deref", "ida", pointer=f"repo:src/stigmergy/operations/grants.py#L1-L200@{sha}",
        reason="To see whether approving twice can issue two grants.",
        intended_use="One engram about the race, or none.", max_tokens=1200,
    )  # fmt: skip
    scene.call(
        "request_deref", "kai", pointer=f"repo:src/stigmergy/edges/http/events.py#L120-L240@{sha}",
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
