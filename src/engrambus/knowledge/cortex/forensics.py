"""One line for everything the shared cortex does: greppable, with ids and counts, and no text that anyone wrote."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[^A-Za-z0-9_.:/@,+-]")
MAX_VALUE = 120


def signature(event: str, **values: object) -> str:
    """`SHARED_CORTEX_INHERIT_DONE snapshot_id=… items=40 chars=9120`: no value can hold a space or begin a line."""
    shown = " ".join(f"{name}={_PLAIN.sub('_', str(value))[:MAX_VALUE]}" for name, value in values.items())
    return f"SHARED_CORTEX_{event} {shown}"
