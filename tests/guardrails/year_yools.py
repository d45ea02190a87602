"""Yools of the sprints in `test_year.py`, imported as an operator would: `--import tests.guardrails.year_yools`."""

from __future__ import annotations

import hashlib
import sys

from engrambus.space.catalog import yool
from engrambus.space.work import step_context

EVERYONE = ("user", "agent", "ci")


@yool("agent.build.release", lane="build", authority=EVERYONE, inputs=[])
def build(day: int, size: int) -> None:
    """Leave an archive of some size, another one each day, and print a log."""
    (step_context.artifacts() / "release.bin").write_bytes(hashlib.shake_256(str(day).encode()).digest(size))
    for line in range(50):
        print(f"{day}: compiled unit {line}")


@yool("agent.check.style", lane="build", effect="reads", authority=EVERYONE, inputs=["src/parser.py"])
def check() -> None:
    """Read the sources."""
    with open("src/parser.py") as file:
        print(len(file.read()), "bytes are in style")


@yool("agent.deploy.flaky", lane="build", authority=EVERYONE, cached=False)
def deploy(day: int) -> None:
    """Spend, and ask for another attempt on the first."""
    step_context.spend(usd=0.01, tokens_in=100)
    mark = step_context.artifacts().parents[2] / f"deployed-{day}"
    if not mark.exists():
        mark.touch()
        sys.exit(75)


@yool("agent.fail.always", lane="build", authority=EVERYONE, inputs=[])
def fail(day: int) -> None:
    """Fail."""
    print(f"day {day} went wrong", file=sys.stderr)
    sys.exit(3)


@yool("agent.sum.up", lane="build", effect="pure", authority=EVERYONE, inputs=[])
def sum_up(day: int) -> int:
    """Return a number."""
    return day * day
