"""Code inside a sentence: what stands in backticks, and stretches of code that carry no mark at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from engrambus.knowledge.messages.code_lines import CODE_WORDS, COMMON, LONGEST, score

MARKED: Final = 8
"""Points that backticks are worth to what they hold."""
ENOUGH_INLINE: Final = 16
ENOUGH_STRETCH: Final = 11

# What is asked of text in backticks only is compiled with the first of it.
_RUN = r"`+"
_SINGLE = (
    r"[^\s\"';{}()=]*(?:\{[\w.*/-]*\}[^\s\"';{}()=]*){0,4}(?:=[\w./:@%+,*~<>-]*)?"  # a name, path, flag, pointer
    r"|[\w.:$@!?*-]*[\w!?>\]]\((?:[\w.*]{0,40}(?:, ?[\w.*]{1,40}){0,3}|\.{3}|…)\)"  # a call by its name
    r"|[\"'][^\"']*[\"']|[^\w\s]{1,3}"  # one string, one operator
)
_PAIR = r"[\w.-]+ [\w.-]+|[^<>]* ?<[^<>\s]+>"  # two words; a text and its target
_COMMAND = r"[a-z][\w.+/-]*(?: [\w./:@=,~<>\[\]*+%^#…-]+){1,7}"
_BETWEEN = r"[\w)\]\"'}] (?:[-+*/%|&:]?=|[=!<>]=|[-+*/%<>?]|&&|\|\||=>|:=) [\w(\[\"'{$&*-]"  # a + b
_QUOTED = re.compile(r"[(\[]?(?:\"[^\"]*\"|'[^']*')[),.;\]]{0,2}")

_STRONG = re.compile(r"[{}]|===?|!==?|&&|\|\||=>|[-+*/|&:]=|\+\+|\w\[[^\]]*\]\.|\w\(.*\)[.;{]|^=$|^\+$|\);|\)\{|\):$")
_MEDIUM = re.compile(
    r"\w\([^)\s]|[\w\]]=[\w\"'({\[]|;$|[\"'][,)\]]|->|^[-*/<>%|&]$|</?\w+|^\(\w|\w\)$|^\$\w|^[\[(]|::\w"
)
_WEAK = re.compile(r"\w_\w|[a-z][A-Z]|\w\.\w|^\d+[,)]?$|^\W+$|^\w[,)]?$|^[A-Z_]+$|^[\"']")


def backticks(text: str, begin: int, finish: int) -> Iterator[tuple[int, int, int]]:
    """Pairs of backtick runs of the same width, as (start, end, width), the marks included."""
    runs = [(run.start(), run.end() - run.start()) for run in re.compile(_RUN).finditer(text, begin, finish)]
    following: dict[int, int] = {}
    closing = [-1] * len(runs)
    for at in range(len(runs) - 1, -1, -1):
        width = runs[at][1]
        closing[at] = following.get(width, -1)
        following[width] = at
    at = 0
    while at < len(runs):
        partner = closing[at]
        if partner < 0:
            at += 1
            continue
        start, width = runs[at]
        yield start, runs[partner][0] + width, width
        at = partner + 1


def is_expression(content: str) -> bool:
    """Is what stands in backticks more than one name, path, command, version, flag or pointer?"""
    content = content.strip()
    if not any(char.isalpha() for char in content):
        return False
    if len(content) > LONGEST:
        return True if score(content[:LONGEST]) + MARKED >= ENOUGH_INLINE else stretch(content[:LONGEST]) is not None
    if re.fullmatch(_SINGLE, content) or re.fullmatch(_PAIR, content):
        return False
    first = content.partition(" ")[0]
    if re.fullmatch(_COMMAND, content) and first not in CODE_WORDS and " = " not in content:
        return False
    return re.search(_BETWEEN, content) is not None or score(content) + MARKED >= ENOUGH_INLINE


def stretch(text: str) -> tuple[int, int] | None:
    """The stretch of words in a line that is most like code, if it is enough like it."""
    total = best = 0
    start = 0
    found: tuple[int, int] | None = None
    at = 0
    for word in text.split(" "):
        points = _word_points(word)
        if total <= 0:
            total, start = 0, at
        total += points
        at += len(word) + 1
        if total > best:
            best, found = total, (start, at - 1)
    return found if best >= ENOUGH_STRETCH else None


@lru_cache(maxsize=8192)
def _word_points(word: str) -> int:
    if not word:
        return 0
    if "://" in word or _QUOTED.fullmatch(word):
        return -1
    if _STRONG.search(word[:80]):
        return 3
    if _MEDIUM.search(word[:80]):
        return 2
    core = word.strip(",.;:!?\"'()*_’“”")
    if core in CODE_WORDS and word[-1] not in ".,":
        return 0
    if core.lower() in COMMON:
        return -4
    if word[-1] in ".!?" and core.isalpha():
        return -5
    if _WEAK.search(word[:80]):
        return 1
    return -2
