"""A team on the bus: its agents' messages and reads, each printed and counted as it happens."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from engrambus import Accepted, Bus, DerefAnswer, EngramBusError, Hooks, Rejected, Role, Scope
from engrambus.core import estimate_tokens
from engrambus.edges.mcp.answers import compact_text
from engrambus.operations import OPERATIONS

from .commits import Commit, FileChange
from .functions import Function
from .output import Output

READ_TOKENS = 400
"""Most tokens of one read."""
TTL = "P1D"
SCOPE: Scope = "run"
_UNLIMITED = 10_000
"""No answer here is larger, so each is counted whole."""
_LINES = re.compile(r"repo:(.+?)(?:#L(\d+)-L(\d+))?@([0-9a-f]+)\Z")
_SPAN = re.compile(r"L(\d+)-L(\d+)\Z")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class Member(NamedTuple):
    """One agent: roles rank architect, director, manager, programmer."""

    name: str
    role: Role
    parent: str | None = None


class Lines(NamedTuple):
    """Lines of a file at a commit that an agent has read."""

    path: str
    commit: str
    numbers: frozenset[int]


class TokenCount:
    """Tokens of every text that an agent was sent or sent itself, by kind of traffic."""

    def __init__(self) -> None:
        self.moved: Counter[str] = Counter()
        self.readers: set[str] = set()
        """Agents that read lines: those that would have needed a copy."""

    def add(self, label: str, text: str, times: int = 1) -> int:
        """Count a text for each of its readers and return its tokens."""
        tokens = estimate_tokens(text)
        self.moved[label] += tokens * times
        return tokens

    @property
    def total(self) -> int:
        return sum(self.moved.values())


class Team:
    """Agents that work in one run; `bus` is an admin's."""

    def __init__(self, bus: Bus, members: Sequence[Member], output: Output) -> None:
        self.bus, self.output, self.count = bus, output, TokenCount()
        self._hooks = Hooks(bus)
        self._members: dict[str, Member] = {}
        self.read_lines: list[Lines] = []
        self.refusals: list[str] = []
        """Codes of what was refused, in order."""
        for member in members:
            self.add(member)

    def add(self, member: Member) -> None:
        """Add an agent to the run."""
        self.bus.add_agent(member.name, role=member.role, parent=member.parent)
        self._members[member.name] = member

    def speak_as(self, name: str) -> Bus:
        return self.bus.speak_as(name)

    def say(self, name: str, action: str, tokens: int | None = None, *, style: str = "") -> None:
        """Print what an agent does."""
        role = self._members[name].role if name else ""
        self.output.step(name, action, tokens, role=role, style=style)

    def tell(self, parent: str, sections: Mapping[str, Any], note: str) -> None:
        """Send a parent's message to all of its children; a pointer with `for` goes to that child only."""
        text = write_message(self._members[parent].role, sections)
        children = self.speak_as(parent).broadcast(text).to
        for child in children:
            self.count.add("parents → children", self.speak_as(child).inbox(k=100).mail[-1].text)
        self.say(parent, f"→ {', '.join(children)}: {note}", estimate_tokens(text))

    def report(self, child: str, sections: Mapping[str, Any]) -> str | None:
        """Send a child's report to its parent; return what to send instead if it is refused, None if not."""
        return self.send(child, write_message(self._members[child].role, {"TASK_STATUS": "done", **sections}))

    def send(self, child: str, text: str) -> str | None:
        """Send a child's text to its parent; return what to send instead if it is refused, None if not."""
        match self._hooks.on_child_response(child, text):
            case Accepted(engrams=engrams, resends=resends, to=to):
                tokens = self.count.add("children → parents", text)
                suffix = ", in place of the refused message" if resends else ""
                claims = f"{len(engrams)} claim{'s' * (len(engrams) != 1)}"
                self.say(child, f"→ {to}: accepted, {claims}{suffix}", tokens, style="green")
                return None
            case Rejected(reason=reason, resend=resend):
                tokens = self.count.add("refused", text + reason + resend)
                self.refusals.append("BUDGET_EXCEEDED")
                self.say(child, f"refused: BUDGET_EXCEEDED. {reason}", tokens, style="red")
                return resend
            case refused:
                self.count.add("refused", text)
                self.refused(child, refused.problem)
                return ""

    def refused(self, name: str, problem: EngramBusError) -> None:
        """Print and remember a refusal."""
        self.refusals.append(problem.code)
        self.say(name, f"refused: {problem.code}. {problem.detail}", style="red")

    def read(self, name: str, pointer: str, place: str) -> DerefAnswer | None:
        """Read lines in an agent's name; None if its turn does not allow it."""
        try:
            answer = self.speak_as(name).deref_pointer(pointer, max_tokens=READ_TOKENS)
        except EngramBusError as problem:
            self.refused(name, problem)
            return None
        self.count.readers.add(name)
        self.read_lines += _lines_of(answer)
        cut = ", cut to fit" if answer.truncated else ""
        self.say(name, f"reads {place}{cut}", self.add_answer("reads", "deref_pointer", answer))
        return answer

    def read_with_grant(self, name: str, pointer: str, place: str, reason: str) -> DerefAnswer | None:
        """Read lines; if the turn's budget is used up, ask the parent, who grants this read once."""
        answer = self.read(name, pointer, place)
        parent = self._members[name].parent
        if answer is not None or parent is None or self.refusals[-1] != "DEREF_DENIED":
            return answer
        self.speak_as(name).request_deref(pointer, reason=reason, max_tokens=READ_TOKENS)
        self.say(name, f"asks {parent}: {reason}", self.count.add("children → parents", reason + pointer))
        for request in self.speak_as(parent).list_requests().requests:
            self.speak_as(parent).approve_request(request.request_id, cap_tokens=READ_TOKENS)
            self.say(parent, f"grants {request.agent} {READ_TOKENS} tokens there, once", style="green")
        return self.read(name, pointer, place)

    def add_answer(self, label: str, operation: str, answer: msgspec.Struct) -> int:
        """Count an answer as an agent reads it over MCP, and return its tokens."""
        return self.count.add(label, compact_text(OPERATIONS[operation], answer, _UNLIMITED))

    def reached(self, commit: Commit, functions: Iterable[Function]) -> list[Function]:
        """Return the functions of which an agent has read a line that the commit changed."""
        return [function for function in functions if self._has_read(commit, function)]

    def _has_read(self, commit: Commit, function: Function) -> bool:
        wanted = changed_lines(commit, function)
        return any(
            lines.path == function.path and lines.commit == commit.sha and lines.numbers & wanted
            for lines in self.read_lines
        )


def changed_lines(commit: Commit, function: Function) -> set[int]:
    """Return the lines of a function that a commit changed; of a deletion the lines around it."""
    change = next((change for change in commit.files if change.path == function.path), FileChange("", "", ()))
    lines: set[int] = set()
    for hunk in change.hunks:
        lines |= set(range(min(hunk.first, hunk.last), max(hunk.first, hunk.last) + 1))
    return lines & set(range(function.first, function.last + 1))


def write_message(role: str, sections: Mapping[str, Any]) -> str:
    """Return a message as YAML, one item a line."""
    lines = [f"ROLE: {role}"]
    for name, content in sections.items():
        if isinstance(content, list):
            lines.append(f"{name}:")
            for item in content:
                lines += _item(item)
        else:
            lines.append(f"{name}: {content if name == 'TASK_STATUS' else _text(content)}")
    return "\n".join(lines) + "\n"


def claim(kind: str, text: str, *pointers: str) -> dict[str, Any]:
    """Return an engram of a message: it lives a day, in the run."""
    return {"kind": kind, "claim": text, "pointers": list(pointers), "scope": SCOPE, "ttl": TTL}


def _item(item: Any) -> list[str]:
    if not isinstance(item, dict):
        return [f"  - {_text(item)}"]
    pairs = [f"{name}: {_text(value)}" for name, value in item.items()]
    return [f"  - {pairs[0]}", *(f"    {pair}" for pair in pairs[1:])]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _lines_of(answer: DerefAnswer) -> list[Lines]:
    """Return the lines of the new file that an excerpt shows, of a patch too."""
    ref = answer.pointer.ref
    if match := _LINES.match(ref):
        first, last = (int(match[2]), int(match[3])) if match[2] else (1, len(answer.excerpt.splitlines()))
        if answer.truncated:
            shown = _SPAN.match(answer.excerpt_span or "")
            last = int(shown[2]) if shown else first + len(answer.excerpt.splitlines()) - 1
        return [Lines(match[1], match[4], frozenset(range(first, last + 1)))]
    if not ref.startswith("diff:"):
        return []
    path, _, commits = ref.removeprefix("diff:").rpartition("@")
    numbers: set[int] = set()
    number = 0
    for line in answer.excerpt.splitlines():
        if head := _HUNK.match(line):
            number = int(head[1])
        elif number and line.startswith(("+", "-")):
            numbers.add(number)
            number += line.startswith("+")
        elif number:
            number += 1
    return [Lines(path, commits.partition("..")[2], frozenset(numbers))]
