"""Answers as people read them: for each operation, lines of text. Each room of operations has a module here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stigmergy.edges.cli.show import cortex, evidence, figures, knowledge, team, work

SHOW: dict[str, Callable[[Any], Iterable[str]]] = {
    **knowledge.SHOW,
    **evidence.SHOW,
    **team.SHOW,
    **work.SHOW,
    **cortex.SHOW,
    "stats": figures.show_stats,
}

__all__ = ["SHOW"]
