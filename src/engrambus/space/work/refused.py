"""Refusals in a line for people: the code, the reason, and what it was about."""

from __future__ import annotations

from engrambus.errors import EngramBusError

MAX_SHOWN = 200
"""Characters of a value that are shown."""


def told_of(refusal: EngramBusError) -> str:
    """What is known of a refusal: its code, why, the field, and what was used of how much."""
    figures = [refusal.field or ""]
    if refusal.limit is not None and refusal.used is not None:
        figures.append(f"{_short(refusal.used)} of {_short(refusal.limit)}")
    elif refusal.limit is not None:
        figures.append(f"limit {_short(refusal.limit)}")
    elif refusal.used is not None:
        figures.append(_short(refusal.used))
    shown = ", ".join(each for each in figures if each)
    hint = f" {refusal.hint}" if refusal.hint else ""
    line = f"{refusal.code}: {refusal.detail}{f' ({shown})' if shown else ''}{hint}"
    return line.encode("utf-8", "backslashreplace").decode()  # the name of a file may be no text


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
