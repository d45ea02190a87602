"""`engrambus worker` and `engrambus resume`: run the tasks of a lane or a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from engrambus.core import short_id
from engrambus.edges.cli.command import Values, local_command
from engrambus.edges.cli.inputs import import_modules
from engrambus.edges.cli.screen import safe
from engrambus.edges.cli.session import INDEXING, Session

if TYPE_CHECKING:
    from engrambus.gateway import Gateway
    from engrambus.space.tuples import CanRun, TuplePattern, TupleRecord
    from engrambus.space.work import LaneWorkerPool, WorkerDependencies

_RUNS_NAMED = 5
"""How many other runs with unfinished tasks `resume` names."""

_CONCURRENCY = click.Option(
    ["--concurrency", "concurrency"], type=click.IntRange(1), help="Number of steps to run at the same time."
)
_QUOTAS = (
    click.Option(
        ["--cpu-quota-pct", "cpu_quota_pct"],
        type=click.IntRange(1),
        help="CPU that all steps together may use, in percent of one core.",
    ),
    click.Option(
        ["--memory-mb", "memory_mb"],
        type=click.IntRange(1),
        help="Megabytes of RAM that all steps together may use; above it the largest step is stopped.",
    ),
    click.Option(
        ["--max-processes", "max_processes"],
        type=click.IntRange(1),
        help="Processes that all steps together may have; above it the step with most is stopped.",
    ),
)
_IMPORT = click.Option(
    ["--import", "modules"],
    multiple=True,
    metavar="MODULE",
    help="Import this Python module, which defines yools (functions that steps run) (repeatable).",
)


@local_command(
    "worker",
    click.Option(["--lane", "lane"], required=True, help="The lane whose tasks to run."),
    _CONCURRENCY,
    *_QUOTAS,
    _IMPORT,
    click.Option(
        ["--until-empty", "until_empty"],
        is_flag=True,
        help="Exit when no task is left that has code here; with status 1 if a task died.",
    ),
    section="work",
    example="engrambus worker --lane build --concurrency 4 --import tools.yools",
    rank=20,
)
def worker(session: Session, values: Values) -> None:
    """Run the tasks of a lane (a queue) until stopped.

    Only tasks are taken whose next step has code here. Each step runs in a process of its own and leaves a receipt.
    Ctrl-C finishes the running steps, a second one gives their tasks back to the lane.
    """
    from engrambus.app import background_work
    from engrambus.space.tuples import check_lane, read_pattern

    check_lane(values["lane"])
    until_empty = values["until_empty"]
    with (
        _open(session, values) as (gateway, dependencies),
        background_work(gateway, dependencies, until_empty=until_empty),
    ):
        conditions = {"lane": values["lane"]}
        run = _chosen_run(session, gateway)
        if run is not None:
            conditions["run"] = run
        died = _work(
            session, dependencies, read_pattern(conditions), values.get("concurrency"), until_empty=until_empty
        )
    if died and until_empty:  # so that a build can fail on it
        click.get_current_context().exit(1)


@local_command(
    "resume", _CONCURRENCY, *_QUOTAS, _IMPORT, section="work", example="engrambus resume --import tools.yools", rank=22
)
def resume(session: Session, values: Values) -> None:
    """Continue the newest run that has unfinished tasks, each from its first missing step.

    Choose another run with --run RUN.
    """
    from engrambus.core.process_names import is_dead
    from engrambus.space.tuples import INTERNAL_RUN, read_pattern

    with _open(session, values) as (gateway, dependencies):
        space = dependencies.space
        if not session.json:
            session.note(f"[resume] reading {safe(_journal_name(gateway))}")
        # Only tuples with steps: one without is a note that waits for a reader, as an alarm does.
        conditions = {
            "lane": {"ne": space.settings.alarm_lane},
            "payload.0": {"exists": True},
            "run": {"ne": INTERNAL_RUN},
        }
        chosen = _chosen_run(session, gateway)
        by_run = _unfinished_by_run(dependencies, conditions)
        run = chosen or next(iter(by_run), None)
        unfinished = by_run.pop(run, []) if run is not None else []
        if not session.json:
            for line in _describe_runs(run, chosen=chosen is not None, work=bool(unfinished), other_runs=list(by_run)):
                session.note(line)
        if not unfinished:
            return
        abandoned = {
            record.id: record.fence
            for record in unfinished
            if record.fence and record.worker and is_dead(record.worker)
        }
        space.release_dead(abandoned.items(), reason="its worker is gone")
        can_run = dependencies.runnable()
        if not session.json:
            for record in unfinished:
                for line in _describe_tuple(dependencies, record, can_run, claimed=record.id not in abandoned):
                    session.note(f"[resume] {line}")
        pattern = read_pattern({**conditions, "run": run})
        died = _work(session, dependencies, pattern, values.get("concurrency"), until_empty=True)
    if died:
        click.get_current_context().exit(1)


def _journal_name(gateway: Gateway) -> str:
    """Return the path of the journal of work, from the project's root if it lies there."""
    from engrambus.app import WORK_JOURNAL

    path, root = gateway.project_files.state_path(WORK_JOURNAL), gateway.project_files.root
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _chosen_run(session: Session, gateway: Gateway) -> str | None:
    """Return the run that was chosen, or that the token belongs to; None for every run."""
    from engrambus.policy import ADMIN

    credential = session.credential()
    caller = gateway.identify(credential)
    return caller.run.run_id if credential.run is not None or caller.role != ADMIN else None


def _unfinished_by_run(dependencies: WorkerDependencies, conditions: dict[str, Any]) -> dict[str, list[TupleRecord]]:
    """Return the unended tuples and the folded batches that match, by run, the newest run first."""
    from engrambus.space.tuples import TASK_LANE, pattern_fields, read_pattern

    records: list[TupleRecord] = []
    for state in ("waiting", "blocked", "claimed"):
        after = 0
        while page := dependencies.space.rd_all({**conditions, "state": state}, limit=500, after=after):
            records += [record for record in page if record.lane != TASK_LANE]
            after = page[-1].ordinal
    with dependencies.space.store.read() as view:
        roots = [view.find(batch.id) for batch in view.folded_batches(None)]
        # A batch's root has no steps; those of its leaves count.
        pattern = read_pattern({name: value for name, value in conditions.items() if name != "payload.0"})
        records += [root for root in roots if root is not None and pattern.matches(pattern_fields(root))]
        by_run: dict[str, list[TupleRecord]] = {figures.run: [] for figures in reversed(view.run_totals())}
    for record in sorted(records, key=lambda record: record.ordinal):
        by_run[record.run].append(record)
    return {run: listed for run, listed in by_run.items() if listed}


def _describe_runs(run: str | None, *, chosen: bool, work: bool, other_runs: list[str]) -> Iterator[str]:
    """Yield which run is continued, unless the caller chose it, and which other runs have unfinished tasks."""
    if not work:
        yield "[resume] nothing is left to do" + (f" in run {run}" if chosen else "")
    elif other_runs and not chosen:
        yield f"[resume] run {run} goes on"
    if other_runs and not (work and chosen):
        more = f" and {len(other_runs) - _RUNS_NAMED} more" if len(other_runs) > _RUNS_NAMED else ""
        yield f"[resume] work is unfinished in {', '.join(other_runs[:_RUNS_NAMED])}{more} (--run RUN)"


def _describe_tuple(
    dependencies: WorkerDependencies, record: TupleRecord, can_run: CanRun, *, claimed: bool
) -> Iterator[str]:
    """Yield how a tuple continues."""
    from engrambus.space.tuples import dead_letter_reason, may_run, next_yools, why_stalled

    with dependencies.space.store.read() as view:
        done, now_us = view.finished_steps(record.id), view.as_of
        stalled = why_stalled(view, record)
        batch = view.batch(record.id) if record.state == "open" else None
    if batch is not None:
        yield f"{short_id(record.id)} goes on: {batch.folded:,} leaves of the batch are folded"
        return
    prefix = short_id(record.id)
    steps = [step.yool for step in record.tuple.payload]
    needed = next_yools(record.body, done)
    if record.state == "claimed" and claimed:
        yield f"{prefix} is being worked on by {safe(record.worker or '')}"
    elif stalled is not None:
        yield f"{prefix} waits"  # the lines at the end say why: the claims that follow may change it
    elif dead_letter_reason(record, now_us, dependencies.space.settings) is not None:
        return  # the claim that follows ends it and prints why
    elif not may_run(needed, can_run):
        yield f"{prefix} is left alone: no code here carries out {safe(', '.join(needed))} (--import MODULE)"
    else:
        if done:
            yield f"{prefix} has receipts for [{', '.join(safe(steps[index]) for index in sorted(done))}]"
        runnable = (index for index, name in enumerate(steps) if index not in done and name in needed and can_run(name))
        first = next(runnable, None)
        step = "its end" if first is None else f"step {first + 1} ({safe(steps[first])})"
        yield f"re-emitting {prefix} from {step}"


@contextmanager
def _open(session: Session, values: Values) -> Iterator[tuple[Gateway, WorkerDependencies]]:
    from engrambus.app import open_project, open_worker_dependencies
    from engrambus.edges.cli.progress import ProgressBar
    from engrambus.policy.guardrails import Quotas

    if session.remote:
        raise click.UsageError(
            "A worker runs where the project's store is, not over a server: on the server's machine, or on any machine "
            "with ENGRAMBUS_STORE=postgresql://... once the project is there. See docs/team-server.md; engrambus "
            "logout, or unset ENGRAMBUS_URL, to use the files here."
        )
    session.credential()  # refuses --run with a token before anything is opened
    with closing(open_project(session.folder, session.settings, progress=ProgressBar(INDEXING))) as gateway:
        modules = values.get("modules", ())
        import_modules(modules, gateway.project_files.root)
        quotas = Quotas(**{name: values.get(name) for name in ("cpu_quota_pct", "memory_mb", "max_processes")})
        dependencies = open_worker_dependencies(
            gateway, session.settings, modules=modules, worker_quotas=quotas, warn=session.warn
        )
        with closing(dependencies.runner):
            yield gateway, dependencies


def _work(
    session: Session,
    dependencies: WorkerDependencies,
    pattern: TuplePattern,
    concurrency: int | None,
    *,
    until_empty: bool,
) -> bool:
    """Work on the tuples that match; return whether any became a dead letter."""
    from engrambus.edges.cli.worker_progress import ProgressPrinter, left_lines
    from engrambus.space.work import LaneWorkerPool, describe_effects

    if not until_empty:
        session.note(f"Quotas are held by {dependencies.runner.describe_limits()}.")
        session.note(f"Declared effects are held by {describe_effects()}.")

    def count_waiting() -> int:
        with dependencies.space.store.read() as view:
            lanes = [(lane.lane, lane.waiting) for lane in view.lane_counts()]
            lanes += [(batch.lane, batch.folded) for batch in view.folded_batches(None)]
        return sum(waiting for lane, waiting in lanes if pattern.for_field("lane").matches({"lane": lane}))

    printer = ProgressPrinter(session, count_waiting, dependencies.bodies)
    pool = LaneWorkerPool(dependencies, pattern, concurrency=concurrency, on_progress=printer.print)
    if concurrency is not None and pool.concurrency < concurrency:
        session.note(f"{pool.concurrency} at once is the most (YOOL_TUPLE_MAX_LANE_CONCURRENCY).")
    with _stop_on_signal(pool, session), closing(printer):
        pool.run(until_empty=until_empty)
    if until_empty:
        for line in left_lines(dependencies, pattern, json=session.json):
            click.echo(line)
    printer.print_total()
    return printer.dead > 0


@contextmanager
def _stop_on_signal(pool: LaneWorkerPool, session: Session) -> Iterator[None]:
    """Stop the pool on a signal: the first finishes the running steps, the second gives their tuples back at once."""
    stopping = threading.Event()

    def stop(number: int, frame: Any) -> None:
        at_once = stopping.is_set()
        stopping.set()
        # Not from the handler itself: the thread it interrupts may hold the very locks this needs.
        threading.Thread(target=pool.stop, kwargs={"at_once": at_once}, daemon=True).start()
        session.note(
            "Giving back what is under way." if at_once else "Finishing what is under way; once more to give it back."
        )

    previous: dict[int, Any] = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
