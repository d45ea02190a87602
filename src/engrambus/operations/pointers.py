"""Operations on pointers: read the content, check the budget, make links, find the pointer of a pasted text."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from engrambus.core import is_hex
from engrambus.errors import FieldMissing, FieldValue
from engrambus.evidence.pointers import (
    Address,
    ArtifactAddress,
    BodyAddress,
    Content,
    DerefAnswer,
    DiffAddress,
    EvidenceState,
    Pointer,
    RepoAddress,
    SamAddress,
    TestAddress,
    UrlAddress,
    check_pointer,
    editor_link,
    github_compare_link,
    github_link,
    github_section_link,
    pointed_text,
    print_address,
    swhid,
)
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, Tool, operation
from engrambus.gateway.pointer_fields import Place, PointerOrRef
from engrambus.gateway.refusal_texts import hide_secrets_in
from engrambus.knowledge.messages import read_payers
from engrambus.policy import Caller, check_descends
from engrambus.policy.grants import check_deref, check_deref_type, deref

DEFAULT_MAX_TOKENS = 400
MAX_MAX_TOKENS = 100_000
MAX_ANCHOR_TEXT = 16 * 1024

PointerType = Literal["repo", "artifact", "sam", "diff", "test", "url"]
BudgetToken = Annotated[
    str, Meta(max_length=8192, description="Budget token of the grant: its handle, g_ and its id, or a Biscuit of it")
]


class DerefPointer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pointer to follow, and what the answer may cost."""

    pointer: PointerOrRef
    max_tokens: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_MAX_TOKENS,
            description="Maximum size of the answer in tokens; longer text is cut at the end of a line",
        ),
    ] = DEFAULT_MAX_TOKENS
    budget_token: BudgetToken | None = None
    tail: Annotated[bool, Meta(description="If it does not fit, show its end instead of its beginning")] = False


@operation(
    "less.deref_pointer",
    writes=True,
    route=Route("POST", "/pointer/deref"),
    command=Command(
        "deref",
        section="knowledge",
        example="engrambus deref src/refunds.py:10-20 --max-tokens 200",
        renderer="evidence:deref",
        rank=30,
        arguments=("pointer",),
        override="knowledge:deref",
    ),
    tool=Tool(about="Read the text a pointer leads to."),
)
def deref_pointer(context: Context, request: DerefPointer) -> DerefAnswer:
    """Read the text a pointer leads to, within a token limit.

    A pointer names a file, some of its lines and a commit: src/refunds.py:10-20@3a4c4fe. Following it, or
    "deref", counts against what an agent may read in a turn. It shows the lines as they were at that commit, and
    says if they have changed since and which lines hold them now.
    """
    pointer, address = check_pointer(request.pointer)
    content = context.evidence.read(pointer)
    (evidence,) = context.project_files.staleness_of([_compared(pointer, address, content)])
    pointed = pointed_text(pointer, content, tail=request.tail, evidence=evidence)
    return context.commit(
        lambda view: deref(
            view,
            pointed,
            caller=context.caller,
            payers=read_payers(view, context.policy, context.caller, context.limits),
            max_tokens=request.max_tokens,
            tail=request.tail,
            grant_key=context.grant_key,
            budget_token=request.budget_token,
        ),
        DerefAnswer,
        in_run=False,
        remember=False,  # a remembered answer is journalled, and the journal holds no content
    )


def _compared(pointer: Pointer, address: Address, content: Content) -> Pointer:
    """Return the pointer whose lines are compared with the files now: of a section, to its lines."""
    is_section = isinstance(address, ArtifactAddress) and content.source is not None
    return Pointer(type="repo", ref=print_address(content.source)) if is_section and content.source else pointer


class ValidateDeref(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dereference to check without doing it, or a type of pointers."""

    pointer: Annotated[PointerOrRef, Meta(description="What to read: path:10-20, a pointer, or its ref")] | None = None
    pointer_type: (
        Annotated[PointerType, Meta(description="Instead of a pointer: what is left for this type")] | None
    ) = None
    agent_id: Annotated[str, Meta(max_length=96, description="A descendant of yours; by default you")] | None = None
    budget_token: BudgetToken | None = None


class ValidateDerefAnswer(Struct, frozen=True, kw_only=True):
    ok: bool
    turn: int
    tokens_left: int
    """Tokens the turn, or the grant, still pays for."""
    reads_left: int | None
    """Dereferences of this type that the turn still has; null for a person, who has no turn."""
    granted: bool
    """True if a grant would pay for it instead of the turn."""
    problems: list[dict[str, Any]]
    """The error it would be refused with."""


@operation(
    "less.validate_deref",
    route=Route("POST", "/pointer/validate"),
    command=Command(
        "grant check",
        section="team",
        example="engrambus grant check --type repo",
        renderer="evidence:deref_check",
        rank=44,
        arguments=("pointer",),
        option_names={"pointer_type": "--type", "agent_id": "--agent"},
        override="team:grant_check",
    ),
    absent_from={"mcp": "dereferencing tells the same"},
    agent_fields=("agent_id",),
)
def validate_deref(context: Context, request: ValidateDeref) -> ValidateDerefAnswer:
    """Check whether you may read a pointer now, without reading it; or what is left for a type of pointers.

    The exit status is 1 if it would be refused. Grants count for a pointer, not for a type.
    """
    caller, limits = context.caller, context.limits
    if request.agent_id is not None and request.agent_id != caller.name:
        agent = check_descends(context.view, caller, request.agent_id, "agent_id")
        caller = Caller(project=caller.project, run=caller.run, name=agent.name, role=agent.role)
        limits = context.policy.checks(agent.role)
    payers = read_payers(context.view, context.policy, caller, limits)
    if (request.pointer is None) == (request.pointer_type is None):
        raise FieldMissing(
            "Name a pointer, or a type of pointers.", field="pointer", hint="`pointer` or `pointer_type`"
        )
    absent = None
    if request.pointer_type is not None:
        if request.budget_token is not None:
            raise FieldValue("A grant is for a pointer.", field="budget_token", hint="Name it in `pointer`.")
        outcome = check_deref_type(context.view, request.pointer_type, payers=payers)
    else:
        pointer, _ = check_pointer(request.pointer or "")
        absent = context.evidence.problem(pointer)
        outcome = check_deref(
            context.view,
            pointer,
            caller=caller,
            payers=payers,
            grant_key=context.grant_key,
            budget_token=request.budget_token,
        )
    refusal = absent or outcome.refusal
    return ValidateDerefAnswer(
        ok=refusal is None,
        turn=outcome.turn,
        tokens_left=outcome.tokens_left,
        reads_left=outcome.reads_left,
        granted=outcome.granted,
        problems=[hide_secrets_in(refusal).problem()] if refusal is not None else [],
    )


class LinkPointer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ref: Annotated[Place, Meta(max_length=300, description="path:10-20, or the pointer's ref")]


class LinkAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    ref: str
    """The pointer in canonical form."""
    editor: str | None = None
    """Opens the file at the line in an editor on this machine."""
    github: str | None = None
    """The permalink, if the repository has an origin on GitHub."""
    swhid: str | None = None
    """The archival identifier, which only SHA-1 repositories have."""
    web: str | None = None
    """The page of a `url:` pointer."""
    why_none: str | None = None
    """Why a pointer of this type has no link."""
    evidence: EvidenceState | None = None
    """How the lines compare with the files as they are now, and which lines hold them."""


@operation(
    "pointer.link",
    route=Route("GET", "/pointer/link"),
    command=Command(
        "link",
        section="knowledge",
        example="engrambus link src/refunds.py:10-20",
        renderer="evidence:links",
        rank=34,
        arguments=("ref",),
        override="knowledge:link",
    ),
    absent_from={"mcp": "links are for people"},
)
def link_pointer(context: Context, request: LinkPointer) -> LinkAnswer:
    """Print links to a pointer's lines: for an editor, GitHub and the Software Heritage archive."""
    pointer, address = check_pointer(request.ref, "ref")
    if type(address) in _WITHOUT_LINK:
        if (problem := context.evidence.problem(pointer)) is not None:
            problem.field = "ref"
            raise problem
        return LinkAnswer(ref=pointer.ref, why_none=_WITHOUT_LINK[type(address)])
    if isinstance(address, UrlAddress):
        return LinkAnswer(ref=pointer.ref, web=address.url)
    content = context.evidence.read(pointer, "ref")
    source = address if isinstance(address, RepoAddress) else content.source
    if source is None:
        return LinkAnswer(ref=pointer.ref)
    files = context.project_files
    origin = files.repositories.select(source.repository).origin_url() or ""
    editor = editor_link(source, files.repositories.worktree(source.repository, files.root))
    if isinstance(address, DiffAddress):
        github = github_compare_link(address, source.path, origin)
        return LinkAnswer(ref=pointer.ref, editor=editor, github=github)
    (evidence,) = files.staleness_of([_compared(pointer, address, content)])
    is_section = isinstance(address, ArtifactAddress)
    return LinkAnswer(
        ref=pointer.ref,
        editor=editor,
        github=github_section_link(source, origin) if is_section else github_link(source, origin),
        swhid=swhid(source, content.blob, origin) if content.blob and is_hex(content.blob, 40) else None,
        evidence=evidence,
    )


_WITHOUT_LINK: dict[type[Any], str] = {
    BodyAddress: "A stored body is a file of no worktree; `less.deref_pointer` reads it.",
    SamAddress: "A memory is an entry of the team's store; `less.deref_pointer` reads it.",
    TestAddress: "A test's result is an entry of a receipt; `less.deref_pointer` reads it.",
}
"""Why pointers of some types have no link."""


class AnchorText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text, and where to look for it."""

    text: Annotated[
        str, Meta(min_length=1, max_length=MAX_ANCHOR_TEXT, description="The text to find: lines of a file")
    ]
    path: (
        Annotated[
            str, Meta(max_length=4096, description="Look in this file: its path, the end of its path, or its name")
        ]
        | None
    ) = None
    revision: Annotated[str, Meta(max_length=256, description="The commit to look in; HEAD by default")] | None = None
    snapshot: Annotated[bool, Meta(description="Uncommitted lines too")] = False


class AnchorAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    found: bool
    """True if the text is in exactly one place."""
    candidates: list[Pointer]
    """Where the text is, if in several places; the likeliest first."""
    matched_lines: int
    """How many lines of the text were found."""
    pointer: Pointer | None = None
    """The lines that hold the text."""


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
    tool=Tool(about="Find the pointer of a text.", hidden=("revision",), explained=("snapshot",), writes_files=True),
)
def anchor_text(context: Context, request: AnchorText) -> AnchorAnswer:
    """Find the lines that contain a text and return a pointer.

    Use it to turn pasted lines into a pointer that others can follow.
    """
    size_bytes = len(request.text.encode())  # the schema's limit counts characters
    if size_bytes > MAX_ANCHOR_TEXT:
        raise FieldValue("The text is too long.", field="text", limit=MAX_ANCHOR_TEXT, used=size_bytes)
    if request.snapshot and request.revision is not None:
        raise FieldValue(
            "A snapshot is of the files on disk, so it takes no revision.",
            field="revision",
            hint="Leave out `revision` or `snapshot`.",
        )
    files = context.project_files
    commit = files.snapshot(request.path) if request.snapshot else files.expand(request.revision or "HEAD")
    anchor = files.anchors.find(request.text, path=request.path, revision=commit)
    return AnchorAnswer(
        found=anchor.pointer is not None,
        # decision 56: without a digest, which only reading the lines gives
        pointer=check_pointer(anchor.pointer)[0] if anchor.pointer else None,
        candidates=list(anchor.candidates),
        matched_lines=anchor.matched_lines,
    )
