"""The command: `run --sprint-id ID`, `runs list` and `resume --run-id ID`.

It puts the tuples of a sprint and then becomes an `engrambus worker`, so what is printed is what every worker prints.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from engrambus import Bus, EngramBusError

from .flow import SprintFlow

YOOLS = f"{__package__}.yools"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description="Run a sprint as tuples.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="put a tuple for each item of a sprint, and carry them out")
    run.add_argument("--sprint-id", required=True)
    run.add_argument("--stack", default="python")
    run.add_argument("--no-cache", action="store_true", help="use no earlier result")
    runs = commands.add_parser("runs", help="list the runs, the newest first")
    runs.add_argument("list", choices=["list"])
    resume = commands.add_parser("resume", help="continue a run after a crash")
    resume.add_argument("--run-id", required=True)
    given = parser.parse_args()
    if given.command == "run":
        run_id = emit(given.sprint_id, given.stack, no_cache=given.no_cache)
        become("worker", "--lane", SprintFlow.LANE, "--until-empty", "--import", YOOLS, "--run", run_id)
    elif given.command == "runs":
        become("runs", "list")
    else:
        become("resume", "--run-id", given.run_id, "--import", YOOLS)


def emit(sprint_id: str, stack: str, *, no_cache: bool) -> str:
    """Put the tuples of a sprint into a run of their own; return the run's id."""
    try:
        with Bus.open(".") as bus:
            run_id = bus.open_run(f"Sprint {sprint_id}").run_id
        with Bus.open(".", run=run_id) as bus:
            SprintFlow(sprint_id, stack, bus, no_cache=no_cache).run()
    except EngramBusError as refusal:
        sys.exit(f"error {refusal.code}: {refusal}\n{refusal.hint or ''}".rstrip())
    return run_id


def become(*words: str) -> NoReturn:
    """Replace this process by `engrambus`."""
    os.execv(sys.executable, [sys.executable, "-m", "engrambus", *words])  # noqa: S606


if __name__ == "__main__":
    main()
