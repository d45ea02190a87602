"""What the code of a yool has at hand while it runs: a folder for what it leaves, and a way to say what it spends.

    from stigmergy.space.work import here

    here.spend(usd=0.002, tokens_in=1200, tokens_out=80)
    (here.artifacts() / "report.xml").write_text(report)

A command has the same: the folder is named by STIGMERGY_ARTIFACTS, and lines of JSON like
`{"usd":0.002,"tokens_in":1200}` are appended to the file named by STIGMERGY_COST.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

ARTIFACTS, COST = "STIGMERGY_ARTIFACTS", "STIGMERGY_COST"

_places: dict[str, str] = {}


def enter(artifacts: str, cost: str) -> None:
    """Say where the step that runs now keeps things."""
    _places.update({ARTIFACTS: artifacts, COST: cost})


def artifacts() -> Path:
    """The folder for files to be kept with the receipt."""
    if not _places:
        raise RuntimeError("no step is running in this process")
    return Path(_places[ARTIFACTS])


def spend(*, usd: float = 0.0, tokens_in: int = 0, tokens_out: int = 0) -> None:
    """Say what was spent. It counts, once, whatever becomes of the step, its tuple or its worker: at once while that
    looks after it, and when it was killed, as soon as another one looks for work."""
    if not _places:
        raise RuntimeError("no step is running in this process")
    line = json.dumps({"usd": usd, "tokens_in": tokens_in, "tokens_out": tokens_out}) + "\n"
    descriptor = os.open(_places[COST], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
