"""Lines for people: agents, runs, messages, budgets and grants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from engrambus.core import short_id
from engrambus.edges.cli.screen import dim, safe, safe_id, safe_line, table
from engrambus.edges.cli.show.evidence import show_problems
from engrambus.policy import with_article

if TYPE_CHECKING:
    from engrambus.operations.answers import AnswerTaken
    from engrambus.operations.deref_requests import DenyAnswer, RequestAnswer, RequestsAnswer
    from engrambus.operations.grants import GrantAnswer, GrantsAnswer, RevokeAnswer
    from engrambus.operations.inbox import InboxAnswer, MailRow
    from engrambus.operations.messages import BroadcastAnswer, MessageAnswer, ValidateAnswer
    from engrambus.operations.reservations import CheckAnswer, ReleaseAnswer, ReservationRow, ReservationsAnswer
    from engrambus.operations.runs import AgentsAnswer, RemovedAnswer, RunAnswer, RunsAnswer
    from engrambus.operations.tokens import AgentAnswer, RevokedAnswer, TokensAnswer
    from engrambus.operations.turns import TeamBudget, TurnAnswer


def agent(answer: AgentAnswer) -> Iterator[str]:
    role = with_article(safe(answer.role))
    yield f"{click.style(safe(answer.agent_id), bold=True)} is {role} in run {safe_id(answer.run_id)}."
    yield dim(f"Its token, good until {safe(answer.expires_at)}:")
    yield ""
    yield f"export ENGRAMBUS_TOKEN={safe(answer.token)}"


def agent_list(answer: AgentsAnswer) -> Iterator[str]:
    yield f"{dim('run')} {safe_id(answer.run_id)}  {safe(answer.goal)}"
    if answer.agents:
        yield from table(
            ["NAME", "ROLE", "PARENT"], [[row.agent_id, row.role, row.parent or "-"] for row in answer.agents]
        )
    else:
        yield "Nobody yet: engrambus agent add NAME --role ROLE"


def agents_removed(answer: RemovedAnswer) -> Iterator[str]:
    yield f"Removed from run {safe_id(answer.run_id)}: {safe(', '.join(answer.removed))}."


def token_list(answer: TokensAnswer) -> Iterator[str]:
    rows = [
        [
            safe_id(row.token_id),
            f"{safe(row.run_id)}/{safe(row.agent_id)}",
            safe(row.role),
            safe(row.issued_by.rpartition("/")[2]),
            safe(row.expires_at[:16].replace("T", " ")),
        ]
        for row in answer.tokens
    ]
    if rows:
        yield from table(["TOKEN", "AGENT", "ROLE", "ISSUED BY", "UNTIL"], rows)
    else:
        yield "No token is live."
    if answer.cursor is not None:
        yield dim(f"More: engrambus token list --cursor {safe(answer.cursor)}")


def tokens_revoked(answer: RevokedAnswer) -> Iterator[str]:
    yield f"{answer.tokens} token{'s' * (answer.tokens != 1)} revoked."


def run(answer: RunAnswer) -> Iterator[str]:
    yield safe_id(answer.run_id)


def run_list(answer: RunsAnswer) -> Iterator[str]:
    rows = []
    for run in answer.runs:
        state = "current" if run.current else "ended" if run.ended else "session" if run.session else "open"
        rows.append([short_id(run.run_id), state, run.opened_at, run.lead or "-", run.goal])
    yield from table(["RUN", "STATE", "OPENED", "LEAD", "GOAL"], rows)


def grant(answer: GrantAnswer) -> Iterator[str]:
    yield f"Grant {safe_id(answer.grant_id)} for {safe(answer.child_id)}, until {safe(answer.expires_at)}."
    yield dim("The agent can simply read; with this budget token it can pass on less, with `engrambus grant narrow`:")
    yield safe(answer.budget_token)
    if answer.biscuit is not None:
        yield dim("As a Biscuit, which its holder can narrow without the gateway:")
        yield safe(answer.biscuit)


def grant_list(answer: GrantsAnswer) -> Iterator[str]:
    rows = [
        [
            safe(row.budget_token),
            f"{safe(row.parent)} -> {safe(row.child)}",
            row.state,
            f"{row.tokens_left:,} of {row.cap_tokens:,}",
            f"{row.uses_left} of {row.uses}",
            safe(row.expires_at[:16].replace("T", " ")),
            safe_line(_short_target(row.ref)),
        ]
        for row in answer.grants
    ]
    if rows:
        yield from table(["BUDGET TOKEN", "FROM -> TO", "STATE", "TOKENS LEFT", "USES LEFT", "UNTIL", "FOR"], rows)
    else:
        yield "No grants."
    if answer.cursor is not None:
        yield dim(f"More: engrambus grant list --cursor {safe(answer.cursor)}")


def _short_target(ref: str) -> str:
    head, _, pin = ref.rpartition("@")
    return f"{head}@{pin[:7]}" if head else ref


def revocation(answer: RevokeAnswer) -> Iterator[str]:
    yield f"{safe_id(answer.grant_id)} is revoked."


def reservation(answer: ReservationRow) -> Iterator[str]:
    yield f"{safe_line(', '.join(answer.paths))} reserved until {safe(answer.expires_at)}."
    yield dim(f"Release: engrambus reservation release {safe_id(answer.reservation_id)}")


def reservation_list(answer: ReservationsAnswer) -> Iterator[str]:
    rows = [
        [
            safe_id(row.reservation_id),
            safe(row.agent) + (" (you)" if row.yours else ""),
            safe(row.expires_at[:16].replace("T", " ")),
            safe_line(", ".join(row.paths)),
            safe_line(row.reason),
        ]
        for row in answer.reservations
    ]
    if rows:
        yield from table(["ID", "HOLDER", "UNTIL (UTC)", "PATHS", "REASON"], rows)
    else:
        yield "Nothing is reserved."


def reservations_released(answer: ReleaseAnswer) -> Iterator[str]:
    if not answer.released:
        yield "You hold no reservation."
    for row in answer.released:
        yield f"{safe_line(', '.join(row.paths))} of {safe(row.agent)}: released."


def reservation_check(answer: CheckAnswer) -> Iterator[str]:
    if answer.mode == "off":
        yield "The policy does not check edits: limits.reservations is off."
    elif not answer.reserved:
        yield "Nobody else has reserved this."
    for row in answer.reserved:
        yield f"{safe_line(row.path)} is reserved by {safe(row.agent)} until {safe(row.expires_at)}."


def deref_request(answer: RequestAnswer) -> Iterator[str]:
    yield f"{safe_id(answer.request_id)} waits for {safe(answer.asked)} to answer."


def request_list(answer: RequestsAnswer) -> Iterator[str]:
    if not answer.requests:
        yield "No request waits for an answer."
    for row in answer.requests:
        yield f"{safe_id(row.request_id)}  {safe(row.agent)}  {safe_line(row.ref)}  {row.max_tokens} tokens"
        yield f"    {safe_line(row.reason)}"


def denial(answer: DenyAnswer) -> Iterator[str]:
    yield f"{safe_id(answer.request_id)} is denied."


def message(answer: MessageAnswer) -> Iterator[str]:
    yield f"Sent {safe_id(answer.message_id)} to {safe(answer.to)}; turn {answer.turn} is open."
    for title, ids in (("engram", answer.engrams), ("request", answer.requests)):
        for item in ids:
            yield f"  {title} {safe_id(item)}"
    if answer.resends:
        yield dim(f"  in place of {safe_id(answer.resends)}")


def broadcast(answer: BroadcastAnswer) -> Iterator[str]:
    receivers = ", ".join(map(safe, answer.to)) or "no one: you have no child agents"
    yield f"Sent {safe_id(answer.broadcast_id)} to {receivers}."


def message_check(answer: ValidateAnswer) -> Iterator[str]:
    used, budget = answer.usage, answer.budget
    yield f"{'It would be accepted.' if answer.ok else 'It would be refused.'}"
    yield dim(
        f"{used.inline_tokens} of {budget.max_inline_tokens} tokens, {used.engrams} of {budget.max_engrams} engrams, "
        f"{used.inline_code_chars} of {budget.max_inline_code_chars} characters of code"
    )
    yield from show_problems(answer.problems)


def final_answer(answer: AnswerTaken) -> Iterator[str]:
    result = f"message {safe_id(answer.message_id)} to {safe(answer.to or '')}" if answer.message_id else "no words"
    yield f"{answer.tokens} tokens, {result}; turn {answer.turn} is open."
    if answer.pointer:
        yield f"All of it: {safe(answer.pointer)}"
    if answer.cited:
        yield f"It cites {len(answer.cited)} place{'s' * (len(answer.cited) != 1)}:"
        yield from (f"  {safe(ref)}" for ref in answer.cited)
    if answer.unresolved_citations:
        yield dim(f"Citations that lead nowhere: {answer.unresolved_citations}")
    if answer.unconfirmed:
        yield "Claims that await confirmation, with engrambus confirm ID:"
        yield from (f"  {safe_id(engram_id)}" for engram_id in answer.unconfirmed)
    if answer.pointers:
        yield "The code in it is read through these pointers:"
        yield from (f"  {safe(pointer)}" for pointer in answer.pointers)


def turn(answer: TurnAnswer) -> Iterator[str]:
    yield f"Turn {answer.turn} of {safe(answer.agent_id)} is open."


def team_budget(answer: TeamBudget) -> Iterator[str]:
    yield f"{answer.agents} agents have read {answer.used:,} of {answer.limit:,} tokens; {answer.left:,} are left."
    used, limits = answer.turn, answer.limits
    if used is not None and limits is not None:
        worth = f", worth {limits.session_turns} turns" if limits.session_turns > 1 else ""
        yield f"Your turn {used.number}{worth}:"
        yield f"  read  {used.repo} of {limits.repo} repo, {used.artifact} of {limits.artifact} artifact, " + (
            f"{used.sam} of {limits.sam} sam; {used.tokens:,} of {limits.tokens:,} tokens"
        )
        yield f"  put   {used.put_tokens:,} of {limits.put_tokens:,} tokens"
        yield f"  run   {used.run_tokens:,} of {limits.run_tokens:,} tokens read"


def inbox(answer: InboxAnswer) -> Iterator[str]:
    if not answer.mail and not answer.lines:
        yield "Nothing new."
    yield from map(safe_line, answer.lines)
    for row in answer.mail:
        yield from mail(row)
    if answer.seen:
        yield dim("Seen before:")
        yield from map(safe_line, answer.seen)
    if answer.claims_waiting:
        yield f"Claims from answers that await confirmation: {answer.claims_waiting}"
        for waiting in answer.claims:
            source = dim(f"{safe(waiting.agent)}  {safe_id(waiting.id)}")
            yield f"  {safe(waiting.kind)}: {safe_line(waiting.claim)}  {source}"
        yield dim("Confirm: engrambus confirm ID..., or engrambus confirm --from AGENT")
    if answer.newest > answer.cursor and answer.mail:
        yield dim(f"More: engrambus inbox --cursor {answer.cursor}")
    if answer.waiting:
        yield dim(f"{answer.waiting} not shown before: engrambus inbox --unseen")


def mail(answer: MailRow) -> Iterator[str]:
    sent = safe(answer.at[:16].replace("T", " "))
    yield f"{safe(answer.kind)} from {safe(answer.sender)}, {sent}  {dim(safe_id(answer.item))}"
    yield from (f"    {safe_line(line)}" for line in answer.text.splitlines())
    if answer.used:
        yield dim(f"    used: {safe(' '.join(map(short_id, answer.used)))}")
    if stale := getattr(answer, "stale", ()):  # only where one piece of mail is read
        yield dim(f"    stale: {safe(' '.join(map(short_id, stale)))}")
