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
_MAX_CLAUSE_CHARS = 200
"""Characters before a full stop in which a verb is looked for; keeps the time in proportion to the text."""

_STARTERS = frozenset(
    """a also although an because but every he her here his however i its it my neither never nor our she since so that
    the their then there therefore these they this those thus until we while yet you your
    """.split()  # noqa: SIM905
)
"""Words that begin a sentence and are no names in code: after `.` they need no space."""
_VERBS = frozenset(
    """are can could did do does had has have is may might must needs should was were will would""".split()  # noqa: SIM905
)
_BEFORE_NAMES = frozenset(
    """a also an and as at both by call calls for from had has have if in into because like of on or over set sets so
    than that the then through to type under use uses via when where whereas which while with without
    """.split()  # noqa: SIM905
)
"""Words before a name: in `the type of typing.Any is` the full stop stands inside one."""
_LAST_WORD = re.compile(r"(?:(?P<before>[^\s.]+)\s+)?(?P<last>[^\s.]+)\Z")
_FIRST_WORDS = re.compile(r"(?P<first>[^\W\d_]{1,16}+)(?:'[a-z]{1,2})?\s+(?P<second>[^\W\d_]{0,16}+)")


def count_sentences(text: str) -> int:
    """Return how many sentences a text has."""
    return sum(1 for _ in split_sentences(text))


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, with what ends each.

    A run of `.`, `!`, `?`, `…` or their equivalents in other scripts ends a sentence if white space or the end of the
    text follows, with closing quotes and brackets allowed between; `。`, `！` and `？` need no space. So the dots in
    `3.11`, `a.py` and `core.ids` end no sentence. Where the space was left out (`It fails.The cache is old.`), the
    words must show it: a capital letter follows, and begins a word that is no name in code (`The`, `It`), or there is
    a verb on both sides (`One is one.Two is two.`) and no word before it after which a name stands. These end none:

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
    for end in find_sentence_ends(text):
        if _CONTENT.search(text, start, end):
            yield text[start:end].strip()
        start = end
    if _CONTENT.search(text, start):
        yield text[start:].strip()


def find_sentence_ends(text: str) -> Iterator[int]:
    """Yield the offset after each end of a sentence and the white space that follows it."""
    start = 0
    for match in _ENDS.finditer(text):
        if _ends(text, start, match):
            start = match.end()
            yield start


def _ends(text: str, start: int, match: re.Match[str]) -> bool:
    run, closers, space = match.groups()
    stop, after = match.start(), match.end()
    if run[-1] in _ANYWHERE:
        return True
    if after == len(text):
        return True
    if not space:
        return _is_joined(text, start, match)
    following = text[after]
    if closers and following.islower():
        return False
    if run == ".":
        return not _abbreviates(text, start, stop, following)
    if not run.strip(".…"):
        return following.isupper()
    return True


def _is_joined(text: str, start: int, match: re.Match[str]) -> bool:
    """True if two sentences meet at a run of terminators without a space between them."""
    next_words = _FIRST_WORDS.match(text, match.end())
    if next_words is None:
        return False
    first, second = next_words["first"], next_words["second"]
    if not first[0].isupper() or not (len(first) == 1 or first[1:].islower()):
        return False
    clause = text[max(start, match.start() - _MAX_CLAUSE_CHARS) : match.start()]
    last_words = _LAST_WORD.search(clause)
    if last_words is None or clause.count("`") % 2 or "://" in clause.rsplit(maxsplit=1)[-1]:
        return False
    if first.lower() in _STARTERS:
        return len(last_words["last"]) > 1
    if not last_words["last"].islower() or not last_words["last"].isalpha():
        return False
    if match[1] != ".":
        return True
    before = (last_words["before"] or ",").lower()
    return (
        second in _VERBS
        and before not in _BEFORE_NAMES
        and before[-1] not in ",;:("
        and not _VERBS.isdisjoint(clause.lower().split()[:-1])
    )


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
