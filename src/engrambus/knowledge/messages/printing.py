"""From message to text, in the form that is published."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.engrams import DEFAULTS, CheckedEngram
from engrambus.knowledge.messages.values import ChildMessage, Message

_NOT_PRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_POINTER = frozenset(Pointer.__struct_fields__)
_written = json.JSONEncoder(ensure_ascii=False).encode
_WORDS = ("ROLE", "TASK_STATUS", "kind")
"""Fields with a fixed set of values, written without quotes."""


def print_message(message: Message) -> str:
    """The message as text; reading it gives the same message."""
    return lay_out(message_object(message))


def message_object(message: Message, *, short: bool = False) -> dict[str, Any]:
    """The message as an object of JSON, in the published order; `short` leaves out what every engram of a kind has."""
    if isinstance(message, ChildMessage):
        sections: dict[str, Any] = {
            "ROLE": message.role,
            "TASK_STATUS": message.task_status,
            "ENGRAMS": [_engram(engram, short) for engram in message.engrams],
            "POINTER_PACK": _plain(message.pointer_pack),
            "DEREF_REQUESTS": _plain(message.deref_requests),
            "OUTPUT": _plain(message.output),
        }
    else:
        sections = {
            "ROLE": message.role,
            "SHARED_BRIEF_MICRO": list(message.shared_brief_micro),
            "BUDGETS": _plain(message.budgets),
            "GRANTS": _plain(message.grants),
            "TARGET_POINTER_PACK": _plain(message.target_pointer_pack),
            "INSTRUCTIONS": list(message.instructions),
        }
    return {name: said for name, said in sections.items() if said}


def lay_out(sections: Mapping[str, Any], notes: Mapping[str, str] | None = None) -> str:
    """Sections as YAML text, each after its note; a note is a comment of one or more lines."""
    lines: list[str] = []
    for name, said in sections.items():
        lines += [f"# {line}" for line in (notes or {}).get(name, "").splitlines()]
        lines += _entry(name, said, 0)
    lines += [f"# {line}" for line in (notes or {}).get("", "").splitlines()]
    return "\n".join(lines) + "\n"


def _engram(engram: CheckedEngram, short: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"id": engram.id} if engram.id is not None else {}
    said |= {"kind": engram.kind, "claim": engram.claim}
    for name in ("confidence", "ttl", "scope"):
        value = getattr(engram, name)
        if not short or value != getattr(DEFAULTS[engram.kind], name):
            said[name] = value
    said["pointers"] = _plain(engram.pointers)
    for name in ("tags", "hash_keys"):
        if getattr(engram, name):
            said[name] = list(getattr(engram, name))
    if engram.embedding_ref is not None:
        said["embedding_ref"] = engram.embedding_ref
    return said


def _plain(value: Any) -> Any:
    plain = msgspec.to_builtins(value)
    return list(plain) if isinstance(plain, tuple) else plain


def _entry(name: str, said: Any, depth: int) -> Iterator[str]:
    margin = "  " * depth
    if isinstance(said, dict) and not _is_pointer(said):
        yield f"{margin}{name}:"
        for key, value in said.items():
            yield from _entry(key, value, depth + 1)
    elif isinstance(said, list) and name not in ("tags", "hash_keys"):
        yield f"{margin}{name}:"
        for item in said:
            yield from _item(item, depth + 1)
    else:
        yield f"{margin}{name}: {said if name in _WORDS else _inline(said)}"


def _item(item: Any, depth: int) -> Iterator[str]:
    margin = "  " * depth
    if not isinstance(item, dict) or _is_pointer(item):
        yield f"{margin}- {_inline(item)}"
        return
    mark = "- "
    for key, value in item.items():
        for line in _entry(key, value, depth + 1):
            yield f"{margin}{mark}{line[len(margin) + 2 :]}" if mark else line
            mark = ""


def _is_pointer(said: dict[str, Any]) -> bool:
    return said.keys() <= _POINTER


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key}: {_quoted(text)}" for key, text in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_quoted, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    return _NOT_PRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", _written(text))
