"""From text to message, or to every refusal there is to give, each with its field and its line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from engrambus.errors import (
    DuplicateKey,
    EngramBusError,
    MessageEmpty,
    MessageRole,
    MessageSectionMissing,
    MessageSectionUnknown,
    MessageShape,
    MessageStatus,
)
from engrambus.knowledge.engrams import CheckedEngram, validate
from engrambus.knowledge.messages.fields import (
    count,
    engram_object,
    items,
    line_text,
    mapping,
    optional_text,
    pointer,
    text,
)
from engrambus.knowledge.messages.source import Sheet, read_source
from engrambus.knowledge.messages.values import (
    CHILD_SECTIONS,
    PARENT_SECTIONS,
    STATUSES,
    Budgets,
    ChildMessage,
    DerefRequest,
    GrantNote,
    Message,
    MessageKind,
    Output,
    ParentMessage,
)
from engrambus.policy import ROLES

MAX_BUDGET_TOKEN = 4_096

_SECTIONS = {"child": CHILD_SECTIONS, "parent": PARENT_SECTIONS}
_REQUIRED = {"child": ("ROLE", "TASK_STATUS", "OUTPUT"), "parent": ("ROLE",)}
_OTHER_WORDS = {
    "complete": "done",
    "completed": "done",
    "finished": "done",
    "ongoing": "in_progress",
    "started": "in_progress",
    "working": "in_progress",
    "waiting": "blocked",
    "failure": "failed",
}


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What could be read of a text, and everything wrong with it."""

    text: str
    """As it was sent."""
    kind: MessageKind
    message: Message | None
    """Only when nothing is wrong."""
    parts: dict[str, Any]
    """The fields that could be read, by the names of the message's own; of a list, the items that could."""
    problems: tuple[EngramBusError, ...]
    sent: dict[str, int]
    """How many items each section held, good and bad."""
    lines: dict[str, int]


def parse_message(text: str, kind: MessageKind, *, max_ttl: int, role: str | None = None) -> Message:
    """The message a text holds, or the first refusal.

    `max_ttl` is the project's ceiling for engrams in microseconds; with `role`, ROLE must be that one.
    """
    reading = read_message(text, kind, max_ttl=max_ttl, role=role)
    if reading.message is None:
        raise reading.problems[0]
    return reading.message


def read_message(text: str, kind: MessageKind, *, max_ttl: int, role: str | None = None) -> Reading:
    """Everything that can be read of a text; never raises a refusal."""
    lines: dict[str, int] = {}
    parts: dict[str, Any] = {}
    sent: dict[str, int] = {}
    message: Message | None = None
    try:
        value, lines = read_source(text)
        sheet = Sheet(lines)
        sections = _sections(value, kind, sheet)
        lines = dict(sheet.lines)
        sent = {name: len(items(said, name)) for name, said in sections.items()}
        parts = _READERS[kind](sections, sheet, max_ttl)
        _check_role(parts, role, sheet)
        if not sheet.problems:
            message = ChildMessage(**parts) if kind == "child" else ParentMessage(**parts)
        problems = tuple(sheet.problems)
    except EngramBusError as problem:
        problems = (problem,)
    if role is not None:
        parts["role"] = role
    return Reading(text=text, kind=kind, message=message, parts=parts, problems=problems, sent=sent, lines=lines)


def _sections(value: Any, kind: MessageKind, sheet: Sheet) -> dict[str, Any]:
    """The sections by their published names; lines are noted under those names too."""
    known = _SECTIONS[kind]
    if not isinstance(value, dict):
        raise sheet.placed(MessageShape(hint=f"Write {known[0]}: and so on, each at the margin."))
    sections: dict[str, Any] = {}
    renamed: dict[str, str] = {}
    for written, said in value.items():
        name = written.strip().upper().replace(" ", "_").replace("-", "_")
        with sheet.noting():
            if name not in known:
                raise _unknown(written[:80], name, kind)
            if name in sections:
                raise DuplicateKey(f"The section {name} stands twice.", field=written)
            sections[name] = said
            renamed[written] = name
    _rename(sheet, renamed)
    for name in _REQUIRED[kind]:
        if sections.get(name) is None:
            with sheet.noting():
                raise MessageSectionMissing(f"{name} is missing.", field=name)
    return sections


def _unknown(written: str, name: str, kind: MessageKind) -> MessageSectionUnknown:
    other = "parent" if kind == "child" else "child"
    hint = f"{name} is a section of a {other}'s message." if name in _SECTIONS[other] else None
    return MessageSectionUnknown(
        f"'{written}' is not a section of a {kind}'s message.",
        field=written,
        limit=", ".join(_SECTIONS[kind]),
        hint=hint,
    )


def _rename(sheet: Sheet, renamed: dict[str, str]) -> None:
    """Note the lines of sections written `role:` under `ROLE` as well."""
    if all(written == name for written, name in renamed.items()):
        return
    lines: dict[str, int] = {}
    for field, line in sheet.lines.items():
        lines[field] = line
        ends = [at for at in (field.find("."), field.find("[")) if at >= 0]
        head = field[: min(ends)] if ends else field
        if head in renamed:
            lines[renamed[head] + field[len(head) :]] = line
    sheet.lines = lines


def _child(sections: dict[str, Any], sheet: Sheet, max_ttl: int) -> dict[str, Any]:
    parts = _with_role(sections, sheet)
    if sections.get("TASK_STATUS") is not None:
        with sheet.noting():
            parts["task_status"] = _status(sections["TASK_STATUS"])
    parts["engrams"] = _each(sections, "ENGRAMS", sheet, lambda item, field: _engram(item, field, sheet, max_ttl))
    parts["pointer_pack"] = _each(sections, "POINTER_PACK", sheet, pointer)
    parts["deref_requests"] = _each(sections, "DEREF_REQUESTS", sheet, _deref_request)
    if sections.get("OUTPUT") is not None:
        with sheet.noting():
            parts["output"] = _output(sections["OUTPUT"])
    return parts


def _parent(sections: dict[str, Any], sheet: Sheet, max_ttl: int) -> dict[str, Any]:
    parts = _with_role(sections, sheet)
    for name in ("SHARED_BRIEF_MICRO", "INSTRUCTIONS"):
        if isinstance(said := sections.get(name), str):
            sections[name] = [line for line in said.split("\n") if line.strip()]
    parts["shared_brief_micro"] = _each(sections, "SHARED_BRIEF_MICRO", sheet, line_text)
    if sections.get("BUDGETS") is not None:
        with sheet.noting():
            parts["budgets"] = _budgets(sections["BUDGETS"])
    parts["grants"] = _each(sections, "GRANTS", sheet, _grant)
    parts["target_pointer_pack"] = _each(sections, "TARGET_POINTER_PACK", sheet, pointer)
    parts["instructions"] = _each(sections, "INSTRUCTIONS", sheet, line_text)
    if not sheet.problems and not any(said for name, said in parts.items() if name != "role" and said != Budgets()):
        with sheet.noting():
            raise MessageEmpty(hint=f"Besides ROLE, one of {', '.join(PARENT_SECTIONS[1:])}.")
    return parts


_READERS: dict[str, Callable[[dict[str, Any], Sheet, int], dict[str, Any]]] = {"child": _child, "parent": _parent}


def _each(sections: dict[str, Any], name: str, sheet: Sheet, read: Callable[[Any, str], Any]) -> tuple[Any, ...]:
    kept = []
    for field, item in items(sections.get(name), name):
        if sheet.is_full:
            break
        with sheet.noting():
            kept.append(read(item, field))
    return tuple(kept)


def _with_role(sections: dict[str, Any], sheet: Sheet) -> dict[str, Any]:
    said = sections.get("ROLE")
    if said is not None:
        with sheet.noting():
            role = said.strip().lower() if isinstance(said, str) else None
            if role not in ROLES:
                raise MessageRole("There is no such role.", field="ROLE", limit=", ".join(ROLES))
            return {"role": role}
    return {}


def _check_role(parts: dict[str, Any], role: str | None, sheet: Sheet) -> None:
    if role is not None and parts.get("role", role) != role:
        with sheet.noting():
            raise MessageRole(field="ROLE", limit=role, used=parts["role"])


def _status(said: Any) -> str:
    word = said.strip().lower().replace(" ", "_").replace("-", "_") if isinstance(said, str) else ""
    word = _OTHER_WORDS.get(word, word)
    if word not in STATUSES:
        raise MessageStatus(
            f"TASK_STATUS is not one of {', '.join(STATUSES)}.",
            field="TASK_STATUS",
            limit=", ".join(STATUSES),
            hint="Say the rest in OUTPUT.",
        )
    return word


def _engram(item: Any, field: str, sheet: Sheet, max_ttl: int) -> CheckedEngram:
    try:
        return validate(engram_object(item), max_ttl_us=max_ttl)
    except EngramBusError as problem:
        raise sheet.placed(problem, field) from None


def _deref_request(item: Any, field: str) -> DerefRequest:
    said = mapping(item, field, ("pointer", "reason", "intended_use"), ("pointer", "reason"))
    return DerefRequest(
        pointer=pointer(said["pointer"], f"{field}.pointer"),
        reason=text(said["reason"], f"{field}.reason"),
        intended_use=optional_text(said.get("intended_use"), f"{field}.intended_use"),
    )


def _output(said: Any) -> Output:
    if isinstance(said, str):
        return Output(summary=text(said, "OUTPUT"))
    said = mapping(said, "OUTPUT", ("summary", "next"), ("summary",))
    return Output(summary=text(said["summary"], "OUTPUT.summary"), next=optional_text(said.get("next"), "OUTPUT.next"))


def _budgets(said: Any) -> Budgets:
    said = mapping(said, "BUDGETS", Budgets.__struct_fields__)
    return Budgets(**{name: count(value, f"BUDGETS.{name}") for name, value in said.items() if value is not None})


def _grant(item: Any, field: str) -> GrantNote:
    said = mapping(item, field, GrantNote.__struct_fields__, GrantNote.__struct_fields__)
    return GrantNote(
        budget_token=text(said["budget_token"], f"{field}.budget_token", longest=MAX_BUDGET_TOKEN),
        pointer=pointer(said["pointer"], f"{field}.pointer"),
        cap_tokens=count(said["cap_tokens"], f"{field}.cap_tokens", least=1),
    )
