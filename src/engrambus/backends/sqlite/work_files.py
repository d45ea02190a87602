"""Names of the files of a project's work; who asks only whether they are there need not load what reads them."""

from __future__ import annotations

WORK_JOURNAL = "tuples.jsonl"
WORK_INDEX = "work.db"
WORK_LOCK = "work.lock"
