"""What workers work with: the space, the code, the catalog, and where everything lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from engrambus.core import Clock
from engrambus.evidence.receipts import BodyStore, ReceiptFolder
from engrambus.policy.guardrails import Quotas
from engrambus.space.catalog import Catalog, CatalogEntry, Registry, Yool, combine_entries
from engrambus.space.tuples import TupleSpace
from engrambus.space.work.flight import Flights
from engrambus.space.work.own import OWN
from engrambus.space.work.ports import StepRunner

ALWAYS_SEEN = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "HOME")
"""Variables every step sees; they decide no result."""


class Workshop(msgspec.Struct, frozen=True, kw_only=True):
    """What workers work with."""

    space: TupleSpace
    registry: Registry
    """The code that carries yools out."""
    catalog: Callable[[], Catalog]
    """What the project declares now: what is not in it is not carried out."""
    runner: StepRunner
    bodies: BodyStore
    receipts: ReceiptFolder
    """Where receipts lie as files."""
    clock: Clock
    root: Path
    """The project's folder."""
    environment: Mapping[str, str]
    """What steps may be given of it."""
    flights: Flights
    """Steps under way: of equal ones the first runs, and the others wait for its result."""
    quotas: Callable[[], tuple[Quotas, ...]] = tuple
    """The most any step may take, whatever its tuple and its yool say: what the environment and the project say now."""

    def resolve(self, name: str) -> tuple[Yool, CatalogEntry]:
        """The code that carries a yool out, and what it may: the catalog says which is meant, as it does at the door.

        The product's own yools are in nobody's catalog; everything else that is not there is refused.
        """
        catalog = self.catalog()
        own = OWN.get(name)
        if own is not None and catalog.get(name) is None:
            return own, own.entry
        declared = catalog.lookup(name)
        meant = declared.full_name
        yool = self.registry.get(meant) or OWN.get(meant) or self.registry.lookup(meant)
        return yool, combine_entries(declared, yool.entry)

    def sweep(self) -> None:
        """Count what steps of killed workers said they spent, and take away what they left."""
        self.runner.sweep(partial(self.space.record_cost, synced=True))

    def seen_by(self, entry: CatalogEntry) -> dict[str, str]:
        """The variables a step of a yool sees."""
        given = self.environment
        return {name: given[name] for name in (*ALWAYS_SEEN, *entry.contract.env) if name in given}

    def made_room_of(self, sha: str) -> bool:
        """Whether a body is not there because it was taken away to make room."""
        with self.space.store.read() as view:
            return view.purged_at_us(sha) is not None and not self.bodies.has(sha)
