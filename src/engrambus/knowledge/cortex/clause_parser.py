"""Parser of statements for the contradiction detector: clauses of significant words with a sign, and quantities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from math import inf

import msgspec

from engrambus.knowledge.cortex.lexicon import (
    CLAUSE_STARTS,
    COMPARATIVES,
    COPULAS,
    FOREVER,
    NEGATIONS,
    NUMBERS,
    OPPOSITES,
    PERIODS,
    PHRASES,
    STOP_WORDS,
    UNITS,
    VALUE_PREPOSITIONS,
    stem,
)

# Every repetition is bounded, so that no statement takes more than linear time.
_TOKEN = re.compile(
    r"\d{1,30}(?:[.,:-]\d{1,9}){0,8}(?=[a-zµ]{0,3}\b|%)"  # a number, a version, a date, with or without a unit
    r"|v\d{1,9}(?:\.\d{1,9}){0,8}\b"
    r"|[a-zµ_/][\w./@+#-]{0,80}[\w+#]|[^\W\d_]"  # a word, a path, a name with dots
    r"|[=:%]|[,;()]|\.(?=\s|$)"
)
_NAME = re.compile(r"(?<=[a-z0-9,] )[A-Z][\w+#-]{0,80}|\b[A-Z][A-Z\d]{1,40}\b")
_IDENTIFIER = re.compile(r".*[/_.@\d].*")
_PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b")
_NEGATED_WORD = re.compile(r"(?:un(?!der|it|if)|non-)([a-z]{2,}(?:ed|able|ible))")
_POSSESSIVE = re.compile(r"['\u2019]s\b")
_GROUPED_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+")
_CLOCK_TIME = re.compile(r"\d{1,2}:\d\d")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")

_ROUNDING = 0.2
"""`about 10` means 8 to 12."""
CACHE_SIZE = 1024
"""Parsed statements that are remembered: the pins are compared with every contribution."""
MAX_INHERITED_TOKENS = 40
"""Length of a part whose beginning the next part may leave out."""

_ARTICLES = frozenset({"a", "an", "every", "each"})
_BEFORE_ON = frozenset({"is", "are", "was", "were", "turned", "switched", "be", "stays"})
_AFTER_ON = frozenset({"for", "in", "by", "at", "during", "when"})
_BEFORE_UP_OR_DOWN = frozenset({"went", "go", "goes", "gone", "is", "are"})
_LOWER_BOUND = ("at least", "above", "over", "more than", "minimum", "from")
_UPPER_BOUND = ("at most", "up to", "below", "under", "less than", "fewer than", "maximum", "within")
_APPROXIMATION = ("about", "around", "roughly", "approximately", "nearly", "~")


class Quantity(msgspec.Struct, frozen=True):
    """A number with its measure; it stands for all values from `low` to `high`."""

    measure: str
    """`time`, `size` or `share` for numbers with a unit, `clock` or `date`; empty for others."""
    low: float
    high: float
    neighbours: frozenset[str]
    """Stems next to a number without a unit: port 8080, 3 replicas."""
    text: str = ""
    """A version, a date or a time of day as written."""

    def is_comparable(self, other: Quantity) -> bool:
        """True if both measure the same."""
        return self.measure == other.measure and (bool(self.measure) or bool(self.neighbours & other.neighbours))

    def excludes(self, other: Quantity) -> bool:
        """True if the ranges do not overlap; two bounds on the same side exclude each other if they differ."""
        if self.text or other.text:
            return self.text != other.text
        if (self.low, other.low) == (-inf, -inf) or (self.high, other.high) == (inf, inf):
            return (self.low, self.high) != (other.low, other.high)
        return self.high < other.low or other.high < self.low


class Clause(msgspec.Struct, frozen=True):
    """One assertion of a statement."""

    tokens: tuple[str, ...]
    stems: tuple[str, ...]
    """The stems of its significant words, in order."""
    signs: dict[str, int]
    """1 for each stem or concept that the clause asserts, -1 for each that it denies."""
    quantities: tuple[Quantity, ...]
    sides: dict[str, tuple[frozenset[str], frozenset[str]]]
    """The stems before and after each comparative."""
    names: frozenset[str]
    """The stems of words written as names: with a capital inside a sentence, or as a path or an identifier."""


@lru_cache(CACHE_SIZE)
def parse_clauses(text: str) -> tuple[Clause, ...]:
    """Parse the clauses of a statement."""
    plain = _POSSESSIVE.sub("", text).replace("'", "").replace("\u2019", "")
    names = frozenset(stem(name.lower()) for name in _NAME.findall(plain))
    tokens = _TOKEN.findall(_PHRASE.sub(lambda match: PHRASES[match.group()], plain.lower()))
    parts = [_frequency_as_interval(part) for part in _split_parts(tokens) if part]
    return tuple(_parse_clause(part, names) for part in _complete(parts))


def _split_parts(tokens: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in tokens:
        if word in ",;.()" or word in CLAUSE_STARTS:
            yield part
            part = []
        else:
            part += _split_compound(word)
    yield part


def _split_compound(word: str) -> list[str]:
    """Split thread-safe into safe and thread, because only the former is asserted or denied."""
    head, dash, tail = word.rpartition("-")
    return [tail, head] if dash and word not in OPPOSITES and tail in OPPOSITES else [word]


def _frequency_as_interval(part: list[str]) -> list[str]:
    """Write a frequency as an interval: four times a day is every six hours."""
    # decision 34: nightly, every six hours and four times a day must be comparable.
    for index, word in enumerate(part):
        width = 1 if word in ("once", "twice") else 2 if part[index + 1 : index + 2] == ["times"] else 0
        unit = part[index + width : index + width + 2]
        count = _parse_number(word, "") if width and len(unit) == 2 and unit[0] in _ARTICLES else None
        measure, seconds = UNITS.get(unit[1], ("", 0.0)) if count else ("", 0.0)
        if count and measure == "time":
            return [*part[:index], "every", f"{seconds / count:.6f}", "s", *part[index + width + 2 :]]
    return part


def _complete(parts: list[list[str]]) -> Iterator[list[str]]:
    """Add what a negated part leaves out: it comes from the disk, (it comes) not from the network."""
    # decision 34: without this, "not from the network" would deny the network itself.
    previous: list[str] = []
    for part in parts:
        if len(part) > 1 and part[0] in NEGATIONS and len(previous) <= MAX_INHERITED_TOKENS:
            yield [*previous[: _inherited_tokens(previous, part)], *part]
        else:
            yield part
            previous = part


def _inherited_tokens(previous: list[str], part: list[str]) -> int:
    """Return the number of tokens of the previous part that also belong to a part beginning with a negation."""
    if part[1] in VALUE_PREPOSITIONS and part[1] in previous:
        return len(previous) - 1 - previous[::-1].index(part[1])
    copulas = [index for index, word in enumerate(previous) if word in COPULAS]
    return copulas[0] + 1 if copulas and COPULAS.isdisjoint(part) else 0


def _parse_clause(tokens: list[str], names: frozenset[str]) -> Clause:
    stems: list[str] = []
    signs: dict[str, int] = {}
    quantities: list[Quantity] = []
    boundaries: dict[str, int] = {}  # comparative -> index of the first stem on its other side
    sign = 1
    for index, word in enumerate(tokens):
        quantity = _parse_quantity(tokens, index)
        if quantity is not None:
            if sign > 0:  # a denied quantity says nothing about the actual one
                quantities.append(quantity)
            sign = 1
            continue
        if word in NEGATIONS:
            if stems and index == len(tokens) - 1:  # "it caches nothing"
                signs[stems[-1]] = -signs.get(stems[-1], 1)
            sign = -sign
            continue
        concept = _find_concept(tokens, index)
        if concept is not None:
            name, concept_sign = concept
            signs[name] = signs.get(name, 1) * concept_sign * sign
            if name in COMPARATIVES:
                boundaries[name] = len(stems)
        elif _is_insignificant(tokens, index):
            if word == "than":  # the other side of the comparison begins
                boundaries = dict.fromkeys(boundaries, len(stems))
            continue
        else:
            negated = _NEGATED_WORD.fullmatch(word)
            stems.append(stem(negated.group(1) if negated else word))
            signs[stems[-1]] = signs.get(stems[-1], 1) * (-sign if negated else sign)
        sign = 1
    sides = {
        name: (frozenset(stems[:boundary]), frozenset(stems[boundary:]))
        for name, boundary in boundaries.items()
        if 0 <= boundary < len(stems)
    }
    for name in boundaries.keys() - sides.keys():  # "after 30 seconds" compares nothing
        del signs[name]
    identifiers = {stem(word) for word in tokens if _IDENTIFIER.fullmatch(word)}
    return Clause(tuple(tokens), tuple(stems), signs, tuple(quantities), sides, names | identifiers)


def _is_insignificant(tokens: list[str], index: int) -> bool:
    word = tokens[index]
    is_unit = word in UNITS and _is_counted(tokens, index)
    return word in STOP_WORDS or word[0].isdigit() or word in "=:%" or is_unit


def _find_concept(tokens: list[str], index: int) -> tuple[str, int] | None:
    """Return the concept and the sign of a word that has an opposite; `on` counts only as the opposite of off."""
    word = tokens[index]
    if word in ("on", "up", "down"):
        previous = tokens[index - 1] if index else ""
        following = tokens[index + 1] if index + 1 < len(tokens) else "for"
        if word == "on":
            return ("enable", 1) if previous in _BEFORE_ON and following in _AFTER_ON else None
        return ("increase", 1 if word == "up" else -1) if previous in _BEFORE_UP_OR_DOWN else None
    return OPPOSITES.get(word)


def _is_counted(tokens: list[str], index: int) -> bool:
    """True if a unit belongs to the number before it."""
    previous = tokens[index - 1] if index else ""
    return bool(previous) and (previous[0].isdigit() or previous in NUMBERS or previous in _ARTICLES)


def _parse_quantity(tokens: list[str], index: int) -> Quantity | None:
    word = tokens[index]
    following = tokens[index + 1] if index + 1 < len(tokens) else ""
    for pattern, measure in ((_CLOCK_TIME, "clock"), (_DATE, "date")):
        if pattern.fullmatch(word):
            return Quantity(measure, 0, 0, frozenset(), word)
    if word in FOREVER:
        return Quantity("time", inf, inf, frozenset())
    if word in PERIODS and (not following or following in STOP_WORDS):
        return Quantity("time", PERIODS[word], PERIODS[word], frozenset())
    number = _parse_number(word, following)
    neighbours = _neighbours(tokens, index)
    if number is None:
        if word[0].isdigit() or (word[0] == "v" and word[1:2].isdigit()):
            return Quantity("", 0, 0, neighbours, word.removeprefix("v"))
        if word in _ARTICLES and following in UNITS and len(following) > 2 and following != "second":
            number = 1.0
        else:
            return None
    range_end = number
    if following in ("to", "-") and index + 2 < len(tokens) and _NUMBER.fullmatch(tokens[index + 2]):
        range_end = float(tokens[index + 2])
        following = tokens[index + 3] if index + 3 < len(tokens) else ""
    measure, factor = UNITS.get(following, ("", 1.0))
    low, high = _bounds(tokens, index, min(number, range_end) * factor, max(number, range_end) * factor)
    return Quantity(measure, low, high, frozenset() if measure else neighbours)


def _parse_number(word: str, following: str) -> float | None:
    if _NUMBER.fullmatch(word):
        return float(word)
    if _GROUPED_NUMBER.fullmatch(word):
        return float(word.replace(",", ""))
    if word == "one" and (not following or following in STOP_WORDS):
        return None
    return float(NUMBERS[word]) if word in NUMBERS else None


def _neighbours(tokens: list[str], index: int) -> frozenset[str]:
    """Return the stems of the nearest significant words before and after a number."""
    stems = set()
    for step in (-1, 1):
        neighbour = index + step
        while 0 <= neighbour < len(tokens) and (tokens[neighbour] in STOP_WORDS or tokens[neighbour] in "=:"):
            neighbour += step
        if 0 <= neighbour < len(tokens) and tokens[neighbour] not in NEGATIONS:
            stems.add(stem(tokens[neighbour]))
    return frozenset(stems)


def _bounds(tokens: list[str], index: int, low: float, high: float) -> tuple[float, float]:
    """Widen a range by the words around it: at least, up to, about."""
    preceding, following = " ".join(tokens[max(0, index - 2) : index]), " ".join(tokens[index + 1 : index + 5])
    if preceding.endswith(_APPROXIMATION):
        return low * (1 - _ROUNDING), high * (1 + _ROUNDING)
    if preceding.endswith(_LOWER_BOUND) or "or more" in following or "at least" in following:
        return low, inf
    if preceding.endswith(_UPPER_BOUND) or "or less" in following or "at most" in following:
        return -inf, high
    return low, high
