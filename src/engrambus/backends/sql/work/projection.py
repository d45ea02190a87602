"""The projection of the work store: how each fact changes its tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec

from engrambus.backends.sql.work.database import WorkDatabase, id_head, print_id, raw_id
from engrambus.backends.sql.work.schedule_rows import ScheduleRows
from engrambus.backends.sql.work.state import (
    KNOWN_RULES,
    GroupFields,
    PendingFigures,
    WorkIndexState,
    history_row,
    new_shape,
    number_of_rules,
    read_history,
)
from engrambus.core.project_clock import ClockCorrected
from engrambus.evidence.receipts import Receipt
from engrambus.space.batches import LeafRange, count_leaves, united, without
from engrambus.space.schedules import (
    ScheduleAdded,
    ScheduleEmitted,
    ScheduleFact,
    ScheduleMoved,
    SchedulePaused,
    ScheduleRefused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleSkipped,
)
from engrambus.space.tuples import (
    LIVE_STATES,
    MAX_GENERATIONS,
    STATES,
    AgentPosition,
    AgentsFolded,
    AlarmRaised,
    BatchAgent,
    BatchSpawned,
    BodyDamaged,
    BodyPurged,
    CostHistory,
    EpochBegun,
    Fact,
    Fence,
    FoldedEnded,
    IdempotencyKeyUsed,
    LeaseRenewed,
    LeavesUnfolded,
    LimitRemoved,
    LimitRule,
    LimitRules,
    LimitSet,
    Price,
    RunningStep,
    StepCost,
    StepDone,
    StepHit,
    StepStarted,
    TaskChanged,
    TupleBlocked,
    TupleClaimed,
    TupleDone,
    TuplePut,
    TupleRecord,
    TupleReleased,
    TupleTaken,
    TupleUnblocked,
    after_child_end,
    after_claim,
    after_clock_corrected,
    after_cost,
    after_execution,
    after_overspending,
    index_entries,
    match_of,
    new_agent,
    new_record,
    next_yools,
    pools_of_rule,
    rule_of,
    subject_of_body,
    turn_of,
)

REASON = b""
"""The blocker of a tuple that is blocked by a reason in words."""
MAX_CACHED_RUNS = 1024
MAX_CACHED_NEEDS = 1024
MAX_CACHED_GROUPS = 16384
MAX_FRESH_CLAIMS = 4096
MERGED_IDS = 2048
"""New ids that gather in a small table before they are merged into the large one (decision 22)."""
MAX_PENDING_FIGURES = 24
"""Lanes, runs and yools with pending figures before these are written to their tables (decision 35)."""

ALL_POOLS = ("", "\U0010ffff")
"""The names between which every pool lies."""

_LIVE_COLUMNS: dict[str, int] = {state: column for column, state in enumerate(LIVE_STATES)}
RUN_COLUMNS = (*STATES, "again", "executed", "hits", "micros", "tokens")
_encode = msgspec.json.Encoder().encode

Summary = tuple[int, str, str, int, int]
"""A tuple's ordinal, state, lane, rank and the number of its run."""


def record_from_row(row: Any) -> TupleRecord:
    """Return the tuple that a row with the columns of the query `columns` holds."""
    return TupleRecord(
        ordinal=row[0],
        id=print_id(row[1]),
        state=row[2],
        lane=row[3],
        rank=row[4],
        run=row[5],
        attempts=row[6],
        ready_us=row[7],
        fence=None if row[8] is None else Fence(row[8], row[9]),
        worker=row[10],
        lease_until_us=row[11],
        deadline_us=row[12],
        retries=row[13],
        budget_micros=row[14],
        budget_tokens=row[15],
        spent_micros=row[16],
        spent_tokens=row[17],
        reserved_micros=row[18],
        reserved_tokens=row[19],
        alarmed=bool(row[20]),
        parent_id=None if row[21] is None else print_id(row[21]),
        put_again_as=None if row[22] is None else print_id(row[22]),
        own_micros=row[23],
        own_tokens=row[24],
        final_receipt_number=row[25],
        body=row[26],
        not_before_us=row[28],
    )


class WorkProjection:
    """Applies facts inside one transaction. Rows are gathered and written by `flush`."""

    def __init__(self, database: WorkDatabase, state: WorkIndexState) -> None:
        self.database = database
        self.state = state
        if state.has_batches is None:  # most projects have none, and save a query for every change
            row: Any = database.row("any_batch")
            state.has_batches = bool(row[0])
        self.read: dict[str, TupleRecord] = {}
        """Tuples that a change has read to decide, until something happens to them."""
        self.groups: dict[str, int] = {}
        """Groups of tuples that a change has claimed."""
        self.has_new_shape = False
        """True if groups or the list of batches have changed in this transaction."""
        self._summaries: dict[str, Summary] = {}
        self._rows: defaultdict[str, list[Any]] = defaultdict(list)
        """Values of the rows to write, by query, one row after the other."""
        self._last_written: dict[int, int] = {}
        """The last query gathered for each tuple, as its position in `_WRITE_ORDER`."""

    def apply(self, fact: Fact | ScheduleFact, at_us: int) -> None:
        """Apply one fact."""
        match fact:
            case TuplePut():
                self._put(fact, at_us)
            case TupleClaimed():
                self._claim(fact, at_us)
            case StepDone():
                self._finish_step(fact)
            case TupleDone():
                ordinal = self._set_state(fact.id, fact.state)
                self._change("end_tuple", ordinal, fact.state, self._add_receipt(fact.receipt, fact.run, ordinal))
                self._end_agent(ordinal, fact.state)
            case LeaseRenewed():
                ordinal, _, lane, _, _ = self._find(fact.id)
                self._change("renew", ordinal, fact.lease_until_us)
                self._note_time(lane, fact.lease_until_us)
            case TupleReleased():
                ordinal = self._set_state(fact.id, "waiting")
                self._release(fact, ordinal, at_us)
            case TupleBlocked():
                ordinal = self._set_state(fact.id, "blocked")
                self._add_blocks(ordinal, fact.on, fact.reason, fact.by)
                self._change("set_state", ordinal, "blocked", 0)
            case TupleUnblocked():
                self._unblock(fact, at_us)
            case TaskChanged():
                ordinal = self._find(fact.id)[0]
                self.execute(
                    "insert_task_change",
                    *(ordinal, at_us, fact.what, fact.by, fact.text, fact.owner, fact.process),
                )
            case IdempotencyKeyUsed():
                accepted = raw_id(fact.accepted) if fact.accepted is not None else None
                values = fact.idempotency_key, raw_id(fact.id), fact.request_digest, accepted
                self._rows["insert_idempotent_put"] += values
            case TupleTaken():
                ordinal = self._set_state(fact.id, "taken")
                self._change("end_tuple", ordinal, "taken", None)
                self._end_agent(ordinal, "taken")
            case BatchSpawned():
                self._spawn(fact)
            case LeavesUnfolded():
                batch = self._find(fact.id)[0]
                self._set_folded(batch, [LeafRange(fact.start, fact.stop)], folded=False)
            case AgentsFolded():
                self._fold(fact)
            case FoldedEnded():
                self._end_folded(fact)
            case StepHit():
                ordinal, _, _, _, run = self._find(fact.id)
                raw = raw_id(fact.receipt)
                self._link(ordinal, raw, fact.step)
                self._rows["insert_hit"] += (
                    *(self.state.receipts, self.state.links),
                    *(run, ordinal, fact.step, raw, at_us),
                )
                self._count(run, "hits", 1)
            case StepStarted():
                ordinal = self._find(fact.id)[0]
                self._stop_steps(ordinal, fact.step)
                self.state.steps_run = True
                self.execute("insert_running", ordinal, fact.step, fact.micros, fact.tokens, fact.yool)
                self._spend(ordinal, 0, 0, fact.micros, fact.tokens)
            case StepCost():
                self._add_cost(fact)
            case AlarmRaised():
                self._rows["alarm"] += (self._find(fact.id)[0],)
            case EpochBegun():
                self.state.epoch, self.state.boot, self.state.counter = fact.epoch, fact.boot, 0
                self.state.quiet_until.clear()
                if self.state.rules:
                    self.open_pools(*ALL_POOLS)
            case ClockCorrected():
                self.flush()
                self.execute("end_later_leases", at_us)
                self._correct_delays(fact.was_us, at_us)
                self.execute("correct_starts", at_us)
                self.open_pools(*ALL_POOLS)
                ScheduleRows(self.database).correct_times(at_us)
                self.state.fresh_claims = {}
                self.state.quiet_until.clear()
                self.read.clear()
            case LimitSet():
                self._set_rule(rule_of(fact, at_us))
            case LimitRemoved():
                rule = self.rules()[match_of(fact).id]
                self.execute("remove_rule", rule.match.id)
                self.execute("forget_starts", *pools_of_rule(rule))
                self._count_slots()
            case (
                ScheduleAdded()
                | ScheduleEmitted()
                | ScheduleSkipped()
                | ScheduleRefused()
                | SchedulePaused()
                | ScheduleResumed()
                | ScheduleMoved()
                | ScheduleRemoved()
            ):
                ScheduleRows(self.database).apply(fact, at_us)
            case BodyPurged():
                self._rows["record_purge"] += (raw_id(fact.sha), at_us, fact.reason)
            case BodyDamaged():
                self.flush()
                self.execute("delete_result", *self.database.id_key(fact.receipt))

    def flush(self) -> None:
        """Write the rows gathered so far."""
        if not self._rows:
            return
        for name in sorted(self._rows, key=_WRITE_POSITIONS.__getitem__):
            self.database.write(name, self._rows[name])
        self._rows.clear()
        self._last_written.clear()

    def finish(self) -> None:
        """Write everything gathered, pending figures included."""
        figures, self.state.figures = self.state.figures, PendingFigures()
        for lane, counts in figures.lanes.items():
            if any(counts):
                self.execute("add_lane_counts", lane, *counts)
        for run, totals in figures.runs.items():
            self.execute("add_run_totals", *(totals.get(column, 0) for column in RUN_COLUMNS), run)
        for name, turn in figures.turns.items():
            numbers, _, of_lane = name.partition(":")
            of_run, is_parent, parent = numbers.partition(".")
            if is_parent:
                self.execute("serve_parent", turn, int(parent), of_lane, int(of_run))
            else:
                self.execute("serve_run", turn, of_lane, int(of_run))
        for yool, history in figures.yools.items():
            self.execute("write_yool_cost", yool, *history_row(history))
        self.end_batch()

    def end_batch(self) -> None:
        """Write the rows gathered; pending figures and new ids only when there are many."""
        state = self.state
        if len(state.figures) > MAX_PENDING_FIGURES:
            self.finish()
            return
        self.flush()
        if state.ordinal - state.merged_tuples >= MERGED_IDS:
            self.database.run("merge_tuple_ids")
            state.merged_tuples = state.ordinal
        if state.receipts - state.merged_receipts >= MERGED_IDS:
            self.database.run("merge_receipt_ids")
            state.merged_receipts = state.receipts

    def _correct_delays(self, was_us: int, now_us: int) -> None:
        rows: list[Any] = [*self.database.rows("all_delayed")]
        for record in map(record_from_row, rows):
            # Whatever was found due by the wrong clock is looked at again by the next claim.
            self.execute("set_ready", after_clock_corrected(record, was_us, now_us).ready_us, 0, record.ordinal)

    def _put(self, fact: TuplePut, at_us: int) -> None:
        self.state.ordinal += 1
        record = new_record(fact, self.state.ordinal)
        run = self._run_number(fact.run)
        raw = raw_id(record.id)
        needs = self._needs_number(next_yools(record.body))
        parent = self._ordinal(record.parent_id) if record.parent_id else 0
        subject = subject_of_body(record.body, record.lane, record.run)
        names = (record.lane, run, needs, record.rank, subject.authority, parent, subject.key or "")
        group = self._group(names, record.ordinal)
        self._rows["insert_body"] += (record.ordinal, record.body)
        self._rows["insert_tuple"] += (
            record.ordinal,
            raw,
            record.state,
            record.lane,
            record.rank,
            run,
            record.ready_us,
            record.not_before_us,
            record.deadline_us,
            record.retries,
            record.budget_micros,
            record.budget_tokens,
            raw_id(record.parent_id) if record.parent_id else None,
            needs,
            group,
            int(record.ready_us <= at_us),
        )
        self._rows["insert_tuple_id"] += (id_head(raw), record.ordinal)
        if record.ready_us > at_us:
            self._note_time(record.lane, record.ready_us)
        self._summaries[record.id] = (record.ordinal, record.state, record.lane, record.rank, run)
        live = _LIVE_COLUMNS.get(record.state)
        if live is not None:
            self._lane_counts(record.lane)[live] += 1
        self._count(run, record.state, 1)
        if fact.blocked_by:
            self._add_blocks(record.ordinal, fact.blocked_by, None, "")
        if fact.agent is not None:
            self._insert_agent(record.ordinal, record.id, fact.agent)
        elif record.parent_id is not None and self.state.has_batches:
            self.execute("keep_agent", self._find(record.parent_id)[0])
        for path, value in index_entries(record.body, self.state.indexed):
            self._rows["insert_posting"] += (path, value, 1, -record.rank, record.ordinal)
        if fact.accepted is not None:
            self._add_receipt(fact.accepted, fact.run, record.ordinal)
        if fact.idempotency_key is not None:
            accepted = raw_id(fact.accepted.id) if fact.accepted is not None else None
            self._rows["insert_idempotent_put"] += (fact.idempotency_key, raw, fact.request_digest or "", accepted)
        if fact.replaces is not None:
            replaced, _, _, _, replaced_run = self._find(fact.replaces)
            self._rows["mark_put_again"] += (raw, replaced)
            self._count(replaced_run, "again", 1)
            self.execute("move_blocks", raw, raw_id(fact.replaces))

    def _claim(self, fact: TupleClaimed, at_us: int) -> None:
        record = self.read.get(fact.id)
        ordinal = self._set_state(fact.id, "claimed")
        self._note_time(self._summaries[fact.id][2], fact.lease_until_us)
        self._change("claim", ordinal, fact.epoch, fact.counter, fact.worker, fact.lease_until_us)
        self.state.counter = fact.counter
        # decision 35: a first claim has no receipts and no costs, so completing it need not ask the index for them
        if record is not None and not record.attempts and not record.ready_us:
            fresh = self.state.fresh_claims
            if len(fresh) >= MAX_FRESH_CLAIMS:
                fresh.clear()
            fresh[record.id] = after_claim(record, fact)
        group = self.groups.pop(fact.id, None)
        if group is None:
            self.flush()
            row: Any = self.database.row("group_of", ordinal)
            group = row[0]
        fields = self.group_fields(group)
        turns, turn = self.state.figures.turns, turn_of(Fence(fact.epoch, fact.counter))
        turns[fields.turns[0]] = turns[fields.turns[1]] = turn
        for rule, pool in self.rules().pools(fields.subject) if self.state.rules else ():
            self.execute("insert_slot", pool, ordinal)
            if rule.starts is not None:
                self.execute("insert_start", pool, at_us)
                self.execute("trim_starts", pool, rule.starts)

    def _release(self, fact: TupleReleased, ordinal: int, at_us: int) -> None:
        self.flush()
        row: Any = self.database.row("body", ordinal)
        finished: list[Any] = [*self.database.rows("finished", *self.database.id_key(fact.id))]
        needs = self._needs_number(next_yools(row[0], [step for step, _ in finished]))
        old: Any = self.database.row("group_of", ordinal)
        fields = self.group_fields(old[0])
        _, _, lane, rank, run = self._summaries[fact.id]
        group = self._group((lane, run, needs, rank, fields.authority, fields.parent, fields.key), ordinal)
        due = int(fact.ready_us <= at_us)
        if not due:
            self._note_time(lane, fact.ready_us)
        self._change("release", ordinal, 0 if fact.counts_attempt else 1, fact.ready_us, needs, group, due)

    # Groups and limits (decision 110)

    def rules(self) -> LimitRules:
        """Return the limits and pauses."""
        return KNOWN_RULES.read(self.state.rules, lambda: self.database.rows("rules"))

    def _set_rule(self, rule: LimitRule) -> None:
        self.execute("set_rule", rule.match.id, _encode(rule))
        if rule.starts is None:
            self.execute("forget_starts", *pools_of_rule(rule))
        self._count_slots()

    def _count_slots(self) -> None:
        """Count the claimed tuples by the rules as they are now, and open every pool: the next claims close some."""
        bodies: Any = self.database.rows("rules")
        self.state.rules = number_of_rules(body for (body,) in bodies)
        self.open_pools(*ALL_POOLS)
        self.flush()
        self.execute("clear_slots")
        claimed: list[Any] = [*self.database.rows("claimed_groups")]
        for ordinal, group in claimed if self.state.rules else ():
            for _, pool in self.rules().pools(self.group_fields(group).subject):
                self.execute("insert_slot", pool, ordinal)

    def open_pools(self, first: str, last: str) -> None:
        """Let the next claims look again at the groups that pools hold, from one to another by name."""
        if [*self.database.rows("forget_closed", first, last)]:
            self._note_new_shape()
            for name in ("open_held_lane_runs", "open_held_siblings", "open_held_groups", "forget_held"):
                self.database.run(name, first, last)

    def _free_slots(self, ordinal: int) -> None:
        """Open the pools in which a tuple was counted."""
        pools: list[Any] = [*self.database.rows("pools_of_tuple", ordinal)]
        if pools:
            self.execute("delete_slots", ordinal)
            for (pool,) in pools:
                self.open_pools(pool, pool)

    def _group(self, names: tuple[str, int, int, int, str, int, str], ordinal: int) -> int:
        """Return the number of a group, which a tuple is going to wait in."""
        numbers = self.state.group_numbers
        number = numbers.get(names)
        if number is None:
            if len(numbers) >= MAX_CACHED_GROUPS:
                numbers.clear()
            number = numbers[names] = self._find_group(names, ordinal)
        self.fill_group(number, ordinal)
        return number

    def _find_group(self, names: tuple[str, int, int, int, str, int, str], ordinal: int) -> int:
        *family, key = names
        known = self.state.sibling_numbers
        siblings = known.get(tuple(family))
        if siblings is None:
            if len(known) >= MAX_CACHED_GROUPS:
                known.clear()
            siblings = known[tuple(family)] = self._find_siblings(names)
        number = self._number("insert_group", siblings, key, ordinal)
        if number:  # it is new and open, and so is what it lies below
            self.execute("open_siblings", siblings)
            self.execute("open_lane_run", siblings)
            self.state.filled.add(number)
        return number or self._number("group", siblings, key)

    def _find_siblings(self, names: tuple[str, int, int, int, str, int, str]) -> int:
        lane, run, needs, rank, authority, parent, _ = names
        lane_run = self._number("lane_run", lane, run, needs, rank, authority)
        lane_run = lane_run or self._number("insert_lane_run", lane, run, needs, rank, authority)
        siblings = self._number("sibling", lane_run, parent)
        return siblings or self._number("insert_sibling", lane_run, parent, lane, run)

    def _number(self, query: str, *values: object) -> int:
        """Return the number that a query finds or gives; 0 if there is none."""
        if query in CHANGES_OF_SHAPE:
            self._note_new_shape()
        row: Any = self.database.row(query, *values)
        return 0 if row is None else row[0]

    def _note_new_shape(self) -> None:
        if not self.has_new_shape:
            self.has_new_shape = True
            self.state.shape = new_shape()
            # At once: a claim that only closes groups has no line, and its commit writes no state.
            self.database.run("set_shape", self.state.shape)

    def _note_time(self, lane: str, time_us: int) -> None:
        """Note a time from which a claim has to look for a late tuple of a lane."""
        quiet = self.state.quiet_until
        if time_us < quiet.get(lane, 0):
            quiet[lane] = time_us

    def fill_group(self, group: int, ordinal: int) -> None:
        """Open a group if it was closed as empty, for a tuple that waits in it."""
        filled = self.state.filled
        if group in filled and ordinal == self.state.ordinal:
            return  # the newest tuple is behind every other
        row: Any = self.database.row("group_state", group)
        state, head, siblings = row
        if state == 0 or ordinal < head:
            self.execute("fill_group", ordinal, group)
        if state == 0:
            self.execute("open_siblings", siblings)
            self.execute("open_lane_run", siblings)
        if len(filled) >= MAX_CACHED_GROUPS:
            filled.clear()
        filled.add(group)

    def group_fields(self, group: int) -> GroupFields:
        """Return what the tuples of a group have in common."""
        cached = self.state.group_fields
        fields = cached.get(group)
        if fields is None:
            row: Any = self.database.row("group_fields", group)
            if len(cached) >= MAX_CACHED_GROUPS:
                cached.clear()
            fields = cached[group] = GroupFields.from_row(row)
        return fields

    def _set_state(self, tuple_id: str, state: str) -> int:
        """Move a tuple to a state and stop its steps; return its ordinal."""
        ordinal, previous, lane, rank, run = self._find(tuple_id)
        self._stop_steps(ordinal)
        if previous == "claimed" and self.state.rules:
            self.flush()
            self._free_slots(ordinal)
        if previous != state:
            counts = self._lane_counts(lane)
            before, after = _LIVE_COLUMNS.get(previous), _LIVE_COLUMNS.get(state)
            if before is not None:
                counts[before] -= 1
            if after is not None:
                counts[after] += 1
            elif previous == "blocked":
                self.execute("delete_blocks", ordinal)
            self._count(run, previous, -1)
            self._count(run, state, 1)
            if self.state.indexed and after is None:
                self._repost_ended(ordinal, rank, state)
            self._summaries[tuple_id] = (ordinal, state, lane, rank, run)
            if self.state.has_batches:
                self.execute("not_idle", ordinal)
        return ordinal

    def _add_blocks(self, ordinal: int, on: Sequence[str], reason: str | None, by: str) -> None:
        self.state.any_blocks = True
        for blocker in on:
            self.execute("insert_block", ordinal, raw_id(blocker), "", by)
            if self.state.has_batches:
                self.execute("keep_agent_with_id", *self.database.id_key(blocker))
        if reason is not None:
            self.execute("insert_block", ordinal, REASON, reason, by)

    def _unblock(self, fact: TupleUnblocked, at_us: int) -> None:
        """Take away what blocked a tuple; let it wait if nothing else blocks it."""
        ordinal = self._find(fact.id)[0]
        for blocker in (*map(raw_id, fact.on), *([REASON] if fact.reason else [])):
            self.execute("delete_block", ordinal, blocker)
        self.state.any_blocks = None
        row: Any = self.database.row("is_blocked", ordinal)
        if not row[0]:
            self._set_state(fact.id, "waiting")
            self.flush()
            waits: Any = self.database.row("wait_of", ordinal)
            ready_us, group = waits
            self._change("set_state", ordinal, "waiting", int(ready_us <= at_us))
            if ready_us > at_us:
                self._note_time(self._summaries[fact.id][2], ready_us)
            self.fill_group(group, ordinal)

    # Batches

    def _spawn(self, fact: BatchSpawned) -> None:
        ordinal, _, lane, rank, _ = self._find(fact.id)
        leaves = fact.branching**fact.depth
        template = bytes(fact.template)
        self.execute("insert_batch", ordinal, lane, rank, fact.depth, fact.branching, template, fact.retries, leaves)
        self.execute("insert_folded_leaves", ordinal, 0, leaves)
        self.state.has_batches = True

    def _insert_agent(self, ordinal: int, tuple_id: str, position: AgentPosition) -> None:
        batch = self._find(position.batch)[0] if position.level else ordinal
        agent = new_agent(tuple_id, position)
        self.execute(
            "insert_agent",
            *(ordinal, batch, position.level, position.number),
            *(position.children, agent.children_left, agent.is_idle),
        )

    def _end_agent(self, ordinal: int, state: str) -> None:
        """Count the end of an agent in the node above it."""
        if not self.state.has_batches:
            return
        row: Any = self.database.row("agent_by_ordinal", ordinal)
        if row is None or row[2] == 0:
            return
        shape: Any = self.database.row("batch_shape", row[1])
        place = (row[1], row[2] - 1, row[3] // shape[0])
        parent_row: Any = self.database.row("agent_by_place", *place)
        self._update_agent(parent_row[0], after_child_end(agent_from_row(parent_row), agent_from_row(row), state))

    def _update_agent(self, ordinal: int, agent: BatchAgent) -> None:
        self.execute("update_agent", agent.children_left, agent.dead, agent.cancelled, ordinal)

    def _fold(self, fact: AgentsFolded) -> None:
        """Remove the tuples of idle agents; their leaves are folded again."""
        batch = self._find(fact.id)[0]
        leaves = [LeafRange(*leaves) for leaves in fact.leaves]
        self._set_folded(batch, leaves, folded=True)
        shape: Any = self.database.row("batch_shape", batch)
        numbers = ((shape[1], number) for start, stop in leaves for number in range(start, stop))
        self.flush()
        for level, number in (*numbers, *fact.nodes):
            row: Any = self.database.row("agent_by_place", batch, level, number)
            self._remove_tuple(row[0])

    def _remove_tuple(self, ordinal: int) -> None:
        """Remove a tuple to which nothing has happened since it was put."""
        row: Any = self.database.row("tuple_id", ordinal)
        tuple_id, head = print_id(row[0]), id_head(row[0])
        _, state, lane, rank, run = self._find(tuple_id)
        del self._summaries[tuple_id]
        if state == "waiting":
            self._lane_counts(lane)[0] -= 1
        self._count(run, state, -1)
        if self.state.indexed:
            body: Any = self.database.row("body", ordinal)
            for path, value in index_entries(body[0], self.state.indexed):
                self.execute("delete_posting", path, value, 1, -rank, ordinal)
        for name in ("delete_agent", "delete_body", "delete_tuple"):
            self.execute(name, ordinal)
        for name in ("delete_tuple_id", "delete_new_tuple_id"):
            self.execute(name, head, ordinal)

    def _end_folded(self, fact: FoldedEnded) -> None:
        batch = self._find(fact.id)[0]
        leaves = [LeafRange(*leaves) for leaves in fact.leaves]
        self._set_folded(batch, leaves, folded=False)
        for level, agents in fact.agents:
            self.execute("add_folded_ends", batch, level, fact.state, agents)
        row: Any = self.database.row("agent_by_place", batch, fact.level, fact.number)
        node = agent_from_row(row)
        cancelled = node.cancelled + count_leaves(leaves)
        self._update_agent(row[0], msgspec.structs.replace(node, cancelled=cancelled))

    def _set_folded(self, batch: int, leaves: list[LeafRange], *, folded: bool) -> None:
        """Add leaves to the folded ones of a batch, or remove them."""
        for changed in leaves:
            query = self.database.rows("folded_leaves_meeting", batch, *changed)
            ranges = [LeafRange(*row) for row in query]
            after = united([*ranges, changed]) if folded else without(ranges, [changed])
            for old in ranges:
                self.execute("delete_folded_leaves", batch, old.start)
            for new in after:
                self.execute("insert_folded_leaves", batch, *new)
            self.execute("add_folded", count_leaves(after) - count_leaves(ranges), batch)

    def _repost_ended(self, ordinal: int, rank: int, state: str) -> None:
        """Move the postings of a tuple out of the live ones; a taken tuple has none."""
        self.flush()
        row: Any = self.database.row("body", ordinal)
        for path, value in index_entries(row[0], self.state.indexed):
            self.execute("delete_posting", path, value, 1, -rank, ordinal)
            if state != "taken":
                self.execute("insert_posting", path, value, 0, -rank, ordinal)

    def _find(self, tuple_id: str) -> Summary:
        """Return the summary of a tuple that something happens to, and drop cached reads of it."""
        self.state.fresh_claims.pop(tuple_id, None)
        record = self.read.pop(tuple_id, None)
        summary = self._summaries.get(tuple_id)
        if summary is None:
            if record is not None:
                summary = record.ordinal, record.state, record.lane, record.rank, self._run_number(record.run)
            else:
                row: Any = self.database.row("summary", *self.database.id_key(tuple_id))
                summary = row
            self._summaries[tuple_id] = summary
        return summary

    def _ordinal(self, tuple_id: str) -> int:
        """Return the ordinal of a tuple; 0 if there is none."""
        if tuple_id in self._summaries:
            return self._summaries[tuple_id][0]
        row: Any = self.database.row("summary", *self.database.id_key(tuple_id))
        return 0 if row is None else row[0]

    def _finish_step(self, fact: StepDone) -> None:
        ordinal, _, _, _, run = self._find(fact.id)
        running = self._stop_steps(ordinal, fact.step)
        self._spend(ordinal, fact.micros, fact.tokens, 0, 0)
        self._count_cost(fact, ordinal, run)
        receipt = fact.receipt
        self._set_history(receipt.yool, after_execution(self._history(receipt.yool), fact, running))
        succeeded = receipt.exit == 0
        number = self._add_receipt(receipt, fact.run, ordinal, fact.step if succeeded else None)
        self._count(self._run_number(fact.run), "executed", 1)
        if not succeeded:
            return
        if receipt.key is not None:
            self._rows["insert_result"] += (receipt.key, number)

    def _history(self, yool: str) -> CostHistory:
        pending = self.state.figures.yools.get(yool)
        return pending or read_history(self.database.row("yool_cost", yool))

    def _set_history(self, yool: str, history: CostHistory) -> None:
        self.state.figures.yools[yool] = history

    def _add_receipt(self, receipt: Receipt, run: str, ordinal: int, step: int | None = None) -> int:
        raw = raw_id(receipt.id)
        self.state.receipts += 1
        self._rows["insert_receipt"] += (self.state.receipts, raw, self._run_number(run), _encode(receipt))
        self._rows["insert_receipt_id"] += (id_head(raw), self.state.receipts)
        self._link(ordinal, raw, step)
        return self.state.receipts

    def _link(self, ordinal: int, receipt: bytes, step: int | None) -> None:
        self.state.links += 1
        self._rows["insert_link"] += (ordinal, self.state.links, receipt, step)

    def _add_cost(self, fact: StepCost) -> None:
        ordinal, _, _, _, run = self._find(fact.id)
        row: Any = None
        if not fact.late:  # a late cost has no reservation: it was released with the claim
            row = self.database.row("running_step", ordinal, fact.step)
        self._count_cost(fact, ordinal, run)
        if row is None:
            self._spend(ordinal, fact.micros, fact.tokens, 0, 0)
            return
        running = RunningStep(tuple_id=fact.id, step=fact.step, micros=row[0], tokens=row[1])
        left = after_cost(running, fact)
        self.execute("reduce_running", fact.micros, fact.tokens, ordinal, fact.step)
        freed_micros = max(0, running.micros) - max(0, left.micros)
        freed_tokens = max(0, running.tokens) - max(0, left.tokens)
        self._spend(ordinal, fact.micros, fact.tokens, -freed_micros, -freed_tokens)
        yool = row[2]
        if yool and (left.micros < 0 or left.tokens < 0):
            counted: Any = self.database.row("counted_under_claim", ordinal, fact.epoch, fact.counter, fact.step)
            total = Price(micros=counted[0], tokens=counted[1])
            self._set_history(yool, after_overspending(self._history(yool), left, total))

    def _count_cost(self, fact: StepCost | StepDone, ordinal: int, run: int) -> None:
        """Add what a step spent to its run, and to this execution of it."""
        if fact.micros or fact.tokens:
            self.execute("add_step_cost", ordinal, fact.epoch, fact.counter, fact.step, fact.micros, fact.tokens)
            self._count(run, "micros", fact.micros)
            self._count(run, "tokens", fact.tokens)

    def _stop_steps(self, ordinal: int, step: int | None = None) -> RunningStep | None:
        """Release what is reserved for a running step, and return it, or for every running step of a tuple."""
        # Most tuples have no running step: one flag for all of them saves a query for every change.
        if self.state.steps_run is None:
            row: Any = self.database.row("any_running")
            self.state.steps_run = bool(row[0])
        if not self.state.steps_run:
            return None
        stopped: RunningStep | None = None
        rows: list[Any] = [*self.database.rows("running_steps", ordinal)]
        for running, micros, tokens in rows:
            if step is None or running == step:
                self.execute("delete_running", ordinal, running)
                self.state.steps_run = None
                self._spend(ordinal, 0, 0, -max(0, micros), -max(0, tokens))
                if running == step:
                    stopped = RunningStep(tuple_id="", step=running, micros=micros, tokens=tokens)
        return stopped

    def _spend(self, ordinal: int, micros: int, tokens: int, reserved_micros: int, reserved_tokens: int) -> None:
        """Add spent and reserved amounts to a tuple and its ancestors."""
        if not (micros or tokens or reserved_micros or reserved_tokens):
            return
        self.flush()  # the tuple may only be gathered, and an UPDATE needs its row
        if micros or tokens:
            self.execute("add_own_spent", micros, tokens, ordinal)
        for _ in range(MAX_GENERATIONS):
            self.execute("add_spent", micros, tokens, reserved_micros, reserved_tokens, ordinal)
            row: Any = self.database.row("parent", ordinal)
            if row[0] is None:
                return
            ordinal = self._find(print_id(row[0]))[0]

    def _lane_counts(self, lane: str) -> list[int]:
        return self.state.figures.lanes.setdefault(lane, [0] * len(LIVE_STATES))

    def _count(self, run: int, column: str, amount: int) -> None:
        counts = self.state.figures.runs.setdefault(run, {})
        counts[column] = counts.get(column, 0) + amount

    def _run_number(self, run: str) -> int:
        number = self.state.run_numbers.get(run)
        if number is None:
            row: Any = self.database.row("run_number", run)
            if row is None:
                self.state.runs += 1
                self.execute("insert_run", self.state.runs, run)
                row = (self.state.runs,)
            if len(self.state.run_numbers) >= MAX_CACHED_RUNS:
                self.state.run_numbers.clear()  # simpler than evicting one, and rare
            number = self.state.run_numbers[run] = row[0]
        return number

    def _needs_number(self, yools: tuple[str, ...]) -> int:
        numbers = self.state.needs_numbers
        number = numbers.get(yools)
        if number is None:
            text = _encode(yools).decode()
            row: Any = self.database.row("needs_number", text)
            if row is None:
                row = self.database.row("insert_needs", text)
            if len(numbers) >= MAX_CACHED_NEEDS:
                numbers.clear()
            number = numbers[yools] = row[0]
        return number

    def _change(self, name: str, ordinal: int, *values: object) -> None:
        """Gather a change of one tuple; write everything first if `_WRITE_ORDER` would swap it with an earlier one."""
        position = _WRITE_POSITIONS[name]
        if self._last_written.get(ordinal, -1) >= position:
            self.flush()
        self._last_written[ordinal] = position
        self._rows[name] += (*values, ordinal)

    def execute(self, name: str, *values: object) -> None:
        """Run one query at once."""
        if name in CHANGES_OF_SHAPE:
            self._note_new_shape()
        self.database.run(name, *values)


def agent_from_row(row: Any, tuple_id: str = "", batch_id: str = "") -> BatchAgent:
    """Return the agent that a row of the queries `agent…` holds; the ids are of its tuple and of its batch."""
    return BatchAgent(
        id=tuple_id,
        position=AgentPosition(batch=batch_id, level=row[2], number=row[3], children=row[4]),
        children_left=row[5],
        dead=row[6],
        cancelled=row[7],
        is_idle=bool(row[8]),
        is_kept=bool(row[9]),
    )


CHANGES_OF_SHAPE = frozenset(
    {
        *("insert_lane_run", "open_lane_run", "close_lane_run", "serve_run"),
        *("insert_sibling", "open_siblings", "close_siblings", "serve_parent"),
        *("insert_group", "fill_group", "close_group", "advance_group"),
        "insert_batch",
    }
)
"""Queries that change what `KnownShape` remembers."""

# Rows of one query are written together; changes of one tuple in one commit mostly happen in this order.
_WRITE_ORDER = (
    "insert_body",
    "insert_tuple",
    "insert_tuple_id",
    "insert_posting",
    "mark_put_again",
    "insert_idempotent_put",
    "claim",
    "renew",
    "insert_receipt",
    "insert_receipt_id",
    "insert_link",
    "insert_hit",
    "insert_result",
    "release",
    "set_state",
    "end_tuple",
    "alarm",
    "record_purge",
)
_WRITE_POSITIONS = {name: position for position, name in enumerate(_WRITE_ORDER)}
