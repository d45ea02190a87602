"""Lines of a file as HTML, numbered and coloured. File content is always escaped and shown as text."""

from __future__ import annotations

from pathlib import PurePosixPath

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.diff import DiffLexer
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound

MAX_COLOURED_CHARS = 100_000
"""Longer texts are shown without colours."""

CSS_CLASSES = (
    (Token.Comment, "c"),
    (Token.Literal.String, "s"),
    (Token.Literal.Number, "m"),
    (Token.Keyword, "k"),
    (Token.Operator.Word, "k"),
    (Token.Name.Tag, "k"),
    (Token.Name.Function, "f"),
    (Token.Name.Class, "f"),
    (Token.Generic.Heading, "f"),
    (Token.Name.Decorator, "d"),
    (Token.Generic.Subheading, "d"),
    (Token.Name.Builtin, "b"),
    (Token.Generic.Inserted, "i"),
    (Token.Generic.Deleted, "x"),
)
"""The kinds of token that the stylesheet has a colour for."""


def highlight_lines(text: str, path: str, first: int = 1) -> list[tuple[int, Markup]]:
    """Return each line of a text with its number, coloured by the language that the file name suggests."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    lexer = _find_lexer(path) if len(text) <= MAX_COLOURED_CHARS else None
    if lexer is None:
        return list(enumerate((escape(line) for line in lines), first))
    return list(enumerate(_colour(text, lexer)[: len(lines)], first))


def _colour(text: str, lexer: Lexer) -> list[Markup]:
    """Return the lines of a text as spans; a token that spans several lines is closed and reopened at each end."""
    lines: list[list[Markup]] = [[]]
    # The unprocessed tokens, because pygments would turn other line separators into newlines and change the numbers.
    for _, kind, value in lexer.get_tokens_unprocessed(text):
        for index, part in enumerate(value.split("\n")):
            if index:
                lines.append([])
            if part:
                lines[-1].append(_span(kind, part))
    return [Markup("").join(line) for line in lines]


def _span(kind: _TokenType, text: str) -> Markup:
    css_class = next((css_class for token, css_class in CSS_CLASSES if kind in token), "")
    return Markup('<span class="{}">{}</span>').format(css_class, text) if css_class else escape(text)


def _find_lexer(path: str) -> Lexer | None:
    if path.endswith(".diff"):
        return DiffLexer(stripnl=False, ensurenl=False)
    try:
        return get_lexer_for_filename(PurePosixPath(path).name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
