"""Check a folder: `python -m examples.migration.after.flow FOLDER`, with `engrambus worker --lane flow` running."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from engrambus import Bus

from .steps import STEPS


def main(folder: str, out: Path, *, timeout: float = 600) -> dict[str, str]:
    """Put a tuple, wait for its end, and write a report."""
    out.mkdir(exist_ok=True)
    state = out / "state.json"
    with Bus.open() as bus:
        if not state.exists():
            payload = [{"yool": name, "args": {"folder": folder}} for name in STEPS]
            put = bus.tuple_out(
                "flow", payload=payload, map_pos={"orchestrator": "flow"}, agent_terms={"budget_usd": 0.5}
            )
            state.write_text(json.dumps({"tuple": put.id}))
        put_id = json.loads(state.read_text())["tuple"]
        bus.tuple_rd(pattern={"id": put_id}, state="done", timeout=timeout)
        results = {step.yool: result(bus, step.receipt or "") for step in bus.tuple_observe(put_id).steps}
    for name, text in results.items():
        (out / f"{name}.txt").write_text(text + "\n")
    (out / "report.md").write_text("\n".join(f"## {name}\n\n{text}\n" for name, text in results.items()))
    state.unlink()
    return results


def result(bus: Bus, receipt_id: str) -> str:
    """Return what a step returned, read by the digest that its receipt names."""
    receipt = bus.receipt_get(receipt_id).receipt or {}
    text: str = json.loads(bus.deref_pointer(f"artifact:{receipt['stdout_sha']}", max_tokens=20_000).excerpt)
    return text


if __name__ == "__main__":
    for name, text in main(sys.argv[1], Path("out")).items():
        print(f"{name}: {text.splitlines()[-1]}")
