"""The inbox: what others sent to the caller, as a list and one by one."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from engrambus.core import fits, print_time, take_within
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, Tool, operation
from engrambus.gateway.ports import View
from engrambus.gateway.role_view import restrict_view
from engrambus.knowledge.messages import (
    Inbox,
    Mail,
    MailHandedOver,
    find_mail,
    hand_over_mail,
    inbox_of,
    mail_line,
)
from engrambus.operations.engram_uses import used_in_mail
from engrambus.policy import Caller, unconfirmed_space, visible_spaces

MAX_MAIL = 100
MAX_CURSOR = 1 << 40
MAX_CLAIMS = 12
"""Claims that await confirmation and are shown with an inbox."""

MaxTokens = Annotated[int, Meta(ge=1, description="Maximum size of the answer, in tokens")] | None


class ReadInbox(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the caller's inbox."""

    cursor: Annotated[int, Meta(ge=0, description="Continue where the previous answer ended")] = 0
    k: Annotated[int, Meta(ge=1, le=MAX_MAIL, description="Maximum number of results")] = 20
    max_tokens: MaxTokens = None
    unseen: Annotated[
        bool, Meta(description="Only what you were not shown yet; what the answer shows then counts as seen")
    ] = False
    short: Annotated[bool, Meta(description="One line for each instead of its text")] = False
    recent: Annotated[
        int,
        Meta(ge=0, le=MAX_MAIL, description="With unseen and short: add lines of up to so many that you have seen"),
    ] = 0
    newest_first: Annotated[bool, Meta(description="The newest first; the cursor then continues with older ones")] = (
        False
    )


class MailRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of mail."""

    kind: str
    """`message`, `answer` (its client handed it over), `note`, `broadcast`, `request`, `grant` or `denial`."""
    item: str
    """Its id: of the message, the broadcast, the request or the grant."""
    sender: str
    """The sender's name; `<run>/<name>` if it is in another run."""
    at: str
    text: str
    engrams: list[str] = []
    """Ids of the engrams that it put."""
    requests: list[str] = []
    """Ids of the requests to read more that it made."""
    grants: list[str] = []
    """Handles of the grants that it hands over."""
    used: list[str] = []
    """Ids of the engrams that it is based on."""
    run: str = ""
    """For a person, who has one inbox for all runs: the run it came from."""
    unseen: bool = False
    """With `newest_first`, true if the caller was not shown it before."""


class WaitingClaim(Struct, frozen=True, kw_only=True):
    """A claim from a descendant's answer in prose that awaits confirmation."""

    id: str
    agent: str
    """Its author, by its name in the run."""
    kind: str
    claim: str


class InboxAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of an inbox."""

    mail: list[MailRow]
    cursor: int
    """Pass it in the next request to get later mail."""
    lines: list[str] = []
    """With `short`, one line for each piece of mail."""
    seen: list[str] = []
    """With `recent`, lines of mail that was shown before, newest first."""
    waiting: int = 0
    """Number of pieces of mail that the caller has not been shown yet, after this answer."""
    newest: int = 0
    """Cursor of the newest mail that was not shown yet; 0 if there is none."""
    claims: list[WaitingClaim] = []
    """Claims from answers in prose that the caller may confirm, newest first, up to twelve."""
    claims_waiting: int = 0
    """How many of them there are."""


@operation(
    "less.inbox",
    writes=True,
    route=Route("GET", "/inbox"),
    command=Command(
        "inbox",
        section="team",
        example="engrambus inbox",
        renderer="team:inbox",
        rank=38,
    ),
    tool=Tool(
        action="list",
        about="Read and answer your mail; reserve paths you edit.",
        hidden=("cursor", "k", "max_tokens", "unseen", "short", "recent", "newest_first"),
        defaults={"unseen": True, "short": True, "recent": 5, "max_tokens": 400},
    ),
)
def inbox(context: Context, request: ReadInbox) -> InboxAnswer:
    """List what others sent you: reports, notes, broadcasts, requests and grants.

    Nothing is deleted by reading; --cursor continues after the last one you have seen. With --unseen, only what you
    were not shown before is listed.
    """
    answer = _read_inbox(context, request)
    if request.cursor:
        return answer
    with context.store.read() as view:
        return _with_claims(answer, restrict_view(view, context.role_filter), context.caller, request)


def _with_claims(answer: InboxAnswer, view: View, caller: Caller, request: ReadInbox) -> InboxAnswer:
    """Add claims that the caller may confirm, as far as they fit."""
    spaces = visible_spaces(caller)
    if not view.newest(tuple(map(unconfirmed_space, spaces)), kind=None, limit=1, older_than=None):
        return answer
    from engrambus.knowledge.engrams import waiting_claims  # decision 39: loads the rules of putting, for few inboxes

    waiting = waiting_claims(view, spaces, caller)
    if not waiting:
        return answer
    counted = msgspec.structs.replace(answer, claims_waiting=len(waiting))
    if request.max_tokens is not None and not fits(counted, request.max_tokens):
        return answer  # the mail in it counts as seen, so it is not refused for a number
    rows = [
        WaitingClaim(
            id=engram.id, agent=engram.provenance.created_by.rpartition("/")[2], kind=engram.kind, claim=engram.claim
        )
        for engram in waiting[:MAX_CLAIMS]
    ]
    if request.max_tokens is not None:
        rows = take_within(counted, rows, request.max_tokens)
    return msgspec.structs.replace(counted, claims=rows)


def _read_inbox(context: Context, request: ReadInbox) -> InboxAnswer:
    caller = context.caller
    box = inbox_of(caller.run.run_id, caller.name)
    if not request.unseen:
        with context.store.read() as view:
            if request.newest_first:
                return _newest_first(view, box, request)
            mail = view.mail(box, after=request.cursor, limit=request.k)
            return _page(view, box, mail, request, request.cursor)[1]

    def decide(view: View) -> tuple[list[MailHandedOver], InboxAnswer]:
        after = max(request.cursor, view.unseen(box).position)
        mail = view.mail(box, after=after, limit=request.k, with_answers=False)
        shown, answer = _page(view, box, mail, request, after)
        return hand_over_mail(caller.run.run_id, box, shown), answer

    # Mail can be read after its run has ended.
    with context.store.read() as view:
        if not view.unseen(box).count:
            return decide(view)[1]
    return context.commit(decide, InboxAnswer, in_run=False, remember=False)


def _newest_first(view: View, box: Inbox, request: ReadInbox) -> InboxAnswer:
    """Return a page of an inbox from its end, or from the cursor of the page before."""
    unseen = view.unseen(box)
    position = request.cursor or MAX_CURSOR
    # `mail_before` adds answers that came later, which earlier pages have shown already.
    earlier = view.mail_before(box, position=position, limit=MAX_MAIL)
    mail = [item for item in earlier if item.position <= position][: request.k]
    shown, answer = _page(view, box, mail, request, 0)
    rows = [
        msgspec.structs.replace(row, unseen=item.position > unseen.position and item.kind != "answer")
        for row, item in zip(answer.mail, shown, strict=False)  # with `short`, there are no rows
    ]
    return msgspec.structs.replace(answer, mail=rows, cursor=shown[-1].position - 1 if shown else 0)


def _page(view: View, box: Inbox, mail: list[Mail], request: ReadInbox, after: int) -> tuple[list[Mail], InboxAnswer]:
    """Return the answer that shows as much of some mail as fits, and the mail that it shows."""
    unseen = view.unseen(box)
    empty = InboxAnswer(mail=[], cursor=MAX_CURSOR, waiting=unseen.count, newest=MAX_CURSOR)
    rows: list[MailRow] = [] if request.short else [mail_row(view, box, item) for item in mail]
    lines = [mail_line(item, view.as_of) for item in mail] if request.short else []
    if request.max_tokens is not None:
        # At least one item, even over the limit: an empty page would look like the end of the inbox.
        least = min(1, len(mail))
        lines = take_within(empty, lines, request.max_tokens, at_least=least) if request.short else lines
        rows = take_within(empty, rows, request.max_tokens, at_least=least) if not request.short else rows
    shown = mail[: len(rows) + len(lines)]
    cursor = shown[-1].position if shown else after
    waiting = unseen.count - (len(shown) if request.unseen else 0)
    newest = unseen.newest if waiting else 0
    answer = InboxAnswer(mail=rows, lines=lines, cursor=cursor, waiting=waiting, newest=newest)
    return shown, _with_recent(view, box, answer, request)


def _with_recent(view: View, box: Inbox, answer: InboxAnswer, request: ReadInbox) -> InboxAnswer:
    """Add lines of mail that was seen before, as far as they fit."""
    if not (request.recent and request.short and request.unseen) or answer.waiting:
        return answer
    earlier = view.mail_before(box, position=view.unseen(box).position, limit=request.recent)
    lines = [mail_line(item, view.as_of) for item in earlier]
    if request.max_tokens is not None:
        lines = take_within(answer, lines, request.max_tokens)
    return msgspec.structs.replace(answer, seen=lines)


class MailId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The mail to read."""

    id: Annotated[str, Meta(max_length=26, description="The id of the mail, or its beginning")]
    max_tokens: MaxTokens = None


class MailAnswer(MailRow, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of mail, whole."""

    stale: list[str] = []
    """Those of its engrams, put or used, whose evidence is changed or gone."""
    truncated: bool = False
    """True if lines at its end were left out to stay within max_tokens."""


@operation(
    "less.read_mail",
    route=Route("GET", "/inbox/{id}"),
    command=Command(
        "mail",
        section="team",
        example="engrambus mail 01K7Z3V5QX0000000000000000",
        renderer="team:mail",
        rank=39,
        arguments=("id",),
    ),
    tool=Tool(part_of="less_inbox", action="read", hidden=("max_tokens",)),
)
def read_mail(context: Context, request: MailId) -> MailAnswer:
    """Show one message, broadcast, request or grant from your inbox."""
    box = inbox_of(context.caller.run.run_id, context.caller.name)
    mail = find_mail(context.view, box, request.id)
    row = mail_row(context.view, box, mail)
    answer = MailAnswer(**msgspec.structs.asdict(row), stale=_stale_engrams(context, [*row.engrams, *row.used]))
    if request.max_tokens is None or fits(answer, request.max_tokens):
        return answer
    empty = msgspec.structs.replace(answer, text="", truncated=True)
    lines = take_within(empty, mail.text.splitlines(keepends=True), request.max_tokens)
    return msgspec.structs.replace(empty, text="".join(lines))


def _stale_engrams(context: Context, ids: list[str]) -> list[str]:
    """Return those of these engrams, as far as the caller may see them, whose evidence is changed or gone."""
    from engrambus.operations.evidence_about import EvidenceLookup

    spaces = visible_spaces(context.caller)
    stored = (context.view.find(spaces, engram_id) for engram_id in dict.fromkeys(ids))
    return list(EvidenceLookup(context).find_stale([item.engram for item in stored if item is not None]))


def mail_row(view: View, box: Inbox, mail: Mail) -> MailRow:
    """Return a piece of mail as it is shown."""
    return MailRow(
        kind=mail.kind,
        item=mail.item,
        sender=mail.sender,
        at=print_time(mail.sent_us),
        text=mail.text,
        engrams=list(mail.engrams),
        requests=list(mail.requests),
        grants=list(mail.grants),
        used=list(used_in_mail(view, mail)),
        run=mail.run if box.run is None else "",
    )
