"""Holding the index of work against what its journal says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stigmergy.backends.sqlite.index import connect, remove_index
from stigmergy.operations.ports import Finding

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
    "yools": "SELECT * FROM yools ORDER BY name",
    "running": "SELECT * FROM running ORDER BY ordinal, step",
    "lanes": "SELECT * FROM lanes WHERE waiting <> 0 OR claimed <> 0 ORDER BY lane",
    "runs": "SELECT * FROM runs ORDER BY number",
}


def verify_work(index: Path, fresh: Path, build: Callable[[Path], None]) -> list[Finding]:
    """Everything wrong with an index. The caller holds the lock and has brought it up to the journal."""
    build(fresh)
    try:
        kept, built = connect(index), connect(fresh)
        try:
            return [
                Finding(what="differs from a rebuild", where=f"work table {table}")
                for table, query in COMPARED.items()
                if kept.execute(query).fetchall() != built.execute(query).fetchall()
            ]
        finally:
            kept.close()
            built.close()
    finally:
        remove_index(fresh)
