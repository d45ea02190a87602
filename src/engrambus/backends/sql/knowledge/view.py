"""Reading the knowledge index as of one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import msgspec

from engrambus.backends.facts import IDEMPOTENCY_WINDOW_US
from engrambus.backends.sql.connection import SqlConnection
from engrambus.backends.sql.knowledge.cortex import SqlCortex
from engrambus.backends.sql.knowledge.postings import NO_LIMIT, PendingRows, PostingsReader, read_pending
from engrambus.backends.sql.knowledge.projection import (
    PAST,
    KnowledgeIndexState,
    agent_from_row,
    decode_adoption,
    decode_capture,
    decode_engram,
    decode_learned,
    decode_reservation,
    run_from_row,
    turn_from_row,
)
from engrambus.core import SECOND_US, ProjectTime, fixed_time
from engrambus.evidence.pointers import ReadSpan
from engrambus.gateway.ports import Counts, EarlierAnswer
from engrambus.gateway.tallies import FIELDS, GrantsLeft, Tally
from engrambus.knowledge.brief import Brief
from engrambus.knowledge.engrams import (
    EVERYTHING,
    HELD,
    MAX_VALUED_USES,
    Adoption,
    Capture,
    Engram,
    EngramReads,
    EngramUse,
    Learned,
    LearnedEngram,
    PastEngram,
    PostingChunk,
    PromotionAnswered,
    PromotionRequested,
    RecentPuts,
    StoredEngram,
    StoredPromotion,
    Traits,
    UserKind,
    ValuedUse,
    below,
    count_postings,
    held_key,
    kind_key,
    only,
    ordinals_of,
    value_in_space,
    without,
)
from engrambus.knowledge.gate import GateOverridden, GateOverride, shown_override
from engrambus.knowledge.messages import (
    ChildBudgets,
    Inbox,
    Mail,
    MessageKind,
    OpenRejection,
    PointerPack,
    SentPack,
    Unseen,
)
from engrambus.policy import (
    ADMIN,
    DEFAULT_POLICY,
    MEMORY_SPACE,
    Agent,
    AgentsBelow,
    AppliedPolicy,
    DerefRequested,
    Policy,
    RecordedRead,
    Run,
    TokenIssued,
    Turn,
    read_policy,
)
from engrambus.policy.grants import BlockSpending, GrantIssued, StoredRequest
from engrambus.policy.reservations import Reservation

_decode_pack = msgspec.json.Decoder(PointerPack).decode
_decode_grant = msgspec.json.Decoder(GrantIssued).decode
MANY_EXPIRED = 256
"""Expired engrams that a read may skip before it has them swept out."""
T = TypeVar("T")
MakeReader: TypeAlias = Callable[[SqlConnection, Mapping[str, str], PendingRows], PostingsReader]


class ReadCache:
    """Results of earlier reads of the same index file, each with the version for which it is valid."""

    def __init__(self) -> None:
        self.identity: tuple[int, dict[tuple[str, ...], Any]] = (-1, {})
        """Rows about runs, agents and policy, until a fact about one of these is applied."""
        self.pending: tuple[str, PendingRows] = ("", [])
        """Pending engrams, until anything is applied."""


class SqlView(SqlCortex):
    """The knowledge index through one connection, inside one transaction. `View` documents the methods."""

    def __init__(
        self,
        connection: SqlConnection,
        sql: Mapping[str, str],
        state: KnowledgeIndexState,
        time: ProjectTime,
        cache: ReadCache | None = None,
        make_reader: MakeReader = PostingsReader,
    ) -> None:
        self._connection = connection
        self._sql = sql
        self._make_reader = make_reader
        self._state = state
        self._now_us, self._expiry_us = time.now_us, time.expiry_us
        self._cache = cache
        self._expired: frozenset[int] | None = None
        self._empty_spaces: dict[str, bool] = {}
        self._reader: PostingsReader | None = None

    @property
    def as_of(self) -> int:
        return self._now_us

    @property
    def expiry_us(self) -> int:
        return self._expiry_us

    def first_us(self) -> int:
        row = self._row("first_run_at")
        return row[0] if row else 0

    def policy(self) -> Policy:
        policy: Policy = self._cached(("policy",), self._read_policy)
        return policy

    def applied_policies(self, *, limit: int) -> list[AppliedPolicy]:
        rows: Any = self._connection.execute(self._sql["applied_policies"], (limit,))
        return [
            AppliedPolicy(policy=read_policy(msgspec.json.decode(policy)), at_us=at_us, by=by)
            for policy, at_us, by in rows
        ]

    def run(self, run_id: str) -> Run | None:
        run: Run | None = self._cached(("run", run_id), lambda: _if_row(run_from_row, self._row("run", run_id)))
        return run

    def current_run(self) -> Run | None:
        run: Run | None = self._cached(("current_run",), lambda: _if_row(run_from_row, self._row("current_run")))
        return run

    def run_of_session(self, session: str) -> Run | None:
        run: Run | None = self._cached(
            ("session", session), lambda: _if_row(run_from_row, self._row("run_of_session", session))
        )
        return run

    def runs(self, *, limit: int, of_sessions: bool = False) -> list[Run]:
        query = self._sql["session_runs" if of_sessions else "runs"]
        return [run_from_row(row) for row in self._connection.execute(query, (limit,))]

    def agent(self, run_id: str, name: str) -> Agent | None:
        agent: Agent | None = self._cached(
            ("agent", run_id, name), lambda: _if_row(agent_from_row, self._row("agent", run_id, name))
        )
        return agent

    def agents(self, run_id: str) -> list[Agent]:
        return self._agents("agents", run_id)

    def agents_named(self, name: str) -> list[Agent]:
        return self._agents("agents_named", name)

    def agents_below(self, run_id: str, root: str, since_us: int) -> AgentsBelow:
        rows: Any = self._connection.execute(self._sql["agents_added_since"], (run_id, root, since_us))
        total: Any = self._row("agents_below", run_id, root)
        return AgentsBelow(total[0], tuple(at_us for (at_us,) in rows))

    def newest_agents(self, *, limit: int) -> list[Agent]:
        return self._agents("newest_agents", limit)

    def agent_of_client(self, run_id: str, client_id: str) -> Agent | None:
        return _if_row(agent_from_row, self._row("agent_of_client", run_id, client_id))

    def is_token_revoked(self, token_id: str) -> bool:
        revoked: bool = self._cached(("revoked", token_id), lambda: self._row("is_token_revoked", token_id) is not None)
        return revoked

    def token(self, token_id: str) -> TokenIssued | None:
        return _if_row(_token_from_row, self._row("token", token_id, self._expiry_us))

    def tokens(self, run_id: str | None, *, before: str | None, limit: int) -> list[TokenIssued]:
        rows: Any = self._connection.execute(self._sql["tokens"], (run_id, before, self._expiry_us, limit))
        return [_token_from_row(row) for row in rows]

    def tokens_of(self, run_id: str, agent: str) -> list[TokenIssued]:
        rows: Any = self._connection.execute(self._sql["tokens_of"], (run_id, agent, self._expiry_us))
        return [_token_from_row(row) for row in rows]

    def _agents(self, query: str, *values: str | int) -> list[Agent]:
        return [agent_from_row(row) for row in self._connection.execute(self._sql[query], values)]

    def turn(self, run_id: str, agent: str) -> Turn | None:
        return _if_row(turn_from_row, self._row("turn", run_id, agent))

    def team_tokens(self, run_id: str) -> int:
        row = self._row("team_tokens", run_id, ADMIN)
        return row[0] if row else 0

    def was_read(self, run_id: str, digest: str) -> bool:
        return self._row("was_read", digest, run_id) is not None

    def reads_of(self, contents: Sequence[str], runs: Sequence[str]) -> list[RecordedRead]:
        pairs = ((content, run) for content in contents for run in runs)
        rows = self._connection.executemany(self._sql["reads_of"], pairs).fetchall()
        by_admin = self._connection.executemany(self._sql["reads_of_admin"], ((content,) for content in contents))
        known = set(runs)
        return [_read_from_row(row) for row in (*rows, *(row for row in by_admin if row[0] not in known))]

    def postings(self, spaces: Sequence[str], key: str, *, kind: str | None, limit: int) -> Sequence[int]:
        if kind == HELD:
            return self._posted(spaces, (held_key(key),), limit, NO_LIMIT)
        return self._posted(spaces, (key,) if kind is None else (key, kind_key(kind)), limit, NO_LIMIT)

    def chunks(self, space: str, key: str) -> list[PostingChunk]:
        if self._is_empty(space):
            return []
        chunks = self._postings().chunks(f"{space}:{key}")
        # decision 2: expired engrams are skipped here, so that the progress of the sweep never changes an answer
        return without(chunks, self.expired()) if chunks and self.expired() else chunks

    def expect_chunks(self, spaces: Sequence[str], keys: Sequence[str]) -> None:
        self._postings().expect([f"{space}:{key}" for space in spaces for key in keys])

    def count(self, space: str) -> int:
        return sum(self._live_by_kind((space,)).values())

    def visible(self, ordinals: Sequence[int]) -> list[int]:
        return list(ordinals)

    def sequence_rows(self, space: str, ordinals: Sequence[int], reach: int) -> dict[int, int]:
        ranges = ((ordinal - reach, ordinal + reach, space, self._expiry_us) for ordinal in ordinals)
        rows: Any = self._connection.executemany(self._sql["sequence_rows"], ranges)
        return dict(rows)

    def newest(self, spaces: Sequence[str], *, kind: str | None, limit: int, older_than: int | None) -> Sequence[int]:
        key = EVERYTHING if kind is None else kind_key(kind)
        return self._posted(spaces, (key,), limit, NO_LIMIT if older_than is None else older_than)

    def traits(self, ordinals: Sequence[int]) -> list[Traits]:
        rows = self._connection.executemany(self._sql["traits"], ((ordinal,) for ordinal in ordinals))
        return [Traits(*row) for row in rows]

    def engrams(self, ordinals: Sequence[int]) -> list[Engram]:
        rows = self._connection.executemany(self._sql["body"], ((ordinal,) for ordinal in ordinals))
        return [decode_engram(body) for (body,) in rows]

    def find(self, spaces: Sequence[str], engram_id: str) -> StoredEngram | None:
        for space in spaces:
            row = self._row("find_engram", space, engram_id, self._expiry_us)
            if row:
                return _stored_from_row(row)
        return None

    def ids_starting(self, spaces: Sequence[str], beginning: str, *, limit: int) -> Sequence[str]:
        last = beginning + "~"  # later than every character of an id
        found = {
            engram_id
            for space in spaces
            for (engram_id,) in self._connection.execute(
                self._sql["ids_starting"], (space, beginning, last, self._expiry_us, limit)
            )
        }
        return sorted(found)[:limit]

    def find_past(self, spaces: Sequence[str], engram_id: str) -> PastEngram | None:
        for space in spaces:
            row = self._row("find_expired", space, engram_id, self._expiry_us)
            if row:  # not swept yet
                return PastEngram(_stored_from_row(row))
            row = self._row("find_past", space, engram_id)
            if row:
                *stored, replaced_us, replaced_by = row
                return PastEngram(_stored_from_row(stored), replaced_us, replaced_by)
        return None

    def replaced_ids_starting(self, spaces: Sequence[str], beginning: str, *, limit: int) -> Sequence[str]:
        last = beginning + "~"
        query = self._sql["replaced_ids_starting"]
        found: set[Any] = set()
        for space in spaces:
            found |= {row[0] for row in self._connection.execute(query, (space, beginning, last, limit))}
        return sorted(found)[:limit]

    def replaced_with(self, newer_ids: Sequence[str]) -> dict[str, list[str]]:
        replaced: dict[str, list[str]] = {}
        pairs = ((newer_id,) for newer_id in newer_ids)
        for newer_id, older_id in self._connection.executemany(self._sql["replaced_with"], pairs):
            replaced.setdefault(newer_id, []).append(older_id)
        return replaced

    def at(self, time_us: int) -> EngramReads:
        return SqlPastView(
            self._connection, self._sql, self._state, fixed_time(time_us), self._cache, self._make_reader
        )

    def is_id_taken(self, space: str, engram_id: str) -> bool:
        return self.find((space,), engram_id) is not None

    def is_id_used(self, engram_id: str) -> bool:
        return self._row("is_id_used", engram_id) is not None

    def twins(self, space: str, twin: str, *, limit: int) -> Sequence[int]:
        rows: Any = self._connection.execute(self._sql["twins"], (space, twin, self._expiry_us, limit))
        return [row[0] for row in rows]

    def pinned(self, spaces: Sequence[str]) -> Sequence[int]:
        rows: Any = self._connection.execute(self._sql["pinned_engrams"], (self._expiry_us,))
        return [ordinal for ordinal, space in rows if space in spaces]

    def votes(self, ordinal: int, *, except_root: str) -> int:
        row = self._row("count_votes", ordinal, except_root)
        return row[0] if row else 0

    def values(self, ordinals: Sequence[int]) -> dict[int, int]:
        pairs = [(ordinal, self._expiry_us) for ordinal in ordinals]
        voters: dict[int, list[str]] = {}
        uses: dict[int, list[ValuedUse]] = {}
        for ordinal, root in self._connection.executemany(self._sql["voters"], pairs):
            voters.setdefault(ordinal, []).append(root)
        for ordinal, *use in self._connection.executemany(
            self._sql["valued_uses"], ((self._expiry_us, *pair, MAX_VALUED_USES) for pair in pairs)
        ):
            uses.setdefault(ordinal, []).append(ValuedUse(*use))
        values = dict.fromkeys(ordinals, 0)
        for ordinal in voters.keys() | uses.keys():  # few engrams have either
            space, body = self._connection.execute(self._sql["valued_engram"], (ordinal,)).fetchone()
            run, _, author = decode_engram(body).provenance.created_by.rpartition("/")
            row = self._row("agent_root", run, author)
            author_root = f"{run}/{row[0] if row else author}"
            values[ordinal] = value_in_space(space, author_root, uses.get(ordinal, ()), voters.get(ordinal, ()))
        return values

    def uses(self, engram_id: str, *, limit: int) -> list[EngramUse]:
        rows: Any = self._connection.execute(self._sql["uses"], (engram_id, limit))
        return [EngramUse(*row) for row in rows]

    def used_in(self, kind: UserKind, item: str) -> tuple[str, ...]:
        rows: Any = self._connection.execute(self._sql["used_in"], (kind, item))
        return tuple(engram_id for (engram_id,) in rows)

    def listed_position(self, run_id: str, agent: str) -> int:
        row = self._row("listed_position", run_id, agent)
        return row[0] if row else 0

    def recalled(self, run_id: str, agent: str) -> dict[str, bool]:
        rows: Any = self._connection.execute(self._sql["recalled"], (run_id, agent))
        return {engram_id: bool(stale) for engram_id, stale in rows}

    def task_recalled(self, run_id: str, agent: str, task: str) -> tuple[str, ...] | None:
        row = self._row("recalled_task", run_id, agent, task)
        return None if row is None else tuple(row[0].split())

    def recent_puts(self, root: str, since_us: int) -> Sequence[RecentPuts]:
        rows: Any = self._connection.execute(self._sql["recent_puts"], (root, since_us // SECOND_US, since_us))
        return [RecentPuts(*row) for row in rows]

    def promotion(self, request_id: str) -> StoredPromotion | None:
        return _if_row(_promotion_from_row, self._row("promotion", request_id))

    def waiting_promotion(self, engram_id: str) -> StoredPromotion | None:
        return _if_row(_promotion_from_row, self._row("waiting_promotion", engram_id))

    def promotions(self, *, waiting: bool, limit: int) -> list[StoredPromotion]:
        rows = self._connection.execute(self._sql["promotions"], (waiting, limit))
        return [_promotion_from_row(row) for row in rows]

    def gate_overrides(self, fingerprints: Sequence[str]) -> dict[str, GateOverride]:
        found = (self._row("gate_override", fingerprint) for fingerprint in fingerprints)
        made = [_gate_override_from_row(row) for row in found if row is not None]
        return {override.fingerprint: override for override in made}

    def newest_gate_overrides(self, *, limit: int) -> list[GateOverride]:
        rows = self._connection.execute(self._sql["newest_gate_overrides"], (limit,))
        return [_gate_override_from_row(row) for row in rows]

    def adoptions(self, engram_ids: Sequence[str]) -> dict[str, Adoption]:
        pairs = ((engram_id, self._expiry_us) for engram_id in engram_ids)
        rows: Any = self._connection.executemany(self._sql["adoptions"], pairs)
        return {engram_id: decode_adoption(body) for engram_id, body in rows}

    def captures(self, engram_ids: Sequence[str]) -> dict[str, Capture]:
        pairs = ((engram_id, self._expiry_us) for engram_id in engram_ids)
        rows: Any = self._connection.executemany(self._sql["captures"], pairs)
        return {engram_id: decode_capture(body) for engram_id, body in rows}

    def learned(self, engram_ids: Sequence[str]) -> dict[str, Learned]:
        pairs = ((engram_id, self._expiry_us) for engram_id in engram_ids)
        rows: Any = self._connection.executemany(self._sql["learned"], pairs)
        return {engram_id: decode_learned(body) for engram_id, body in rows}

    def learned_ordinals(self, spaces: Sequence[str]) -> frozenset[int]:
        pairs = ((space, self._expiry_us) for space in spaces)
        rows: Any = self._connection.executemany(self._sql["learned_ordinals"], pairs)
        return frozenset(ordinal for (ordinal,) in rows)

    def learned_engrams(self) -> list[LearnedEngram]:
        rows: Any = self._connection.execute(self._sql["learned_engrams"], (self._expiry_us,))
        return [
            LearnedEngram(ordinal, engram_id, space, expires_at, decode_learned(body))
            for ordinal, engram_id, space, expires_at, body in rows
        ]

    def unwanted_keys(self) -> frozenset[str]:
        return frozenset(key for (key,) in self._connection.execute(self._sql["unwanted_keys"]))

    def learned_commit(self) -> str | None:
        row = self._row("learned_commit")
        return row[0] if row else None

    def outbox(self) -> list[StoredEngram]:
        return [_stored_from_row(row) for row in self._connection.execute(self._sql["outbox"])]

    def earlier_answer(self, caller: str, key: str) -> EarlierAnswer | None:
        row = self._row("recorded_answer", caller, key, self._expiry_us - IDEMPOTENCY_WINDOW_US)
        return EarlierAnswer(request=row[0], answer=row[1]) if row else None

    def grant(self, run_id: str, grant_id: str) -> GrantIssued | None:
        row = self._row("grant", run_id, grant_id)
        return _decode_grant(row[0]) if row else None

    def grants_for(self, run_id: str, child: str) -> list[GrantIssued]:
        rows: Any = self._connection.execute(self._sql["grants_for"], (run_id, child))
        return [_decode_grant(issued) for (issued,) in rows]

    def grants_of(self, run_id: str, agent: str | None, *, before: str | None, limit: int) -> list[GrantIssued]:
        rows: Any = self._connection.execute(self._sql["grants_of"], (run_id, agent, before, limit))
        return [_decode_grant(issued) for (issued,) in rows]

    def spent(self, block_ids: Sequence[str]) -> dict[str, BlockSpending]:
        return {block: BlockSpending(tokens=row[0], uses=row[1]) for block, row in self._blocks(block_ids) if row[1]}

    def revoked(self, block_ids: Sequence[str]) -> set[str]:
        return {block for block, row in self._blocks(block_ids) if row[2]}

    def _blocks(self, block_ids: Sequence[str]) -> list[tuple[str, Any]]:
        rows = ((block_id, self._row("block", block_id)) for block_id in block_ids)
        return [(block_id, row) for block_id, row in rows if row]

    def reservations(self) -> list[Reservation]:
        rows: Any = self._connection.execute(self._sql["reservations"], (self._expiry_us,))
        return [decode_reservation(lease) for (lease,) in rows]

    def request(self, run_id: str | None, request_id: str) -> StoredRequest | None:
        return _if_row(_request_from_row, self._row("request", request_id, run_id, run_id))

    def open_requests(self, run_id: str | None) -> list[StoredRequest]:
        rows = self._connection.execute(self._sql["open_requests"], (run_id, run_id))
        return [_request_from_row(row) for row in rows]

    def mail(self, inbox: Inbox, *, after: int, limit: int, with_answers: bool = True) -> list[Mail]:
        return [_mail_from_row(row) for row in self._of_inbox("mail", inbox, after, with_answers, limit)]

    def mail_before(self, inbox: Inbox, *, position: int, limit: int) -> list[Mail]:
        return [_mail_from_row(row) for row in self._of_inbox("mail_before", inbox, position, limit)]

    def mail_items(self, inbox: Inbox, beginning: str, *, limit: int) -> list[Mail]:
        return [_mail_from_row(row) for row in self._of_inbox("mail_items", inbox, beginning, beginning, limit)]

    def unseen(self, inbox: Inbox) -> Unseen:
        row = self._row("handed_over", inbox.run or "", inbox.agent)
        position = row[0] if row else 0
        ((count, newest),) = self._of_inbox("count_mail", inbox, position)
        return Unseen(position=position, count=count, newest=newest or position)

    def _of_inbox(self, query: str, inbox: Inbox, *values: object) -> Any:
        if inbox.run is None:
            return self._connection.execute(self._sql[f"{query}_of_people"], values)
        return self._connection.execute(self._sql[query], (inbox.run, inbox.agent, *values))

    def pointer_packs(self, run_id: str, *, limit: int) -> list[SentPack]:
        rows: Any = self._connection.execute(self._sql["packs"], (run_id, limit))
        return [SentPack(sender=sender, sent_us=at, pack=_decode_pack(pack)) for sender, at, pack in rows]

    def budgets(self, run_id: str, agent: str) -> ChildBudgets | None:
        row = self._row("budgets", run_id, agent)
        return msgspec.json.decode(row[0], type=ChildBudgets) if row else None

    def open_rejections(self, run_id: str, agent: str, kind: MessageKind, *, limit: int) -> list[OpenRejection]:
        rows = self._connection.execute(self._sql["open_rejections"], (run_id, agent, kind, limit))
        return [OpenRejection(rejection_id=rejection, work=tuple(work.split())) for rejection, work in rows]

    def brief(self, run_id: str, role: str, version: int | None) -> Brief | None:
        row = self._row("last_brief", run_id, role) if version is None else self._row("brief", run_id, role, version)
        return _brief_from_row(row) if row else None

    def brief_versions(self, run_id: str, role: str, agent: str, *, limit: int) -> list[Brief]:
        rows = self._connection.execute(self._sql["briefs"], (run_id, role, agent, limit))
        return [_brief_from_row(row) for row in rows]

    def agent_paths(self, run_id: str, agent: str, *, limit: int) -> list[str]:
        rows: Any = self._connection.execute(self._sql["agent_paths"], (run_id, agent, limit))
        return [path for (path,) in rows]

    def counts(self) -> Counts:
        kinds = self._live_by_kind(None)
        agents = self._row("count_agents")
        return Counts(
            commits=self._state.position.seq,
            journal_bytes=self._state.position.offset,
            runs=self._state.runs,
            agents=agents[0] if agents else 0,
            engrams=sum(kinds.values()),
            kinds=dict(sorted(kinds.items())),
        )

    def tallies(self, run_id: str | None) -> dict[str, Tally]:
        rows = self._of_run_or_project("tallies", run_id)
        return {name: _tally(counts) for name, *counts in rows}

    def kinds_put(self, run_id: str | None) -> dict[str, dict[str, int]]:
        return self._counts_by_name("kind_counts", run_id)

    def denials_by_code(self, run_id: str | None) -> dict[str, dict[str, int]]:
        return self._counts_by_name("denial_counts", run_id)

    def _counts_by_name(self, query: str, run_id: str | None) -> dict[str, dict[str, int]]:
        counts: dict[str, dict[str, int]] = {}
        for agent_or_role, name, count in self._of_run_or_project(query, run_id):
            counts.setdefault(agent_or_role, {})[name] = count
        return counts

    def outcomes(self, run_id: str) -> dict[str, str]:
        rows: Any = self._connection.execute(self._sql["outcomes"], (run_id,))
        return dict(rows)

    def history(self, run_id: str | None, bucket: str, since: int) -> list[tuple[int, str, Tally]]:
        rows = self._of_run_or_project("history", run_id, bucket, since)
        return [(start, role, _tally(counts)) for start, role, *counts in rows]

    def _of_run_or_project(self, query: str, run_id: str | None, *values: object) -> Any:
        if run_id is None:
            return self._connection.execute(self._sql[f"{query}_of_project"], values)
        return self._connection.execute(self._sql[query], (run_id, *values))

    def grants_left(self, run_id: str) -> dict[str, GrantsLeft]:
        rows: Any = self._connection.execute(self._sql["grants_left"], (run_id, self._expiry_us))
        return {child: GrantsLeft(grants=grants, tokens=tokens) for child, grants, tokens in rows}

    def live_kinds(self, spaces: Sequence[str]) -> dict[str, int]:
        return self._live_by_kind(spaces)

    def _live_by_kind(self, spaces: Sequence[str] | None) -> dict[str, int]:
        """Return the counts in `live`, less the expired engrams that are not swept out yet; None: all but memories."""
        kinds: dict[str, int] = {}
        expired: list[Any] = []
        if spaces is None:
            rows: list[Any] = self._connection.execute(self._sql["live_counts"]).fetchall()
        else:
            values = ((space,) for space in spaces)
            rows = self._connection.executemany(self._sql["live_counts_in"], values).fetchall()
        if self.expired():
            expired = self._connection.execute(self._sql["expired_counts"], (self._expiry_us,)).fetchall()
        for sign, counts in ((1, rows), (-1, expired)):
            for space, kind, count in counts:
                if space in spaces if spaces is not None else space != MEMORY_SPACE:
                    kinds[kind] = kinds.get(kind, 0) + sign * count
        return {kind: count for kind, count in kinds.items() if count}

    def _posted(self, spaces: Sequence[str], keys: tuple[str, ...], limit: int, before: int) -> Sequence[int]:
        """Return the newest live ordinals in these spaces that are posted under all keys and less than `before`."""
        expired = self.expired()
        # decision 2: expired engrams are skipped here, so that the progress of the sweep never changes an answer
        enough = limit + len(expired)
        per_space: list[list[int]] = []
        for space in spaces:
            if not self._is_empty(space):
                ordinals = self._posted_in(space, keys, enough, before)
                if ordinals:
                    per_space.append(ordinals)
        if not expired and len(per_space) <= 1:
            return per_space[0][:limit] if per_space else ()
        return list(islice((ordinal for ordinal in merge(*per_space, reverse=True) if ordinal not in expired), limit))

    def _is_empty(self, space: str) -> bool:
        """True if a space has no engrams. Most runs' have none: one query here saves one for every key."""
        empty = self._empty_spaces.get(space)
        if empty is None:
            empty = self._empty_spaces[space] = not self._posted_in(space, (EVERYTHING,), 1, NO_LIMIT)
        return empty

    def _posted_in(self, space: str, keys: tuple[str, ...], limit: int, before: int) -> list[int]:
        # decision 2: the space is part of the token, so that visibility is decided by which list is read
        return self._postings().newest([f"{space}:{key}" for key in keys], below=before, limit=limit)

    def _postings(self) -> PostingsReader:
        if self._reader is None:
            self._reader = self._make_reader(
                self._connection, self._sql, self._read_pending() if self._state.pending else []
            )
        return self._reader

    def _read_pending(self) -> PendingRows:
        version = self._state.position.checksum
        if self._cache is not None and self._cache.pending[0] == version:
            return self._cache.pending[1]
        pending = read_pending(self._connection, self._sql)
        if self._cache is not None:
            self._cache.pending = (version, pending)
        return pending

    def expired(self) -> frozenset[int]:
        """Return the ordinals of engrams that have expired and are not swept out yet; mostly none."""
        if self._expired is None:
            rows: Any = self._connection.execute(self._sql["expired"], (self._expiry_us, -1))
            self._expired = frozenset(row[0] for row in rows)
        return self._expired

    @property
    def saw_many_expired(self) -> bool:
        """True if this view had to skip so many expired engrams that they should be swept out now."""
        return self._expired is not None and len(self._expired) > MANY_EXPIRED

    def _read_policy(self) -> Policy:
        row = self._row("policy")
        return read_policy(msgspec.json.decode(row[0])) if row else DEFAULT_POLICY

    def _cached(self, key: tuple[str, ...], read: Callable[[], Any]) -> Any:
        """Return a row about runs, agents or policy; from the cache if no fact about these was applied since."""
        if self._cache is None:
            return read()
        version, values = self._cache.identity
        if version != self._state.identity:
            values = {}
            self._cache.identity = (self._state.identity, values)
        if key in values:
            return values[key]
        value = read()
        if value is not None:  # callers could fill the cache with names that do not exist
            values[key] = value
        return value

    def _row(self, name: str, *values: object) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(self._sql[name], values).fetchone()
        return row


class SqlPastView(SqlView):
    """The engrams that were live at an earlier time, as they are now."""

    _ended: frozenset[int] | None = None

    def traits(self, ordinals: Sequence[int]) -> list[Traits]:
        rows = self._connection.executemany(self._sql["traits_ever"], ((ordinal,) for ordinal in ordinals))
        return [Traits(*row) for row in rows]

    def engrams(self, ordinals: Sequence[int]) -> list[Engram]:
        rows = self._connection.executemany(self._sql["body_ever"], ((ordinal,) for ordinal in ordinals))
        return [decode_engram(body) for (body,) in rows]

    def chunks(self, space: str, key: str) -> list[PostingChunk]:
        live = below(self._postings().chunks(f"{space}:{key}"), self._end_of_time())
        ended = only(self._postings().chunks(f"{PAST}{space}:{key}"), self._ended_since())
        return [*without(live, self.expired()), *ended]

    def count(self, space: str) -> int:
        return count_postings(self.chunks(space, EVERYTHING))

    def sequence_rows(self, space: str, ordinals: Sequence[int], reach: int) -> dict[int, int]:
        rows = super().sequence_rows(space, ordinals, reach)
        ranges = ((ordinal - reach, ordinal + reach, space) for ordinal in ordinals)
        past: Any = self._connection.executemany(self._sql["past_sequence_rows"], ranges)
        ended = {ordinal: sequence for ordinal, sequence in past if ordinal in self._ended_since()}
        return {ordinal: sequence for ordinal, sequence in rows.items() if ordinal < self._end_of_time()} | ended

    def _posted(self, spaces: Sequence[str], keys: tuple[str, ...], limit: int, before: int) -> Sequence[int]:
        """Return the newest ordinals in these spaces that were live then and are posted under all keys."""
        per_key = [
            {ordinal for space in spaces for chunk in self.chunks(space, key) for ordinal in ordinals_of(chunk)}
            for key in keys
        ]
        shared = set.intersection(*per_key)
        return sorted((ordinal for ordinal in shared if ordinal < before), reverse=True)[:limit]

    def _ended_since(self) -> frozenset[int]:
        """Return the ordinals of engrams that were live then and were replaced or have expired since."""
        if self._ended is None:
            rows: Any = self._connection.execute(self._sql["ended_since"], (self._expiry_us,))
            self._ended = frozenset(row[0] for row in rows)
        return self._ended

    def _end_of_time(self) -> int:
        """Return the ordinal after the last engram that was put by then."""
        last = [self._row(name, self._expiry_us) for name in ("last_ordinal_at", "last_past_ordinal_at")]
        return max((row[0] for row in last if row is not None), default=0) + 1


def _read_from_row(row: Any) -> RecordedRead:
    run, agent, content, first, last, to_end, unit = row
    return RecordedRead(run, agent, ReadSpan(of=content, first=first, last=last, to_end=bool(to_end), unit=unit))


def _token_from_row(row: Any) -> TokenIssued:
    token_id, run, agent, by, first_us, expires_us = row
    return TokenIssued(token_id=token_id, run=run, agent=agent, by=by, first_us=first_us, expires_us=expires_us)


def _request_from_row(row: Any) -> StoredRequest:
    request, answered, grant_id = row
    return StoredRequest(
        request=msgspec.json.decode(request, type=DerefRequested), answered=bool(answered), grant_id=grant_id
    )


def _stored_from_row(row: Any) -> StoredEngram:
    ordinal, body, space, run, expires_at, more_keys = row
    return StoredEngram(
        ordinal=ordinal,
        engram=decode_engram(body),
        space=space,
        run=run,
        expires_at=expires_at,
        more_keys=tuple(more_keys.split()),
    )


def _gate_override_from_row(row: Any) -> GateOverride:
    body, made_us = row
    return shown_override(msgspec.json.decode(body, type=GateOverridden), made_us)


def _promotion_from_row(row: Any) -> StoredPromotion:
    asked, asked_us, answered, answered_us = row
    return StoredPromotion(
        request=msgspec.json.decode(asked, type=PromotionRequested),
        asked_us=asked_us,
        answer=msgspec.json.decode(answered, type=PromotionAnswered) if answered is not None else None,
        answered_us=answered_us,
    )


def _mail_from_row(row: Any) -> Mail:
    position, run, kind, item, sender, sent_us, text, engrams, requests, grants = row
    return Mail(
        position=position,
        run=run,
        kind=kind,
        item=item,
        sender=sender,
        sent_us=sent_us,
        text=text,
        engrams=tuple(engrams.split()),
        requests=tuple(requests.split()),
        grants=tuple(grants.split()),
    )


def _brief_from_row(row: Any) -> Brief:
    version, made_us, lines, agent = row
    return Brief(version=version, made_us=made_us, lines=tuple(lines.split("\n")), agent=agent)


def _tally(counts: Sequence[int]) -> Tally:
    return Tally(**dict(zip(FIELDS, counts, strict=True)))


def _if_row(make: Callable[[Any], T], row: Any) -> T | None:
    return None if row is None else make(row)
