"""Whether what differs between two clauses excludes each other, where all the rest is the same.

The value of something that has one: its owner, its format, where it is kept, what it is called. What only one may do,
and another does. What one lets pass, and the other stops at.
"""

from __future__ import annotations

from itertools import pairwise

from engrambus.knowledge.cortex.statements import Clause
from engrambus.knowledge.cortex.wording import (
    ARTICLES,
    FILLERS,
    IRREGULAR,
    LETS_PASS,
    MANY,
    NARROWING,
    OPENERS,
    OWNING,
    PARTING,
    PLACING,
    SLOTS,
    STOPS_AT,
    VALUES,
    stem,
)

LONGEST_VALUE = 3


def excludes(one: Clause, other: Clause, left: set[str], right: set[str]) -> bool:
    """Whether `left`, which only the one says, and `right`, which only the other says, exclude each other."""
    if max(len(left), len(right)) > LONGEST_VALUE:
        return False
    if _handled_otherwise(one, other, left, right):
        return True
    said = all(one.signs[word] > 0 for word in left) and all(other.signs[word] > 0 for word in right)
    if not said or not _stand_together(one, left) or not _stand_together(other, right):
        return False
    shared = {stem(name) for name in one.signs.keys() & other.signs.keys()}
    return (
        (_owns(one, left) and _owns(other, right))
        or (not MANY & shared and _other_value(one, other, left, right, shared))
        or _only_one(one, other, left, right)
        or _only_one(other, one, right, left)
    )


def _stand_together(clause: Clause, value: set[str]) -> bool:
    """Whether words stand beside each other, on the same side of what is said of a thing."""
    places = [place for place, word in enumerate(clause.words) if word in value]
    if not places or not all(after - at == 1 for at, after in pairwise(places)):
        return False
    where = _where(clause, value)
    return bool(where) and (PARTING | PLACING).isdisjoint(clause.pieces[where[0] : where[-1]])


def _other_value(one: Clause, other: Clause, left: set[str], right: set[str], shared: set[str]) -> bool:
    """Whether they are values of something that has one."""
    kinds = {VALUES.get(word) for word in left} & {VALUES.get(word) for word in right}
    placed = _announced(one, left) and _announced(other, right)
    if placed and (kinds - {None} or SLOTS & shared):
        return True
    if _placed_by(one, left) is not None and _placed_by(one, left) == _placed_by(other, right):
        return True
    named = len(shared) > 1 and left <= one.names and right <= other.names
    return named and ((_at_end(one, left) and _at_end(other, right)) or (placed and not _narrows(one, left)))


def _where(clause: Clause, value: set[str]) -> list[int]:
    return [place for place, piece in enumerate(clause.pieces) if stem(piece) in value]


def _announced(clause: Clause, value: set[str]) -> bool:
    """Whether a value stands behind a word that announces one, and not first."""
    if clause.words[0] in value:
        return False
    where = _where(clause, value)
    before = clause.pieces[max(0, where[0] - 2) : where[0]]
    return not OPENERS.isdisjoint(before)


def _placed_by(clause: Clause, value: set[str]) -> tuple[str, str] | None:
    """What is done and by which word the value is brought in: it is *stored in* the cache, *built with* make."""
    before = [piece for piece in clause.pieces[: _where(clause, value)[0]] if piece not in ARTICLES]
    if len(before) < 3 or before[-1] not in PLACING:
        return None
    done = before[-2]
    is_done = (done.endswith("ed") and len(done) > 4) or done in IRREGULAR or before[-1] == "per"
    return (stem(done), before[-1]) if is_done and stem(done) not in MANY else None


def _at_end(clause: Clause, value: set[str]) -> bool:
    return clause.words[-1] in value and clause.words[0] not in value and not _narrows(clause, value)


def _narrows(clause: Clause, value: set[str]) -> bool:
    """Whether a value says for what all the rest holds."""
    before = [piece for piece in clause.pieces[: _where(clause, value)[0]] if piece not in ARTICLES]
    return bool(before) and before[-1] in NARROWING


def _owns(clause: Clause, value: set[str]) -> bool:
    """Whether it says who owns something."""
    return set(clause.words[: len(value)]) == value and not OWNING.isdisjoint(clause.words[len(value) : len(value) + 1])


def _only_one(one: Clause, other: Clause, left: set[str], right: set[str]) -> bool:
    """Whether the one holds only for what it names, and the other says it of something else."""
    if "only" not in one.pieces or "only" in other.pieces or len(set(one.words) & set(other.words)) < 2:
        return False
    only, where = one.pieces.index("only"), _where(one, left)
    between = one.pieces[only + 1 : where[0]] if only < where[0] else one.pieces[where[-1] + 1 : only]
    return all(piece in FILLERS or piece in OPENERS for piece in between)


def _handled_otherwise(one: Clause, other: Clause, left: set[str], right: set[str]) -> bool:
    """Whether the one lets pass what the other stops at."""
    said = {(word, one.signs[word]) for word in left}, {(word, other.signs[word]) for word in right}
    return any(mild <= LETS_PASS and harsh <= STOPS_AT for mild, harsh in (said, said[::-1]))
