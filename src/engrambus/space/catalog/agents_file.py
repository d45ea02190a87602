"""Yools declared in `AGENTS.md`: below a heading 'Agents', one heading per agent, with its fields as a list.

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

An agent without a `yool_id` declares nothing. Only names and terms are declared here, never commands: how a yool is run
is defined by code that an operator names. Examples in fences and comments are not read.
"""

# decision 21: the file is read as CommonMark. What looks like a declaration but cannot be read as one is refused with
# its line, because a term that is silently lost would be a limit that does not hold.

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

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
from engrambus.space.catalog.capabilities_file import COMMANDS
from engrambus.space.catalog.entries import TERMS, CatalogEntry, Terms, one_line, read_authority, read_terms
from engrambus.space.catalog.names import check_not_reserved, is_segment, parse_name, read_lane

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

AGENTS = "AGENTS.md"
STACK = "${stack}"
MAX_BYTES = 1 << 20
MAX_AGENTS = 10_000
MAX_TITLE = 80

_FIELD_NAME = re.compile(r"[A-Za-z_][\w-]{0,79}")
_EMPHASIS = "*_`"
_CODE_SPAN = re.compile(r"`[^`\n]*`")
_READ_FIELDS = frozenset({"yool_id", "authority", "lane", "agent_terms"}) | COMMANDS
"""Fields of an agent that are read; any others are for people."""


class DeclaredYool(msgspec.Struct, frozen=True, kw_only=True):
    """A yool and the line it was declared on."""

    entry: CatalogEntry
    line: int


class AgentsContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an agents file."""

    yools: tuple[DeclaredYool, ...]
    agent_count: int
    """Number of agents that declare a yool."""
    skipped: tuple[str, ...]
    """Titles of agents without a `yool_id`."""


def read_agents(text: str, stacks: Sequence[str], *, found: bool = False) -> AgentsContent:
    """Parse an agents file; `${stack}` in a name is replaced by each of the stacks in turn.

    If the stacks were only found in the project's files, those that an agent names in its field `Stack` come first.
    """
    if len(text) > MAX_BYTES:
        raise AgentsFile("The file is too large.", limit=MAX_BYTES, used=len(text))
    for stack in stacks:
        if not is_segment(stack):
            raise StackUnknown(f"'{stack[:40]}' cannot be a segment of a name.", field="stack", used=stack[:40])
    agents = list(_agents(text))
    if len(agents) > MAX_AGENTS:
        raise AgentsFile("There are too many agents.", limit=MAX_AGENTS, used=len(agents))
    yools: dict[str, DeclaredYool] = {}
    declaring = [agent for agent in agents if "yool_id" in agent.fields]
    for agent in declaring:
        for yool in _declared_yools(agent, (found and _declared_stacks(agent)) or stacks):
            first = yools.setdefault(yool.entry.full_name, yool)
            if first is not yool:
                raise YoolTwice(
                    f"'{yool.entry.full_name}' is declared twice: in line {first.line} and in line {yool.line}.",
                    field="yool_id",
                    used=yool.entry.full_name,
                    line=yool.line,
                    hint="A name without a version means version 1.",
                )
    return AgentsContent(
        yools=tuple(yools.values()),
        agent_count=len(declaring),
        skipped=tuple(agent.title for agent in agents if "yool_id" not in agent.fields),
    )


class _SourceText(NamedTuple):
    text: str
    line: int


class _Agent:
    """One agent's heading and the fields below it."""

    def __init__(self, title: str) -> None:
        self.title = title[:MAX_TITLE]
        self.fields: dict[str, _SourceText] = {}
        self.terms: dict[str, _SourceText] = {}
        self.problem: AgentsFile | None = None
        """First error; raised only if the agent declares a yool, since others are free text."""
        self.in_terms = False
        """True if the last block read belongs to the terms."""
        self._terms_item = 0
        self._triggers_item = 0

    def read(self, block: _Paragraph | _Skipped) -> None:
        """Read one more block below the agent's heading."""
        self.in_terms = self._terms_item in block.items
        if isinstance(block, _Skipped):
            if self.in_terms:
                self._refuse("Terms are not read from fences, code or quotes.", "agent_terms", block.line)
            return
        lines = self._uncommented(block)
        if self.in_terms:
            self._read_terms(lines)
        elif self._triggers_item in block.items:
            listed = "; ".join(filter(None, (self.fields["triggers"].text, *(line.text for line in lines))))
            self.fields["triggers"] = self.fields["triggers"]._replace(text=listed)
        elif block.starts_item and (field := _parse_field(lines[0].text)) is not None:
            name = field[0].lower()
            self._add(self.fields, name, _SourceText(field[1], block.line))
            if name == "agent_terms":
                self._terms_item, self.in_terms = block.items[-1], True
                self._read_terms(lines[1:])
            elif name == "triggers" and self.fields[name].line == block.line:
                self._triggers_item = block.items[-1]

    def _read_terms(self, lines: list[_SourceText]) -> None:
        for source in lines:
            if not source.text or source.text.startswith("#"):
                continue
            term = _parse_field(source.text)
            if term is None:
                self._refuse(f"'{source.text[:40]}' is not a term and its value.", "agent_terms", source.line)
            else:
                self._add(self.terms, term[0], _SourceText(term[1], source.line))

    def _uncommented(self, block: _Paragraph) -> list[_SourceText]:
        """Return the lines without comments; refuse one without an end, which could hide more than was meant."""
        text, index = "\n".join(block.lines), 0
        while (start := text.find("<!--", index)) >= 0 and (end := text.find("-->", start)) >= 0:
            text = text[:start] + "\n" * text.count("\n", start, end) + text[end + 3 :]
            index = start
        if start >= 0 and (start := _CODE_SPAN.sub(lambda code: " " * len(code[0]), text).find("<!--")) >= 0:
            line = block.line + text.count("\n", 0, start)
            self._refuse("A comment that spans several lines must begin on a line of its own.", None, line)
        return [_SourceText(line.strip(), block.line + number) for number, line in enumerate(text.split("\n"))]

    def _add(self, fields: dict[str, _SourceText], name: str, value: _SourceText) -> None:
        if fields.setdefault(name, value) is not value and (fields is self.terms or name in _READ_FIELDS):
            lines = f"in line {fields[name].line} and in line {value.line}"
            self._refuse(f"'{name}' of '{self.title}' is given twice: {lines}.", name, value.line)

    def _refuse(self, detail: str, field: str | None, line: int) -> None:
        hint = "Write terms below agent_terms, one per line: budget_usd: 0.05" if field == "agent_terms" else None
        self.problem = self.problem or AgentsFile(detail, field=field, line=line, hint=hint)


def _parse_field(line: str) -> tuple[str, str] | None:
    """Parse `name: value`; the name may be set in bold or in backticks."""
    head, colon, value = line.partition(":")
    name = head.strip().strip(_EMPHASIS)
    if not colon or not _FIELD_NAME.fullmatch(name):
        return None
    return name, (value.lstrip("*_") if head[:1] in "*_" else value).strip()


def _agents(text: str) -> Iterator[_Agent]:
    section_level: int | None = None
    agent: _Agent | None = None
    interrupting: _Heading | None = None  # a heading that ended an agent in the middle of its terms
    for block in _read_blocks(text):
        if isinstance(block, _Heading):
            level, title = block.level, block.title
            if section_level is not None and level > section_level + 1:
                continue  # a subsection of the agent's description
            interrupting = block if agent is not None and agent.in_terms else None
            if agent is not None:
                yield agent
            agent = None
            if title.lower() == "agents":  # a file titled Agents may have a section Agents: the section counts
                section_level = level
            elif section_level is not None and level <= section_level:
                section_level = None
            elif section_level is not None:
                agent = _Agent(title)
            continue
        if isinstance(block, _Paragraph):
            _check_not_lost(block, agent, interrupting)
        if agent is not None:
            agent.read(block)
        interrupting = None
    if agent is not None:
        yield agent


def _check_not_lost(block: _Paragraph, agent: _Agent | None, interrupting: _Heading | None) -> None:
    """Refuse declarations that would be lost: a yool_id outside any agent, and terms that a heading cuts off."""
    field = _parse_field(block.lines[0].strip())
    if agent is None and block.starts_item and field is not None and field[0].lower() == "yool_id":
        raise AgentsFile(
            "A yool_id stands outside any agent.",
            field="yool_id",
            line=block.line,
            hint="Agents are headings one level below the heading 'Agents'.",
        )
    if interrupting is not None and interrupting.line == block.line - 1 and field is not None and field[0] in TERMS:
        raise AgentsFile(
            f"A heading, '{interrupting.title[:40]}', separates '{field[0]}' from the terms above it.",
            field=f"agent_terms.{field[0]}",
            line=interrupting.line,
            hint="Indent a comment among terms, or it is read as a heading.",
        )


def _declared_yools(agent: _Agent, stacks: Sequence[str]) -> Iterator[DeclaredYool]:
    if agent.problem is not None:
        raise agent.problem
    for name in COMMANDS & agent.fields.keys():
        raise CommandDeclared(
            f"'{agent.title}' declares a '{name}'; {AGENTS} declares names and terms, never commands.",
            field=name,
            line=agent.fields[name].line,
            hint="Implement it in code with @yool(...), and name the module to the worker.",
        )
    for name in ("authority", "lane"):
        if name not in agent.fields:
            raise FieldMissing(
                f"'{agent.title}' has a yool_id but no '{name}'.",
                field=name,
                line=agent.fields["yool_id"].line,
            )
    authority, lane, yool_id = agent.fields["authority"], agent.fields["lane"], agent.fields["yool_id"]
    for text in _expand_stacks(_without_backticks(yool_id.text), stacks, yool_id.line):
        base, version = parse_name(text, "yool_id", yool_id.line)
        check_not_reserved(base, "yool_id", yool_id.line)
        entry = CatalogEntry(
            name=base,
            version=version or 1,
            authority=read_authority(_parse_value(authority, "authority"), line=authority.line),
            lane=read_lane(_without_backticks(lane.text), line=lane.line),
            terms=_terms(agent),
            agent=agent.title,
            about=_line_of(agent, "role"),
            triggers=_line_of(agent, "triggers"),
        )
        yield DeclaredYool(entry=entry, line=yool_id.line)


def _line_of(agent: _Agent, field: str) -> str:
    return one_line(agent.fields[field].text) if field in agent.fields else ""


def _declared_stacks(agent: _Agent) -> list[str]:
    """Return the stacks that an agent names; none for `auto-detect`, and none if the field is a text for people."""
    names = [name.strip() for name in _without_backticks(_line_of(agent, "stack")).strip("[]").split(",")]
    return list(dict.fromkeys(names)) if all(map(is_segment, names)) else []


def _terms(agent: _Agent) -> Terms:
    inline = agent.fields.get("agent_terms")
    for name in TERMS:
        if name in agent.fields:
            raise AgentsFile(f"'{name}' must be indented below agent_terms.", field=name, line=agent.fields[name].line)
    if inline is None:
        return Terms()
    if not inline.text and not agent.terms:
        raise AgentsFile("There is no term below agent_terms.", field="agent_terms", line=inline.line)
    if inline.text:
        for term in agent.terms.values():
            raise AgentsFile(
                "Write terms on the line of agent_terms or below it, not both.", field="agent_terms", line=term.line
            )
        value = _parse_value(inline, "agent_terms")
        lines = dict.fromkeys(value, inline.line) if isinstance(value, dict) else {}
        return read_terms(value, lines={"": inline.line, **lines})
    values = {name: _parse_value(term, f"agent_terms.{name}") for name, term in agent.terms.items()}
    return read_terms(values, lines={name: term.line for name, term in agent.terms.items()})


def _parse_value(source: _SourceText, field: str) -> Any:
    try:
        return read_yaml(_without_backticks(source.text))
    except BodyRefusal as problem:
        raise AgentsFile(problem.detail.replace(" at line 1", ""), field=field, line=source.line) from None


def _without_backticks(text: str) -> str:
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == "`" and "`" not in text[1:-1] else text


def _expand_stacks(name: str, stacks: Sequence[str], line: int) -> list[str]:
    if "$" in name.replace(STACK, ""):
        raise YoolName(
            f"'{name[:120]}' contains a '$' that is not {STACK}.", field="yool_id", used=name[:120], line=line
        )
    if STACK not in name:
        return [name]
    if not stacks:
        raise StackUnknown(
            f"'{name}' contains {STACK}, but no stack was found in the project.",
            field="yool_id",
            line=line,
            hint="Name one, in the agent's list (- Stack: python) or once: engrambus catalog build --stack python",
        )
    return [name.replace(STACK, stack) for stack in stacks]


# Markdown: headings, and paragraphs with the list items they are in


class _Heading(NamedTuple):
    """A heading of the document; headings inside lists or quotes are not returned."""

    level: int
    title: str
    line: int


class _Paragraph(NamedTuple):
    """A paragraph, line by line."""

    lines: tuple[str, ...]
    line: int
    """Line of the first one."""
    items: tuple[int, ...]
    """Numbers of the list items it is in, the outermost first."""
    starts_item: bool
    """True if it is the first paragraph of a bullet item."""


class _Skipped(NamedTuple):
    """A block that is not read: a fence, code or a quote."""

    line: int
    items: tuple[int, ...]


def _read_blocks(text: str) -> Iterator[_Heading | _Paragraph | _Skipped]:
    """Yield the blocks of a document without its comments; refuse one that ends inside a fence or a comment."""
    tokens = _parser().parse(text.removeprefix("\ufeff").rstrip() + "\n")
    items: list[tuple[int, bool]] = []
    quotes = number = 0
    for index, token in enumerate(tokens):
        item_numbers = tuple(item for item, _ in items)
        line = token.map[0] + 1 if token.map else 0
        if token.type == "list_item_open":
            number += 1
            items.append((number, token.markup in "-*+"))
        elif token.type == "list_item_close":
            items.pop()
        elif token.type == "blockquote_open":
            quotes += 1
            yield _Skipped(line, item_numbers)
        elif token.type == "blockquote_close":
            quotes -= 1
        elif token.type in ("fence", "code_block", "html_block"):
            is_last = all(following.nesting == -1 for following in tokens[index + 1 :])
            if not _is_comment(token, is_last):
                yield _Skipped(line, item_numbers)
        elif token.type == "inline" and not quotes:
            opening = tokens[index - 1]
            if opening.type == "paragraph_open":
                starts_item = bool(items) and items[-1][1] and tokens[index - 2].type == "list_item_open"
                yield _Paragraph(tuple(token.content.split("\n")), line, item_numbers, starts_item)
            elif opening.level == 0:
                yield _Heading(int(opening.tag[1:]), " ".join(token.content.split()), line)


def _is_comment(token: Token, is_last: bool) -> bool:
    """True if a block is a comment; refuse a comment or a fence without an end."""
    start, end = token.map or (0, 0)
    if token.type == "fence" and is_last and end - start == token.content.count("\n") + 1:
        raise AgentsFile(
            "The file ends inside a fence.", line=start + 1, hint=f"End it with {token.markup} on a line of its own."
        )
    if token.type != "html_block" or not token.content.lstrip().startswith("<!--"):
        return False
    if "-->" not in token.content:
        raise AgentsFile("The file ends inside a comment.", line=start + 1, hint="End it with -->.")
    return True


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").disable("inline")
