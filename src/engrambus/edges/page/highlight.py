"""Lines of a file as HTML, numbered and coloured; whatever they hold, it is shown as text."""

from __future__ import annotations

from pathlib import PurePosixPath

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.diff import DiffLexer
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound

MAX_COLOURED = 100_000
"""Characters beyond which lines are shown plain."""

CLASSES = (
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


def numbered(text: str, path: str, first: int = 1) -> list[tuple[int, Markup]]:
    """Each line of a text with its number, coloured as its file's name suggests."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    lexer = _lexer(path) if len(text) <= MAX_COLOURED else None
    if lexer is None:
        return [(first + at, escape(line)) for at, line in enumerate(lines)]
    return [(first + at, line) for at, line in enumerate(_coloured(text, lexer)[: len(lines)])]


def _coloured(text: str, lexer: Lexer) -> list[Markup]:
    """The lines of a text, each a row of spans; a token that runs over a line's end is begun anew on the next."""
    lines: list[list[Markup]] = [[]]
    # Unprocessed: as lines are counted here, only a newline ends one.
    for _, kind, value in lexer.get_tokens_unprocessed(text):
        for at, part in enumerate(value.split("\n")):
            if at:
                lines.append([])
            if part:
                lines[-1].append(_span(kind, part))
    return [Markup("").join(line) for line in lines]


def _span(kind: _TokenType, text: str) -> Markup:
    name = next((name for above, name in CLASSES if kind in above), "")
    return Markup('<span class="{}">{}</span>').format(name, text) if name else escape(text)


def _lexer(path: str) -> Lexer | None:
    if path.endswith(".diff"):
        return DiffLexer(stripnl=False, ensurenl=False)
    try:
        return get_lexer_for_filename(PurePosixPath(path).name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
