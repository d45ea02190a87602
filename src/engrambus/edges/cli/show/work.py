"""Lines for people: tasks, receipts, the catalog and the work board."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from engrambus.core import print_dollars, short_id
from engrambus.edges.cli.screen import counted, dim, pairs, safe, safe_id, safe_line, table
from engrambus.space.catalog import describe_signature

if TYPE_CHECKING:
    from engrambus.operations.batches import BatchAnswer, BatchesAnswer, BatchRow, FoldAnswer, SpawnAnswer
    from engrambus.operations.catalog import CatalogAnswer, YoolAnswer
    from engrambus.operations.limits import LimitRow, Limits
    from engrambus.operations.receipt_list import ReceiptsAnswer
    from engrambus.operations.receipts import ReceiptAnswer, ReceiptCheck, ReportSummary
    from engrambus.operations.tuples import (
        CancelAnswer,
        DeadLetters,
        DispatchAnswer,
        TupleAnswer,
        TupleStatus,
    )
    from engrambus.operations.why import FailedStep, WhyAnswer
    from engrambus.operations.work_board import BoardAnswer, TupleRow, UnclaimedRow, WorkRunsAnswer
    from engrambus.space.tuples import StepState


def yool(answer: YoolAnswer) -> Iterator[str]:
    yield click.style(safe(answer.yool_id), bold=True) + (f"  {safe(answer.about)}" if answer.about else "")
    rows = [("lane", answer.lane), ("authority", ", ".join(answer.authority)), ("agent", answer.agent or "")]
    if answer.arguments is not None:
        rows.append(("arguments", describe_signature(answer.arguments)))
    rows.append(("triggers", answer.triggers))
    for name, value in (answer.agent_terms | answer.contract).items():
        parts = [f"{key}: {kind}" for key, kind in value.items()] if isinstance(value, dict) else value
        rows.append((name, ", ".join(map(str, parts)) or "none" if isinstance(parts, list) else str(value)))
    if len(answer.versions) > 1:
        rows.append(("versions", ", ".join(f"v{version}" for version in answer.versions)))
    yield from pairs(row for row in rows if row[1])


def yool_list(answer: CatalogAnswer) -> Iterator[str]:
    if answer.yools:
        head = ["YOOL", "LANE", "ABOUT"]
        rows = [[row.yool_id, row.lane, row.about] for row in answer.yools]
        if any(row.triggers for row in answer.yools):
            head, rows = (
                [*head, "TRIGGERS"],
                [[*line, row.triggers] for line, row in zip(rows, answer.yools, strict=True)],
            )
        yield from table(head, rows)
    else:
        yield "None."
    if answer.cursor is not None:
        yield dim(f"More: --cursor {safe(answer.cursor)}")


def dispatch(answer: DispatchAnswer) -> Iterator[str]:
    yield click.style(safe_id(answer.id), bold=True) + ("" if answer.new else dim("  already exists"))
    if answer.receipt_id:
        yield dim(f"receipt {safe_id(answer.receipt_id)}")


def tuple_record(answer: TupleAnswer) -> Iterator[str]:
    fields = answer.tuple
    yield f"{click.style(safe_id(str(fields['id'])), bold=True)}  {safe(answer.state)}  {safe(str(fields['lane']))}"
    for index, step in enumerate(fields["payload"]):
        yield f"  {index}  {safe(str(step['yool']))}"
    if answer.not_before is not None:
        yield f"  not before {answer.not_before}"
    for receipt in fields.get("receipts", ()):
        yield dim(f"  receipt {safe_id(str(receipt))}")


def tuple_status(answer: TupleStatus) -> Iterator[str]:
    yield f"{click.style(safe_id(answer.id), bold=True)}  {safe(answer.state)}  {safe(answer.lane)}"
    for index, step in enumerate(answer.steps):
        receipt = f"  {dim(safe_id(step.receipt))}" if step.receipt else ""
        yield f"  {index}  {safe(step.yool)}  {_step_state(step)}{receipt}"
    if answer.not_before is not None:
        yield f"  not before {answer.not_before}"
    if answer.agents is not None:
        yield f"  {_agents(answer.agents, answer.folded or 0)}"
        yield f"  {_spent(answer)}"
    else:
        yield f"  attempt {answer.attempts}, {_spent(answer)}"
    if answer.error:
        yield f"  {click.style('failed', fg='red')}: {safe(answer.error)}"
        yield dim(f"  engrambus why {short_id(answer.id)} shows what it printed, and what to do")
    if answer.terminal:
        yield dim(f"  last receipt {safe_id(answer.terminal)}")
    if answer.put_again_as:
        yield dim(f"  submitted again as {safe_id(answer.put_again_as)}")


def explanation(answer: WhyAnswer) -> Iterator[str]:
    """Show why a task failed or waits, with the end of the failed step's output."""
    yield f"{click.style(safe_id(answer.id), bold=True)}  {safe(answer.state)}  {safe(answer.lane)}"
    yield safe(answer.reason)
    yield from (f"  {safe(line)}" for line in answer.waits_for)
    if answer.failed is not None:
        yield from _failed_step(answer.failed)
    yield dim(f"{counted(answer.attempts, 'attempt')}, {_spent(answer)}")
    if answer.next:
        yield "What to do:"
        yield from (f"  {safe(line)}" for line in answer.next)


def _failed_step(failed: FailedStep) -> Iterator[str]:
    ended = f"exit {failed.exit}"
    error = "" if failed.error in (None, ended) else f", {safe(failed.error or '')}"
    worker = f" by {safe(failed.worker)}" if failed.worker else ""
    step = f"step {failed.position + 1}, {safe(failed.yool)}"
    failure = click.style(f"{ended}{error}", fg="red")
    yield f"{step}: {failure}, attempt {failed.attempt}{worker}, {failed.wall_ms:,} ms"
    for name, output in (("stdout", failed.stdout), ("stderr", failed.stderr)):
        if output is None:
            continue
        more = f", all of it: engrambus deref {output.pointer} --tail --max-tokens 4000" if output.cut else ""
        yield dim(f"  {name}{more}") if output.gone is None else dim(f"  {name}: {safe(output.gone)}")
        yield from (f"    {safe_line(line)}" for line in output.lines)
    yield dim(f"  receipt {short_id(failed.receipt)}")


def _spent(answer: WhyAnswer | TupleStatus | BatchAnswer) -> str:
    budget = f" of {print_dollars(answer.budget_usd)}" if answer.budget_usd is not None else ""
    tokens = f" of {answer.budget_tokens:,}" if answer.budget_tokens is not None else ""
    return f"{print_dollars(answer.usd)}{budget}, {answer.tokens:,}{tokens} tokens"


def receipt(answer: ReceiptAnswer) -> Iterator[str]:
    """Show one executed step, with the commands that read its output."""
    import json

    from engrambus.evidence.receipts import EMPTY_DIGEST

    if answer.receipt is None:
        yield from map(safe, json.dumps(answer.statement, indent=2, ensure_ascii=False).splitlines())
        return
    fields = answer.receipt
    ended = f"exit {fields['exit']}"
    error = fields.get("error", ended)
    yield f"{click.style(safe(fields['yool']), bold=True)}  {ended}" + ("" if error == ended else f"  {safe(error)}")
    cost = fields["cost"]
    tokens = cost["tokens_in"] + cost["tokens_out"]
    rows = [
        ("receipt", short_id(fields["id"])),
        ("tuple", short_id(fields["tuple_id"])),
        ("worker", fields.get("worker") or ""),
        ("began", fields["started_at"]),
        (
            "took",
            f"{cost['wall_ms']:,} ms, {print_dollars(cost['usd'])}, {tokens} tokens, {cost['disk_mb']:,.1f} MB written",
        ),
    ]
    if changed := fields.get("changed_files"):
        rows.append(("not cached", f"{', '.join(changed)} changed while it ran"))
    bodies = [("stdout", fields["stdout_sha"]), ("stderr", fields["stderr_sha"])]
    bodies += [(artifact["path"], artifact["sha"]) for artifact in fields["artifacts"]]
    # The reason of a failure is at the end of the output.
    options = " --tail --max-tokens 4000" if fields["exit"] else " --max-tokens 4000"
    for name, sha in bodies:
        if sha in answer.gone:
            rows.append((name, f"deleted at {answer.gone[sha]} to free space"))
        elif sha != EMPTY_DIGEST:
            rows.append((name, f"engrambus deref artifact:{sha}{options}"))
    rows += [("of", short_id(part)) for part in fields.get("receipts", ())]
    yield from pairs(row for row in rows if row[1])
    for report in answer.reports:
        yield from _report_summary(report)
    if answer.file is not None:
        yield click.style(f"Its file: {safe(answer.file)}.", fg="yellow")


def _report_summary(report: ReportSummary) -> Iterator[str]:
    """Show the counts of a test report, and its first failed tests as pointers."""
    if report.problem is not None:
        yield f"{safe(report.path)}: {safe(report.problem)}"
        return
    counts = [
        f"{count} {word}"
        for count, word in ((report.failed, "failed"), (report.errors, "errors"), (report.skipped, "skipped"))
        if count
    ]
    yield f"{safe(report.path)}: {', '.join([counted(report.tests, 'test'), *counts])}"
    for case in report.first_failed:
        yield f"  {click.style(safe(case.outcome), fg='red')}  {safe_line(case.message)}".rstrip()
        yield dim(f"    engrambus deref {safe(shlex.quote(case.ref))}")


def receipt_list(answer: ReceiptsAnswer) -> Iterator[str]:
    """Show one line for each receipt, with the beginning of its id."""
    if answer.receipts:
        yield from table(
            ["RECEIPT", "YOOL", "EXIT", "COST", "TOOK", "ENDED", "TASK", "FILES"],
            [
                [
                    short_id(row.id),
                    row.yool,
                    "HIT" if row.hit else str(row.exit),
                    print_dollars(row.usd),
                    f"{row.wall_ms:,} ms",
                    f"{row.ended_at[:19]}Z",
                    short_id(row.tuple_id),
                    ", ".join(f"{count} {kind}" for kind, count in row.artifacts.items()),
                ]
                for row in answer.receipts
            ],
        )
    else:
        yield "None."
    if answer.cursor is not None:
        yield dim(f"More: --cursor {safe(answer.cursor)}")


def receipt_check(answer: ReceiptCheck) -> Iterator[str]:
    yield f"{safe_id(answer.id)} is {'sound' if answer.sound else click.style('NOT sound', fg='red', bold=True)}"
    if not answer.id_matches:
        yield "  its id is not the hash of its content"
    for body in answer.bodies:
        state = "whole" if body.intact else "DAMAGED" if body.gone_at is None else "deleted"
        deleted_at = f"  at {body.gone_at}" if body.gone_at is not None else ""
        yield f"  {state.ljust(7)}  {safe(body.name)}  {dim(safe(body.sha))}{deleted_at}"
    if answer.file is not None:
        yield f"  its file: {safe(answer.file)}"


def work_runs(answer: WorkRunsAnswer) -> Iterator[str]:
    yield from _unclaimed(answer.unclaimed)
    if not answer.runs:
        yield "No run has any work yet."
    for run in answer.runs:
        # The id alone on its line: `engrambus resume --run-id $(engrambus runs list | head -1)`.
        yield click.style(safe_id(run.run_id), bold=True)
        states = [f"{count} {state}" for state, count in run.states.items()]
        yield "  " + ", ".join([*states, *([f"{run.folded:,} not materialised"] if run.folded else [])])
        steps = f"{run.executed} executed, {run.hits} from the cache"
        yield dim(f"  {steps}, {print_dollars(run.usd)}, {run.tokens} tokens")


def dead_letters(answer: DeadLetters) -> Iterator[str]:
    if not answer.dead:
        yield "No dead letters."
    for letter in answer.dead:
        error = safe_line(letter.error or "")
        yield f"{safe_id(letter.id)}  {safe(letter.lane)}  {counted(letter.attempts, 'attempt')}  {error}".rstrip()
        if letter.put_again_as:
            yield dim(f"  submitted again as {safe_id(letter.put_again_as)}")
    if answer.cursor is not None:
        yield dim(f"More: --cursor {safe(answer.cursor)}")


def cancellation(answer: CancelAnswer) -> Iterator[str]:
    yield f"{safe_id(answer.id)} is cancelled."


def batch_spawned(answer: SpawnAnswer) -> Iterator[str]:
    yield click.style(safe_id(answer.id), bold=True) + ("" if answer.new else dim("  already exists"))
    yield dim(_agents(answer.agents, answer.folded))


def batch(answer: BatchAnswer) -> Iterator[str]:
    """Show a batch with a line for each level."""
    yield f"{click.style(safe_id(answer.id), bold=True)}  {safe(answer.state)}  {safe(answer.lane)}"
    yield f"  {_agents(answer.agents, answer.folded)}"
    names = sorted({state for row in answer.levels for state in row.states}, key=_state_order)
    rows = [
        [str(row.level), f"{row.agents:,}", f"{row.folded:,}"]
        + [f"{row.states.get(name, 0):,}" for name in names]
        + [print_dollars(row.usd), f"{row.tokens:,}", f"{row.receipts:,}"]
        for row in answer.levels
    ]
    heads = ["LEVEL", "AGENTS", "FOLDED", *(name.upper() for name in names), "COST", "TOKENS", "RECEIPTS"]
    yield from table(heads, rows)
    yield f"  {_spent(answer)}"
    if answer.terminal:
        yield dim(f"  last receipt {safe_id(answer.terminal)}")


def _state_order(name: str) -> tuple[int, str]:
    order = ("open", "waiting", "claimed", "done", "dead", "cancelled", "taken")
    return order.index(name) if name in order else len(order), name


def batches(answer: BatchesAnswer) -> Iterator[str]:
    yield from _batches(answer.batches)
    if not answer.batches:
        yield "No batches."
    if answer.cursor is not None:
        yield dim(f"More: --cursor {safe(answer.cursor)}")


def _batches(rows: list[BatchRow]) -> Iterator[str]:
    if rows:
        yield from table(
            ["BATCH", "STATE", "AGENTS", "LANE"],
            [[short_id(row.id), row.state, _agents(row.agents, row.folded), row.lane] for row in rows],
        )


def _agents(agents: int, folded: int) -> str:
    return counted(agents, "agent") + (f", {folded:,} not materialised" if folded else "")


def batch_folded(answer: FoldAnswer) -> Iterator[str]:
    yield f"{counted(answer.agents, 'agent')} folded; {answer.folded:,} are not materialised."


def board(answer: BoardAnswer) -> Iterator[str]:
    totals = answer.totals
    counts = totals.states | {"dead": totals.given_up}
    states = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    states = states or ("no work yet" if answer.run_id is None else "no work in this run yet")
    yield f"{states}; {totals.executed} executed, {totals.hits} from the cache, {print_dollars(totals.usd)}"
    if answer.lanes:
        rows = [[lane.lane, str(lane.waiting), str(lane.claimed)] for lane in answer.lanes]
        # Runs share lanes, so the counts include the tasks of other runs.
        headings = ["LANE" if answer.run_id is None else "LANE (EVERY RUN'S)", "WAITING", "RUNNING"]
        if any(lane.blocked for lane in answer.lanes):
            headings, rows = (
                [*headings, "BLOCKED"],
                [[*line, str(lane.blocked)] for line, lane in zip(rows, answer.lanes, strict=True)],
            )
        yield from table(headings, rows)
        for lane in answer.lanes:
            if lane.not_before is not None:
                yield dim(f"{safe(lane.lane)}: {lane.delayed:,} of {lane.waiting:,} not before {lane.not_before}")
    yield from _unclaimed(answer.unclaimed)
    for limit in answer.held:
        yield click.style("PAUSED" if limit.paused is not None else "LIMIT", fg="yellow") + f"  {safe(limit.summary)}"
    yield from _batches(answer.batches)
    for blocked in answer.blocked:
        yield click.style("BLOCKED", fg="yellow") + f"  {safe_id(blocked.id)}  {safe(blocked.lane)}"
        yield from (dim(f"  {safe_line(line)}") for line in blocked.blocked)
    if answer.tasks:
        from engrambus.edges.cli.show.tasks import row as task_row

        yield "TASKS"
        for task in answer.tasks:
            yield from task_row(task)
    for title, tuples in (("RUNNING", answer.running), ("ENDED", answer.ended), ("GIVEN UP", answer.dead)):
        if tuples:
            head, *lines = table(
                [title, "STATE", "COST", "LANE"],
                [[short_id(row.id), row.state, _cost(row), row.lane] for row in tuples],
            )
            yield head
            for line, row in zip(lines, tuples, strict=True):
                yield line
                details = [_steps(row), row.worker and f"by {safe(row.worker)}", safe_line(row.error or "")]
                yield from (dim(f"  {part}") for part in details if part)
    if totals.given_up > len(answer.dead):
        yield dim(f"The last {len(answer.dead)} of {totals.given_up:,} given up; engrambus dead lists them all.")


def limits(answer: Limits) -> Iterator[str]:
    """Show limits and pauses with their use."""
    if not answer.limits:
        yield "No limits."
        return
    rows = [
        [
            row.name,
            "paused" if row.paused is not None else "",
            "" if row.limit_running is None else f"{row.running} of {row.limit_running}{_each(row)}",
            "" if row.rate is None else f"{row.started} of {row.rate}{_each(row)}",
            str(row.waiting) if row.waiting else "",
        ]
        for row in answer.limits
    ]
    yield from table(["LIMIT", "", "RUNNING", "STARTED", "WAITING"], rows)
    for row in answer.limits:
        if row.paused is not None:
            yield dim(f"  {safe(row.summary)}")


def _each(row: LimitRow) -> str:
    return " each" if row.key is not None and row.key.endswith("*") else ""


def limit(row: LimitRow) -> Iterator[str]:
    """Show a limit or pause that was set."""
    of_each = " of each key" if _each(row) else ""
    parts = []
    if row.paused is not None:
        parts.append(f"paused{': ' + safe(row.paused) if row.paused else ''}")
    if row.limit_running is not None:
        parts.append(f"at most {row.limit_running}{of_each} running")
    if row.rate is not None:
        parts.append(f"at most {row.rate}{of_each} started")
    yield f"{safe(row.name)}: {', '.join(parts)}"


def limit_removed(row: LimitRow) -> Iterator[str]:
    """Show which limit was removed."""
    yield f"{safe(row.name)}: no limit any more{'; still paused' if row.paused is not None else ''}"


def unpaused(row: LimitRow) -> Iterator[str]:
    """Show which pause has ended."""
    yield f"{safe(row.name)}: not paused any more"


def _unclaimed(rows: list[UnclaimedRow]) -> Iterator[str]:
    """Yield what waits for code that no running worker has, and what to do about it."""
    for row in rows:
        yield click.style("NO WORKER", fg="yellow") + f"  {safe(row.summary)}"
        yield dim(f"  {safe(row.next_step)}")


def _cost(row: TupleRow) -> str:
    """Return the cost of a tuple with its budget: in dollars, and in tokens where they have a budget."""
    dollars = print_dollars(row.usd) + (f" of {print_dollars(row.budget_usd)}" if row.budget_usd is not None else "")
    return dollars + (f", {row.tokens:,} of {row.budget_tokens:,} tokens" if row.budget_tokens is not None else "")


def _steps(row: TupleRow) -> str:
    return ", ".join(f"{safe(step.yool)} {_step_state(step)}" for step in row.steps)


def _step_state(step: StepState) -> str:
    return "HIT" if step.hit else "-" if step.exit is None else "done" if step.exit == 0 else "FAIL"
