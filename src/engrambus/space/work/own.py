"""What the product has done for itself: every worker can carry it out, whatever code its operator named."""

from __future__ import annotations

import sys

from engrambus.space.catalog import Registry
from engrambus.space.tuples import GC_LANE, GC_YOOL

COMMAND = "from engrambus.edges.cli import main; main()"

OWN = Registry()
"""Apart from what operators name, and in nobody's catalog: nobody but the product may ask for it."""
OWN.yool(
    GC_YOOL,
    lane=GC_LANE,
    authority=("user", "agent", "ci"),
    env=("PYTHONPATH", "XDG_STATE_HOME", "XDG_DATA_HOME"),
    cached=False,
    about="Make room: take away what receipts no longer have to keep.",
)([sys.executable, "-P", "-c", COMMAND, "gc"])
