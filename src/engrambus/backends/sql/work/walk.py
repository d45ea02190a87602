"""The walk of a claim: from lanes over runs and parents to the groups whose tuples are next (decision 110).

Each level is read in the order of an index, and only as far as it is needed. What the walk itself serves changes that
order, so everything lies in one heap under a key that is computed again when it is the least: keys only grow.

A walk of a change closes what it came past in vain, so that later ones do not: groups that are empty, groups of a key
without room, and what has no open group below it. A walk of a reader leaves all that as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from engrambus.backends.sql.work.state import parent_turn, run_turn
from engrambus.space.tuples import (
    Fence,
    LimitRule,
    LimitRules,
    PoolUse,
    Subject,
    TupleRecord,
    TurnKey,
    opens_us,
    turn_of,
)

if TYPE_CHECKING:
    from engrambus.backends.sql.work.projection import WorkProjection

MAX_EMPTY = 3
"""Empty groups that a walk passes without closing them: most are filled again at once."""

Row = Any


class WalkSource(Protocol):
    """What a walk reads."""

    def rows(self, name: str, *values: object, expected: int = 0) -> Iterator[Row]: ...

    def shape_rows(self, name: str, *values: object) -> Iterator[Row]: ...

    def limit_rules(self) -> LimitRules: ...

    def pool_room(self, rule: LimitRule, pool: str, epoch: int) -> int: ...

    def pool_use_in(self, rule: LimitRule, pool: str, epoch: int) -> PoolUse: ...


class _Node(Protocol):
    def key(self) -> TurnKey: ...

    def expand(self) -> TupleRecord | None: ...


class Walk:
    """One search for tuples that may start."""

    def __init__(
        self,
        source: WalkSource,
        *,
        epoch: int,
        last: Fence,
        turns: dict[str, int],
        accepts: Callable[[TupleRecord], bool] | None,
        to_record: Callable[[Row], TupleRecord],
        run: str | None,
    ) -> None:
        """Only tuples that `accepts` admits are found; None admits all.

        `last` is the last claim, `turns` those that are not in the tables yet; `run` the only one to look at.
        """
        self.source = source
        self.accepts = accepts
        self.to_record = to_record
        self.run = run
        self.turns = dict(turns)
        self.rules = source.limit_rules()
        self.groups: dict[str, int] = {}
        """Groups of the tuples found."""
        self.wanted = 0
        """Tuples that are still to be found."""
        self.blocked = 0
        """Groups that a pool without room held back."""
        self.empty: list[int] = []
        self.held: list[tuple[str, int]] = []
        self.closed: dict[str, int | None] = {}
        self.advanced: dict[int, int] = {}
        self.passed: list[tuple[int, int]] = []
        """Siblings that were read to the end, with their run in the lane."""
        self._epoch = epoch
        self._turn = turn_of(Fence(epoch, last.counter))
        self._room: dict[str, int] = {}
        self._full: set[str] = set()
        """Pools that had no room when the walk began."""
        self._early: dict[tuple[str, str, str], list[tuple[LimitRule, str]]] = {}
        self._heap: list[tuple[TurnKey, int, int, _Node]] = []
        """Nodes by key, with a number that tells them apart and the turn for which the key was computed."""
        self._numbers = count()
        self._alone: _Node | None = None
        """The only node while there are no others: it needs no key."""

    def push(self, node: _Node) -> None:
        """Put a node into the heap."""
        alone = self._alone
        if alone is None and not self._heap:
            self._alone = node
            return
        if alone is not None:
            self._alone = None
            heappush(self._heap, (alone.key(), next(self._numbers), self._turn, alone))
        heappush(self._heap, (node.key(), next(self._numbers), self._turn, node))

    def has_others(self) -> bool:
        """True if there is anything else in the heap."""
        return bool(self._heap)

    def take(self, limit: int) -> list[TupleRecord]:
        """Return the tuples that are next, as if each were claimed."""
        records: list[TupleRecord] = []
        heap, self.wanted = self._heap, limit
        try:
            while (heap or self._alone is not None) and len(records) < limit:
                if self._alone is not None:
                    node, self._alone = self._alone, None
                else:
                    least, number, turn, node = heap[0]
                    if turn != self._turn and (key := node.key()) != least:
                        heapreplace(heap, (key, number, self._turn, node))
                        continue
                    heappop(heap)
                record = node.expand()
                if record is not None:
                    records.append(record)
                    self.wanted -= 1
        finally:
            heap.clear()  # its queries end here, and not only when the next garbage is collected
            self._alone = None
        return records

    def run_turn(self, lane: str, run: int, served: int) -> int:
        """Return the last claim of a run in a lane."""
        return self.turns.get(run_turn(lane, run), served)

    def parent_turn(self, lane: str, run: int, parent: int, served: int) -> int:
        """Return the last claim of a parent's children of a run in a lane."""
        return self.turns.get(parent_turn(lane, run, parent), served)

    def serve(self, turns: tuple[str, str], pools: list[tuple[LimitRule, str]]) -> None:
        """Note that a tuple starts, by the names of the turns of its run and of its parent."""
        self._turn += 1
        self.turns[turns[0]] = self.turns[turns[1]] = self._turn
        for _, pool in pools:
            self._room[pool] -= 1

    def is_closed(self, lane: str, run_id: str, authority: str) -> bool:
        """True if a rule that looks at no key has no room for tuples of this kind."""
        name = lane, run_id, authority
        pools = self._early.get(name)
        if pools is None:
            subject = Subject(*name)
            pools = self._early[name] = [
                (rule, pool) for rule, pool in self.rules.pools(subject) if rule.match.key is None
            ]
        return any(self.room(rule, pool) == 0 for rule, pool in pools)

    def first_full(self, pools: list[tuple[LimitRule, str]]) -> tuple[LimitRule, str] | None:
        """Return the first of these pools that has no room."""
        return next(((rule, pool) for rule, pool in pools if self.room(rule, pool) == 0), None)

    def room(self, rule: LimitRule, pool: str) -> int:
        """Return how many more of a pool may start after those that the walk has found."""
        room = self._room.get(pool)
        if room is None:
            room = self._room[pool] = self.source.pool_room(rule, pool, self._epoch)
            if room == 0:
                self._full.add(pool)
        return room

    def hold(self, rule: LimitRule, pool: str, group: int) -> None:
        """Note that a pool holds a group back."""
        self.blocked += 1
        # What the walk itself has taken may end instead of starting: only what is really used closes a pool.
        if rule.match.key is not None and pool in self._full:
            self.held.append((pool, group))
            self.closed.setdefault(pool, None)

    def close(self, projection: WorkProjection) -> None:
        """Close what the walk came past in vain."""
        execute = projection.execute
        for group, head in self.advanced.items():
            execute("advance_group", head, group)
        empty = self.empty if len(self.empty) > MAX_EMPTY else ()
        for group in empty:
            execute("close_group", 0, group)
            projection.state.filled.discard(group)
        for pool, group in self.held:
            execute("close_group", 2, group)
            execute("hold_group", pool, group)
            projection.state.filled.discard(group)
        for rule, pool in self._pools_closed():
            execute("close_pool", pool, opens_us(rule, self.source.pool_use_in(rule, pool, self._epoch)))
        if empty or self.held or len(self.passed) > MAX_EMPTY:
            for siblings, lane_run in self.passed:
                execute("close_siblings", siblings)
                execute("close_lane_run", lane_run)

    def _pools_closed(self) -> Iterator[tuple[LimitRule, str]]:
        for pool in self.closed:
            yield self.rules[pool.partition("\n")[0]], pool


class LaneNeeds:
    """The runs in a lane whose tuples have the same needs, in turn."""

    def __init__(self, walk: Walk, lane: str, needs: int) -> None:
        self._walk, self._lane = walk, lane
        self._rows = walk.source.shape_rows("runs_in_turn", lane, needs)
        self._row: Row = next(self._rows, None)

    def __bool__(self) -> bool:
        return self._row is not None

    def key(self) -> TurnKey:
        """Return the key of the next run by the index, which is no greater than that of any later one."""
        _, rank, served, run, _, _ = self._row
        return -rank, served, run, -1, -1, -1

    def expand(self) -> None:
        """Put the next run into the heap."""
        walk, row = self._walk, self._row
        self._row = next(self._rows, None)
        if self._row is not None:
            walk.push(self)
        if walk.run in (None, row[5]) and not (walk.rules and walk.is_closed(self._lane, row[5], row[4])):
            run = _LaneRun(walk, self._lane, row)
            if run:
                walk.push(run)


class _LaneRun:
    """The parents whose children a run has in a lane, in turn."""

    def __init__(self, walk: Walk, lane: str, row: Row) -> None:
        self.walk, self.lane = walk, lane
        self.number, self.rank, self._served, self.run, self.authority, self.run_id = row
        self._rows = walk.source.shape_rows("siblings_in_turn", self.number)
        self._row: Row = next(self._rows, None)
        if self._row is None:
            walk.passed.append((0, self.number))

    def __bool__(self) -> bool:
        return self._row is not None

    def head(self) -> tuple[int, int, int]:
        """Return the part of the key that all below it have in common."""
        return -self.rank, self.walk.run_turn(self.lane, self.run, self._served), self.run

    def key(self) -> TurnKey:
        """Return the key of the next parent by the index."""
        return *self.head(), self._row[1], self._row[2], -1

    def is_closed(self) -> bool:
        """True if no tuple of it may start any more."""
        return self.walk.is_closed(self.lane, self.run_id, self.authority)

    def expand(self) -> None:
        """Put the next parent into the heap."""
        if self.walk.rules and self.is_closed():
            return
        row = self._row
        self._row = next(self._rows, None)
        if self._row is not None:
            self.walk.push(self)
        siblings = _Siblings(self, row)
        if siblings:
            self.walk.push(siblings)


class _Siblings:
    """The groups of the children of one parent, by their oldest tuples."""

    def __init__(self, of: _LaneRun, row: Row) -> None:
        self.of, self.walk = of, of.walk
        self.number, self._served, self.parent = row
        self.turns = run_turn(of.lane, of.run), parent_turn(of.lane, of.run, self.parent)
        self._rows = self.walk.source.shape_rows("groups_in_turn", self.number)
        self._row: Row = next(self._rows, None)
        self.is_single = True
        """True if only one of its groups was read, so that it does not matter how old its head is."""
        if self._row is None:
            self.walk.passed.append((self.number, of.number))

    def __bool__(self) -> bool:
        return self._row is not None

    def head(self) -> tuple[int, int, int, int, int]:
        """Return the part of the key that all below it have in common."""
        of = self.of
        turn = self.walk.turns.get(self.turns[1], self._served)
        return *of.head(), turn, self.parent

    def key(self) -> TurnKey:
        """Return the key of the next group."""
        return *self.head(), self._row[1]

    def expand(self) -> None:
        """Put the next group into the heap."""
        if self.walk.rules and self.of.is_closed():
            return
        number, head, key = self._row
        self._row = next(self._rows, None)
        if self._row is not None:
            self.is_single = False
            self.walk.push(self)
        else:
            self.walk.passed.append((self.number, self.of.number))
        self.walk.push(_Group(self, number, head, key))


class _Group:
    """The waiting tuples of a group, oldest first."""

    def __init__(self, of: _Siblings, number: int, head: int, key: str) -> None:
        self._of, self._walk, self._number = of, of.walk, number
        run = of.of
        subject = Subject(run.lane, run.run_id, run.authority, key or None)
        self._pools = self._walk.rules.pools(subject) if self._walk.rules else []
        self._next = head
        """The ordinal of its next tuple, or a smaller one."""
        self._rows: Iterator[Row] | None = None
        self._row: Row = None

    def key(self) -> TurnKey:
        """Return a key that is no greater than that of its next tuple."""
        return *self._of.head(), self._next

    def expand(self) -> TupleRecord | None:
        """Return its next tuple, if that is known to be the least and may start."""
        walk = self._walk
        full = walk.first_full(self._pools) if self._pools else None
        if full is not None:
            walk.hold(*full, self._number)
            return None
        if self._row is None and not self._read():
            return None
        row, self._row, self._next = self._row, None, self._row[0] + 1
        record = walk.to_record(row)
        accepted = walk.accepts is None or walk.accepts(record)
        if accepted:
            walk.groups[record.id] = self._number
            walk.serve(self._of.turns, self._pools)
        walk.push(self)
        return record if accepted else None

    def _read(self) -> bool:
        """Read the next row; return True if its tuple is as old as was assumed, and so still the least."""
        walk, is_first = self._walk, self._rows is None
        if self._rows is None:
            self._rows = walk.source.rows("waiting", self._number, expected=walk.wanted)
        self._row = next(self._rows, None)
        if self._row is None:
            if is_first:
                walk.empty.append(self._number)
            return False
        assumed, self._next = self._next, self._row[0]
        if assumed == self._next or (is_first and self._of.is_single and not walk.has_others()):
            return True
        if is_first and not self._of.is_single:
            walk.advanced[self._number] = self._next
        walk.push(self)
        return False


class LoneTuple:
    """A tuple by itself: its claim expired, or no claim has found yet that it is due."""

    def __init__(self, walk: Walk, row: Row, subject: Subject, record: Callable[[], TupleRecord]) -> None:
        """`row` has ordinal, rank, group, run, its served, parent, its served."""
        self._walk, self._row, self._subject, self._read = walk, row, subject, record
        self._pools = walk.rules.pools(subject) if walk.rules else []

    def key(self) -> TurnKey:
        """Return its key."""
        ordinal, rank, _, run, run_served, parent, parent_served = self._row
        lane = self._subject.lane
        turn = self._walk.run_turn(lane, run, run_served)
        return -rank, turn, run, self._walk.parent_turn(lane, run, parent, parent_served), parent, ordinal

    def expand(self) -> TupleRecord | None:
        """Return the tuple, if it may start and the pattern accepts it."""
        walk = self._walk
        if walk.first_full(self._pools) is not None:
            walk.blocked += 1
            return None
        record = self._read()
        if walk.run not in (None, record.run) or not (walk.accepts is None or walk.accepts(record)):
            return None
        _, _, group, run, _, parent, _ = self._row
        walk.groups[record.id] = group
        lane = self._subject.lane
        walk.serve((run_turn(lane, run), parent_turn(lane, run, parent)), self._pools)
        return record
