"""When two statements cannot both hold, told without a model.

They must be about the same thing. Then they conflict when one says what the other denies, when they give different
amounts of the same, or when they give different values for something that has one. What is in doubt is left alone: a
parent who is warned for nothing stops reading warnings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from engrambus.knowledge.cortex.contributions import Verdict
from engrambus.knowledge.cortex.exclusion import excludes
from engrambus.knowledge.cortex.statements import Amount, Clause, read_statement
from engrambus.knowledge.cortex.wording import COMPARED, KINDS_OF_ONE, WHETHER_AT_ALL

_SEVERITY: tuple[Verdict, ...] = ("clean", "potential_conflict", "conflict")

TOLD_BY = 2
"""Words two clauses share at the least for the one to be what the other switches off."""
ASIDE = 1
"""How many more words than they share one of two clauses may have beside what the other says."""
LOOKED_UP = 8
"""Clauses looked at for one word: the time taken grows with the length of a statement and no faster."""


def find_conflicts(content: str, held: Iterable[tuple[str, str]]) -> tuple[Verdict, tuple[str, ...]]:
    """The worst verdict of a content against statements, each with an id, and the ids it is about."""
    found = {name: contradicts(content, text) for name, text in held}
    worst: Verdict = max(found.values(), key=_SEVERITY.index, default="clean")
    return worst, tuple(name for name, verdict in found.items() if verdict != "clean")


def contradicts(one: str, other: str) -> Verdict:
    """Whether two statements contradict each other: clause by clause, each against the one most like it."""
    clauses, others = read_statement(one), read_statement(other)
    index: dict[str, list[int]] = {}
    for number, clause in enumerate(others):
        for word in clause.signs:
            places = index.setdefault(word, [])
            if len(places) < LOOKED_UP:
                places.append(number)
    same = {clause.pieces for clause in others}
    worst: Verdict = "clean"
    for clause in clauses:
        if clause.pieces in same:
            continue
        alike = Counter(number for word in clause.signs for number in index.get(word, ()))
        if alike:
            best = max(alike, key=lambda number: (alike[number], -len(others[number].signs), -number))
            worst = max(worst, _compare(clause, others[best]), key=_SEVERITY.index)
    return worst


def _compare(one: Clause, other: Clause) -> Verdict:
    shared = set(one.words) & set(other.words)
    left, right = one.signs.keys() - other.signs.keys(), other.signs.keys() - one.signs.keys()
    opposed = _opposed(one, other)
    differing = _differing(one.amounts, other.amounts)
    if differing is None or not shared:
        return "clean"
    if opposed & KINDS_OF_ONE and (differing or len(opposed) > 1 or left or right):
        return "clean"  # the soft limit and the hard one are two things
    if left and right:
        alike = one.amounts == other.amounts and not opposed
        return "conflict" if alike and excludes(one, other, left, right) else "clean"
    denied = sum(
        clause.signs[word] < 0 for clause, more in ((one, left), (other, right)) for word in more & WHETHER_AT_ALL
    )
    if denied and len(shared) < TOLD_BY:
        return "clean"  # what is off for the gateway is not the gateway
    turned = (len(opposed) + denied) % 2 and shared - opposed
    if not differing and not turned:
        return "clean"
    if len(left | right) > len(shared) + ASIDE:
        return "clean"  # they are about different things
    return "potential_conflict" if len(left | right) > 1 else "conflict"


def _opposed(one: Clause, other: Clause) -> set[str]:
    """What one says and the other denies."""
    found = set()
    for word in one.signs.keys() & other.signs.keys():
        unlike = one.signs[word] != other.signs[word]
        if word in COMPARED and word in one.sides and word in other.sides:
            unlike ^= _swapped(one.sides[word], other.sides[word])
        if unlike:
            found.add(word)
    return found


def _swapped(one: tuple[frozenset[str], frozenset[str]], other: tuple[frozenset[str], frozenset[str]]) -> bool:
    if not one[0] or not other[0]:  # after the upgrade, this happens: only one side is named
        return False
    straight = len(one[0] & other[0]) + len(one[1] & other[1])
    return len(one[0] & other[1]) + len(one[1] & other[0]) > straight


def _differing(amounts: tuple[Amount, ...], others: tuple[Amount, ...]) -> bool | None:
    """Whether one amount differs; None when several do, for then two different things are told of."""
    unlike = 0
    for amount in amounts:
        comparable = [each for each in others if amount.measures_the_same(each)]
        unlike += bool(comparable) and all(amount.excludes(each) for each in comparable)
    return None if unlike > 1 else bool(unlike)
