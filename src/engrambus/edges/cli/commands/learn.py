"""`engrambus learn`: fill the memory from what the repository already says."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click
import msgspec

from engrambus.edges.cli.command import Values, local_command
from engrambus.edges.cli.screen import dim, kind, pairs, safe, safe_line
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.gateway import Credential, Gateway
    from engrambus.gateway.claude_memory import ClaudeMemory
    from engrambus.gateway.repository_reader import ReadRepository
    from engrambus.knowledge.learning import ClaimSelection

SHOWN = 3
"""Claims of each source that a preview shows."""
PROGRESS_SECONDS = 2.0
"""Time between two lines of progress in a pipe."""
_NAMES = {
    "instructions": "CLAUDE.md, AGENTS.md and the like",
    "contributing": "rules for contributors",
    "decision": "decision records",
    "owners": "CODEOWNERS",
    "ci": "CI and required versions",
    "changelog": "changelog",
    "commit": "commit messages",
    "docs": "documentation",
    "todo": "TODO, FIXME, XXX, HACK",
    "test": "tests",
    "docstring": "public docstrings",
    "claude-memory": "Claude's memory of this project",
}


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of a preview."""

    kind: str
    claim: str
    ref: str


class LearnReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `learn` found and did."""

    commit: str
    claims: int
    """Claims that were chosen, at most 500."""
    sources: dict[str, int]
    """The same by source."""
    put: int = 0
    """New engrams."""
    kept: int = 0
    """Engrams learned before that the repository still says."""
    withdrawn: int = 0
    """Engrams learned before that it no longer says, or that better ones took the place of."""
    renewed: int = 0
    repeated: int = 0
    """Claims that were known already."""
    unwanted: int = 0
    """Claims that a person has forgotten before."""
    skipped: dict[str, int] = {}
    """Texts that may not be quoted, by reason."""
    no_room: dict[str, int] = {}
    """Texts for which there was no room, by source."""
    unread: dict[str, int] = {}
    """Files of which nothing was learned, by reason."""
    read_files: int = 0
    read_commits: int = 0
    examples: dict[str, list[Example]] = {}
    """The best few of each source."""
    dry_run: bool = False


@local_command(
    "learn",
    click.Option(["--dry-run", "dry_run"], is_flag=True, help="Only show what would be learned."),
    click.Option(["--fresh", "fresh"], is_flag=True, help="Read everything, not only what has changed since."),
    click.Option(
        ["--limit", "limit"],
        type=click.IntRange(1, 500),
        help="Most engrams to keep; one source fills 40 % of them at most [default: 500]",
    ),
    click.Option(
        ["--claude-memory", "claude_memory"],
        is_flag=True,
        help="Also read what Claude Code noted about this project in your own folder; it is private.",
    ),
    section="start",
    example="engrambus learn --dry-run",
    rank=15,
)
def learn(session: Session, values: Values) -> None:
    """Fill the memory from what this repository already says, without a model.

    It quotes commit messages that explain why, decision records, the changelog, rules for contributors and agents,
    owners, CI, TODO comments, tests and public docstrings, each with a pointer to its lines. What it learns is marked
    so, and stands in a brief after what people and agents said. A later run reads only what has changed, and withdraws
    what the repository no longer says.
    """
    session.require_admin("learn")
    from engrambus.app import open_project
    from engrambus.edges.cli.progress import ProgressBar
    from engrambus.edges.cli.session import INDEXING

    with closing(open_project(session.folder, session.settings, progress=ProgressBar(INDEXING))) as gateway:
        report = learn_from(
            gateway,
            session.credential(),
            progress=LearnProgress(session),
            dry_run=values["dry_run"],
            fresh=values["fresh"],
            limit=values.get("limit"),
            memory=_claude_memory(session, gateway, asked=bool(values.get("claude_memory"))),
        )
    session.print(report, show_report)


def _claude_memory(session: Session, gateway: Gateway, *, asked: bool) -> ClaudeMemory | None:
    """Return Claude's memory of the project if the user wants it read: by the option, or asked at the first time."""
    from engrambus.gateway.claude_memory import ClaudeMemory, memory_folder, read_claude_memory
    from engrambus.operations import OPERATIONS
    from engrambus.operations.learn import ReadLearned

    if not asked:
        if session.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            return None
        state: Any = gateway.call(OPERATIONS["read_learned"], ReadLearned(), session.credential())
        if state.commit is not None:
            return None
    folder = memory_folder(session.settings.claude_home, gateway.project_files.root)
    memory = read_claude_memory(folder)
    if memory is None:
        if not asked:
            return None
        session.note(dim(f"Claude has no memory of this project: {safe(str(folder))} has no file."))
        return ClaudeMemory(folder=folder, files=[], unread={})  # what it said before is withdrawn
    question = f"Also learn from Claude's memory of this project ({len(memory.files)} files in {safe(str(folder))})?"
    return memory if asked or click.confirm(question, default=False, err=True) else None


def learn_from(
    gateway: Gateway,
    credential: Credential,
    *,
    progress: LearnProgress | None = None,
    dry_run: bool = False,
    fresh: bool = False,
    limit: int | None = None,
    memory: ClaudeMemory | None = None,
) -> LearnReport:
    """Read the repository, choose what is learned, and put it."""
    from engrambus.gateway.repository_reader import choose, make_claims, read_repository
    from engrambus.knowledge.learning import MAX_LEARNED
    from engrambus.operations import OPERATIONS
    from engrambus.operations.learn import LearnRepository, ReadLearned

    with progress or LearnProgress(None) as reporter:
        read = read_repository(gateway.project_files, fresh=fresh, remember=not dry_run, progress=reporter)
        state: Any = gateway.call(OPERATIONS["read_learned"], ReadLearned(), credential)
        room = MAX_LEARNED if limit is None else limit
        if memory is not None:
            from engrambus.gateway.claude_memory import add_memory

            read = add_memory(read, memory)
        else:
            room = max(1, room - state.from_memory)  # what was learned from Claude's memory before stays
        selection = choose(read, room)
        report = _report(read, selection, dry_run)
        if dry_run:
            return report
        claims = make_claims(gateway.project_files, read, selection.chosen, frozenset(state.keys))
        reporter("engrams", len(claims), len(claims))
        answer: Any = gateway.call(
            OPERATIONS["learn_repository"],
            LearnRepository(commit=read.commit, claims=claims, memory=memory.files if memory is not None else None),
            credential,
        )
    outcome = answer.outcome
    return msgspec.structs.replace(
        report,
        put=len(outcome.put),
        kept=outcome.kept,
        withdrawn=outcome.withdrawn,
        renewed=outcome.renewed,
        repeated=outcome.repeated,
        unwanted=outcome.unwanted,
        skipped=report.skipped | answer.skipped,
    )


class _TooLong(Exception):
    """Reading takes longer than it may."""


def count_claims(session: Session, seconds: float) -> int | None:
    """Return how many claims could be learned; None if there is no commit, or if finding out takes too long."""
    from engrambus.app import open_project
    from engrambus.errors import EngramBusError
    from engrambus.gateway.repository_reader import choose, read_repository

    end = time.monotonic() + seconds

    def check_time(part: str, done: int, total: int) -> None:
        if time.monotonic() > end:
            raise _TooLong

    try:
        with closing(open_project(session.folder, session.settings)) as gateway:
            return len(choose(read_repository(gateway.project_files, progress=check_time)).chosen)
    except (EngramBusError, _TooLong):
        return None


def _report(read: ReadRepository, selection: ClaimSelection, dry_run: bool) -> LearnReport:
    from engrambus.gateway.repository_reader import pointer_of
    from engrambus.knowledge.learning import SOURCES, best_of_each

    chosen = selection.chosen
    counts = {name: sum(item.draft.source == name for item in chosen) for name in SOURCES}
    return LearnReport(
        commit=read.commit,
        claims=len(chosen),
        sources={name: count for name, count in counts.items() if count},
        skipped=dict(sorted(selection.skipped.items())),
        no_room=dict(selection.no_room),
        unread=read.unread,
        read_files=read.read_files,
        read_commits=read.read_commits,
        examples={
            name: [Example(kind=item.draft.kind, claim=item.claim, ref=pointer_of(item.draft, read)) for item in best]
            for name, best in best_of_each(chosen, SHOWN).items()
        },
        dry_run=dry_run,
    )


def show_report(report: LearnReport) -> Iterator[str]:
    """Show what was learned, or would be."""
    if not report.claims:
        yield "The repository says nothing that could be learned."
    for name, count in report.sources.items():
        yield f"{click.style(f'{count:>4}', bold=True)}  {_NAMES[name]}"
        if report.dry_run:
            for example in report.examples.get(name, []):
                yield f"      {kind(example.kind)}  {safe_line(example.claim)}"
    yield from (dim(f"  {line}") for line in pairs(_notes(report)))
    if report.dry_run:
        yield f"{report.claims:,} claims would be learned; nothing was changed. Learn them: engrambus learn"
        return
    changes = [f"{report.put:,} learned", f"{report.kept:,} known from before"]
    changes += [f"{report.withdrawn:,} withdrawn"] if report.withdrawn else []
    yield ", ".join(changes) + f", from {report.commit[:10]}."
    if report.put:
        yield dim('Ask for one: engrambus query "why …".  All of them: engrambus feed --agent learn')


def _notes(report: LearnReport) -> list[tuple[str, str]]:
    counted = (
        ("read", {"commits": report.read_commits, "files": report.read_files}),
        ("skipped", report.skipped | ({"known": report.repeated} if report.repeated else {})),
        ("forgotten by a person", {"": report.unwanted}),
        ("not read", report.unread),
        ("no room", {"": sum(report.no_room.values())}),
    )
    rows = []
    for label, counts in counted:
        text = ", ".join(f"{count:,} {safe(name)}".strip() for name, count in counts.items() if count)
        if text:
            rows.append((label, text))
    return rows


class LearnProgress:
    """Progress of learning: one line that is rewritten on a terminal, a line every few seconds in a pipe."""

    def __init__(self, session: Session | None) -> None:
        self._session = session
        self._last = time.monotonic()
        self._status: Any = None

    def __call__(self, part: str, done: int, total: int) -> None:
        """Show that `done` of `total` are done."""
        now = time.monotonic()
        if self._session is None or now - self._last < (0.1 if sys.stderr.isatty() else PROGRESS_SECONDS):
            return
        self._last = now
        text = f"Learning: {done:,}{f' of {total:,}' if total else ''} {part}"
        if not sys.stderr.isatty() or self._session.json:
            self._session.note(text)
            return
        if self._status is None:
            from engrambus.edges.cli.progress import StatusLine

            self._status = StatusLine()
        self._status.update(text)

    def __enter__(self) -> LearnProgress:
        return self

    def __exit__(self, *problem: object) -> None:
        if self._status is not None:
            self._status.close()
