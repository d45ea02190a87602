"""A statement taken apart into what can be held against another: clauses of words with a sign, and amounts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from math import inf

import msgspec

from engrambus.knowledge.cortex.wording import (
    CLAUSES,
    COMPARED,
    COPULAS,
    FILLERS,
    FOREVER,
    NEGATIONS,
    NUMBERS,
    PERIODS,
    PHRASES,
    PLACING,
    SIGNS,
    UNITS,
    stem,
)

_TOKEN = re.compile(
    r"\d{1,30}(?:[.,:-]\d{1,9}){0,8}(?=[a-zµ]{0,3}\b|%)"  # a number, a version, a date, with or without a unit
    r"|v\d{1,9}(?:\.\d{1,9}){0,8}\b"
    r"|[a-zµ_/][\w./@+#-]{0,80}[\w+#]|[^\W\d_]"  # a word, a path, a name with dots
    r"|[=:%]|[,;()]|\.(?=\s|$)"
)
_NAME = re.compile(r"(?<=[a-z0-9,] )[A-Z][\w+#-]{0,80}|\b[A-Z][A-Z\d]{1,40}\b")
_IDENTIFIER = re.compile(r".*[/_.@\d].*")
_PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b")
_UNDONE = re.compile(r"(?:un(?!der|it|if)|non-)([a-z]{2,}(?:ed|able|ible))")
_POSSESSIVE = re.compile(r"['\u2019]s\b")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")
_CLOCK = re.compile(r"\d{1,2}:\d\d")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_PLAIN = re.compile(r"\d+(?:\.\d+)?")
_ABOUT = 0.2
REMEMBERED = 1024
LONGEST_BEFORE = 40
"""Words of a part that the next one may leave out."""


class Amount(msgspec.Struct, frozen=True):
    """A number with what it measures: all values from the least to the most are meant."""

    what: str
    """`time`, `size` or `share` for numbers with a unit, `clock` or `date`; empty for the others."""
    least: float
    most: float
    named: frozenset[str]
    """The telling words beside a number without a unit: port 8080, 3 replicas."""
    text: str = ""
    """A version, a date or a time as it is written."""

    def measures_the_same(self, other: Amount) -> bool:
        """Whether two amounts can be compared."""
        return self.what == other.what and (bool(self.what) or bool(self.named & other.named))

    def excludes(self, other: Amount) -> bool:
        """Whether no value is meant by both; of two bounds on the same side, whether they differ."""
        if self.text or other.text:
            return self.text != other.text
        if (self.least, other.least) == (-inf, -inf) or (self.most, other.most) == (inf, inf):
            return (self.least, self.most) != (other.least, other.most)
        return self.most < other.least or other.most < self.least


class Clause(msgspec.Struct, frozen=True):
    """One thing a statement says."""

    pieces: tuple[str, ...]
    words: tuple[str, ...]
    """The stems of its telling words, in order."""
    signs: dict[str, int]
    """For each telling word and each word with an opposite, 1 if it is said and -1 if it is denied."""
    amounts: tuple[Amount, ...]
    sides: dict[str, tuple[frozenset[str], frozenset[str]]]
    """What stands before and after a word that compares."""
    names: frozenset[str]
    """The stems of words that are written as names: with a capital inside a sentence, or as a path or an identifier."""


@lru_cache(REMEMBERED)
def read_statement(text: str) -> tuple[Clause, ...]:
    """The clauses of a statement."""
    said = _POSSESSIVE.sub("", text).replace("'", "").replace("\u2019", "")
    names = frozenset(stem(name.lower()) for name in _NAME.findall(said))
    pieces = _TOKEN.findall(_PHRASE.sub(lambda found: PHRASES[found.group()], said.lower()))
    parts = [_timed(part) for part in _parts(pieces) if part]
    return tuple(_clause(part, names) for part in _filled(parts))


def _timed(part: list[str]) -> list[str]:
    """A part that says how often as one that says how long after the last time: four times a day is every six hours."""
    for place, piece in enumerate(part):
        times = 1 if piece in ("once", "twice") else 2 if part[place + 1 : place + 2] == ["times"] else 0
        unit = part[place + times : place + times + 2]
        number = _number(piece, "") if times and len(unit) == 2 and unit[0] in _ONE else None
        what, seconds = UNITS.get(unit[1], ("", 0.0)) if number else ("", 0.0)
        if number and what == "time":
            return [*part[:place], "every", f"{seconds / number:.6f}", "s", *part[place + times + 2 :]]
    return part


def _filled(parts: list[list[str]]) -> Iterator[list[str]]:
    """Parts with what they leave out: it comes from the disk, (it comes) not from the network; (it is) never shared."""
    before: list[str] = []
    for part in parts:
        if len(part) > 1 and part[0] in NEGATIONS and len(before) <= LONGEST_BEFORE:
            yield [*before[: _left_out(before, part)], *part]
        else:
            yield part
            before = part


def _left_out(before: list[str], part: list[str]) -> int:
    """How much of what came before belongs to a part that begins with a denial as well."""
    if part[1] in PLACING and part[1] in before:
        return len(before) - 1 - before[::-1].index(part[1])
    places = [place for place, piece in enumerate(before) if piece in COPULAS]
    return places[0] + 1 if places and COPULAS.isdisjoint(part) else 0


def _parts(pieces: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for piece in pieces:
        if piece in ",;.()" or piece in CLAUSES:
            yield part
            part = []
        else:
            part += _split(piece)
    yield part


def _split(piece: str) -> list[str]:
    """A word like thread-safe as safe and thread: it is the former that is said or denied."""
    head, dash, tail = piece.rpartition("-")
    return [tail, head] if dash and piece not in SIGNS and tail in SIGNS else [piece]


def _clause(pieces: list[str], names: frozenset[str]) -> Clause:
    words: list[str] = []
    signs: dict[str, int] = {}
    amounts: list[Amount] = []
    sides: dict[str, int] = {}
    turned = 1
    for place, piece in enumerate(pieces):
        amount = _amount(pieces, place)
        if amount is not None:
            if turned > 0:  # what is denied is no amount
                amounts.append(amount)
            turned = 1
            continue
        if piece in NEGATIONS:
            if words and place == len(pieces) - 1:  # it caches nothing
                signs[words[-1]] = -signs.get(words[-1], 1)
            turned = -turned
            continue
        concept = _concept(pieces, place)
        if concept is not None:
            name, sign = concept
            signs[name] = signs.get(name, 1) * sign * turned
            if name in COMPARED:
                sides[name] = len(words)
        elif piece in FILLERS or piece[0].isdigit() or piece in "=:%" or (piece in UNITS and _counted(pieces, place)):
            if piece == "than":  # that is where the other side begins
                sides = dict.fromkeys(sides, len(words))
            continue
        else:
            undone = _UNDONE.fullmatch(piece)
            words.append(stem(undone.group(1) if undone else piece))
            signs[words[-1]] = signs.get(words[-1], 1) * (-turned if undone else turned)
        turned = 1
    parted = {
        name: (frozenset(words[:place]), frozenset(words[place:]))
        for name, place in sides.items()
        if 0 <= place < len(words)
    }
    for name in sides.keys() - parted.keys():  # after 30 seconds: nothing is compared
        del signs[name]
    written = names | {stem(piece) for piece in pieces if _IDENTIFIER.fullmatch(piece)}
    return Clause(tuple(pieces), tuple(words), signs, tuple(amounts), parted, written)


def _concept(pieces: list[str], place: int) -> tuple[str, int] | None:
    """What a word with an opposite says; `on` only where something is switched on."""
    piece = pieces[place]
    if piece in ("on", "up", "down"):
        before = pieces[place - 1] if place else ""
        after = pieces[place + 1] if place + 1 < len(pieces) else "for"
        if piece == "on":
            return ("enable", 1) if before in _SWITCHED and after in _AFTER_SWITCH else None
        return ("increase", 1 if piece == "up" else -1) if before in _WENT else None
    return SIGNS.get(piece)


_SWITCHED = frozenset({"is", "are", "was", "were", "turned", "switched", "be", "stays"})
_AFTER_SWITCH = frozenset({"for", "in", "by", "at", "during", "when"})
_WENT = frozenset({"went", "go", "goes", "gone", "is", "are"})


def _counted(pieces: list[str], place: int) -> bool:
    """Whether a unit belongs to the number before it."""
    return place > 0 and (pieces[place - 1][0].isdigit() or pieces[place - 1] in NUMBERS or pieces[place - 1] in _ONE)


_ONE = frozenset({"a", "an", "every", "each"})


def _amount(pieces: list[str], place: int) -> Amount | None:
    piece = pieces[place]
    after = pieces[place + 1] if place + 1 < len(pieces) else ""
    for pattern, what in ((_CLOCK, "clock"), (_DATE, "date")):
        if pattern.fullmatch(piece):
            return Amount(what, 0, 0, frozenset(), piece)
    if piece in FOREVER:
        return Amount("time", inf, inf, frozenset())
    if piece in PERIODS and (not after or after in FILLERS):
        return Amount("time", PERIODS[piece], PERIODS[piece], frozenset())
    number = _number(piece, after)
    named = _beside(pieces, place)
    if number is None:
        if piece[0].isdigit() or (piece[0] == "v" and piece[1:2].isdigit()):
            return Amount("", 0, 0, named, piece.removeprefix("v"))
        if piece in _ONE and after in UNITS and len(after) > 2 and after != "second":
            number = 1.0
        else:
            return None
    most = number
    if after in ("to", "-") and place + 2 < len(pieces) and _PLAIN.fullmatch(pieces[place + 2]):
        most = float(pieces[place + 2])
        after = pieces[place + 3] if place + 3 < len(pieces) else ""
    what, times = UNITS.get(after, ("", 1.0))
    least, most = _bounded(pieces, place, min(number, most) * times, max(number, most) * times)
    return Amount(what, least, most, frozenset() if what else named)


def _number(piece: str, after: str) -> float | None:
    if _PLAIN.fullmatch(piece):
        return float(piece)
    if _GROUPED.fullmatch(piece):
        return float(piece.replace(",", ""))
    if piece == "one" and (not after or after in FILLERS):
        return None
    return float(NUMBERS[piece]) if piece in NUMBERS else None


def _beside(pieces: list[str], place: int) -> frozenset[str]:
    """The nearest telling words before and after a number."""
    found = set()
    for step in (-1, 1):
        at = place + step
        while 0 <= at < len(pieces) and (pieces[at] in FILLERS or pieces[at] in "=:"):
            at += step
        if 0 <= at < len(pieces) and pieces[at] not in NEGATIONS:
            found.add(stem(pieces[at]))
    return frozenset(found)


_LOWER = ("at least", "above", "over", "more than", "minimum", "from")
_UPPER = ("at most", "up to", "below", "under", "less than", "fewer than", "maximum", "within")
_NEARLY = ("about", "around", "roughly", "approximately", "nearly", "~")


def _bounded(pieces: list[str], place: int, least: float, most: float) -> tuple[float, float]:
    before, after = " ".join(pieces[max(0, place - 2) : place]), " ".join(pieces[place + 1 : place + 5])
    if before.endswith(_NEARLY):
        return least * (1 - _ABOUT), most * (1 + _ABOUT)
    if before.endswith(_LOWER) or "or more" in after or "at least" in after:
        return least, inf
    if before.endswith(_UPPER) or "or less" in after or "at most" in after:
        return -inf, most
    return least, most
