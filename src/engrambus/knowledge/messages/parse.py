"""Parses a text into a message, or into every problem that prevents it, each with its field and line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
from engrambus.evidence.pointers import Pointer, PointerCompleter
from engrambus.knowledge.engrams import CheckedEngram, read_used, validate
from engrambus.knowledge.messages.fields import (
    check_filled,
    count,
    engram_object,
    items,
    line_text,
    mapping,
    optional_text,
    pointer,
    text,
)
from engrambus.knowledge.messages.source import ProblemList, published_name, read_source
from engrambus.knowledge.messages.values import (
    CHILD_SECTIONS,
    PARENT_SECTIONS,
    STATUSES,
    ChildBudgets,
    ChildMessage,
    DerefRequest,
    GrantNote,
    Message,
    MessageKind,
    Output,
    ParentMessage,
    TargetedPointer,
)
from engrambus.policy import ROLES

MAX_BUDGET_TOKEN_CHARS = 4_096
ULID_CHARS = 26
MAX_TARGET_CHARS = 96

_SECTIONS = {"child": CHILD_SECTIONS, "parent": PARENT_SECTIONS}
_REQUIRED = {"child": ("ROLE", "TASK_STATUS", "OUTPUT"), "parent": ("ROLE",)}
# Words that models write instead of the published ones; each has only one meaning here.
_STATUS_SYNONYMS = {
    "complete": "done",
    "completed": "done",
    "finished": "done",
    "ongoing": "in_progress",
    "started": "in_progress",
    "working": "in_progress",
    "waiting": "blocked",
    "failure": "failed",
}


class ParsedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The result of parsing a text: the message, or the parts that could be read and all problems."""

    text: str
    """The text as it was sent."""
    kind: MessageKind
    message: Message | None
    """None if there are problems."""
    parts: dict[str, Any]
    """Fields of the message that could be read, by name; of a list, the items that could be read."""
    problems: tuple[EngramBusError, ...]
    item_counts: dict[str, int]
    """Number of items in each section, valid and invalid ones."""
    lines: dict[str, int]
    """Line of each field."""


def parse_message(
    text: str,
    kind: MessageKind,
    *,
    max_ttl_us: int,
    role: str | None = None,
    completer: PointerCompleter | None = None,
) -> ParsedMessage:
    """Parse a text; problems are returned, not raised.

    `max_ttl_us` is the project's longest lifetime of an engram. With `role`, ROLE must be that role. `completer`
    completes short pointers; without one they are refused.
    """
    completer = completer or PointerCompleter()
    lines: dict[str, int] = {}
    parts: dict[str, Any] = {}
    item_counts: dict[str, int] = {}
    message: Message | None = None
    try:
        value, lines = read_source(text)
        problem_list = ProblemList(lines, completer.field_as_sent)
        sections = _sections(value, kind, problem_list)
        lines = dict(problem_list.lines)
        item_counts = {name: len(items(section, name)) for name, section in sections.items()}
        parts = _PARSERS[kind](sections, problem_list, completer, max_ttl_us)
        _check_role(parts, role, problem_list)
        if not problem_list.problems:
            message = ChildMessage(**parts) if kind == "child" else ParentMessage(**parts)
        problems = tuple(problem_list.problems)
    except EngramBusError as problem:
        problems = (problem,)
    if role is not None:
        parts["role"] = role  # the template to resend gets the sender's role, also if ROLE was wrong
    return ParsedMessage(
        text=text, kind=kind, message=message, parts=parts, problems=problems, item_counts=item_counts, lines=lines
    )


def _sections(value: Any, kind: MessageKind, problems: ProblemList) -> dict[str, Any]:
    """Return the sections by their published names, and record their lines under those names."""
    section_names = _SECTIONS[kind]
    if not isinstance(value, dict):
        raise problems.locate(
            MessageShape(hint=f"Write each section at the margin, beginning with {section_names[0]}:")
        )
    sections: dict[str, Any] = {}
    published_names: dict[str, str] = {}
    for written, section in value.items():
        name = published_name(written)
        with problems.collect():
            if name not in section_names:
                raise _unknown_section(written[:80], name, kind)
            if name in sections:
                raise DuplicateKey(f"The section {name} appears twice.", field=written)
            sections[name] = section
            published_names[written] = name
    _copy_lines(problems, published_names)
    for name in _REQUIRED[kind]:
        if sections.get(name) is None:
            with problems.collect():
                raise MessageSectionMissing(f"{name} is missing.", field=name)
    return sections


def _unknown_section(written: str, name: str, kind: MessageKind) -> MessageSectionUnknown:
    opposite = "parent" if kind == "child" else "child"
    hint = f"{name} is a section of a {opposite}'s message." if name in _SECTIONS[opposite] else None
    return MessageSectionUnknown(
        f"'{written}' is not a section of a {kind}'s message.",
        field=written,
        limit=", ".join(_SECTIONS[kind]),
        hint=hint,
    )


def _copy_lines(problems: ProblemList, published_names: dict[str, str]) -> None:
    """Make the lines of a section written as `role:` available under `ROLE` too."""
    if all(written == name for written, name in published_names.items()):
        return
    lines: dict[str, int] = {}
    for field, line in problems.lines.items():
        lines[field] = line
        ends = [index for index in (field.find("."), field.find("[")) if index >= 0]
        section = field[: min(ends)] if ends else field
        if section in published_names:
            lines[published_names[section] + field[len(section) :]] = line
    problems.lines = lines


def _child_parts(
    sections: dict[str, Any], problems: ProblemList, completer: PointerCompleter, max_ttl_us: int
) -> dict[str, Any]:
    def read_engram(item: Any, field: str) -> CheckedEngram:
        return _engram(item, field, problems, completer, max_ttl_us)

    parts = _role_part(sections, problems)
    if sections.get("TASK_STATUS") is not None:
        with problems.collect():
            parts["task_status"] = _status(sections["TASK_STATUS"])
    parts["engrams"] = _list_part(sections, "ENGRAMS", problems, read_engram)
    parts["pointer_pack"] = _list_part(sections, "POINTER_PACK", problems, partial(pointer, completer=completer))
    read_request = partial(_deref_request, completer=completer)
    parts["deref_requests"] = _list_part(sections, "DEREF_REQUESTS", problems, read_request)
    if sections.get("BUDGET_TOKEN") is not None:
        with problems.collect():
            parts["budget_token"] = text(sections["BUDGET_TOKEN"], "BUDGET_TOKEN", max_chars=MAX_BUDGET_TOKEN_CHARS)
    if sections.get("OUTPUT") is not None:
        with problems.collect():
            parts["output"] = _output(sections["OUTPUT"])
    return parts | _used_part(sections, problems) | _resends_part(sections, problems)


def _parent_parts(
    sections: dict[str, Any], problems: ProblemList, completer: PointerCompleter, max_ttl_us: int
) -> dict[str, Any]:
    parts = _role_part(sections, problems)
    for name in ("SHARED_BRIEF_MICRO", "INSTRUCTIONS"):
        if isinstance(section := sections.get(name), str):
            sections[name] = [line for line in section.split("\n") if line.strip()]
    parts["shared_brief_micro"] = _list_part(sections, "SHARED_BRIEF_MICRO", problems, line_text)
    if sections.get("BUDGETS") is not None:
        with problems.collect():
            parts["budgets"] = _budgets(sections["BUDGETS"])
    parts["grants"] = _list_part(sections, "GRANTS", problems, partial(_grant, completer=completer))
    read_pointer = partial(_targeted_pointer, completer=completer)
    parts["target_pointer_pack"] = _list_part(sections, "TARGET_POINTER_PACK", problems, read_pointer)
    parts["instructions"] = _list_part(sections, "INSTRUCTIONS", problems, line_text)
    has_content = any(part for name, part in parts.items() if name != "role" and part != ChildBudgets())
    if not problems.problems and not has_content:
        with problems.collect():
            raise MessageEmpty(hint=f"Besides ROLE, one of {', '.join(PARENT_SECTIONS[1:-2])}.")
    return parts | _used_part(sections, problems) | _resends_part(sections, problems)


_PARSERS: dict[str, Callable[[dict[str, Any], ProblemList, PointerCompleter, int], dict[str, Any]]] = {
    "child": _child_parts,
    "parent": _parent_parts,
}


def _list_part(
    sections: dict[str, Any], name: str, problems: ProblemList, parse_item: Callable[[Any, str], Any]
) -> tuple[Any, ...]:
    parsed = []
    for field, item in items(sections.get(name), name):
        if problems.is_full:
            break
        with problems.collect():
            parsed.append(parse_item(item, field))
    return tuple(parsed)


def _role_part(sections: dict[str, Any], problems: ProblemList) -> dict[str, Any]:
    value = sections.get("ROLE")
    if value is not None:
        with problems.collect():
            role = value.strip().lower() if isinstance(value, str) else None
            if role not in ROLES:
                raise MessageRole("There is no such role.", field="ROLE", limit=", ".join(ROLES))
            return {"role": role}
    return {}


def _used_part(sections: dict[str, Any], problems: ProblemList) -> dict[str, Any]:
    if sections.get("USED") is not None:
        with problems.collect():
            return {"used": read_used(sections["USED"], "USED")}
    return {}


def _resends_part(sections: dict[str, Any], problems: ProblemList) -> dict[str, Any]:
    if sections.get("RESENDS") is not None:
        with problems.collect():
            return {"resends": text(sections["RESENDS"], "RESENDS", max_chars=ULID_CHARS)}
    return {}


def _check_role(parts: dict[str, Any], role: str | None, problems: ProblemList) -> None:
    if role is not None and parts.get("role", role) != role:
        with problems.collect():
            raise MessageRole(field="ROLE", limit=role, used=parts["role"])


def _status(value: Any) -> str:
    word = value.strip().lower().replace(" ", "_").replace("-", "_") if isinstance(value, str) else ""
    word = _STATUS_SYNONYMS.get(word, word)
    if word not in STATUSES:
        raise MessageStatus(
            f"TASK_STATUS is not one of {', '.join(STATUSES)}.",
            field="TASK_STATUS",
            limit=", ".join(STATUSES),
            hint="Write details in OUTPUT.",
        )
    return word


def _engram(
    item: Any, field: str, problems: ProblemList, completer: PointerCompleter, max_ttl_us: int
) -> CheckedEngram:
    draft = engram_object(item, field, completer)
    try:
        if isinstance(item, dict):
            check_filled(item.get("claim"), "claim")
        return validate(draft, max_ttl_us=max_ttl_us)
    except EngramBusError as problem:
        raise problems.locate(problem, field) from None


def _deref_request(item: Any, field: str, completer: PointerCompleter) -> DerefRequest:
    fields = mapping(item, field, ("pointer", "reason", "intended_use"), ("pointer", "reason"))
    return DerefRequest(
        pointer=pointer(fields["pointer"], f"{field}.pointer", completer),
        reason=text(fields["reason"], f"{field}.reason"),
        intended_use=optional_text(fields.get("intended_use"), f"{field}.intended_use"),
    )


def _output(value: Any) -> Output:
    if isinstance(value, str):
        return Output(summary=text(value, "OUTPUT"))
    fields = mapping(value, "OUTPUT", ("summary", "next"), ("summary",))
    return Output(
        summary=text(fields["summary"], "OUTPUT.summary"), next=optional_text(fields.get("next"), "OUTPUT.next")
    )


def _budgets(value: Any) -> ChildBudgets:
    fields = mapping(value, "BUDGETS", ChildBudgets.__struct_fields__)
    limits = {name: count(limit, f"BUDGETS.{name}") for name, limit in fields.items() if limit is not None}
    return ChildBudgets(**limits)


def _targeted_pointer(item: Any, field: str, completer: PointerCompleter) -> Pointer:
    """Return a pointer of a broadcast's pack; `for` names the children or the roles that get it."""
    if not isinstance(item, dict) or item.get("for") is None:
        return pointer(item, field, completer)
    targets = tuple(
        text(target, target_field, max_chars=MAX_TARGET_CHARS)
        for target_field, target in items(item["for"], f"{field}.for")
    )
    target = pointer({name: value for name, value in item.items() if name != "for"}, field, completer)
    return TargetedPointer(type=target.type, ref=target.ref, digest=target.digest, span=target.span, targets=targets)


def _grant(item: Any, field: str, completer: PointerCompleter) -> GrantNote:
    fields = mapping(item, field, GrantNote.__struct_fields__, GrantNote.__struct_fields__)
    return GrantNote(
        budget_token=text(fields["budget_token"], f"{field}.budget_token", max_chars=MAX_BUDGET_TOKEN_CHARS),
        pointer=pointer(fields["pointer"], f"{field}.pointer", completer),
        cap_tokens=count(fields["cap_tokens"], f"{field}.cap_tokens", least=1),
    )
