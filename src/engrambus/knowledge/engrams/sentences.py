"""Counting the sentences of a claim, the same way every time and in one pass."""

from __future__ import annotations

import re

_ANYWHERE = "。！？｡"
_BEFORE_SPACE = ".!?…‼⁇⁈⁉؟۔।॥։።"
_OPENERS = "\"'“‘«‹([{*_`"
_CLOSERS = "\"'”’»›)]}」』）】》〉*_`"

# Each run of terminators is met once: the lookbehind forbids a second start inside it, and nothing is given back.
_ENDS = re.compile(
    f"(?<![{_ANYWHERE}{_BEFORE_SPACE}])([{_ANYWHERE}{_BEFORE_SPACE}]++)([{re.escape(_CLOSERS)}]*+)(\\s*+)"
)
_CONTENT = re.compile(f"[^\\s{_ANYWHERE}{_BEFORE_SPACE}{re.escape(_CLOSERS)}]")
_DOTTED_LETTERS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+\Z")

_NEVER_LAST = frozenset(("e.g", "i.e", "vs", "cf", "approx", "ca", "resp", "mr", "mrs", "dr", "prof", "viz"))
_MAY_BE_LAST = frozenset(("etc", "al", "inc", "ltd", "co", "corp", "jr", "sr", "dept", "est", "incl", "excl"))
_BEFORE_NUMBER = frozenset(("no", "nr", "fig", "sec", "ch", "p", "pp", "vol", "eq", "max", "min", "ver", "art"))

_LONGEST = 16
"""No abbreviation has as many letters, so no more than these are looked at."""


def count_sentences(text: str) -> int:
    """How many sentences a text has.

    A run of `.`, `!`, `?`, `…` and their like in other scripts ends a sentence when white space or the end of the
    text follows, closing quotes and brackets between them allowed; `。`, `！` and `？` need no space. So the dots in
    `3.11`, `a.py` and `core.ids` end nothing. Nor does

    - a full stop after an abbreviation: always after `e.g.`, `i.e.`, `vs.`, `cf.` and their like; after `etc.`,
      `al.`, `Inc.`, `p.m.` and their like unless an upper-case letter follows; after `no.`, `fig.`, `sec.` and
      their like when a digit follows;
    - a full stop after a single upper-case letter other than I (`J. Smith`), or after a number that opens the
      sentence (`1. Open the file`), or with white space before it;
    - a run of several full stops, or `…`, unless an upper-case letter or the end of the text follows;
    - anything inside closing quotes or brackets when a lower-case letter goes on (`"Why?" it asked`).

    What follows the last end counts as a sentence if there is more in it than spaces and closing marks.
    """
    count = 0
    start = 0
    for match in _ENDS.finditer(text):
        if _ends(text, start, match):
            if _CONTENT.search(text, start, match.start()):
                count += 1
            start = match.end()
    return count + (1 if _CONTENT.search(text, start) else 0)


def _ends(text: str, start: int, match: re.Match[str]) -> bool:
    run, closers, space = match.groups()
    at, after = match.start(), match.end()
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
        return not _abbreviates(text, start, at, following)
    if not run.strip(".…"):
        return following.isupper()
    return True


def _abbreviates(text: str, start: int, at: int, following: str) -> bool:
    """Whether the full stop at a place belongs to the word before it."""
    words = text[max(start, at - _LONGEST) : at].rsplit(maxsplit=1)
    word = words[-1].lstrip(_OPENERS) if words and not text[at - 1].isspace() else ""
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
        return not text[start : at - len(word)].strip()
    return len(word) == 1 and word.isupper() and word != "I"
