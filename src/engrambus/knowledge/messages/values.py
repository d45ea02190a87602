"""What a message is: named sections, from a child to its parent or from a parent to its children."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.engrams import CheckedEngram

MessageKind = Literal["child", "parent"]
TaskStatus = Literal["in_progress", "blocked", "done", "failed"]

STATUSES: tuple[str, ...] = get_args(TaskStatus)
CHILD_SECTIONS = ("ROLE", "TASK_STATUS", "ENGRAMS", "POINTER_PACK", "DEREF_REQUESTS", "OUTPUT")
PARENT_SECTIONS = ("ROLE", "SHARED_BRIEF_MICRO", "BUDGETS", "GRANTS", "TARGET_POINTER_PACK", "INSTRUCTIONS")


class DerefRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something a child would like to read, and why."""

    pointer: Pointer
    reason: str
    intended_use: str | None = None
    """What it will do with what it reads."""


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came out of the work, in a sentence or two."""

    summary: str
    next: str | None = None
    """What should happen now."""


class ChildMessage(msgspec.Struct, frozen=True, kw_only=True):
    """From a child to its parent."""

    role: str
    """The sender's role."""
    task_status: TaskStatus
    engrams: tuple[CheckedEngram, ...] = ()
    """What the child learnt; ready to be stamped."""
    pointer_pack: tuple[Pointer, ...] = ()
    """Where the parent may want to look."""
    deref_requests: tuple[DerefRequest, ...] = ()
    output: Output


class Budgets(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a parent allows its children; what it leaves out stays as the project has it."""

    max_engrams: int | None = None
    max_repo_spans: int | None = None
    max_artifact_sections: int | None = None
    max_sam_items: int | None = None
    max_inline_tokens: int | None = None
    max_deref_tokens: int | None = None
    max_engram_chars: int | None = None
    max_inline_code_chars: int | None = None


class GrantNote(msgspec.Struct, frozen=True, kw_only=True):
    """A grant on its way to a child."""

    budget_token: str
    pointer: Pointer
    cap_tokens: int


class ParentMessage(msgspec.Struct, frozen=True, kw_only=True):
    """From a parent to its children."""

    role: str
    """The sender's role."""
    shared_brief_micro: tuple[str, ...] = ()
    """What matters now, a line each."""
    budgets: Budgets = Budgets()
    grants: tuple[GrantNote, ...] = ()
    target_pointer_pack: tuple[Pointer, ...] = ()
    """Where the children should look."""
    instructions: tuple[str, ...] = ()


Message: TypeAlias = ChildMessage | ParentMessage
