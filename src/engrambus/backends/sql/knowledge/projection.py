"""The projection of the knowledge store: how each fact changes the index."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from engrambus.backends.facts import (
    RATE_WINDOW_SECONDS,
    CortexChange,
    EngramChange,
    Fact,
    GrantChange,
    IdentityChange,
    RecallChange,
    ReservationChange,
    mail_of,
    rate_keys,
    used_paths_of,
)
from engrambus.backends.sql.connection import SqlConnection
from engrambus.backends.sql.knowledge.cortex import apply_cortex
from engrambus.backends.sql.knowledge.postings import Postings, PostingsWriter
from engrambus.backends.sql.knowledge.tally_writer import TallyWriter
from engrambus.core import SECOND_US, canonical, parse_duration, parse_time, print_time
from engrambus.core.database import OtherFormat
from engrambus.core.journal import JournalPosition
from engrambus.core.project_clock import ClockCorrected
from engrambus.gateway.ports import RequestAnswered
from engrambus.gateway.tallies import count_of
from engrambus.knowledge import cortex, engrams  # as modules: the code that makes keys loads with the first engram
from engrambus.knowledge.brief import BriefMade
from engrambus.knowledge.cortex import EpisodeKept
from engrambus.knowledge.engrams import (
    Engram,
    EngramAdopted,
    EngramCaptured,
    EngramConfirmed,
    EngramDelivered,
    EngramForgotten,
    EngramPinned,
    EngramPromoted,
    EngramPut,
    EngramReceived,
    EngramReplaced,
    EngramsListed,
    EngramsRecalled,
    EngramsUsed,
    EngramTrusted,
    EngramUnpinned,
    PromotionAnswered,
    PromotionRequested,
    RecallForgotten,
    RepositoryLearned,
    TaskRecalled,
)
from engrambus.knowledge.gate import GateOverridden
from engrambus.knowledge.messages import (
    BroadcastSent,
    ChildBudgets,
    MailHandedOver,
    MessageAccepted,
    MessageKind,
    MessageRejected,
    inbox_of,
)
from engrambus.policy import (
    MEMORY_SPACE,
    OUTBOX,
    PROJECT_SPACE,
    UNTRUSTED_SPACE,
    Agent,
    AgentAdded,
    AgentDismissed,
    ContentDrawn,
    DerefAnswered,
    DerefProved,
    DerefRequested,
    PolicyApplied,
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
    space_of,
    spans_of,
    unconfirmed_space,
    wider_space,
)
from engrambus.policy.grants import BlockDebited, BlockRevoked, GrantIssued
from engrambus.policy.reservations import (
    Reservation,
    ReservationChanged,
    ReservationMade,
    ReservationReleased,
    as_changed,
    as_made,
)

LAYOUT = 43
"""Version of `sql/schema.sql` and of the keys (`KEY_FORMAT`); an index of another version is rebuilt."""
SWEEP_BATCH = 64
PAST = "~"
"""Put before the space of an engram that was replaced or has expired, in the tokens it is posted under."""

_encode = msgspec.json.Encoder().encode
decode_engram = msgspec.json.Decoder(Engram).decode
decode_adoption = msgspec.json.Decoder(engrams.Adoption).decode
decode_reservation = msgspec.json.Decoder(Reservation).decode
decode_capture = msgspec.json.Decoder(engrams.Capture).decode
decode_learned = msgspec.json.Decoder(engrams.Learned).decode


class KnowledgeIndexState(msgspec.Struct, kw_only=True):
    """The state row of the knowledge index; changed in memory as facts are applied."""

    position: JournalPosition
    synced_bytes: int
    """Always the whole journal up to `position`: every commit of this store is synced before its index is."""
    boot_id: str
    ordinal: int
    """Engrams put so far."""
    runs: int
    """Runs opened so far."""
    pending: int
    """Engrams that wait to be posted."""
    tail: int
    """Engrams that are posted and not in blocks yet."""
    merged: int
    """The highest ordinal in blocks."""
    identity: int
    """Facts about runs, agents and policy so far: cached reads of these are valid until it changes."""
    is_from_start: bool = False
    """True while the index is built from the journal's first line, so that nothing was swept out of it yet."""


def tokens_of(space: str, engram: Engram, more_keys: Collection[str]) -> str:
    """Return the tokens an engram is posted under, separated by spaces: its space, a colon and a key each."""
    return f"{space}:" + f" {space}:".join(engrams.posted_keys(engram, more_keys))


class KnowledgeProjection:
    """Applies facts through one connection inside one transaction."""

    def __init__(
        self,
        connection: SqlConnection,
        sql: Mapping[str, str],
        state: KnowledgeIndexState,
        postings: Postings | None = None,
    ) -> None:
        self.connection = connection
        self.sql = self._sql = sql
        self.state = state
        self._engrams: list[tuple[Any, ...]] = []
        self._tokens: list[tuple[int, str]] = []
        self._adoptions: list[tuple[int, str, bytes]] = []
        self._captures: list[tuple[int, str, bytes]] = []
        self._learned: list[tuple[int, str, bytes]] = []
        self._puts: dict[tuple[str, int, str], tuple[int, int]] = {}
        self._put_turns: dict[tuple[str, str], Turn] = {}
        self._live: dict[tuple[str, str], int] = {}
        self._paths: dict[tuple[str, str, str], int] = {}
        self._tallies = TallyWriter(connection, sql)
        self._postings = postings or PostingsWriter(connection, sql, state)
        self._runs: dict[str, Run] = {}

    def apply(self, fact: Fact, at_us: int) -> None:
        """Apply one fact. Puts are gathered and written by `flush`, figures by `finish`."""
        count = count_of(fact, lambda run, agent: self._present_turn(run, agent, at_us))
        if count is not None:
            self._tallies.add(count, at_us)
        self._tallies.add_delivered(fact, at_us)
        used = used_paths_of(fact)
        if used is not None:
            run, agent, paths = used
            self._paths.update(((run, agent, path), at_us) for path in paths)
        if isinstance(fact, EngramPut):  # puts come in bulk, so their rows are gathered
            self._put(fact, space_of(fact.engram.scope, self._run_of(fact.run)))
            self._count_put(fact, at_us)
            if fact.learned is not None:
                self._learned.append((self.state.ordinal, fact.engram.id, _encode(fact.learned)))
            return
        if isinstance(fact, EngramAdopted):
            self._put(fact, UNTRUSTED_SPACE)
            self._adoptions.append((self.state.ordinal, fact.engram.id, _encode(fact.adoption)))
            return
        if isinstance(fact, EngramCaptured):
            self._put(fact, unconfirmed_space(space_of(fact.engram.scope, self._run_of(fact.run))))
            self._captures.append((self.state.ordinal, fact.engram.id, _encode(fact.capture)))
            self._count_put(fact, at_us)
            return
        self.flush()
        for delivery in mail_of(fact):
            run, recipient, kind, item, sender, text, *holds = delivery
            self._execute("insert_mail", run, recipient, kind, item, sender, at_us, text, *map(" ".join, holds))
        if isinstance(fact, IdentityChange):
            self.state.identity += 1  # ends what `ReadCache` knows of runs, agents, tokens and policy
        match fact:
            case RunOpened():
                self.state.runs += 1
                self._execute("insert_run", self.state.runs, fact.run, fact.goal, at_us, fact.session)
            case RunClosed():
                self._execute("end_run", fact.run)
                self._execute("end_reservations_of_run", fact.run)
            case AgentAdded():
                self._add_agent(fact, at_us)
            case AgentDismissed():
                self._execute("remove_agent", fact.run, fact.name)
                self._execute("end_reservations_of", fact.run, fact.name)
            case TokenIssued():
                self._execute("drop_expired_tokens", fact.run, fact.agent, at_us)
                names = (fact.token_id, fact.run, fact.agent, fact.by)
                self._execute("insert_token", *names, fact.first_us, fact.expires_us)
            case TokenWithdrawn():
                self._withdraw(fact)
            case ClockCorrected():
                self._correct_times(at_us)
            case PolicyApplied():
                # canonical, so that a rebuild stores the same bytes
                self._execute("insert_policy", canonical(fact.policy).decode(), at_us, fact.by)
            case _ if isinstance(fact, EngramChange):
                self._change_engram(fact, at_us)
            case _ if isinstance(fact, GrantChange):
                self._change_grant(fact)
            case _ if isinstance(fact, ReservationChange):
                self._change_reservation(fact, at_us)
            case DerefProved():
                self._set_turn(fact.run, fact.agent, after_deref(self._turn(fact.run, fact.agent), fact, at_us))
                for span in spans_of(fact):
                    extent = (span.first, span.last, span.to_end, span.unit)
                    self._execute("record_read", span.of, fact.run, fact.agent, *extent)
            case ContentDrawn():
                self._set_turn(fact.run, fact.agent, after_draw(self._turn(fact.run, fact.agent), fact, at_us))
            case _ if isinstance(fact, CortexChange):
                apply_cortex(self.connection, self._sql, fact, at_us)
                if isinstance(fact, EpisodeKept):
                    self._post_memory(fact, at_us)
            case TurnCharged():
                self._set_turn(fact.run, fact.agent, after_charge(self._turn(fact.run, fact.agent), fact, at_us))
            case TurnClosed():
                self._set_turn(fact.run, fact.agent, after_close(self._turn(fact.run, fact.agent), fact, at_us))
            case MessageRejected():
                self._clear_rejection(fact, fact.kind)
                work = " ".join(fact.work)
                self._execute("record_rejection", fact.run, fact.agent, fact.kind, fact.rejection_id, work)
            case MessageAccepted():
                self._clear_rejection(fact, "child")
            case BroadcastSent():
                self._clear_rejection(fact, "parent")
                for child in fact.to if fact.budgets != ChildBudgets() else ():
                    self._execute("set_budgets", fact.run, child, _encode(fact.budgets))
                for pack in fact.packs:
                    self._execute("insert_pack", fact.run, fact.agent, at_us, _encode(pack))
            case MailHandedOver():
                inbox = inbox_of(fact.run, fact.agent)
                self._execute("hand_over_mail", inbox.run or "", inbox.agent, fact.position)
            case EngramsRecalled() | TaskRecalled() | RecallForgotten():
                self._recall(fact)
            case BriefMade():
                lines = "\n".join(fact.lines)
                self._execute("insert_brief", fact.run, fact.role, fact.version, fact.agent, at_us, lines)
            case GateOverridden():
                self._execute("insert_gate_override", fact.fingerprint, _encode(fact), at_us)
            case RequestAnswered():
                self._execute("record_answer", fact.caller, fact.key, at_us, fact.request, bytes(fact.answer))

    def _recall(self, fact: RecallChange) -> None:
        match fact:
            case EngramsRecalled():
                for engram_id in fact.engrams:
                    self._execute("insert_recalled", fact.run, fact.agent, engram_id, False)
                for engram_id in fact.stale:
                    self._execute("insert_recalled", fact.run, fact.agent, engram_id, True)
                if fact.task_of:
                    self._execute("delete_recalled_task", fact.run, fact.task_of, fact.task)
            case TaskRecalled():
                self._execute("insert_recalled_task", fact.run, fact.agent, fact.task, " ".join(fact.engrams))
            case RecallForgotten():
                self._execute("delete_recalled", fact.run, fact.agent)

    def _withdraw(self, fact: TokenWithdrawn) -> None:
        if fact.token_id is not None:
            self._execute("revoke_token", fact.token_id)
        elif fact.agent:
            self._execute("revoke_tokens_of", fact.run, fact.agent)
            self._execute("revoke_old_tokens_of", fact.run, fact.agent)
        else:
            self._execute("revoke_all_tokens")
            self._execute("revoke_all_old_tokens")

    def _correct_times(self, now_us: int) -> None:
        """Bring back what a wrong clock had ended, and shorten what it had made too long (decision 91)."""
        if not self.state.is_from_start:
            raise OtherFormat("expired engrams were swept out of it")  # it is rebuilt, and comes here again
        self.state.identity += 1
        for name in ("revoke_all_tokens", "revoke_all_old_tokens", "revoke_all_grants", "end_all_reservations"):
            self._execute(name)
        for name in ("drop_later_puts", "correct_turns", "correct_agents"):
            self._execute(name, now_us)
        rows: Any = self.connection.execute(self._sql["expiring_after"], (now_us,)).fetchall()
        for ordinal, expires_us, body in rows:
            latest_us = now_us + parse_duration(decode_engram(body).ttl)
            if expires_us > latest_us:
                self._execute("set_expiry", latest_us, ordinal)

    def _clear_rejection(self, fact: MessageRejected | MessageAccepted | BroadcastSent, kind: MessageKind) -> None:
        if fact.resends is not None:
            self._execute("clear_rejection", fact.run, fact.agent, kind, fact.resends)

    def _add_agent(self, fact: AgentAdded, at_us: int) -> None:
        root = fact.name
        if fact.parent is not None:
            row: Any = self.connection.execute(self._sql["agent_root"], (fact.run, fact.parent)).fetchone()
            root = row[0] if row is not None else fact.parent
        values = fact.run, fact.name, fact.role, fact.parent, fact.client_id, fact.session_turns, root, at_us
        self._execute("insert_agent", *values)

    def _change_engram(self, fact: EngramChange, at_us: int) -> None:
        match fact:
            case PromotionRequested():
                self._execute("insert_promotion", fact.request_id, fact.id, _encode(fact), at_us)
            case PromotionAnswered():
                self._execute("answer_promotion", _encode(fact), at_us, fact.request_id)
            case EngramPromoted():
                self._promote(fact)
            case EngramTrusted():
                self._trust(fact, at_us)
            case EngramForgotten():
                self._forget(fact)
            case EngramReplaced():
                ordinal = self._row_of(fact.space, fact.id)[0]
                self._execute("refuse_learned", ordinal)
                self._end(ordinal, at_us, fact.replaced_by)
            case EngramConfirmed():
                self._confirm(fact, at_us)
            case EngramPinned():
                self._execute("pin", self._row_of(fact.space, fact.id)[0])
            case EngramUnpinned():
                self._execute("unpin", self._row_of(fact.space, fact.id)[0])
            case EngramsUsed():
                for engram_id in fact.engrams:
                    self._execute("insert_use", engram_id, fact.kind, fact.item, fact.run, fact.agent, at_us)
            case EngramsListed():
                self._execute("set_listed", *engrams.listing_reader(fact.run, fact.agent), fact.position)
            case RepositoryLearned():
                self._execute("set_learned_commit", fact.commit)
                for engram_id in fact.renewed:
                    self._execute("renew_learned", fact.expires_at, engram_id)
            case EngramReceived():
                self._put(fact, PROJECT_SPACE)
            case EngramDelivered():
                self._drop(self._row_of(OUTBOX, fact.id)[0])

    def _change_reservation(self, fact: ReservationChange, at_us: int) -> None:
        match fact:
            case ReservationMade():
                self._execute("drop_expired_reservations", at_us)
                names = (fact.reservation_id, fact.run, fact.agent)
                self._execute("insert_reservation", *names, fact.expires_us, _encode(as_made(fact)))
            case ReservationChanged():
                row: Any = self.connection.execute(self._sql["reservation"], (fact.reservation_id,)).fetchone()
                changed = as_changed(decode_reservation(row[0]), fact)
                self._execute("change_reservation", fact.expires_us, _encode(changed), fact.reservation_id)
            case ReservationReleased():
                self._execute("release_reservation", fact.reservation_id)

    def _change_grant(self, fact: GrantChange) -> None:
        match fact:
            case DerefRequested():
                self._execute("insert_request", fact.request_id, fact.run, _encode(fact))
            case DerefAnswered():
                self._execute("answer_request", fact.grant_id, fact.request_id)
            case GrantIssued():
                names = (fact.grant_id, fact.run, fact.parent, fact.child, fact.block_id, fact.narrowed_from)
                self._execute("insert_grant", *names, fact.cap_tokens, fact.uses, fact.expires_us, _encode(fact))
            case BlockDebited():
                self._execute("spend_block", fact.block_id, fact.tokens)
            case BlockRevoked():
                self._execute("revoke_block", fact.block_id)

    def flush(self) -> None:
        """Write the engrams gathered so far."""
        if not self._engrams:
            return
        self.connection.executemany(self._sql["insert_engram"], self._engrams)
        self.connection.executemany(self._sql["use_id"], ((row[2],) for row in self._engrams))
        self.connection.executemany(self._sql["insert_adoption"], self._adoptions)
        self.connection.executemany(self._sql["insert_capture"], self._captures)
        self.connection.executemany(self._sql["insert_learned"], self._learned)
        self._postings.post(self._tokens)
        for (root, second, author), (count, last_us) in self._puts.items():
            self._execute("drop_old_puts", root, second - RATE_WINDOW_SECONDS)
            self._execute("count_puts", root, second, author, count, last_us)
        for (run, agent), turn in self._put_turns.items():
            self._set_turn(run, agent, turn)
        for (space, kind), count in self._live.items():
            self._execute("count_live", space, kind, count)
        self._engrams, self._tokens, self._adoptions, self._captures, self._learned = [], [], [], [], []
        self._puts, self._put_turns, self._live = {}, {}, {}

    def sweep(self, now_us: int) -> int:
        """Move some expired engrams to the past; return how many."""
        expired: list[tuple[Any, ...]] = self.connection.execute(self._sql["expired"], (now_us, SWEEP_BATCH)).fetchall()
        self._end_all([ordinal for (ordinal,) in expired])
        return len(expired)

    def finish(self) -> None:
        """Write everything gathered."""
        self.flush()
        self._postings.finish()
        self.connection.executemany(self._sql["use_path"], ((*key, at_us) for key, at_us in self._paths.items()))
        self._paths = {}
        self._tallies.write()

    def _put(self, fact: EngramPut | EngramReceived | EngramAdopted | EngramCaptured, space: str) -> None:
        engram = fact.engram
        more_keys = engrams.renew_keys(engram, fact.more_keys, fact.key_format)
        self.state.ordinal += 1
        ordinal = self.state.ordinal
        self._engrams.append(
            (
                ordinal,
                space,
                engram.id,
                fact.run,
                engram.kind,
                engram.scope,
                parse_time(engram.provenance.created_at),
                fact.expires_at,
                engram.confidence,
                engrams.pointer_names(engram),
                engrams.twin_key(engram),
                " ".join(more_keys),
                engrams.sequence_of(engram),
                _encode(engram),
            )
        )
        self._tokens.append((ordinal, tokens_of(space, engram, more_keys)))
        self._live[space, engram.kind] = self._live.get((space, engram.kind), 0) + 1

    def _post_memory(self, fact: EpisodeKept, at_us: int) -> None:
        """Make the last version of a memory found in place of the one before (decision 81)."""
        earlier = cortex.earlier_id(fact.episode)
        if earlier is not None:
            row: Any = self.connection.execute(self._sql["find_engram"], (MEMORY_SPACE, earlier, at_us)).fetchone()
            if row is not None:
                self._end(row[0], at_us, fact.episode.ref)
        self._put(cortex.memory_put(fact), MEMORY_SPACE)

    def _count_put(self, fact: EngramPut | EngramCaptured, at_us: int) -> None:
        """Gather a put for the author's rate and turn."""
        keys = rate_keys(fact)
        if keys is not None:
            root, author = keys
            key = (root, at_us // SECOND_US, author)
            self._puts[key] = (self._puts[key][0] + 1 if key in self._puts else 1, at_us)
        if fact.turn:
            agent = (fact.run, fact.engram.provenance.created_by.rpartition("/")[2])
            self._put_turns[agent] = after_put(self._turn(*agent), fact.turn, fact.put_tokens, at_us)

    def _confirm(self, fact: EngramConfirmed, at_us: int) -> None:
        if fact.captured_in:
            self._accept(fact, at_us)
        ordinal, more_keys, body = self._row_of(fact.space, fact.id)
        self._execute("set_expiry", fact.expires_at, ordinal)
        self._execute("insert_vote", ordinal, fact.root)
        if fact.confidence is None and not fact.tags and not fact.resolved and not fact.pointers:
            return
        earlier = decode_engram(body)
        engram = engrams.with_gain(earlier, fact)
        keys = engrams.keys_after(engram, more_keys.split(), fact)
        names, twin = engrams.pointer_names(engram), engrams.twin_key(engram)
        self._execute("enrich_engram", engram.confidence, names, twin, " ".join(keys), _encode(engram), ordinal)
        if keys != tuple(more_keys.split()):
            self._postings.unpost_all([(ordinal, tokens_of(fact.space, earlier, more_keys.split()))])
            self._postings.post_again(ordinal, tokens_of(fact.space, engram, keys))

    def _promote(self, fact: EngramPromoted) -> None:
        ordinal, more_keys, body = self._row_of(fact.space, fact.id)
        space = wider_space(fact.scope)
        earlier = decode_engram(body)
        engram = engrams.as_promoted(earlier, fact)
        self._vacate(space, fact.id)
        self._postings.unpost_all([(ordinal, tokens_of(fact.space, earlier, more_keys.split()))])
        self._execute("promote_engram", space, fact.scope, _encode(engram), ordinal)
        self._execute("count_live", fact.space, engram.kind, -1)
        self._execute("count_live", space, engram.kind, 1)
        self._postings.post_again(ordinal, tokens_of(space, engram, more_keys.split()))

    def _trust(self, fact: EngramTrusted, at_us: int) -> None:
        ordinal = self._move(fact.id, UNTRUSTED_SPACE, PROJECT_SPACE)
        row: Any = self.connection.execute(self._sql["adoption_row"], (ordinal,)).fetchone()
        adoption = decode_adoption(row[0]).confirm(fact.by, print_time(at_us))
        self._execute("set_adoption", _encode(adoption), ordinal)

    def _accept(self, fact: EngramConfirmed, at_us: int) -> None:
        ordinal = self._move(fact.id, fact.captured_in, fact.space)
        row: Any = self.connection.execute(self._sql["capture_row"], (ordinal,)).fetchone()
        capture = decode_capture(row[0]).confirm(fact.by, print_time(at_us))
        self._execute("set_capture", _encode(capture), ordinal)

    def _move(self, engram_id: str, space: str, to_space: str) -> int:
        """Move an engram that keeps its scope to another space; return its ordinal."""
        ordinal, more_keys, body = self._row_of(space, engram_id)
        self._vacate(to_space, engram_id)
        engram = decode_engram(body)
        self._postings.unpost_all([(ordinal, tokens_of(space, engram, more_keys.split()))])
        self._execute("promote_engram", to_space, engram.scope, body, ordinal)
        self._execute("count_live", space, engram.kind, -1)
        self._execute("count_live", to_space, engram.kind, 1)
        self._postings.post_again(ordinal, tokens_of(to_space, engram, more_keys.split()))
        return ordinal

    def _row_of(self, space: str, engram_id: str) -> tuple[int, str, bytes]:
        row: Any = self.connection.execute(self._sql["engram_row"], (space, engram_id)).fetchone()
        ordinal, more_keys, body = row
        return ordinal, more_keys, body

    def _vacate(self, space: str, engram_id: str) -> None:
        """Move an expired engram that still has this id to the past, so that the promoted one is the only one."""
        row: Any = self.connection.execute(self._sql["engram_row"], (space, engram_id)).fetchone()
        if row is not None:
            self._end(row[0])

    def _end(self, ordinal: int, replaced_us: int | None = None, replaced_by: str | None = None) -> None:
        self._end_all([ordinal], replaced_us, replaced_by)

    def _end_all(self, ordinals: Sequence[int], replaced_us: int | None = None, replaced_by: str | None = None) -> None:
        """Move engrams that were replaced or have expired to the past, where only questions about them read them."""
        live_tokens: list[tuple[int, str]] = []
        past_tokens: list[tuple[int, str]] = []
        for ordinal in ordinals:
            self._execute("keep_past", ordinal, replaced_us, replaced_by)
            self._execute("delete_votes", ordinal)
            self._execute("unpin", ordinal)
            deleted: list[Any] = self.connection.execute(self._sql["delete_engram"], (ordinal,)).fetchall()
            for space, kind, more_keys, body in deleted:
                self._execute("count_live", space, kind, -1)
                engram = decode_engram(body)
                live_tokens.append((ordinal, tokens_of(space, engram, more_keys.split())))
                past_tokens.append((ordinal, tokens_of(PAST + space, engram, more_keys.split())))
        # decision 77: posted under other tokens, so that they never weigh on a query about the present
        self._postings.unpost_all(live_tokens)
        for ordinal, tokens in past_tokens:
            self._postings.post_again(ordinal, tokens)

    def _forget(self, fact: EngramForgotten) -> None:
        row: Any = self.connection.execute(self._sql["engram_row"], (fact.space, fact.id)).fetchone()
        if row is not None:
            if not engrams.was_withdrawn(fact):
                self._execute("refuse_learned", row[0])
            self._drop(row[0])
            return
        past: list[Any] = self.connection.execute(self._sql["past_rows"], (fact.space, fact.id)).fetchall()
        for (ordinal,) in past:
            ended: Any = self.connection.execute(self._sql["past_body"], (ordinal,)).fetchone()
            space, more_keys, body = ended
            self._postings.unpost_all([(ordinal, tokens_of(PAST + space, decode_engram(body), more_keys.split()))])
            self._execute("delete_past", ordinal)
            self._execute("delete_adoption", ordinal)
            self._execute("delete_capture", ordinal)

    def _drop(self, ordinal: int) -> None:
        deleted: list[Any] = self.connection.execute(self._sql["delete_engram"], (ordinal,)).fetchall()
        for space, kind, more_keys, body in deleted:
            self._execute("count_live", space, kind, -1)
            self._postings.unpost_all([(ordinal, tokens_of(space, decode_engram(body), more_keys.split()))])
        self._execute("delete_votes", ordinal)
        self._execute("unpin", ordinal)
        self._execute("delete_adoption", ordinal)
        self._execute("delete_capture", ordinal)
        self._execute("delete_learned", ordinal)

    def _turn(self, run: str, agent: str) -> Turn | None:
        gathered = self._put_turns.get((run, agent))
        if gathered is not None:
            return gathered
        row: Any = self.connection.execute(self._sql["turn"], (run, agent)).fetchone()
        return turn_from_row(row) if row else None

    def _present_turn(self, run: str, agent: str, at_us: int) -> Turn:
        row: Any = self.connection.execute(self._sql["agent"], (run, agent)).fetchone()
        return present_turn(self._turn(run, agent), agent_from_row(row) if row else None, at_us)

    def _set_turn(self, run: str, agent: str, turn: Turn) -> None:
        self._execute("set_turn", run, agent, *msgspec.structs.astuple(turn))

    def _run_of(self, run_id: str) -> Run:
        run = self._runs.get(run_id)
        if run is None:
            row: Any = self.connection.execute(self._sql["run"], (run_id,)).fetchone()
            run = self._runs[run_id] = run_from_row(row)
        return run

    def _execute(self, name: str, *values: object) -> None:
        self.connection.execute(self._sql[name], values)


def run_from_row(row: tuple[str, str, int, int, int, str | None]) -> Run:
    """Return the run that a row of the query `run` holds."""
    run_id, goal, number, opened_us, ended, session = row
    return Run(run_id=run_id, goal=goal, number=number, opened_us=opened_us, ended=bool(ended), session=session)


def turn_from_row(row: Any) -> Turn:
    """Return the turn that a row of the query `turn` holds."""
    number, last_us, repo, artifact, sam, tokens, run_tokens, put_tokens, spoken_tokens = row
    return Turn(
        number=number,
        last_us=last_us,
        repo=repo,
        artifact=artifact,
        sam=sam,
        tokens=tokens,
        run_tokens=run_tokens,
        put_tokens=put_tokens,
        spoken_tokens=spoken_tokens,
    )


def agent_from_row(row: Any) -> Agent:
    """Return the agent that a row of the query `agent` holds."""
    run, name, role, parent, client_id, session_turns, removed, tokens_revoked = row
    return Agent(
        run=run,
        name=name,
        role=role,
        parent=parent,
        client_id=client_id,
        session_turns=session_turns,
        removed=bool(removed),
        tokens_revoked=bool(tokens_revoked),
    )
