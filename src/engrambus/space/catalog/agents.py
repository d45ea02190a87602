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
out is said by code that an operator names. Examples in fences and comments are not read. What reads as if it were meant
for an agent, and could not be taken so, is refused with its line: a lost term would be a limit that does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from engrambus.core import read_yaml
from engrambus.errors import (
    AgentsFile,
    BodyRefusal,
    CommandDeclared,
    FieldMissing,
    StackUnknown,
    YoolName,
    YoolTwice,
)
from engrambus.space.catalog.file import COMMANDS
from engrambus.space.catalog.markdown import Aside, Heading, Text, read_blocks
from engrambus.space.catalog.names import check_lane, check_not_reserved, is_segment, parse_name
from engrambus.space.catalog.values import TERMS, CatalogEntry, Terms, one_line, read_authority, read_terms

AGENTS = "AGENTS.md"
STACK = "${stack}"
MAX_BYTES = 1 << 20
MAX_AGENTS = 10_000
MAX_TITLE = 80

_NAME = re.compile(r"[A-Za-z_][\w-]{0,79}")
_MARKS = "*_`"
_CODE = re.compile(r"`[^`\n]*`")


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
        self.wrong: AgentsFile | None = None
        """What to refuse it with, if it declares a yool."""
        self.in_terms = False
        """Whether what was read last stands among its terms."""
        self._terms_item = 0

    def read(self, block: Text | Aside) -> None:
        """Take in one more block."""
        self.in_terms = self._terms_item in block.items
        if isinstance(block, Aside):
            if self.in_terms:
                self._refuse("Terms are not read from fences, code or quotes.", "agent_terms", block.line)
            return
        lines = self._uncommented(block)
        if self.in_terms:
            self._read_terms(lines)
        elif block.begins and (found := _field(lines[0].text)) is not None:
            name = found[0].lower()
            self._keep(self.fields, name, _Said(found[1], block.line))
            if name == "agent_terms":
                self._terms_item, self.in_terms = block.items[-1], True
                self._read_terms(lines[1:])

    def _read_terms(self, lines: list[_Said]) -> None:
        for said in lines:
            if not said.text or said.text.startswith("#"):
                continue
            term = _field(said.text)
            if term is None:
                self._refuse(f"'{said.text[:40]}' is not a term and its value.", "agent_terms", said.line)
            else:
                self._keep(self.terms, term[0], _Said(term[1], said.line))

    def _uncommented(self, block: Text) -> list[_Said]:
        """The lines without comments; one that nothing ends would hide or show what its writer did not mean."""
        text, at = "\n".join(block.lines), 0
        while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start)) >= 0:
            text = text[:start] + "\n" * text.count("\n", start, end) + text[end + 3 :]
            at = start
        if start >= 0 and (start := _CODE.sub(lambda code: " " * len(code[0]), text).find("<!--")) >= 0:
            line = block.line + text.count("\n", 0, start)
            self._refuse("A comment that does not end where it begins must begin its line.", None, line)
        return [_Said(line.strip(), block.line + number) for number, line in enumerate(text.split("\n"))]

    def _keep(self, held: dict[str, _Said], name: str, said: _Said) -> None:
        if held.setdefault(name, said) is not said and (held is self.terms or name in _READ):
            both = f"in line {held[name].line} and in line {said.line}"
            self._refuse(f"'{name}' of '{self.title}' stands twice: {both}.", name, said.line)

    def _refuse(self, detail: str, field: str | None, line: int) -> None:
        hint = "Terms stand below agent_terms, one a line: budget_usd: 0.05" if field == "agent_terms" else None
        self.wrong = self.wrong or AgentsFile(detail, field=field, line=line, hint=hint)


def _field(line: str) -> tuple[str, str] | None:
    """The name and the value a line says; the name may be set in bold or in backticks."""
    head, colon, value = line.partition(":")
    name = head.strip().strip(_MARKS)
    if not colon or not _NAME.fullmatch(name):
        return None
    return name, (value.lstrip("*_") if head[:1] in "*_" else value).strip()


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
    cut: Heading | None = None
    for block in read_blocks(text):
        if isinstance(block, Heading):
            level, title = block.level, block.title
            if section is not None and level > section + 1:
                continue  # a part of what is said of the agent
            cut = block if agent is not None and agent.in_terms else None
            if agent is not None:
                yield agent
            agent = None
            if title.lower() == "agents":  # a file called Agents may have a part called Agents: that is meant
                section = level
            elif section is not None and level <= section:
                section = None
            elif section is not None:
                agent = _Agent(title)
            continue
        if isinstance(block, Text):
            _check_no_stray(block, agent, cut)
        if agent is not None:
            agent.read(block)
        cut = None
    if agent is not None:
        yield agent


def _check_no_stray(block: Text, agent: _Agent | None, cut: Heading | None) -> None:
    """Refuse what was meant for an agent and would be lost: a yool outside any, terms a heading parts from the rest."""
    found = _field(block.lines[0].strip())
    if agent is None and block.begins and found is not None and found[0].lower() == "yool_id":
        raise AgentsFile(
            "A yool_id stands outside any agent.",
            field="yool_id",
            line=block.line,
            hint="Agents are headings one level below the heading 'Agents'.",
        )
    if cut is not None and cut.line == block.line - 1 and found is not None and found[0] in TERMS:
        raise AgentsFile(
            f"A heading, '{cut.title[:40]}', parts '{found[0]}' from the terms above it.",
            field=f"agent_terms.{found[0]}",
            line=cut.line,
            hint="Indent a comment among terms.",
        )


def _declared(agent: _Agent, stacks: Sequence[str]) -> Iterator[Declared]:
    if agent.wrong is not None:
        raise agent.wrong
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
    for name in TERMS:
        if name in agent.fields:
            raise AgentsFile(
                f"'{name}' stands beside agent_terms, not below.", field=name, line=agent.fields[name].line
            )
    if inline is None:
        return Terms()
    if not inline.text and not agent.terms:
        raise AgentsFile("There is no term below agent_terms.", field="agent_terms", line=inline.line)
    if inline.text:
        for said in agent.terms.values():
            raise AgentsFile(
                "Terms stand behind agent_terms or below it, not both.", field="agent_terms", line=said.line
            )
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
            hint="Name one: engrambus catalog build --stack python.",
        )
    return [name.replace(STACK, stack) for stack in stacks]
