"""Reading the tables of work as of one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import add
from typing import Any

import msgspec

from engrambus.backends.sql.work.database import WorkDatabase, print_id, raw_id
from engrambus.backends.sql.work.projection import (
    ALL_POOLS,
    RUN_COLUMNS,
    WorkProjection,
    agent_from_row,
    record_from_row,
)
from engrambus.backends.sql.work.schedule_rows import ScheduleRows
from engrambus.backends.sql.work.state import (
    KNOWN_RULES,
    KNOWN_SHAPE,
    MAX_KNOWN_ROWS,
    GroupFields,
    WorkIndexState,
    read_history,
)
from engrambus.backends.sql.work.walk import LaneNeeds, LoneTuple, Walk
from engrambus.core import SECOND_US, is_digest
from engrambus.core.database import FileDamaged
from engrambus.evidence.receipts import Receipt
from engrambus.evidence.receipts import receipt_id as hash_of
from engrambus.space.batches import BatchShape, LeafRange
from engrambus.space.schedules import Schedule, SchedulePosition
from engrambus.space.tuples import (
    ABSENT,
    INTERNAL_RUN,
    LIVE_STATES,
    STATES,
    TASK_LANE,
    BatchAgent,
    BatchRecord,
    CanRun,
    CostHistory,
    DelayedCounts,
    Epoch,
    Fence,
    IdempotentPut,
    LaneCounts,
    LevelCounts,
    LimitRule,
    LimitRules,
    LimitUse,
    ListedReceipt,
    PoolUse,
    Price,
    ReceiptPosition,
    RunningStep,
    RunTotals,
    Subject,
    TaskChange,
    TupleBlock,
    TuplePattern,
    TupleRecord,
    WaitingGroup,
    index_value,
    limit_blocks,
    may_run,
    next_yools,
    opens_us,
    pattern_fields,
    pools_of_rule,
    room_in,
    unfinished_yools,
)

MAX_POSTED = 256
"""Tuples of an indexed field that are put in turn: of the highest priorities the oldest."""
MAX_PROMOTED = 1024
"""Delayed tuples of a lane with the same needs that a claim lets wait like the others."""
MAX_QUIET_LANES = 4096
"""Lanes of which is remembered until when nothing is late."""
REFRESH_US = 5 * SECOND_US

_ZEROS = (0,) * len(LIVE_STATES)
_NO_LIMIT = (1 << 63) - 1
_decode_receipt = msgspec.json.Decoder(Receipt).decode
_decode_yools = msgspec.json.Decoder(tuple[str, ...]).decode
_NEEDS = 27
"""Position in a row of the number of what its tuple needs."""


class SqlWorkView:
    """The tables of work inside one transaction. `WorkView` and `ScheduleView` document the
    methods.

    Tuples that a change may decide on are noted in `read`, so that the projection need not read them again.
    """

    def __init__(
        self,
        database: WorkDatabase,
        state: WorkIndexState,
        as_of: int,
        projection: WorkProjection | None = None,
    ) -> None:
        """`projection` writes what a change decides; None for a reader."""
        self._database = database
        self._state = state
        self._as_of = as_of
        self._projection = projection
        self._read: dict[str, TupleRecord] = {} if projection is None else projection.read
        self._schedules = ScheduleRows(database)

    @property
    def as_of(self) -> int:
        return self._as_of

    def current_epoch(self) -> Epoch:
        state = self._state
        return Epoch(number=state.epoch, boot=state.boot, counter=state.counter)

    # Tuples

    def find(self, tuple_id: str) -> TupleRecord | None:
        if not is_digest(tuple_id):
            return None
        row = self._row("tuple", *self._database.id_key(tuple_id))
        if row is None:
            return None
        record = record_from_row(row)
        self._read[record.id] = record
        return record

    def find_all(self, ids: Sequence[str]) -> dict[str, TupleRecord]:
        fresh = self._state.fresh_claims
        records = {tuple_id: fresh[tuple_id] for tuple_id in ids if tuple_id in fresh}
        missing = [tuple_id for tuple_id in ids if tuple_id not in records and is_digest(tuple_id)]
        if missing:
            rows = self._database.rows_of_ids("tuples", missing)
            records |= {record.id: record for record in map(record_from_row, rows)}
        self._read |= records
        return {tuple_id: records[tuple_id] for tuple_id in ids if tuple_id in records} if missing else records

    def tuple_ids_starting(self, prefix: str, *, limit: int) -> list[str]:
        return self._ids_like("tuple_ids_like", prefix, limit)

    def claimable(
        self, pattern: TuplePattern, *, epoch: int, limit: int, can_run: CanRun | None = None
    ) -> list[TupleRecord]:
        records = self._claimable(pattern, epoch, limit, can_run)
        self._read |= {record.id: record for record in records}
        return records

    def may_claim(self, pattern: TuplePattern, *, epoch: int, can_run: CanRun | None = None) -> bool:
        # Only a change closes what is held back, sees which limits have opened and lets delayed tuples join the others:
        # where that is due, a claim does it once, and readers need not do it again and again.
        if self._state.rules and (
            self._row("due_pool_exists", self._as_of)[0] or (epoch != self._state.epoch and self._row("any_held")[0])
        ):
            return True
        records, walk = self._search(pattern, epoch, 1, can_run)
        return bool(records) or (walk is not None and bool(walk.held))

    def _claimable(self, pattern: TuplePattern, epoch: int, limit: int, can_run: CanRun | None) -> list[TupleRecord]:
        projection = self._projection
        if projection is not None and self._state.rules:
            self._open_due_pools(projection, epoch)
        records, walk = self._search(pattern, epoch, limit, can_run)
        if projection is not None and walk is not None:
            projection.groups |= walk.groups
            walk.close(projection)
        return records

    def _search(
        self, pattern: TuplePattern, epoch: int, limit: int, can_run: CanRun | None
    ) -> tuple[list[TupleRecord], Walk | None]:
        """Return the tuples that a pattern may claim, and the walk that found them."""
        lane, tuple_id = pattern.equal_to("lane"), pattern.equal_to("id")
        # The narrowest access path first: an id, an indexed field, a lane, all lanes.
        if isinstance(tuple_id, str):
            record = self.find(tuple_id)
            due = [record] if record is not None and self._is_due(record, epoch) else []
            due = [record for record in due if record.lane != TASK_LANE or lane == TASK_LANE]
            runnable = (record for record in due if self._may_run(record, can_run))
            return self._in_turn(_first_matching(runnable, pattern, 1), epoch, limit), None
        for path in self._state.indexed:
            value = index_value(pattern.equal_to(path))
            if value is not None:
                posted = map(record_from_row, self._runnable(self._rows("posted_live", path, value), can_run))
                records = (record for record in posted if self._is_due(record, epoch))
                first = _first_matching(records, pattern.without(path), max(limit, MAX_POSTED))
                return self._in_turn(first, epoch, limit), None
        if lane is not ABSENT and not isinstance(lane, str):
            return [], None
        lanes = [lane] if lane is not ABSENT else self._lanes_of_workers()
        walk = self._new_walk(pattern.without("lane"), epoch)
        for name in lanes:
            self._enter_lane(walk, name, epoch, can_run)
        return walk.take(limit), walk

    def _lanes_of_workers(self) -> list[str]:
        """Return the lanes with waiting or claimed tuples, without that of tasks, which agents do themselves."""
        return [counts.lane for counts in self.lane_counts() if counts.lane != TASK_LANE]

    def _new_walk(self, conditions: TuplePattern, epoch: int) -> Walk:
        run = conditions.equal_to("run")
        if isinstance(run, str):
            conditions = conditions.without("run")
        return Walk(
            self,
            epoch=epoch,
            last=Fence(self._state.epoch, self._state.counter),
            turns=self._state.figures.turns,
            accepts=(lambda record: _matches(conditions, record)) if conditions.conditions else None,
            to_record=record_from_row,
            run=run if isinstance(run, str) else None,
        )

    def _enter_lane(self, walk: Walk, lane: str, epoch: int, can_run: CanRun | None) -> None:
        """Add what may be claimed in a lane to a walk."""
        now_us = self._as_of
        delayed, lost = self._late(lane, epoch)
        for needs in self._needs("delayed_needs", lane, can_run) if delayed else ():
            # decision 100: by needs, so that tuples this worker cannot run are never read.
            self._add_delayed(walk, lane, needs)
        for needs in self._needs("waiting_needs", lane, can_run):
            source = LaneNeeds(walk, lane, needs)
            if source:
                walk.push(source)
        for row in self._rows("lost", lane, epoch, now_us, lane, epoch) if lost else ():
            self._add_lone(walk, row)

    def _late(self, lane: str, epoch: int) -> tuple[bool, bool]:
        """Return whether a lane has delayed tuples, and claims that have ended.

        Both are False before the time up to which the cache knows that nothing is late.
        """
        quiet = self._state.quiet_until
        if epoch == self._state.epoch and self._as_of < quiet.get(lane, 0):
            return False, False
        delayed, first_end_us, is_older = self._row("late", lane, epoch)
        lost = is_older or (first_end_us is not None and first_end_us <= self._as_of)
        if self._projection is not None and epoch == self._state.epoch and not delayed and not lost:
            if len(quiet) >= MAX_QUIET_LANES:
                quiet.clear()
            quiet[lane] = _NO_LIMIT if first_end_us is None else first_end_us
        return bool(delayed), bool(lost)

    def _add_delayed(self, walk: Walk, lane: str, needs: int) -> None:
        """Let delayed tuples that are due now wait like the others; a reader only looks at some of them."""
        projection = self._projection
        if projection is not None:
            promoted: list[Any] = [*self._database.rows("promote", lane, needs, self._as_of, MAX_PROMOTED)]
            for ordinal, group in promoted:
                projection.fill_group(group, ordinal)
            return
        for row in self._rows("delayed_lone", lane, needs, self._as_of, MAX_POSTED):
            self._add_lone(walk, row)

    def _add_lone(self, walk: Walk, row: Any) -> None:
        subject = self._group_fields(row[2]).subject
        walk.push(LoneTuple(walk, row, subject, lambda: record_from_row(self._row("tuple_by_ordinal", row[0]))))

    def _in_turn(self, records: list[TupleRecord], epoch: int, limit: int) -> list[TupleRecord]:
        """Return those of a few tuples that may start, in turn."""
        if len(records) < 2 and not self._state.rules:
            return records[:limit]
        walk = self._new_walk(TuplePattern(), epoch)
        by_ordinal = {record.ordinal: record for record in records}
        for ordinal, record in by_ordinal.items():
            row = self._row("lone", ordinal)
            walk.push(LoneTuple(walk, row, self._group_fields(row[2]).subject, lambda record=record: record))  # type: ignore[misc]
        return walk.take(limit)

    def _group_fields(self, group: int) -> GroupFields:
        fields = self._state.group_fields.get(group)
        if fields is None:
            fields = self._state.group_fields[group] = GroupFields.from_row(self._row("group_fields", group))
        return fields

    # Limits

    def limit_rules(self) -> LimitRules:
        return KNOWN_RULES.read(self._state.rules, lambda: self._rows("rules"))

    def pool_use(self, rule: LimitRule, pool: str, *, epoch: int | None = None) -> PoolUse:
        return self.pool_use_in(rule, pool, self._state.epoch if epoch is None else epoch)

    def pool_use_in(self, rule: LimitRule, pool: str, epoch: int) -> PoolUse:
        """Return how much of a pool is used; claims of earlier epochs have ended."""
        running, slot_ends_us = self._row("slot_use", pool, epoch, self._as_of)
        started, start_ends_us = self._started(rule, pool)
        return PoolUse(running=running, started=started, slot_ends_us=slot_ends_us, start_ends_us=start_ends_us)

    def pool_room(self, rule: LimitRule, pool: str, epoch: int) -> int:
        """Return how many more of a pool may start; only what the rule limits is counted."""
        if rule.paused is not None:
            return 0
        if rule.running is not None:
            return room_in(rule, self.pool_use_in(rule, pool, epoch))
        return room_in(rule, PoolUse(started=self._started(rule, pool)[0]))

    def _started(self, rule: LimitRule, pool: str) -> tuple[int, int | None]:
        if rule.starts is None:
            return 0, None
        (started,) = self._row("starts_within", pool, self._as_of - rule.period_us)
        if started < rule.starts:
            return started, None
        return started, self._row("nth_last_start", pool, rule.starts - 1)[0] + rule.period_us

    def limit_uses(self) -> list[LimitUse]:
        waiting: dict[str, int] = {}
        rules = self.limit_rules()
        for lane, _, run, authority, key, count, _ in self._rows("waiting_groups", _NO_LIMIT) if rules else ():
            for _, pool in rules.pools(Subject(lane, run, authority, key or None)):
                waiting[pool] = waiting.get(pool, 0) + count
        return [self._use_of(rule, waiting) for _, rule in sorted(rules.items())]

    def _use_of(self, rule: LimitRule, waiting: dict[str, int]) -> LimitUse:
        pools = {pool for pool in waiting if pool.partition("\n")[0] == rule.match.id}
        pools |= {pool for (pool,) in self._rows("pools_used", *pools_of_rule(rule))}
        uses = {pool: self.pool_use(rule, pool) for pool in pools}
        full = [pool for pool, use in uses.items() if waiting.get(pool) and not room_in(rule, use)]
        return LimitUse(
            rule=rule,
            running=sum(use.running for use in uses.values()),
            started=sum(use.started for use in uses.values()),
            waiting=sum(waiting[pool] for pool in full),
            full=len(full),
        )

    def _open_due_pools(self, projection: WorkProjection, epoch: int) -> None:
        """Open the pools whose time has come, and all of them after a restart of the machine."""
        if epoch != self._state.epoch:
            projection.open_pools(*ALL_POOLS)
            return
        if not self._row("due_pool_exists", self._as_of)[0]:
            return
        rules = self.limit_rules()
        # Also those due soon: most of their leases were renewed meanwhile, which saves each a claim of its own.
        for (pool,) in list(self._rows("due_pools", self._as_of + REFRESH_US)):
            rule = rules.get(pool.partition("\n")[0])
            use = None if rule is None else self.pool_use(rule, pool)
            if rule is None or use is None or room_in(rule, use):
                projection.open_pools(pool, pool)
            else:
                projection.execute("close_pool", pool, opens_us(rule, use))

    def _needs(self, query: str, lane: str, can_run: CanRun | None) -> list[int]:
        """Return the needs that waiting tuples of a lane have and that a worker can run, by number."""
        rows = self.shape_rows(query, lane) if query == "waiting_needs" else self._rows(query, lane)
        return [number for number, yools in rows if may_run(_decode_yools(yools), can_run)]

    def _runnable(self, rows: Iterator[Any], can_run: CanRun | None) -> Iterator[Any]:
        """Yield the rows of claimed tuples, and of those waiting ones that a worker can run."""
        if can_run is None:
            yield from rows
            return
        known: dict[int, bool] = {}
        for row in rows:
            needs = row[_NEEDS]
            if needs not in known:
                known[needs] = may_run(_decode_yools(self._row("needs_yools", needs)[0]), can_run)
            if row[2] == "claimed" or known[needs]:
                yield row

    def _may_run(self, record: TupleRecord, can_run: CanRun | None) -> bool:
        if can_run is None or record.state == "claimed":
            return True
        return may_run(next_yools(record.body, self.finished_steps(record.id)), can_run)

    def _is_due(self, record: TupleRecord, epoch: int) -> bool:
        if record.state == "waiting":
            return record.ready_us <= self._as_of
        return record.state == "claimed" and (
            record.lease_until_us <= self._as_of or (record.fence is not None and record.fence.epoch < epoch)
        )

    def matching(self, pattern: TuplePattern, *, limit: int, after: int = 0) -> list[TupleRecord]:
        records = map(record_from_row, self._candidates(pattern, after))
        return list(islice((record for record in records if pattern.matches(pattern_fields(record))), limit))

    def _candidates(self, pattern: TuplePattern, after: int) -> Iterator[Any]:
        """Yield the rows of the narrowest index that holds every match."""
        tuple_id = pattern.equal_to("id")
        if tuple_id is not ABSENT:
            valid = isinstance(tuple_id, str) and is_digest(tuple_id)
            row = self._row("tuple", *self._database.id_key(tuple_id)) if valid else None
            return iter([row] if row and row[0] > after and row[2] != "taken" else [])
        for path in self._state.indexed:
            value = index_value(pattern.equal_to(path))
            if value is not None:
                return self._rows("posted_all", path, value, after)
        if pattern.equal_to("state") == "dead":
            return self._rows("dead", after)
        lane = pattern.equal_to("lane")
        if isinstance(lane, str):
            return self._rows("in_lane", lane, after)
        return self._rows("everything", after)

    def newest_in(self, lane: str) -> TupleRecord | None:
        row = self._row("last_in_lane", lane)
        return record_from_row(row) if row else None

    def idempotent_put(self, key: str) -> IdempotentPut | None:
        row = self._row("idempotent_put", key)
        if row is None:
            return None
        return IdempotentPut(
            tuple_id=print_id(row[0]), request_digest=row[1], receipt_id=print_id(row[2]) if row[2] else None
        )

    def next_due_us(self, pattern: TuplePattern, *, can_run: CanRun | None = None) -> int | None:
        lane, conditions = pattern.equal_to("lane"), pattern.without("lane")
        lanes = self._lanes_of_workers() if lane is ABSENT else [lane]
        times: list[int | None] = []
        for name in lanes:
            if isinstance(name, str):
                times += [
                    self._next_delayed(name, needs, conditions) for needs in self._needs("delayed_needs", name, can_run)
                ]
                times.append(self._next_lease_end(name, conditions, can_run))
        if self._state.rules:
            times += self._opening_times(lane if isinstance(lane, str) else None)
        return min((time_us for time_us in times if time_us is not None), default=None)

    def _opening_times(self, lane: str | None) -> Iterator[int | None]:
        """Yield when limits may open that tuples of a lane wait for, or of any lane."""
        row = self._row("next_opening", self._as_of, lane)
        yield row[0] if row else None
        for rule in self.limit_rules().values():
            if rule.match.key is None and (lane is None or rule.match.lane in (None, lane)):
                use = self.pool_use(rule, rule.match.id)
                yield None if room_in(rule, use) else opens_us(rule, use)

    def _next_delayed(self, lane: str, needs: int, conditions: TuplePattern) -> int | None:
        """Return when the first of a lane's delayed tuples with these needs is due."""
        if not conditions.conditions:
            time_us: int | None = self._row("next_delayed", lane, needs, self._as_of)[0]
            return time_us
        delayed = _first_matching(self._records("not_due_yet", lane, needs, self._as_of), conditions, 1)
        return delayed[0].ready_us if delayed else None

    def _next_lease_end(self, lane: str, conditions: TuplePattern, can_run: CanRun | None) -> int | None:
        """Return when the first claim in a lane ends, of a tuple that has steps left which a worker can run."""
        if not conditions.conditions and can_run is None:
            time_us: int | None = self._row("next_lease_end", lane, self._as_of)[0]
            return time_us
        claimed = self._records("claimed_in_lane", lane, self._as_of)
        left = (
            record
            for record in claimed
            if can_run is None or may_run(unfinished_yools(record.body, self.finished_steps(record.id)), can_run)
        )
        first = _first_matching(left, conditions, 1)
        return first[0].lease_until_us if first else None

    def list_unfinished(self, *, limit: int, after: int = 0) -> list[TupleRecord]:
        return [record_from_row(row) for row in self._rows("unfinished", after, limit)]

    def list_claimed(self, run: str | None, *, limit: int) -> list[TupleRecord]:
        return [record_from_row(row) for row in self._rows("claimed", run, limit)]

    def list_ended(self, run: str | None, *, limit: int) -> list[TupleRecord]:
        rows = self._rows("ended", limit, INTERNAL_RUN) if run is None else self._rows("ended_in", run, limit)
        return [record_from_row(row) for row in rows]

    def list_dead(
        self,
        run: str | None,
        *,
        lane: str | None = None,
        include_put_again: bool = False,
        limit: int,
        ended_before: int | None = None,
    ) -> list[TupleRecord]:
        ended_before = _NO_LIMIT if ended_before is None else ended_before
        rows = self._rows("dead_letters", ended_before, include_put_again, run, lane, limit)
        return [record_from_row(row) for row in rows]

    # Batches

    def has_batches(self) -> bool:
        state = self._state
        if state.has_batches is None:
            state.has_batches = bool(next(self.shape_rows("any_batch"))[0])
        return state.has_batches

    def batch(self, batch_id: str) -> BatchRecord | None:
        row = self._row("batch", *self._database.id_key(batch_id)) if is_digest(batch_id) else None
        return _batch_from_row(row) if row else None

    def list_batches(self, run: str | None, *, limit: int, before: int | None = None) -> list[BatchRecord]:
        rows = self._rows("batches", run, _NO_LIMIT if before is None else before, limit)
        return [_batch_from_row(row) for row in rows]

    def folded_batches(self, lane: str | None, *, limit: int | None = None) -> list[BatchRecord]:
        if not self.has_batches():
            return []
        bound = -1 if limit is None else limit
        if lane is None:
            rows = self._rows("folded_batches_of_all_lanes", bound)
        else:
            rows = self._rows("folded_batches", lane, bound)
        return [_batch_from_row(row) for row in rows]

    def folded_leaves(self, batch_id: str, *, limit: int | None = None) -> list[LeafRange]:
        rows = self._rows("folded_leaves", self._ordinal(batch_id), -1 if limit is None else limit)
        return [LeafRange(start, stop) for start, stop in rows]

    def idle_leaves(self, batch_id: str, *, limit: int | None = None) -> list[int]:
        rows = self._rows("idle_leaves", self._ordinal(batch_id), -1 if limit is None else limit)
        return [number for (number,) in rows]

    def level_counts(self, batch_id: str) -> dict[int, LevelCounts]:
        batch = self._ordinal(batch_id)
        sums: dict[int, list[int]] = {}
        states: dict[int, dict[str, int]] = {}
        for level, state, count, *amounts in self._rows("level_counts", batch):
            states.setdefault(level, {})[state] = count
            sums[level] = list(map(add, sums.get(level, (0, 0, 0)), amounts))
        for level, state, count in self._rows("folded_ends", batch):
            of_level = states.setdefault(level, {})
            of_level[state] = of_level.get(state, 0) + count
        counts: dict[int, LevelCounts] = {}
        for level in sorted(states):
            micros, tokens, receipts = sums.get(level, (0, 0, 0))
            in_order = dict(sorted(states[level].items()))
            counts[level] = LevelCounts(states=in_order, micros=micros, tokens=tokens, receipts=receipts)
        return counts

    def agents(self, tuple_ids: Sequence[str]) -> dict[str, BatchAgent]:
        ids = [tuple_id for tuple_id in tuple_ids if is_digest(tuple_id)]
        agents = {agent.id: agent for agent in map(_agent, self._database.rows_of_ids("agents", ids))}
        return {tuple_id: agents[tuple_id] for tuple_id in tuple_ids if tuple_id in agents}

    def agents_at(
        self, batch_id: str, level: int, start: int, stop: int, *, unended: bool = False, limit: int | None = None
    ) -> list[BatchAgent]:
        bound = -1 if limit is None else limit
        rows = self._rows("agents_at", self._ordinal(batch_id), level, start, stop, int(unended), bound)
        return list(map(_agent, rows))

    def kept_agents(self, batch_id: str) -> list[BatchAgent]:
        return list(map(_agent, self._rows("kept_agents", self._ordinal(batch_id))))

    def _ordinal(self, tuple_id: str) -> int:
        ordinal: int = self._row("summary", *self._database.id_key(tuple_id))[0]
        return ordinal

    # Schedules

    def schedule(self, name: str) -> Schedule | None:
        return self._schedules.find(name)

    def list_schedules(
        self,
        *,
        limit: int,
        run: str | None = None,
        added_by: str | None = None,
        after: SchedulePosition | None = None,
        until_us: int | None = None,
    ) -> list[Schedule]:
        schedules = self._schedules.list(limit=limit, run=run, added_by=added_by, after=after, until_us=until_us)
        return list(schedules)

    def schedule_count(self, added_by: str | None = None) -> int:
        return self._schedules.count(added_by)

    def next_look_us(self) -> int | None:
        return self._schedules.next_look_us()

    # Receipts

    def receipt(self, receipt_id: str) -> Receipt | None:
        row = self._row("receipt", *self._database.id_key(receipt_id)) if is_digest(receipt_id) else None
        if row is None:
            return None
        receipt = _decode_receipt(row[0])
        if receipt.id != receipt_id or hash_of(receipt) != receipt_id:
            # decision 93: what does not hash to its id is never answered; the index is rebuilt and read again
            raise FileDamaged("a receipt does not match its id")
        return receipt

    def receipt_ids_starting(self, prefix: str, *, limit: int) -> list[str]:
        return self._ids_like("receipt_ids_like", prefix, limit)

    def recorded_receipts(self, receipts: Iterable[Receipt]) -> set[str]:
        fresh = self._state.fresh_claims
        ids = [receipt.id for receipt in receipts if receipt.tuple_id not in fresh]
        return {print_id(row[0]) for row in self._database.rows_of_ids("recorded_receipts", ids)}

    def finished_steps(self, tuple_id: str) -> dict[int, str]:
        return {step: print_id(receipt) for step, receipt in self._rows("finished", *self._database.id_key(tuple_id))}

    def receipt_ids(self, tuple_id: str) -> list[str]:
        return [print_id(row[0]) for row in self._rows("receipts_of", *self._database.id_key(tuple_id))]

    def list_receipts(self, run: str | None, *, limit: int, after: int = 0) -> list[tuple[int, Receipt]]:
        rows = self._rows("receipts", after, limit) if run is None else self._rows("receipts_in", run, after, limit)
        return [(number, _decode_receipt(body)) for number, body in rows]

    def newest_receipts(
        self, run: str | None, *, limit: int, before: ReceiptPosition | None = None
    ) -> list[ListedReceipt]:
        number, use = before or ReceiptPosition(_NO_LIMIT)
        of_run, suffix = ((), "") if run is None else ((run,), "_in")
        # The receipt of a position stands before the uses that follow it.
        receipts = self._rows(f"newest_receipts{suffix}", *of_run, number + (use > 0), limit)
        hits = self._rows(f"newest_hits{suffix}", *of_run, number, use, limit)
        streams = map(_listed_receipt, receipts), map(self._listed_hit, hits)
        return list(islice(merge(*streams, key=lambda listed: listed.position, reverse=True), limit))

    def _listed_hit(self, row: Any) -> ListedReceipt:
        number, use, tuple_id, step, at_us, receipt_id = row
        body = self._row("receipt", *self._database.id_key(print_id(receipt_id)))[0]
        return ListedReceipt(
            position=ReceiptPosition(number, use),
            receipt=_decode_receipt(body),
            tuple_id=print_id(tuple_id),
            step=step,
            used_us=at_us,
        )

    def cached_receipt(self, key: str) -> Receipt | None:
        row = self._row("cached_receipt", key)
        return _decode_receipt(row[0]) if row else None

    def purged_at_us(self, sha: str) -> int | None:
        row = self._row("purged_at", raw_id(sha)) if is_digest(sha) else None
        return row[0] if row else None

    # Figures: those in the tables, plus those still pending (decision 35)

    def waiting_count(self, lane: str) -> int:
        row = self._row("waiting_count", lane)
        waiting, _, blocked = self._state.figures.lanes.get(lane, _ZEROS)
        return (row[0] if row else 0) + waiting + blocked

    def live_in(self, lane: str) -> list[TupleRecord]:
        ordinals = [ordinal for (ordinal,) in self._rows("live_ordinals", lane)]
        return [record_from_row(self._row("tuple_by_ordinal", ordinal)) for ordinal in ordinals]

    def list_blocked(self, run: str | None, *, limit: int) -> list[TupleRecord]:
        return [record_from_row(row) for row in self._rows("blocked", run, limit)]

    def blocks(self, tuple_id: str) -> list[TupleBlock]:
        return [
            TupleBlock(on=print_id(raw) if raw else None, reason=reason, by=by)
            for raw, reason, by in self._rows("blocks_of", *self._database.id_key(tuple_id))
        ]

    def dependents(self, tuple_id: str) -> list[str]:
        # decision 113: every completion asks, and in most projects nothing depends on anything
        if self._state.any_blocks is None:
            self._state.any_blocks = bool(self._row("any_blocks")[0])
        if not self._state.any_blocks:
            return []
        return [print_id(raw) for (raw,) in self._rows("dependents", raw_id(tuple_id))]

    def task_changes(self, tuple_id: str) -> list[TaskChange]:
        return [
            TaskChange(at_us=at_us, what=what, by=by, text=text, owner=owner, process=process)
            for at_us, what, by, text, owner, process in self._rows("task_changes", *self._database.id_key(tuple_id))
        ]

    def lane_counts(self) -> list[LaneCounts]:
        lanes = {lane: counts for lane, *counts in self._rows("lane_counts")}
        for lane, pending in self._state.figures.lanes.items():
            lanes[lane] = list(map(add, lanes.get(lane, _ZEROS), pending))
        return [
            LaneCounts(lane=lane, **dict(zip(LIVE_STATES, counts, strict=True)))
            for lane, counts in sorted(lanes.items())
            if any(counts)
        ]

    def delayed_counts(self) -> list[DelayedCounts]:
        rows = self._rows("delayed_counts", self._as_of)
        return [DelayedCounts(lane=lane, tuples=tuples, first_us=first_us) for lane, tuples, first_us in rows]

    def waiting_groups(self) -> list[WaitingGroup]:
        by_group: dict[tuple[str, str, str], list[int]] = {}
        for lane, yools, run, authority, key, count, oldest in self._rows("waiting_groups", self._as_of):
            if self._state.rules and limit_blocks(self, Subject(lane, run, authority, key or None)):
                continue
            counted = by_group.setdefault((lane, yools, run), [0, oldest])
            counted[0] += count
            counted[1] = min(counted[1], oldest)
        groups = [
            WaitingGroup(
                lane=lane,
                run=run,
                yools=_decode_yools(yools),
                tuples=count,
                oldest=record_from_row(self._row("tuple_by_ordinal", oldest)),
            )
            for (lane, yools, run), (count, oldest) in by_group.items()
        ]
        return sorted(groups, key=lambda group: (group.lane, group.yools, group.run))

    def run_totals(self) -> list[RunTotals]:
        pending = self._state.figures.runs
        return [_run_totals(row, pending.get(row[0], {})) for row in self._rows("run_totals")]

    def cost_history(self, yool: str) -> CostHistory:
        return self._state.figures.yools.get(yool) or read_history(self._row("yool_cost", yool))

    def running_steps(self) -> list[RunningStep]:
        return [
            RunningStep(tuple_id=print_id(raw), step=step, micros=micros, tokens=tokens)
            for raw, step, micros, tokens in self._rows("all_running")
        ]

    def counted_cost(self, tuple_id: str, fence: Fence, step: int) -> Price:
        if tuple_id in self._state.fresh_claims:  # decision 35: nothing was counted for it yet
            return Price()
        row = self._row("step_cost", *self._database.id_key(tuple_id), fence.epoch, fence.counter, step)
        return Price(micros=row[0], tokens=row[1]) if row else Price()

    def _ids_like(self, name: str, prefix: str, limit: int) -> list[str]:
        low, high = (bytes.fromhex(prefix.ljust(64, digit)) for digit in "0f")
        return [print_id(row[0]) for row in self._rows(name, *self._database.id_range(low, high), limit)]

    def _records(self, name: str, *values: object) -> Iterator[TupleRecord]:
        return map(record_from_row, self._rows(name, *values))

    def rows(self, name: str, *values: object, expected: int = 0) -> Iterator[Any]:
        """Return the rows of a query."""
        return self._database.rows(name, *values, expected=expected)

    def shape_rows(self, name: str, *values: object) -> Iterator[Any]:
        """Return the rows of a query about groups and batches only, which are remembered until these change."""
        if self._projection is not None and self._projection.has_new_shape:
            return self.rows(name, *values)
        few = MAX_KNOWN_ROWS + 1
        return KNOWN_SHAPE.rows(self._state.shape, name, values, lambda: self.rows(name, *values, expected=few))

    def _rows(self, name: str, *values: object) -> Iterator[Any]:
        return self._database.rows(name, *values)

    def _row(self, name: str, *values: object) -> Any:
        return self._database.row(name, *values)


def _matches(pattern: TuplePattern, record: TupleRecord) -> bool:
    """True if a pattern matches a tuple as it will be once it can be claimed."""
    return not pattern.conditions or pattern.matches(pattern_fields(record) | {"state": "waiting"})


def _first_matching(records: Iterator[TupleRecord], pattern: TuplePattern, limit: int) -> list[TupleRecord]:
    """Return the first records that match a pattern as waiting tuples, which they are until they are claimed."""
    first: list[TupleRecord] = []
    for record in records:
        if _matches(pattern, record):
            first.append(record)
            if len(first) >= limit:
                break
    return first


def _listed_receipt(row: Any) -> ListedReceipt:
    number, body = row
    receipt = _decode_receipt(body)
    return ListedReceipt(
        position=ReceiptPosition(number), receipt=receipt, tuple_id=receipt.tuple_id, step=receipt.step
    )


def _run_totals(row: Any, pending: dict[str, int]) -> RunTotals:
    _, run, *counts = row
    totals = {name: count + pending.get(name, 0) for name, count in zip(RUN_COLUMNS, counts, strict=True)}
    states: dict[str, int] = {name: totals[name] for name in sorted(STATES) if totals[name]}
    return RunTotals(
        run=run,
        states=states,
        put_again=totals["again"],
        executed=totals["executed"],
        hits=totals["hits"],
        micros=totals["micros"],
        tokens=totals["tokens"],
    )


def _agent(row: Any) -> BatchAgent:
    return agent_from_row(row, print_id(row[10]), print_id(row[11]))


def _batch_from_row(row: Any) -> BatchRecord:
    return BatchRecord(
        id=print_id(row[0]),
        ordinal=row[1],
        run=row[2],
        lane=row[3],
        rank=row[4],
        shape=BatchShape(depth=row[5], branching=row[6]),
        template=row[7],
        retries=row[8],
        folded=row[9],
        state=row[10],
    )
