"""Reading the index as of one moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

import apsw
import msgspec

from engrambus.backends.facts import REMEMBERED_FOR
from engrambus.backends.sqlite.cortex import SqliteCortex
from engrambus.backends.sqlite.projection import (
    NEWEST_FIRST,
    KnowledgeIndexState,
    decode_engram,
    run_from_row,
    turn_from_row,
)
from engrambus.backends.sqlite.queries import queries
from engrambus.gateway.ports import Counts, Remembered
from engrambus.gateway.tallies import FIELDS, GrantsLeft, Tally
from engrambus.knowledge.brief import Brief
from engrambus.knowledge.engrams import EVERYTHING, Engram, StoredEngram, Traits, kind_key
from engrambus.knowledge.messages import Budgets, Mail, MessageKind
from engrambus.policy import DEFAULT_POLICY, Agent, DerefRequested, Policy, Run, Turn, read_policy
from engrambus.policy.grants import GrantIssued, KeptRequest, Spent

_NEVER = 1 << 62
_decode_grant = msgspec.json.Decoder(GrantIssued).decode
MANY_OVERDUE = 256
T = TypeVar("T")


class ReadCache:
    """What earlier reads of the same index found and later ones need not look up again.

    `identity` holds rows about runs, agents and policy, good until a fact about one of those is applied; `waiting`
    the pending rows turned inside out, good until anything is applied.
    """

    def __init__(self) -> None:
        self.identity: tuple[int, dict[tuple[str, ...], Any]] = (-1, {})
        self.waiting: tuple[str, dict[str, list[int]]] = ("", {})


class SqliteView(SqliteCortex):
    """The index through one connection, inside one transaction."""

    def __init__(
        self, connection: apsw.Connection, state: KnowledgeIndexState, as_of: int, kept: ReadCache | None = None
    ) -> None:
        self._connection = connection
        self._sql = queries()
        self._state = state
        self._as_of = as_of
        self._kept = kept
        self._overdue: frozenset[int] | None = None
        self._empty_spaces: dict[str, bool] = {}
        self._waiting: dict[str, list[int]] | None = None

    @property
    def as_of(self) -> int:
        """The moment."""
        return self._as_of

    def policy(self) -> Policy:
        """The policy in force."""
        policy: Policy = self._once(("policy",), self._read_policy)
        return policy

    def run(self, run_id: str) -> Run | None:
        """The run of that id."""
        run: Run | None = self._once(("run", run_id), lambda: _maybe(run_from_row, self._one("run", run_id)))
        return run

    def current_run(self) -> Run | None:
        """The run opened last that goes on, or else the last."""
        run: Run | None = self._once(("current_run",), lambda: _maybe(run_from_row, self._one("current_run")))
        return run

    def run_of_session(self, session: str) -> Run | None:
        """The last run opened for a client's session."""
        run: Run | None = self._once(
            ("session", session), lambda: _maybe(run_from_row, self._one("run_of_session", session))
        )
        return run

    def runs(self, *, limit: int) -> list[Run]:
        """The runs opened last."""
        return [run_from_row(row) for row in self._connection.execute(self._sql["runs"], (limit,))]

    def agent(self, run_id: str, name: str) -> Agent | None:
        """The agent of that name in that run."""
        agent: Agent | None = self._once(
            ("agent", run_id, name), lambda: _maybe(_agent_from_row, self._one("agent", run_id, name))
        )
        return agent

    def agents(self, run_id: str) -> list[Agent]:
        """Every agent of a run, in the order they came."""
        return [_agent_from_row(row) for row in self._connection.execute(self._sql["agents"], (run_id,))]

    def turn(self, run_id: str, agent: str) -> Turn | None:
        """The last turn an agent did anything in."""
        return _maybe(turn_from_row, self._one("turn", run_id, agent))

    def was_read(self, run_id: str, digest: str) -> bool:
        """Whether a dereference in this run gave this digest."""
        return self._one("was_read", run_id, digest) is not None

    def postings(self, spaces: Sequence[str], key: str, *, kind: str | None, limit: int) -> Sequence[int]:
        """The newest live engrams posted under a key."""
        return self._posted(spaces, (key,) if kind is None else (key, kind_key(kind)), limit, _NEVER)

    def newest(self, spaces: Sequence[str], *, kind: str | None, limit: int, before: int | None) -> Sequence[int]:
        """The newest live engrams."""
        key = EVERYTHING if kind is None else kind_key(kind)
        return self._posted(spaces, (key,), limit, _NEVER if before is None else before)

    def traits(self, ordinals: Sequence[int]) -> list[Traits]:
        """What decides between these."""
        rows = self._connection.executemany(self._sql["traits"], ((ordinal,) for ordinal in ordinals))
        return [Traits(*row) for row in rows]

    def engrams(self, ordinals: Sequence[int]) -> list[Engram]:
        """These engrams."""
        rows = self._connection.executemany(self._sql["body"], ((ordinal,) for ordinal in ordinals))
        return [decode_engram(body) for (body,) in rows]

    def find(self, spaces: Sequence[str], engram_id: str) -> StoredEngram | None:
        """The live engram of that id."""
        for space in spaces:
            row = self._one("find_engram", space, engram_id, self._as_of)
            if row:
                return _stored_from_row(row)
        return None

    def twins(self, space: str, twin: str, *, limit: int) -> Sequence[int]:
        """The newest live engrams with this twin key."""
        rows: Any = self._connection.execute(self._sql["twins"], (space, twin, self._as_of, limit))
        return [row[0] for row in rows]

    def pinned(self, spaces: Sequence[str]) -> Sequence[int]:
        """The live engrams somebody pinned."""
        rows: Any = self._connection.execute(self._sql["pinned_engrams"], (self._as_of,))
        return [ordinal for ordinal, space in rows if space in spaces]

    def votes(self, ordinal: int, *, besides: str) -> int:
        """How many roots, besides one, have confirmed an engram."""
        row = self._one("count_votes", ordinal, besides)
        return row[0] if row else 0

    def puts_in_minute(self, author: str, minute: int) -> int:
        """How many engrams an author put in a minute."""
        row = self._one("puts_in_minute", author, minute)
        return row[0] if row else 0

    def outbox(self) -> list[StoredEngram]:
        """Engrams on their way out."""
        return [_stored_from_row(row) for row in self._connection.execute(self._sql["outbox"])]

    def remembered(self, caller: str, key: str) -> Remembered | None:
        """The answer once given under this key."""
        row = self._one("recorded_answer", caller, key, self._as_of - REMEMBERED_FOR)
        return Remembered(request=row[0], answer=row[1]) if row else None

    def grant(self, run_id: str, grant_id: str) -> GrantIssued | None:
        """The grant of that id in that run."""
        row = self._one("grant", run_id, grant_id)
        return _decode_grant(row[0]) if row else None

    def grants_for(self, run_id: str, children: Sequence[str]) -> list[GrantIssued]:
        """Every grant of a run made out to one of these."""
        rows: list[Any] = []
        for child in children:
            rows += self._connection.execute(self._sql["grants_for"], (run_id, child)).fetchall()
        return [_decode_grant(issued) for _, issued in sorted(rows)]

    def spent(self, block_ids: Sequence[str]) -> dict[str, Spent]:
        """What was debited to these blocks."""
        return {block: Spent(tokens=row[0], uses=row[1]) for block, row in self._blocks(block_ids) if row[1]}

    def revoked(self, block_ids: Sequence[str]) -> set[str]:
        """Which of these blocks were revoked."""
        return {block for block, row in self._blocks(block_ids) if row[2]}

    def _blocks(self, block_ids: Sequence[str]) -> list[tuple[str, Any]]:
        found = ((block_id, self._one("block", block_id)) for block_id in block_ids)
        return [(block_id, row) for block_id, row in found if row]

    def request(self, run_id: str, request_id: str) -> KeptRequest | None:
        """The request of that id in that run."""
        return _maybe(_request_from_row, self._one("request", run_id, request_id))

    def open_requests(self, run_id: str) -> list[KeptRequest]:
        """Every request nobody has answered yet."""
        return [_request_from_row(row) for row in self._connection.execute(self._sql["open_requests"], (run_id,))]

    def mail(self, run_id: str, agent: str, *, after: int, limit: int) -> list[Mail]:
        """What lies in an inbox after a position."""
        rows: Any = self._connection.execute(self._sql["mail"], (run_id, agent, after, limit))
        return [
            Mail(position=position, kind=kind, item=item, sender=sender, at=at, text=text)
            for position, kind, item, sender, at, text in rows
        ]

    def budgets(self, run_id: str, agent: str) -> Budgets | None:
        """The budgets an agent's parent last gave it."""
        row = self._one("budgets", run_id, agent)
        return msgspec.json.decode(row[0], type=Budgets) if row else None

    def open_rejection(self, run_id: str, agent: str, kind: MessageKind) -> str | None:
        """The last message of an agent that was sent back and not sent again yet."""
        row = self._one("open_rejection", run_id, agent, kind)
        return row[0] if row else None

    def brief(self, run_id: str, role: str, version: int | None) -> Brief | None:
        """A version of a role's brief."""
        asked = ("last_brief", run_id, role) if version is None else ("brief", run_id, role, version)
        row = self._one(*asked)
        return _brief_from_row(row) if row else None

    def brief_versions(self, run_id: str, role: str, *, limit: int) -> list[Brief]:
        """The last versions of a role's brief."""
        return [_brief_from_row(row) for row in self._connection.execute(self._sql["briefs"], (run_id, role, limit))]

    def counts(self) -> Counts:
        """How much there is."""
        kinds = self._live_by_kind(None)
        agents = self._one("count_agents")
        return Counts(
            commits=self._state.position.seq,
            journal_bytes=self._state.position.offset,
            runs=self._state.runs,
            agents=agents[0] if agents else 0,
            engrams=sum(kinds.values()),
            kinds=dict(sorted(kinds.items())),
        )

    def tallies(self, run_id: str | None) -> dict[str, Tally]:
        """What was counted for each agent of a run, or for each role of the project."""
        rows = self._of_run_or_project("tallies", run_id)
        return {name: _tally(counted) for name, *counted in rows}

    def kinds_put(self, run_id: str | None) -> dict[str, dict[str, int]]:
        """How many engrams of each kind each agent of a run put, or each role of the project."""
        found: dict[str, dict[str, int]] = {}
        for name, kind, count in self._of_run_or_project("kind_counts", run_id):
            found.setdefault(name, {})[kind] = count
        return found

    def history(self, run_id: str | None, bucket: str, since: int) -> list[tuple[int, str, Tally]]:
        """What was counted in each bucket from a moment on, by role."""
        rows = self._of_run_or_project("history", run_id, bucket, since)
        return [(start, role, _tally(counted)) for start, role, *counted in rows]

    def _of_run_or_project(self, query: str, run_id: str | None, *values: object) -> Any:
        if run_id is None:
            return self._connection.execute(self._sql[f"{query}_of_project"], values)
        return self._connection.execute(self._sql[query], (run_id, *values))

    def grants_left(self, run_id: str) -> dict[str, GrantsLeft]:
        """What is left of the grants of a run."""
        rows: Any = self._connection.execute(self._sql["grants_left"], (run_id, self._as_of))
        return {child: GrantsLeft(grants=grants, tokens=tokens) for child, grants, tokens in rows}

    def live_kinds(self, spaces: Sequence[str]) -> dict[str, int]:
        """How many live engrams of each kind lie in these spaces."""
        return self._live_by_kind(spaces)

    def _live_by_kind(self, spaces: Sequence[str] | None) -> dict[str, int]:
        """How many there are by what was kept count of, without those past their time that nobody swept out yet."""
        kinds: dict[str, int] = {}
        gone: list[Any] = []
        if spaces is None:
            rows: list[Any] = self._connection.execute(self._sql["live_counts"]).fetchall()
        else:
            rows = self._connection.executemany(self._sql["live_counts_in"], ((space,) for space in spaces)).fetchall()
        if self.overdue():
            gone = self._connection.execute(self._sql["expired_counts"], (self._as_of,)).fetchall()
        for sign, counted in ((1, rows), (-1, gone)):
            for space, kind, count in counted:
                if spaces is None or space in spaces:
                    kinds[kind] = kinds.get(kind, 0) + sign * count
        return {kind: count for kind, count in kinds.items() if count}

    def _posted(self, spaces: Sequence[str], keys: tuple[str, ...], limit: int, before: int) -> Sequence[int]:
        overdue = self.overdue()
        wanted = limit + len(overdue)
        found: list[list[int]] = []
        for space in spaces:
            if not self._is_empty(space):
                inside = self._in_space([f"{space}:{key}" for key in keys], wanted, before)
                if inside:
                    found.append(inside)
        if not overdue and len(found) <= 1:
            return found[0][:limit] if found else ()
        return list(islice((at for at in merge(*found, reverse=True) if at not in overdue), limit))

    def _is_empty(self, space: str) -> bool:
        """Whether a space holds nothing at all, as most runs' do: one look saves one for every key."""
        empty = self._empty_spaces.get(space)
        if empty is None:
            empty = self._empty_spaces[space] = not self._in_space([f"{space}:{EVERYTHING}"], 1, _NEVER)
        return empty

    def _in_space(self, tokens: list[str], limit: int, before: int) -> list[int]:
        question = '"' + '" AND "'.join(tokens) + '"'
        rows: Any
        if before == _NEVER:
            rows = self._connection.execute(self._sql["posted"], (question, limit))
        else:
            rows = self._connection.execute(self._sql["posted_before"], (question, NEWEST_FIRST - before, limit))
        found = [NEWEST_FIRST - row[0] for row in rows]
        waiting = self._waiting_under(tokens)
        if not waiting:
            return found
        return sorted([*found, *(ordinal for ordinal in waiting if ordinal < before)], reverse=True)

    def _waiting_under(self, tokens: list[str]) -> Sequence[int]:
        """Engrams under all these tokens that wait in `pending`."""
        if self._waiting is None:
            self._waiting = self._read_waiting() if self._state.pending else {}
        first, *others = [self._waiting.get(token, ()) for token in tokens]
        return [ordinal for ordinal in first if all(ordinal in other for other in others)] if others else first

    def _read_waiting(self) -> dict[str, list[int]]:
        version = self._state.position.checksum
        if self._kept is not None and self._kept.waiting[0] == version:
            return self._kept.waiting[1]
        waiting: dict[str, list[int]] = {}
        rows: Any = self._connection.execute(self._sql["pending"])
        for ordinal, tokens in rows:
            for token in tokens.split(" "):
                waiting.setdefault(token, []).append(ordinal)
        if self._kept is not None:
            self._kept.waiting = (version, waiting)
        return waiting

    def overdue(self) -> frozenset[int]:
        """Engrams whose time has passed but that no commit has swept out yet; mostly none."""
        if self._overdue is None:
            rows: Any = self._connection.execute(self._sql["expired"], (self._as_of, -1))
            self._overdue = frozenset(row[0] for row in rows)
        return self._overdue

    @property
    def saw_many_expired(self) -> bool:
        """Whether this view had to step around so many that they should be swept out now."""
        return self._overdue is not None and len(self._overdue) > MANY_OVERDUE

    def _read_policy(self) -> Policy:
        row = self._one("policy")
        return read_policy(msgspec.json.decode(row[0])) if row else DEFAULT_POLICY

    def _once(self, name: tuple[str, ...], read: Callable[[], Any]) -> Any:
        """What a read about identity found last time, if nothing there has changed since."""
        if self._kept is None:
            return read()
        version, found = self._kept.identity
        if version != self._state.identity:
            found = {}
            self._kept.identity = (self._state.identity, found)
        if name in found:
            return found[name]
        value = read()
        if value is not None:  # names that nobody bears are without number
            found[name] = value
        return value

    def _one(self, name: str, *values: object) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(self._sql[name], values).fetchone()
        return row


def _request_from_row(row: Any) -> KeptRequest:
    asked, answered, grant_id = row
    return KeptRequest(
        asked=msgspec.json.decode(asked, type=DerefRequested), answered=bool(answered), grant_id=grant_id
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


def _brief_from_row(row: Any) -> Brief:
    version, at, lines = row
    return Brief(version=version, made_us=at, lines=tuple(lines.split("\n")))


def _tally(counted: Sequence[int]) -> Tally:
    return Tally(**dict(zip(FIELDS, counted, strict=True)))


def _agent_from_row(row: Any) -> Agent:
    run, name, role, parent = row
    return Agent(run=run, name=name, role=role, parent=parent)


def _maybe(make: Callable[[Any], T], row: Any) -> T | None:
    return None if row is None else make(row)
