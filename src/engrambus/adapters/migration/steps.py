"""The ten steps of a migration: a flag for each, and what shows that the next one may be taken."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engrambus.adapters.migration.shims import LANE
from engrambus.core import read_yaml
from engrambus.errors import FieldType, FieldUnknown, FieldValue, YoolName
from engrambus.settings import Settings
from engrambus.space.tuples import TupleRecord, TupleSpace

_ON, _OFF = ("1", "on", "true", "yes"), ("", "0", "off", "false", "no")
PREFIX = "MIGRATION_"


class MigrationFlags(msgspec.Struct, frozen=True, kw_only=True):
    """Which steps are taken. Each can be switched on and off by itself."""

    catalog: bool = False
    """1. The registry is generated into the catalog."""
    dual_read: bool = False
    """2. Look-ups read the registry and the catalog."""
    artifacts: bool = False
    """3. What is written is stored by its content, too, with a receipt."""
    tuple_log: bool = False
    """4. Start, end and failure of each unit are recorded."""
    emit: bool = False
    """5. The orchestrator puts tuples and waits for them."""
    workers: bool = False
    """6. Worker processes run them."""
    cache: bool = False
    """7. A step whose input is known is answered from its receipt."""
    mcp: bool = False
    """8. Agents can see the work over MCP."""
    budgets: bool = False
    """9. Tuples carry budgets."""
    old_removed: bool = False
    """10. The old path is gone."""

    @classmethod
    def up_to(cls, step: int) -> MigrationFlags:
        """Return the flags with the first so many steps taken."""
        if not 0 <= step <= len(STEPS):
            raise FieldValue("There are ten steps.", field="step", limit=f"0..{len(STEPS)}", used=step)
        return cls(**{item.flag: item.number <= step for item in STEPS})

    @classmethod
    def from_mapping(cls, values: Mapping[str, object], *, prefix: str = PREFIX) -> MigrationFlags:
        """Return the flags that a mapping sets, such as `os.environ`: MIGRATION_DUAL_READ=on. Other names are left."""
        named = {f"{prefix}{item.flag.upper()}": item.flag for item in STEPS}
        unknown = sorted(name for name in values if prefix and name.startswith(prefix) and name not in named)
        if unknown:
            raise FieldUnknown(f"There is no flag '{unknown[0]}'.", field=unknown[0], limit=", ".join(named))
        return cls(**{flag: _switch(name, values[name]) for name, flag in named.items() if name in values})

    @classmethod
    def from_file(cls, path: Path | str) -> MigrationFlags:
        """Return the flags in a file of YAML or JSON, such as `dual_read: on`."""
        values = read_yaml(Path(path).read_text("utf-8")) or {}
        if not isinstance(values, Mapping):
            raise FieldType("The file does not hold flags.", field=str(path), limit="name: on or off")
        flags = {item.flag for item in STEPS}
        for name in values:
            if name not in flags:
                raise FieldUnknown(f"There is no flag '{name}'.", field=str(name), limit=", ".join(sorted(flags)))
        return cls(**{name: _switch(name, value) for name, value in values.items()})


def _switch(name: str, value: object) -> bool:
    text = str(value).strip().lower()
    if text not in (*_ON, *_OFF):
        raise FieldValue(f"{name} must be on or off.", field=name, limit="on, off", used=text[:40])
    return text in _ON


class MigrationEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What can be counted about a migration."""

    yools: int = 0
    """Yools in the catalog."""
    undeclared: tuple[str, ...] = ()
    """Keys of the registry that the catalog does not have."""
    lookups: int = 0
    """Look-ups that were compared."""
    different: int = 0
    """Those that differed."""
    lookups_since: str | None = None
    artifacts: int = 0
    """Artifacts in the receipts of the old orchestrator's work."""
    units: int = 0
    """Units of old work that were recorded to their end."""
    units_failed: int = 0
    units_lost: int = 0
    """Units that began and were never ended."""
    emitted: int = 0
    """Tuples of the orchestrator that are done."""
    emitted_dead: int = 0
    """Those that were given up and not put again."""
    workers: int = 0
    """Different processes that ran their steps."""
    executed: int = 0
    hits: int = 0
    """Steps answered from the cache."""
    without_budget: int = 0
    """Unended and done tuples without a budget."""
    with_budget: int = 0


class _Step(NamedTuple):
    number: int
    flag: str
    title: str
    shown: Callable[[MigrationEvidence], str]
    """The evidence for the step, in words."""
    holds: Callable[[MigrationEvidence], bool]
    """True if the next step may be taken."""


STEPS: tuple[_Step, ...] = (
    _Step(
        1,
        "catalog",
        "generate the catalog",
        lambda e: (
            f"{e.yools} yools declared, {len(e.undeclared)} keys of the registry are not"
            + (f": {', '.join(e.undeclared[:5])}" if e.undeclared else "")
        ),
        lambda e: e.yools > 0 and not e.undeclared,
    ),
    _Step(
        2,
        "dual_read",
        "read registry and catalog",
        lambda e: f"{e.different} differences in {e.lookups:,} look-ups since {e.lookups_since or 'never'}",
        lambda e: e.lookups > 0 and not e.different,
    ),
    _Step(
        3,
        "artifacts",
        "give artifacts receipts",
        lambda e: f"{e.artifacts} artifacts have receipts",
        lambda e: e.artifacts > 0,
    ),
    _Step(
        4,
        "tuple_log",
        "log units as tuples",
        lambda e: f"{e.units} units recorded, {e.units_failed} of them failed; {e.units_lost} never ended",
        lambda e: e.units > 0,
    ),
    _Step(
        5,
        "emit",
        "emit and await",
        lambda e: f"{e.emitted} emitted tuples are done, {e.emitted_dead} given up",
        lambda e: e.emitted > 0 and not e.emitted_dead,
    ),
    _Step(
        6,
        "workers",
        "let workers run them",
        lambda e: f"{e.executed} steps executed by {e.workers} processes",
        lambda e: e.executed > 0 and not e.emitted_dead,
    ),
    _Step(
        7,
        "cache",
        "answer from receipts",
        lambda e: f"{e.hits} steps answered from the cache",
        lambda e: e.hits > 0,
    ),
    _Step(
        8,
        "mcp",
        "show the work over MCP",
        lambda e: "not counted: an agent that calls tuple_observe sees it",
        lambda e: True,
    ),
    _Step(
        9,
        "budgets",
        "give tuples budgets",
        lambda e: f"{e.with_budget} tuples have a budget, {e.without_budget} earlier or other ones have none",
        lambda e: e.with_budget > 0,
    ),
    _Step(10, "old_removed", "remove the old orchestrator", lambda e: "nothing is left to switch", lambda e: True),
)


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a migration stands."""

    step: int
    """The last step before which all are taken; 0 before the first."""
    title: str
    evidence: str
    """What was counted for it."""
    may_go_on: bool
    """True if that evidence allows the next step."""
    next_step: str | None
    """The next step; None after the last."""
    skipped: tuple[str, ...] = ()
    """Later steps that are switched on although an earlier one is off."""

    def __str__(self) -> str:
        lines = [f"step {self.step} of {len(STEPS)}: {self.title}", f"evidence: {self.evidence}"]
        if self.next_step is not None:
            lines.append(f"next: {self.next_step}" if self.may_go_on else f"not yet: {self.next_step}")
        if self.skipped:
            lines.append(f"also on: {', '.join(self.skipped)}")
        return "\n".join(lines)


def standing(flags: MigrationFlags, evidence: MigrationEvidence) -> Standing:
    """Return where a migration stands by its flags, and whether what was counted allows the next step."""
    switched_on = [getattr(flags, item.flag) for item in STEPS]
    number = switched_on.index(False) if False in switched_on else len(STEPS)
    following = STEPS[number] if number < len(STEPS) else None
    skipped = tuple(item.flag for item in STEPS[number:] if getattr(flags, item.flag))
    next_step = f"{following.number}. {following.title} ({following.flag})" if following else None
    if number == 0:
        return Standing(
            step=0, title="nothing is switched on", evidence="none needed", may_go_on=True, next_step=next_step,
            skipped=skipped,
        )  # fmt: skip
    current = STEPS[number - 1]
    return Standing(
        step=number,
        title=current.title,
        evidence=current.shown(evidence),
        may_go_on=current.holds(evidence),
        next_step=next_step,
        skipped=skipped,
    )


def gather_evidence(
    path: Path | str = ".",
    *,
    orchestrator: str,
    registry: Collection[str] = (),
    report_file: Path | str | None = None,
    settings: Settings | None = None,
) -> MigrationEvidence:
    """Count what a project's journal, its catalog and a dual-read report say about a migration.

    Args:
        path: A folder of the project
        orchestrator: The name under which the shims record; emitted tuples carry it as `map_pos.orchestrator`
        registry: Keys of the old registry
        report_file: The file that `DualRead` writes
        settings: By default those of the environment
    """
    from engrambus.app import open_project

    with closing(open_project(Path(path), settings or Settings.from_environment())) as gateway:
        catalog = gateway.project_files.catalog()

        def is_declared(key: str) -> bool:
            try:
                return catalog.get(key) is not None
            except YoolName:
                return False

        return MigrationEvidence(
            yools=len(list(catalog)),
            undeclared=tuple(sorted(key for key in registry if not is_declared(key))),
            **_dual_read_totals(report_file),
            **_work_totals(gateway.tuple_space.space, orchestrator),
        )


def _dual_read_totals(report_file: Path | str | None) -> dict[str, Any]:
    if report_file is None or not Path(report_file).exists():
        return {}
    totals = []
    for line in Path(report_file).read_bytes().splitlines():
        try:
            read = msgspec.json.decode(line)
        except msgspec.DecodeError:  # the last line of a process that was killed
            continue
        if isinstance(read, dict) and isinstance(read.get("totals"), dict):
            totals.append(read["totals"])
    return {
        "lookups": sum(item["lookups"] for item in totals),
        "different": sum(item["different"] for item in totals),
        "lookups_since": min((item["since"] for item in totals), default=None),
    }


def _work_totals(space: TupleSpace, orchestrator: str) -> dict[str, Any]:
    old = ("artifacts", "units", "units_failed", "units_lost")
    new = ("emitted", "emitted_dead", "executed", "hits", "without_budget", "with_budget")
    counts = dict.fromkeys((*old, *new), 0)
    processes: set[str] = set()
    for record in _records(space, orchestrator):
        with space.store.read() as view:
            receipts = [receipt for id in view.receipt_ids(record.id) if (receipt := view.receipt(id)) is not None]
        steps = [receipt for receipt in receipts if receipt.step is not None]
        if record.lane == LANE:
            counts["artifacts"] += sum(len(receipt.artifacts) for receipt in steps)
            counts["units"] += record.state in ("done", "dead")
            counts["units_failed"] += record.state == "dead"
            counts["units_lost"] += record.state == "cancelled"
            continue
        receipts_of_unit = [receipt for receipt in steps if receipt.tuple_id == record.id]
        processes.update(receipt.worker for receipt in receipts_of_unit if receipt.worker is not None)
        counts["executed"] += len(receipts_of_unit)
        counts["hits"] += len(steps) - len(receipts_of_unit)
        counts["emitted"] += record.state == "done"
        counts["emitted_dead"] += record.state == "dead" and record.put_again_as is None
        has_budget = record.budget_micros is not None or record.budget_tokens is not None
        counts["with_budget" if has_budget else "without_budget"] += 1
    return {**counts, "workers": len(processes)}


def _records(space: TupleSpace, orchestrator: str) -> Iterator[TupleRecord]:
    after = 0
    while page := space.rd_all({"map_pos.orchestrator": orchestrator}, limit=500, after=after):
        yield from page
        after = page[-1].ordinal
