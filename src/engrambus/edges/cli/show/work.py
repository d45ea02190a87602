"""Work, the catalog and what is kept of both, as people read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from engrambus.core import print_dollars
from engrambus.edges.cli.screen import dim, pairs, safe, safe_line, table

if TYPE_CHECKING:
    from engrambus.operations.catalog import CatalogAnswer, YoolAnswer
    from engrambus.operations.receipts import ReceiptAnswer, ReceiptCheck
    from engrambus.operations.tuples import (
        CancelAnswer,
        DeadLetters,
        DispatchAnswer,
        TupleAnswer,
        TupleStatus,
    )
    from engrambus.operations.work_board import BoardAnswer, TupleRow, WorkRunsAnswer
    from engrambus.space.tuples import StepState


def yool(answer: YoolAnswer) -> Iterator[str]:
    yield click.style(safe(answer.yool_id), bold=True) + (f"  {safe(answer.about)}" if answer.about else "")
    rows = [("lane", answer.lane), ("authority", ", ".join(answer.authority)), ("agent", answer.agent or "")]
    for name, value in (answer.agent_terms | answer.contract).items():
        rows.append((name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    if len(answer.versions) > 1:
        rows.append(("versions", ", ".join(f"v{version}" for version in answer.versions)))
    yield from pairs(row for row in rows if row[1])


def yool_list(answer: CatalogAnswer) -> Iterator[str]:
    if answer.yools:
        yield from table(["YOOL", "LANE", "ABOUT"], [[row.yool_id, row.lane, row.about] for row in answer.yools])
    else:
        yield "None."
    if answer.cursor is not None:
        yield dim(f"More: --cursor {safe(answer.cursor)}")


def dispatch(answer: DispatchAnswer) -> Iterator[str]:
    """A tuple that was put."""
    yield click.style(safe(answer.id), bold=True) + ("" if answer.new else dim("  was there already"))
    if answer.receipt_id:
        yield dim(f"receipt {safe(answer.receipt_id)}")


def tuple_record(answer: TupleAnswer) -> Iterator[str]:
    """A tuple that was found."""
    one = answer.tuple
    yield f"{click.style(safe(str(one['id'])), bold=True)}  {safe(answer.state)}  {safe(str(one['lane']))}"
    for at, step in enumerate(one["payload"]):
        yield f"  {at}  {safe(str(step['yool']))}"
    for receipt in one.get("receipts", ()):
        yield dim(f"  receipt {safe(str(receipt))}")


def tuple_status(answer: TupleStatus) -> Iterator[str]:
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
    if answer.put_again_as:
        yield dim(f"  put again as {safe(answer.put_again_as)}")


def receipt(answer: ReceiptAnswer) -> Iterator[str]:
    """What one execution did, and how to read what it left."""
    import json

    from engrambus.evidence.receipts import EMPTY_DIGEST

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
        (
            "took",
            f"{cost['wall_ms']:,} ms, {print_dollars(cost['usd'])}, {tokens} tokens, {cost['disk_mb']:,.1f} MB kept",
        ),
    ]
    kept = [("stdout", one["stdout_sha"]), ("stderr", one["stderr_sha"])]
    kept += [(each["path"], each["sha"]) for each in one["artifacts"]]
    # Of a step that failed the end says why.
    more = " --tail --max-tokens 4000" if one["exit"] else " --max-tokens 4000"
    for name, sha in kept:
        if sha in answer.gone:
            rows.append((name, f"gone since {answer.gone[sha]}, to make room"))
        elif sha != EMPTY_DIGEST:
            rows.append((name, f"engrambus deref artifact:{sha}{more}"))
    rows += [("of", each) for each in one.get("receipts", ())]
    yield from pairs(row for row in rows if row[1])


def receipt_check(answer: ReceiptCheck) -> Iterator[str]:
    """Whether a receipt is sound."""
    yield f"{safe(answer.id)} is {'sound' if answer.sound else click.style('NOT sound', fg='red', bold=True)}"
    if not answer.id_matches:
        yield "  its content does not give its id"
    for body in answer.bodies:
        state = "whole" if body.intact else "DAMAGED" if body.gone_at is None else "gone"
        since = f"  since {body.gone_at}" if body.gone_at is not None else ""
        yield f"  {state.ljust(7)}  {safe(body.name)}  {dim(safe(body.sha))}{since}"


def work_runs(answer: WorkRunsAnswer) -> Iterator[str]:
    """Runs with work in them."""
    if not answer.runs:
        yield "No run has any work yet."
    for run in answer.runs:
        states = ", ".join(f"{count} {state}" for state, count in run.states.items())
        yield f"{click.style(safe(run.run_id), bold=True)}  {states}"
        steps = f"{run.executed} executed, {run.hits} from the cache"
        yield dim(f"  {steps}, {print_dollars(run.usd)}, {run.tokens} tokens")


def dead_letters(answer: DeadLetters) -> Iterator[str]:
    """Dead letters."""
    if not answer.dead:
        yield "No dead letters."
    for each in answer.dead:
        yield f"{safe(each.id)}  {safe(each.lane)}  {each.attempts} attempts  {safe_line(each.error or '')}".rstrip()
        if each.put_again_as:
            yield dim(f"  put again as {safe(each.put_again_as)}")
    if answer.cursor is not None:
        yield dim(f"More: --cursor {safe(answer.cursor)}")


def cancellation(answer: CancelAnswer) -> Iterator[str]:
    """A tuple that was ended."""
    yield f"{safe(answer.id)} is cancelled."


def board(answer: BoardAnswer) -> Iterator[str]:
    """The work board."""
    totals = answer.totals
    counts = totals.states | {"dead": totals.given_up}
    states = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    states = states or ("no work yet" if answer.run_id is None else "no work in this run yet")
    yield f"{states}; {totals.executed} executed, {totals.hits} from the cache, {print_dollars(totals.usd)}"
    if answer.lanes:
        rows = [[each.lane, str(each.waiting), str(each.claimed)] for each in answer.lanes]
        # Runs share their lanes: what waits in one may be another run's.
        yield from table(["LANE" if answer.run_id is None else "LANE (EVERY RUN'S)", "WAITING", "RUNNING"], rows)
    for title, tuples in (("RUNNING", answer.running), ("ENDED", answer.ended), ("GIVEN UP", answer.dead)):
        if tuples:
            head, *lines = table(
                [title, "STATE", "COST", "LANE"],
                [[each.id.removeprefix("sha256:")[:12], each.state, _cost(each), each.lane] for each in tuples],
            )
            yield head
            for line, each in zip(lines, tuples, strict=True):
                yield line
                about = [_steps(each), each.worker and f"by {safe(each.worker)}", safe_line(each.error or "")]
                yield from (dim(f"  {part}") for part in about if part)
    if totals.given_up > len(answer.dead):
        yield dim(f"The last {len(answer.dead)} of {totals.given_up:,} given up; engrambus dead lists them all.")


def _cost(one: TupleRow) -> str:
    """What a tuple has spent, and of what: dollars always, tokens where they have a budget."""
    dollars = print_dollars(one.usd) + (f" of {print_dollars(one.budget_usd)}" if one.budget_usd is not None else "")
    return dollars + (f", {one.tokens:,} of {one.budget_tokens:,} tokens" if one.budget_tokens is not None else "")


def _steps(one: TupleRow) -> str:
    return ", ".join(f"{safe(step.yool)} {_stands(step)}" for step in one.steps)


def _stands(step: StepState) -> str:
    return "HIT" if step.hit else "-" if step.exit is None else "done" if step.exit == 0 else "FAIL"
