"""One attempt to exceed each limit: what the policy allows, what is done before, and the call that is too much."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from engrambus.policy.limits import LimitName

INTERFACES = ("HTTP", "stdio MCP", "/mcp", "CLI", "SDK")

SUMMARY = "ROLE: {role}\nTASK_STATUS: done\nOUTPUT:\n  summary: {text}\n"
LONG = "It went on and said very little of use to its readers. " * 80
LINES = "repo:src/parser.py#L1-L2@{sha}"
FOUND = {"kind": "fact", "confidence": 0.9, "ttl": "P7D", "scope": "run", "pointers": [{"type": "repo", "ref": LINES}]}
TWO_ENGRAMS = json.dumps(
    {
        "ROLE": "programmer",
        "TASK_STATUS": "done",
        "ENGRAMS": [{"claim": claim, **FOUND} for claim in ("The parser trusts its input.", "The lexer is small.")],
        "OUTPUT": {"summary": "Two things were found."},
    }
)
BROADCAST = "ROLE: manager\nSHARED_BRIEF_MICRO:\n- The first line.\n- The second line.\n"
READS = {"repo": 100, "tokens": 300}
"""Tokens for a few reads of two lines."""


class Step(NamedTuple):
    """One call."""

    agent: str
    operation: str
    fields: dict[str, Any]
    """`{sha}` stands for the commit of the project."""


class Attempt(NamedTuple):
    """How a limit is exceeded."""

    policy: dict[str, Any]
    """Amounts that are quickly used up."""
    last: Step
    """The call that exceeds the limit."""
    code: str
    """The code that its caller gets."""
    before: tuple[Step, ...] = ()
    interfaces: tuple[str, ...] = INTERFACES
    is_refused: bool = True
    """False if an enforced limit changes what is done instead of refusing it."""


def put(claim: str, **fields: Any) -> Step:
    """A put of the programmer."""
    return Step("paul", "put_engram", {"claim": claim, "at": ["src/parser.py:1-2"], **fields})


def report(text: str, role: str = "programmer") -> Step:
    """A message of the programmer."""
    return Step("paul", "send_message", {"text": SUMMARY.format(role=role, text=text)})


def read(agent: str = "paul") -> Step:
    """A dereference of two lines."""
    return Step(agent, "deref_pointer", {"pointer": LINES})


ATTEMPTS: dict[LimitName, Attempt] = {
    "message_tokens": Attempt({}, report(LONG), "BUDGET_EXCEEDED"),
    "message_engrams": Attempt(
        {"inline": {"max_engrams": 1}},
        Step("paul", "send_message", {"text": TWO_ENGRAMS}),
        "BUDGET_EXCEEDED",
    ),
    "claim_chars": Attempt(
        {"inline": {"max_engram_chars": 10}},
        Step("paul", "send_message", {"text": TWO_ENGRAMS}),
        "BUDGET_EXCEEDED",
    ),
    "inline_code": Attempt(
        {}, put("def login(user, password): token = make_token(user); return token"), "BUDGET_EXCEEDED"
    ),
    "brief_lines": Attempt(
        {"inline": {"max_brief_lines": 1}},
        Step("mia", "broadcast", {"text": BROADCAST}),
        "BUDGET_EXCEEDED",
    ),
    "put_tokens": Attempt(
        {"put_tokens_per_turn": 5}, put("The parser trusts its input, as the design says."), "BUDGET_EXCEEDED"
    ),
    "put_rate": Attempt(
        {"engrams_per_minute": 1},
        put("The lexer is small."),
        "RATE_LIMITED",
        before=(put("The parser trusts its input."),),
    ),
    "added_agents": Attempt(
        {"agents_per_minute": 1},  # the manager has added the programmer
        Step("mia", "add_agent", {"role": "programmer"}),
        "TOO_MANY_AGENTS",
        interfaces=("HTTP", "CLI", "SDK"),
    ),
    "deref_count": Attempt({"deref": {"repo": 1}}, read(), "DEREF_DENIED", before=(read(),)),
    "deref_tokens": Attempt({"deref": READS}, read(), "DEREF_DENIED", before=(read(),) * 8),
    "run_tokens": Attempt(
        {"deref": {**READS, "run_turns": 1}},
        read(),
        "DEREF_DENIED",
        before=(*(read(),) * 8, report("The first part is done now.")),
    ),
    "team_tokens": Attempt({"deref": {**READS, "team_turns": 1}}, read(), "DEREF_DENIED", before=(read("mia"),) * 8),
    "promotion_floor": Attempt({}, put("The parser may be slow.", confidence=0.1), "SCOPE_LOWERED", is_refused=False),
    "reservations": Attempt(
        {"limits": {"reservations": "enforce"}},  # by default it warns
        Step("mia", "check_reservations", {"paths": ["src/parser.py"]}),
        "PATH_RESERVED",
        before=(Step("paul", "reserve", {"paths": ["src/*.py"]}),),
        interfaces=("HTTP", "CLI", "SDK"),
    ),
}
