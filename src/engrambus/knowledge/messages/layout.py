"""Prints a message as YAML text in the published form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import Pointer, compact_ref
from engrambus.knowledge.engrams import DEFAULTS, CheckedEngram
from engrambus.knowledge.messages.source import published_name, read_source
from engrambus.knowledge.messages.values import PARENT_SECTIONS, ChildMessage, DerefRequest, GrantNote, Message

if TYPE_CHECKING:
    from engrambus.knowledge.messages.facts import BroadcastSent

_NOT_PRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_POINTER_FIELDS = frozenset(Pointer.__struct_fields__) | {"for"}
_json_text = json.JSONEncoder(ensure_ascii=False).encode
_UNQUOTED = ("ROLE", "TASK_STATUS", "kind")
"""Fields with a fixed set of values, written without quotes."""
SHORT_REVISION_CHARS = 12
"""Digits of a commit in a short pointer: enough for the largest repositories."""
_ON_ONE_LINE = ("tags", "hash_keys", "used", "USED")


def print_message(message: Message) -> str:
    """Return the message as text; parsing it gives an equal message."""
    return to_yaml(message_sections(message))


def message_sections(message: Message, *, short: bool = False) -> dict[str, Any]:
    """Return the message as plain JSON values, in the published order.

    With `short`, fields of an engram that have the default of its kind are left out, and pointers to lines of the
    repository are written as `src/x.py:10-20@3a4c4fe86c1d`.
    """
    if isinstance(message, ChildMessage):
        sections: dict[str, Any] = {
            "ROLE": message.role,
            "TASK_STATUS": message.task_status,
            "ENGRAMS": [_engram_fields(engram, short) for engram in message.engrams],
            "POINTER_PACK": _pointers(message.pointer_pack, short),
            "DEREF_REQUESTS": [_with_pointer(request, short) for request in message.deref_requests],
            "OUTPUT": _plain(message.output),
            "USED": list(message.used),
            "RESENDS": message.resends,
        }
    else:
        sections = {
            "ROLE": message.role,
            "SHARED_BRIEF_MICRO": list(message.shared_brief_micro),
            "BUDGETS": _plain(message.budgets),
            "GRANTS": [_with_pointer(grant, short) for grant in message.grants],
            "TARGET_POINTER_PACK": _pointers(message.target_pointer_pack, short),
            "INSTRUCTIONS": list(message.instructions),
            "USED": list(message.used),
            "RESENDS": message.resends,
        }
    return {name: section for name, section in sections.items() if section}


def with_packs(sent: BroadcastSent, child: str) -> str:
    """Return the text of a broadcast as one child gets it: with the pointers that are for that child."""
    pointers = [pointer for pack in sent.packs if child in pack.to for pointer in pack.pointers]
    if not pointers:
        return sent.text
    section = to_yaml({"TARGET_POINTER_PACK": _plain(pointers)})
    # Only a section's name begins at the margin, so this can be no part of a text.
    head, instructions, tail = sent.text.partition("\nINSTRUCTIONS:\n")
    return f"{head}\n{section}{instructions[1:]}{tail}" if instructions else f"{sent.text}{section}"


def read_sections(text: str) -> dict[str, Any] | None:
    """Return the sections of a message by their published names, as they were written; None if it cannot be read.

    Nothing in them is checked or completed, so that short pointers stay short.
    """
    try:
        sections, _ = read_source(text)
    except EngramBusError:
        return None
    if not isinstance(sections, dict):
        return None
    return {published_name(name): section for name, section in sections.items()}


def print_sections(sections: Mapping[str, Any]) -> str:
    """Return sections as text, in the published order and without empty ones."""
    order = {name: position for position, name in enumerate(PARENT_SECTIONS)}
    names = sorted(sections, key=lambda name: order.get(name, len(order)))
    return to_yaml({name: sections[name] for name in names if sections[name]})


def to_yaml(sections: Mapping[str, Any], notes: Mapping[str, str] | None = None) -> str:
    """Return sections as YAML text, each after its note as a comment; the note of "" comes last."""
    lines: list[str] = []
    for name, section in sections.items():
        lines += [f"# {line}" for line in (notes or {}).get(name, "").splitlines()]
        lines += _entry(name, section, 0)
    lines += [f"# {line}" for line in (notes or {}).get("", "").splitlines()]
    return "\n".join(lines) + "\n"


def _engram_fields(engram: CheckedEngram, short: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": engram.id} if engram.id is not None else {}
    fields |= {"kind": engram.kind, "claim": engram.claim}
    for name in ("confidence", "ttl", "scope"):
        value = getattr(engram, name)
        if not short or value != getattr(DEFAULTS[engram.kind], name):
            fields[name] = value
    fields["pointers"] = _pointers(engram.pointers, short)
    for name in ("tags", "hash_keys", "used"):
        if getattr(engram, name):
            fields[name] = list(getattr(engram, name))
    if engram.embedding_ref is not None:
        fields["embedding_ref"] = engram.embedding_ref
    return fields


def _pointers(pointers: Iterable[Pointer], short: bool) -> list[Any]:
    return [_pointer(pointer, short) for pointer in pointers]


def _pointer(pointer: Pointer, short: bool) -> Any:
    plain = _plain(pointer)
    text = compact_ref(pointer.ref, SHORT_REVISION_CHARS) if short and pointer.digest is None else pointer.ref
    if text == pointer.ref:
        return plain
    others = {name: value for name, value in plain.items() if name not in ("type", "ref")}
    return {"ref": text, **others} if others else text


def _with_pointer(item: DerefRequest | GrantNote, short: bool) -> dict[str, Any]:
    fields: dict[str, Any] = _plain(item)
    return fields | {"pointer": _pointer(item.pointer, short)}


def _plain(value: Any) -> Any:
    plain = msgspec.to_builtins(value)
    return list(plain) if isinstance(plain, tuple) else plain


def _entry(name: str, value: Any, depth: int) -> Iterator[str]:
    margin = "  " * depth
    if isinstance(value, dict) and not _is_pointer(value):
        yield f"{margin}{name}:"
        for key, inner in value.items():
            yield from _entry(key, inner, depth + 1)
    elif isinstance(value, list) and name not in _ON_ONE_LINE:
        yield f"{margin}{name}:"
        for item in value:
            yield from _item(item, depth + 1)
    else:
        yield f"{margin}{name}: {value if name in _UNQUOTED else _inline(value)}"


def _item(item: Any, depth: int) -> Iterator[str]:
    margin = "  " * depth
    if not isinstance(item, dict) or _is_pointer(item):
        yield f"{margin}- {_inline(item)}"
        return
    mark = "- "  # before the first line of the item only
    for key, value in item.items():
        for line in _entry(key, value, depth + 1):
            yield f"{margin}{mark}{line[len(margin) + 2 :]}" if mark else line
            mark = ""


def _is_pointer(value: dict[str, Any]) -> bool:
    return value.keys() <= _POINTER_FIELDS


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key}: {_inline(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_quoted, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    # JSON strings are YAML strings, except for these characters, which YAML does not allow unescaped.
    return _NOT_PRINTABLE.sub(lambda match: f"\\u{ord(match.group()):04x}", _json_text(text))
