"""Finding the sentences of a claim, in one pass and the same on every machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ANYWHERE = "。！？｡"
_BEFORE_SPACE = ".!?…‼⁇⁈⁉؟۔।॥։።"
_OPENERS = "\"'“‘«‹([{*_`"
_CLOSERS = "\"'”’»›)]}」』）】》〉*_`"

# Each run of terminators is matched once: the lookbehind forbids a second start inside it, and the possessive
# quantifiers never backtrack. So a hostile text takes time in proportion to its length.
_ENDS = re.compile(
    f"(?<![{_ANYWHERE}{_BEFORE_SPACE}])([{_ANYWHERE}{_BEFORE_SPACE}]++)([{re.escape(_CLOSERS)}]*+)(\\s*+)"
)
_CONTENT = re.compile(f"[^\\s{_ANYWHERE}{_BEFORE_SPACE}{re.escape(_CLOSERS)}]")
_DOTTED_LETTERS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+\Z")

_NEVER_LAST = frozenset(("e.g", "i.e", "vs", "cf", "approx", "ca", "resp", "mr", "mrs", "dr", "prof", "viz"))
_MAY_BE_LAST = frozenset(("etc", "al", "inc", "ltd", "co", "corp", "jr", "sr", "dept", "est", "incl", "excl"))
_BEFORE_NUMBER = frozenset(("no", "nr", "fig", "sec", "ch", "p", "pp", "vol", "eq", "max", "min", "ver", "art"))

_MAX_WORD_CHARS = 16
"""No abbreviation is longer, so a longer word need not be read."""


def count_sentences(text: str) -> int:
    """Return how many sentences a text has."""
    return sum(1 for _ in split_sentences(text))


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, with what ends each.

    A run of `.`, `!`, `?`, `…` or their equivalents in other scripts ends a sentence if white space or the end of the
    text follows, with closing quotes and brackets allowed between; `。`, `！` and `？` need no space. So the dots in
    `3.11`, `a.py` and `core.ids` end no sentence. Neither does

    - a full stop after an abbreviation: always after `e.g.`, `i.e.`, `vs.`, `cf.` and the like; after `etc.`,
      `al.`, `Inc.`, `p.m.` and the like unless an upper-case letter follows; after `no.`, `fig.`, `sec.` and
      the like when a digit follows;
    - a full stop after a single upper-case letter other than I (`J. Smith`), or after a number that opens the
      sentence (`1. Open the file`), or with white space before it;
    - a run of several full stops, or `…`, unless an upper-case letter or the end of the text follows;
    - anything inside closing quotes or brackets when a lower-case letter follows (`"Why?" it asked`).

    Text after the last end counts as a sentence if it has more than spaces and closing marks.
    """
    start = 0
    for match in _ENDS.finditer(text):
        if _ends(text, start, match):
            if _CONTENT.search(text, start, match.start()):
                yield text[start : match.end()].strip()
            start = match.end()
    if _CONTENT.search(text, start):
        yield text[start:].strip()


def _ends(text: str, start: int, match: re.Match[str]) -> bool:
    run, closers, space = match.groups()
    stop, after = match.start(), match.end()
    if run[-1] in _ANYWHERE:
        return True
    if after == len(text):
        return True
    if not space:
        return False
    following = text[after]
    if closers and following.islower():
        return False
    if run == ".":
        return not _abbreviates(text, start, stop, following)
    if not run.strip(".…"):
        return following.isupper()
    return True


def _abbreviates(text: str, start: int, stop: int, following: str) -> bool:
    """True if the full stop at offset `stop` belongs to an abbreviation."""
    words = text[max(start, stop - _MAX_WORD_CHARS) : stop].rsplit(maxsplit=1)
    word = words[-1].lstrip(_OPENERS) if words and not text[stop - 1].isspace() else ""
    if not word:
        return True
    lowered = word.lower()
    if lowered in _NEVER_LAST:
        return True
    if lowered in _MAY_BE_LAST or _DOTTED_LETTERS.match(word):
        return not following.isupper()
    if lowered in _BEFORE_NUMBER:
        return following.isdecimal()
    if word.isdecimal():
        return not text[start : stop - len(word)].strip()
    return len(word) == 1 and word.isupper() and word != "I"
