"""Who is there, what they may spend and what they tell each other, as people read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from engrambus.edges.cli.screen import dim, json_line, pairs, safe, safe_line, table
from engrambus.edges.cli.show.evidence import show_problems

if TYPE_CHECKING:
    from engrambus.operations.answers import AnswerTaken
    from engrambus.operations.grants import Denied, GrantAnswer, RequestAnswer, RequestsAnswer, Revoked
    from engrambus.operations.messages import BroadcastAnswer, InboxAnswer, MessageAnswer, ValidateAnswer
    from engrambus.operations.people import AgentAnswer, AgentsAnswer, RunAnswer, RunsAnswer
    from engrambus.operations.turns import TeamBudget, TurnAnswer
    from engrambus.operations.upkeep import PolicyAnswer, VerifyAnswer


def _agent(answer: AgentAnswer) -> Iterator[str]:
    yield f"{click.style(safe(answer.agent_id), bold=True)} is a {safe(answer.role)} in run {safe(answer.run_id)}."
    yield dim(f"Its token, good until {safe(answer.expires_at)}:")
    yield ""
    yield f"export ENGRAMBUS_TOKEN={safe(answer.token)}"


def _agents(answer: AgentsAnswer) -> Iterator[str]:
    yield f"{dim('run')} {safe(answer.run_id)}  {safe(answer.goal)}"
    if answer.agents:
        yield from table(
            ["NAME", "ROLE", "PARENT"], [[row.agent_id, row.role, row.parent or "-"] for row in answer.agents]
        )
    else:
        yield "Nobody yet: engrambus agent add NAME --role ROLE"


def _run(answer: RunAnswer) -> Iterator[str]:
    yield safe(answer.run_id)


def _runs(answer: RunsAnswer) -> Iterator[str]:
    rows = []
    for run in answer.runs:
        state = "current" if run.current else "ended" if run.ended else "open"
        rows.append([run.run_id, state, run.opened_at, run.goal])
    yield from table(["RUN", "STATE", "OPENED", "GOAL"], rows)


def _policy(answer: PolicyAnswer) -> Iterator[str]:
    yield "The policy is in force."
    if answer.policy:
        yield from pairs((name, json_line(msgspec.json.encode(value))) for name, value in sorted(answer.policy.items()))
    else:
        yield dim("It says nothing that differs from the defaults.")


def _verify(answer: VerifyAnswer) -> Iterator[str]:
    if answer.sound:
        yield click.style("sound", fg="green", bold=True) + f": {answer.commits:,} commits check, and the index agrees."
        return
    yield click.style("not sound", fg="red", bold=True)
    yield from table(["WHAT", "WHERE"], [[finding.what, finding.where] for finding in answer.findings])
    indexes = sorted({"work.db" if each.where.startswith("work") else "index.db" for each in answer.findings})
    removed = " and ".join(f".catalog/{name}" for name in indexes)
    yield dim(f"An index is rebuilt when it is removed: {removed}. `engrambus recover` sets a damaged journal aside.")


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
    yield from show_problems(answer.problems)


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


SHOW: dict[str, Callable[[Any], Iterable[str]]] = {
    "send_message": _message,
    "broadcast": _broadcast,
    "validate_message": _verdict,
    "inbox": _inbox,
    "take_answer": _answer,
    "close_turn": _turn,
    "team_budget": _team_budget,
    "issue_grant": _grant,
    "approve_request": _grant,
    "revoke_grant": _revoked,
    "request_deref": _asked,
    "list_requests": _requests,
    "deny_request": _denied,
    "list_runs": _runs,
    "open_run": _run,
    "end_run": _run,
    "add_agent": _agent,
    "agent_token": _agent,
    "list_agents": _agents,
    "apply_policy": _policy,
    "verify": _verify,
}
