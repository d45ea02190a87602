"""Grants: letting a child read more than its turn allows, passing less of that on, listing and revoking it."""

from __future__ import annotations

from typing import Annotated, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from engrambus.core import parse_duration, print_time, ulid_time
from engrambus.errors import EngramBusError, FieldValue, FileNotFound
from engrambus.evidence.pointers import Pointer, check_pointer
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, Tool, operation
from engrambus.gateway.pointer_fields import PointerOrRef
from engrambus.gateway.ports import View
from engrambus.operations.pointers import BudgetToken
from engrambus.policy import ADMIN, grants, lifetime_within
from engrambus.policy.grants import BlockRevoked, GrantIssued, GrantState, GrantTerms, NarrowedTerms

T = TypeVar("T")

DEFAULT_CAP_TOKENS = 400
MAX_CAP_TOKENS = 100_000
DEFAULT_USES = 1
DEFAULT_LIFETIME = "PT1H"
MAX_LISTED = 200

CapTokens = Annotated[int, Meta(ge=1, le=MAX_CAP_TOKENS, description="Tokens it may cost in total; default 400")]
Uses = Annotated[int, Meta(ge=1, le=1000, description="Number of times it may be used; default 1")]
Lifetime = Annotated[str, Meta(description="Lifetime: PT6H is 6 hours, P7D is 7 days; default one hour")]
Purpose = Annotated[str, Meta(max_length=500, description="What it is needed for")]
CodeChars = Annotated[
    int, Meta(ge=0, le=100_000, description="Characters of code a message may carry with this grant; default 0")
]
WithBiscuit = Annotated[
    bool, Meta(description="Also return the grant as a Biscuit, which its holder can narrow without the gateway")
]


class IssueGrant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parent's permission for a child to read a pointer or a folder."""

    child_id: Annotated[str, Meta(description="The agent, a descendant of yours; it may pass on a smaller grant")]
    pointer: PointerOrRef
    cap_tokens: CapTokens | UnsetType = UNSET
    from_grant: (
        Annotated[str, Meta(max_length=8192, description="Budget token of a grant you hold, to pass on less of it")]
        | None
    ) = None
    uses: Uses | UnsetType = UNSET
    expires_in: Lifetime | UnsetType = UNSET
    intended_use: Purpose | UnsetType = UNSET
    inline_code_chars: CodeChars | UnsetType = UNSET
    biscuit: WithBiscuit = False


class GrantAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    grant_id: str
    budget_token: str
    """The handle of the grant. Only the agent it is for can use it, or pass less of it on."""
    child_id: str
    expires_at: str
    biscuit: str | None = None
    """The same grant as a Biscuit, if it was asked for."""


@operation(
    "less.issue_grant",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/grant"),
    command=Command(
        "grant issue",
        section="team",
        example="engrambus grant issue coder src/refunds.py:1-200 --cap-tokens 500",
        renderer="team:grant",
        rank=40,
        arguments=("child_id", "pointer"),
        option_names={"child_id": "AGENT"},
        override="team:grant_issue",
    ),
    tool=Tool(
        about="Let a child agent read more.",
        hidden=("biscuit", "expires_in", "inline_code_chars", "intended_use", "uses"),
    ),
    agent_fields=("child_id",),
    prose=("intended_use",),
)
def issue_grant(context: Context, request: IssueGrant) -> GrantAnswer:
    """Let a child agent read more than its turn allows.

    A grant names what may be read, how many tokens that may cost, how often, and until when. POINTER is a file, some
    lines of it, or a folder with /* after it: src/refunds.py:1-200, src/auth/*.
    """
    ref = _resolve_target(context, request.pointer)
    if request.from_grant is not None:
        narrowed = NarrowedTerms(
            ref=ref,
            cap_tokens=_given(request.cap_tokens),
            uses=_given(request.uses),
            lifetime_us=_duration(request.expires_in),
            intended_use=_given(request.intended_use),
            inline_code_chars=_given(request.inline_code_chars),
        )
        try:
            return _narrow(context, request.from_grant, request.child_id, narrowed, request.biscuit)
        except EngramBusError as refusal:
            if refusal.field == "budget_token":  # as the rule calls it
                refusal.field = "from_grant"
            raise
    terms = GrantTerms(
        ref=ref,
        cap_tokens=_given(request.cap_tokens) or DEFAULT_CAP_TOKENS,
        uses=_given(request.uses) or DEFAULT_USES,
        lifetime_us=lifetime_within(_given(request.expires_in), DEFAULT_LIFETIME, context.policy.max_grant_ttl),
        intended_use=_given(request.intended_use) or "",
        inline_code_chars=_given(request.inline_code_chars) or 0,
    )

    def decide(view: View) -> tuple[list[GrantIssued], GrantIssued]:
        grant = grants.issue_grant(
            view, caller=context.caller, child=request.child_id, terms=terms, randomness=context.randomness
        )
        return [grant], grant

    return grant_answer(context, context.commit(decide, GrantIssued), biscuit=request.biscuit)


class NarrowGrant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A holder's permission for a descendant to use a part of its grant."""

    budget_token: BudgetToken
    child_id: Annotated[str, Meta(description="The agent, a descendant of yours")]
    pointer: Annotated[PointerOrRef, Meta(description="A part of what the grant covers; default all of it")] | None = (
        None
    )
    cap_tokens: (
        Annotated[int, Meta(ge=1, le=MAX_CAP_TOKENS, description="Tokens it may cost; default all that are left")]
        | None
    ) = None
    uses: Annotated[int, Meta(ge=1, le=1000, description="Number of uses; default all that are left")] | None = None
    expires_in: (
        Annotated[str, Meta(description="Lifetime: PT10M is 10 minutes; default as long as the grant")] | None
    ) = None
    intended_use: Annotated[Purpose, Meta(description="What it is needed for; default as in the grant")] | None = None
    inline_code_chars: (
        Annotated[
            int, Meta(ge=0, le=100_000, description="Characters of code in a message; default as the grant allows")
        ]
        | None
    ) = None
    biscuit: WithBiscuit = False


@operation(
    "less.narrow_grant",
    writes=True,
    route=Route("POST", "/grant/narrow"),
    command=Command(
        "grant narrow",
        section="team",
        example="engrambus grant narrow g_01K7Z3V5QX0000000000000000 helper --cap-tokens 200",
        renderer="team:grant",
        rank=41,
        arguments=("budget_token", "child_id"),
        option_names={"budget_token": "GRANT", "child_id": "AGENT"},
        override="team:grant_narrow",
    ),
    agent_fields=("child_id",),
    prose=("intended_use",),
    absent_from={"mcp": "less_issue_grant with `from_grant` does the same, and one tool costs less than two"},
)
def narrow_grant(context: Context, request: NarrowGrant) -> GrantAnswer:
    """Pass on a part of a grant that you hold to a descendant of yours.

    The part can cover less, cost less, be used less often and end earlier; it can never allow more. What the
    descendant reads is charged to your grant, too.
    """
    terms = NarrowedTerms(
        ref=_resolve_target(context, request.pointer) if request.pointer is not None else None,
        cap_tokens=request.cap_tokens,
        uses=request.uses,
        lifetime_us=_duration(request.expires_in),
        intended_use=request.intended_use,
        inline_code_chars=request.inline_code_chars,
    )
    return _narrow(context, request.budget_token, request.child_id, terms, request.biscuit)


class ListGrants(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A selection of grants."""

    usable: Annotated[bool, Meta(description="Only grants that can still be used")] = False
    cursor: Annotated[str, Meta(max_length=28, description="Continue after this grant")] | None = None


class GrantRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    grant_id: str
    budget_token: str
    parent: str
    """The agent that issued it or passed it on."""
    child: str
    """The agent that holds it."""
    ref: str
    """The pointer or the prefix that it covers."""
    state: GrantState
    cap_tokens: int
    tokens_left: int
    uses: int
    uses_left: int
    issued_at: str
    expires_at: str
    intended_use: str = ""
    inline_code_chars: int = 0
    narrowed_from: str | None = None
    """Id of the grant that it was passed on from."""


class GrantsAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    grants: list[GrantRow]
    """Newest first."""
    as_of: str
    cursor: str | None = None
    """Set if there are more."""


@operation(
    "grant.list",
    route=Route("GET", "/grant"),
    command=Command(
        "grant list",
        section="team",
        example="engrambus grant list --usable",
        renderer="team:grant_list",
        rank=43,
    ),
    absent_from={"mcp": "the brief shows an agent the grants it can use"},
)
def list_grants(context: Context, request: ListGrants) -> GrantsAnswer:
    """List the grants that you issued, hold or passed on, and what is left of them."""
    caller, view = context.caller, context.view
    before = grants.grant_id_of(request.cursor) if request.cursor is not None else None
    if request.cursor is not None and before is None:
        raise FieldValue("This is not the id of a grant.", field="cursor")
    agent = None if caller.role == ADMIN else caller.name
    found = view.grants_of(caller.run.run_id, agent, before=before, limit=MAX_LISTED + 1)
    rows = [_row(view, issued, caller.project) for issued in found[:MAX_LISTED]]
    return GrantsAnswer(
        grants=[row for row in rows if row.state == "usable" or not request.usable],
        as_of=print_time(context.as_of),
        cursor=found[MAX_LISTED - 1].grant_id if len(found) > MAX_LISTED else None,
    )


class GrantId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=28, description="The grant's id, or its budget token")]


class RevokeAnswer(Struct, frozen=True, kw_only=True):
    grant_id: str
    revoked: bool = True


@operation(
    "grant.revoke",
    writes=True,
    route=Route("DELETE", "/grant/{id}"),
    command=Command(
        "grant revoke",
        section="team",
        example="engrambus grant revoke 01K7Z3V5QX0000000000000000",
        renderer="team:revocation",
        rank=49,
        arguments=("id",),
    ),
    absent_from={"mcp": "a parent revokes at the gateway"},
)
def revoke_grant(context: Context, request: GrantId) -> RevokeAnswer:
    """Revoke a grant that you issued or passed on, and everything narrowed from it."""
    grant_id = grants.grant_id_of(request.id) or request.id.removeprefix("g_")

    def decide(view: View) -> tuple[list[BlockRevoked], RevokeAnswer]:
        revoked = grants.revoke_grant(view, caller=context.caller, grant_id=grant_id)
        return [revoked], RevokeAnswer(grant_id=revoked.block_id)

    return context.commit(decide, RevokeAnswer, in_run=False)


def grant_answer(context: Context, grant: GrantIssued, *, biscuit: bool) -> GrantAnswer:
    """Return a grant as its issuer sees it."""
    # The Biscuit is made after the commit, so that it is not part of an answer that the journal remembers.
    return GrantAnswer(
        grant_id=grant.grant_id,
        budget_token=grants.handle_of(grant.grant_id),
        child_id=grant.child,
        expires_at=print_time(grant.expires_us),
        biscuit=grants.biscuit_of(context.grant_key, grant, context.caller.project) if biscuit else None,
    )


def resolve_pointer(context: Context, pointer: Pointer | str) -> str:
    """Return the canonical ref of a pointer; one that leads to no content is refused."""
    checked, address = check_pointer(pointer)
    return context.evidence.stamp(checked, address).ref


def _resolve_target(context: Context, pointer: Pointer | str) -> str:
    """Return the ref to grant in canonical form; a pointer that leads nowhere and an absent folder are refused."""
    ref = pointer if isinstance(pointer, str) else pointer.ref
    if not grants.is_prefix(ref):
        return resolve_pointer(context, pointer)
    target = grants.read_prefix(ref, "pointer")
    absent = []
    folders = target.folders()
    for folder in folders:
        try:
            context.evidence.check_folder(folder)
        except FileNotFound as problem:
            absent.append(problem)
    if len(absent) == len(folders):  # a change may have added or removed the folder
        raise absent[0]
    return target.text


def _narrow(context: Context, budget_token: str, child: str, terms: NarrowedTerms, biscuit: bool) -> GrantAnswer:
    def decide(view: View) -> tuple[list[GrantIssued], GrantIssued]:
        grant = grants.narrow_grant(
            view,
            caller=context.caller,
            budget_token=budget_token,
            child=child,
            terms=terms,
            key=context.grant_key,
            randomness=context.randomness,
        )
        return [grant], grant

    return grant_answer(context, context.commit(decide, GrantIssued), biscuit=biscuit)


def _row(view: View, issued: GrantIssued, project: str) -> GrantRow:
    left = grants.balance_of(view, grants.journalled_grant(view, issued, project))
    holder = view.agent(issued.run, issued.child)
    return GrantRow(
        grant_id=issued.grant_id,
        budget_token=grants.handle_of(issued.grant_id),
        parent=issued.parent,
        child=issued.child,
        ref=issued.pointer or issued.prefix or "",
        # A grant ends with the agent that holds it.
        state="revoked" if holder is None or holder.removed else left.state,
        cap_tokens=issued.cap_tokens,
        tokens_left=left.tokens,
        uses=issued.uses,
        uses_left=left.uses,
        issued_at=print_time(ulid_time(issued.grant_id)),
        expires_at=print_time(left.expires_us),
        intended_use=issued.intended_use,
        inline_code_chars=issued.inline_code_chars,
        narrowed_from=issued.narrowed_from,
    )


def _given(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


def _duration(text: str | UnsetType | None) -> int | None:
    return None if text is None or isinstance(text, UnsetType) else parse_duration(text, "expires_in")
