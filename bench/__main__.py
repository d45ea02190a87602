"""`make bench`: the whole table, in one run. `python -m bench --quick` stops at 10,000 engrams and skips the peers."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import tempfile
from pathlib import Path

from rich.progress import Progress

from bench.anchoring import anchor_rows
from bench.batches import batch_rows
from bench.catalog import catalog_rows
from bench.corpus import Corpus, make_repository
from bench.edges import cli_rows, http_rows
from bench.evidence import deref_rows
from bench.gc import gc_rows
from bench.grants import grant_rows
from bench.knowledge import bulk_row, fill, put_rows
from bench.limits import limit_rows
from bench.live import tool_rows, watched_rows
from bench.measure import Row, markdown, percentile, show
from bench.memory import memory_rows
from bench.messages import message_rows
from bench.page import page_rows
from bench.peers import peer_rows
from bench.postgres_queue import postgres_queue_rows
from bench.read_ahead import read_ahead_rows
from bench.recall import questions_by_kind, recall_rows, recall_times
from bench.schedules import schedule_rows
from bench.verification import verification_rows
from bench.work import WAITING, work_rows
from engrambus.app import init_project, open_project
from engrambus.settings import Settings

SIZES = (10_000, 100_000, 1_000_000)
PEER_SIZE = 100_000
REPORT = Path("docs/performance.md")


def main() -> None:
    """Measure everything and write the report."""
    options = argparse.ArgumentParser(prog="bench", description=__doc__)
    options.add_argument("--quick", action="store_true", help="10,000 engrams, no peers, nothing written")
    quick = options.parse_args().quick
    scratch = Path(tempfile.mkdtemp(prefix="engrambus-bench-", dir=Path.cwd()))
    try:
        rows = measure(scratch, SIZES[:1] if quick else SIZES, peers=not quick)
    finally:
        shutil.rmtree(scratch)
    show(rows)
    if not quick:
        REPORT.write_text(report(rows), "utf-8")


def measure(scratch: Path, sizes: tuple[int, ...], *, peers: bool) -> list[Row]:
    """Measure every row, on one growing store."""
    environment = {"XDG_STATE_HOME": str(scratch / "state")}
    settings = Settings.from_environment({"HOME": str(scratch), **environment})
    project = scratch / "project"
    refs = make_repository(project)
    init_project(project, settings)
    gateway = open_project(project, settings)
    index = next(project.glob(".catalog/derived-*/index.db"))
    corpus = Corpus()
    asked = questions_by_kind(corpus)
    questions = asked["mixed"]
    recalls: dict[tuple[int, str], list[float]] = {}
    rows: list[Row] = []
    with Progress(transient=True) as progress:
        task = progress.add_task("importing", total=sizes[-1])
        imported = 0
        for size in sizes:
            fill(gateway, corpus, refs, size - imported, lambda count: progress.advance(task, count))
            os.sync()  # pending writes of the import must not delay the next measurement
            imported = size
            progress.update(task, description=f"recall at {size:,}")
            recalls |= {(size, kind): recall_times(gateway, list(asked[kind])) for kind in asked}
            progress.update(task, description=f"verify at {size:,}")
            rows += verification_rows(project, environment, size)
            if size == sizes[0]:
                rows += put_rows(gateway, project / ".catalog" / "memory.jsonl", corpus, refs, scratch)
                rows.append(bulk_row(gateway, index, corpus, refs, scratch))
                rows += deref_rows(gateway, project, refs)
                rows += read_ahead_rows(scratch)
                rows += message_rows(gateway, corpus, refs, scratch)
                rows += grant_rows()
                rows += anchor_rows(scratch)
                rows += catalog_rows(sizes[-1])
                rows += memory_rows(scratch, 100_000)
                os.sync()
                rows += cli_rows(project, environment)
                rows += page_rows(project, environment, size)
            progress.update(task, description="importing")
        progress.update(task, description=f"HTTP at {imported:,}")
        rows += http_rows(gateway, project, environment, questions)
        rows += tool_rows(project, environment, questions)
        progress.update(task, description=f"followers at {imported:,}")
        rows += watched_rows(gateway, project, environment, corpus, questions, seconds=60 if peers else 10)
        show(recall_rows(recalls) + rows)
        if peers:
            ours = percentile(recalls[PEER_SIZE, "mixed"], 0.95)
            rows += peer_rows(
                Corpus(seed=11), PEER_SIZE, ours, scratch, lambda name: progress.update(task, description=name)
            )
        progress.update(task, description="work")
        rows += work_rows(scratch, peers=peers)
        rows += postgres_queue_rows() if peers else []
        rows += schedule_rows(scratch / "schedules")
        rows += limit_rows(scratch, WAITING if peers else WAITING[:2])
        progress.update(task, description="garbage collection")
        rows += gc_rows(scratch, sizes[-1])
        rows += batch_rows(scratch)
    gateway.close()
    return recall_rows(recalls) + rows


def report(rows: list[Row]) -> str:
    """Return the text of docs/performance.md."""
    return f"""# Performance

Written by `make bench`; every ratio is between two figures of the same run, on one machine ({platform.machine()},
Python {platform.python_version()}). Absolute times mean little on other machines; ratios can be compared. The
machine is shared, and its speed varied by up to half from one run to the next: rows with an absolute bar, such as
the CLI's and HTTP's, vary with it.

{markdown(rows)}

How to read it: *raw synced append* writes and syncs a line of the same length, again and again; *raw FTS5 insert* is
SQLite's full-text index with our settings, the same tokens and the same batches; *raw cat-file* is the whole file
read through one `git cat-file --batch`; *Biscuit's own* is the same token opened by Biscuit and its checks run by
its engine, *shown first* to a gateway that has not seen it, *shown again* to one that has; *git grep -F* is git's
own search of the same commit for one of the pasted lines. A put alternates with its raw comparison, and the median
counts. The cost of a put by stage is in [decision 13](decisions/0013-put-cost-by-stage.md). That of a tuple is in
[decision 35](decisions/0035-tuple-cost-by-stage.md). The catalog's *resolved names* come from its dict of resolved
names, *the walk* descends the trie every time; both look up the same names as `immutables.Map`, a dict and
pyrsistent, each in the best of five rounds. `memory.read` is measured in processor time, each read in a process of its
own, and so are `verify`, a *rebuild* of the index and a *collection* of garbage; *literal* is the contract read line by
line with Python's own JSON, making the same package. *Followers* read every event while four clients send queries, and
an engram once in a hundred requests, to a server that is warmed up for two seconds. A latency
counts from the time its request was due, so one slow sync counts against every request its client has waiting.
Pending writes of an import are synced before anything else is timed. The peers hold as many records, get the same
queries, and get their vectors from a hash function without cost, so only their search is timed.
"""


if __name__ == "__main__":
    main()
