"""Yools declared in `AGENTS.md`: under a heading 'Agents', one heading an agent, its fields as a list.

```
## Agents

### lint-agent
- yool_id: agent.lint.${stack}.v1
- authority: [user, ci]
- lane: build
- agent_terms:
    budget_usd: 0.05
    cpu_quota_pct: 30
- Role: enforces style
```

An agent without a `yool_id` declares nothing. Names and terms are declared here, never commands: how a yool is carried
out is said by code that an operator names. Examples in fences and comments are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from stigmergy.core import read_yaml
from stigmergy.errors import (
    AgentsFile,
    BodyRefusal,
    CommandDeclared,
    FieldMissing,
    StackUnknown,
    YoolName,
    YoolTwice,
)
from stigmergy.space.catalog.file import COMMANDS
from stigmergy.space.catalog.names import check_lane, check_not_reserved, is_segment, parse_name
from stigmergy.space.catalog.values import CatalogEntry, Terms, one_line, read_authority, read_terms

AGENTS = "AGENTS.md"
STACK = "${stack}"
MAX_BYTES = 1 << 20
MAX_AGENTS = 10_000
MAX_TITLE = 80

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_FIELD = re.compile(r"([ \t]*)[-*+][ \t]+([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?")
_TERM = re.compile(r"[ \t]*(?:[-*+][ \t]+)?([A-Za-z_]\w*)[ \t]*:(?:[ \t]+(.*))?")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """A yool, and where it was declared."""

    entry: CatalogEntry
    line: int


class AgentsRead(msgspec.Struct, frozen=True, kw_only=True):
    """What an agents file says."""

    declared: tuple[Declared, ...]
    agents: int
    """How many agents declare a yool."""
    skipped: tuple[str, ...]
    """Agents that have no `yool_id`."""


class _Said(NamedTuple):
    text: str
    line: int


class _Agent:
    """One agent's heading and what stands under it."""

    def __init__(self, title: str) -> None:
        self.title = title[:MAX_TITLE]
        self.fields: dict[str, _Said] = {}
        self.terms: dict[str, _Said] = {}
        self.twice: AgentsFile | None = None
        """What to refuse it with, if it declares a yool."""
        self._terms_indent: int | None = None

    def read(self, text: str, line: int) -> None:
        """Take in one more line."""
        found = _FIELD.fullmatch(text)
        if found is not None and not (self._terms_indent is not None and len(found[1]) > self._terms_indent):
            name, said = found[2].lower(), _Said((found[3] or "").strip(), line)
            self._keep(self.fields, name, said)
            self._terms_indent = len(found[1]) if name == "agent_terms" and not said.text else None
        elif self._terms_indent is not None and text.strip():
            term = _TERM.fullmatch(text)
            if term is None:
                self._terms_indent = None  # prose has begun
            else:
                self._keep(self.terms, term[1], _Said((term[2] or "").strip(), line))

    def _keep(self, held: dict[str, _Said], name: str, said: _Said) -> None:
        if held.setdefault(name, said) is not said and (held is self.terms or name in _READ):
            self.twice = self.twice or AgentsFile(
                f"'{name}' of '{self.title}' stands twice: in line {held[name].line} and in line {said.line}.",
                field=name,
                line=said.line,
            )


_READ = frozenset({"yool_id", "authority", "lane", "agent_terms"}) | COMMANDS


def read_agents(text: str, stacks: Sequence[str]) -> AgentsRead:
    """Every yool the file declares, `${stack}` in a name standing for each of the stacks."""
    if len(text) > MAX_BYTES:
        raise AgentsFile("The file is too large.", limit=MAX_BYTES, used=len(text))
    for stack in stacks:
        if not is_segment(stack):
            raise StackUnknown(f"'{stack[:40]}' cannot be a part of a name.", field="stack", used=stack[:40])
    agents = list(_agents(text))
    if len(agents) > MAX_AGENTS:
        raise AgentsFile("There are too many agents.", limit=MAX_AGENTS, used=len(agents))
    declared: dict[str, Declared] = {}
    bearing = [agent for agent in agents if "yool_id" in agent.fields]
    for agent in bearing:
        for each in _declared(agent, stacks):
            first = declared.setdefault(each.entry.full_name, each)
            if first is not each:
                raise YoolTwice(
                    f"'{each.entry.full_name}' is declared twice: in line {first.line} and in line {each.line}.",
                    field="yool_id",
                    used=each.entry.full_name,
                    line=each.line,
                    hint="A name without a version is its v1.",
                )
    return AgentsRead(
        declared=tuple(declared.values()),
        agents=len(bearing),
        skipped=tuple(agent.title for agent in agents if "yool_id" not in agent.fields),
    )


def _agents(text: str) -> Iterator[_Agent]:
    section: int | None = None
    agent: _Agent | None = None
    for number, line in _lines(text):
        heading = _HEADING.fullmatch(line)
        if heading is not None:
            level, title = len(heading[1]), heading[2].strip().rstrip("#").rstrip()
            if section is not None and level > section + 1:
                continue  # a part of what is said of the agent
            if agent is not None:
                yield agent
            agent = None
            if title.lower() == "agents":  # a file called Agents may have a part called Agents: that is meant
                section = level
            elif section is not None and level <= section:
                section = None
            elif section is not None:
                agent = _Agent(title)
        elif agent is not None:
            agent.read(line, number)
        else:
            _check_no_stray(line, number)
    if agent is not None:
        yield agent


def _check_no_stray(line: str, number: int) -> None:
    found = _FIELD.fullmatch(line)
    if found is not None and found[2].lower() == "yool_id":
        raise AgentsFile(
            "A yool_id stands outside any agent.",
            field="yool_id",
            line=number,
            hint="Agents are headings one level below the heading 'Agents'.",
        )


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines outside fences and comments, with their numbers."""
    fence = ""
    comment = False
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        line = raw.rstrip("\r")
        if comment:
            comment = "-->" not in line
            continue
        mark = _FENCE.fullmatch(line)
        if fence:
            if mark is not None and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
            continue
        if mark is not None:
            fence = mark[1]
        elif line.lstrip().startswith("<!--"):
            comment = "-->" not in line
        else:
            yield number, line


def _declared(agent: _Agent, stacks: Sequence[str]) -> Iterator[Declared]:
    if agent.twice is not None:
        raise agent.twice
    for name in COMMANDS & agent.fields.keys():
        raise CommandDeclared(
            f"'{agent.title}' declares a '{name}'; {AGENTS} declares names and terms, never commands.",
            field=name,
            line=agent.fields[name].line,
            hint="Carry it out in code: @yool(...), and name the module to the worker.",
        )
    for name in ("authority", "lane"):
        if name not in agent.fields:
            raise FieldMissing(
                f"'{agent.title}' has a yool_id and no '{name}'.",
                field=name,
                line=agent.fields["yool_id"].line,
            )
    authority, lane = agent.fields["authority"], agent.fields["lane"]
    said = agent.fields["yool_id"]
    for text in _expanded(_bare(said.text), stacks, said.line):
        base, version = parse_name(text, "yool_id", said.line)
        check_not_reserved(base, "yool_id", said.line)
        entry = CatalogEntry(
            name=base,
            version=version or 1,
            authority=read_authority(_value(authority, "authority"), line=authority.line),
            lane=check_lane(_bare(lane.text), line=lane.line),
            terms=_terms(agent),
            agent=agent.title,
            about=one_line(agent.fields["role"].text) if "role" in agent.fields else "",
        )
        yield Declared(entry=entry, line=said.line)


def _terms(agent: _Agent) -> Terms:
    inline = agent.fields.get("agent_terms")
    if inline is None:
        return Terms()
    if inline.text:
        value = _value(inline, "agent_terms")
        where = dict.fromkeys(value, inline.line) if isinstance(value, dict) else {}
        return read_terms(value, lines={"": inline.line, **where})
    values = {name: _value(said, f"agent_terms.{name}") for name, said in agent.terms.items()}
    return read_terms(values, lines={name: said.line for name, said in agent.terms.items()})


def _value(said: _Said, field: str) -> Any:
    try:
        return read_yaml(_bare(said.text))
    except BodyRefusal as problem:
        raise AgentsFile(problem.detail.replace(" at line 1", ""), field=field, line=said.line) from None


def _bare(text: str) -> str:
    """A value without the backticks people put around names."""
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == "`" and "`" not in text[1:-1] else text


def _expanded(name: str, stacks: Sequence[str], line: int) -> list[str]:
    if "$" in name.replace(STACK, ""):
        raise YoolName(f"'{name[:120]}' holds a '$' that is not {STACK}.", field="yool_id", used=name[:120], line=line)
    if STACK not in name:
        return [name]
    if not stacks:
        raise StackUnknown(
            f"'{name}' holds {STACK}, and no stack was found in the project.",
            field="yool_id",
            line=line,
            hint="Name one: stig catalog build --stack python.",
        )
    return [name.replace(STACK, stack) for stack in stacks]
