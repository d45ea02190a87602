"""Answers as people read them: for each operation, lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
import msgspec

from stigmergy.core import age, is_digest, is_hex
from stigmergy.edges.cli.cortex import show_contribution, show_episode, show_queue, show_snapshot
from stigmergy.edges.cli.figures import show_stats
from stigmergy.edges.cli.memory import show_package
from stigmergy.edges.cli.screen import dim, json_line, kind, pairs, safe, safe_line, table, width, wrap
from stigmergy.evidence.pointers import Pointer, RepoAddress, parse
from stigmergy.knowledge.engrams import Engram
from stigmergy.operations.anchoring import AnchorAnswer
from stigmergy.operations.answers import AnswerTaken
from stigmergy.operations.asking import QueryAnswer
from stigmergy.operations.board import BoardAnswer, StepRow
from stigmergy.operations.brief import BriefAnswer, BriefsAnswer
from stigmergy.operations.catalog import CatalogAnswer, YoolAnswer
from stigmergy.operations.feed import FeedAnswer
from stigmergy.operations.gc import GarbageAnswer
from stigmergy.operations.grants import Denied, GrantAnswer, RequestAnswer, RequestsAnswer, Revoked
from stigmergy.operations.keeping import Confirmed, Forgotten, Pinned
from stigmergy.operations.messages import BroadcastAnswer, InboxAnswer, MessageAnswer, ValidateAnswer
from stigmergy.operations.people import AgentAnswer, AgentsAnswer, RunAnswer, RunsAnswer
from stigmergy.operations.pointers import DerefAnswer, LinkAnswer, ValidateDerefAnswer
from stigmergy.operations.reports import TestsRecorded
from stigmergy.operations.turns import TeamBudget, TurnAnswer
from stigmergy.operations.upkeep import PolicyAnswer, VerifyAnswer
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

KIND_COLUMN = 12
SHORT = 7
SHOWN_VERSIONS = 8


def short_ref(pointer: Pointer) -> str:
    """A pointer as people write it: `src/x.py:10-20@3a4c4fe`; `stig deref` takes it back."""
    ref = pointer.ref
    if pointer.type == "repo":
        address = parse(ref)
        if isinstance(address, RepoAddress) and address.repository is None:
            first, last = address.lines or (0, 0)
            lines = f":{first}" + (f"-{last}" if last != first else "") if first else ""
            return f"{address.path}{lines}@{address.revision[:SHORT]}"
    rest, mark, pin = ref.rpartition("@")
    if mark and is_hex(pin, 40, 64):
        return f"{rest}@{pin[:SHORT]}"
    if mark and is_digest(pin):
        return f"{rest}@{pin[: len('sha256:') + SHORT]}…"
    return ref


def _author(engram: Engram) -> str:
    return engram.provenance.created_by.rpartition("/")[2]


def _query(answer: QueryAnswer) -> Iterator[str]:
    columns = width()
    for engram in answer.engrams:
        claim = wrap(safe(engram.claim), columns - KIND_COLUMN if columns else None)
        yield kind(engram.kind) + " " * (KIND_COLUMN - len(engram.kind)) + claim[0]
        for line in claim[1:]:
            yield " " * KIND_COLUMN + line
        more = f" +{len(engram.pointers) - 1}" if len(engram.pointers) > 1 else ""
        parts = [
            short_ref(engram.pointers[0]) + more,
            _author(engram),
            age(engram.provenance.created_at, answer.as_of),
            engram.id,
        ]
        yield " " * KIND_COLUMN + dim("  ".join(map(safe, parts)))
    if not answer.engrams and not answer.truncated:
        yield "Nothing found."
    if answer.truncated:
        yield dim("More was found than max-tokens lets through.")
    if answer.cursor is not None:
        yield dim(f"More: --cursor {safe(answer.cursor)}")


def _engram(engram: Engram) -> Iterator[str]:
    yield f"{kind(engram.kind)}  {safe(engram.claim)}"
    yield ""
    rows = [("id", engram.id)]
    for pointer in engram.pointers:
        rows += [("pointer", pointer.ref), ("digest", pointer.digest or "")]
    rows += [("confidence", f"{engram.confidence:g}"), ("ttl", engram.ttl), ("scope", engram.scope)]
    rows += [("tags", ", ".join(engram.tags)), ("keys", ", ".join(engram.hash_keys))]
    rows += [("embedding", engram.embedding_ref or "")]
    rows += [("by", f"{engram.provenance.created_by} ({engram.provenance.source})")]
    rows += [("at", engram.provenance.created_at)]
    yield from pairs(row for row in rows if row[1])


def _put(engram: Engram) -> Iterator[str]:
    yield click.style(safe(engram.id), bold=True)
    for pointer in engram.pointers:
        yield safe(pointer.ref)
        if pointer.digest:
            yield dim(safe(pointer.digest))


def _deref(answer: DerefAnswer) -> Iterator[str]:
    address = parse(answer.pointer.ref)
    lines = [line.removesuffix("\r") for line in answer.excerpt.split("\n")]
    if lines[-1] == "":
        lines.pop()
    if isinstance(address, RepoAddress):
        first = address.lines[0] if address.lines else 1
        column = len(str(first + len(lines)))
        for number, line in enumerate(lines, first):
            yield dim(f"{number:>{column}}  ") + safe_line(line)
    else:
        yield from map(safe_line, lines)
    yield dim("─" * 8)
    yield safe(answer.pointer.ref)
    yield dim(safe(answer.content_digest) + ("  of the whole" if answer.truncated else ""))
    if answer.truncated:
        yield click.style("Cut to fit the budget; --max-tokens N lets more through.", fg="yellow")


def _anchor(answer: AnchorAnswer) -> Iterator[str]:
    if answer.pointer is not None:
        yield safe(answer.pointer.ref)
        if answer.pointer.digest:
            yield dim(answer.pointer.digest)
    elif answer.candidates:
        yield "It stands in several places; --path says which one is meant."
        yield from (safe(pointer.ref) for pointer in answer.candidates)
    else:
        yield "Not found in that commit."
        yield dim("Lines that are not committed yet are found with --snapshot.")


def _link(answer: LinkAnswer) -> Iterator[str]:
    rows = [("pointer", answer.ref), ("editor", answer.editor), ("github", answer.github), ("archive", answer.swhid)]
    rows += [("now", answer.standing), ("at HEAD", answer.head)]
    yield from pairs((name, value) for name, value in rows if value is not None)


def _agent(answer: AgentAnswer) -> Iterator[str]:
    yield f"{click.style(safe(answer.agent_id), bold=True)} is a {safe(answer.role)} in run {safe(answer.run_id)}."
    yield dim(f"Its token, good until {safe(answer.expires_at)}:")
    yield ""
    yield f"export STIGMERGY_TOKEN={safe(answer.token)}"


def _agents(answer: AgentsAnswer) -> Iterator[str]:
    yield f"{dim('run')} {safe(answer.run_id)}  {safe(answer.goal)}"
    if answer.agents:
        yield from table(
            ["NAME", "ROLE", "PARENT"], [[row.agent_id, row.role, row.parent or "-"] for row in answer.agents]
        )
    else:
        yield "Nobody yet: stig agent add NAME --role ROLE"


def _verify(answer: VerifyAnswer) -> Iterator[str]:
    if answer.sound:
        yield click.style("sound", fg="green", bold=True) + f": {answer.commits:,} commits check, and the index agrees."
        return
    yield click.style("not sound", fg="red", bold=True)
    yield from table(["WHAT", "WHERE"], [[finding.what, finding.where] for finding in answer.findings])
    yield dim("An index is rebuilt when .catalog/index.db is removed; `stig recover` sets a damaged journal aside.")


def _policy(answer: PolicyAnswer) -> Iterator[str]:
    yield "The policy is in force."
    if answer.policy:
        yield from pairs((name, json_line(msgspec.json.encode(value))) for name, value in sorted(answer.policy.items()))
    else:
        yield dim("It says nothing that differs from the defaults.")


def _run(answer: RunAnswer) -> Iterator[str]:
    yield safe(answer.run_id)


def _grant(answer: GrantAnswer) -> Iterator[str]:
    yield f"Grant {safe(answer.grant_id)} for {safe(answer.child_id)}, until {safe(answer.expires_at)}."
    yield dim("It holds for that agent as it is; this token lets it pass less on:")
    yield safe(answer.budget_token)


def _revoked(answer: Revoked) -> Iterator[str]:
    yield f"{safe(answer.grant_id)} is revoked."


def _asked(answer: RequestAnswer) -> Iterator[str]:
    yield f"{safe(answer.request_id)} waits for {safe(answer.asked)} to answer."


def _requests(answer: RequestsAnswer) -> Iterator[str]:
    if not answer.requests:
        yield "Nobody waits for an answer."
    for row in answer.requests:
        yield f"{safe(row.request_id)}  {safe(row.agent)}  {safe_line(row.ref)}  {row.max_tokens} tokens"
        yield f"    {safe_line(row.reason)}"


def _denied(answer: Denied) -> Iterator[str]:
    yield f"{safe(answer.request_id)} is turned down."


def _message(answer: MessageAnswer) -> Iterator[str]:
    yield f"{safe(answer.message_id)} is with {safe(answer.to)}; turn {answer.turn} is open."
    for title, ids in (("engram", answer.engrams), ("request", answer.requests)):
        for each in ids:
            yield f"  {title} {safe(each)}"
    if answer.resends:
        yield dim(f"  in place of {safe(answer.resends)}")


def _broadcast(answer: BroadcastAnswer) -> Iterator[str]:
    yield f"{safe(answer.broadcast_id)} is with {', '.join(map(safe, answer.to)) or 'nobody: you have no children'}."


def _verdict(answer: ValidateAnswer) -> Iterator[str]:
    used, budget = answer.usage, answer.budget
    yield f"{'It would be taken.' if answer.ok else 'It would be refused.'}"
    yield dim(
        f"{used.inline_tokens} of {budget.max_inline_tokens} tokens, {used.engrams} of {budget.max_engrams} engrams, "
        f"{used.inline_code_chars} of {budget.max_inline_code_chars} characters of code"
    )
    yield from _problems(answer.problems)


def _answer(answer: AnswerTaken) -> Iterator[str]:
    kept = f"kept as message {safe(answer.message_id)}" if answer.message_id else "prose, held to the budget"
    yield f"{answer.tokens} tokens, {kept}; turn {answer.turn} is open."


def _turn(answer: TurnAnswer) -> Iterator[str]:
    yield f"Turn {answer.turn} of {safe(answer.agent_id)} is open."


def _team_budget(answer: TeamBudget) -> Iterator[str]:
    yield f"{answer.agents} agents have read {answer.used:,} of {answer.limit:,} tokens; {answer.left:,} are left."


def _inbox(answer: InboxAnswer) -> Iterator[str]:
    if not answer.mail:
        yield "Nothing new."
    for mail in answer.mail:
        yield f"{safe(mail.kind)} from {safe(mail.sender)}  {dim(safe(mail.item))}"
        for line in mail.text.splitlines():
            yield f"    {safe_line(line)}"


def _may_read(answer: ValidateDerefAnswer) -> Iterator[str]:
    by = "a grant" if answer.granted else f"turn {answer.turn}"
    yield f"It would be allowed by {by}: {answer.tokens_left} tokens left." if answer.ok else "It would be refused."
    yield from _problems(answer.problems)


def _problems(problems: list[dict[str, Any]]) -> Iterator[str]:
    """What something would be refused with, and where, and what to do about it."""
    for problem in problems:
        yield f"{safe(str(problem['code']))}: {safe_line(str(problem.get('detail') or problem['title']))}"
        facts = [f"{name}: {safe(str(problem[name]))}" for name in ("field", "line") if problem.get(name) is not None]
        if facts:
            yield dim("  " + "   ".join(facts))
        if problem.get("hint"):
            yield click.style(f"  {safe(str(problem['hint']))}", fg="cyan")


def _brief(answer: BriefAnswer) -> Iterator[str]:
    yield dim(f"Brief for {safe(answer.role)}, version {answer.version}")
    for line in answer.lines:
        yield safe_line(line)


def _briefs(answer: BriefsAnswer) -> Iterator[str]:
    which = f"version {answer.version}" if answer.version else "as it would be made now"
    yield dim(f"Brief for {safe(answer.role)}, {which}")
    for line in answer.changed if answer.changed is not None else answer.lines:
        yield safe_line(line)
    if answer.versions:
        kept = ", ".join(
            f"{each.version} ({age(each.made_at, answer.as_of)})" for each in answer.versions[:SHOWN_VERSIONS]
        )
        yield dim(f"Versions: {kept}")


def _feed(answer: FeedAnswer) -> Iterator[str]:
    for row in answer.rows:
        engram = row.engram
        marks = [mark for mark, here in (("stale", row.stale), ("pinned", row.pinned)) if here]
        about = [row.agent, age(engram.provenance.created_at, answer.as_of), *marks]
        more = f" +{len(engram.pointers) - 1}" if len(engram.pointers) > 1 else ""
        yield kind(engram.kind) + " " * (KIND_COLUMN - len(engram.kind)) + safe_line(engram.claim)
        yield " " * KIND_COLUMN + dim("  ".join(map(safe, [short_ref(engram.pointers[0]) + more, *about, engram.id])))
    if not answer.rows:
        yield "Nothing found." if answer.cursor is None else f"Nothing in the newest {answer.searched:,}."
    if answer.cursor is not None:
        yield dim(f"Older: --cursor {safe(answer.cursor)}")


def _pinned(answer: Pinned) -> Iterator[str]:
    yield f"{safe(answer.id)} is {'pinned' if answer.pinned else 'no longer pinned'}."


def _runs(answer: RunsAnswer) -> Iterator[str]:
    rows = []
    for run in answer.runs:
        state = "current" if run.current else "ended" if run.ended else "open"
        rows.append([run.run_id, state, run.opened_at, run.goal])
    yield from table(["RUN", "STATE", "OPENED", "GOAL"], rows)


def _confirmed(answer: Confirmed) -> Iterator[str]:
    lines = f"{answer.votes} line{'s' * (answer.votes != 1)} of agents"
    yield f"{safe(answer.id)} holds until {safe(answer.expires_at)}, confirmed by {lines}."


def _forgotten(answer: Forgotten) -> Iterator[str]:
    yield f"{safe(answer.id)} is forgotten."


def _yool(answer: YoolAnswer) -> Iterator[str]:
    yield click.style(safe(answer.yool_id), bold=True) + (f"  {safe(answer.about)}" if answer.about else "")
    rows = [("lane", answer.lane), ("authority", ", ".join(answer.authority)), ("agent", answer.agent or "")]
    for name, value in (answer.agent_terms | answer.contract).items():
        rows.append((name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    if len(answer.versions) > 1:
        rows.append(("versions", ", ".join(f"v{version}" for version in answer.versions)))
    yield from pairs(row for row in rows if row[1])


def _yools(answer: CatalogAnswer) -> Iterator[str]:
    if answer.yools:
        yield from table(["YOOL", "LANE", "ABOUT"], [[row.yool_id, row.lane, row.about] for row in answer.yools])
    else:
        yield "None."
    if answer.cursor is not None:
        yield dim(f"More: --cursor {safe(answer.cursor)}")


def dollars(usd: float) -> str:
    """Money as people write it: `$0.12`, `$0`."""
    return f"${usd:.6f}".rstrip("0").rstrip(".")


def _dispatched(answer: Dispatched) -> Iterator[str]:
    yield click.style(safe(answer.id), bold=True) + ("" if answer.new else dim("  was there already"))
    if answer.receipt_id:
        yield dim(f"receipt {safe(answer.receipt_id)}")


def _tuple(answer: TupleAnswer) -> Iterator[str]:
    one = answer.tuple
    yield f"{click.style(safe(str(one['id'])), bold=True)}  {safe(answer.state)}  {safe(str(one['lane']))}"
    for at, step in enumerate(one["payload"]):
        yield f"  {at}  {safe(str(step['yool']))}"
    for receipt in one.get("receipts", ()):
        yield dim(f"  receipt {safe(str(receipt))}")


def _observed(answer: Observed) -> Iterator[str]:
    yield f"{click.style(safe(answer.id), bold=True)}  {safe(answer.state)}  {safe(answer.lane)}"
    for at, step in enumerate(answer.steps):
        done = "HIT" if step.hit else "done" if step.receipt else "-"
        yield f"  {at}  {safe(step.yool)}  {done}  {dim(safe(step.receipt or ''))}".rstrip()
    budget = f" of {dollars(answer.budget_usd)}" if answer.budget_usd is not None else ""
    yield f"  attempt {answer.attempts}, {dollars(answer.usd)}{budget}, {answer.tokens} tokens"
    if answer.terminal:
        yield dim(f"  last receipt {safe(answer.terminal)}")
    if answer.again:
        yield dim(f"  put again as {safe(answer.again)}")


def _receipt(answer: ReceiptAnswer) -> Iterator[str]:
    import json

    yield from json.dumps(answer.statement or answer.receipt, indent=2, ensure_ascii=False).splitlines()


def _receipt_verified(answer: ReceiptVerified) -> Iterator[str]:
    yield f"{safe(answer.id)} is {'sound' if answer.sound else click.style('NOT sound', fg='red', bold=True)}"
    if not answer.id_matches:
        yield "  its content does not give its id"
    for body in answer.bodies:
        yield f"  {'whole  ' if body.whole else 'DAMAGED'}  {safe(body.name)}  {dim(safe(body.sha))}"


def _work(answer: WorkRunsAnswer) -> Iterator[str]:
    if not answer.runs:
        yield "No run has any work yet."
    for run in answer.runs:
        states = ", ".join(f"{count} {state}" for state, count in run.states.items())
        yield f"{click.style(safe(run.run_id), bold=True)}  {states}"
        yield dim(f"  {run.executed} executed, {run.hits} from the cache, {dollars(run.usd)}, {run.tokens} tokens")


def _dead(answer: DeadLetters) -> Iterator[str]:
    if not answer.dead:
        yield "No dead letters."
    for each in answer.dead:
        yield f"{safe(each.id)}  {safe(each.lane)}  {each.attempts} attempts  {safe_line(each.error or '')}".rstrip()
        if each.again:
            yield dim(f"  put again as {safe(each.again)}")


def _cancelled(answer: Cancelled) -> Iterator[str]:
    yield f"{safe(answer.id)} is cancelled."


def _board(answer: BoardAnswer) -> Iterator[str]:
    totals = answer.totals
    states = ", ".join(f"{count} {state}" for state, count in totals.states.items()) or "no work yet"
    yield f"{states}; {totals.executed} executed, {totals.hits} from the cache, {dollars(totals.usd)}"
    if answer.lanes:
        rows = [[each.lane, str(each.waiting), str(each.claimed)] for each in answer.lanes]
        yield from table(["LANE", "WAITING", "RUNNING"], rows)
    for title, tuples in (("RUNNING", answer.running), ("ENDED", answer.ended), ("GIVEN UP", answer.dead)):
        if tuples:
            rows = [[each.id[:19], each.state, ", ".join(_step(step) for step in each.steps)] for each in tuples]
            yield from table([title, "STATE", "STEPS"], rows)


def _step(step: StepRow) -> str:
    return f"{step.yool} {'HIT' if step.hit else '-' if step.exit is None else 'ok' if step.exit == 0 else 'FAIL'}"


def _tests_recorded(answer: TestsRecorded) -> Iterator[str]:
    counts = {"passed": answer.passed, "failed": answer.failed, "errors": answer.errors, "skipped": answer.skipped}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    yield f"{click.style(safe(answer.receipt_id), bold=True)}  {told or 'no tests'}"
    for case in answer.first_failed:
        yield f"  {click.style(case.outcome, fg='red')}  {safe(case.ref)}"
        if case.message:
            yield dim(f"    {safe(case.message)}")


_WHY = {"artifact": "artifacts past their days", "printed": "output past its days", "room": "the oldest, for room"}


def _collected(answer: GarbageAnswer) -> Iterator[str]:
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


SHOW: dict[str, Callable[[Any], Iterable[str]]] = {
    "put_engram": _put,
    "query_engrams": _query,
    "brief": _brief,
    "get_engram": _engram,
    "confirm_engram": _confirmed,
    "forget_engram": _forgotten,
    "promote_engram": _engram,
    "send_message": _message,
    "broadcast": _broadcast,
    "validate_message": _verdict,
    "inbox": _inbox,
    "take_answer": _answer,
    "close_turn": _turn,
    "team_budget": _team_budget,
    "validate_deref": _may_read,
    "issue_grant": _grant,
    "approve_request": _grant,
    "revoke_grant": _revoked,
    "request_deref": _asked,
    "list_requests": _requests,
    "deny_request": _denied,
    "list_briefs": _briefs,
    "feed": _feed,
    "pin_engram": _pinned,
    "unpin_engram": _pinned,
    "list_runs": _runs,
    "open_run": _run,
    "end_run": _run,
    "add_agent": _agent,
    "agent_token": _agent,
    "list_agents": _agents,
    "deref_pointer": _deref,
    "anchor_text": _anchor,
    "link_pointer": _link,
    "memory_read": show_package,
    "keep_episode": show_episode,
    "pin_episode": show_episode,
    "inherit": show_snapshot,
    "contribute": show_contribution,
    "list_contributions": show_queue,
    "show_contribution": show_contribution,
    "accept_contribution": show_contribution,
    "reject_contribution": show_contribution,
    "withdraw_contribution": show_contribution,
    "catalog_lookup": _yool,
    "catalog_list_by_lane": _yools,
    "apply_policy": _policy,
    "stats": show_stats,
    "verify": _verify,
    "collect_garbage": _collected,
    "record_tests": _tests_recorded,
    "work_board": _board,
    "tuple_dispatch": _dispatched,
    "tuple_out": _dispatched,
    "tuple_rd": _tuple,
    "tuple_in": _tuple,
    "tuple_observe": _observed,
    "receipt_get": _receipt,
    "receipt_verify": _receipt_verified,
    "list_work": _work,
    "list_dead": _dead,
    "tuple_again": _dispatched,
    "cancel_tuple": _cancelled,
}
