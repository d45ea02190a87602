"""The rules of delivering a message: accepting a report, sending a broadcast, recording a rejection.

Each rule takes a view of the store under the write lock and returns facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import msgspec

from engrambus.core import Randomness, digest, estimate_tokens, new_ulid
from engrambus.errors import BudgetExceeded, FieldValue, ScopeForbidden
from engrambus.evidence.pointers import Evidence, Pointer, check_pointer
from engrambus.knowledge.engrams import CheckedEngram, EngramsUsed, PreparedEngram, prefix_field, put_all, used_facts
from engrambus.knowledge.messages.budget import MessageUsage
from engrambus.knowledge.messages.facts import (
    BroadcastSent,
    MessageAccepted,
    MessageRejected,
    PointedContent,
    PointerPack,
)
from engrambus.knowledge.messages.layout import print_message
from engrambus.knowledge.messages.limits import limits_in_force, turn_budget
from engrambus.knowledge.messages.ports import MessageReads, MessageView, OpenRejection
from engrambus.knowledge.messages.values import (
    ChildBudgets,
    ChildMessage,
    GrantNote,
    Message,
    MessageKind,
    ParentMessage,
    TargetedPointer,
)
from engrambus.policy import (
    ADMIN,
    ROLE_PREFIX,
    ROLES,
    Agent,
    Caller,
    DerefRequested,
    LimitChecks,
    Policy,
    Receiver,
    TurnClosed,
    charge_text,
    find_receiver,
    payers_of,
    turn_of,
)
from engrambus.policy.grants import (
    GrantIssued,
    GrantKey,
    VerifiedGrant,
    check_balance,
    check_covers,
    debits,
    hand_over,
    request_deref,
)

MAX_OPEN_REJECTIONS = 16
"""Rejected messages of one agent that a later one can replace."""
WORK_DIGEST_CHARS = 12
MAX_WORK_DIGESTS = 32
MAX_LISTED_CHILDREN = 16
REQUESTED_TOKENS = 400
"""Tokens that a request in a message asks for."""


class PreparedReport(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was checked and needs only the store to be accepted."""

    message: ChildMessage | str
    """The message; the words of a note."""
    engrams: Sequence[PreparedEngram]
    usage: MessageUsage
    grant: VerifiedGrant | None
    """The grant that allows its inline code."""
    pointed: tuple[PointedContent, ...] = ()
    used: Sequence[str] = ()
    """Ids of the engrams it is based on; they exist."""
    is_known: bool = False
    """True if the receiver's client hands it over, so that nothing announces it."""


class AcceptedReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of accepting a message."""

    message: MessageAccepted
    next_turn: int
    """Number of the turn that is open then."""


def accept_report(
    view: MessageView,
    report: PreparedReport,
    *,
    caller: Caller,
    to: str | None = None,
    policy: Policy,
    limits: LimitChecks,
    randomness: Randomness,
) -> tuple[list[Any], AcceptedReport]:
    """Put a message's engrams, record its requests and deliver it to the caller's parent, or to the agent in `to`.

    A report to the parent closes the caller's turn.
    """
    receiver = find_receiver(view, caller, to)
    message = report.message
    _check_for_receiver(view, report, caller, receiver)
    put_facts, engram_ids = put_all(
        view,
        report.engrams,
        caller=caller,
        policy=policy,
        limits=limits,
        randomness=randomness,
        field="ENGRAMS",
        in_message=True,
    )
    requests = _request_derefs(view, message, caller, randomness)
    facts: list[Any] = [*put_facts, *requests]
    if report.grant is not None and report.usage.granted_code_chars:
        # A grant pays for inline code with one of its uses, not with tokens: those are for reading.
        check_balance(view, report.grant, 0)
        facts += debits(report.grant, 0, caller.full_name)
    # A person is in every run, and writes from the receiver's.
    run_id = receiver.run if caller.role == ADMIN else caller.run.run_id
    turn = turn_of(view, run_id, caller.name)
    accepted = MessageAccepted(
        message_id=new_ulid(view.as_of, randomness),
        run=run_id,
        agent=caller.name,
        to=receiver.name,
        text=message if isinstance(message, str) else print_message(as_stored(message)),
        tokens=report.usage.inline_tokens,
        engrams=tuple(engram_ids),
        resends=_resent_by(view, caller, message),
        to_run=receiver.run if receiver.run != run_id else None,
        is_note=isinstance(message, str),
        requests=tuple(fact.request_id for fact in requests),
        is_known=report.is_known,
        pointed=report.pointed,
    )
    facts.append(accepted)
    facts += used_facts(caller, "message", accepted.message_id, report.used)
    if receiver.is_parent and isinstance(message, ChildMessage):
        facts.append(TurnClosed(run=run_id, agent=caller.name, turn=turn.number, why="message"))
        return facts, AcceptedReport(message=accepted, next_turn=turn.number + 1)
    # decision 58: such a message ends no turn, or two leads could refill each other's; so the turn pays for it
    payers = payers_of(view, caller, limits, lambda agent: turn_budget(view, policy, agent))
    facts += charge_text(payers, report.usage.inline_tokens)
    return facts, AcceptedReport(message=accepted, next_turn=turn.number)


def _request_derefs(
    view: MessageView, message: ChildMessage | str, caller: Caller, randomness: Randomness
) -> list[DerefRequested]:
    """Record the requests of a message to read more; a note has none."""
    return [
        request_deref(
            view,
            caller=caller,
            ref=request.pointer.ref,
            reason=request.reason,
            intended_use=request.intended_use or "",
            max_tokens=REQUESTED_TOKENS,
            randomness=randomness,
        )
        for request in (message.deref_requests if isinstance(message, ChildMessage) else ())
    ]


def _check_for_receiver(view: MessageView, report: PreparedReport, caller: Caller, receiver: Receiver) -> None:
    """Refuse a message with parts that its receiver could not use."""
    message = report.message
    if isinstance(message, ChildMessage) and message.deref_requests and not receiver.is_parent:
        raise FieldValue(
            "Only your parent lets you read more.",
            field="DEREF_REQUESTS",
            used=len(message.deref_requests),
            limit=0,
            hint="Send them without `to`, or with `less.request_deref`.",
        )
    if receiver.run == caller.run.run_id:
        return
    for position, engram in enumerate(report.engrams):
        if engram.checked.scope == "run":
            raise ScopeForbidden(
                f"'{receiver.name}' is in another run and does not see an engram of scope run.",
                field=f"ENGRAMS[{position}].scope",
                limit="project",
                used="run",
                hint="Write `scope: project`, or leave the engram out.",
            )


def _resent_by(view: MessageView, caller: Caller, message: ChildMessage | str) -> str | None:
    if isinstance(message, str):
        return None
    return find_resent(view, caller, "child", message.resends, work_of(message))


def send_broadcast(
    view: MessageView,
    message: ParentMessage,
    *,
    caller: Caller,
    to: Sequence[str],
    usage: MessageUsage,
    find_pointed: Callable[[Sequence[Pointer]], tuple[PointedContent, ...]],
    grant_key: GrantKey,
    randomness: Randomness,
    used: Sequence[str] = (),
    policy: Policy | None = None,
) -> tuple[list[GrantIssued | BroadcastSent | EngramsUsed], BroadcastSent]:
    """Send a message to the caller's children: to the names and roles in `to`, or to all of them if it is empty.

    `find_pointed` returns the content behind pointers. With a policy, the children are also shown the limits
    in force that the message does not name; they are not set by it, so that a raised limit is not held down.
    """
    run_id = caller.run.run_id
    children = [agent for agent in view.agents(run_id) if (agent.parent or ADMIN) == caller.name]
    receivers = _named_children(children, caller, to, "to") if to else tuple(agent.name for agent in children)
    receiving = [agent for agent in children if agent.name in receivers]
    packs = _pointer_packs(message, receiving, caller)
    shown, shown_tokens = message.budgets, 0
    if policy is not None:
        named = {name: limit for name, limit in msgspec.structs.asdict(shown).items() if limit is not None}
        in_force = limits_in_force(view, policy, receiving)
        shown = ChildBudgets(**{**in_force, **named})
        shown_tokens = estimate_tokens(str({name: in_force[name] for name in in_force.keys() - named.keys()}))
    issued, notes = _hand_over_grants(view, message, caller, receivers, grant_key, randomness)
    sent = BroadcastSent(
        broadcast_id=new_ulid(view.as_of, randomness),
        run=run_id,
        agent=caller.name,
        to=receivers,
        text=print_message(
            msgspec.structs.replace(message, budgets=shown, grants=notes, resends=None, used=(), target_pointer_pack=())
        ),
        tokens=usage.inline_tokens + shown_tokens,
        budgets=message.budgets,
        resends=find_resent(view, caller, "parent", message.resends, work_of(message)),
        packs=packs,
        pointed=tuple(find_pointed(pack.pointers) for pack in packs),
        grants=tuple(dict.fromkeys(note.budget_token for note in notes)),
    )
    return [*issued, sent, *used_facts(caller, "broadcast", sent.broadcast_id, used)], sent


def _named_children(children: Sequence[Agent], caller: Caller, targets: Sequence[str], field: str) -> tuple[str, ...]:
    """Return the names of the children that names and roles stand for, in the order they were added.

    decision 59: a plain role name stands for the role if no child has it as its name; `role:` before it always does.
    """
    names: set[str] = set()
    for target in targets:
        role = target.removeprefix(ROLE_PREFIX)
        by_name = {agent.name for agent in children if agent.name == target}
        by_role = {agent.name for agent in children if agent.role == role}
        found = by_name or by_role
        if not found:
            whose = f"'{caller.name}' has no child '{target[:64]}'"
            raise FieldValue(
                f"{whose}, and none with that role." if role in ROLES else f"{whose}.",
                field=field,
                limit=", ".join(f"{agent.name} ({agent.role})" for agent in children[:MAX_LISTED_CHILDREN]),
                used=target[:96],
                hint="Write names of your children, or roles such as role:programmer.",
            )
        names |= found
    return tuple(agent.name for agent in children if agent.name in names)


def _pointer_packs(message: ParentMessage, receivers: Sequence[Agent], caller: Caller) -> tuple[PointerPack, ...]:
    """Return the pointers of a broadcast, gathered by those who get them; the pack for all comes first."""
    gathered: dict[tuple[str, ...], list[Pointer]] = {}
    names = tuple(agent.name for agent in receivers)
    for position, pointer in enumerate(message.target_pointer_pack):
        targets = pointer.targets if isinstance(pointer, TargetedPointer) else ()
        if targets:
            _named_children(receivers, caller, targets, f"TARGET_POINTER_PACK[{position}].for")
        plain = Pointer(type=pointer.type, ref=pointer.ref, digest=pointer.digest, span=pointer.span)
        gathered.setdefault(targets, []).append(plain)
    return tuple(
        PointerPack(
            to=_named_children(receivers, caller, targets, "for") if targets else names,
            pointers=tuple(pointers),
            target=targets,
        )
        for targets, pointers in sorted(gathered.items(), key=lambda item: bool(item[0]))
    )


def _hand_over_grants(
    view: MessageView,
    message: ParentMessage,
    caller: Caller,
    children: Sequence[str],
    key: GrantKey,
    randomness: Randomness,
) -> tuple[list[GrantIssued], tuple[GrantNote, ...]]:
    """Check the grants of a broadcast; return new ones, and the notes with the handles that the children can use."""
    issued: list[GrantIssued] = []
    notes: list[GrantNote] = []
    for position, note in enumerate(message.grants):
        with prefix_field(f"GRANTS[{position}]"):
            new, grant, handle = hand_over(
                view,
                caller=caller,
                budget_token=note.budget_token,
                receivers=children,
                key=key,
                randomness=randomness,
            )
            check_covers(grant, note.pointer.ref, note.cap_tokens)
        issued += [new] if new is not None else []
        notes.append(msgspec.structs.replace(note, budget_token=handle))
    return issued, tuple(notes)


def reject_message(
    view: MessageView,
    refusal: BudgetExceeded,
    *,
    rejection_id: str,
    caller: Caller,
    kind: MessageKind,
    usage: MessageUsage,
    resends: str | None = None,
    work: Sequence[str] = (),
) -> MessageRejected:
    """Record that a message was over its budget; a message that names it, or is about the same work, replaces it."""
    open_rejections = view.open_rejections(caller.run.run_id, caller.name, kind, limit=MAX_OPEN_REJECTIONS)
    return MessageRejected(
        rejection_id=rejection_id,
        run=caller.run.run_id,
        agent=caller.name,
        tokens=usage.inline_tokens,
        # Only names, numbers and digests: the text may contain what must not be stored.
        exceeded=tuple(str(excess["what"]) for excess in refusal.exceeded),
        kind=kind,
        work=tuple(work),
        resends=_named(open_rejections, resends) or _about_same_work(open_rejections, work),
    )


def find_resent(
    view: MessageReads, caller: Caller, kind: MessageKind, named: str | None, work: Sequence[str]
) -> str | None:
    """Return the id of the rejected message that a message replaces: the one it names, or one about the same work."""
    open_rejections = view.open_rejections(caller.run.run_id, caller.name, kind, limit=MAX_OPEN_REJECTIONS)
    if named is None:
        return _about_same_work(open_rejections, work)
    if _named(open_rejections, named) is None:
        raise FieldValue(
            "No rejected message of yours with this id waits to be sent again.",
            field="RESENDS",
            used=named,
            hint="Leave RESENDS out, or write the id that the refusal's template has.",
        )
    return named


def _named(open_rejections: Sequence[OpenRejection], named: str | None) -> str | None:
    return next((named for rejection in open_rejections if rejection.rejection_id == named), None)


def _about_same_work(open_rejections: Sequence[OpenRejection], work: Sequence[str]) -> str | None:
    """Return the newest rejection that shares a claim or a file."""
    # decision 48: that a message came next does not make it a resend
    return next((item.rejection_id for item in open_rejections if not set(work).isdisjoint(item.work)), None)


def work_of(message: Message) -> tuple[str, ...]:
    """Return short digests of a message's claims and of what it points at."""
    return work_of_parts({name: getattr(message, name) for name in message.__struct_fields__})


def work_of_parts(parts: Mapping[str, Any], pointers: Iterable[Pointer] = ()) -> tuple[str, ...]:
    """Return short digests of the claims in parts of a message, and of what these and further pointers lead to.

    The commit and the lines make no difference: a resend may point more precisely.
    """
    engrams: Sequence[CheckedEngram] = parts.get("engrams", ())
    packs = (parts.get(name, ()) for name in ("pointer_pack", "target_pointer_pack"))
    evidence = chain.from_iterable((*(engram.pointers for engram in engrams), *packs, pointers))
    targets = (pointer.ref.partition("#")[0].partition("@")[0] for pointer in evidence)
    texts = (" ".join(text.casefold().split()) for text in chain((engram.claim for engram in engrams), targets))
    digests = (digest(text.encode())[len("sha256:") :][:WORK_DIGEST_CHARS] for text in texts)
    return tuple(islice(dict.fromkeys(digests), MAX_WORK_DIGESTS))


def as_stored(message: Message) -> Message:
    """Return the message as it is stored: without budget tokens, which are for the children, and the id it resends."""
    if isinstance(message, ParentMessage):
        return msgspec.structs.replace(message, grants=(), resends=None, used=())
    return msgspec.structs.replace(message, resends=None, used=(), budget_token=None)


def find_pointed(evidence: Evidence, pointers: Iterable[Pointer]) -> tuple[PointedContent, ...]:
    """Return the content behind some pointers, each content once; what cannot be read here is left out."""
    found: dict[str, PointedContent] = {}
    for pointer in pointers:
        pointer, address = check_pointer(pointer)
        tokens = evidence.count_tokens(pointer, address)
        if not tokens:
            continue
        content_digest = evidence.stamp(msgspec.structs.replace(pointer, digest=None), address).digest
        if content_digest is None or content_digest in found:
            continue
        place = evidence.locate(pointer.ref)
        found[content_digest] = PointedContent(
            digest=content_digest,
            tokens=tokens,
            file=place.file if place is not None else None,
            first=place.first if place is not None else 1,
            last=place.last if place is not None else None,
        )
    return tuple(found.values())
