"""Message values: named sections, sent from a child to its parent or from a parent to its children."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

import msgspec

from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.engrams import CheckedEngram

MessageKind = Literal["child", "parent"]
TaskStatus = Literal["in_progress", "blocked", "done", "failed"]

STATUSES: tuple[str, ...] = get_args(TaskStatus)
CHILD_SECTIONS = (
    "ROLE",
    "TASK_STATUS",
    "ENGRAMS",
    "POINTER_PACK",
    "DEREF_REQUESTS",
    "OUTPUT",
    "USED",
    "BUDGET_TOKEN",
    "RESENDS",
)
PARENT_SECTIONS = (
    "ROLE",
    "SHARED_BRIEF_MICRO",
    "BUDGETS",
    "GRANTS",
    "TARGET_POINTER_PACK",
    "INSTRUCTIONS",
    "USED",
    "RESENDS",
)


class DerefRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pointer that a child asks to read, and the reason."""

    pointer: Pointer
    reason: str
    intended_use: str | None = None


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of the work, in a sentence or two."""

    summary: str
    next: str | None = None
    """The step that should follow."""


class ChildMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A report from a child to its parent."""

    role: str
    """The sender's role."""
    task_status: TaskStatus
    engrams: tuple[CheckedEngram, ...] = ()
    """Claims the child puts on the bus; validated, not stamped yet."""
    pointer_pack: tuple[Pointer, ...] = ()
    """Pointers the parent may want to read."""
    deref_requests: tuple[DerefRequest, ...] = ()
    output: Output
    used: tuple[str, ...] = ()
    """Ids of the engrams it is based on."""
    budget_token: str | None = None
    """Budget token of the grant that allows its code; never printed."""
    resends: str | None = None
    """Id of the rejected message that this one replaces."""


class ChildBudgets(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits a parent sets for its children; a limit that is not set stays as the project has it."""

    max_engrams: int | None = None
    max_repo_spans: int | None = None
    max_artifact_sections: int | None = None
    max_sam_items: int | None = None
    max_inline_tokens: int | None = None
    max_deref_tokens: int | None = None
    max_engram_chars: int | None = None
    max_inline_code_chars: int | None = None


class GrantNote(msgspec.Struct, frozen=True, kw_only=True):
    """A budget token that a parent hands to a child."""

    budget_token: str
    pointer: Pointer
    cap_tokens: int


class TargetedPointer(Pointer, frozen=True, kw_only=True):
    """A pointer of a broadcast that is for some of the children only."""

    targets: tuple[str, ...] = msgspec.field(name="for", default=())
    """Names of children, or roles."""


class ParentMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A broadcast from a parent to its children."""

    role: str
    """The sender's role."""
    shared_brief_micro: tuple[str, ...] = ()
    """Lines of the shared brief."""
    budgets: ChildBudgets = ChildBudgets()
    grants: tuple[GrantNote, ...] = ()
    target_pointer_pack: tuple[Pointer, ...] = ()
    """Pointers the children should read; a `TargetedPointer` is for some of them."""
    instructions: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    """Ids of the engrams it is based on."""
    resends: str | None = None
    """Id of the rejected message that this one replaces."""


Message: TypeAlias = ChildMessage | ParentMessage


def free_texts(message: Message) -> Iterator[tuple[str, str]]:
    """Yield field and text of everything the author was free to write; a list of lines is one text."""
    if isinstance(message, ChildMessage):
        for position, engram in enumerate(message.engrams):
            yield f"ENGRAMS[{position}].claim", engram.claim
            for name in ("tags", "hash_keys"):
                for index, word in enumerate(getattr(engram, name)):
                    yield f"ENGRAMS[{position}].{name}[{index}]", word
        for position, request in enumerate(message.deref_requests):
            yield f"DEREF_REQUESTS[{position}].reason", request.reason
            if request.intended_use is not None:
                yield f"DEREF_REQUESTS[{position}].intended_use", request.intended_use
        yield "OUTPUT.summary", message.output.summary
        if message.output.next is not None:
            yield "OUTPUT.next", message.output.next
    else:
        for name, lines in (("SHARED_BRIEF_MICRO", message.shared_brief_micro), ("INSTRUCTIONS", message.instructions)):
            if lines:
                yield name, "\n".join(lines)
