"""Functions for the code of a yool while it runs: where to leave artifacts, how to report spending, whose step it is.

    from engrambus.space.work import step_context

    step_context.spend(usd=0.002, tokens_in=1200, tokens_out=80)
    (step_context.artifacts() / "report.xml").write_text(report)
    bus.tuple_out("build", payload=steps, parent_id=step_context.tuple_id())

A command has the same in its environment: ENGRAMBUS_ARTIFACTS names the folder, lines of JSON such as
`{"usd":0.002,"tokens_in":1200}` are appended to the file ENGRAMBUS_COST, and ENGRAMBUS_TUPLE is the tuple's id.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

ARTIFACTS, COST, TUPLE = "ENGRAMBUS_ARTIFACTS", "ENGRAMBUS_COST", "ENGRAMBUS_TUPLE"

_values: dict[str, str] = {}


def enter(artifacts: str, cost: str, tuple_id: str) -> None:
    """Set the step that runs now in this process."""
    _values.update({ARTIFACTS: artifacts, COST: cost, TUPLE: tuple_id})


def artifacts() -> Path:
    """Return the folder whose files are stored with the receipt."""
    return Path(_value(ARTIFACTS))


def tuple_id() -> str:
    """Return the id of the tuple the step belongs to; tuples put with this `parent_id` spend its budget."""
    return _value(TUPLE)


def spend(*, usd: float = 0.0, tokens_in: int = 0, tokens_out: int = 0) -> None:
    """Report spending. It is counted once, even if the step fails, its tuple is cancelled or its worker is killed."""
    line = json.dumps({"usd": usd, "tokens_in": tokens_in, "tokens_out": tokens_out}) + "\n"
    # One write to a file opened with O_APPEND: lines of several threads or processes do not mix.
    descriptor = os.open(_value(COST), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def _value(name: str) -> str:
    if not _values:
        raise RuntimeError("no step is running in this process")
    return _values[name]
