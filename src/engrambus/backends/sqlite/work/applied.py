"""How far an index of work has come, and what else it knows in one row."""

from __future__ import annotations

import apsw
import msgspec

from engrambus.backends.sqlite.queries import queries
from engrambus.core.journal import Place
from engrambus.space.tuples import TupleRecord

QUERIES = "work_queries.sql"

_encode = msgspec.json.Encoder().encode


class Figures(msgspec.Struct, kw_only=True):
    """What was counted and is not in its table yet. Each table would be another page that every commit writes."""

    lanes: dict[str, list[int]] = {}
    """How many more wait and are claimed."""
    runs: dict[int, dict[str, int]] = {}
    """How much more of what, by the number of the run."""
    yools: dict[str, list[int]] = {}
    """Further executions, and what they cost."""

    def __len__(self) -> int:
        return len(self.lanes) + len(self.runs) + len(self.yools)


class Applied(msgspec.Struct, kw_only=True):
    """How far an index has come; changed as facts are applied."""

    place: Place
    synced: int
    machine: str
    indexed: tuple[str, ...]
    ordinal: int = 0
    receipts: int = 0
    links: int = 0
    runs: int = 0
    epoch: int = 0
    boot: str = ""
    counter: int = 0
    sorted_tuples: int = 0
    sorted_receipts: int = 0
    figures: Figures = msgspec.field(default_factory=Figures)
    run_numbers: dict[str, int] = {}
    """The numbers of runs, as far as they were asked for."""
    held: dict[str, TupleRecord] = {}
    """Tuples that were claimed for the first time by this process and of which nothing was told since."""
    steps_run: bool | None = None
    """Whether any step of any tuple is under way; not known before it is asked."""


def save_applied(connection: apsw.Connection, applied: Applied) -> None:
    """Write down how far the index has come."""
    place = applied.place
    connection.execute(
        queries(QUERIES)["move_applied"],
        (
            place.offset,
            place.seq,
            place.sum,
            place.at,
            applied.synced,
            applied.machine,
            applied.ordinal,
            applied.receipts,
            applied.links,
            applied.runs,
            applied.epoch,
            applied.boot,
            applied.counter,
            applied.sorted_tuples,
            applied.sorted_receipts,
            _encode(applied.figures),
        ),
    )
