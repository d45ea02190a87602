"""Messages on the page: what agents wrote to people, and what people write to agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from engrambus.core import SECOND_US, SystemClock, print_time
from engrambus.edges.page.session import PageSession
from engrambus.errors import FieldValue
from engrambus.knowledge.messages import parse_message
from engrambus.operations.inbox import MailRow
from engrambus.operations.runs import AgentRow
from engrambus.policy import ROLE_PREFIX, ROLES

MAIL_ROWS = 30
RAIL_ROWS = 3
MAX_TTL_US = 36_500 * 86_400 * SECOND_US
"""More than any project allows: what was accepted is read whatever the limit is now."""
EVERYONE = "everyone"
LEADS = "leads"


class ShownMail(NamedTuple):
    """One piece of mail, as the page shows it."""

    row: MailRow
    sender: str
    """The full name of its sender, to which a reply goes."""
    status: str
    """The status of a report's task, or nothing."""
    text: str
    next: str
    is_whole: bool
    """True if `text` and `next` are all that the mail says."""


class Target(NamedTuple):
    """A choice of receivers."""

    value: str
    label: str


def load_messages(session: PageSession, params: Mapping[str, str]) -> dict[str, Any]:
    """Return the newest mail of the person at the page, and the agents that a message can go to."""
    answer = session.call("inbox", newest_first=True, k=MAIL_ROWS, cursor=params.get("older"))
    agents = session.call("list_agents").agents
    return {
        "mail": [_shown(row) for row in answer.mail],
        "unseen": answer.waiting,
        "now": print_time(SystemClock().now()),
        "older": answer.cursor if len(answer.mail) == MAIL_ROWS and answer.cursor else None,
        "rail_rows": RAIL_ROWS,
        "groups": message_groups(agents),
        "agents": agents,
        "goals": {run.run_id: run.goal for run in session.runs},
    }


def count_unseen(session: PageSession) -> int:
    """Return how many pieces of mail the person has not been shown."""
    waiting: int = session.call("inbox", newest_first=True, k=1).waiting
    return waiting


def mark_seen(session: PageSession) -> None:
    """Record that the person was shown the mail."""
    session.call("inbox", unseen=True, short=True, k=100)


def _shown(row: MailRow) -> ShownMail:
    sender = row.sender if "/" in row.sender else f"{row.run}/{row.sender}"
    if row.kind not in ("message", "answer"):
        return ShownMail(row, sender, "", row.text, "", True)
    parts = parse_message(row.text, "child", max_ttl_us=MAX_TTL_US).parts
    output = parts.get("output")
    if output is None:
        return ShownMail(row, sender, "", row.text, "", True)
    return ShownMail(row, sender, parts.get("task_status", ""), output.summary, output.next or "", False)


def message_groups(agents: list[AgentRow]) -> list[Target]:
    """Return the groups of agents that a message can go to, each with its size."""
    if not agents:
        return []
    groups = [Target(EVERYONE, f"Everyone ({len(agents)})")]
    leads = [agent for agent in agents if agent.parent is None]
    groups.append(Target(LEADS, f"Leads ({len(leads)})"))
    for role in ROLES:
        count = sum(agent.role == role for agent in agents)
        if count:
            groups.append(Target(f"{ROLE_PREFIX}{role}", f"Every {role} ({count})"))
    return groups


def send_message(session: PageSession, form: Mapping[str, str]) -> str:
    """Send a message to one agent, or to each of a group, and tell to whom it went."""
    receivers = _receivers(session, form["to"])
    for receiver in receivers:
        session.call("send_message", to=receiver, text=form["text"])
    if len(receivers) == 1:
        return f"Sent to {receivers[0].rpartition('/')[2]}, who reads it at the next boundary of its work."
    return f"Sent to {len(receivers)} agents."


def _receivers(session: PageSession, target: str) -> list[str]:
    """Return the full names of the agents that a target stands for."""
    if "/" in target:  # a reply names its receiver in full
        return [target]
    answer = session.call("list_agents")
    if target == EVERYONE:
        chosen = answer.agents
    elif target == LEADS:
        chosen = [agent for agent in answer.agents if agent.parent is None]
    elif target.startswith(ROLE_PREFIX):
        chosen = [agent for agent in answer.agents if agent.role == target.removeprefix(ROLE_PREFIX)]
    else:
        return [f"{answer.run_id}/{target}"]
    if not chosen:
        raise FieldValue("There is no such agent in this run.", field="to", used=target[:96])
    return [f"{answer.run_id}/{agent.agent_id}" for agent in chosen]
