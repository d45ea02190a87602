"""The files and lines that a client's tool is about to edit, from the tool's input."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EDIT_TOOLS = ("Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch", "replace", "write_file")
"""Tools that edit files: of Claude Code (four), Codex (one) and Gemini (two)."""
MAX_FILES = 16
MAX_READ_BYTES = 1_000_000
"""Of a larger file, only the path is used."""
_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$")


def edited_paths(tool: str, arguments: Any, folder: Path) -> list[str]:
    """Return the files below the folder's repository that a tool will edit, with lines where its input tells them."""
    if not isinstance(arguments, dict):
        return []
    paths: dict[str, None] = {}
    for name, old_texts in _edits(tool, arguments):
        file = Path(os.path.normpath(folder / name))
        path = _repository_path(file, folder)
        if path is None or len(path) > 900:  # the longest path that a request takes
            continue
        spans = _spans(file, old_texts)
        paths.update(dict.fromkeys([f"{path}:{first}-{last}" for first, last in spans] or [path]))
        if len(paths) >= MAX_FILES:
            break
    return list(paths)[:MAX_FILES]


def _edits(tool: str, arguments: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield each file with the texts that will be replaced in it."""
    if tool == "apply_patch":
        yield from _patched(next((text for text in arguments.values() if isinstance(text, str)), ""))
        return
    name = next((arguments[key] for key in ("file_path", "notebook_path") if isinstance(arguments.get(key), str)), "")
    if not name or "\0" in name:
        return
    edits = arguments.get("edits")
    rows = edits if isinstance(edits, list) else [arguments]
    texts = [row["old_string"] for row in rows if isinstance(row, dict) and isinstance(row.get("old_string"), str)]
    yield name, texts


def _patched(patch: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the files of a patch in Codex's format, with the lines of each hunk as they are before it."""
    name, hunks = "", [""]
    for line in patch.splitlines():
        match = _PATCHED.match(line)
        if match or line.startswith("*** End"):
            if name and "\0" not in name:
                yield name, hunks
            name, hunks = (match[2].strip(), [""]) if match else ("", [""])
        elif line.startswith("@@"):
            hunks.append("")
        elif line.startswith((" ", "-")):
            hunks[-1] += f"{line[1:]}\n"


def _spans(file: Path, old_texts: list[str]) -> list[tuple[int, int]]:
    """Return the lines that hold these texts now; none where that cannot be found out."""
    texts = [text for text in old_texts if text.strip()]
    content = _read(file) if texts else ""
    spans = []
    for text in texts:
        start = content.find(text)
        if start >= 0:
            first = content.count("\n", 0, start) + 1
            spans.append((first, first + text.rstrip("\n").count("\n")))
    return spans


def _read(file: Path) -> str:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as stream:
        try:
            data = stream.read(MAX_READ_BYTES + 1) if os.fstat(descriptor).st_size <= MAX_READ_BYTES else b""
        except OSError:  # a folder
            return ""
    return data.decode("utf-8", "replace") if len(data) <= MAX_READ_BYTES else ""


def _repository_path(file: Path, folder: Path) -> str | None:
    """Return the path from the top of the repository that the client works in; None for a file outside of it."""
    top = _top(folder)
    if _top(file.parent) != top:
        return None
    try:
        return file.relative_to(top or folder).as_posix()
    except ValueError:
        return None


def _top(folder: Path) -> Path | None:
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)
