"""From pasted text to the pointer that leads to it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from engrambus.errors import FieldValue
from engrambus.evidence.pointers import Pointer, check
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, Tool, operation

MAX_TEXT = 16 * 1024


class AnchorText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text, and where to look for it."""

    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, description="Lines of a file, as they were pasted")]
    path: Annotated[str, Meta(max_length=4096, description="Their path, its end, or a file's name")] | None = None
    revision: Annotated[str, Meta(max_length=256, description="The commit to look in; HEAD unless said")] | None = None
    snapshot: Annotated[bool, Meta(description="Look at uncommitted lines too")] = False


class AnchorAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    found: bool
    """Whether the text stands in one place."""
    candidates: list[Pointer]
    """Where it stands, when in several places; the likeliest first."""
    matched_lines: int
    """How many lines of the text were found."""
    pointer: Pointer | None = None
    """The lines that hold the text, with their digest."""


@operation(
    "less.anchor",
    route=Route("POST", "/pointer/anchor"),
    command=Command(
        "anchor",
        section="knowledge",
        example='engrambus anchor "def refund(order):" --path src/refunds.py',
        renderer="evidence:anchor",
        rank=32,
        arguments=("text",),
        override="knowledge:anchor",
    ),
    tool=Tool(hidden=("revision",), explained=("snapshot",), writes_files=True),
)
def anchor_text(context: Context, request: AnchorText) -> AnchorAnswer:
    """Find the lines that contain a text and return a pointer."""
    size = len(request.text.encode())
    if size > MAX_TEXT:
        raise FieldValue("The text is too long.", field="text", limit=MAX_TEXT, used=size)
    if request.snapshot and request.revision is not None:
        raise FieldValue("A snapshot is of what lies on disk now, and has no revision.", field="revision")
    project_files = context.project_files
    commit = (
        project_files.snapshot(request.path) if request.snapshot else project_files.expand(request.revision or "HEAD")
    )
    anchor = project_files.anchors.find(request.text, path=request.path, revision=commit)
    return AnchorAnswer(
        found=anchor.pointer is not None,
        pointer=context.evidence.stamp(*check(anchor.pointer)) if anchor.pointer else None,
        candidates=list(anchor.candidates),
        matched_lines=anchor.matched_lines,
    )
