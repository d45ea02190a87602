"""A complete worker, with cache, receipts and processes, that works until nothing is left.

    python -m tests.crash.pool_process FOLDER LOG

The log is a file of progress lines, `KIND ID RECEIPT`; a missing receipt is a dash.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from engrambus.core import SECOND_US
from engrambus.space.tuples import SpaceSettings, read_pattern
from engrambus.space.work import LaneWorkerPool, Progress
from tests.space.worker_harness import open_worker_harness

SETTINGS = SpaceSettings(queue_maxsize=1_000_000, lease_us=SECOND_US, max_retries=1_000, backoff_us=1000, alarm_pct=0)


def main(folder: Path, log: int) -> None:
    """Work, and write progress into the log."""

    def on_progress(progress: Progress) -> None:
        os.write(log, f"{progress.kind} {progress.tuple_id} {progress.receipt or '-'}\n".encode())

    with open_worker_harness(folder, SETTINGS) as harness:
        LaneWorkerPool(harness.deps, read_pattern({"lane": "build"}), concurrency=2, on_progress=on_progress).run(
            until_empty=True
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND))
