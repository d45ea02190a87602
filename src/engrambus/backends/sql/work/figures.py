"""All figures of a work store at once, for comparing two that should be the same."""

from __future__ import annotations

from typing import Any

from engrambus.backends.sql.work.database import WorkDatabase
from engrambus.backends.sql.work.state import WorkIndexState, parent_turn, run_turn
from engrambus.backends.sql.work.view import SqlWorkView


def all_figures(database: WorkDatabase, state: WorkIndexState) -> dict[str, Any]:
    """Return all figures, whether they are in their tables or still pending."""
    view = SqlWorkView(database, state, state.position.at_us)
    yools = sorted({*(name for (name,) in database.rows("yool_names")), *state.figures.yools})
    return {
        "lanes": view.lane_counts(),
        "runs": view.run_totals(),
        "yools": [(name, view.cost_history(name)) for name in yools],
        "turns": _turns(database, state),
    }


def _turns(database: WorkDatabase, state: WorkIndexState) -> list[tuple[Any, ...]]:
    """Return the last claims of lanes and runs, and of the children of a parent in them."""
    turns = state.figures.turns
    return [
        *(
            (number, turns.get(run_turn(lane, run), served))
            for number, lane, run, served in database.rows("served_runs")
        ),
        *(
            (number, turns.get(parent_turn(lane, run, parent), served))
            for number, lane, run, parent, served in database.rows("served_parents")
        ),
    ]
