"""The knowledge store's state in plain dictionaries. Read this to learn what a back end must do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from engrambus.backends.facts import (
    IDEMPOTENCY_WINDOW_US,
    RATE_WINDOW_SECONDS,
    CortexChange,
    EngramChange,
    Fact,
    GrantChange,
    RecallChange,
    ReservationChange,
    mail_of,
    rate_keys,
    used_paths_of,
)
from engrambus.backends.memory.cortex import CortexState, MemoryCortex
from engrambus.core import SECOND_US, ProjectTime, fixed_time, parse_duration, parse_time, print_time
from engrambus.core.project_clock import ClockCorrected
from engrambus.gateway.delivered import DeliveredContent, changed_delivered
from engrambus.gateway.ports import Counts, EarlierAnswer, RequestAnswered, View
from engrambus.gateway.tallies import MAX_OUTCOMES, Count, GrantsLeft, Tally, buckets_of, count_of, total
from engrambus.knowledge.brief import Brief, BriefMade
from engrambus.knowledge.cortex import EpisodeKept, earlier_id, memory_put
from engrambus.knowledge.engrams import (
    EVERYTHING,
    MAX_VALUED_USES,
    Adoption,
    Capture,
    Engram,
    EngramAdopted,
    EngramCaptured,
    EngramConfirmed,
    EngramDelivered,
    EngramForgotten,
    EngramPinned,
    EngramPromoted,
    EngramPut,
    EngramReads,
    EngramReceived,
    EngramReplaced,
    EngramsListed,
    EngramsRecalled,
    EngramsUsed,
    EngramTrusted,
    EngramUnpinned,
    EngramUse,
    Learned,
    LearnedEngram,
    PastEngram,
    PostingChunk,
    PromotionAnswered,
    PromotionRequested,
    RecallForgotten,
    RecentPuts,
    RepositoryLearned,
    StoredEngram,
    StoredPromotion,
    TaskRecalled,
    Traits,
    UserKind,
    ValuedUse,
    as_promoted,
    chunks_of,
    keys_after,
    kind_key,
    listing_reader,
    pointer_names,
    posted_keys,
    renew_keys,
    sequence_of,
    twin_key,
    value_in_space,
    was_withdrawn,
    with_gain,
)
from engrambus.knowledge.gate import GateOverridden, GateOverride, shown_override
from engrambus.knowledge.messages import (
    BroadcastSent,
    ChildBudgets,
    Inbox,
    Mail,
    MailHandedOver,
    MessageAccepted,
    MessageKind,
    MessageRejected,
    OpenRejection,
    SentPack,
    Unseen,
    inbox_of,
)
from engrambus.policy import (
    ADMIN,
    DEFAULT_POLICY,
    MEMORY_SPACE,
    OUTBOX,
    PROJECT_SPACE,
    UNTRUSTED_SPACE,
    Agent,
    AgentAdded,
    AgentDismissed,
    AgentsBelow,
    AppliedPolicy,
    ContentDrawn,
    DerefAnswered,
    DerefProved,
    DerefRequested,
    Policy,
    PolicyApplied,
    RecordedRead,
    Run,
    RunClosed,
    RunOpened,
    TokenIssued,
    TokenWithdrawn,
    Turn,
    TurnCharged,
    TurnClosed,
    after_charge,
    after_close,
    after_deref,
    after_draw,
    after_put,
    present_turn,
    read_policy,
    space_of,
    spans_of,
    unconfirmed_space,
    wider_space,
)
from engrambus.policy.grants import BlockDebited, BlockRevoked, BlockSpending, GrantIssued, StoredRequest
from engrambus.policy.reservations import (
    Reservation,
    ReservationChanged,
    ReservationMade,
    ReservationReleased,
    as_changed,
    as_made,
)


class KnowledgeState:
    """Everything the facts so far add up to."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.agents: dict[tuple[str, str], Agent] = {}
        self.tokens: dict[str, TokenIssued] = {}
        self.revoked_tokens: set[str] = set()
        self.agent_roots: dict[tuple[str, str], str] = {}
        """The topmost ancestor of each agent."""
        self.added_below: dict[tuple[str, str], list[int]] = {}
        """When the descendants of topmost agents were added."""
        self.policies: list[AppliedPolicy] = []
        self.promotions: dict[str, StoredPromotion] = {}
        self.gate_overrides: list[GateOverride] = []
        self.stored: dict[int, StoredEngram] = {}
        self.past: dict[int, PastEngram] = {}
        """Engrams that were replaced; expired ones stay in `stored`."""
        self.keys: dict[int, frozenset[str]] = {}
        self.ids: dict[tuple[str, str], int] = {}
        self.used_ids: set[str] = set()
        self.puts: dict[str, dict[tuple[int, str], RecentPuts]] = {}
        self.votes: dict[int, set[str]] = {}
        self.pins: dict[int, None] = {}
        self.adoptions: dict[int, Adoption] = {}
        self.captures: dict[int, Capture] = {}
        self.learned: dict[int, Learned] = {}
        self.learned_commit: str | None = None
        self.unwanted_keys: set[str] = set()
        self.uses: dict[tuple[str, str, str], EngramUse] = {}
        self.listed: dict[tuple[str, str], int] = {}
        self.recalled: dict[tuple[str, str], dict[str, bool]] = {}
        self.recalled_tasks: list[TaskRecalled] = []
        self.turns: dict[tuple[str, str], Turn] = {}
        self.reads: dict[str, dict[RecordedRead, None]] = {}
        self.mail: list[tuple[str, str, Mail]] = []
        self.handed_over: dict[Inbox, int] = {}
        self.packs: list[tuple[str, SentPack]] = []
        self.requests: dict[str, StoredRequest] = {}
        self.grants: dict[str, GrantIssued] = {}
        self.spent: dict[str, BlockSpending] = {}
        self.revoked: set[str] = set()
        self.reservations: dict[str, Reservation] = {}
        self.rejections: dict[tuple[str, str, str], dict[str, OpenRejection]] = {}
        self.budgets: dict[tuple[str, str], ChildBudgets] = {}
        self.briefs: dict[tuple[str, str], list[Brief]] = {}
        self.used_paths: dict[tuple[str, str], dict[str, int]] = {}
        self.answers: dict[tuple[str, str], tuple[int, EarlierAnswer]] = {}
        self.cortex = CortexState()
        self.tallies: dict[tuple[str, str], Tally] = {}
        self.delivered: dict[tuple[str, str], dict[str, DeliveredContent]] = {}
        self.counted_turns: dict[tuple[str, str], int] = {}
        self.kinds_put: dict[tuple[str, str, str], int] = {}
        self.denials: dict[tuple[str, str, str], int] = {}
        self.outcomes: dict[tuple[str, str], str] = {}
        self.history: dict[tuple[str, str, int, str], Tally] = {}
        self.ordinal = 0

    def apply(self, fact: Fact, at_us: int) -> None:
        """Apply one fact."""
        for delivery in mail_of(fact):
            run, recipient, kind, item, sender, text, engrams, requests, grants = delivery
            position = len(self.mail) + 1  # one numbering for all inboxes, as in the index
            mail = Mail(
                position=position,
                run=run,
                kind=kind,
                item=item,
                sender=sender,
                sent_us=at_us,
                text=text,
                engrams=engrams,
                requests=requests,
                grants=grants,
            )
            self.mail.append((run, recipient, mail))
        count = count_of(fact, lambda run, agent: self._present_turn(run, agent, at_us))
        if count is not None:
            self._count(count, at_us)
        for delivered, added in changed_delivered(fact, self._find_delivered):
            self.delivered.setdefault((delivered.run, delivered.agent), {})[delivered.content.digest] = delivered
            self._count(added, at_us)
        used = used_paths_of(fact)
        if used is not None:
            run, agent, paths = used
            self.used_paths.setdefault((run, agent), {}).update(dict.fromkeys(paths, at_us))
        match fact:
            case RunOpened():
                number = len(self.runs) + 1
                self.runs[fact.run] = Run(
                    run_id=fact.run, goal=fact.goal, number=number, opened_us=at_us, session=fact.session
                )
            case RunClosed() if fact.run in self.runs:  # decision 97: its beginning may be lost
                self.runs[fact.run] = msgspec.structs.replace(self.runs[fact.run], ended=True)
                self._end_reservations(lambda lease: lease.run == fact.run)
            case AgentAdded():
                root = self.agent_roots.get((fact.run, fact.parent), fact.parent) if fact.parent else fact.name
                self.agent_roots[fact.run, fact.name] = root
                if fact.parent:
                    self.added_below.setdefault((fact.run, root), []).append(at_us)
                self.agents[fact.run, fact.name] = Agent(
                    run=fact.run,
                    name=fact.name,
                    role=fact.role,
                    parent=fact.parent,
                    client_id=fact.client_id,
                    session_turns=fact.session_turns,
                )
            case AgentDismissed() if (fact.run, fact.name) in self.agents:
                agent_key = (fact.run, fact.name)
                self.agents[agent_key] = msgspec.structs.replace(self.agents[agent_key], removed=True)
                self._end_reservations(lambda lease: (lease.run, lease.agent) == agent_key)
            case TokenIssued():
                self._issue_token(fact, at_us)
            case TokenWithdrawn():
                self._withdraw(fact)
            case ClockCorrected():
                self._correct_times(at_us)
            case PolicyApplied():
                applied = AppliedPolicy(policy=read_policy(fact.policy), at_us=at_us, by=fact.by)
                self.policies.append(applied)
            case EngramPut():
                self._put(fact, space_of(fact.engram.scope, self.runs[fact.run]))
                self._count_put(fact, at_us)
                if fact.learned is not None:
                    self.learned[self.ordinal] = fact.learned
            case _ if isinstance(fact, EngramChange):
                self._change_engram(fact, at_us)
            case _ if isinstance(fact, GrantChange):
                self._change_grant(fact)
            case _ if isinstance(fact, ReservationChange):
                self._change_reservation(fact, at_us)
            case DerefProved():
                self.turns[fact.run, fact.agent] = after_deref(self.turns.get((fact.run, fact.agent)), fact, at_us)
                for span in spans_of(fact):
                    self.reads.setdefault(span.of, {})[RecordedRead(fact.run, fact.agent, span)] = None
            case ContentDrawn():
                self.turns[fact.run, fact.agent] = after_draw(self.turns.get((fact.run, fact.agent)), fact, at_us)
            case _ if isinstance(fact, CortexChange):
                self.cortex.apply(fact, at_us)
                if isinstance(fact, EpisodeKept):
                    self._post_memory(fact, at_us)
            case TurnCharged():
                self.turns[fact.run, fact.agent] = after_charge(self.turns.get((fact.run, fact.agent)), fact, at_us)
            case TurnClosed():
                self.turns[fact.run, fact.agent] = after_close(self.turns.get((fact.run, fact.agent)), fact, at_us)
            case MessageRejected():
                rejections = self._without_resent(fact, fact.kind)
                rejections[fact.rejection_id] = OpenRejection(rejection_id=fact.rejection_id, work=fact.work)
            case MessageAccepted():
                self._without_resent(fact, "child")
            case BroadcastSent():
                self._without_resent(fact, "parent")
                for child in fact.to if fact.budgets != ChildBudgets() else ():
                    self.budgets[fact.run, child] = fact.budgets
                self.packs += [(fact.run, SentPack(sender=fact.agent, sent_us=at_us, pack=pack)) for pack in fact.packs]
            case MailHandedOver():
                inbox = inbox_of(fact.run, fact.agent)
                self.handed_over[inbox] = max(fact.position, self.handed_over.get(inbox, 0))
            case EngramsRecalled() | TaskRecalled() | RecallForgotten():
                self._recall(fact)
            case BriefMade():
                self.briefs.setdefault((fact.run, fact.role), []).append(
                    Brief(version=fact.version, made_us=at_us, lines=fact.lines, agent=fact.agent)
                )
            case GateOverridden():
                self.gate_overrides.append(shown_override(fact, at_us))
            case RequestAnswered():
                answer = EarlierAnswer(request=fact.request, answer=bytes(fact.answer))
                self.answers[fact.caller, fact.key] = (at_us, answer)

    def _recall(self, fact: RecallChange) -> None:
        match fact:
            case EngramsRecalled():
                stale_by_id = self.recalled.setdefault((fact.run, fact.agent), {})
                stale_by_id.update(dict.fromkeys(fact.engrams, False))
                stale_by_id.update(dict.fromkeys(fact.stale, True))
                if fact.task_of:
                    key = (fact.run, fact.task_of, fact.task)
                    oldest = next(
                        (task for task in self.recalled_tasks if (task.run, task.agent, task.task) == key), None
                    )
                    self.recalled_tasks = [task for task in self.recalled_tasks if task is not oldest]
            case TaskRecalled():
                self.recalled_tasks.append(fact)
            case RecallForgotten():
                self.recalled.pop((fact.run, fact.agent), None)

    def _correct_times(self, now_us: int) -> None:
        """Shorten what a wrong clock had made too long, and revoke what it had ended (decision 91)."""
        self._withdraw(TokenWithdrawn(run="", agent="", by=ADMIN))
        self.revoked |= {grant.block_id for grant in self.grants.values()}
        self._end_reservations(lambda lease: True)
        for root, puts in self.puts.items():
            self.puts[root] = {key: row for key, row in puts.items() if row.last_us <= now_us}
        for key, turn in self.turns.items():
            self.turns[key] = msgspec.structs.replace(turn, last_us=min(turn.last_us, now_us))
        for below in self.added_below.values():
            below[:] = [min(added_us, now_us) for added_us in below]
        for ordinal, stored in self.stored.items():
            latest_us = now_us + parse_duration(stored.engram.ttl)
            if stored.expires_at > latest_us:
                self.stored[ordinal] = msgspec.structs.replace(stored, expires_at=latest_us)

    def _issue_token(self, fact: TokenIssued, at_us: int) -> None:
        for token_id, issued in list(self.tokens.items()):  # nobody asks about a token that has expired
            if (issued.run, issued.agent) == (fact.run, fact.agent) and issued.expires_us <= at_us:
                del self.tokens[token_id]
        self.tokens[fact.token_id] = fact

    def _withdraw(self, fact: TokenWithdrawn) -> None:
        if fact.token_id is not None:
            self.revoked_tokens.add(fact.token_id)
            return
        for token_id, issued in self.tokens.items():
            if fact.agent in ("", issued.agent) and fact.run in ("", issued.run):
                self.revoked_tokens.add(token_id)
        for key, agent in self.agents.items():
            if fact.agent in ("", agent.name) and fact.run in ("", agent.run):
                self.agents[key] = msgspec.structs.replace(agent, tokens_revoked=True)

    def _present_turn(self, run: str, agent: str, at_us: int) -> Turn:
        return present_turn(self.turns.get((run, agent)), self.agents.get((run, agent)), at_us)

    def _count_put(self, fact: EngramPut | EngramCaptured, at_us: int) -> None:
        """Count a put for the author's rate and turn; seconds that have left the window are dropped."""
        keys, second = rate_keys(fact), at_us // SECOND_US
        if keys is not None:
            root, author = keys
            lineage = {
                key: row for key, row in self.puts.get(root, {}).items() if key[0] >= second - RATE_WINDOW_SECONDS
            }
            engrams = lineage[second, author].engrams if (second, author) in lineage else 0
            lineage[second, author] = RecentPuts(at_us, author, engrams + 1)
            self.puts[root] = lineage
        if fact.turn:
            agent = (fact.run, fact.engram.provenance.created_by.rpartition("/")[2])
            self.turns[agent] = after_put(self.turns.get(agent), fact.turn, fact.put_tokens, at_us)

    def _without_resent(
        self, fact: MessageRejected | MessageAccepted | BroadcastSent, kind: MessageKind
    ) -> dict[str, OpenRejection]:
        """Remove the rejection that a message replaces; return the others of its author."""
        rejections = self.rejections.setdefault((fact.run, fact.agent, kind), {})
        if fact.resends is not None:
            rejections.pop(fact.resends, None)
        return rejections

    def _change_engram(self, fact: EngramChange, at_us: int) -> None:
        match fact:
            case PromotionRequested():
                self.promotions[fact.request_id] = StoredPromotion(request=fact, asked_us=at_us)
            case PromotionAnswered() if fact.request_id in self.promotions:
                self.promotions[fact.request_id] = msgspec.structs.replace(
                    self.promotions[fact.request_id], answer=fact, answered_us=at_us
                )
            case EngramConfirmed():
                if fact.captured_in:
                    self._accept(fact, at_us)
                ordinal = self.ids[fact.space, fact.id]
                stored = self.stored[ordinal]
                engram = with_gain(stored.engram, fact)
                more_keys = keys_after(engram, stored.more_keys, fact)
                self.stored[ordinal] = msgspec.structs.replace(
                    stored, engram=engram, expires_at=fact.expires_at, more_keys=more_keys
                )
                self.keys[ordinal] = frozenset(posted_keys(engram, more_keys))
                self.votes.setdefault(ordinal, set()).add(fact.root)
            case EngramsUsed():
                for engram_id in fact.engrams:  # a repeat of the same decision adds nothing
                    use = EngramUse(fact.kind, fact.item, fact.run, fact.agent, at_us)
                    self.uses.setdefault((fact.kind, fact.item, engram_id), use)
            case EngramsListed():
                self.listed[listing_reader(fact.run, fact.agent)] = fact.position
            case RepositoryLearned():
                self.learned_commit = fact.commit
                for engram_id in fact.renewed:
                    self._renew(engram_id, fact.expires_at)
            case EngramReceived():
                self._put(fact, PROJECT_SPACE)
            case EngramAdopted():
                self._put(fact, UNTRUSTED_SPACE)
                self.adoptions[self.ordinal] = fact.adoption
            case EngramCaptured():
                self._put(fact, unconfirmed_space(space_of(fact.engram.scope, self.runs[fact.run])))
                self.captures[self.ordinal] = fact.capture
                self._count_put(fact, at_us)
            case EngramTrusted():
                self._trust(fact, at_us)
            case EngramPromoted():
                self._promote(fact)
            case EngramForgotten():
                self._forget(fact)
            case EngramReplaced():
                ordinal = self.ids.pop((fact.space, fact.id))
                self._refuse_learned(ordinal)
                self.past[ordinal] = PastEngram(self.stored.pop(ordinal), at_us, fact.replaced_by)
            case EngramPinned():
                self.pins[self.ids[fact.space, fact.id]] = None
            case EngramUnpinned():
                self.pins.pop(self.ids[fact.space, fact.id], None)
            case EngramDelivered():
                self._drop(self.ids[OUTBOX, fact.id])

    def _change_reservation(self, fact: ReservationChange, at_us: int) -> None:
        match fact:
            case ReservationMade():
                self._end_reservations(lambda lease: lease.expires_us <= at_us)
                self.reservations[fact.reservation_id] = as_made(fact)
            case ReservationChanged():
                lease = self.reservations[fact.reservation_id]
                self.reservations[fact.reservation_id] = as_changed(lease, fact)
            case ReservationReleased():
                self.reservations.pop(fact.reservation_id, None)

    def _end_reservations(self, has_ended: Callable[[Reservation], bool]) -> None:
        self.reservations = {lease_id: lease for lease_id, lease in self.reservations.items() if not has_ended(lease)}

    def _change_grant(self, fact: GrantChange) -> None:
        match fact:
            case DerefRequested():
                self.requests[fact.request_id] = StoredRequest(request=fact, answered=False)
            case DerefAnswered() if fact.request_id in self.requests:
                request = self.requests[fact.request_id].request
                self.requests[fact.request_id] = StoredRequest(request=request, answered=True, grant_id=fact.grant_id)
            case GrantIssued():
                self.grants[fact.grant_id] = fact
            case BlockDebited():
                total_spent = self.spent.get(fact.block_id, BlockSpending())
                self.spent[fact.block_id] = BlockSpending(
                    tokens=total_spent.tokens + fact.tokens, uses=total_spent.uses + 1
                )
            case BlockRevoked():
                self.revoked.add(fact.block_id)

    def view(self, time: ProjectTime, *, commits: int, journal_bytes: int) -> View:
        """Return a view of the state as of a moment."""
        return MemoryView(self, time, commits, journal_bytes)

    def root(self, run: str, agent: str) -> str:
        """Return the full name of an agent's topmost ancestor."""
        return f"{run}/{self.agent_roots.get((run, agent), agent)}"

    def _count(self, count: Count, at_us: int) -> None:
        tally, agent, role = count.tally, (count.run, count.agent), self.role(count.run, count.agent)
        if count.turn is not None and count.turn > self.counted_turns.get(agent, 0):
            self.counted_turns[agent] = count.turn
            tally = msgspec.structs.replace(tally, turns=1)
        self.tallies[agent] = total([self.tallies.get(agent, Tally()), tally])
        if count.outcome is not None:
            self.outcomes[agent] = (self.outcomes.get(agent, "") + count.outcome)[-MAX_OUTCOMES:]
        if count.kind is not None:
            self.kinds_put[*agent, count.kind] = self.kinds_put.get((*agent, count.kind), 0) + 1
        if count.code is not None:
            self.denials[*agent, count.code] = self.denials.get((*agent, count.code), 0) + count.tally.denials
        for bucket, start in buckets_of(at_us):
            key = (count.run, bucket, start, role)
            self.history[key] = total([self.history.get(key, Tally()), tally])

    def _find_delivered(self, run: str, agent: str, digest: str, files: Sequence[str]) -> list[DeliveredContent]:
        by_digest = self.delivered.get((run, agent), {})
        return [
            delivered
            for _, delivered in sorted(by_digest.items())
            if delivered.content.digest == digest or delivered.content.file in files
        ]

    def role(self, run: str, agent: str) -> str:
        """Return the role of an agent."""
        return ADMIN if agent == ADMIN else self.agents[run, agent].role

    def _put(self, fact: EngramPut | EngramReceived | EngramAdopted | EngramCaptured, space: str) -> None:
        self.ordinal += 1
        more_keys = renew_keys(fact.engram, fact.more_keys, fact.key_format)
        stored = StoredEngram(
            ordinal=self.ordinal,
            engram=fact.engram,
            space=space,
            run=fact.run,
            expires_at=fact.expires_at,
            more_keys=more_keys,
        )
        keys = posted_keys(fact.engram, more_keys)
        self._insert(stored, frozenset(keys))
        self.used_ids.add(fact.engram.id)

    def _post_memory(self, fact: EpisodeKept, at_us: int) -> None:
        """Make the last version of a memory found in place of the one before (decision 81)."""
        earlier = earlier_id(fact.episode)
        ordinal = self.ids.get((MEMORY_SPACE, earlier)) if earlier is not None else None
        if ordinal is not None and self.stored[ordinal].expires_at > at_us:
            del self.ids[MEMORY_SPACE, self.stored[ordinal].engram.id]
            self.past[ordinal] = PastEngram(self.stored.pop(ordinal), at_us, fact.episode.ref)
        self._put(memory_put(fact), MEMORY_SPACE)

    def _promote(self, fact: EngramPromoted) -> None:
        ordinal = self.ids[fact.space, fact.id]
        stored, keys = self.stored[ordinal], self.keys[ordinal]
        self._drop(ordinal)
        engram = as_promoted(stored.engram, fact)
        self._insert(msgspec.structs.replace(stored, engram=engram, space=wider_space(fact.scope)), keys)

    def _trust(self, fact: EngramTrusted, at_us: int) -> None:
        ordinal = self.ids[UNTRUSTED_SPACE, fact.id]
        stored, keys = self.stored[ordinal], self.keys[ordinal]
        self._drop(ordinal)
        self._insert(msgspec.structs.replace(stored, space=PROJECT_SPACE), keys)
        self.adoptions[ordinal] = self.adoptions[ordinal].confirm(fact.by, print_time(at_us))

    def _accept(self, fact: EngramConfirmed, at_us: int) -> None:
        ordinal = self.ids[fact.captured_in, fact.id]
        stored, keys = self.stored[ordinal], self.keys[ordinal]
        self._drop(ordinal)
        self._insert(msgspec.structs.replace(stored, space=fact.space), keys)
        self.captures[ordinal] = self.captures[ordinal].confirm(fact.by, print_time(at_us))

    def _renew(self, engram_id: str, expires_at: int) -> None:
        for ordinal in self.learned:
            stored = self.stored.get(ordinal)
            if stored is not None and stored.engram.id == engram_id:
                self.stored[ordinal] = msgspec.structs.replace(stored, expires_at=expires_at)

    def _insert(self, stored: StoredEngram, keys: frozenset[str]) -> None:
        self.stored[stored.ordinal] = stored
        self.keys[stored.ordinal] = keys
        self.ids[stored.space, stored.engram.id] = stored.ordinal

    def _refuse_learned(self, ordinal: int) -> None:
        """Do not learn again what a person or an agent has decided about."""
        if ordinal in self.learned:
            self.unwanted_keys.add(self.learned[ordinal].key)

    def _forget(self, fact: EngramForgotten) -> None:
        ordinal = self.ids.get((fact.space, fact.id))
        if ordinal is not None:
            if not was_withdrawn(fact):
                self._refuse_learned(ordinal)
            self._drop(ordinal)
            return
        for past in list(self.past.values()):
            if (past.stored.space, past.stored.engram.id) == (fact.space, fact.id):
                del self.past[past.stored.ordinal], self.keys[past.stored.ordinal]

    def _drop(self, ordinal: int) -> None:
        stored = self.stored.pop(ordinal)
        del self.ids[stored.space, stored.engram.id], self.keys[ordinal]


class MemoryView(MemoryCortex):
    """The state as of one moment. `View` documents the methods."""

    def __init__(self, state: KnowledgeState, time: ProjectTime, commits: int, journal_bytes: int) -> None:
        self._state = state
        self._cortex = state.cortex
        self._now_us, self._expiry_us = time.now_us, time.expiry_us
        self._commits = commits
        self._journal_bytes = journal_bytes

    @property
    def as_of(self) -> int:
        return self._now_us

    @property
    def expiry_us(self) -> int:
        return self._expiry_us

    def first_us(self) -> int:
        return min((run.opened_us for run in self._state.runs.values()), default=0)

    def policy(self) -> Policy:
        return self._state.policies[-1].policy if self._state.policies else DEFAULT_POLICY

    def applied_policies(self, *, limit: int) -> list[AppliedPolicy]:
        return self._state.policies[: -limit - 1 : -1]

    def run(self, run_id: str) -> Run | None:
        return self._state.runs.get(run_id)

    def current_run(self) -> Run | None:
        # decision 43: the run of a client session is never the current one
        runs = (run for run in self._state.runs.values() if run.session is None)
        return max(runs, key=lambda run: (not run.ended, run.number), default=None)

    def run_of_session(self, session: str) -> Run | None:
        return next((run for run in reversed(self._state.runs.values()) if run.session == session), None)

    def runs(self, *, limit: int, of_sessions: bool = False) -> list[Run]:
        runs = [run for run in self._state.runs.values() if (run.session is not None) == of_sessions]
        return sorted(runs, key=lambda run: run.number, reverse=True)[:limit]

    def agent(self, run_id: str, name: str) -> Agent | None:
        return self._state.agents.get((run_id, name))

    def agents(self, run_id: str) -> list[Agent]:
        return [agent for agent in self._state.agents.values() if agent.run == run_id and not agent.removed]

    def agents_named(self, name: str) -> list[Agent]:
        return [agent for agent in self._state.agents.values() if agent.name == name]

    def newest_agents(self, *, limit: int) -> list[Agent]:
        return list(islice((agent for agent in reversed(self._state.agents.values()) if not agent.removed), limit))

    def agents_below(self, run_id: str, root: str, since_us: int) -> AgentsBelow:
        added = self._state.added_below.get((run_id, root), [])
        return AgentsBelow(len(added), tuple(at_us for at_us in added if at_us > since_us))

    def agent_of_client(self, run_id: str, client_id: str) -> Agent | None:
        of_run = (agent for agent in self._state.agents.values() if agent.run == run_id)
        return next((agent for agent in of_run if agent.client_id == client_id), None)

    def is_token_revoked(self, token_id: str) -> bool:
        return token_id not in self._state.tokens or token_id in self._state.revoked_tokens

    def token(self, token_id: str) -> TokenIssued | None:
        return next((issued for issued in self._live_tokens() if issued.token_id == token_id), None)

    def tokens(self, run_id: str | None, *, before: str | None, limit: int) -> list[TokenIssued]:
        older = [issued for issued in self._live_tokens() if before is None or issued.token_id < before]
        return [issued for issued in older if run_id in (None, issued.run)][:limit]

    def tokens_of(self, run_id: str, agent: str) -> list[TokenIssued]:
        return [issued for issued in self._live_tokens() if (issued.run, issued.agent) == (run_id, agent)]

    def _live_tokens(self) -> list[TokenIssued]:
        live = [
            issued
            for issued in self._state.tokens.values()
            if issued.expires_us > self._expiry_us
            and issued.token_id not in self._state.revoked_tokens
            and not self._state.agents[issued.run, issued.agent].removed
            and not self._state.runs[issued.run].ended
        ]
        return sorted(live, key=lambda issued: issued.token_id, reverse=True)

    def turn(self, run_id: str, agent: str) -> Turn | None:
        return self._state.turns.get((run_id, agent))

    def team_tokens(self, run_id: str) -> int:
        turns = (turn for (run, agent), turn in self._state.turns.items() if run == run_id and agent != ADMIN)
        return sum(turn.run_tokens - turn.spoken_tokens for turn in turns)

    def was_read(self, run_id: str, digest: str) -> bool:
        return any(read.run == run_id for read in self._state.reads.get(digest, ()))

    def reads_of(self, contents: Sequence[str], runs: Sequence[str]) -> list[RecordedRead]:
        return [
            read
            for content in contents
            for read in self._state.reads.get(content, ())
            if read.run in runs or read.agent == ADMIN
        ]

    def postings(self, spaces: Sequence[str], key: str, *, kind: str | None, limit: int) -> Sequence[int]:
        return list(islice(self._live(spaces, {key} if kind is None else {key, kind_key(kind)}), limit))

    def chunks(self, space: str, key: str) -> list[PostingChunk]:
        return chunks_of(self._live((space,), {key}))

    def expect_chunks(self, spaces: Sequence[str], keys: Sequence[str]) -> None:
        """Do nothing: they are here."""

    def count(self, space: str) -> int:
        return sum(1 for _ in self._live((space,), {EVERYTHING}))

    def visible(self, ordinals: Sequence[int]) -> list[int]:
        return list(ordinals)

    def sequence_rows(self, space: str, ordinals: Sequence[int], reach: int) -> dict[int, int]:
        live = list(self._live((space,), set()))
        rows = dict(zip(live, map(sequence_of, self.engrams(live)), strict=True))
        return {
            near: rows[near]
            for ordinal in ordinals
            for near in range(ordinal - reach, ordinal + reach + 1)
            if rows.get(near)
        }

    def newest(self, spaces: Sequence[str], *, kind: str | None, limit: int, older_than: int | None) -> Sequence[int]:
        live = self._live(spaces, {EVERYTHING if kind is None else kind_key(kind)})
        return [ordinal for ordinal in live if older_than is None or ordinal < older_than][:limit]

    def traits(self, ordinals: Sequence[int]) -> list[Traits]:
        return [_traits(self._state.stored[ordinal]) for ordinal in ordinals]

    def engrams(self, ordinals: Sequence[int]) -> list[Engram]:
        return [self._state.stored[ordinal].engram for ordinal in ordinals]

    def find(self, spaces: Sequence[str], engram_id: str) -> StoredEngram | None:
        for space in spaces:
            ordinal = self._state.ids.get((space, engram_id))
            if ordinal is not None and self._state.stored[ordinal].expires_at > self._expiry_us:
                return self._state.stored[ordinal]
        return None

    def ids_starting(self, spaces: Sequence[str], beginning: str, *, limit: int) -> Sequence[str]:
        candidates = {
            engram_id
            for space, engram_id in self._state.ids
            if space in spaces and engram_id.startswith(beginning) and self.find((space,), engram_id) is not None
        }
        return sorted(candidates)[:limit]

    def find_past(self, spaces: Sequence[str], engram_id: str) -> PastEngram | None:
        state = self._state
        expired = [PastEngram(stored) for stored in state.stored.values() if stored.expires_at <= self._expiry_us]
        ended = sorted((*state.past.values(), *expired), key=lambda past: past.stored.ordinal, reverse=True)
        for space in spaces:
            for past in ended:
                if (past.stored.space, past.stored.engram.id) == (space, engram_id):
                    return past
        return None

    def replaced_ids_starting(self, spaces: Sequence[str], beginning: str, *, limit: int) -> Sequence[str]:
        replaced = (past.stored for past in self._state.past.values() if past.stored.space in spaces)
        return sorted({stored.engram.id for stored in replaced if stored.engram.id.startswith(beginning)})[:limit]

    def replaced_with(self, newer_ids: Sequence[str]) -> dict[str, list[str]]:
        replaced: dict[str, list[str]] = {}
        for past in self._state.past.values():
            if past.replaced_by is not None and past.replaced_by in newer_ids:
                replaced.setdefault(past.replaced_by, []).append(past.stored.engram.id)
        return {newer_id: sorted(ids) for newer_id, ids in replaced.items()}

    def at(self, time_us: int) -> EngramReads:
        return MemoryPastView(self._state, fixed_time(time_us), self._commits, self._journal_bytes)

    def is_id_taken(self, space: str, engram_id: str) -> bool:
        return self.find((space,), engram_id) is not None

    def is_id_used(self, engram_id: str) -> bool:
        return engram_id in self._state.used_ids

    def twins(self, space: str, twin: str, *, limit: int) -> Sequence[int]:
        live = self._live((space,), {EVERYTHING})
        return [ordinal for ordinal in live if twin_key(self._state.stored[ordinal].engram) == twin][:limit]

    def pinned(self, spaces: Sequence[str]) -> Sequence[int]:
        live = set(self._live(spaces, {EVERYTHING}))
        return [ordinal for ordinal in reversed(self._state.pins) if ordinal in live]

    def votes(self, ordinal: int, *, except_root: str) -> int:
        return len(self._state.votes.get(ordinal, set()) - {except_root})

    def values(self, ordinals: Sequence[int]) -> dict[int, int]:
        return {ordinal: self._value(ordinal) for ordinal in ordinals}

    def _value(self, ordinal: int) -> int:
        stored = self._state.stored.get(ordinal)
        if stored is None or stored.expires_at <= self._expiry_us:
            return 0
        used = [key for key in self._state.uses if key[2] == stored.engram.id]
        uses = (self._valued_use(key) for key in used[-MAX_VALUED_USES:])
        author_run, _, author = stored.engram.provenance.created_by.rpartition("/")
        voters = self._state.votes.get(ordinal, ())
        return value_in_space(stored.space, self._state.root(author_run, author), uses, voters)

    def _valued_use(self, key: tuple[str, str, str]) -> ValuedUse:
        kind, item, _ = key
        use, state = self._state.uses[key], self._state
        contribution = state.cortex.contributions.get(item) if kind in ("contribution", "review") else None
        return ValuedUse(
            root=state.root(use.run, use.agent),
            run_space=space_of("run", state.runs[use.run]),
            in_project=kind == "engram" and self.find((PROJECT_SPACE,), item) is not None,
            accepted=contribution is not None and contribution.status == "accepted",
        )

    def uses(self, engram_id: str, *, limit: int) -> list[EngramUse]:
        uses = [use for (_, _, used), use in self._state.uses.items() if used == engram_id]
        return uses[: -limit - 1 : -1]

    def used_in(self, kind: UserKind, item: str) -> tuple[str, ...]:
        return tuple(used for user_kind, user, used in self._state.uses if (user_kind, user) == (kind, item))

    def listed_position(self, run_id: str, agent: str) -> int:
        return self._state.listed.get((run_id, agent), 0)

    def recalled(self, run_id: str, agent: str) -> dict[str, bool]:
        return dict(reversed(self._state.recalled.get((run_id, agent), {}).items()))

    def task_recalled(self, run_id: str, agent: str, task: str) -> tuple[str, ...] | None:
        tasks = self._state.recalled_tasks
        same = [row for row in tasks if (row.run, row.agent, row.task) == (run_id, agent, task)]
        return same[0].engrams if same else None

    def recent_puts(self, root: str, since_us: int) -> Sequence[RecentPuts]:
        return sorted(row for row in self._state.puts.get(root, {}).values() if row.last_us > since_us)

    def promotion(self, request_id: str) -> StoredPromotion | None:
        return self._state.promotions.get(request_id)

    def waiting_promotion(self, engram_id: str) -> StoredPromotion | None:
        waiting = self.promotions(waiting=True, limit=len(self._state.promotions))
        return next((stored for stored in waiting if stored.request.id == engram_id), None)

    def promotions(self, *, waiting: bool, limit: int) -> list[StoredPromotion]:
        newest = reversed(self._state.promotions.values())
        return [stored for stored in newest if not waiting or stored.answer is None][:limit]

    def gate_overrides(self, fingerprints: Sequence[str]) -> dict[str, GateOverride]:
        return {made.fingerprint: made for made in self._state.gate_overrides if made.fingerprint in fingerprints}

    def newest_gate_overrides(self, *, limit: int) -> list[GateOverride]:
        return self._state.gate_overrides[::-1][:limit]

    def adoptions(self, engram_ids: Sequence[str]) -> dict[str, Adoption]:
        state = self._state
        live = [stored for stored in state.stored.values() if stored.expires_at > self._expiry_us]
        shown = [*live, *(past.stored for past in state.past.values())]
        return {
            stored.engram.id: state.adoptions[stored.ordinal]
            for stored in shown
            if stored.engram.id in engram_ids and stored.ordinal in state.adoptions
        }

    def captures(self, engram_ids: Sequence[str]) -> dict[str, Capture]:
        state = self._state
        live = ((ordinal, state.stored[ordinal]) for ordinal in state.captures if ordinal in state.stored)
        return {
            stored.engram.id: state.captures[ordinal]
            for ordinal, stored in live
            if stored.engram.id in engram_ids and stored.expires_at > self._expiry_us
        }

    def learned(self, engram_ids: Sequence[str]) -> dict[str, Learned]:
        return {row.id: row.learned for row in self.learned_engrams() if row.id in engram_ids}

    def learned_ordinals(self, spaces: Sequence[str]) -> frozenset[int]:
        return frozenset(row.ordinal for row in self.learned_engrams() if row.space in spaces)

    def learned_engrams(self) -> list[LearnedEngram]:
        live = ((self._state.stored.get(ordinal), learned) for ordinal, learned in sorted(self._state.learned.items()))
        return [
            LearnedEngram(stored.ordinal, stored.engram.id, stored.space, stored.expires_at, learned)
            for stored, learned in live
            if stored is not None and stored.expires_at > self._expiry_us
        ]

    def unwanted_keys(self) -> frozenset[str]:
        return frozenset(self._state.unwanted_keys)

    def learned_commit(self) -> str | None:
        return self._state.learned_commit

    def outbox(self) -> list[StoredEngram]:
        return [stored for _, stored in sorted(self._state.stored.items()) if stored.space == OUTBOX]

    def earlier_answer(self, caller: str, key: str) -> EarlierAnswer | None:
        at_us, answer = self._state.answers.get((caller, key), (0, None))
        return answer if at_us + IDEMPOTENCY_WINDOW_US > self._expiry_us else None

    def grant(self, run_id: str, grant_id: str) -> GrantIssued | None:
        grant = self._state.grants.get(grant_id)
        return grant if grant is not None and grant.run == run_id else None

    def grants_for(self, run_id: str, child: str) -> list[GrantIssued]:
        return [grant for grant in self._state.grants.values() if (grant.run, grant.child) == (run_id, child)]

    def grants_of(self, run_id: str, agent: str | None, *, before: str | None, limit: int) -> list[GrantIssued]:
        ids = list(self._state.grants)
        earlier = ids[: ids.index(before)] if before in ids else ids if before is None else []
        grants = (self._state.grants[grant_id] for grant_id in reversed(earlier))
        of_run = (grant for grant in grants if grant.run == run_id)
        return [grant for grant in of_run if agent is None or agent in (grant.parent, grant.child)][:limit]

    def spent(self, block_ids: Sequence[str]) -> dict[str, BlockSpending]:
        return {block_id: self._state.spent[block_id] for block_id in block_ids if block_id in self._state.spent}

    def revoked(self, block_ids: Sequence[str]) -> set[str]:
        return self._state.revoked.intersection(block_ids)

    def request(self, run_id: str | None, request_id: str) -> StoredRequest | None:
        request = self._state.requests.get(request_id)
        return request if request is not None and run_id in (None, request.request.run) else None

    def reservations(self) -> list[Reservation]:
        return [lease for lease in self._state.reservations.values() if lease.expires_us > self._expiry_us]

    def open_requests(self, run_id: str | None) -> list[StoredRequest]:
        requests = self._state.requests.values()
        return [request for request in requests if run_id in (None, request.request.run) and not request.answered]

    def mail(self, inbox: Inbox, *, after: int, limit: int, with_answers: bool = True) -> list[Mail]:
        later = [mail for mail in self._mail_of(inbox) if mail.position > after]
        return [mail for mail in later if with_answers or mail.kind != "answer"][:limit]

    def mail_before(self, inbox: Inbox, *, position: int, limit: int) -> list[Mail]:
        seen = [mail for mail in self._mail_of(inbox) if mail.position <= position or mail.kind == "answer"]
        return seen[: -limit - 1 : -1]

    def mail_items(self, inbox: Inbox, beginning: str, *, limit: int) -> list[Mail]:
        return [mail for mail in self._mail_of(inbox) if mail.item.startswith(beginning)][:limit]

    def unseen(self, inbox: Inbox) -> Unseen:
        position = self._state.handed_over.get(inbox, 0)
        positions = [mail.position for mail in self._mail_of(inbox) if mail.kind != "answer"]
        later = [number for number in positions if number > position]
        return Unseen(position=position, count=len(later), newest=max(later, default=position))

    def _mail_of(self, inbox: Inbox) -> list[Mail]:
        return [
            mail for run, recipient, mail in self._state.mail if recipient == inbox.agent and inbox.run in (None, run)
        ]

    def pointer_packs(self, run_id: str, *, limit: int) -> list[SentPack]:
        return [sent for run, sent in self._state.packs if run == run_id][: -limit - 1 : -1]

    def budgets(self, run_id: str, agent: str) -> ChildBudgets | None:
        return self._state.budgets.get((run_id, agent))

    def open_rejections(self, run_id: str, agent: str, kind: MessageKind, *, limit: int) -> list[OpenRejection]:
        rejections = self._state.rejections.get((run_id, agent, kind), {})
        return [rejections[rejection_id] for rejection_id in sorted(rejections, reverse=True)[:limit]]

    def brief(self, run_id: str, role: str, version: int | None) -> Brief | None:
        versions = self._state.briefs.get((run_id, role), [])
        if version is None:
            return versions[-1] if versions else None
        return next((brief for brief in versions if brief.version == version), None)

    def brief_versions(self, run_id: str, role: str, agent: str, *, limit: int) -> list[Brief]:
        versions = [brief for brief in self._state.briefs.get((run_id, role), []) if brief.agent == agent]
        return versions[: -limit - 1 : -1]

    def agent_paths(self, run_id: str, agent: str, *, limit: int) -> list[str]:
        used = self._state.used_paths.get((run_id, agent), {})
        return sorted(used, key=lambda path: (-used[path], path))[:limit]

    def tallies(self, run_id: str | None) -> dict[str, Tally]:
        totals: dict[str, Tally] = {}
        for (run, agent), tally in self._state.tallies.items():
            name = self._state.role(run, agent) if run_id is None else agent
            if run_id in (None, run):
                totals[name] = total([totals.get(name, Tally()), tally])
        return totals

    def kinds_put(self, run_id: str | None) -> dict[str, dict[str, int]]:
        return self._counts_by_name(self._state.kinds_put, run_id)

    def denials_by_code(self, run_id: str | None) -> dict[str, dict[str, int]]:
        return self._counts_by_name(self._state.denials, run_id)

    def _counts_by_name(
        self, counted: Mapping[tuple[str, str, str], int], run_id: str | None
    ) -> dict[str, dict[str, int]]:
        counts: dict[str, dict[str, int]] = {}
        for (run, agent, name), count in counted.items():
            agent_or_role = self._state.role(run, agent) if run_id is None else agent
            if run_id in (None, run):
                names = counts.setdefault(agent_or_role, {})
                names[name] = names.get(name, 0) + count
        return counts

    def outcomes(self, run_id: str) -> dict[str, str]:
        return {agent: outcomes for (run, agent), outcomes in self._state.outcomes.items() if run == run_id}

    def history(self, run_id: str | None, bucket: str, since: int) -> list[tuple[int, str, Tally]]:
        totals: dict[tuple[int, str], Tally] = {}
        for (run, length, start, role), tally in self._state.history.items():
            if run_id in (None, run) and length == bucket and start >= since:
                totals[start, role] = total([totals.get((start, role), Tally()), tally])
        return [(start, role, tally) for (start, role), tally in sorted(totals.items(), key=lambda row: row[0])]

    def grants_left(self, run_id: str) -> dict[str, GrantsLeft]:
        by_child: dict[str, GrantsLeft] = {}
        for grant in self._state.grants.values():
            if grant.run != run_id or grant.expires_us <= self._expiry_us:
                continue
            chain = self._chain(grant)
            spent = [self._state.spent.get(link.block_id, BlockSpending()) for link in chain]
            uses = min(link.uses - used.uses for link, used in zip(chain, spent, strict=True))
            tokens = min(link.cap_tokens - used.tokens for link, used in zip(chain, spent, strict=True))
            if uses > 0 and tokens > 0 and self._state.revoked.isdisjoint(link.block_id for link in chain):
                so_far = by_child.get(grant.child, GrantsLeft())
                by_child[grant.child] = GrantsLeft(grants=so_far.grants + 1, tokens=so_far.tokens + tokens)
        return by_child

    def _chain(self, grant: GrantIssued) -> list[GrantIssued]:
        """Return a grant and those that it was passed on from."""
        chain = [grant]
        while (wider := chain[-1].narrowed_from) is not None:
            chain.append(self._state.grants[wider])
        return chain

    def live_kinds(self, spaces: Sequence[str]) -> dict[str, int]:
        kinds: dict[str, int] = {}
        for stored in self._state.stored.values():
            if stored.expires_at > self._expiry_us and stored.space in spaces:
                kinds[stored.engram.kind] = kinds.get(stored.engram.kind, 0) + 1
        return kinds

    def counts(self) -> Counts:
        kinds: dict[str, int] = {}
        for stored in self._state.stored.values():
            if stored.expires_at > self._expiry_us and stored.space != MEMORY_SPACE:
                kinds[stored.engram.kind] = kinds.get(stored.engram.kind, 0) + 1
        return Counts(
            commits=self._commits,
            journal_bytes=self._journal_bytes,
            runs=len(self._state.runs),
            agents=len(self._state.agents),
            engrams=sum(kinds.values()),
            kinds=dict(sorted(kinds.items())),
        )

    def _live(self, spaces: Sequence[str], keys: set[str]) -> Iterator[int]:
        state = self._state
        for ordinal in sorted(state.stored, reverse=True):
            if (
                state.stored[ordinal].space in spaces
                and state.stored[ordinal].expires_at > self._expiry_us
                and keys <= state.keys[ordinal]
            ):
                yield ordinal


class MemoryPastView(MemoryView):
    """The engrams that were live at an earlier time, as they are now."""

    def traits(self, ordinals: Sequence[int]) -> list[Traits]:
        return [_traits(self._stored(ordinal)) for ordinal in ordinals]

    def engrams(self, ordinals: Sequence[int]) -> list[Engram]:
        return [self._stored(ordinal).engram for ordinal in ordinals]

    def _stored(self, ordinal: int) -> StoredEngram:
        past = self._state.past.get(ordinal)
        return past.stored if past is not None else self._state.stored[ordinal]

    def _live(self, spaces: Sequence[str], keys: set[str]) -> Iterator[int]:
        state = self._state
        for ordinal in sorted((*state.stored, *state.past), reverse=True):
            stored, past = self._stored(ordinal), state.past.get(ordinal)
            if (
                stored.space in spaces
                and parse_time(stored.engram.provenance.created_at) <= self._expiry_us < stored.expires_at
                and (past is None or past.superseded_us is None or past.superseded_us > self._expiry_us)
                and keys <= state.keys[ordinal]
            ):
                yield ordinal


def _traits(stored: StoredEngram) -> Traits:
    engram = stored.engram
    return Traits(
        stored.ordinal,
        engram.id,
        engram.scope,
        parse_time(engram.provenance.created_at),
        engram.confidence,
        pointer_names(engram),
        sequence_of(engram),
    )
