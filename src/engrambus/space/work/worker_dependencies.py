"""Everything a worker needs: the tuple space, the code of yools, the catalog, the runner and the stores."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from engrambus.core import Clock
from engrambus.evidence.receipts import BodyStore, ReceiptFolder
from engrambus.policy.guardrails import Quotas
from engrambus.space.catalog import Catalog, CatalogEntry, Registry, Yool, combine_entries
from engrambus.space.tuples import GC_LANE, GC_YOOL, CanRun, TupleSpace
from engrambus.space.work.input_files import InputFiles
from engrambus.space.work.main_script import check_loadable
from engrambus.space.work.ports import StepRunner
from engrambus.space.work.single_flight import SingleFlight

ALWAYS_VISIBLE = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "HOME")
"""Variables every step sees; they are assumed not to change a result, so the cache key leaves them out."""
_RUN_CLI = "from engrambus.edges.cli import main; main()"

BUILTIN_YOOLS = Registry()
"""Yools of the product itself. They are in no project's catalog, so only the product can put tuples that name them."""
# decision 28: collecting garbage is a step, so it has a receipt, retries and limits like any other.
BUILTIN_YOOLS.yool(
    GC_YOOL,
    lane=GC_LANE,
    authority=("user", "agent", "ci"),
    env=("PYTHONPATH", "XDG_STATE_HOME", "XDG_DATA_HOME"),
    cached=False,
    about="Free disk space: delete bodies that receipts no longer have to keep.",
)([sys.executable, "-P", "-c", _RUN_CLI, "gc"])


class WorkerDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """Objects shared by all workers of a process."""

    space: TupleSpace
    registry: Registry
    """Code of the yools."""
    catalog: Callable[[], Catalog]
    """Returns what the project declares now; a yool that is not in it is not run."""
    runner: StepRunner
    bodies: BodyStore
    receipts: ReceiptFolder
    clock: Clock
    root: Path
    """Folder of the project."""
    environment: Mapping[str, str]
    """Variables that steps may be given if their contract names them."""
    single_flight: SingleFlight
    input_files: InputFiles = msgspec.field(default_factory=InputFiles)
    """Reader of the files that steps depend on."""
    quotas: Callable[[], tuple[Quotas, ...]] = tuple
    """Returns the quotas of environment and project now, which no tuple or yool can raise."""

    def resolve(self, name: str) -> tuple[Yool, CatalogEntry]:
        """Return the code of a yool and what it may do, by the version the catalog chooses for that name.

        A built-in yool needs no entry in the catalog; any other that is not declared there is refused.
        """
        catalog = self.catalog()
        builtin = BUILTIN_YOOLS.get(name)
        if builtin is not None and catalog.get(name) is None:
            return builtin, builtin.entry
        declared = catalog.lookup(name)
        full_name = declared.full_name
        yool = self.registry.get(full_name) or BUILTIN_YOOLS.get(full_name) or self.registry.lookup(full_name)
        return yool, combine_entries(declared, yool.entry)

    def runnable(self) -> CanRun:
        """Return what tells whether code here runs a yool, by the catalog as it is now."""
        catalog = self.catalog()

        def can_run(name: str) -> bool:
            declared = catalog.get(name)
            full_name = name if declared is None else declared.full_name
            yool = None if declared is None else self.registry.get(full_name)
            if yool is not None:
                check_loadable(yool)
            return yool is not None or BUILTIN_YOOLS.get(full_name) is not None

        return can_run

    def code_names(self) -> tuple[str, ...]:
        """Return the full names of all yools that code here implements, whether they are declared or not."""
        return tuple(yool.entry.full_name for yools in (self.registry, BUILTIN_YOOLS) for yool in yools)

    def sweep(self) -> None:
        """Count what steps of killed workers reported as spent, then delete their folders."""
        self.runner.sweep(partial(self.space.record_cost, synced=True))

    def step_environment(self, entry: CatalogEntry) -> dict[str, str]:
        """Return the variables that steps of a yool see."""
        variables = self.environment
        return {name: variables[name] for name in (*ALWAYS_VISIBLE, *entry.contract.env) if name in variables}

    def was_collected(self, sha: str) -> bool:
        """True if a body is missing because garbage collection deleted it."""
        with self.space.store.read() as view:
            return view.purged_at_us(sha) is not None and not self.bodies.exists(sha)
