"""Kinds of artifacts: test reports and coverage reports are recognised by their content, or declared by the yool."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, BinaryIO

import msgspec

from engrambus.evidence.receipts.values import ArtifactKind

HEAD_BYTES = 64 << 10
"""Bytes of an artifact within which its kind must show, unless it is JSON."""
MAX_JSON_BYTES = 32 << 20
"""Size of JSON above which no kind is looked for: it is decoded whole."""
_SQLITE_HEADER = b"SQLite format 3\0"
_COVERAGE_TABLE = b"CREATE TABLE coverage_schema"
"""Beginning of the schema that coverage.py writes into `.coverage`."""


class _CoverageJson(msgspec.Struct):
    """What `coverage json` writes."""

    meta: dict[str, Any]
    files: dict[str, msgspec.Raw]
    totals: dict[str, msgspec.Raw]


class _IstanbulFile(msgspec.Struct, rename="camel"):
    """One file in Istanbul's `coverage-final.json`."""

    statement_map: dict[str, msgspec.Raw]
    s: dict[str, int]


_JSON_FORMS = (
    msgspec.json.Decoder(_CoverageJson),
    msgspec.json.Decoder(dict[str, _IstanbulFile]),
)


def artifact_kind(path: str, file: BinaryIO, size: int, declared: Mapping[str, str]) -> str:
    """Return the kind of an artifact: as declared for its path or name, else by its content.

    `declared` maps patterns of paths to kinds; the first that matches counts.
    """
    name = path.rpartition("/")[2]
    for pattern, kind in declared.items():
        if fnmatchcase(path, pattern) or fnmatchcase(name, pattern):
            return kind
    return _recognise(file, size)


def _recognise(file: BinaryIO, size: int) -> ArtifactKind:
    head = file.read(HEAD_BYTES)
    if head.startswith(_SQLITE_HEADER):
        # Its text is enough: a database that a step wrote is never opened as one.
        return "coverage" if _COVERAGE_TABLE in head else "file"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"<"):
        return _kind_of_root(head)
    if text.startswith(b"{") and size <= MAX_JSON_BYTES:
        return "coverage" if _is_coverage_json(head + file.read(MAX_JSON_BYTES)) else "file"
    return "file"


class _RootFound(Exception):
    """Stops the parser at the first element."""


def _kind_of_root(head: bytes) -> ArtifactKind:
    """Return the kind that the root element of an XML document tells; one that declares entities has none."""
    from xml.parsers import expat  # loaded on first use

    root: list[str] = []
    doctype: list[str] = []

    def begin(name: str, attributes: dict[str, str]) -> None:
        root.append(name)
        raise _RootFound

    def begin_doctype(name: str, system_id: str | None, public_id: str | None, has_internal_subset: int) -> None:
        doctype.append(name)
        if has_internal_subset:
            raise _RootFound

    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    parser.StartDoctypeDeclHandler = begin_doctype
    with suppress(_RootFound, expat.ExpatError):
        parser.Parse(head, False)
    if root in (["testsuites"], ["testsuite"]) and not doctype:  # `read_junit` refuses a DOCTYPE
        return "junit"
    # Cobertura's files name a DTD; it is never loaded.
    return "coverage" if root == ["coverage"] else "file"


def _is_coverage_json(data: bytes) -> bool:
    for form in _JSON_FORMS:
        try:
            if form.decode(data):
                return True
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return False
