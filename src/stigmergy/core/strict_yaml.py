"""Reading YAML from strangers: JSON's types only, no aliases, no tags, and every refusal names its line.

`yes`, `2026-01-08` and `0x10` are texts; `true`, `null`, `10` and `0.5` are what JSON calls them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from stigmergy.core.canonical import MAX_INTEGER
from stigmergy.errors import BadText, BadYaml, BodyTooLarge, DuplicateKey, NumberRange, TooDeep

MAX_BYTES = 262_144
MAX_DEPTH = 16

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_CONSTANTS: dict[str, Any] = {"null": None, "~": None, "": None, "true": True, "false": False}


def read_yaml(text: str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """The value of a YAML text, or a refusal that names the line."""
    import yaml

    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadText("The text holds half of a surrogate pair.") from None
    if size > max_bytes:
        raise BodyTooLarge(limit=max_bytes, used=size)
    events = yaml.parse(text, Loader=yaml.CSafeLoader)
    try:
        return _document(events, max_depth)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None) or getattr(problem, "context_mark", None)
        said = getattr(problem, "problem", None) or getattr(problem, "reason", None) or "it cannot be read"
        raise BadYaml(f"Not YAML{_where(mark)}: {said}.") from None


def _document(events: Iterator[Any], max_depth: int) -> Any:
    import yaml

    value: Any = None
    documents = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise BadYaml(f"More than one document{_where(event.start_mark)}.")
            value = _value(next(events), events, max_depth)
    return value


def _value(event: Any, events: Iterator[Any], depth: int) -> Any:
    import yaml

    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise BadYaml(f"Anchors and aliases are not taken{_where(event.start_mark)}.")
    if event.tag is not None:
        raise BadYaml(f"Tags are not taken{_where(event.start_mark)}.")
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event)
    if depth == 0:
        raise TooDeep(f"Nested too deeply{_where(event.start_mark)}.")
    if isinstance(event, yaml.SequenceStartEvent):
        items = []
        while not isinstance(item := next(events), yaml.SequenceEndEvent):
            items.append(_value(item, events, depth - 1))
        return items
    pairs: dict[str, Any] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        if not isinstance(key, yaml.ScalarEvent) or key.tag is not None or key.anchor:
            raise BadYaml(f"A key is not a plain text{_where(key.start_mark)}.")
        name = key.value
        if name in pairs:
            raise DuplicateKey(f"The key '{name[:80]}' stands twice{_where(key.start_mark)}.", field=name[:80])
        pairs[name] = _value(next(events), events, depth - 1)
    return pairs


def _scalar(event: Any) -> Any:
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    value = float(text) if number.group(1) or number.group(2) else int(text) if len(text) <= 17 else MAX_INTEGER + 1
    if value - value != 0 or (isinstance(value, int) and abs(value) > MAX_INTEGER):
        raise NumberRange(f"A number is out of range{_where(event.start_mark)}.", limit=MAX_INTEGER)
    return value


def _where(mark: Any) -> str:
    return f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
