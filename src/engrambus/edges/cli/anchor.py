"""`engrambus anchor`: the text from wherever it is, the path from where one stands."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import click

from engrambus.edges.cli.ask import Given
from engrambus.edges.cli.places import find_worktree, from_top, head_of_linked
from engrambus.edges.cli.session import Session
from engrambus.errors import BadText, FieldValue, InputNotAFile, PointerPath
from engrambus.evidence.pointers import GitRepository
from engrambus.gateway import split_place
from engrambus.operations.anchoring import MAX_TEXT

STDIN = "-"


def complete(session: Session, given: Given) -> Given:
    """What is asked of the gateway: the text read, the path from the top, a linked checkout's own commit."""
    file = given.pop("file", None)
    if (file is None) == ("text" not in given):
        raise click.UsageError("Give the text, or --file, or - for standard input.")
    if file is not None or given["text"] == STDIN:
        given["text"] = _read(file or STDIN)
    top = None if session.remote else find_worktree(session.folder)
    if top is None:
        return given
    if "path" in given:
        given["path"] = _from_top(given["path"], session.folder, top)
    if "revision" not in given and (head := head_of_linked(top)) is not None:
        # The gateway stands in the main checkout, and sees neither this one's HEAD nor its files.
        given["revision"] = _snapshot(top, given.get("path")) if given.pop("snapshot", False) else head
    return given


def _read(name: str) -> str:
    if name == STDIN:
        data = sys.stdin.buffer.read(MAX_TEXT + 1)
    else:
        path = Path(name)
        if not path.exists():
            raise click.BadParameter(f"There is no file '{name}'.", param_hint="'--file'")
        if not path.is_file():
            raise InputNotAFile(f"'{name}' is not a regular file.", field="file")
        with path.open("rb") as source:
            data = source.read(MAX_TEXT + 1)
    if len(data) > MAX_TEXT:
        raise FieldValue("The text is too long.", field="text", limit=MAX_TEXT)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadText("The text is not UTF-8.", field="text") from None


def _from_top(hint: str, folder: Path, top: Path) -> str:
    """A hint that leads to a file from here, as it is called from the top; any other as it is."""
    place = split_place(hint)
    if not (folder / place.path).exists():
        return hint
    try:
        return from_top(place, folder, top, "path").path
    except PointerPath:
        return hint


def _snapshot(top: Path, path: str | None) -> str:
    with closing(GitRepository(top)) as repository:
        return repository.snapshot(top, [path] if path and (top / path).is_file() else ())
