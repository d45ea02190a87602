"""Holding the index of work against what its journal says."""

from __future__ import annotations

from typing import Any

import apsw

from engrambus.backends.sqlite.verify import same_rows
from engrambus.backends.sqlite.work.applied import Applied
from engrambus.backends.sqlite.work.view import SqliteWorkView
from engrambus.gateway.ports import Finding

COMPARED = {
    "applied": "SELECT layout, project, indexed, position, seq, checksum, at, ordinal, receipts, links, runs, epoch,"
    " boot, counter FROM applied",
    "bodies": "SELECT * FROM bodies ORDER BY ordinal",
    "tuples": "SELECT * FROM tuples ORDER BY ordinal",
    "tuple ids": "SELECT * FROM all_tuple_ids ORDER BY head, ordinal",
    "receipt ids": "SELECT * FROM all_receipt_ids ORDER BY head, number",
    "posted": "SELECT * FROM posted ORDER BY path, value, live, rank, ordinal",
    "receipts": "SELECT * FROM receipts ORDER BY number",
    "links": "SELECT * FROM links ORDER BY ordinal, number",
    "results": "SELECT * FROM results ORDER BY key, number",
    "purged": "SELECT * FROM purged ORDER BY sha",
    "asked": "SELECT * FROM asked ORDER BY key",
    "running": "SELECT * FROM running ORDER BY ordinal, step",
    "counted": "SELECT * FROM counted ORDER BY ordinal, epoch, counter, step",
    "run numbers": "SELECT number, run FROM runs ORDER BY number",
}


def work_differences(
    kept: apsw.Connection, of_kept: Applied, built: apsw.Connection, of_built: Applied
) -> list[Finding]:
    """Everything wrong with an index, held against one that was built from the journal."""
    differing = [table for table, query in COMPARED.items() if not same_rows(kept, built, query, {})]
    said, meant = _counted(kept, of_kept), _counted(built, of_built)
    differing += [table for table in meant if said[table] != meant[table]]
    return [Finding(what="differs from a rebuild", where=f"work table {table}") for table in differing]


def _counted(connection: apsw.Connection, applied: Applied) -> dict[str, Any]:
    """What is counted, wherever it stands: in its table, or beside it and on its way there."""
    view = SqliteWorkView(connection, applied, applied.place.at)
    rows: Any = connection.execute("SELECT name FROM yools")
    yools = sorted({*(name for (name,) in rows), *applied.figures.yools})
    return {
        "lanes": view.lane_counts(),
        "runs": view.run_totals(),
        "yools": [(name, view.cost_history(name)) for name in yools],
    }
