"""The folder of exported engrams in a worktree: files that people review and commit. Nothing in it is rewritten."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from engrambus.core import files
from engrambus.errors import EngramBusError, ExportNotFound, ExportTooLarge
from engrambus.knowledge.sharing import (
    ATTRIBUTES,
    ATTRIBUTES_FILE,
    MAX_FILE_BYTES,
    MAX_FILES,
    ExportedFiles,
    added_lines,
    engram_of_file,
    file_name,
)

LinesOf: TypeAlias = "Callable[[Container[str]], Mapping[str, list[bytes]]]"
"""Returns the lines to be shared by engram; given are the engrams that have a file already."""


def read_folder(folder: Path, now_us: int) -> ExportedFiles:
    """Read the exported files in a folder; links and what is no file of an engram are refused by name."""
    read = ExportedFiles(now_us)
    for name in _names(folder):
        try:
            if engram_of_file(name) is not None or name.endswith(".jsonl"):
                read.take(name, _content(folder / name))
        except ExportTooLarge:
            raise
        except (EngramBusError, IsADirectoryError) as refusal:
            read.refuse(name, refusal if isinstance(refusal, EngramBusError) else ExportNotFound("It is no file."))
    return read


class WrittenFiles(NamedTuple):
    """Outcome of an export."""

    new: list[str]
    """Engrams whose file is new."""
    longer: list[str]
    """Engrams whose file has more lines than old_content."""
    unchanged: int


def write_folder(folder: Path, lines: LinesOf) -> WrittenFiles:
    """Add lines to the files of a folder; nothing that is there is changed."""
    try:
        present = {engram_id for name in files.folder_names(folder) if (engram_id := engram_of_file(name)) is not None}
    except FileNotFoundError:
        present = set()
    written = WrittenFiles([], [], 0)
    shared = lines(present)
    if shared:
        files.make_folder(folder, files.COMMITTED_FOLDER)
    for engram_id, added in shared.items():
        path = folder / file_name(engram_id)
        old_content = files.read_file(path) if files.is_file(path) else None
        new_content = added_lines(old_content or b"", added)
        if new_content == old_content:
            written = written._replace(unchanged=written.unchanged + 1)
            continue
        files.replace_file(path, new_content, files.COMMITTED_FILE)
        (written.new if old_content is None else written.longer).append(engram_id)
    if written.new and not files.is_file(folder / ATTRIBUTES_FILE):
        files.replace_file(folder / ATTRIBUTES_FILE, ATTRIBUTES, files.COMMITTED_FILE)
    return written


def _names(folder: Path) -> list[str]:
    try:
        names = sorted(files.folder_names(folder))
    except FileNotFoundError:
        raise ExportNotFound(
            f"There is no folder {folder}.",
            field="from",
            hint="Name a folder or a revision of git: engrambus import --from FOLDER.",
        ) from None
    if len(names) > MAX_FILES + 1:
        raise ExportTooLarge(f"There are too many files in {folder}.", field="from", limit=MAX_FILES, used=len(names))
    return names


def _content(path: Path) -> bytes:
    """Return a file's content, and of one that is too large enough to see that."""
    with files.open_reader(path) as file:
        return file.read(MAX_FILE_BYTES + 1)
