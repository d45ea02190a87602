"""Check a folder: `python -m examples.migration.before.flow FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .steps import STEPS


def main(folder: str, out: Path) -> dict[str, str]:
    """Run every step that has no result yet, and write a report."""
    out.mkdir(exist_ok=True)
    state = out / "state.json"
    results: dict[str, str] = json.loads(state.read_text()) if state.exists() else {}
    for name in STEPS:
        if name in results:
            continue
        results[name] = STEPS[name](folder)
        (out / f"{name}.txt").write_text(results[name] + "\n")
        state.write_text(json.dumps(results))
    (out / "report.md").write_text("\n".join(f"## {name}\n\n{text}\n" for name, text in results.items()))
    state.unlink()
    return results


if __name__ == "__main__":
    for name, text in main(sys.argv[1], Path("out")).items():
        print(f"{name}: {text.splitlines()[-1]}")
