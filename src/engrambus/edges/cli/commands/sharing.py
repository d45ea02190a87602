"""`engrambus export`, `import` and `sync`: engrams that people share through git, without a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from engrambus.edges.cli.command import Values, local_command
from engrambus.edges.cli.screen import dim, safe, safe_id
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.edges.sdk import Bus
    from engrambus.knowledge.sharing import ExportedFiles, ImportableEngram

BATCH = 200
"""Engrams of one commit."""
MAX_LISTED = 20
FOLDER = "engrams"
BRANCH = "shared-engrams"
"""Not the name of the folder, or git would have to be told which of the two is meant."""


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of an export."""

    folder: str
    key: str
    new: list[str] = []
    """Engrams whose file is new."""
    longer: list[str] = []
    """Engrams whose file has more lines than before."""
    unchanged: int = 0
    skipped: dict[str, int] = {}
    """Engrams that hold what may not leave the project, counted by the code of the refusal."""


class Signer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Part of an import that one public key signed."""

    key: str
    name: str | None = None
    """Its name in `project.yaml`; none if the project does not know the key."""
    is_own: bool = False
    """True if it is the key of this machine."""
    engrams: int = 0
    new: int = 0
    """Engrams that were taken on as untrusted."""


class RefusedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line, a file or an engram that was not taken on."""

    code: str
    detail: str
    file: str = ""
    line: int = 0
    id: str = ""
    key: str = ""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of an import."""

    source: str
    files: int = 0
    new: list[str] = []
    """Ids of the engrams that were taken on as untrusted."""
    known: int = 0
    """Engrams that are here already, or were and are not wanted."""
    replaced: list[str] = []
    """Ids of untrusted engrams that were replaced where they come from."""
    withdrawn: list[str] = []
    """Ids of untrusted engrams that their authors have withdrawn."""
    ended: int = 0
    """Engrams that ended before they came here."""
    pins: list[str] = []
    """Ids of new engrams that are pinned where they come from."""
    signers: list[Signer] = []
    refused: list[RefusedItem] = []
    more_refused: int = 0
    """Refused lines beyond those that are listed."""


class SyncOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a sync."""

    ref: str
    remote: str
    commit: str | None = None
    """The commit that the ref is here."""
    new: int = 0
    """Engrams that this project added to the ref."""
    longer: int = 0
    pushed: bool = False
    skipped: dict[str, int] = {}
    imported: Imported | None = None


@local_command(
    "export",
    click.Option(["--to", "to"], metavar="FOLDER", help="The folder to write to; by default engrams in the worktree."),
    section="team",
    example="engrambus export",
    rank=80,
)
def export(session: Session, values: Values) -> None:
    """Write the engrams of the project as signed text files that people review and commit.

    One file for each engram; lines are only added. What only a run sees, memories, messages and claims that nobody has
    confirmed are not written. Others take the files on with engrambus import.
    """
    from engrambus.app import write_shared_folder

    session.require_admin("export")
    folder = _export_folder(session, values.get("to"))
    with session.bus() as bus:
        shared = _Shared(session, bus)
    written = write_shared_folder(folder, shared.lines)
    answer = Exported(
        folder=str(folder),
        key=shared.key.public,
        new=written.new,
        longer=written.longer,
        unchanged=written.unchanged,
        skipped=shared.skipped,
    )
    session.print(answer, show_exported)


@local_command(
    "import",
    click.Option(
        ["--from", "source"],
        metavar="FOLDER|REF",
        help="A folder, or a branch or commit with one; by default engrams in the worktree.",
    ),
    section="team",
    example="engrambus import --from origin/shared-engrams",
    rank=81,
)
def import_(session: Session, values: Values) -> None:
    """Take on the engrams that others have exported, as untrusted.

    Every event is checked: its signature, and the rules of a put. Agents find what is taken on, marked; it stands in no
    brief until you confirm it. Whose key signed it is shown; a project knows the keys in .catalog/project.yaml.
    """
    session.require_admin("import")
    source = values.get("source")
    exported, shown = _read(session, source)
    with session.bus() as bus:
        answer = take_on(session, bus, exported, shown)
    session.print(answer, show_imported)


@local_command(
    "sync",
    click.Option(["--remote", "remote"], default="origin", help="The remote to share through (default: origin)."),
    click.Option(
        ["--ref", "ref"],
        default=BRANCH,
        help="A branch, or a ref below refs/engrambus/ (default: the branch shared-engrams).",
    ),
    section="team",
    example="engrambus sync",
    rank=82,
)
def sync(session: Session, values: Values) -> None:
    """Share engrams through a branch of a remote: fetch, merge, take on, push.

    Your worktree and your index stay as they are. Without the remote, everything is done but the push; the next sync
    makes up for it.
    """
    from engrambus.app import read_shared_commit, sync_shared_ref

    session.require_admin("sync")
    with session.bus() as bus:
        shared = _Shared(session, bus)
        synced = sync_shared_ref(
            session.folder,
            session.settings,
            shared.lines,
            worktree=session.worktree or session.folder,
            remote=values["remote"],
            ref=values["ref"],
        )
        imported = None
        if synced.commit is not None:
            exported = read_shared_commit(session.folder, session.settings, synced.commit)
            imported = take_on(session, bus, exported, synced.ref)
    answer = SyncOutcome(
        ref=synced.ref,
        remote=values["remote"],
        commit=synced.commit,
        new=synced.new,
        longer=synced.longer,
        pushed=synced.is_pushed,
        skipped=shared.skipped,
        imported=imported,
    )
    session.print(answer, show_synced)
    if synced.problem is not None:
        raise synced.problem


class _Shared:
    """The signed lines of what this project may share."""

    def __init__(self, session: Session, bus: Bus) -> None:
        from engrambus.app import open_signing_key
        from engrambus.operations import OPERATIONS
        from engrambus.operations.sharing import ExportEngrams

        answer: Any = bus.call(OPERATIONS["export_engrams"], ExportEngrams())
        key = open_signing_key(session.folder, session.settings, create=True)
        assert key is not None  # noqa: S101 - it was created
        self.key = key
        self.skipped: dict[str, int] = answer.skipped
        self._engrams = answer.engrams

    def lines(self, present: Container[str]) -> Mapping[str, list[bytes]]:
        """Return the lines of each engram that is live, or that has a file already."""
        return {
            engram.id: [event.sign(self.key).line() for event in engram.events]
            for engram in self._engrams
            if engram.live or engram.id in present
        }


def take_on(session: Session, bus: Bus, exported: ExportedFiles, source: str) -> Imported:
    """Send the engrams of some exported files to the gateway, a batch at a time."""
    from engrambus.app import open_signing_key
    from engrambus.knowledge.sharing import merge_events
    from engrambus.operations import OPERATIONS
    from engrambus.operations.sharing import ImportEngrams

    names = _known_keys(session)
    own_key = open_signing_key(session.folder, session.settings, create=False)
    merged = merge_events(exported.events, names)
    rows: list[Any] = []
    items = iter(merged.engrams)
    while batch := list(islice(items, BATCH)):
        answer: Any = bus.call(OPERATIONS["import_shared"], ImportEngrams(engrams=batch))
        rows += answer.engrams
    lines = [
        RefusedItem(code=line.code, detail=line.detail, file=line.file, line=line.line) for line in exported.refused
    ]
    lines += [
        RefusedItem(code=row.code, detail=row.detail, file=f"{row.shared_id}.jsonl", id=row.shared_id, key=row.key)
        for row in rows
        if row.verdict is None
    ]
    lines += [_circle(engram_id) for engram_id in merged.circles]
    verdicts = Counter(row.verdict for row in rows)
    return Imported(
        source=source,
        files=exported.files,
        new=_ids(rows, "new"),
        known=verdicts["known"],
        replaced=_ids(rows, "replaced"),
        withdrawn=_ids(rows, "withdrawn"),
        ended=verdicts["ended"],
        pins=[row.id for row in rows if row.verdict == "new" and row.pinned],
        signers=_signers(merged.engrams, rows, names, own_key.public if own_key is not None else None),
        refused=lines,
        more_refused=exported.refused_count - len(exported.refused),
    )


def _ids(rows: list[Any], verdict: str) -> list[str]:
    return [row.id for row in rows if row.verdict == verdict]


def _circle(engram_id: str) -> RefusedItem:
    from engrambus.errors import ReplacesCycle

    problem = ReplacesCycle()
    return RefusedItem(code=problem.code, detail=problem.detail, file=f"{engram_id}.jsonl", id=engram_id)


def _signers(
    engrams: list[ImportableEngram], rows: list[Any], names: Mapping[str, str], own_key: str | None
) -> list[Signer]:
    """Return what came by whose key: known keys first, then by number."""
    counts = Counter(engram.key for engram in engrams)
    new = Counter(row.key for row in rows if row.verdict == "new")
    signers = [
        Signer(key=key, name=names.get(key), is_own=key == own_key, engrams=count, new=new[key])
        for key, count in counts.items()
    ]
    return sorted(signers, key=lambda signer: (not signer.is_own, signer.name is None, -signer.engrams, signer.key))


def _known_keys(session: Session) -> dict[str, str]:
    from engrambus.policy import find_project, known_keys

    return known_keys(find_project(session.folder, session.settings.private_home).catalog)


def _export_folder(session: Session, to: str | None) -> Path:
    """Return the folder to write to; only a folder that the person names may be reached through links."""
    from engrambus.policy import find_project

    if to is None:
        worktree = session.worktree
        return (worktree or find_project(session.folder, session.settings.private_home).root).resolve() / FOLDER
    path = (session.folder / Path(to).expanduser()).absolute()
    return path.parent.resolve() / path.name


def _read(session: Session, source: str | None) -> tuple[ExportedFiles, str]:
    from engrambus.app import read_shared_commit, read_shared_folder

    folder = _export_folder(session, source)
    if source is None or folder.is_dir() or folder.is_symlink():
        return read_shared_folder(folder), _shown(folder)
    return read_shared_commit(session.folder, session.settings, source), source


def _shown(folder: Path) -> str:
    return str(folder.relative_to(Path.cwd())) if folder.is_relative_to(Path.cwd()) else str(folder)


def show_exported(answer: Exported) -> Iterator[str]:
    """Show what was written, and what a person does next."""
    folder = _shown(Path(answer.folder))
    total = len(answer.new) + len(answer.longer) + answer.unchanged
    if not total:
        yield "There is nothing to share yet. Engrams with the scope project are shared; learned ones are not."
    else:
        changes = f"{len(answer.new):,} new, {len(answer.longer):,} with more events"
        yield f"{_count(total, 'engram')} in {safe(folder)}: {changes}."
    yield from _show_skipped(answer.skipped)
    yield dim(f"Signed with {safe(answer.key)}")
    if answer.new or answer.longer:
        yield f"Review and commit them: git add {safe(folder)}"


def show_imported(answer: Imported) -> Iterator[str]:
    """Show what was taken on from whom, what was refused, and what a person does next."""
    yield f"{_count(answer.files, 'file')} in {safe(answer.source)}"
    counts = (
        (len(answer.new), "new, taken on as untrusted"),
        (answer.known, "known"),
        (len(answer.replaced), "replaced there"),
        (len(answer.withdrawn), "withdrawn there"),
        (answer.ended, "ended before they came here"),
        (len(answer.refused) + answer.more_refused, "refused"),
    )
    yield "  " + (", ".join(f"{count:,} {what}" for count, what in counts if count) or "nothing new")
    for signer in answer.signers:
        name = "you" if signer.is_own else safe(signer.name) if signer.name is not None else "an unknown key"
        yield f"  {_count(signer.engrams, 'engram')} ({signer.new:,} new) by {name}, {safe(signer.key)}"
    names = {signer.key: "you" if signer.is_own else signer.name or "an unknown key" for signer in answer.signers}
    for refusal in answer.refused[:MAX_LISTED]:
        where = f"{refusal.file}:{refusal.line}" if refusal.line else refusal.file
        where += f", by {names.get(refusal.key, 'an unknown key')}" if refusal.key else ""
        yield click.style(f"  refused {safe(where)}", fg="yellow") + f"  {refusal.code}: {safe(refusal.detail)}"
    hidden = len(answer.refused) + answer.more_refused - min(len(answer.refused), MAX_LISTED)
    if hidden:
        yield f"  and {hidden:,} more"
    if answer.pins:
        yield f"Pinned there, and in no brief here until you confirm them: {len(answer.pins):,}"
        yield from (f"  engrambus confirm {safe_id(name)}" for name in answer.pins[:MAX_LISTED])
    if any(signer.name is None and not signer.is_own for signer in answer.signers):
        yield "If you know whose an unknown key is: engrambus keys trust KEY NAME"
    if answer.new:
        yield "Look at them: engrambus feed --untrusted"


def show_synced(answer: SyncOutcome) -> Iterator[str]:
    """Show what was sent and what came."""
    if answer.commit is None:
        yield "There is nothing to share yet, and nothing was shared by others."
        return
    if answer.imported is not None:
        yield from show_imported(answer.imported)
    yield from _show_skipped(answer.skipped)
    sent = f"{answer.new:,} new, {answer.longer:,} with more events"
    done = f"{answer.remote} has everything" if answer.pushed else "not pushed"
    yield f"Shared through {safe(answer.ref)}: {sent}; {safe(done)}."


def _show_skipped(skipped: Mapping[str, int]) -> Iterator[str]:
    if skipped:
        codes = ", ".join(f"{count:,} {safe(code)}" for code, count in skipped.items())
        yield f"Left out, because they hold what may not leave the project: {codes}."


def _count(number: int, word: str) -> str:
    return f"{number:,} {word if number == 1 else word + 's'}"
