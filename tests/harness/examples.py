"""How many examples a property test draws: few in `make test`, many times as many in `make torture`."""

from __future__ import annotations

import os

TIMES = int(os.environ.get("ENGRAMBUS_EXAMPLES", "1"))


def examples(few: int) -> int:
    """Return the number of examples to draw where `make test` draws a few."""
    return few * TIMES
