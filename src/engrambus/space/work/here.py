"""What the code of a yool has at hand while it runs: where to leave things, how to say what it spends, whose it is.

    from engrambus.space.work import here

    here.spend(usd=0.002, tokens_in=1200, tokens_out=80)
    (here.artifacts() / "report.xml").write_text(report)
    bus.tuple_out("build", payload=more, parent_id=here.tuple_id())

A command has the same: the folder is named by ENGRAMBUS_ARTIFACTS, lines of JSON like
`{"usd":0.002,"tokens_in":1200}` are appended to the file named by ENGRAMBUS_COST, and ENGRAMBUS_TUPLE is the tuple.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

ARTIFACTS, COST, TUPLE = "ENGRAMBUS_ARTIFACTS", "ENGRAMBUS_COST", "ENGRAMBUS_TUPLE"

_places: dict[str, str] = {}


def enter(artifacts: str, cost: str, tuple_id: str) -> None:
    """Say which step runs now, and where it keeps things."""
    _places.update({ARTIFACTS: artifacts, COST: cost, TUPLE: tuple_id})


def artifacts() -> Path:
    """The folder for files to be kept with the receipt."""
    return Path(_place(ARTIFACTS))


def tuple_id() -> str:
    """The tuple the step belongs to; what it puts with this `parent_id` spends what that one may."""
    return _place(TUPLE)


def spend(*, usd: float = 0.0, tokens_in: int = 0, tokens_out: int = 0) -> None:
    """Say what was spent. It counts, once, whatever becomes of the step, its tuple or its worker: at once while that
    looks after it, and when it was killed, as soon as another one looks for work."""
    line = json.dumps({"usd": usd, "tokens_in": tokens_in, "tokens_out": tokens_out}) + "\n"
    descriptor = os.open(_place(COST), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def _place(name: str) -> str:
    if not _places:
        raise RuntimeError("no step is running in this process")
    return _places[name]
