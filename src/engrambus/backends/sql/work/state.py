"""The state row of the work index: how far it has come, its counters, and what this process knows besides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import chain, islice
from os import urandom
from typing import Any, NamedTuple

import msgspec

from engrambus.core.journal import JournalPosition
from engrambus.space.tuples import CostHistory, LimitRule, LimitRules, Price, Subject, TupleRecord


class PendingFigures(msgspec.Struct, kw_only=True):
    """Counts that are not in their tables yet.

    decision 35: each of those tables would be one more page that every commit writes.
    """

    lanes: dict[str, list[int]] = {}
    """Tuples to add to a lane's waiting, claimed and blocked ones."""
    runs: dict[int, dict[str, int]] = {}
    """Counts to add to a run's columns, by the number of the run."""
    yools: dict[str, CostHistory] = {}
    """The present history of yools that were executed since their rows were written."""
    turns: dict[str, int] = {}
    """The last claim of lanes and runs, and of the children of a parent in them, by `run_turn` and `parent_turn`."""

    def __len__(self) -> int:
        return len(self.lanes) + len(self.runs) + len(self.yools) + len(self.turns)


def run_turn(lane: str, run: int) -> str:
    """Return the name of the turn of a run in a lane."""
    return f"{run}:{lane}"


def parent_turn(lane: str, run: int, parent: int) -> str:
    """Return the name of the turn of a parent's children of a run in a lane."""
    return f"{run}.{parent}:{lane}"


class GroupFields(NamedTuple):
    """What the tuples of a group have in common."""

    lane: str
    run: int
    """Number of the run."""
    authority: str
    parent: int
    """Ordinal of the parent; 0 without one."""
    key: str
    run_id: str
    lane_run: int
    siblings: int
    turns: tuple[str, str]
    """Names of the turns of its run and of its parent."""

    @classmethod
    def from_row(cls, row: Any) -> GroupFields:
        """Return the fields that a row of the query `group_fields` holds."""
        lane, run, authority, parent, key, run_id, lane_run, siblings = row
        turns = run_turn(lane, run), parent_turn(lane, run, parent)
        return cls(lane, run, authority, parent, key, run_id, lane_run, siblings, turns)

    @property
    def subject(self) -> Subject:
        """What rules look at."""
        return Subject(self.lane, self.run_id, self.authority, self.key or None)


def read_history(row: Any) -> CostHistory:
    """Return the history of a yool from its row, or an empty one if it has none."""
    if row is None:
        return CostHistory()
    executions, micros, tokens, most_micros, most_tokens, kept_micros, kept_tokens = row
    return CostHistory(
        executions=executions,
        micros=micros,
        tokens=tokens,
        most=Price(micros=most_micros, tokens=most_tokens),
        kept_micros=kept_micros,
        kept_tokens=kept_tokens,
    )


def history_row(history: CostHistory) -> tuple[int, ...]:
    """Return the columns of a yool's history."""
    return (
        history.executions,
        history.micros,
        history.tokens,
        history.most.micros,
        history.most.tokens,
        history.kept_micros,
        history.kept_tokens,
    )


_decode_rule = msgspec.json.Decoder(LimitRule).decode


class KnownRules:
    """The last rules that were read, so that a view need not read them again."""

    def __init__(self) -> None:
        self._known: tuple[int, LimitRules] = 0, LimitRules()

    def read(self, number: int, bodies: Callable[[], Iterable[tuple[bytes]]]) -> LimitRules:
        """Return the rules of a number; `bodies` reads them."""
        cached = self._known
        if cached[0] != number:
            cached = self._known = number, LimitRules(_decode_rule(body) for (body,) in bodies())
        return cached[1]


KNOWN_RULES = KnownRules()


def number_of_rules(bodies: Iterable[bytes]) -> int:
    """Return a number that tells rules from others; 0 for none."""
    in_order = sorted(bodies)
    return int.from_bytes(sha256(b"\n".join(in_order)).digest()[:7], "big") | 1 if in_order else 0


MAX_KNOWN_ROWS = 2
"""Rows of one query that are remembered; of longer answers none is."""
MAX_KNOWN_QUERIES = 4096


def new_shape() -> int:
    """Return a number that no other state of the groups has, of this index or of another."""
    # Not from `random`: a program may seed it, and a forked process goes on with the numbers of the other.
    return int.from_bytes(urandom(8), "big") >> 2


class KnownShape:
    """Short answers to queries about groups and batches, which most commits leave as they are (decision 35).

    They hold for one shape, whoever asks: claims, and readers of any snapshot with that shape.
    """

    def __init__(self) -> None:
        self._known: tuple[int, dict[Any, tuple[Any, ...]]] = 0, {}

    def rows(self, shape: int, name: str, values: tuple[Any, ...], ask: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Return the rows of a query; `ask` runs it."""
        known = self._known
        if known[0] != shape or len(known[1]) >= MAX_KNOWN_QUERIES:
            known = self._known = shape, {}
        answers, asked = known[1], (name, values)
        answer = answers.get(asked)
        if answer is not None:
            return iter(answer)
        rows = ask()
        first = tuple(islice(rows, MAX_KNOWN_ROWS + 1))
        if len(first) > MAX_KNOWN_ROWS:
            return chain(first, rows)
        answers[asked] = first
        return iter(first)


KNOWN_SHAPE = KnownShape()


_decode_figures = msgspec.json.Decoder(PendingFigures).decode


class WorkIndexState(msgspec.Struct, kw_only=True):
    """The state row of the work index, and three caches; changed as facts are applied."""

    position: JournalPosition
    synced_bytes: int
    boot_id: str
    indexed: tuple[str, ...]
    """Fields by which tuples are posted."""
    ordinal: int = 0
    """Tuples so far."""
    receipts: int = 0
    links: int = 0
    runs: int = 0
    epoch: int = 0
    boot: str = ""
    """The machine's boot in which the epoch began."""
    counter: int = 0
    """Claims in this epoch."""
    merged_tuples: int = 0
    merged_receipts: int = 0
    rules: int = 0
    """Number made from the limits and pauses, other for others; 0 if there are none."""
    shape: int = 0
    """Another with every change of the groups and of the list of batches."""
    figures: PendingFigures = msgspec.field(default_factory=PendingFigures)
    run_numbers: dict[str, int] = {}
    """Cache: numbers of runs."""
    needs_numbers: dict[tuple[str, ...], int] = {}
    """Cache: numbers of sets of yools."""
    group_numbers: dict[tuple[str, int, int, int, str, int, str], int] = {}
    """Cache: groups by lane, run, needs, rank, authority, parent and key."""
    sibling_numbers: dict[tuple[Any, ...], int] = {}
    """Cache: siblings by the same without the key."""
    group_fields: dict[int, GroupFields] = {}
    """Cache: what the tuples of a group have in common."""
    filled: set[int] = set()
    """Cache: groups known to be open."""
    quiet_until: dict[str, int] = {}
    """Cache: by lane, a time before which no delayed tuple is due and no claim ends."""
    fresh_claims: dict[str, TupleRecord] = {}
    """Cache: tuples that this process was the first to claim and to which nothing has happened since (decision 35)."""
    has_batches: bool | None = None
    """Cache: True if a batch was ever spawned; None if unknown."""
    is_from_start: bool = False
    steps_run: bool | None = None
    """Cache: True if a step of any tuple is running; None if unknown."""
    any_blocks: bool | None = None
    """Cache: True if any tuple is blocked; None if unknown."""


def read_row(row: Any, indexed: tuple[str, ...], position: JournalPosition) -> WorkIndexState:
    """Return the state that a row of the query `state` holds, at a position of the journal."""
    return WorkIndexState(
        indexed=indexed,
        position=position,
        synced_bytes=row[8],
        boot_id=row[9],
        ordinal=row[10],
        receipts=row[11],
        links=row[12],
        runs=row[13],
        epoch=row[14],
        boot=row[15],
        counter=row[16],
        merged_tuples=row[17],
        merged_receipts=row[18],
        rules=row[19],
        figures=_decode_figures(row[20]),
        shape=row[21],
    )
