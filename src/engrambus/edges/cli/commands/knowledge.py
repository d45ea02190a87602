"""Knowledge commands with code of their own: `put`, `anchor`, `deref`, `link` and `memory read`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from engrambus.core import digest
from engrambus.edges.cli.command import Override, Values, override
from engrambus.edges.cli.places import find_worktree, from_link, from_top, full_ref, head_of_linked, print_place
from engrambus.edges.cli.session import Session
from engrambus.errors import BadText, EngramBusError, FieldValue, FileNotFound, InputNotAFile, PointerPath
from engrambus.evidence.pointers import GitRepository, RepoAddress, parse_ref
from engrambus.gateway import FileSpan, Operation, is_ref, parse_file_span
from engrambus.knowledge.engrams import Engram

HEAD = "HEAD"
STDIN = "-"


@override(
    click.Option(
        ["--file", "file"],
        metavar="FILE",
        help="Put every engram of a JSONL file, one to a line; - reads stdin.",
    ),
    click.Option(["--from-line", "from_line"], type=click.IntRange(1), help="Where in the file to go on."),
    optional_arguments=True,
)
def put(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Put one engram, or those of a file."""
    file, from_line = values.pop("file", None), values.pop("from_line", 1)
    if file is not None:
        if values:
            raise click.UsageError("--file brings whole engrams; give nothing beside it but --from-line.")
        from engrambus.edges.cli.commands.put_file import put_file

        put_file(session, file, from_line)
        return
    if "claim" not in values:
        raise click.UsageError("Missing argument 'CLAIM'.")
    if from_line != 1:
        raise click.UsageError("--from-line goes with --file.")
    _put_one(session, operation, values)


def _put_one(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Put a claim and say what its pointers were stamped as."""
    refs = [full_ref(ref, session.folder, f"pointer[{n}]") for n, ref in enumerate(values.pop("pointers", ()))]
    places: dict[str, FileSpan] = {}
    top = None if session.remote else find_worktree(session.folder)
    at: list[str] = []
    for position, text in enumerate(values.pop("at", ())):
        field = f"at[{position}]"
        linked = from_link(text, field)
        if linked is not None:
            refs.append(linked.ref)
        elif is_ref(text):
            refs.append(full_ref(text, session.folder, field))
        elif top is None:
            at.append(text)
        else:
            place = from_top(parse_file_span(text), session.folder, top, field)
            places[text] = place
            at.append(print_place(_pinned(place, top)))
    values |= {"pointers": [{"type": ref.partition(":")[0], "ref": ref} for ref in refs], "at": at}
    for name in ("tags", "hash_keys"):
        if name in values:
            values[name] = list(values[name])
    try:
        engram = session.call(operation, values)
    except EngramBusError as refusal:
        if top is not None:
            _explain(refusal, places, top)
        raise
    session.print_answer(operation, engram)
    if top is not None:
        _warn_of_changes(session, engram, places, top)


def _pinned(place: FileSpan, top: Path) -> FileSpan:
    """In a linked checkout HEAD is that checkout's own, not the one the gateway stands on."""
    head = head_of_linked(top) if place.revision == HEAD else None
    return place._replace(revision=head) if head is not None else place


def _explain(refusal: EngramBusError, places: dict[str, FileSpan], top: Path) -> None:
    """Say what to do when the evidence is there for the eye and not for git."""
    if isinstance(refusal, FileNotFound) and any((top / place.path).is_file() for place in places.values()):
        refusal.hint = (
            "The file is not in that commit: commit it first, or keep its lines with engrambus anchor --snapshot."
        )


def _warn_of_changes(session: Session, engram: Engram, places: dict[str, FileSpan], top: Path) -> None:
    """Say so when the lines on disk are not the ones that were stamped."""
    stamped = {pointer.digest for pointer in engram.pointers}
    for text, place in places.items():
        if place.revision == HEAD and not _on_disk(engram, place, top) & stamped:
            session.warn(
                f"{text} differs on disk from HEAD, and HEAD's lines were stamped. See them: engrambus deref {text}"
            )


def _on_disk(engram: Engram, place: FileSpan, top: Path) -> set[str]:
    """The digests the pointed lines would have as they lie on disk, with and without carriage returns."""
    from engrambus.evidence.pointers import cut_lines

    addresses = [parse_ref(pointer.ref) for pointer in engram.pointers]
    spans = [each.lines for each in addresses if isinstance(each, RepoAddress) and each.path == place.path]
    try:
        whole = (top / place.path).read_bytes()
        return {
            digest(cut_lines(data, *lines) if lines else data)
            for lines in spans
            for data in (whole, whole.replace(b"\r\n", b"\n"))
        }
    except (OSError, EngramBusError):
        return set()


def with_full_ref(field: str) -> Callable[[Session, Operation[Any, Any], Values], None]:
    """Return an override that completes a pointer field: a path, a short revision or a link becomes a full ref."""

    def run(session: Session, operation: Operation[Any, Any], values: Values) -> None:
        values[field] = full_ref(values[field], session.folder, field)
        session.call_and_print(operation, values)

    return run


deref = Override(with_full_ref("pointer"))
link = Override(with_full_ref("ref"))


@override(
    click.Option(["--file", "file"], metavar="FILE", help="Read the text from a file; - reads stdin."),
    optional_arguments=True,
)
def anchor(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Find the lines that hold a text."""
    session.call_and_print(operation, _complete(session, values))


def _complete(session: Session, values: Values) -> Values:
    """What is asked of the gateway: the text read, the path from the top, a linked checkout's own commit."""
    file = values.pop("file", None)
    if (file is None) == ("text" not in values):
        raise click.UsageError("Give the text, or --file, or - for standard input.")
    if file is not None or values["text"] == STDIN:
        values["text"] = _read_excerpt(file or STDIN)
    top = None if session.remote else find_worktree(session.folder)
    if top is None:
        return values
    if "path" in values:
        values["path"] = _from_top(values["path"], session.folder, top)
    if "revision" not in values and (head := head_of_linked(top)) is not None:
        # The gateway stands in the main checkout, and sees neither this one's HEAD nor its files.
        values["revision"] = _snapshot(top, values.get("path")) if values.pop("snapshot", False) else head
    return values


def _read_excerpt(name: str) -> str:
    from engrambus.operations.pointers import MAX_ANCHOR_TEXT

    if name == STDIN:
        data = sys.stdin.buffer.read(MAX_ANCHOR_TEXT + 1)
    else:
        path = Path(name)
        if not path.exists():
            raise click.BadParameter(f"There is no file '{name}'.", param_hint="'--file'")
        if not path.is_file():
            raise InputNotAFile(f"'{name}' is not a regular file.", field="file")
        with path.open("rb") as source:
            data = source.read(MAX_ANCHOR_TEXT + 1)
    if len(data) > MAX_ANCHOR_TEXT:
        raise FieldValue("The text is too long.", field="text", limit=MAX_ANCHOR_TEXT)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadText("The text is not UTF-8.", field="text") from None


def _from_top(hint: str, folder: Path, top: Path) -> str:
    """A hint that leads to a file from here, as it is called from the top; any other as it is."""
    place = parse_file_span(hint)
    if not (folder / place.path).exists():
        return hint
    try:
        return from_top(place, folder, top, "path").path
    except PointerPath:
        return hint


def _snapshot(top: Path, path: str | None) -> str:
    with closing(GitRepository(top)) as repository:
        return repository.snapshot(top, [path] if path and (top / path).is_file() else ())


_MEMORY_OBJECTS = {
    "max_excerpt_tokens": "budget",
    "per_item_max_excerpt_tokens": "budget",
    "max_items": "budget",
    "enable_recency_weight": "scoring",
    "recency_half_life_days": "scoring",
    "enable_tag_overlap": "scoring",
    "query_terms": "scoring",
    "deny_classifications": "trust_filter",
    "trust_snapshot_path": "trust_filter",
}
"""The object of the input that an option of `memory read` belongs to."""


@override(
    click.Option(["--query"], help="What to look for."),
    click.Option(["--store", "store_paths"], multiple=True, metavar="FILE", help="A JSONL file (repeatable)."),
    click.Option(["--max-excerpt-tokens"], type=int, help="Tokens of all excerpts together."),
    click.Option(["--per-item-max-excerpt-tokens"], type=int, help="Tokens of one excerpt."),
    click.Option(["--max-items"], type=int, help="How many excerpts at the most [default: 50]"),
    click.Option(["--term", "query_terms"], multiple=True, help="A term, instead of the query's (repeatable)."),
    click.Option(["--now-utc"], help="The moment recency is measured from: 2026-01-31T12:00:00Z"),
    click.Option(["--recency", "enable_recency_weight"], is_flag=True, help="Newer records score higher."),
    click.Option(["--half-life-days", "recency_half_life_days"], type=int, help="[default: 30]"),
    click.Option(["--no-tags", "no_tags"], is_flag=True, help="Tags count for nothing."),
    click.Option(["--trust-snapshot", "trust_snapshot_path"], metavar="FILE", help="Leave out what it denies."),
    click.Option(["--deny", "deny_classifications"], multiple=True, help="A class to leave out (repeatable)."),
    click.Option(["--dropped"], type=click.Choice(["full", "counts"]), help="[default: full]"),
    click.Option(["--input", "file"], metavar="FILE", help="The whole input as JSON; - reads stdin."),
    with_fields=False,
)
def memory_read(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Read memory stores: the input as options, or whole from a file."""
    from engrambus.core import read_json
    from engrambus.edges.cli.commands.put_file import read_text_file

    sent = {name: value for name, value in values.items() if value is not False}
    file = sent.pop("file", None)
    if file is not None:
        if sent:
            raise click.UsageError("--input brings the whole input; give nothing beside it.")
        request = read_json(read_text_file(file, "--input").encode())
    else:
        if sent.pop("no_tags", False):
            sent["enable_tag_overlap"] = False
        request = _nested(sent)
    session.call_and_print(operation, request)


def _nested(said: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    for name, value in said.items():
        place = _MEMORY_OBJECTS.get(name)
        (asked if place is None else asked.setdefault(place, {}))[name] = value
    return {**asked, "budget": asked.get("budget", {})}  # so that what is missing of it is named
