"""Knowledge commands with code of their own, such as `put`, `confirm`, `anchor`, `deref` and `memory read`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from engrambus.core import digest
from engrambus.edges.cli.command import Argument, Override, Values, override
from engrambus.edges.cli.inputs import (
    STDIN,
    linked_head,
    path_from_top,
    read_text_file,
    take_snapshot,
)
from engrambus.edges.cli.screen import safe, safe_id
from engrambus.edges.cli.session import Session
from engrambus.edges.cli.show import renderer
from engrambus.edges.cli.show.evidence import anchor_on_disk
from engrambus.errors import BodyTooLarge, EngramBusError, FieldValue, PointerPath
from engrambus.evidence.pointers import FileSpan, RepoAddress, is_ref, parse_file_span, parse_ref
from engrambus.gateway import Operation
from engrambus.knowledge.engrams import Engram

HEAD = "HEAD"


_FROM = click.Option(
    ["--from", "agent"], metavar="AGENT", help="Every claim in this agent's answers that awaits confirmation"
)


@override(
    _FROM, optional_arguments=True, argument_help={"id": ("ID...", "The engram's id; several are confirmed together")}
)
def confirm(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Confirm one engram, several, or all that await confirmation from an agent."""
    from engrambus.operations import OPERATIONS

    ids = str(values.get("id", "")).split()
    if len(ids) == 1 and "agent" not in values:
        session.call_and_print(operation, values)
        return
    if not ids and "agent" not in values:
        raise click.UsageError("Name an engram by its id, or an agent with --from.")
    if values.get("at") or values.get("snapshot"):
        raise click.UsageError("New lines with --at are for one engram.")
    several = OPERATIONS["confirm_several"]
    fields = {"ids": ids, **({"agent": values["agent"]} if "agent" in values else {})}
    session.print(session.call(several, fields), _confirmed)


def _confirmed(answer: Any) -> Iterator[str]:
    count = len(answer.ids)
    yield f"{count} engram{'s' * (count != 1)} confirmed." if count else "Nothing awaits confirmation."
    yield from map(safe_id, answer.ids)
    if answer.stale:
        yield "The lines that these cite have changed since; name the lines that show them now with --at:"
        yield from answer.stale


@override(
    click.Option(
        ["--file", "file"],
        metavar="FILE",
        help="Put every engram of a JSONL file, one JSON object a line; - reads stdin. Long claims are split.",
    ),
    click.Option(
        ["--from-line", "from_line"], type=click.IntRange(1), help="With --file: start at this line of the file."
    ),
    click.Option(
        ["--split", "split"],
        is_flag=True,
        help="Put a claim of any length as several engrams, in order; - reads stdin.",
    ),
    optional_arguments=True,
)
def put(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Put one engram, or those of a file."""
    file, from_line, split = values.pop("file", None), values.pop("from_line", 1), values.pop("split", False)
    if file is not None:
        if any(value is not False for value in values.values()):  # a flag that is not given is False
            raise click.UsageError("--file brings whole engrams; the only other option it takes is --from-line.")
        from engrambus.edges.cli.commands.put_file import put_file

        put_file(session, file, from_line)
        return
    if "claim" not in values:
        raise click.UsageError("Missing argument 'CLAIM'.")
    if from_line != 1:
        raise click.UsageError("--from-line goes with --file.")
    if split:
        _put_split(session, values)
    else:
        _put_one(session, operation, values)


def _put_split(session: Session, values: Values) -> None:
    """Put a text as several engrams, and print the id and the claim of each."""
    for name in ("id", "embedding_ref"):
        if name in values:
            raise click.UsageError(f"--split makes several engrams, which cannot share --{name.replace('_', '-')}.")
    text = values.pop("claim")
    if text == STDIN:
        text = read_text_file(STDIN, "CLAIM")
    from engrambus.operations import OPERATIONS

    session.option_names["text"] = "CLAIM"
    session.print(session.call(OPERATIONS["put_text"], {**values, "text": text}), _parts_put)


def _parts_put(answer: Any) -> Iterator[str]:
    for part in answer.parts:
        yield click.style(safe_id(part.id), bold=True)
        yield safe(part.claim)


def _put_one(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Put one engram; paths are given from the current folder."""
    engram = session.call(operation, values)
    session.print_answer(operation, engram)
    # After the answer: the engram is stored, and the warning is the last thing on the screen.
    top = None if session.remote else session.worktree
    if top is not None:
        _warn_of_changes(session, engram, _typed_spans(values, session.folder, top), top)


def _typed_spans(values: Values, folder: Path, top: Path) -> dict[str, FileSpan]:
    """Return the places that were typed as paths, by what was typed."""
    texts = [text for text in values.get("at", ()) if not is_ref(text) and "://" not in text]
    return {text: path_from_top(parse_file_span(text), folder, top, "at") for text in texts}


def _warn_of_changes(session: Session, engram: Engram, spans: dict[str, FileSpan], top: Path) -> None:
    """Warn when the lines on disk differ from the committed lines that the pointer got the digest of."""
    digests = {pointer.digest for pointer in engram.pointers}
    for text, span in spans.items():
        if span.revision == HEAD and not _digests_on_disk(engram, span, top) & digests:
            session.warn(
                f"{text} differs on disk from HEAD; the pointer leads to HEAD's lines (engrambus deref {text}). "
                "Put it with --snapshot to point at the lines on disk."
            )


def _digests_on_disk(engram: Engram, span: FileSpan, top: Path) -> set[str]:
    """Return the digests of the lines as they are on disk, with carriage returns and without."""
    from engrambus.evidence.pointers import cut_lines

    addresses = [parse_ref(pointer.ref) for pointer in engram.pointers]
    line_spans = [
        address.lines for address in addresses if isinstance(address, RepoAddress) and address.path == span.path
    ]
    try:
        content = (top / span.path).read_bytes()
        return {
            digest(cut_lines(data, *lines) if lines else data)
            for lines in line_spans
            for data in (content, content.replace(b"\r\n", b"\n"))  # git may convert line ends on checkout
        }
    except (OSError, EngramBusError):
        return set()


POINTER_HELP = ("POINTER", "What to read: path:10-20, a pointer's ref, or a link to lines on GitHub")

deref = Override(Session.call_and_print, argument_help={"pointer": POINTER_HELP})
link = Override(
    Session.call_and_print,
    argument_help={"ref": ("POINTER", "path:10-20, a pointer's ref, or a link to lines on GitHub")},
)


@override(
    click.Option(["--file", "file"], metavar="FILE", help="Read the text from a file; - reads stdin."),
    optional_arguments=True,
)
def anchor(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Find the lines that contain a text given as argument, as a file or on stdin."""
    from engrambus.operations.pointers import MAX_ANCHOR_TEXT

    file = values.pop("file", None)
    if (file is None) == ("text" not in values):
        raise click.UsageError("Give the text, or --file, or - for standard input.")
    if file is not None or values["text"] == STDIN:
        try:
            values["text"] = read_text_file(file or STDIN, "--file", MAX_ANCHOR_TEXT)
        except BodyTooLarge as refusal:
            raise FieldValue("The text is too long.", field="text", limit=refusal.limit) from None
    on_disk = values.get("snapshot", False)
    top = None if session.remote else session.worktree
    if top is not None:
        _complete_anchor(session, values, top)
    answer = session.call(operation, values)
    session.print(answer, anchor_on_disk if on_disk else renderer(operation))


def _complete_anchor(session: Session, values: Values, top: Path) -> None:
    """Name the path from the top of the checkout, and a linked worktree's own commit."""
    if "path" in values:
        values["path"] = _hint_from_top(values["path"], session.folder, top)
    if "revision" not in values and (head := linked_head(top)) is not None:
        # The gateway works in the main worktree, and sees neither this one's HEAD nor its files.
        values["revision"] = (
            take_snapshot(top, [values["path"]] if "path" in values else ()) if values.pop("snapshot", False) else head
        )


def _hint_from_top(hint: str, folder: Path, top: Path) -> str:
    """Return the path from the top if the hint is a file in the folder; any other hint as it is."""
    span = parse_file_span(hint)
    if not (folder / span.path).exists():
        return hint
    try:
        return path_from_top(span, folder, top, "path").path
    except PointerPath:
        return hint


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
"""The object of the request that an option of `memory read` belongs to."""
EXCERPT_TOKENS = 400
"""Tokens of excerpts that `memory read` asks for by default."""


@override(
    Argument("words", None, "What to search for", required=False),
    click.Option(["--query"], help="What to search for, instead of words behind the command."),
    click.Option(
        ["--store", "store_paths"],
        multiple=True,
        metavar="FILE",
        help="A JSONL file (repeatable) [default: what the team remembers]",
    ),
    click.Option(
        ["--max-excerpt-tokens"], type=int, help=f"Tokens of all excerpts together [default: {EXCERPT_TOKENS}]"
    ),
    click.Option(["--per-item-max-excerpt-tokens"], type=int, help="Tokens of one excerpt."),
    click.Option(["--max-items"], type=int, help="Number of excerpts at most [default: 50]"),
    click.Option(
        ["--term", "query_terms"], multiple=True, help="A search term, in place of the words of --query (repeatable)."
    ),
    click.Option(["--now-utc"], help="The time that ages are measured from: 2026-01-31T12:00:00Z"),
    click.Option(["--recency", "enable_recency_weight"], is_flag=True, help="Score newer records higher."),
    click.Option(
        ["--half-life-days", "recency_half_life_days"],
        type=int,
        help="With --recency: days in which a score halves [default: 30]",
    ),
    click.Option(["--no-tags", "no_tags"], is_flag=True, help="Do not score matching tags."),
    click.Option(
        ["--trust-snapshot", "trust_snapshot_path"],
        metavar="FILE",
        help="Leave out records that this file classifies as denied.",
    ),
    click.Option(
        ["--deny", "deny_classifications"],
        multiple=True,
        help="Leave out records of this classification (repeatable).",
    ),
    click.Option(
        ["--dropped"],
        type=click.Choice(["full", "counts"]),
        help="List the records left out, or only count them [default: full]",
    ),
    click.Option(["--input", "file"], metavar="FILE", help="Read the whole request as JSON; - reads stdin."),
    with_fields=False,
)
def memory_read(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Search memory files; the request is given as options, or whole as a file."""
    from engrambus.core import read_json

    options = {name: value for name, value in values.items() if value is not False}
    words = options.pop("words", None)
    if words and "query" in options:
        raise click.UsageError("Give the words to search for either behind the command or with --query.")
    options |= {"query": words} if words else {}
    file = options.pop("file", None)
    if file is not None:
        if options:
            raise click.UsageError("--input brings the whole request; it takes no other option.")
        session.option_names.clear()
        request = read_json(read_text_file(file, "--input").encode())
    else:
        if options.pop("no_tags", False):
            options["enable_tag_overlap"] = False
        options = {"max_excerpt_tokens": EXCERPT_TOKENS, "store_paths": [_team_store(session)], **options}
        request = _nested(options)
    session.call_and_print(operation, request)


@override(argument_help={"text": ("FILE", "The text to store; - reads stdin")})
def artifact_add(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Store a text that is given as a file."""
    file = values["text"]
    if "name" not in values and file != STDIN:
        values["name"] = Path(file).name
    session.call_and_print(operation, {**values, "text": read_text_file(file, "FILE")})


def _team_store(session: Session) -> str:
    """Return the file of what the team remembers."""
    store = "sam/episodes.jsonl"
    if session.remote:
        return f".catalog/{store}"
    from engrambus.policy import find_project

    path = find_project(session.folder, session.settings.private_home).state / store
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _nested(options: Values) -> Values:
    request: Values = {"budget": {}}  # always there, so that an error names the field that is missing in it
    for name, value in options.items():
        parent = _MEMORY_OBJECTS.get(name)
        (request if parent is None else request.setdefault(parent, {}))[name] = value
    return request
