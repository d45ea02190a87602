"""Work for people: tuples, receipts, runs, the board, and what makes room."""

from __future__ import annotations

from collections.abc import Iterator

import click

from stigmergy.core import print_dollars
from stigmergy.edges.cli.screen import dim, pairs, safe, safe_line, table
from stigmergy.operations.board import BoardAnswer, TupleRow
from stigmergy.operations.gc import GarbageAnswer
from stigmergy.operations.reports import TestsRecorded
from stigmergy.operations.steps import StepState
from stigmergy.operations.work import (
    Cancelled,
    DeadLetters,
    Dispatched,
    Observed,
    ReceiptAnswer,
    ReceiptVerified,
    TupleAnswer,
    WorkRunsAnswer,
)


def show_dispatched(answer: Dispatched) -> Iterator[str]:
    """A tuple that was put."""
    yield click.style(safe(answer.id), bold=True) + ("" if answer.new else dim("  was there already"))
    if answer.receipt_id:
        yield dim(f"receipt {safe(answer.receipt_id)}")


def show_tuple(answer: TupleAnswer) -> Iterator[str]:
    """A tuple that was found."""
    one = answer.tuple
    yield f"{click.style(safe(str(one['id'])), bold=True)}  {safe(answer.state)}  {safe(str(one['lane']))}"
    for at, step in enumerate(one["payload"]):
        yield f"  {at}  {safe(str(step['yool']))}"
    for receipt in one.get("receipts", ()):
        yield dim(f"  receipt {safe(str(receipt))}")


def show_observed(answer: Observed) -> Iterator[str]:
    """What became of a tuple."""
    yield f"{click.style(safe(answer.id), bold=True)}  {safe(answer.state)}  {safe(answer.lane)}"
    for at, step in enumerate(answer.steps):
        receipt = f"  {dim(safe(step.receipt))}" if step.receipt else ""
        yield f"  {at}  {safe(step.yool)}  {_stands(step)}{receipt}"
    budget = f" of {print_dollars(answer.budget_usd)}" if answer.budget_usd is not None else ""
    yield f"  attempt {answer.attempts}, {print_dollars(answer.usd)}{budget}, {answer.tokens} tokens"
    if answer.error:
        yield f"  {click.style('failed', fg='red')}: {safe(answer.error)}"
    if answer.terminal:
        yield dim(f"  last receipt {safe(answer.terminal)}")
    if answer.again:
        yield dim(f"  put again as {safe(answer.again)}")


def show_receipt(answer: ReceiptAnswer) -> Iterator[str]:
    """What one execution did, and how to read what it left."""
    import json

    from stigmergy.evidence.receipts import EMPTY

    if answer.receipt is None:
        yield from map(safe, json.dumps(answer.statement, indent=2, ensure_ascii=False).splitlines())
        return
    one = answer.receipt
    ended = f"exit {one['exit']}"
    why = one.get("error", ended)
    yield f"{click.style(safe(one['yool']), bold=True)}  {ended}" + ("" if why == ended else f"  {safe(why)}")
    cost = one["cost"]
    tokens = cost["tokens_in"] + cost["tokens_out"]
    rows = [
        ("receipt", one["id"]),
        ("tuple", one["tuple_id"]),
        ("worker", one.get("worker") or ""),
        ("began", one["started_at"]),
        ("took", f"{cost['wall_ms']:,} ms, {print_dollars(cost['usd'])}, {tokens} tokens, {cost['disk_mb']} MB kept"),
    ]
    kept = [("stdout", one["stdout_sha"]), ("stderr", one["stderr_sha"])]
    kept += [(each["path"], each["sha"]) for each in one["artifacts"]]
    rows += [(name, "" if sha == EMPTY else f"stig deref artifact:{sha}") for name, sha in kept]
    rows += [("of", each) for each in one.get("receipts", ())]
    yield from pairs(row for row in rows if row[1])


def show_verified(answer: ReceiptVerified) -> Iterator[str]:
    """Whether a receipt is sound."""
    yield f"{safe(answer.id)} is {'sound' if answer.sound else click.style('NOT sound', fg='red', bold=True)}"
    if not answer.id_matches:
        yield "  its content does not give its id"
    for body in answer.bodies:
        yield f"  {'whole  ' if body.whole else 'DAMAGED'}  {safe(body.name)}  {dim(safe(body.sha))}"


def show_runs(answer: WorkRunsAnswer) -> Iterator[str]:
    """Runs with work in them."""
    if not answer.runs:
        yield "No run has any work yet."
    for run in answer.runs:
        states = ", ".join(f"{count} {state}" for state, count in run.states.items())
        yield f"{click.style(safe(run.run_id), bold=True)}  {states}"
        steps = f"{run.executed} executed, {run.hits} from the cache"
        yield dim(f"  {steps}, {print_dollars(run.usd)}, {run.tokens} tokens")


def show_dead(answer: DeadLetters) -> Iterator[str]:
    """Dead letters."""
    if not answer.dead:
        yield "No dead letters."
    for each in answer.dead:
        yield f"{safe(each.id)}  {safe(each.lane)}  {each.attempts} attempts  {safe_line(each.error or '')}".rstrip()
        if each.again:
            yield dim(f"  put again as {safe(each.again)}")


def show_cancelled(answer: Cancelled) -> Iterator[str]:
    """A tuple that was ended."""
    yield f"{safe(answer.id)} is cancelled."


def show_board(answer: BoardAnswer) -> Iterator[str]:
    """The work board."""
    totals = answer.totals
    states = ", ".join(f"{count} {state}" for state, count in totals.states.items()) or "no work yet"
    yield f"{states}; {totals.executed} executed, {totals.hits} from the cache, {print_dollars(totals.usd)}"
    if answer.lanes:
        rows = [[each.lane, str(each.waiting), str(each.claimed)] for each in answer.lanes]
        yield from table(["LANE", "WAITING", "RUNNING"], rows)
    for title, tuples in (("RUNNING", answer.running), ("ENDED", answer.ended), ("GIVEN UP", answer.dead)):
        if tuples:
            rows = [[each.id, each.state, _steps(each), each.error or ""] for each in tuples]
            yield from table([title, "STATE", "STEPS", "WHY" if any(row[-1] for row in rows) else ""], rows)


def _steps(one: TupleRow) -> str:
    return ", ".join(f"{step.yool} {_stands(step)}" for step in one.steps)


def _stands(step: StepState) -> str:
    return "HIT" if step.hit else "-" if step.exit is None else "done" if step.exit == 0 else "FAIL"


def show_tests(answer: TestsRecorded) -> Iterator[str]:
    """A test report that was recorded."""
    counts = {"passed": answer.passed, "failed": answer.failed, "errors": answer.errors, "skipped": answer.skipped}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    yield f"{click.style(safe(answer.receipt_id), bold=True)}  {told or 'no tests'}"
    for case in answer.first_failed:
        yield f"  {click.style(case.outcome, fg='red')}  {safe(case.ref)}"
        if case.message:
            yield dim(f"    {safe(case.message)}")


_WHY = {"artifact": "artifacts past their days", "printed": "output past its days", "room": "the oldest, for room"}


def show_collected(answer: GarbageAnswer) -> Iterator[str]:
    """What was freed, or would be."""
    rows = [[_WHY[each.why], f"{each.bodies:,}", megabytes(each.bytes)] for each in answer.freed if each.bodies]
    if rows:
        yield from table(["WOULD GO" if answer.dry_run else "GONE", "BODIES", "SIZE"], rows)
    else:
        yield "There is nothing that may go."
    yield dim(f"{answer.receipts:,} receipts stay, {answer.pinned:,} bodies that engrams point at stay")
    then = "would take" if answer.dry_run else "takes"
    yield f"The catalog took {megabytes(answer.total_bytes)} and {then} {megabytes(answer.after_bytes)}."
    if answer.rotated:
        yield "The journal of work goes on in a new file; what was left is compressed."
    if not answer.enough:
        yield click.style("That is not enough: the cap or the floor of free disk is not kept.", fg="yellow")


def megabytes(size: int) -> str:
    """Bytes as people write them."""
    return f"{size / 1_000_000:,.1f} MB"
