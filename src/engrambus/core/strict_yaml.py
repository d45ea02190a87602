"""Strict YAML: only the types of JSON, no aliases, no tags, and every refusal names its line.

`yes`, `2026-01-08` and `0x10` are texts; `true`, `null`, `10` and `0.5` mean the same as in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from engrambus.core.canonical_json import MAX_INTEGER
from engrambus.core.strict_json import MAX_FIELD_CHARS, MAX_KEY_CHARS, MAX_NUMBER_CHARS
from engrambus.errors import BadText, BadYaml, BodyTooLarge, DuplicateKey, NumberRange, TextCut, TooDeep

MAX_BYTES = 262_144
MAX_DEPTH = 16

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_CONSTANTS: dict[str, Any] = {"null": None, "~": None, "": None, "true": True, "false": False}
_COMMENT_WITHOUT_SPACE = re.compile(r"[ \t]+#[^\s#]")


def read_yaml(text: str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """Parse a YAML text, or refuse it and name the line."""
    return _Reader(text, max_bytes, max_depth).value


def read_yaml_with_lines(
    text: str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> tuple[Any, dict[str, int]]:
    """Parse a YAML text; return its value and the line of every field: `""`, `a`, `a.b`, `a.b[2]`.

    Agents write issue numbers into unquoted texts. Text that continues with ` #12` is refused, because YAML would drop
    the number silently as a comment. `# a comment`, with a space, is accepted as one.
    """
    reader = _Reader(text, max_bytes, max_depth, lines={})
    return reader.value, reader.lines or {}


class _Reader:
    """Builds the value in one pass over the parser's events; PyYAML's own constructor knows dates and aliases."""

    def __init__(self, text: str, max_bytes: int, max_depth: int, lines: dict[str, int] | None = None) -> None:
        import yaml

        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            raise BadText("The text contains half of a surrogate pair.") from None
        if len(encoded) > max_bytes:
            raise BodyTooLarge(limit=max_bytes, used=len(encoded))
        self.text = text
        self.lines = lines
        self._events: Iterator[Any] = yaml.parse(text, Loader=yaml.CSafeLoader)
        try:
            self.value = self._document(max_depth)
        except yaml.reader.ReaderError as problem:
            line = encoded[: problem.position].count(b"\n") + 1
            raise BadYaml(f"Not YAML at line {line}: {problem.reason}.", line=line) from None
        except yaml.YAMLError as problem:
            mark = getattr(problem, "problem_mark", None) or getattr(problem, "context_mark", None)
            reason = getattr(problem, "problem", None) or "it cannot be read"
            raise BadYaml(f"Not YAML{_where(mark)}: {reason}.", line=_line(mark)) from None

    def _document(self, max_depth: int) -> Any:
        import yaml

        value: Any = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise BadYaml(f"More than one document{_where(event.start_mark)}.", line=_line(event.start_mark))
                first = next(self._events)
                self._add_line("", first)
                value = self._value(first, max_depth, "")
        return value

    def _value(self, event: Any, depth: int, field: str) -> Any:
        import yaml

        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise BadYaml(
                f"Anchors and aliases are not accepted{_where(event.start_mark)}.", line=_line(event.start_mark)
            )
        if event.tag is not None:
            raise BadYaml(f"Tags are not accepted{_where(event.start_mark)}.", line=_line(event.start_mark))
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, field)
        if depth == 0:
            raise TooDeep(f"Nested too deeply{_where(event.start_mark)}.", line=_line(event.start_mark))
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
                inner = f"{field}[{len(items)}]"
                self._add_line(inner, item)
                items.append(self._value(item, depth - 1, inner))
            return items
        pairs: dict[str, Any] = {}
        while not isinstance(key := next(self._events), yaml.MappingEndEvent):
            if not isinstance(key, yaml.ScalarEvent) or key.tag is not None or key.anchor:
                raise BadYaml(f"A key is not plain text{_where(key.start_mark)}.", line=_line(key.start_mark))
            name = key.value
            if name in pairs:
                raise DuplicateKey(
                    f"The key '{name[:MAX_KEY_CHARS]}' appears twice{_where(key.start_mark)}.",
                    field=name[:MAX_KEY_CHARS],
                    line=_line(key.start_mark),
                )
            inner = f"{field}.{name[:MAX_KEY_CHARS]}" if field else name[:MAX_KEY_CHARS]
            self._add_line(inner, key)
            pairs[name] = self._value(next(self._events), depth - 1, inner)
        return pairs

    def _scalar(self, event: Any, field: str) -> Any:
        text: str = event.value
        if not event.implicit[0]:
            return text
        if self.lines is not None:
            self._check_not_cut(event, field)
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        number = _NUMBER.fullmatch(text)
        if number is None:
            return text
        value = float(text) if number.group(1) or number.group(2) else int(text) if len(text) <= 17 else MAX_INTEGER + 1
        if value - value != 0 or (isinstance(value, int) and abs(value) > MAX_INTEGER):
            raise NumberRange(
                f"A number is out of range{_where(event.start_mark)}.",
                field=field[:MAX_KEY_CHARS] or None,
                limit=MAX_INTEGER,
                used=text[:MAX_NUMBER_CHARS],
                line=_line(event.start_mark),
            )
        return value

    def _check_not_cut(self, event: Any, field: str) -> None:
        comment = _COMMENT_WITHOUT_SPACE.match(self.text, event.end_mark.index)
        if comment is not None and event.value:
            raise TextCut(
                f"YAML would drop the rest of the line as a comment{_where(event.end_mark)}.",
                field=field[:MAX_KEY_CHARS] or None,
                line=_line(event.end_mark),
                hint="Put the text in double quotes.",
            )

    def _add_line(self, field: str, event: Any) -> None:
        if self.lines is not None and len(field) <= MAX_FIELD_CHARS:
            self.lines[field] = event.start_mark.line + 1


def _line(mark: Any) -> int | None:
    return mark.line + 1 if mark is not None else None


def _where(mark: Any) -> str:
    return f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
