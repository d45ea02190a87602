"""The work store in plain dictionaries. Read this to learn what a back end must do."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from engrambus.backends.facts import decode_work_facts
from engrambus.backends.memory.store import JournalledStore, MemoryJournal
from engrambus.core import Clock, ProjectTime
from engrambus.core.project_clock import ClockCorrected
from engrambus.evidence.receipts import Receipt
from engrambus.space.batches import BatchShape, LeafRange, count_leaves, united, without
from engrambus.space.schedules import (
    NEVER_US,
    Schedule,
    ScheduleAdded,
    ScheduleEmitted,
    ScheduleFact,
    ScheduleMoved,
    SchedulePaused,
    SchedulePosition,
    ScheduleRefused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleSkipped,
    ScheduleView,
    after_fact,
    new_schedule,
)
from engrambus.space.schedules import after_clock_corrected as schedule_after_clock_corrected
from engrambus.space.tuples import (
    ENDED,
    INTERNAL_RUN,
    LIVE_STATES,
    TASK_LANE,
    AgentsFolded,
    AlarmRaised,
    BatchAgent,
    BatchRecord,
    BatchSpawned,
    BodyDamaged,
    BodyPurged,
    CanRun,
    CostHistory,
    DelayedCounts,
    Epoch,
    EpochBegun,
    Fact,
    Fence,
    FoldedEnded,
    IdempotencyKeyUsed,
    IdempotentPut,
    LaneCounts,
    LeaseRenewed,
    LeavesUnfolded,
    LevelCounts,
    LimitRemoved,
    LimitRule,
    LimitRules,
    LimitSet,
    LimitUse,
    ListedReceipt,
    PoolUse,
    Price,
    ReceiptPosition,
    RunningStep,
    RunningWorker,
    RunTotals,
    StepCost,
    StepDone,
    StepHit,
    StepStarted,
    Subject,
    TaskChange,
    TaskChanged,
    TupleBlock,
    TupleBlocked,
    TupleClaimed,
    TupleDone,
    TuplePattern,
    TuplePut,
    TupleRecord,
    TupleReleased,
    TupleTaken,
    TupleUnblocked,
    TurnKey,
    Waiter,
    WaitingGroup,
    WaitKind,
    after_block,
    after_child_end,
    after_claim,
    after_clock_corrected,
    after_cost,
    after_end,
    after_execution,
    after_overspending,
    after_release,
    after_unblock,
    in_turn,
    limit_blocks,
    lineage,
    match_of,
    may_run,
    new_agent,
    new_record,
    next_yools,
    opens_us,
    pattern_fields,
    room_in,
    rule_of,
    subject_of,
    turn_of,
    unfinished_yools,
    use_of_starts,
)


class _Batch:
    """A batch: which of its leaves are folded, which of its agents are tuples, and how many ended while folded."""

    def __init__(self, fact: BatchSpawned) -> None:
        self.shape = BatchShape(depth=fact.depth, branching=fact.branching)
        self.template = bytes(fact.template)
        self.retries = fact.retries
        self.folded = [LeafRange(0, self.shape.leaves)]
        self.ids: dict[tuple[int, int], str] = {(0, 0): fact.id}
        """Tuples of the materialised agents, by level and number."""
        self.ended: dict[int, dict[str, int]] = {}
        """Number of agents that ended while folded, by level and state."""


class WorkState:
    """Everything the facts so far add up to."""

    def __init__(self) -> None:
        self.ordinal = 0
        self.batches: dict[str, _Batch] = {}
        self.agents: dict[str, BatchAgent] = {}
        """Materialised agents of batches, by tuple."""
        self.tuples: dict[str, TupleRecord] = {}
        self.receipts: dict[str, Receipt] = {}
        self.receipt_runs: list[tuple[str, str]] = []
        """Run and id of every receipt, in the order they were recorded."""
        self.hits: list[tuple[str, int, StepHit, int]] = []
        """Run, number of receipts before it, and time of every use of a receipt from the cache."""
        self.tuple_receipts: dict[str, list[str]] = {}
        self.finished: dict[str, dict[int, str]] = {}
        self.running: dict[str, dict[int, RunningStep]] = {}
        self.running_yools: dict[tuple[str, int], str] = {}
        self.counted: dict[tuple[str, Fence, int], Price] = {}
        self.cache: dict[str, list[str]] = {}
        """Ids of successful receipts by cache key, the newest last."""
        self.costs: dict[str, CostHistory] = {}
        self.totals: dict[str, RunTotals] = {}
        self.idempotent_puts: dict[str, IdempotentPut] = {}
        self.epoch = Epoch()
        self.purged: dict[str, int] = {}
        self.rules = LimitRules()
        self.starts: dict[str, list[int]] = {}
        """Times of the last starts of each pool whose rule has a rate, oldest first."""
        self.subjects: dict[str, Subject] = {}
        self.run_turns: dict[tuple[str, str], int] = {}
        """The last claim of each lane and run."""
        self.parent_turns: dict[tuple[str, str, int], int] = {}
        """The last claim of each lane, run and parent."""
        self.blocks: dict[str, dict[str, TupleBlock]] = {}
        """What blocks each blocked tuple, by the id of a tuple, or "" for a reason in words."""
        self.dependents: dict[str, set[str]] = {}
        """Ids of the tuples that each tuple blocks."""
        self.task_changes: dict[str, list[TaskChange]] = {}
        self.schedules: dict[str, Schedule] = {}

    def find(self, tuple_id: str) -> TupleRecord | None:
        """Return the tuple with that id; `lineage` needs this."""
        return self.tuples.get(tuple_id)

    def apply(self, fact: Fact | ScheduleFact, at_us: int) -> None:
        """Apply one fact."""
        match fact:
            case TuplePut():
                self._put(fact)
            case IdempotencyKeyUsed():
                self.idempotent_puts[fact.idempotency_key] = IdempotentPut(
                    tuple_id=fact.id, request_digest=fact.request_digest, receipt_id=fact.accepted
                )
            case TupleTaken():
                self._stop_steps(fact.id)
                self._replace(after_end(self.tuples[fact.id], "taken", None))
                self._end_agent(fact.id, "taken")
            case TupleClaimed():
                self._stop_steps(fact.id)
                self._replace(after_claim(self.tuples[fact.id], fact))
                self.epoch = msgspec.structs.replace(self.epoch, counter=fact.counter)
                self._note_start(self.tuples[fact.id], turn_of(Fence(fact.epoch, fact.counter)), at_us)
            case LeaseRenewed():
                self._replace(msgspec.structs.replace(self.tuples[fact.id], lease_until_us=fact.lease_until_us))
            case TupleReleased():
                self._stop_steps(fact.id)
                self._replace(after_release(self.tuples[fact.id], fact))
            case TupleBlocked():
                self._add_blocks(fact.id, fact.on, fact.reason, fact.by)
                self._replace(after_block(self.tuples[fact.id]))
            case TupleUnblocked():
                self._remove_blocks(fact.id, (*fact.on, *([""] if fact.reason else [])))
                is_blocked = fact.id in self.blocks
                self._replace(after_unblock(self.tuples[fact.id], is_blocked=is_blocked))
            case TaskChanged():
                self.task_changes.setdefault(fact.id, []).append(
                    TaskChange(
                        at_us=at_us,
                        what=fact.what,
                        by=fact.by,
                        text=fact.text,
                        owner=fact.owner,
                        process=fact.process,
                    )
                )
            case StepStarted():
                self._stop_steps(fact.id, fact.step)
                self.running.setdefault(fact.id, {})[fact.step] = RunningStep(
                    tuple_id=fact.id, step=fact.step, micros=fact.micros, tokens=fact.tokens
                )
                self.running_yools[fact.id, fact.step] = fact.yool
                self._reserve(fact.id, fact.micros, fact.tokens)
            case StepCost():
                self._add_cost(fact)
            case StepDone():
                running = self.running.get(fact.id, {}).get(fact.step)
                self._stop_steps(fact.id, fact.step)
                self._spend(fact)
                self._finish_step(fact, running)
            case StepHit():
                self.finished.setdefault(fact.id, {})[fact.step] = fact.receipt
                self.tuple_receipts.setdefault(fact.id, []).append(fact.receipt)
                run = self.tuples[fact.id].run
                self.hits.append((run, len(self.receipt_runs), fact, at_us))
                self._count(run, hits=1)
            case TupleDone():
                self._stop_steps(fact.id)
                self._remove_blocks(fact.id, tuple(self.blocks.get(fact.id, ())))
                self._add_receipt(fact.receipt, fact.run)
                self._replace(after_end(self.tuples[fact.id], fact.state, len(self.receipt_runs)))
                self._end_agent(fact.id, fact.state)
            case BatchSpawned():
                self.batches[fact.id] = _Batch(fact)
            case LeavesUnfolded():
                batch = self.batches[fact.id]
                batch.folded = without(batch.folded, [LeafRange(fact.start, fact.stop)])
            case AgentsFolded():
                self._fold(fact)
            case FoldedEnded():
                self._end_folded(fact)
            case AlarmRaised():
                self._replace(msgspec.structs.replace(self.tuples[fact.id], alarmed=True))
            case EpochBegun():
                self.epoch = Epoch(number=fact.epoch, boot=fact.boot)
            case ClockCorrected():
                self._correct_times(fact.was_us, at_us)
            case LimitSet():
                rule = rule_of(fact, at_us)
                self.rules = LimitRules([*(self.rules | {rule.match.id: rule}).values()])
                if rule.starts is None:
                    self._forget_starts(rule.match.id)
            case LimitRemoved():
                removed = match_of(fact).id
                self.rules = LimitRules(rule for name, rule in self.rules.items() if name != removed)
                self._forget_starts(match_of(fact).id)
            case ScheduleAdded():
                self.schedules[fact.name] = new_schedule(fact, at_us)
            case ScheduleRemoved():
                del self.schedules[fact.name]
            case (
                ScheduleEmitted()
                | ScheduleSkipped()
                | ScheduleRefused()
                | SchedulePaused()
                | ScheduleResumed()
                | ScheduleMoved()
            ):
                schedule = self.schedules[fact.name]
                state = after_fact(schedule.state, fact, at_us)
                self.schedules[fact.name] = msgspec.structs.replace(schedule, state=state)
            case BodyPurged():
                self.purged[fact.sha] = at_us
            case BodyDamaged():
                for receipts in self.cache.values():
                    if fact.receipt in receipts:
                        receipts.remove(fact.receipt)

    def view(self, time: ProjectTime, *, commits: int, journal_bytes: int) -> ScheduleView:
        """Return a view of the state as of a moment."""
        return MemoryWorkView(self, time.now_us)

    def _put(self, fact: TuplePut) -> None:
        self.ordinal += 1
        record = new_record(fact, self.ordinal)
        self.tuples[record.id] = record
        self.subjects[record.id] = subject_of(record)
        if fact.agent is not None:
            self.agents[record.id] = new_agent(record.id, fact.agent)
            if fact.agent.level:  # the root comes before its batch
                self.batches[fact.agent.batch].ids[fact.agent.level, fact.agent.number] = record.id
        elif record.parent_id is not None:
            self._keep_agent(record.parent_id)
        totals = self.totals.get(record.run) or RunTotals(
            run=record.run, states={}, put_again=0, executed=0, hits=0, micros=0, tokens=0
        )
        states = {**totals.states, record.state: totals.states.get(record.state, 0) + 1}
        self.totals[record.run] = msgspec.structs.replace(totals, states=states)
        self._add_blocks(fact.id, fact.blocked_by, None, "")
        if fact.accepted is not None:
            self._add_receipt(fact.accepted, fact.run)
        if fact.idempotency_key is not None:
            accepted = fact.accepted.id if fact.accepted is not None else None
            self.idempotent_puts[fact.idempotency_key] = IdempotentPut(
                tuple_id=fact.id, request_digest=fact.request_digest or "", receipt_id=accepted
            )
        if fact.replaces is not None:
            replaced = self.tuples[fact.replaces]
            self._replace(msgspec.structs.replace(replaced, put_again_as=fact.id))
            self._count(replaced.run, put_again=1)
            for dependent in self.dependents.pop(fact.replaces, set()):
                block = self.blocks[dependent].pop(fact.replaces)
                self.blocks[dependent][fact.id] = msgspec.structs.replace(block, on=fact.id)
                self.dependents.setdefault(fact.id, set()).add(dependent)

    def _add_blocks(self, tuple_id: str, on: Sequence[str], reason: str | None, by: str) -> None:
        added = {blocker: TupleBlock(on=blocker, by=by) for blocker in on}
        if reason is not None:
            added[""] = TupleBlock(reason=reason, by=by)
        if added:
            self.blocks.setdefault(tuple_id, {}).update(added)
        for blocker in on:
            self.dependents.setdefault(blocker, set()).add(tuple_id)
            self._keep_agent(blocker)

    def _remove_blocks(self, tuple_id: str, removed: Iterable[str]) -> None:
        blocks = self.blocks.get(tuple_id, {})
        for blocker in removed:
            if blocks.pop(blocker, None) is not None and blocker:
                self.dependents[blocker].discard(tuple_id)
        if not blocks:
            self.blocks.pop(tuple_id, None)

    def _replace(self, record: TupleRecord) -> None:
        """Replace a tuple's record, and count it in its new state."""
        previous = self.tuples[record.id]
        self.tuples[record.id] = record
        if previous.state != record.state:
            agent = self.agents.get(record.id)
            if agent is not None:
                self.agents[agent.id] = msgspec.structs.replace(agent, is_idle=False)
            totals = self.totals[record.run]
            states = dict(totals.states)
            states[previous.state] -= 1
            states[record.state] = states.get(record.state, 0) + 1
            nonzero = {state: count for state, count in states.items() if count}
            self.totals[record.run] = msgspec.structs.replace(totals, states=nonzero)

    def _keep_agent(self, tuple_id: str) -> None:
        """Keep an agent materialised, since a tuple from outside its batch depends on it."""
        agent = self.agents.get(tuple_id)
        if agent is not None:
            self.agents[tuple_id] = msgspec.structs.replace(agent, is_kept=True)

    def _end_agent(self, tuple_id: str, state: str) -> None:
        """Count the end of an agent in the node above it."""
        child = self.agents.get(tuple_id)
        if child is None or child.position.level == 0:
            return
        batch = self.batches[child.position.batch]
        parent_id = batch.ids[child.position.level - 1, child.position.number // batch.shape.branching]
        self.agents[parent_id] = after_child_end(self.agents[parent_id], child, state)

    def _fold(self, fact: AgentsFolded) -> None:
        """Remove the tuples of idle agents; their leaves are folded again."""
        batch = self.batches[fact.id]
        leaves = [LeafRange(*leaves) for leaves in fact.leaves]
        batch.folded = united([*batch.folded, *leaves])
        numbers = ((batch.shape.depth, number) for start, stop in leaves for number in range(start, stop))
        for place in (*numbers, *fact.nodes):
            tuple_id = batch.ids.pop(place)
            record = self.tuples.pop(tuple_id)
            del self.agents[tuple_id], self.subjects[tuple_id]
            totals = self.totals[record.run]
            states = {**totals.states, record.state: totals.states[record.state] - 1}
            nonzero = {state: count for state, count in states.items() if count}
            self.totals[record.run] = msgspec.structs.replace(totals, states=nonzero)

    def _end_folded(self, fact: FoldedEnded) -> None:
        batch = self.batches[fact.id]
        leaves = [LeafRange(*leaves) for leaves in fact.leaves]
        batch.folded = without(batch.folded, leaves)
        for level, count in fact.agents:
            ended = batch.ended.setdefault(level, {})
            ended[fact.state] = ended.get(fact.state, 0) + count
        node = self.agents[batch.ids[fact.level, fact.number]]
        self.agents[node.id] = msgspec.structs.replace(node, cancelled=node.cancelled + count_leaves(leaves))

    def _finish_step(self, fact: StepDone, running: RunningStep | None) -> None:
        receipt = fact.receipt
        self._add_receipt(receipt, fact.run)
        self._count(fact.run, executed=1)
        history = after_execution(self.costs.get(receipt.yool, CostHistory()), fact, running)
        self.costs[receipt.yool] = history
        if receipt.exit != 0:
            return
        self.finished.setdefault(fact.id, {})[fact.step] = receipt.id
        if receipt.key is not None:
            self.cache.setdefault(receipt.key, []).append(receipt.id)

    def _add_receipt(self, receipt: Receipt, run: str) -> None:
        self.receipts[receipt.id] = receipt
        self.receipt_runs.append((run, receipt.id))
        self.tuple_receipts.setdefault(receipt.tuple_id, []).append(receipt.id)

    def _add_cost(self, fact: StepCost) -> None:
        steps = self.running.get(fact.id, {})
        running = None if fact.late else steps.get(fact.step)
        self._spend(fact)
        if running is None:
            return
        left = steps[fact.step] = after_cost(running, fact)
        self._reserve(
            fact.id,
            max(0, left.micros) - max(0, running.micros),
            max(0, left.tokens) - max(0, running.tokens),
        )
        yool = self.running_yools[fact.id, fact.step]
        if yool and (left.micros < 0 or left.tokens < 0):
            total = self.counted[fact.id, Fence(fact.epoch, fact.counter), fact.step]
            self.costs[yool] = after_overspending(self.costs.get(yool, CostHistory()), left, total)

    def _correct_times(self, was_us: int, now_us: int) -> None:
        """End the leases that a wrong clock had made too long, and shorten the delays."""
        for record in list(self.tuples.values()):
            self._replace(after_clock_corrected(record, was_us, now_us))
        for schedule in list(self.schedules.values()):
            state = schedule_after_clock_corrected(schedule, now_us)
            self.schedules[schedule.name] = msgspec.structs.replace(schedule, state=state)

        for pool, times_us in self.starts.items():  # a start in the future would hold the rate up for as long
            self.starts[pool] = [min(time_us, now_us) for time_us in times_us]

    def _note_start(self, record: TupleRecord, turn: int, at_us: int) -> None:
        """Note that a tuple started: for its run and parent, and in every pool with a rate."""
        self.run_turns[record.lane, record.run] = turn
        self.parent_turns[record.lane, record.run, self.parent_ordinal(record)] = turn
        for rule, pool in self.rules.pools(self.subjects[record.id]):
            if rule.starts is not None:
                self.starts[pool] = [*self.starts.get(pool, ()), at_us][-rule.starts :]

    def parent_ordinal(self, record: TupleRecord) -> int:
        """Return the ordinal of a tuple's parent; 0 without one."""
        parent = self.tuples.get(record.parent_id or "")
        return 0 if parent is None else parent.ordinal

    def _forget_starts(self, rule: str) -> None:
        for pool in [pool for pool in self.starts if pool.partition("\n")[0] == rule]:
            del self.starts[pool]

    def _stop_steps(self, tuple_id: str, step: int | None = None) -> None:
        """Release what is reserved for a running step, or for every running step of a tuple."""
        steps = self.running.get(tuple_id, {})
        for running in [position for position in steps if step is None or position == step]:
            stopped = steps.pop(running)
            del self.running_yools[tuple_id, running]
            self._reserve(tuple_id, -max(0, stopped.micros), -max(0, stopped.tokens))

    def _reserve(self, tuple_id: str, micros: int, tokens: int) -> None:
        """Add to what is reserved by a tuple and its ancestors."""
        for record in list(lineage(self, self.tuples[tuple_id])) if micros or tokens else ():
            self.tuples[record.id] = msgspec.structs.replace(
                record,
                reserved_micros=record.reserved_micros + micros,
                reserved_tokens=record.reserved_tokens + tokens,
            )

    def _spend(self, fact: StepCost | StepDone) -> None:
        """Add to what was spent by a tuple and its ancestors, by its run, and by this execution of the step."""
        tuple_id, micros, tokens = fact.id, fact.micros, fact.tokens
        if not micros and not tokens:
            return
        key = fact.id, Fence(fact.epoch, fact.counter), fact.step
        self.counted[key] = self.counted.get(key, Price()) + Price(micros=micros, tokens=tokens)
        spender = self.tuples[tuple_id]
        for record in list(lineage(self, spender)):  # a list, since the loop replaces what `lineage` reads
            self.tuples[record.id] = msgspec.structs.replace(
                record, spent_micros=record.spent_micros + micros, spent_tokens=record.spent_tokens + tokens
            )
        self.tuples[tuple_id] = msgspec.structs.replace(
            self.tuples[tuple_id], own_micros=spender.own_micros + micros, own_tokens=spender.own_tokens + tokens
        )
        self._count(self.tuples[tuple_id].run, micros=micros, tokens=tokens)

    def _count(
        self, run: str, *, put_again: int = 0, executed: int = 0, hits: int = 0, micros: int = 0, tokens: int = 0
    ) -> None:
        totals = self.totals[run]
        self.totals[run] = msgspec.structs.replace(
            totals,
            put_again=totals.put_again + put_again,
            executed=totals.executed + executed,
            hits=totals.hits + hits,
            micros=totals.micros + micros,
            tokens=totals.tokens + tokens,
        )


class MemoryWorkView:
    """The state as of one moment. `WorkView` and `ScheduleView` document the methods."""

    def __init__(self, state: WorkState, as_of: int) -> None:
        self._state = state
        self._as_of = as_of

    @property
    def as_of(self) -> int:
        return self._as_of

    def current_epoch(self) -> Epoch:
        return self._state.epoch

    def find(self, tuple_id: str) -> TupleRecord | None:
        return self._state.tuples.get(tuple_id)

    def find_all(self, ids: Sequence[str]) -> dict[str, TupleRecord]:
        return {tuple_id: self._state.tuples[tuple_id] for tuple_id in ids if tuple_id in self._state.tuples}

    def tuple_ids_starting(self, prefix: str, *, limit: int) -> list[str]:
        return [tuple_id for tuple_id in self._state.tuples if tuple_id.startswith(f"sha256:{prefix}")][:limit]

    def claimable(
        self, pattern: TuplePattern, *, epoch: int, limit: int, can_run: CanRun | None = None
    ) -> list[TupleRecord]:
        due = [
            record
            for record in self._state.tuples.values()
            if self._is_due(record, epoch)
            and _is_for_workers(pattern, record)
            and (record.state == "claimed" or may_run(self._next_yools(record), can_run))
        ]
        order = _Order(self, epoch)
        return in_turn(
            (record for record in due if _matches_as_waiting(pattern, record)),
            key=order.key,
            admit=order.admit,
            serve=order.serve,
            limit=limit,
        )

    def may_claim(self, pattern: TuplePattern, *, epoch: int, can_run: CanRun | None = None) -> bool:
        return bool(self.claimable(pattern, epoch=epoch, limit=1, can_run=can_run))

    def limit_rules(self) -> LimitRules:
        return self._state.rules

    def pool_use(self, rule: LimitRule, pool: str, *, epoch: int | None = None) -> PoolUse:
        number = self._state.epoch.number if epoch is None else epoch
        leases = [
            record.lease_until_us
            for record in self._state.tuples.values()
            if record.state == "claimed"
            and not self._is_due(record, number)
            and (rule, pool) in self._state.rules.pools(self._state.subjects[record.id])
        ]
        started, start_ends_us = use_of_starts(rule, self._state.starts.get(pool, ()), self._as_of)
        return PoolUse(
            running=len(leases),
            started=started,
            slot_ends_us=min(leases, default=None),
            start_ends_us=start_ends_us,
        )

    def limit_uses(self) -> list[LimitUse]:
        return [self._use_of(rule) for _, rule in sorted(self._state.rules.items())]

    def _use_of(self, rule: LimitRule) -> LimitUse:
        waiting: dict[str, int] = {}
        pools = {pool for pool in self._state.starts if pool.partition("\n")[0] == rule.match.id}
        for record in self._state.tuples.values():
            if record.state in ("waiting", "claimed"):
                for counted, pool in self._state.rules.pools(self._state.subjects[record.id]):
                    if counted is not rule:
                        continue
                    pools.add(pool)
                    waiting[pool] = waiting.get(pool, 0) + (record.state == "waiting")
        uses = {pool: self.pool_use(rule, pool) for pool in pools}
        full = [pool for pool, use in uses.items() if waiting.get(pool) and not room_in(rule, use)]
        return LimitUse(
            rule=rule,
            running=sum(use.running for use in uses.values()),
            started=sum(use.started for use in uses.values()),
            waiting=sum(waiting[pool] for pool in full),
            full=len(full),
        )

    def _is_due(self, record: TupleRecord, epoch: int) -> bool:
        if record.state == "waiting":
            return record.ready_us <= self._as_of
        return record.state == "claimed" and (
            record.lease_until_us <= self._as_of or (record.fence is not None and record.fence.epoch < epoch)
        )

    def matching(self, pattern: TuplePattern, *, limit: int, after: int = 0) -> list[TupleRecord]:
        records = (record for record in self._state.tuples.values() if record.state != "taken")
        later = (record for record in records if record.ordinal > after)
        return [record for record in later if pattern.matches(pattern_fields(record))][:limit]

    def newest_in(self, lane: str) -> TupleRecord | None:
        return next((record for record in reversed(self._state.tuples.values()) if record.lane == lane), None)

    def idempotent_put(self, key: str) -> IdempotentPut | None:
        return self._state.idempotent_puts.get(key)

    def waiting_count(self, lane: str) -> int:
        records = (record for record in self._state.tuples.values() if record.lane == lane)
        return sum(record.state in ("waiting", "blocked") for record in records)

    def live_in(self, lane: str) -> list[TupleRecord]:
        records = (record for record in self._state.tuples.values() if record.lane == lane)
        return [record for record in records if record.state in LIVE_STATES]

    def list_blocked(self, run: str | None, *, limit: int) -> list[TupleRecord]:
        blocked = (record for record in self._state.tuples.values() if record.state == "blocked")
        return [record for record in blocked if run in (None, record.run)][:limit]

    def blocks(self, tuple_id: str) -> list[TupleBlock]:
        blocks = self._state.blocks.get(tuple_id, {})
        return [blocks[blocker] for blocker in sorted(blocks, key=lambda blocker: (not blocker, blocker))]

    def dependents(self, tuple_id: str) -> list[str]:
        ids = self._state.dependents.get(tuple_id, ())
        return sorted(ids, key=lambda dependent: self._state.tuples[dependent].ordinal)

    def task_changes(self, tuple_id: str) -> list[TaskChange]:
        return list(self._state.task_changes.get(tuple_id, ()))

    def _next_yools(self, record: TupleRecord) -> tuple[str, ...]:
        return next_yools(record.body, self._state.finished.get(record.id, ()))

    def next_due_us(self, pattern: TuplePattern, *, can_run: CanRun | None = None) -> int | None:
        times = [
            record.ready_us if record.state == "waiting" else record.lease_until_us
            for record in self._state.tuples.values()
            if record.state in ("waiting", "claimed")
            and _is_for_workers(pattern, record)
            and _matches_as_waiting(pattern, record)
            and may_run(
                self._next_yools(record)
                if record.state == "waiting"
                else unfinished_yools(record.body, self._state.finished.get(record.id, ())),
                can_run,
            )
        ]
        times += self._opening_times(pattern, can_run)
        return min((time_us for time_us in times if time_us > self._as_of), default=None)

    def _opening_times(self, pattern: TuplePattern, can_run: CanRun | None) -> Iterator[int]:
        """Yield when the limits open that matching tuples wait for."""
        for record in self._state.tuples.values() if self._state.rules else ():
            if (
                record.state == "waiting"
                and record.ready_us <= self._as_of
                and _matches_as_waiting(pattern, record)
                and may_run(self._next_yools(record), can_run)
            ):
                for block in limit_blocks(self, self._state.subjects[record.id]):
                    time_us = opens_us(block.rule, block.use)
                    if time_us is not None:
                        yield time_us

    def finished_steps(self, tuple_id: str) -> dict[int, str]:
        return dict(self._state.finished.get(tuple_id, {}))

    def receipt_ids(self, tuple_id: str) -> list[str]:
        return list(self._state.tuple_receipts.get(tuple_id, ()))

    def receipt(self, receipt_id: str) -> Receipt | None:
        return self._state.receipts.get(receipt_id)

    def receipt_ids_starting(self, prefix: str, *, limit: int) -> list[str]:
        return [receipt_id for receipt_id in self._state.receipts if receipt_id.startswith(f"sha256:{prefix}")][:limit]

    def recorded_receipts(self, receipts: Iterable[Receipt]) -> set[str]:
        return {receipt.id for receipt in receipts if receipt.id in self._state.receipts}

    def list_receipts(self, run: str | None, *, limit: int, after: int = 0) -> list[tuple[int, Receipt]]:
        numbered = enumerate(self._state.receipt_runs, 1)
        return [
            (number, self._state.receipts[receipt_id])
            for number, (receipt_run, receipt_id) in numbered
            if run in (None, receipt_run) and number > after
        ][:limit]

    def newest_receipts(
        self, run: str | None, *, limit: int, before: ReceiptPosition | None = None
    ) -> list[ListedReceipt]:
        receipts = self._state.receipts
        listed = [
            ListedReceipt(
                position=ReceiptPosition(number),
                receipt=receipts[receipt_id],
                tuple_id=receipts[receipt_id].tuple_id,
                step=receipts[receipt_id].step,
            )
            for number, (receipt_run, receipt_id) in enumerate(self._state.receipt_runs, 1)
            if run in (None, receipt_run)
        ]
        listed += [
            ListedReceipt(
                position=ReceiptPosition(number, use),
                receipt=receipts[hit.receipt],
                tuple_id=hit.id,
                step=hit.step,
                used_us=at_us,
            )
            for use, (hit_run, number, hit, at_us) in enumerate(self._state.hits, 1)
            if run in (None, hit_run)
        ]
        listed.sort(key=lambda one: one.position, reverse=True)
        return [one for one in listed if before is None or one.position < before][:limit]

    def cached_receipt(self, key: str) -> Receipt | None:
        receipts = self._state.cache.get(key)
        return self._state.receipts[receipts[-1]] if receipts else None

    def cost_history(self, yool: str) -> CostHistory:
        return self._state.costs.get(yool, CostHistory())

    def running_steps(self) -> list[RunningStep]:
        return [running for steps in self._state.running.values() for running in steps.values()]

    def counted_cost(self, tuple_id: str, fence: Fence, step: int) -> Price:
        return self._state.counted.get((tuple_id, fence, step), Price())

    def run_totals(self) -> list[RunTotals]:
        return [
            msgspec.structs.replace(totals, states=dict(sorted(totals.states.items())))
            for totals in self._state.totals.values()
        ]

    def list_unfinished(self, *, limit: int, after: int = 0) -> list[TupleRecord]:
        records = (record for record in self._state.tuples.values() if record.ordinal > after)
        return [record for record in records if record.state not in (*ENDED, "taken")][:limit]

    def list_claimed(self, run: str | None, *, limit: int) -> list[TupleRecord]:
        claimed = (record for record in self._state.tuples.values() if record.state == "claimed")
        return [record for record in claimed if run in (None, record.run)][:limit]

    def list_ended(self, run: str | None, *, limit: int) -> list[TupleRecord]:
        ended = (record for record in self._ended() if record.state != "dead" or record.put_again_as)
        return [record for record in ended if record.run == run or (run is None and record.run != INTERNAL_RUN)][:limit]

    def list_dead(
        self,
        run: str | None,
        *,
        lane: str | None = None,
        include_put_again: bool = False,
        limit: int,
        ended_before: int | None = None,
    ) -> list[TupleRecord]:
        return [
            record
            for record in self._ended()
            if record.state == "dead"
            and (include_put_again or record.put_again_as is None)
            and run in (None, record.run)
            and lane in (None, record.lane)
            and (ended_before is None or (record.final_receipt_number or 0) < ended_before)
        ][:limit]

    def _ended(self) -> list[TupleRecord]:
        """Return the tuples that have ended, the last first."""
        return sorted(
            (record for record in self._state.tuples.values() if record.final_receipt_number),
            key=lambda record: record.final_receipt_number or 0,
            reverse=True,
        )

    def purged_at_us(self, sha: str) -> int | None:
        return self._state.purged.get(sha)

    def lane_counts(self) -> list[LaneCounts]:
        counts: dict[str, dict[str, int]] = {}
        for record in self._state.tuples.values():
            if record.state in LIVE_STATES:
                states = counts.setdefault(record.lane, dict.fromkeys(LIVE_STATES, 0))
                states[record.state] += 1
        return [LaneCounts(lane=lane, **states) for lane, states in sorted(counts.items())]

    def has_batches(self) -> bool:
        return bool(self._state.batches)

    def batch(self, batch_id: str) -> BatchRecord | None:
        batch = self._state.batches.get(batch_id)
        if batch is None:
            return None
        root = self._state.tuples[batch_id]
        return BatchRecord(
            id=batch_id,
            ordinal=root.ordinal,
            run=root.run,
            lane=root.lane,
            rank=root.rank,
            shape=batch.shape,
            template=batch.template,
            retries=batch.retries,
            folded=count_leaves(batch.folded),
            state=root.state,
        )

    def _batches(self) -> list[BatchRecord]:
        return [batch for batch_id in self._state.batches if (batch := self.batch(batch_id)) is not None]

    def list_batches(self, run: str | None, *, limit: int, before: int | None = None) -> list[BatchRecord]:
        return [
            batch
            for batch in reversed(self._batches())
            if run in (None, batch.run) and (before is None or batch.ordinal < before)
        ][:limit]

    def folded_batches(self, lane: str | None, *, limit: int | None = None) -> list[BatchRecord]:
        folded = [batch for batch in self._batches() if batch.folded and lane in (None, batch.lane)]
        return sorted(folded, key=lambda batch: (-batch.rank, batch.ordinal))[:limit]

    def folded_leaves(self, batch_id: str, *, limit: int | None = None) -> list[LeafRange]:
        return self._state.batches[batch_id].folded[:limit]

    def idle_leaves(self, batch_id: str, *, limit: int | None = None) -> list[int]:
        depth = self._state.batches[batch_id].shape.depth
        agents = (agent for agent in self._state.agents.values() if agent.position.batch == batch_id and agent.is_idle)
        return sorted(agent.position.number for agent in agents if agent.position.level == depth)[:limit]

    def level_counts(self, batch_id: str) -> dict[int, LevelCounts]:
        batch = self._state.batches[batch_id]
        counts: dict[int, LevelCounts] = {
            level: LevelCounts(states=dict(sorted(states.items()))) for level, states in batch.ended.items()
        }
        for (level, _), tuple_id in batch.ids.items():
            record, earlier = self._state.tuples[tuple_id], counts.get(level, LevelCounts(states={}))
            counts[level] = LevelCounts(
                states={**earlier.states, record.state: earlier.states.get(record.state, 0) + 1},
                micros=earlier.micros + record.own_micros,
                tokens=earlier.tokens + record.own_tokens,
                receipts=earlier.receipts + len(self.receipt_ids(tuple_id)),
            )
        return {
            level: msgspec.structs.replace(level_counts, states=dict(sorted(level_counts.states.items())))
            for level, level_counts in sorted(counts.items())
        }

    def agents(self, tuple_ids: Sequence[str]) -> dict[str, BatchAgent]:
        return {tuple_id: self._state.agents[tuple_id] for tuple_id in tuple_ids if tuple_id in self._state.agents}

    def agents_at(
        self, batch_id: str, level: int, start: int, stop: int, *, unended: bool = False, limit: int | None = None
    ) -> list[BatchAgent]:
        batch = self._state.batches[batch_id]
        ids = (batch.ids[place] for place in sorted(batch.ids) if place[0] == level and start <= place[1] < stop)
        return [
            self._state.agents[tuple_id]
            for tuple_id in ids
            if not unended or self._state.tuples[tuple_id].state not in (*ENDED, "taken")
        ][:limit]

    def kept_agents(self, batch_id: str) -> list[BatchAgent]:
        agents = self._state.agents.values()
        return [
            agent for agent in agents if agent.is_kept and agent.position.batch == batch_id and agent.position.level
        ]

    def delayed_counts(self) -> list[DelayedCounts]:
        times: dict[str, list[int]] = {}
        for record in self._state.tuples.values():
            if record.state == "waiting" and record.ready_us > self._as_of:
                times.setdefault(record.lane, []).append(record.ready_us)
        return [
            DelayedCounts(lane=lane, tuples=len(ready), first_us=min(ready)) for lane, ready in sorted(times.items())
        ]

    def schedule(self, name: str) -> Schedule | None:
        return self._state.schedules.get(name)

    def list_schedules(
        self,
        *,
        limit: int,
        run: str | None = None,
        added_by: str | None = None,
        after: SchedulePosition | None = None,
        until_us: int | None = None,
    ) -> list[Schedule]:
        positions = sorted(
            SchedulePosition(schedule.state.look_us, schedule.name)
            for schedule in self._state.schedules.values()
            if run in (None, schedule.run)
            and added_by in (None, schedule.added_by)
            and (until_us is None or schedule.state.look_us <= until_us)
        )
        later = (position for position in positions if after is None or position > after)
        return [self._state.schedules[position.name] for position in later][:limit]

    def schedule_count(self, added_by: str | None = None) -> int:
        return sum(added_by in (None, schedule.added_by) for schedule in self._state.schedules.values())

    def next_look_us(self) -> int | None:
        times = (schedule.state.look_us for schedule in self._state.schedules.values())
        return min((time_us for time_us in times if time_us != NEVER_US), default=None)

    def waiting_groups(self) -> list[WaitingGroup]:
        groups: dict[tuple[str, tuple[str, ...], str], list[TupleRecord]] = {}
        for record in self._state.tuples.values():
            is_due = record.state == "waiting" and record.ready_us <= self._as_of
            if is_due and not limit_blocks(self, self._state.subjects[record.id]):
                groups.setdefault((record.lane, self._next_yools(record), record.run), []).append(record)
        return [
            WaitingGroup(lane=lane, run=run, yools=yools, tuples=len(records), oldest=records[0])
            for (lane, yools, run), records in sorted(groups.items())
        ]


class _Order:
    """The order in which tuples are claimed, as if each returned one were."""

    def __init__(self, view: MemoryWorkView, epoch: int) -> None:
        self._view = view
        self._state = view._state
        self._epoch = epoch
        self._next_turn = turn_of(Fence(epoch, self._state.epoch.counter))
        self._run_turns = dict(self._state.run_turns)
        self._parent_turns = dict(self._state.parent_turns)
        self._run_numbers = {run: number for number, run in enumerate(self._state.totals)}
        self._room: dict[str, int] = {}

    def key(self, record: TupleRecord) -> TurnKey:
        """Return what decides when a tuple is served."""
        parent = self._state.parent_ordinal(record)
        return (
            -record.rank,
            self._run_turns.get((record.lane, record.run), 0),
            self._run_numbers[record.run],
            self._parent_turns.get((record.lane, record.run, parent), 0),
            parent,
            record.ordinal,
        )

    def admit(self, record: TupleRecord) -> bool:
        """True if every pool of a tuple has room."""
        return all(self._room_in(rule, pool) for rule, pool in self._pools(record))

    def serve(self, record: TupleRecord) -> None:
        """Note that a tuple starts."""
        self._next_turn += 1
        self._run_turns[record.lane, record.run] = self._next_turn
        parent = self._state.parent_ordinal(record)
        self._parent_turns[record.lane, record.run, parent] = self._next_turn
        for _, pool in self._pools(record):
            self._room[pool] -= 1

    def _pools(self, record: TupleRecord) -> list[tuple[LimitRule, str]]:
        return self._state.rules.pools(self._state.subjects[record.id])

    def _room_in(self, rule: LimitRule, pool: str) -> int:
        if pool not in self._room:
            self._room[pool] = room_in(rule, self._view.pool_use(rule, pool, epoch=self._epoch))
        return self._room[pool]


def _is_for_workers(pattern: TuplePattern, record: TupleRecord) -> bool:
    """True unless it is a task of agents and the pattern does not name their lane."""
    return record.lane != TASK_LANE or pattern.equal_to("lane") == TASK_LANE


def _matches_as_waiting(pattern: TuplePattern, record: TupleRecord) -> bool:
    """True if a pattern matches a tuple as it will be once it can be claimed."""
    return pattern.matches(pattern_fields(record) | {"state": "waiting"})


class _MemoryWaiter:
    """A waiter on a condition that every commit notifies."""

    def __init__(self, condition: threading.Condition) -> None:
        self._condition = condition
        self._notified = False

    def notify(self) -> None:
        with self._condition:
            self._notified = True
            self._condition.notify_all()

    def wait(self, seconds: float) -> None:
        """Sleep until something may have changed, or for that long."""
        with self._condition:
            if not self._notified:
                self._condition.wait(seconds)
            self._notified = False


def _ends_a_tuple(facts: Sequence[Fact]) -> bool:
    return TupleDone in map(type, facts)


class MemoryWork(JournalledStore[ScheduleView]):
    """The work store of one project in memory."""

    def __init__(self, journal: MemoryJournal, clock: Clock) -> None:
        self._waiters: list[_MemoryWaiter] = []
        self._condition = threading.Condition()
        self._workers: dict[str, RunningWorker] = {}
        # decision 22: the last receipt of a tuple is synced, whichever commit notices its end
        super().__init__(journal, clock, new_state=WorkState, decode=decode_work_facts, must_sync=_ends_a_tuple)
        self.watch(self._notify)

    @contextmanager
    def wait_on(self, kind: WaitKind) -> Iterator[Waiter]:
        """Open a waiter that every commit wakes."""
        waiter = _MemoryWaiter(self._condition)
        self._waiters.append(waiter)
        try:
            yield waiter
        finally:
            self._waiters.remove(waiter)

    def announce(self, worker: RunningWorker) -> None:
        """Note a running worker."""
        self._workers[worker.id] = worker

    def withdraw(self, worker_id: str) -> None:
        """Forget a worker."""
        self._workers.pop(worker_id, None)

    def announced(self) -> list[RunningWorker]:
        """Return the workers that were announced, by id."""
        return [worker for _, worker in sorted(self._workers.items())]

    def rotate(self, *, least_bytes: int, before_us: int, dry_run: bool = False) -> bool:
        """Do nothing: a journal in memory has no segments."""
        return False

    def _notify(self) -> None:
        for waiter in tuple(self._waiters):
            waiter.notify()
