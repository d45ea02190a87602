"""A Markdown file as what is declared in it is read: its headings, and its texts with the list items they stand in."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from engrambus.errors import AgentsFile

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


class Heading(NamedTuple):
    """A heading that parts the document; one inside a list or a quote does not."""

    level: int
    title: str
    line: int


class Text(NamedTuple):
    """A paragraph, line by line."""

    lines: tuple[str, ...]
    line: int
    """Where the first of them stands."""
    items: tuple[int, ...]
    """The list items it stands in, the outermost first: a number each."""
    begins: bool
    """Whether it is what a bullet's item begins with."""


class Aside(NamedTuple):
    """What is not read: a fence, code, a quote."""

    line: int
    items: tuple[int, ...]
    """The list items it stands in."""


def read_blocks(text: str) -> Iterator[Heading | Text | Aside]:
    """The blocks of a document in order, without its comments; one that ends inside a fence or a comment is refused."""
    tokens = _parser().parse(text.removeprefix("\ufeff").rstrip() + "\n")
    items: list[tuple[int, bool]] = []
    quotes = number = 0
    for at, token in enumerate(tokens):
        within = tuple(item for item, _ in items)
        line = token.map[0] + 1 if token.map else 0
        if token.type == "list_item_open":
            number += 1
            items.append((number, tokens[at].markup in "-*+"))
        elif token.type == "list_item_close":
            items.pop()
        elif token.type == "blockquote_open":
            quotes += 1
            yield Aside(line, within)
        elif token.type == "blockquote_close":
            quotes -= 1
        elif token.type in ("fence", "code_block", "html_block"):
            if _is_read_over(token, _is_last(tokens, at)):
                continue
            yield Aside(line, within)
        elif token.type == "inline" and not quotes:
            opened = tokens[at - 1]
            if opened.type == "paragraph_open":
                begins = bool(items) and items[-1][1] and tokens[at - 2].type == "list_item_open"
                yield Text(tuple(token.content.split("\n")), line, within, begins)
            elif opened.level == 0:
                yield Heading(int(opened.tag[1:]), " ".join(token.content.split()), line)


def _is_last(tokens: list[Token], at: int) -> bool:
    return all(token.nesting == -1 for token in tokens[at + 1 :])


def _is_read_over(token: Token, last: bool) -> bool:
    """Whether it is a comment; refuses one that nothing ends, and a fence that nothing ends."""
    start, end = token.map or (0, 0)
    if token.type == "fence" and last and end - start == token.content.count("\n") + 1:
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
