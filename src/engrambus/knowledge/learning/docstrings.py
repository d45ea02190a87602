"""Public documentation inside source files: the first sentences of what is documented, with its name.

A small reader of lines for each family of languages. Nothing is parsed as a program, so that broken and hostile files
cost no more than others and every version of Python reads the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from engrambus.knowledge.learning.markup import plain, sentences_of
from engrambus.knowledge.learning.scoring import quality
from engrambus.knowledge.learning.values import Draft, SourceFile

MAX_FROM_FILE = 25
MAX_SIGNATURE_LINES = 40
MAX_DOC_LINES = 12

_PY_DEF = re.compile(r"^( {0,4}|\t)(?:async\s+def|def|class)\s+([A-Za-z]\w*)")
_PY_DOC = re.compile(r"""^\s*[rRuU]?(\"\"\"|''')(.*)$""")
_RUST_ITEM = re.compile(
    r"^\s{0,4}pub(?:\([^)]*\))?\s+(?:async\s+|unsafe\s+|const\s+)*(?:fn|struct|enum|trait|mod|type|const)\s+(\w+)"
)
_GO_ITEM = re.compile(r"^(?:func\s+(?:\([^)]*\)\s*)?|type\s+|var\s+|const\s+)([A-Z]\w*)")
_JS_ITEM = re.compile(
    r"^\s{0,4}(?:export\s+)?(?:default\s+)?(?:abstract\s+)?(?:async\s+)?"
    r"(?:function\*?|class|interface|const|type)\s+(\w+)"
)
_JAVA_ITEM = re.compile(r"^\s{0,4}(?:public|protected)\s+[\w<>\[\], ?.]*?(\w+)\s*(?:\(|\{|extends|implements|$)")


class Documented(NamedTuple):
    """A documented name."""

    name: str
    """Empty for the file itself."""
    text: str
    first: int
    last: int


LineReader: TypeAlias = Callable[[Sequence[str]], Iterator[Documented]]
"""Finds the documented names in the lines of a file."""


def docstrings(file: SourceFile) -> list[Draft]:
    """Return the documentation of the public names of a file."""
    reader = _READERS.get(file.path.rpartition(".")[2].lower())
    drafts = []
    for item in reader(file.lines) if reader is not None else ():
        text = plain(item.text)
        points = quality(text)
        if points < 0:
            continue
        drafts.append(
            Draft(
                source="docstring",
                kind="fact",
                sentences=sentences_of(text, 3),
                max_sentences=1 if len(text) > 160 else 2,
                prefix=f"{item.name}: " if item.name else "",
                path=file.path,
                first=item.first,
                last=item.last,
                points=points + (2 if item.name[:1].isupper() or not item.name else 0),
            )
        )
    return sorted(drafts, key=lambda draft: -draft.points)[:MAX_FROM_FILE]


def python_items(lines: Sequence[str]) -> Iterator[Documented]:
    """Yield the documented modules, classes, functions and methods of a Python file whose names are public."""
    start = next((index for index, line in enumerate(lines[:30]) if line.strip() and not line.startswith("#")), None)
    if start is not None and (module := _docstring(lines, start)) is not None:
        yield Documented("", module[0], start + 1, module[1] + 1)
    owner = ""
    position = 0
    while position < len(lines):
        match = _PY_DEF.match(lines[position])
        if match is None:
            position += 1
            continue
        name = match[2]
        if not match[1]:
            owner = name if "class " in lines[position] else ""
        body = _after_signature(lines, position)
        doc = _docstring(lines, body) if body is not None else None
        if doc is not None:
            full_name = f"{owner}.{name}" if match[1] and owner else name
            if not match[1] or owner:
                yield Documented(full_name, doc[0], position + 1, doc[1] + 1)
            position = doc[1] + 1
        else:
            position += 1


def _after_signature(lines: Sequence[str], position: int) -> int | None:
    """Return the line after the colon that ends a signature."""
    for end in range(position, min(position + MAX_SIGNATURE_LINES, len(lines))):
        code = lines[end].partition("  #")[0].rstrip()
        if code.endswith(":"):
            return next((index for index in range(end + 1, min(end + 3, len(lines))) if lines[index].strip()), None)
    return None


def _docstring(lines: Sequence[str], position: int) -> tuple[str, int] | None:
    """Return the first paragraph of a docstring that begins on a line, and its last line."""
    match = _PY_DOC.match(lines[position])
    if match is None:
        return None
    quote, text = match.groups()
    if quote in text:
        return text[: text.index(quote)].strip(), position
    words = [text.strip()]
    for end in range(position + 1, min(position + MAX_DOC_LINES, len(lines))):
        line = lines[end].strip()
        if quote in line:
            words.append(line[: line.index(quote)])
            return " ".join(words).strip(), end
        if not line and any(words):
            return " ".join(words).strip(), end - 1
        words.append(line)
    return " ".join(words).strip(), min(position + MAX_DOC_LINES, len(lines)) - 1


def _line_comments(mark: str, item: re.Pattern[str], inner: str = "") -> LineReader:
    """Return a reader of languages that document with line comments before an item."""

    def read(lines: Sequence[str]) -> Iterator[Documented]:
        gathered: list[str] = []
        first = 0
        for position, line in enumerate(lines):
            stripped = line.strip()
            begins = stripped.startswith(mark) and not stripped.startswith(f"{mark}/")
            if begins or (inner and stripped.startswith(inner)):
                if not gathered:
                    first = position
                gathered.append(stripped.lstrip("/!").strip())
                continue
            match = item.match(line) if gathered else None
            is_file = gathered and inner and lines[first].strip().startswith(inner)
            if match or is_file:
                text = _first_paragraph(gathered)
                yield Documented(match[1] if match and not is_file else "", text, first + 1, position)
            if not stripped.startswith(("#[", "@")):  # attributes may stand between
                gathered = []

    return read


def _block_comments(item: re.Pattern[str]) -> LineReader:
    """Return a reader of languages that document with `/** … */` before an item."""

    def read(lines: Sequence[str]) -> Iterator[Documented]:
        position = 0
        while position < len(lines):
            if not lines[position].lstrip().startswith("/**"):
                position += 1
                continue
            first, gathered = position, []
            while position < len(lines) and position - first < 200:
                gathered.append(lines[position].strip().removeprefix("/**").removesuffix("*/").lstrip("*").strip())
                position += 1
                if "*/" in lines[position - 1]:
                    break
            match = item.match(lines[position]) if position < len(lines) else None
            if match:
                yield Documented(match[1], _first_paragraph(gathered), first + 1, position)

    return read


def _first_paragraph(lines: Sequence[str]) -> str:
    words: list[str] = []
    for line in lines:
        if (not line and words) or line.startswith(("@", "```", "#")):
            break
        words.append(line)
    return " ".join(words).strip()


_RUST = _line_comments("///", _RUST_ITEM, "//!")
_GO = _line_comments("//", _GO_ITEM)
_JS = _block_comments(_JS_ITEM)
_JAVA = _block_comments(_JAVA_ITEM)
_READERS: dict[str, LineReader] = {
    "py": python_items,
    "pyi": python_items,
    "rs": _RUST,
    "go": _GO,
    **dict.fromkeys(("js", "jsx", "mjs", "ts", "tsx"), _JS),
    **dict.fromkeys(("java", "kt", "scala", "php", "cs"), _JAVA),
}
DOCUMENTED_SUFFIXES = frozenset(_READERS)
"""Endings of files whose documentation is read."""
