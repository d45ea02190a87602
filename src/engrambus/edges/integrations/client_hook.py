"""Answers the hooks of every client, JSON in, JSON on stdout; tool calls are answered by `tool_call_hook`.

A client starts it for each event and waits for it, so it imports only what the answer needs. If it fails, a stop is
allowed and a spawn is denied: an agent that may not stop would only keep working.
"""

from __future__ import annotations

import os
import signal
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from engrambus.core import estimate_tokens
from engrambus.edges.integrations.hook_events import HookEvent, asks_to_spawn, read_event
from engrambus.edges.sdk.bus import Bus, Transport
from engrambus.edges.sdk.logins import with_login
from engrambus.errors import (
    BudgetTooSmall,
    EngramBusError,
    JournalForeign,
    NotFound,
    PathReserved,
    ProjectNotFound,
    Refusal,
    RoleForbidden,
    TokenMissing,
)
from engrambus.gateway import Credential, Gateway
from engrambus.policy import is_persons_token
from engrambus.settings import Settings
from engrambus.visible_text import make_json_visible, make_visible

if TYPE_CHECKING:
    from engrambus.operations.inbox import InboxAnswer
    from engrambus.operations.recall import Occasion
    from engrambus.operations.reservations import ReservedPath
    from engrambus.operations.tokens import AgentAnswer

MAX_CONTEXT_CHARS = 10_000
"""Size of the context that Claude Code takes."""
MAX_CONTEXT_TOKENS = 2_500
"""Size of the context that Codex takes."""
BRIEF_TOKENS = 2_000
MAX_ANSWER_CHARS = 65_536
"""Only this much of an answer is checked; a longer one exceeds every budget."""
MAX_WAITING_TOKENS = 300
"""Size of the lines about mail that waits."""
MAX_RECALL_TOKENS = 300
"""Size of the lines about engrams that fit."""
MAX_ADDED_TOKENS = 600
"""Size of what a hook adds, without the brief at the start of a session or a sub-agent."""
MAX_RECALL_CHARS = 20_000
"""Only this much of a prompt is compared with the engrams."""
MAX_RESERVED_LINES = 3
MAX_REASON_CHARS = 120
LEAST_RECALL_TOKENS = 40
MAX_POINTERS = 3
TIME_LIMIT_SECONDS = 4.0
"""Includes waiting for a gateway and for the store's lock; clients kill a hook after five seconds (decision 31)."""

FOREIGN_NOTICE = (
    "Engram Bus: this project's journal was not written on this machine, so nothing of it is used. "
    "What to do about it: run engrambus doctor in a terminal."
)
"""Shown to the person once a session; the model gets nothing of a foreign journal, not even a word about it."""

_MESSAGE_SECTIONS = ("ENGRAMS", "POINTER_PACK", "DEREF_REQUESTS", "OUTPUT")


class TimeLimitPassed(BaseException):
    """The time limit passed. A BaseException, so that no `except Exception` swallows it."""


def answer_client(data: bytes, time_limit_seconds: float = TIME_LIMIT_SECONDS) -> int:
    """Print the answer to an event; return 1, which no client takes for a decision, if it cannot be parsed."""
    # decision 31: an alarm also ends waits that have no timeout of their own, such as the store's lock.
    signal.signal(signal.SIGALRM, _raise_time_limit)
    signal.setitimer(signal.ITIMER_REAL, max(time_limit_seconds, 0.001))
    status, output = answer_data(data, Settings.from_environment(), Path.cwd())
    sys.stdout.buffer.write(output)
    sys.stdout.flush()
    return status


def answer_too_late(data: bytes) -> int:
    """Print the answer to an event that a gateway did not answer in time: a stop is allowed, a spawn denied."""
    problem = TimeLimitPassed()
    _report(problem)
    answer = _deny_after_failure(problem) if asks_to_spawn(data) else {}
    sys.stdout.buffer.write(_encode(answer))
    sys.stdout.flush()
    return 0


def answer_data(
    data: bytes, settings: Settings, current_folder: Path, transport: Transport | None = None
) -> tuple[int, bytes]:
    """Return the exit status and the output for an event, answered by an open gateway if one is passed."""
    try:
        event = read_event(data, current_folder)
        answer = answer_event(event, settings, current_folder, transport) if event else {}
    except (EngramBusError, OSError) as problem:
        _report(problem)
        # Clients go on when a hook fails; for a spawn that would let the team grow without limit.
        if not asks_to_spawn(data):
            return 1, b""
        answer = _deny_after_failure(problem)
    return 0, _encode(answer)


def _encode(answer: dict[str, Any]) -> bytes:
    return make_json_visible(msgspec.json.encode(answer)) + b"\n"  # decision 72


def _raise_time_limit(number: int, frame: object) -> None:
    raise TimeLimitPassed


def answer_event(
    event: HookEvent, settings: Settings, current_folder: Path, transport: Transport | None = None
) -> dict[str, Any]:
    """Return the client's answer. Never raises: failures are reported on stderr."""
    if event.kind in ("stop", "child_returned", "session_end") and not event.sets_caller:
        return {}  # the turns and reservations of the server's own lead end by themselves
    if event.kind == "edit" and not event.paths:
        return {}
    try:
        if transport is None:
            settings = with_login(settings, event.folder or current_folder)
        if transport is not None:
            return _ANSWERS[event.kind](_Session(event, transport, settings), event)
        with closing(_open_transport(event.folder or current_folder, settings)) as opened:
            return _ANSWERS[event.kind](_Session(event, opened, settings), event)
    except ProjectNotFound:
        return {}  # hooks installed for the whole account also run in folders without a project
    except (Exception, TimeLimitPassed) as problem:
        _report(problem)
        if isinstance(problem, JournalForeign) and event.kind == "session_start":
            return {"systemMessage": FOREIGN_NOTICE}
        return _deny_after_failure(problem) if event.kind == "spawn" else {}


def _open_transport(folder: Path, settings: Settings) -> Transport:
    if settings.url is not None:
        from engrambus.edges.sdk.logins import open_server

        if settings.token is None:
            raise TokenMissing("ENGRAMBUS_URL is set and ENGRAMBUS_TOKEN is not.")
        # No commits are pushed: that could take longer than a hook may.
        return open_server(settings, None, timeout_seconds=TIME_LIMIT_SECONDS)
    from engrambus.app import open_project

    return open_project(folder, settings)


class _Session:
    """The agents of a client's session: its lead and the lead's sub-agents (decision 18).

    With ENGRAMBUS_TOKEN the token's agent is the lead, in the token's run. Otherwise the session has a run of its own.
    """

    def __init__(self, event: HookEvent, transport: Transport, settings: Settings) -> None:
        self._event = event
        self._transport = transport
        self.lead: str | None = None
        """Name of the session's lead; None if the lead is the token's agent."""
        from engrambus.evidence.pointers import find_worktree

        worktree = find_worktree(event.folder) if event.folder is not None else None
        self._run = ""
        """The run of the lead with a slash, where names without it might mean agents of other runs."""
        if settings.token is not None and is_persons_token(settings.token):
            person = Bus(transport, Credential(token=settings.token), owns_transport=False, on_warning=_report)
            lead = self._add_lead(person, event)
            self.bus = Bus(
                transport, Credential(token=settings.token), owns_transport=False, worktree=worktree, on_warning=_report
            )
            self._run, self.lead = f"{lead.run_id}/", lead.agent_id
            return
        if settings.token is not None:
            self.bus = Bus(
                transport, Credential(token=settings.token), owns_transport=False, worktree=worktree, on_warning=_report
            )
            return
        admin = Bus(transport, Credential(local_admin=True, run=settings.run), owns_transport=False, on_warning=_report)
        lead = self._add_lead(admin, event)
        credential = Credential(local_admin=True, run=lead.run_id)
        self.bus = Bus(transport, credential, owns_transport=False, worktree=worktree, on_warning=_report)
        self.lead = lead.agent_id

    @staticmethod
    def _add_lead(opener: Bus, event: HookEvent) -> AgentAnswer:
        """Return the lead of the client's session, added with its first event."""
        folder = (event.folder or Path()).name or "a client"
        return opener.add_lead(f"Session in {make_visible(folder)}"[:200], session=event.session)

    def full_name(self, name: str) -> str:
        """Return a name of the session's run as the caller must write it."""
        return f"{self._run}{name}"

    def may_have_tasks(self) -> bool:
        """False if nothing was ever put in the project: then a hook need not load what handles work (decision 44)."""
        return not isinstance(self._transport, Gateway) or self._transport.tuple_space.has_journal()

    @property
    def lead_bus(self) -> Bus:
        """A bus that acts as the lead."""
        return self.bus_of(self.lead)

    def bus_of(self, name: str | None) -> Bus:
        """Return a bus that acts as an agent; as the token's agent if `name` is None."""
        return self.bus.speak_as(self.full_name(name)) if name else self.bus

    def add_child(self) -> str:
        """Add the event's sub-agent to the run if it is new, and return its name."""
        client_id, role = self._event.child, self._event.role
        parent = self.full_name(self.lead) if self.lead is not None else None
        try:
            return self.bus.add_agent(role=role, parent=parent, client_id=client_id).agent_id  # type: ignore[arg-type]  # an event's role is valid
        except RoleForbidden:  # a sub-agent called like a role that its lead may not give
            return self.bus.add_agent(parent=parent, client_id=client_id).agent_id


def _on_session_start(session: _Session, event: HookEvent) -> dict[str, Any]:
    # A name is told only where the hook sets `as`: elsewhere calls are those of the server's own lead.
    if event.is_new_context:
        _recall(session.lead_bus, "prompt", [], forget=True)
    if not event.sets_caller:
        return _brief_context(event, session.lead_bus, None, [])
    return _brief_context(event, session.lead_bus, session.lead, _waiting_lines(session.lead_bus))


def _on_subagent_start(session: _Session, event: HookEvent) -> dict[str, Any]:
    name = session.add_child()
    bus = session.bus_of(name)
    budget = bus.team_budget().inline
    rules = [
        f"Your final answer may have {budget.max_inline_tokens} tokens; a larger one is sent back to you once. Code in "
        "it is stored and read through a pointer.",
        "What you learn is kept for the others with less_put_engram and a pointer to the lines that show it.",
        "Sentences of your answer that cite lines (src/a.py:10), or that begin with Learned:, Decision:, Risk:, "
        "Constraint: or TODO:, are kept until your parent confirms them.",
    ]
    waiting = _waiting_lines(bus)
    return _brief_context(
        event, bus, name, [*rules, *waiting], lambda: _recall(bus, "subagent", waiting, task=event.task)
    )


def _brief_context(
    event: HookEvent, bus: Bus, name: str | None, rules: list[str], recalled: Callable[[], list[str]] = list
) -> dict[str, Any]:
    """Return the agent's name and brief as context, as statements: clients distrust commands in a context."""
    brief = bus.brief(max_tokens=BRIEF_TOKENS)
    fitting = recalled()
    # What the brief says anyway is not said again next to it.
    new = [line for line in fitting[1:] if not any(_claim(line) in brief_line for brief_line in brief.lines)]
    rules = [*rules, *([fitting[0], *new] if new else [])]
    name_line = [f"Your name there is {name}; your calls of the engrambus tools are made in it."] if name else []
    head = [
        f"This project shares its memory on Engram Bus; your role there is {brief.role}.",
        *name_line,
        *rules,
        f"Shared Brief v{brief.version}, as the team wrote it:",
    ]
    return _context(event, [*head, *brief.lines])


def _claim(line: str) -> str:
    """Return the beginning of the claim in a recalled line, which a line of the brief may hold too."""
    return line.partition(": ")[2].rpartition(" (")[0].rstrip("…")[:100]


def _context(event: HookEvent, lines: list[str]) -> dict[str, Any]:
    text = "\n".join(lines)[:MAX_CONTEXT_CHARS]
    end = bisect_right(range(1, len(text) + 1), MAX_CONTEXT_TOKENS, key=lambda length: estimate_tokens(text[:length]))
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text[:end]}}


def _waiting_lines(bus: Bus, *, with_claims: bool = False) -> list[str]:
    """Return the mail that its receiver was not shown yet, one line for each, in at most 300 tokens; then it is shown.

    decision 60: it is recorded as shown before the client gets the answer. If the client drops that, `less_inbox` still
    lists the mail. With `with_claims`, a line says how many claims the receiver may confirm.
    """
    head = "Mail that waits for you on Engram Bus; less_inbox shows the whole of one by its id:"
    rest = "+{} more in less_inbox."
    try:
        inbox = bus.inbox(unseen=True, short=True, max_tokens=MAX_WAITING_TOKENS - estimate_tokens(head + rest))
    except BudgetTooSmall:  # a line of an expensive script; it stays unseen
        return [f"{bus.inbox(k=1, short=True).waiting} pieces of mail wait for you on Engram Bus, in less_inbox."]
    claims = _claims_line(inbox) if with_claims and inbox.claims_waiting else []
    if not inbox.lines:
        return claims
    more = [rest.format(inbox.waiting)] if inbox.waiting else []
    return [head, *(f"- {line}" for line in inbox.lines), *more, *claims]


def _recall(bus: Bus, occasion: Occasion, other_lines: list[str], **more: Any) -> list[str]:
    """Return the lines of the engrams that fit, which then count as shown; none if that fails.

    Together with `other_lines` they stay within what a hook may add.
    """
    tokens_left = MAX_ADDED_TOKENS - estimate_tokens("\n".join([*other_lines, ""])) - 1
    if tokens_left < LEAST_RECALL_TOKENS:
        return []
    try:
        answer = bus.recall(occasion=occasion, max_tokens=min(MAX_RECALL_TOKENS, tokens_left), record=True, **more)
    except (EngramBusError, OSError) as problem:  # the rest of the hook's answer matters more
        _report(problem)
        return []
    return answer.lines


def _claims_line(inbox: InboxAnswer) -> list[str]:
    """Return the line about claims in answers of sub-agents that await confirmation."""
    agents = ", ".join(dict.fromkeys(row.agent for row in inbox.claims)) or "sub-agents"
    claims = f"{inbox.claims_waiting} claim{'s' * (inbox.claims_waiting != 1)} in answers of {agents}"
    verb = "await" if inbox.claims_waiting != 1 else "awaits"
    return [f"{claims} {verb} confirmation on Engram Bus; less_inbox lists what waits, its action confirm takes an id."]


def _waiting_context(event: HookEvent, bus: Bus, *, with_claims: bool = False) -> dict[str, Any]:
    lines = _waiting_lines(bus, with_claims=with_claims)
    return _context(event, lines) if lines else {}


def _on_prompt(session: _Session, event: HookEvent) -> dict[str, Any]:
    # Codex also reports the prompts that sub-agents get.
    name = session.add_child() if event.child else session.lead
    bus = session.bus_of(name)
    waiting: list[str] = []
    if event.sets_caller:  # elsewhere the turns of the server's own lead end by themselves
        _close_turn(session, name, "prompt")
        waiting = _waiting_lines(bus)
    # UserPromptSubmit (Claude Code, Codex) and BeforeAgent (Gemini) add the answer's text to the prompt.
    lines = [*waiting, *_recall(bus, "prompt", waiting, text=event.text[:MAX_RECALL_CHARS])]
    return _context(event, lines) if lines else {}


def _on_edit(session: _Session, event: HookEvent) -> dict[str, Any]:
    bus = session.bus_of(session.add_child() if event.child else session.lead)
    try:
        reserved = bus.check_reservations(list(dict.fromkeys(map(_without_lines, event.paths)))).reserved
    except PathReserved as refusal:
        return _deny_tool(event, f"{refusal.detail} {refusal.hint or ''}".strip())
    except (EngramBusError, OSError) as problem:  # such as a name that no reservation can have
        _report(problem)
        reserved = []
    if event.name == "BeforeTool":  # Gemini refuses a tool for a hook, and adds no context before one
        return {}
    warnings = [_reserved_line(row) for row in reserved[:MAX_RESERVED_LINES]]
    lines = [*warnings, *_recall(bus, "edit", warnings, paths=event.paths)]
    return _context(event, lines) if lines else {}


def _without_lines(path: str) -> str:
    name, colon, lines = path.rpartition(":")
    return name if colon and lines.replace("-", "").isdigit() else path


def _reserved_line(row: ReservedPath) -> str:
    """Return a warning about a file that another agent is working on, in under 100 tokens."""
    reason = f": {row.reason[:MAX_REASON_CHARS]}" if row.reason else ""
    return f"{row.path[:MAX_REASON_CHARS]} is reserved by {row.agent} until {row.expires_at[:16]}Z{reason}."


def _deny_tool(event: HookEvent, reason: str) -> dict[str, Any]:
    """Refuse a tool call, as the client takes it."""
    return {"decision": "deny", "reason": reason} if event.name == "BeforeTool" else _deny(reason)


def _on_child_returned(session: _Session, event: HookEvent) -> dict[str, Any]:
    bus = session.bus_of(session.add_child() if event.child else session.lead)
    return _waiting_context(event, bus, with_claims=True)


def _on_stop(session: _Session, event: HookEvent) -> dict[str, Any]:
    _close_turn(session, session.lead, "stop")
    return {}


def _on_subagent_stop(session: _Session, event: HookEvent) -> dict[str, Any]:
    name = session.add_child()
    child = session.bus_of(name)
    try:
        # The client hands the parent all of the text, so all of it counts and nothing announces it again.
        taken = child.take_answer(event.text[:MAX_ANSWER_CHARS], handed_over=True, sent_back=event.is_retry)
    except EngramBusError as refusal:
        if not _is_fixable(refusal):
            raise
        # Blocked once only: a client overrides repeated blocks, and each costs another turn.
        if not event.is_retry:
            return {"decision": "block", "reason": _block_reason(refusal)}
        _close_turn(session, name, "subagent_stop")
        _release(session, child)
        return {}
    _release(session, child)
    lines = [_stored_code(name, taken.pointers)] if taken.pointers else []
    lines += [_kept_claims(name, len(taken.unconfirmed))] if taken.unconfirmed else []
    return {"systemMessage": "\n".join(lines)} if lines else {}


def _on_session_end(session: _Session, event: HookEvent) -> dict[str, Any]:
    _release(session, session.lead_bus)
    return {}


def _release(session: _Session, bus: Bus) -> None:
    """Release what an agent and its descendants have reserved and claimed, now that it ends."""
    # decisions 79 and 113: if this is not reached, it ends with their process, or when nobody renews it
    bus.release_reservations(all=True)
    if session.may_have_tasks():
        bus.release_tasks(all=True)


def _stored_code(name: str, pointers: list[str]) -> str:
    """Return the line that says where the code of an answer can be read, in under 300 tokens."""
    shown = ", ".join(pointers[:MAX_POINTERS])
    more = f" and {len(pointers) - MAX_POINTERS} more" if len(pointers) > MAX_POINTERS else ""
    return f"Engram Bus: the code in the answer of {name} is at {shown}{more} for the others to read."


def _kept_claims(name: str, count: int) -> str:
    """Return the line that says how a person confirms what an answer claims."""
    claims = f"{count} claim{'s' * (count != 1)} in the answer of {name} await{'s' * (count == 1)} confirmation"
    return f"Engram Bus: {claims}: engrambus feed --unconfirmed, engrambus confirm --from {name}."


def _is_fixable(refusal: EngramBusError) -> bool:
    """True if a different answer could be accepted."""
    is_about_the_text = (refusal.field or "").startswith(_MESSAGE_SECTIONS)
    return isinstance(refusal, Refusal) or (isinstance(refusal, NotFound) and is_about_the_text)


def _block_reason(refusal: EngramBusError) -> str:
    """Return the instruction for the sub-agent: the error, its field, and a message that would be accepted."""
    field = f" ({refusal.field})" if refusal.field else ""
    lines = [f"{refusal.code}: {refusal.detail}{field}", refusal.hint or ""]
    resend = getattr(refusal, "resend", None)
    if resend:
        lines += ["An answer in this form is accepted, once each ... is filled in:", resend]
    return "\n".join(line for line in lines if line)


def _on_spawn(session: _Session, event: HookEvent) -> dict[str, Any]:
    budget = session.bus.team_budget()
    if budget.left > 0:
        # The sub-agent's own hook is not told its task: what fits it is found now, and shown when it starts.
        if event.text and event.task:
            _recall(session.lead_bus, "task", [], text=event.text[:MAX_RECALL_CHARS], task=event.task)
        return {}
    return _deny(
        f"The team's budget is used up: its {budget.agents} agents have read {budget.used} of {budget.limit} tokens of "
        "content in this run, and none of them can read more. `engrambus run new GOAL` opens another run; "
        "`deref: {team_turns: N}` in the policy allows more.",
    )


def _deny(reason: str) -> dict[str, Any]:
    decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}


def _deny_after_failure(problem: BaseException) -> dict[str, Any]:
    return _deny(
        f"Engram Bus could not check the team's budget ({_name(problem)}). `engrambus doctor` shows what is wrong."
    )


def _close_turn(session: _Session, name: str | None, reason: str) -> None:
    """Close an agent's turn. The turn of a token's agent closes with its messages: it is no descendant of itself."""
    if name is not None:
        session.bus.close_turn(session.full_name(name), why=reason)  # type: ignore[arg-type]  # a valid boundary


_problems: ContextVar[list[str] | None] = ContextVar("problems", default=None)


@contextmanager
def collect_problems() -> Iterator[list[str]]:
    """Collect the lines for stderr instead of printing them: the hook that asked is another process."""
    collected: list[str] = []
    reset_token = _problems.set(collected)
    try:
        yield collected
    finally:
        _problems.reset(reset_token)


def _report(problem: BaseException) -> None:
    """Print one line for a person; never anything an agent wrote."""
    text = f"{_name(problem)}: {problem.title}" if isinstance(problem, EngramBusError) else _name(problem)
    field = f" ({problem.field})" if isinstance(problem, EngramBusError) and problem.field else ""
    line, collected = f"engrambus hook: {text}{field}\n", _problems.get()
    if collected is None:
        os.write(2, line.encode())
    else:
        collected.append(line)


def _name(problem: BaseException) -> str:
    if isinstance(problem, TimeLimitPassed):
        return f"no answer within {TIME_LIMIT_SECONDS:g} seconds"
    return problem.code if isinstance(problem, EngramBusError) else type(problem).__name__


_ANSWERS = {
    "session_start": _on_session_start,
    "session_end": _on_session_end,
    "prompt": _on_prompt,
    "stop": _on_stop,
    "subagent_start": _on_subagent_start,
    "subagent_stop": _on_subagent_stop,
    "spawn": _on_spawn,
    "child_returned": _on_child_returned,
    "edit": _on_edit,
}
