"""`engrambus adopt`: show what a journal of another project holds, set it aside, and take its knowledge on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from engrambus.edges.cli.screen import safe, safe_id
from engrambus.edges.cli.session import Session
from engrambus.operations.adoption import ForeignSource, ForeignSummary

if TYPE_CHECKING:
    from engrambus.app import ForeignState

BATCH = 200
"""Engrams and memories of one commit."""
MAX_PINS_LISTED = 20


class Adopted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `adopt` found and did."""

    found: list[ForeignSummary] = []
    set_aside: str | None = None
    """The folder that the foreign files are in now."""
    engrams: int = 0
    """Engrams that were taken on as untrusted."""
    pins: list[str] = []
    """Ids of those that were pinned where they came from; they are pinned here when a person confirms them."""
    contributions: int = 0
    """Memories that wait for review."""
    known: int = 0
    """Engrams and memories that had been taken on before."""
    skipped: dict[str, int] = {}
    """What breaks a rule of this project, counted by the code of the refusal."""
    dry_run: bool = False


def adopt_knowledge(session: Session, path: Path | None, *, discard: bool, dry_run: bool) -> Adopted:
    """Take the knowledge of foreign journals on as untrusted: of those at `path`, or of the project's own folder."""
    from engrambus.app import find_foreign_state, finish_adoption
    from engrambus.policy import JOURNAL

    if path is not None:
        source = _read(path if path.is_dir() else path.parent)
        return _take(session, [source], Adopted(found=[source.summary], dry_run=dry_run))
    foreign = find_foreign_state(session.folder, session.settings)
    folders = [folder.parent for folder in foreign.journals if folder.name == JOURNAL]
    sources = [] if discard and not dry_run else [_read(folder) for folder in (*folders, *foreign.unfinished)]
    answer = Adopted(found=[source.summary for source in sources], dry_run=dry_run)
    if dry_run:
        return answer
    answer, aside = _set_aside(session, foreign, answer) if foreign.journals else (answer, [])
    unfinished = [*aside, *foreign.unfinished]
    if not discard:
        # Read again where it lies now: what was shown before may have been changed since.
        answer = _take(session, [_read(folder) for folder in unfinished if (folder / JOURNAL).is_file()], answer)
    done = [finish_adoption(folder) for folder in unfinished]
    return msgspec.structs.replace(answer, set_aside=str(done[0]) if done else None)


def _set_aside(session: Session, foreign: ForeignState, answer: Adopted) -> tuple[Adopted, list[Path]]:
    from engrambus.app import set_foreign_aside

    folder = set_foreign_aside(session.folder, session.settings, foreign)
    return msgspec.structs.replace(answer, set_aside=str(folder)), [folder]


def _read(folder: Path) -> ForeignSource:
    from engrambus.app import read_foreign_knowledge
    from engrambus.edges.cli.progress import ProgressBar
    from engrambus.errors import FormatUnknown, ProjectNotFound
    from engrambus.policy import JOURNAL

    if not (folder / JOURNAL).is_file():
        raise ProjectNotFound(
            f"There is no journal in {folder}.", field="path", hint=f"Name the folder with {JOURNAL}."
        )
    try:
        with ProgressBar("Reading the foreign journal") as bar:
            return read_foreign_knowledge(folder.resolve(), progress=bar)
    except FormatUnknown as problem:
        problem.hint = "Nothing can be taken on from it. Set it aside: engrambus adopt --discard."
        raise


def _take(session: Session, sources: list[ForeignSource], answer: Adopted) -> Adopted:
    """Send everything that is live in these journals to the gateway, a batch at a time."""
    if answer.dry_run or not sources:
        return answer
    from engrambus.knowledge.engrams import ForeignEngram
    from engrambus.operations import OPERATIONS
    from engrambus.operations.adoption import AdoptKnowledge

    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    pins: list[str] = []
    with session.bus() as bus:
        for source in sources:
            items = source.items()
            while batch := list(islice(items, BATCH)):
                request = AdoptKnowledge(
                    origin=source.summary.project,
                    engrams=[item for item in batch if isinstance(item, ForeignEngram)],
                    memories=[item for item in batch if not isinstance(item, ForeignEngram)],
                )
                part: Any = bus.call(OPERATIONS["adopt_knowledge"], request)
                counts.update(engrams=len(part.engrams), contributions=len(part.contributions), known=part.known)
                skipped.update(part.skipped)
                pins += part.pins
    return msgspec.structs.replace(answer, **counts, pins=pins, skipped=dict(sorted(skipped.items())))


def show_adopted(answer: Adopted) -> Iterator[str]:
    """Show what was found, where it is now, and what a person does next."""
    if not answer.found and answer.set_aside is None:
        yield "The journals are yours: there is nothing to adopt."
        return
    for summary in answer.found:
        yield from _describe(summary)
    if answer.set_aside is not None:
        folder = Path(answer.set_aside)
        shown = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
        yield f"Set aside as {safe(str(shown))}; your own journal has begun."
    if answer.dry_run:
        yield "Nothing was changed. Take it on: engrambus adopt. Leave it out: engrambus adopt --discard."
        return
    if not answer.found:
        yield "Nothing of it was taken on."
        return
    known = f"; {answer.known:,} known before" if answer.known else ""
    taken = f"{_count(answer.engrams, 'engram')}, {_count(answer.contributions, 'memory', 'memories')} to review"
    yield f"Taken on as untrusted: {taken}{known}."
    if answer.skipped:
        codes = ", ".join(f"{count:,} {safe(code)}" for code, count in answer.skipped.items())
        yield f"Left out, because they break a rule of this project: {codes}."
    if answer.pins:
        yield f"Pinned there, and in no brief here until you confirm them: {len(answer.pins):,}"
        yield from (f"  engrambus confirm {safe_id(name)}" for name in answer.pins[:MAX_PINS_LISTED])
    if answer.engrams or answer.contributions:
        yield "Look at them: engrambus feed --untrusted, engrambus review list."


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def _describe(summary: ForeignSummary) -> Iterator[str]:
    from engrambus.core import print_time

    first, last = (print_time(time_us)[:16].replace("T", " ") for time_us in (summary.first_us, summary.last_us))
    times = f", {first} to {last}" if summary.commits else ""
    yield f"A journal of project {safe(summary.project)}: {_count(summary.commits, 'commit')}{times}"
    memories = _count(summary.memories, "memory", "memories")
    yield f"  {_count(summary.engrams, 'engram')} ({summary.pins:,} pinned), {memories}"
    left = (
        (summary.run_engrams, "engrams of single runs"),
        (summary.shared_engrams, "of wider scopes"),
        (summary.expired, "expired"),
        (summary.contributions, "contributions"),
        (summary.tuples, "tuples"),
    )
    behind = ", ".join(f"{count:,} {what}" for count, what in left if count)
    if behind:
        yield f"  stays behind: {behind}"
    if summary.unreadable:
        yield f"  {summary.unreadable:,} entries cannot be read"
    if summary.problem is not None:
        yield f"  {safe(summary.problem)} What comes before is taken."
