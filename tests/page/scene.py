"""A team at work on the sources of Engram Bus: what the page shows in its tests and its pictures."""

from __future__ import annotations

import ast
import inspect
import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import engrambus
from engrambus.backends.sqlite import SqliteStore
from engrambus.core import SECOND_US, BootTime, SystemClock, estimate_tokens, is_ulid
from engrambus.core.journal import GroupCommit, Journal
from engrambus.edges.http.endpoints import OperationEndpoint
from engrambus.edges.http.guard import check_request
from engrambus.edges.http.requests import read_query
from engrambus.edges.http.streams import StreamLimits
from engrambus.errors import BudgetExceeded, DerefDenied
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, to_request
from engrambus.gateway.declare import operation
from engrambus.gateway.events import filter_for
from engrambus.knowledge.engrams import posted_keys, prepare, put_all
from engrambus.knowledge.messages import check_budget, measure
from engrambus.operations import OPERATIONS
from engrambus.policy import present_turn, shared_scopes
from engrambus.policy.accounts import check_may_read, check_tokens
from engrambus.policy.grants import check_deref, check_spend, verify_token
from engrambus.settings import Settings
from engrambus.testing import StoreConformance
from tests.projects import Repository, commit_files, git, make_gateway

SOURCE = Path(engrambus.__file__).parent
PACKAGES = ("core", "policy", "knowledge", "operations", "evidence")
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

Source = type | Callable[..., Any]
"""A class or function that shows a claim. Not a path and a text: a renamed function is still found."""

CLAIMS: tuple[tuple[str, str, str, Source], ...] = (
    ("lead", "decision", "Every spend is checked and written in one commit; nothing is reserved and forgotten.",
     check_tokens),
    ("storage", "fact", "The first writer brings the index up to date with the journal before it decides.",
     SqliteStore),
    ("emil", "fact", "A turn ends with an accepted message, at a hook's boundary, or after ten idle minutes.",
     present_turn),
    ("kai", "perf", "A query over HTTP adds less than a millisecond to the same query in process.",
     OperationEndpoint.__call__),
    ("ida", "todo", "Count what a broadcast costs each child, not only its sender.", check_budget),
    ("tests", "test", "2,000 steps of the state machine gave the same answers on both back ends.", StoreConformance),
    ("lead", "policy", "The scopes org and global stay closed until an admin opens them.", shared_scopes),
    ("nora", "decision", "A grant holds for its child without the token; the token is only for passing on less.",
     check_deref),
    ("emil", "risk", "A grant that was narrowed twice can run out before its holder expects it.", check_spend),
    ("kai", "fact", "Host and Origin are checked before anything else of a request is read.", check_request),
    ("ida", "fact", "A digest that no agent of the run has read is refused, so a claim cannot cite a read that "
     "never happened.", prepare),
    ("storage", "constraint", "Only the journal is true: any index may be deleted at any time.", Journal),
    ("tests", "test", "A kill between append and sync loses no acknowledged line in 300 rounds.", GroupCommit),
    ("edges", "todo", "Say in the OpenAPI document that lists may be sent with commas.", read_query),
    ("kai", "risk", "A reader that accepts no data for ten seconds is cut off, as a laptop that slept may be.",
     StreamLimits),
    ("emil", "fact", "Spending debits every block of a grant; revoking one revokes all that were narrowed from it.",
     verify_token),
    ("nora", "fact", "Tokens are counted on the message as it was sent, since that is what its reader pays.", measure),
    ("ida", "perf", "Thirty-two postings enter the index at a time, much faster than one by one.", posted_keys),
    ("lead", "constraint", "A refused call changes nothing: when a check raises, no fact is written.", put_all),
    ("edges", "decision", "An operation is declared once; every edge is made from the declaration.", operation),
    ("tests", "test", "Both back ends pass the same suite.", StoreConformance),
    ("ida", "risk", "Two places count a deref against the turn: the check before reading and the one after.",
     OPERATIONS["deref_pointer"].run),
    ("kai", "fact", "A stream sends no event its reader may not see; each event names its audience.", filter_for),
    ("emil", "todo", "Name the block that ran out when a narrowed grant is refused.", check_spend),
)  # fmt: skip


class DelayedClock:
    """The wall clock minus a delay that shrinks as the scene goes on."""

    def __init__(self, seconds: int) -> None:
        self.delay_us = seconds * SECOND_US

    def now(self) -> int:
        """Return microseconds since 1970-01-01T00:00:00Z."""
        return SystemClock().now() - self.delay_us

    def monotonic(self) -> int:
        """Return microseconds since an arbitrary moment."""
        return SystemClock().monotonic() - self.delay_us

    def since_boot(self) -> BootTime:
        """Return the time since the machine's start, as late as the clock."""
        boot, elapsed_ms = SystemClock().since_boot()
        return BootTime(boot, elapsed_ms - self.delay_us // 1000)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.delay_us = max(0, self.delay_us - int(seconds * SECOND_US))


class Scene(NamedTuple):
    """A project in the middle of its work."""

    gateway: Gateway
    repository: Repository
    tokens: dict[str, str]

    def call(self, name: str, agent: str | None = None, /, **fields: Any) -> Any:
        """Call an operation as an agent, or as the admin."""
        declared = OPERATIONS[name]
        credential = Credential(token=self.tokens[agent]) if agent else LOCAL_ADMIN
        return self.gateway.call(declared, to_request(fields, declared.request), credential)

    def ref(self, source: Source, max_lines: int = 20) -> str:
        """Return the pointer to the lines of a class or function."""
        lines, first = inspect.getsourcelines(source)
        last = first + min(len(lines), max_lines) - 1
        return f"repo:{path_of(source)}#L{first}-L{last}@{self.repository.sha}"


def path_of(source: Source) -> str:
    """Return the path of a class's or function's file in the scene's repository."""
    path = inspect.getsourcefile(source)
    assert path is not None
    return f"src/engrambus/{Path(path).relative_to(SOURCE)}"


def make_scene(folder: Path, *, engrams: int = 260) -> Scene:
    """Return a team of eight that has worked for two hours."""
    path = folder / "engrambus"
    shutil.copytree(SOURCE, path / "src/engrambus", ignore=shutil.ignore_patterns("__pycache__", "vendor"))
    clock = DelayedClock(7200)
    settings = Settings.from_environment({"HOME": str(folder / "home")})
    sha = _first_commit(path)
    scene = Scene(make_gateway(path, settings, clock), Repository(path, sha), {})
    scene.call("open_run", goal=GOAL)
    for name, (role, parent) in TEAM.items():
        clock.advance(5)
        scene.tokens[name] = scene.call("add_agent", name=name, role=role, parent=parent).token
    _put_engrams(scene, clock, engrams)
    _change_sources(scene)
    _pin_constraint(scene)
    clock.advance(7200)
    _use_budgets(scene)
    _request_more(scene)
    return scene


def _first_commit(path: Path) -> str:
    git(path, "init", "-q", "-b", "main")
    git(path, "remote", "add", "origin", "https://github.com/example/engrambus.git")
    return commit_files(path, {"README.md": "# Engram Bus\n"})


def _put_engrams(scene: Scene, clock: DelayedClock, engrams: int) -> None:
    """Put older engrams made from docstrings of the sources, then those of `CLAIMS`."""
    rng = random.Random(5)
    docstrings = list(_docstrings())
    rng.shuffle(docstrings)
    pace_seconds = (clock.delay_us / SECOND_US - 60) / (engrams + 12)
    authors = [name for name in TEAM if name != "lead"]
    kinds = ("fact", "fact", "fact", "fact", "decision", "todo", "test", "perf", "risk")
    for number, (claim, path, first, last) in enumerate(docstrings[: engrams - len(CLAIMS)]):
        clock.advance(pace_seconds * rng.uniform(0.1, 1.9))
        refs = [f"repo:src/engrambus/{path}#L{first}-L{last}@{scene.repository.sha}"]
        if rng.random() < 0.25:
            _, path, first, last = rng.choice(docstrings)
            refs.append(f"repo:src/engrambus/{path}#L{first}-L{last}@{scene.repository.sha}")
        kind, author = rng.choice(kinds), rng.choice(authors)
        _put(scene, author, kind, claim, refs, scope="run" if kind == "test" else "project")
        _do_other_work(scene, number, rng)
    pace_seconds = clock.delay_us / SECOND_US / (len(CLAIMS) + 1)
    for number, (author, kind, claim, source) in enumerate(CLAIMS):
        clock.advance(pace_seconds * rng.uniform(0.5, 1.5))
        refs = [scene.ref(source)]
        if "Two places" in claim:
            refs.append(scene.ref(check_may_read))
        _put(scene, author, kind, claim, refs)
        _do_other_work(scene, number, rng)
    for row in scene.call("list_contradictions", k=100).contradictions:
        scene.call("decide_contradiction", id=row.contradiction_id, keep="both", reason="Sentences that look alike.")


def _do_other_work(scene: Scene, number: int, rng: random.Random) -> None:
    """Send a report, read a pointer or read a brief, each after some engrams."""
    agent = rng.choice(("emil", "ida", "kai"))
    if number % 9 == 5:
        _report(scene, agent, too_long=rng.random() < 0.3)
    if number % 3 == 0:
        _read(scene, agent, rng.choice((present_turn, is_ulid, shared_scopes, read_query)))
    if number % 60 == 30:
        scene.call("brief", "lead")
    if number % 8 == 3:
        scene.call("brief", "emil")


def _put(scene: Scene, author: str, kind: str, claim: str, refs: list[str], **fields: Any) -> None:
    pointers = [{"type": "repo", "ref": ref} for ref in dict.fromkeys(refs)]
    scene.call("put_engram", author, claim=claim, kind=kind, pointers=pointers, **fields)


def _report(scene: Scene, agent: str, *, too_long: bool) -> None:
    """Send a report, after one that is rejected if `too_long`."""
    template = "ROLE: programmer\nTASK_STATUS: in_progress\nOUTPUT: {summary: %s}\n"
    if too_long:
        with suppress(BudgetExceeded):
            scene.call("send_message", agent, text=template % ("We looked at it again. " * 200))
    scene.call("send_message", agent, text=template % ("The check holds; two cases are left. " * 8))


def _read(scene: Scene, agent: str, source: Source) -> None:
    with suppress(DerefDenied):
        scene.call("deref_pointer", agent, pointer=scene.ref(source))


def _use_budgets(scene: Scene) -> None:
    """Use some of the budget of the agents' current turns, point the team at lines, and grant more."""
    pack = [{"type": "repo", "ref": scene.ref(source)} for source in (present_turn, is_ulid, shared_scopes)]
    for parent in dict.fromkeys(parent for _, parent in TEAM.values() if parent):  # each passes it on to its children
        message = {"ROLE": TEAM[parent][0], "SHARED_BRIEF_MICRO": ["Start with these."], "TARGET_POINTER_PACK": pack}
        scene.call("broadcast", parent, text=json.dumps(message))
    for agent, reads in (("emil", 3), ("ida", 2), ("kai", 1), ("nora", 1)):
        for source in (present_turn, is_ulid, shared_scopes)[:reads]:
            _read(scene, agent, source)
    scene.call(
        "issue_grant", "nora", child_id="emil", cap_tokens=900, uses=3,
        pointer=f"repo:{path_of(check_spend)}@{scene.repository.sha}",
    )  # fmt: skip


def _change_sources(scene: Scene) -> None:
    """Commit changes after which lines have moved, lines have changed, and a file is gone."""
    root = scene.repository.path
    turns, streams, spend = path_of(check_tokens), path_of(StreamLimits), path_of(check_spend)
    commit_files(
        root,
        {
            path_of(estimate_tokens): None,
            turns: (root / turns).read_text().replace("def check_tokens(", "async def check_tokens("),
            streams: (root / streams).read_text().replace("stall_seconds: float = 10.0", "stall_seconds: float = 30.0"),
            spend: "# A new first line.\n" + (root / spend).read_text(),
        },
    )


def _pin_constraint(scene: Scene) -> None:
    (row,) = scene.call("feed", q="only the journal is true").rows
    scene.call("pin_engram", id=row.engram.id)


def _request_more(scene: Scene) -> None:
    sha = scene.repository.sha
    scene.call(
        "request_deref", "ida", pointer=f"repo:src/engrambus/operations/grants.py#L1-L200@{sha}",
        reason="To see whether approving twice can issue two grants.",
        intended_use="One engram about the race, or none.", max_tokens=1200,
    )  # fmt: skip
    scene.call(
        "request_deref", "kai", pointer=f"repo:{path_of(StreamLimits)}#L40-L100@{sha}",
        reason="The stall timer: does a heartbeat reset it?", max_tokens=600,
    )  # fmt: skip


def _docstrings() -> Iterator[tuple[str, str, int, int]]:
    """Yield sentences from the sources' docstrings as claims, each with the path and lines that show it."""
    for package in PACKAGES:
        # Docstrings about secrets show some, which no put accepts.
        for path in sorted(path for path in (SOURCE / package).rglob("*.py") if "secrets" not in path.parts):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and (docstring := ast.get_docstring(node)):
                    claim = docstring.partition("\n")[0]
                    if 30 < len(claim) < 160 and claim.endswith("."):
                        last = min(node.end_lineno or node.lineno, node.lineno + 40)
                        yield claim, str(path.relative_to(SOURCE)), node.lineno, last
