"""Check a folder, with the steps of the migration that `flags.yaml` or MIGRATION_* switch on.

`python -m examples.migration.during.flow FOLDER`; with `--standing` instead of a folder it tells how far it is.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from engrambus import Bus, Worker
from engrambus.adapters.migration import (
    ArtifactShim,
    DualRead,
    MigrationFlags,
    Standing,
    TupleLog,
    gather_evidence,
    standing,
)
from engrambus.space.catalog import CAPABILITIES, CatalogEntry, read_catalog

from ..after.flow import result  # noqa: TID252
from ..before.steps import STEPS, Step  # noqa: TID252

NAME = "flow"
MODULE = "examples.migration.after.steps"


def main(folder: str, out: Path, flags: MigrationFlags) -> dict[str, str]:
    """Run every step that has no result yet, on the old path or on the new one, and write a report."""
    out.mkdir(exist_ok=True)
    state = out / "state.json"
    results = emit(folder, state, flags) if flags.emit or flags.old_removed else run(folder, out, state, flags)
    for name, text in results.items():
        (out / f"{name}.txt").write_text(text + "\n")
    (out / "report.md").write_text("\n".join(f"## {name}\n\n{text}\n" for name, text in results.items()))
    state.unlink()
    return results


def run(folder: str, out: Path, state: Path, flags: MigrationFlags) -> dict[str, str]:
    """Walk the old path, with those shims that are switched on."""
    saved = json.loads(state.read_text()) if state.exists() else {}
    results: dict[str, str] = {} if "tuple" in saved else saved  # begun on the new path, and that was switched off
    registry = dual_read(out) if flags.dual_read else None
    steps = registry if registry is not None else STEPS
    with (
        ArtifactShim(orchestrator=NAME, enabled=flags.artifacts) as artifacts,
        TupleLog(orchestrator=NAME, enabled=flags.tuple_log) as log,
    ):
        for name in STEPS:
            if name in results:
                continue
            with log.unit(name, {"folder": folder}) as unit:
                results[name] = unit.result = steps[name](folder)
                artifacts.write_artifact(out / f"{name}.txt", results[name] + "\n", yool=name)
            state.write_text(json.dumps(results))
    if registry is not None:
        print(f"dual-read: {registry.write_report().summary}", file=sys.stderr)
    return results


def dual_read(out: Path) -> DualRead[Step]:
    """Return the registry, compared with the catalog at each look-up."""

    def compare(step: Step, entry: CatalogEntry) -> str | None:
        return None if step.__doc__ == entry.about else f"the catalog says: {entry.about}"

    catalog = read_catalog(Path(".catalog").resolve() / CAPABILITIES)
    return DualRead(STEPS, catalog, compare=compare, report_file=out / "dual-read.jsonl")


def emit(folder: str, state: Path, flags: MigrationFlags) -> dict[str, str]:
    """Walk the new path: put a tuple, and wait for it or run it in this process."""
    with Bus.open() as bus:
        saved = json.loads(state.read_text()) if state.exists() else {}
        if "tuple" not in saved:
            payload = [{"yool": name, "args": {"folder": folder}} for name in STEPS]
            put = bus.tuple_out(
                "flow",
                payload=payload,
                map_pos={"orchestrator": NAME},
                agent_terms={"budget_usd": 0.5} if flags.budgets else {},
                flags={} if flags.cache else {"no_cache": True},
            )
            saved = {"tuple": put.id}
            state.write_text(json.dumps(saved))
        if flags.mcp:
            print(f"agents see it with tuple_observe: {saved['tuple']}", file=sys.stderr)
        if not flags.workers:
            with Worker.open(lane="flow", modules=[MODULE]) as worker:
                worker.run(until_empty=True)
        bus.tuple_rd(pattern={"id": saved["tuple"]}, state="done", timeout=600)
        return {step.yool: result(bus, step.receipt or "") for step in bus.tuple_observe(saved["tuple"]).steps}


def how_far(out: Path, flags: MigrationFlags) -> Standing:
    """Return how far the migration is, and what was counted for it."""
    found = gather_evidence(orchestrator=NAME, registry=STEPS, report_file=out / "dual-read.jsonl")
    return standing(flags, found)


def read_flags() -> MigrationFlags:
    """Return the flags in `flags.yaml`, or without that file those of the environment."""
    file = Path("flags.yaml")
    return MigrationFlags.from_file(file) if file.exists() else MigrationFlags.from_mapping(os.environ)


if __name__ == "__main__":
    if sys.argv[1] == "--standing":
        print(how_far(Path("out"), read_flags()))
    else:
        for name, text in main(sys.argv[1], Path("out"), read_flags()).items():
            print(f"{name}: {text.splitlines()[-1]}")
