"""`engrambus hook`: one executable for the hooks of every client, JSON in, JSON out.

It is started for each event and waited for, so it loads nothing that an answer does not need. When it cannot do its
work, a stop is let through and a spawn is not: an agent held back from stopping only works on, blindly.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from engrambus.core import BYTES_PER_TOKEN
from engrambus.edges.integrations.events import Event, asks_to_spawn, read_event
from engrambus.edges.sdk.bus import Bus, Transport
from engrambus.errors import AgentExists, EngramBusError, NotFound, ProjectNotFound, Refusal, TokenMissing
from engrambus.gateway import Credential
from engrambus.settings import Settings

MAX_CONTEXT = 10_000
"""What a client takes as context: 10,000 characters in one, 2,500 tokens in the other."""
BRIEF_TOKENS = 2_000
MAX_ANSWER = 65_536
"""As much of an answer as is judged; one that long is over every budget."""
MAX_REQUESTS = 10
PATIENCE = 4.0
"""Seconds for all of it, a gateway and the store's lock included; clients give a hook five, then go on without it."""

_SECTIONS = ("ENGRAMS", "POINTER_PACK", "DEREF_REQUESTS", "OUTPUT")


class TooLate(BaseException):
    """Nobody waits any longer; no part of an exception that something on the way could take for its own."""


def main() -> int:
    """Answer what stands on stdin; exit 1, which no client takes for a verdict, when it cannot be read."""
    data = sys.stdin.buffer.read()
    signal.signal(signal.SIGALRM, _hurry)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        event = read_event(data)
        said = answer(event, Settings.from_environment(), Path.cwd()) if event else {}
    except (EngramBusError, OSError) as problem:
        _complain(problem)
        if not asks_to_spawn(data):
            return 1
        said = _cannot_tell(problem)
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.flush()
    return 0


def _hurry(number: int, frame: object) -> None:
    raise TooLate


def answer(event: Event, settings: Settings, here: Path) -> dict[str, Any]:
    """What to tell the client; never raises, and says on stderr what kept it from its work."""
    try:
        with closing(_way(event.folder or here, settings)) as way:
            return _ANSWERS[event.kind](_Team(event, way, settings), event)
    except ProjectNotFound:
        return {}  # hooks of the whole account also run where there is no team
    except (Exception, TooLate) as problem:
        _complain(problem)
        return _cannot_tell(problem) if event.kind == "spawn" else {}


def _way(folder: Path, settings: Settings) -> Transport:
    if settings.url is not None:
        from engrambus.edges.sdk.http_transport import HttpTransport

        if settings.token is None:
            raise TokenMissing("ENGRAMBUS_URL is set and ENGRAMBUS_TOKEN is not.")
        return HttpTransport(settings.url, timeout_seconds=PATIENCE)
    from engrambus.app import open_project

    return open_project(folder, settings)


class _Team:
    """The agents of a client's session: its own at the head, its sub-agents below it.

    With a token its bearer is at the head, in the run the token names. Without one the session has a run of its own.
    """

    def __init__(self, event: Event, way: Transport, settings: Settings) -> None:
        self._event = event
        self.head: str | None = None
        """The name of the session's own agent; none for the bearer of a token."""
        if settings.token is not None:
            self.bus = Bus(way, Credential(token=settings.token), owns_transport=False)
            self._enter()
            return
        run = settings.run
        if run is None:
            where = (event.folder or Path()).name or "a client"
            admin = Bus(way, Credential(local_admin=True), owns_transport=False)
            run = admin.open_run(f"Session in {where}"[:200], session=event.session).run_id
        self.bus = Bus(way, Credential(local_admin=True, run=run), owns_transport=False)
        self._enter()
        self.head = event.main
        self._join(event.main, "architect", None)

    @property
    def of_head(self) -> Bus:
        """The bus, in the name of the session's own agent."""
        return self.bus.speak_as(self.head) if self.head else self.bus

    def child(self) -> str:
        """The name of the sub-agent the event is about, who is on the bus from now on."""
        name = self._event.child or ""
        self._join(name, self._event.role, self.head)
        return name

    def _enter(self) -> None:
        present = self.bus.list_agents()
        self.run = present.run_id
        self._present = {row.agent_id for row in present.agents}

    def _join(self, name: str, role: str, parent: str | None) -> None:
        if name in self._present:
            return
        with suppress(AgentExists):  # it came between our look and our word
            self.bus.add_agent(name, role=role, parent=parent)  # type: ignore[arg-type]  # an event's role is one


def _session_start(team: _Team, event: Event) -> dict[str, Any]:
    return _context(event, team.of_head, f"{team.run}/{team.head}" if team.head else None, [])


def _subagent_start(team: _Team, event: Event) -> dict[str, Any]:
    name = team.child()
    bus = team.bus.speak_as(name)
    budget = bus.team_budget().inline
    rules = [
        f"Your final answer is held to {budget.max_inline_tokens} tokens and {budget.max_inline_code_chars} characters "
        "of pasted code; a larger one comes back to you once.",
        "What you learn is kept for the others with less_put_engram and a pointer to the lines that show it.",
    ]
    return _context(event, bus, f"{team.run}/{name}", rules)


def _context(event: Event, bus: Bus, handle: str | None, rules: list[str]) -> dict[str, Any]:
    """The brief and the agent's handle as context, in statements: clients distrust orders that arrive this way."""
    brief = bus.brief(max_tokens=BRIEF_TOKENS)
    named = [f"Your handle is {handle}; the engrambus tools take it as `as`."] if handle else []
    head = [
        f"This project shares its memory on Engram Bus; your role there is {brief.role}.",
        *named,
        *rules,
        f"Shared Brief v{brief.version}, as the team wrote it:",
    ]
    return _told(event, [*head, *brief.lines])


def _told(event: Event, lines: list[str]) -> dict[str, Any]:
    text = "\n".join(lines).encode()[: min(MAX_CONTEXT, 2_500 * BYTES_PER_TOKEN)].decode(errors="ignore")
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}


def _prompt(team: _Team, event: Event) -> dict[str, Any]:
    if event.child:  # Codex reports what a sub-agent is asked, too
        _close(team, team.child(), "prompt")
        return {}
    _close(team, team.head, "prompt")
    waiting = team.of_head.list_requests().requests[:MAX_REQUESTS] if event.name == "UserPromptSubmit" else []
    if not waiting:
        return {}
    rows = [
        f"- {row.request_id}: {row.agent} asks for {row.ref} ({row.max_tokens} tokens): {row.reason}" for row in waiting
    ]
    return _told(event, ["Sub-agents wait on Engram Bus for an answer to these requests to read more:", *rows])


def _stop(team: _Team, event: Event) -> dict[str, Any]:
    _close(team, team.head, "stop")
    return {}


def _subagent_stop(team: _Team, event: Event) -> dict[str, Any]:
    name = team.child()
    try:
        team.bus.speak_as(name).take_answer(event.text[:MAX_ANSWER])
    except EngramBusError as refusal:
        if not _mendable(refusal):
            raise
        if not event.sent_back:
            return {"decision": "block", "reason": _reason(refusal)}
        _close(team, name, "subagent_stop")
    return {}


def _mendable(refusal: EngramBusError) -> bool:
    """Whether another answer would be taken."""
    about_the_text = (refusal.field or "").startswith(_SECTIONS)
    return isinstance(refusal, Refusal) or (isinstance(refusal, NotFound) and about_the_text)


def _reason(refusal: EngramBusError) -> str:
    """What its author is told: what is wrong, where, and what would be taken instead."""
    where = f" ({refusal.field})" if refusal.field else ""
    lines = [f"{refusal.code}: {refusal.detail}{where}", refusal.hint or ""]
    resend = getattr(refusal, "resend", None)
    if resend:
        lines += ["An answer in this form is taken, once what stands as ... is filled in:", resend]
    return "\n".join(line for line in lines if line)


def _spawn(team: _Team, event: Event) -> dict[str, Any]:
    budget = team.bus.team_budget()
    if budget.left > 0:
        return {}
    return _deny(
        f"The team's budget is gone: its {budget.agents} agents have read {budget.used} of {budget.limit} tokens of "
        "content in this run. The work can go on with the agents there are; `deref: {team_turns: N}` in the policy "
        "allows more.",
    )


def _deny(reason: str) -> dict[str, Any]:
    decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}


def _cannot_tell(problem: BaseException) -> dict[str, Any]:
    return _deny(f"Engram Bus cannot tell whether the team may grow ({_named(problem)}); `engrambus doctor` says why.")


def _close(team: _Team, name: str | None, why: str) -> None:
    """Close the turn of an agent; a bearer's own closes with its messages, since it cannot name itself a parent."""
    if name is not None:
        team.bus.close_turn(name, why=why)  # type: ignore[arg-type]  # one of its boundaries


def _complain(problem: BaseException) -> None:
    """One line for a person; never what an agent said."""
    told = f"{_named(problem)}: {problem.title}" if isinstance(problem, EngramBusError) else _named(problem)
    where = f" ({problem.field})" if isinstance(problem, EngramBusError) and problem.field else ""
    os.write(2, f"engrambus hook: {told}{where}\n".encode())


def _named(problem: BaseException) -> str:
    if isinstance(problem, TooLate):
        return f"no answer within {PATIENCE:g} seconds"
    return problem.code if isinstance(problem, EngramBusError) else type(problem).__name__


_ANSWERS = {
    "session_start": _session_start,
    "prompt": _prompt,
    "stop": _stop,
    "subagent_start": _subagent_start,
    "subagent_stop": _subagent_stop,
    "spawn": _spawn,
}
