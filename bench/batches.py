"""Batches: a million virtual agents spawned, walked and folded, beside the same leaves put as tuples.

`python -m bench.batches` prints the rows alone; processor time, since the disk and the neighbours vary.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.measure import Row, at_most, microseconds, show
from bench.work import LANE, PERSON, RUN, completion, open_space
from engrambus.backends.sqlite.work import SqliteWork
from engrambus.space.batches import LeafRange
from engrambus.space.tuples import BatchSpace, Fact, TupleSpace, WorkView
from engrambus.space.tuples.batches import AgentFactory
from engrambus.testing.harness import KEY

DEPTH, BRANCHING = 6, 10
WALKED = 10_000
AT_ONCE = 64
TEMPLATE = {"lane": "bench", "payload": [{"yool": "agent.bench.nothing", "args": {"n": "${agent.number}"}}]}


def processor_us(work: Callable[[], object]) -> float:
    """Return the processor time of a call in microseconds."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e6


def walk(space: TupleSpace, count: int) -> None:
    """Claim and complete this many leaves; completing some and claiming the next is one commit."""
    claims = space.claim(LANE, worker="w", limit=AT_ONCE)
    done = 0
    while claims:
        done += len(claims)
        more = (LANE, "w", min(AT_ONCE, count - done)) if done < count else None
        _, claims = space.complete([completion(claim) for claim in claims], claim_more=more)


def used_bytes(folder: Path) -> tuple[int, int]:
    """Return the bytes of the journal, and of the index with its log."""
    index = sum(path.stat().st_size for path in (folder / KEY.derived_folder).glob("work.db*"))
    return (folder / "tuples.jsonl").stat().st_size, index


def batch_rows(scratch: Path) -> list[Row]:
    """Measure spawn, walk, fold and memory of 10^6 virtual agents."""
    folder = scratch / "batch"
    space = open_space(folder)
    batches = BatchSpace(space)
    before, rss_before = used_bytes(folder), _rss()
    spawned: list[str] = []
    spawn_us = processor_us(
        lambda: spawned.append(batches.spawn(TEMPLATE, depth=DEPTH, branching=BRANCHING, authority=PERSON, run=RUN).id)
    )
    journal, index = (after - earlier for after, earlier in zip(used_bytes(folder), before, strict=True))
    rss = _rss() - rss_before
    parts = [processor_us(lambda: walk(space, WALKED // 10)) / (WALKED // 10) for _ in range(10)]
    first, last, whole = parts[0], parts[-1], sum(parts) / len(parts)
    flat_us = _walk_flat(scratch / "flat")
    open_us = processor_us(lambda: batches.levels(spawned[0]))
    fold_us = _fold(space, batches, spawned[0])
    space.claim(LANE, worker="w", limit=1_000)
    cancel_us = processor_us(lambda: batches.cancel(spawned[0]))
    _close(space)
    agents = sum(BRANCHING**level for level in range(DEPTH + 1))
    return [
        _row("spawn", f"{agents:,} agents", microseconds(spawn_us), "processor time", spawn_us / 1e6, 0.05),
        _row("memory", "journal + index", f"{journal:,} + {index:,} B", "1 B per agent", (journal + index) / agents, 1),
        _row("memory", "process (maximum RSS)", f"{rss:,} KiB more", "1 B per agent", rss * 1024 / agents, 1),
        _row(
            "walk", f"a leaf, of {WALKED:,}", microseconds(whole), f"flat {microseconds(flat_us)}", whole / flat_us, 2
        ),
        _row("walk", "the last thousand", microseconds(last), f"the first {microseconds(first)}", last / first, 1.5),
        _row(
            "fold",
            "1,000 idle leaves, each",
            microseconds(fold_us),
            f"a leaf walked {microseconds(whole)}",
            fold_us / whole,
            1,
        ),
        _row(
            "counts",
            f"every level after {WALKED:,} leaves",
            microseconds(open_us),
            "processor time",
            open_us / 1e6,
            0.2,
        ),
        _row("cancel", "all that is folded", microseconds(cancel_us), "processor time", cancel_us / 1e6, 1),
    ]


def _walk_flat(folder: Path) -> float:
    """Return the processor time of the same leaves, put as tuples below a parent and walked, for each."""
    space = open_space(folder)

    def put_and_walk() -> None:
        parent = space.out({"lane": "roots", "payload": []}, authority=PERSON, run=RUN)[0].id
        for start in range(0, WALKED, AT_ONCE):
            drafts = [
                {
                    "lane": "bench",
                    "payload": [{"yool": "agent.bench.nothing", "args": {"n": n}}],
                    "parent_id": parent,
                    "map_pos": {"agent": f"0.{n}", "batch": parent},
                }
                for n in range(start, min(WALKED, start + AT_ONCE))
            ]
            space.out(*drafts, authority=PERSON, run=RUN)
        walk(space, WALKED)

    spent = processor_us(put_and_walk) / WALKED
    _close(space)
    return spent


def _fold(space: TupleSpace, batches: BatchSpace, batch_id: str, leaves: int = 1_000) -> float:
    """Return the processor time of folding idle leaves, for each; more than a claim leaves behind are unfolded."""

    def unfold(view: WorkView) -> tuple[list[Fact], None]:
        first = view.folded_leaves(batch_id, limit=1)[0].start
        return AgentFactory.of(view, batches.get(batch_id)).unfold(LeafRange(first, first + leaves)), None

    batches.prune(batch_id)
    space.store.commit(unfold)
    return processor_us(lambda: batches.prune(batch_id)) / leaves


def _rss() -> int:
    """Return the most memory the process has used so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _close(space: TupleSpace) -> None:
    assert isinstance(space.store, SqliteWork)
    space.close()


def _row(path: str, measured: str, figure: str, comparison: str, value: float, bar: float) -> Row:
    ratio, limit, met = at_most(value, bar)
    return Row(f"batch: {path}", measured, figure, comparison, ratio, limit, met)


def main() -> None:
    """Measure in a temporary folder and print the rows."""
    scratch = Path(tempfile.mkdtemp(prefix="engrambus-bench-", dir=Path.cwd()))
    try:
        show(batch_rows(scratch))
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
