"""`python -m tests.torture [--minutes N] [--rounds N] [--all] [--seed N] [--only PART]`: what the bus survives.

Each part tries as many of its cases, drawn by the seed, as its time allows; with `--all` every one, with `--rounds` so
many. `--minutes` is how long the mixed load runs. Prints a table and exits with 1 if anything acknowledged was lost, an
answer was wrong, or an exception escaped.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.torture import tracer
from tests.torture.outcome import Outcome, markdown_table

Part = Callable[[Path, Outcome, argparse.Namespace], None]


def _kills(folder: Path, outcome: Outcome, options: argparse.Namespace) -> None:
    from tests.torture.kills import kill_everywhere

    kill_everywhere(folder, outcome, rounds=options.rounds, seed=options.seed)


def _power(folder: Path, outcome: Outcome, options: argparse.Namespace) -> None:
    from tests.torture.crash_states import cut_power_everywhere

    cut_power_everywhere(folder, outcome, rounds=options.rounds, seed=options.seed)


def _errors(folder: Path, outcome: Outcome, options: argparse.Namespace) -> None:
    from tests.torture.disk_errors import fail_everywhere

    fail_everywhere(folder, outcome, rounds=options.rounds, seed=options.seed)


def _flips(folder: Path, outcome: Outcome, options: argparse.Namespace) -> None:
    from tests.torture.flips import flip_everything

    flip_everything(folder, outcome, rounds=options.rounds, seed=options.seed, files=options.file)


def _load(folder: Path, outcome: Outcome, options: argparse.Namespace) -> None:
    from tests.torture.mixed_load import run_mixed_load

    run_mixed_load(folder, outcome, minutes=options.minutes, seed=options.seed)


PARTS: dict[str, Part] = {"kills": _kills, "power": _power, "errors": _errors, "flips": _flips, "load": _load}


MINUTES = {"kills": 10.0, "power": 12.0, "errors": 15.0, "flips": 20.0}
"""How long each part takes at most; with 30 minutes of load the whole takes under 90. `--all` lifts the limits."""
MAX_PRINTED = 40
"""Most problems printed below the table; stderr has shown all of them."""


def main() -> int:
    """Run the parts, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long the mixed load runs")
    parser.add_argument("--rounds", type=int, help="cases of each other part, drawn by the seed")
    parser.add_argument("--all", action="store_true", help="try every case, however long that takes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", action="append", default=[], help="damage only this file; may be repeated")
    parser.add_argument("--only", choices=PARTS, help="run one part")
    options = parser.parse_args()
    if problem := tracer.unsupported():
        print(f"Nothing can be tried: {problem}.", file=sys.stderr)
        return 2
    outcomes = []
    for name in [options.only] if options.only else PARTS:
        outcome = Outcome(name, minutes=None if options.rounds or options.all else MINUTES.get(name))
        with tempfile.TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True) as folder:
            PARTS[name](Path(folder), outcome, options)
        outcomes.append(outcome)
    sys.stderr.write("\r\x1b[K")
    print(markdown_table(outcomes))
    problems = [(outcome, found) for outcome in outcomes for found in outcome.problems]
    for outcome, found in problems[:MAX_PRINTED]:
        print(f"{outcome.part}, seed {options.seed}, {found.case}: {found.problem.kind}: {found.problem.text[-300:]}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
