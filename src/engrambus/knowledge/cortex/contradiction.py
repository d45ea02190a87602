"""Detection of statements that contradict each other, from their words alone.

Two clauses must be about the same subject. Then they conflict when one asserts what the other denies, when they give
different quantities of the same measure, or different values of an attribute that can have only one. Doubtful cases
pass: a parent who is warned without cause stops reading warnings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from engrambus.knowledge.cortex.clause_parser import Clause, Quantity, parse_clauses
from engrambus.knowledge.cortex.lexicon import (
    COMPARATIVES,
    CONDITION_WORDS,
    DETERMINERS,
    EXCLUSIVE_VALUES,
    IRREGULAR_PARTICIPLES,
    LENIENT_REACTIONS,
    MULTI_VALUED,
    OWNERSHIP_VERBS,
    PREDICATE_STARTS,
    QUALIFIERS,
    SINGLE_VALUED,
    STOP_WORDS,
    STRICT_REACTIONS,
    SWITCHES,
    VALUE_MARKERS,
    VALUE_PREPOSITIONS,
    stem,
)
from engrambus.knowledge.cortex.values import Verdict

_SEVERITY: tuple[Verdict, ...] = ("clean", "potential_conflict", "conflict")

MIN_SHARED_STEMS = 2
"""Stems that two clauses must share before one can switch the other off."""
MAX_EXTRA_STEMS = 1
"""Stems beyond the number of shared ones that two clauses about the same subject may have."""
MAX_CLAUSES_PER_STEM = 8
"""Clauses compared for one stem, so that the time grows no faster than the length of a statement."""
MAX_VALUE_STEMS = 3


def find_conflicts(content: str, statements: Iterable[tuple[str, str]]) -> tuple[Verdict, tuple[str, ...]]:
    """Compare a content with statements, given as id and text; return the worst verdict and the conflicting ids."""
    verdicts = {name: contradicts(content, text) for name, text in statements}
    worst: Verdict = max(verdicts.values(), key=_SEVERITY.index, default="clean")
    return worst, tuple(name for name, verdict in verdicts.items() if verdict != "clean")


def contradicts(first: str, second: str) -> Verdict:
    """Compare two statements clause by clause, each with the most similar clause of the second statement."""
    candidates = parse_clauses(second)
    index: dict[str, list[int]] = {}
    for number, clause in enumerate(candidates):
        for word in clause.signs:
            numbers = index.setdefault(word, [])
            if len(numbers) < MAX_CLAUSES_PER_STEM:
                numbers.append(number)
    repeated = {clause.tokens for clause in candidates}
    worst: Verdict = "clean"
    for clause in parse_clauses(first):
        if clause.tokens in repeated:
            continue
        overlap = Counter(number for word in clause.signs for number in index.get(word, ()))
        if overlap:
            # Of equally similar clauses the shorter one is closer in meaning; the number makes the choice stable.
            best = max(overlap, key=lambda number: (overlap[number], -len(candidates[number].signs), -number))
            worst = max(worst, _compare(clause, candidates[best]), key=_SEVERITY.index)
    return worst


def _compare(first: Clause, second: Clause) -> Verdict:
    shared = set(first.stems) & set(second.stems)
    only_first, only_second = first.signs.keys() - second.signs.keys(), second.signs.keys() - first.signs.keys()
    opposed = _opposed(first, second)
    differing = _quantities_differ(first.quantities, second.quantities)
    if differing is None or not shared:
        return "clean"
    if opposed & QUALIFIERS and (differing or len(opposed) > 1 or only_first or only_second):
        return "clean"  # the soft limit and the hard limit are two things
    if only_first and only_second:
        agree = first.quantities == second.quantities and not opposed
        return "conflict" if agree and _exclude(first, second, only_first, only_second) else "clean"
    switched_off = sum(
        clause.signs[word] < 0
        for clause, extra in ((first, only_first), (second, only_second))
        for word in extra & SWITCHES
    )
    if switched_off and len(shared) < MIN_SHARED_STEMS:
        return "clean"  # what is off for the gateway is not the gateway
    negated = (len(opposed) + switched_off) % 2 and shared - opposed
    if not differing and not negated:
        return "clean"
    extra_stems = len(only_first | only_second)
    if extra_stems > len(shared) + MAX_EXTRA_STEMS:
        return "clean"  # they are about different things
    return "potential_conflict" if extra_stems > 1 else "conflict"


def _opposed(first: Clause, second: Clause) -> set[str]:
    """Return the stems that one clause asserts and the other denies."""
    opposed = set()
    for word in first.signs.keys() & second.signs.keys():
        differs = first.signs[word] != second.signs[word]
        if word in COMPARATIVES and word in first.sides and word in second.sides:
            differs ^= _swapped(first.sides[word], second.sides[word])
        if differs:
            opposed.add(word)
    return opposed


def _swapped(first: tuple[frozenset[str], frozenset[str]], second: tuple[frozenset[str], frozenset[str]]) -> bool:
    """True if the two things compared by a comparative stand in the opposite order."""
    if not first[0] or not second[0]:  # "after the upgrade, this happens" names only one side
        return False
    same_order = len(first[0] & second[0]) + len(first[1] & second[1])
    return len(first[0] & second[1]) + len(first[1] & second[0]) > same_order


def _quantities_differ(first: tuple[Quantity, ...], second: tuple[Quantity, ...]) -> bool | None:
    """True if one quantity differs; None if several do, because then the clauses are about different things."""
    differing = 0
    for quantity in first:
        comparable = [other for other in second if quantity.is_comparable(other)]
        differing += bool(comparable) and all(quantity.excludes(other) for other in comparable)
    return None if differing > 1 else bool(differing)


# decision 34: the rules below tell when two different values exclude each other. Everything but these values is the
# same in both clauses.


def _exclude(first: Clause, second: Clause, value: set[str], other_value: set[str]) -> bool:
    """True if `value`, found only in the first clause, and `other_value`, only in the second, exclude each other."""
    if max(len(value), len(other_value)) > MAX_VALUE_STEMS:
        return False
    if _reactions_differ(first, second, value, other_value):
        return True
    asserted = all(first.signs[word] > 0 for word in value) and all(second.signs[word] > 0 for word in other_value)
    if not asserted or not _is_contiguous(first, value) or not _is_contiguous(second, other_value):
        return False
    shared = {stem(name) for name in first.signs.keys() & second.signs.keys()}
    return (
        (_is_owner(first, value) and _is_owner(second, other_value))
        or (not MULTI_VALUED & shared and _are_exclusive(first, second, value, other_value, shared))
        or _only_holds_for(first, second, value)
        or _only_holds_for(second, first, other_value)
    )


def _is_contiguous(clause: Clause, value: set[str]) -> bool:
    """True if the words of a value follow each other, on one side of the verb."""
    indexes = [index for index, word in enumerate(clause.stems) if word in value]
    if not indexes or not all(following - index == 1 for index, following in pairwise(indexes)):
        return False
    tokens = _token_indexes(clause, value)
    return bool(tokens) and (PREDICATE_STARTS | VALUE_PREPOSITIONS).isdisjoint(clause.tokens[tokens[0] : tokens[-1]])


def _are_exclusive(first: Clause, second: Clause, value: set[str], other_value: set[str], shared: set[str]) -> bool:
    """True if both are values of an attribute that can have only one."""
    groups = {EXCLUSIVE_VALUES.get(word) for word in value} & {EXCLUSIVE_VALUES.get(word) for word in other_value}
    marked = _is_marked(first, value) and _is_marked(second, other_value)
    if marked and (groups - {None} or SINGLE_VALUED & shared):
        return True
    introduced = _introduction(first, value)
    if introduced is not None and introduced == _introduction(second, other_value):
        return True
    are_names = len(shared) > 1 and value <= first.names and other_value <= second.names
    at_end = _is_at_end(first, value) and _is_at_end(second, other_value)
    return are_names and (at_end or (marked and not _is_condition(first, value)))


def _token_indexes(clause: Clause, value: set[str]) -> list[int]:
    return [index for index, token in enumerate(clause.tokens) if stem(token) in value]


def _tokens_before(clause: Clause, value: set[str]) -> list[str]:
    """Return the tokens before a value, without determiners."""
    return [token for token in clause.tokens[: _token_indexes(clause, value)[0]] if token not in DETERMINERS]


def _is_marked(clause: Clause, value: set[str]) -> bool:
    """True if a value follows a word that introduces one, and is not the subject."""
    if clause.stems[0] in value:
        return False
    start = _token_indexes(clause, value)[0]
    return not VALUE_MARKERS.isdisjoint(clause.tokens[max(0, start - 2) : start])


def _introduction(clause: Clause, value: set[str]) -> tuple[str, str] | None:
    """Return the participle and the preposition before a value: *stored in* the cache, *built with* make."""
    tokens = _tokens_before(clause, value)
    if len(tokens) < 3 or tokens[-1] not in VALUE_PREPOSITIONS:
        return None
    verb, preposition = tokens[-2:]
    is_participle = (verb.endswith("ed") and len(verb) > 4) or verb in IRREGULAR_PARTICIPLES or preposition == "per"
    return (stem(verb), preposition) if is_participle and stem(verb) not in MULTI_VALUED else None


def _is_at_end(clause: Clause, value: set[str]) -> bool:
    return clause.stems[-1] in value and clause.stems[0] not in value and not _is_condition(clause, value)


def _is_condition(clause: Clause, value: set[str]) -> bool:
    """True if a value says under which condition the clause holds."""
    tokens = _tokens_before(clause, value)
    return bool(tokens) and tokens[-1] in CONDITION_WORDS


def _is_owner(clause: Clause, value: set[str]) -> bool:
    """True if the clause says that the value owns something."""
    verb = clause.stems[len(value) : len(value) + 1]
    return set(clause.stems[: len(value)]) == value and not OWNERSHIP_VERBS.isdisjoint(verb)


def _only_holds_for(first: Clause, second: Clause, value: set[str]) -> bool:
    """True if the first clause holds *only* for its value, and the second says the same of another value."""
    if "only" not in first.tokens or "only" in second.tokens or len(set(first.stems) & set(second.stems)) < 2:
        return False
    only, indexes = first.tokens.index("only"), _token_indexes(first, value)
    between = first.tokens[only + 1 : indexes[0]] if only < indexes[0] else first.tokens[indexes[-1] + 1 : only]
    return all(token in STOP_WORDS or token in VALUE_MARKERS for token in between)


def _reactions_differ(first: Clause, second: Clause, value: set[str], other_value: set[str]) -> bool:
    """True if one clause ignores what the other stops at."""
    reactions = {(word, first.signs[word]) for word in value}, {(word, second.signs[word]) for word in other_value}
    return any(mild <= LENIENT_REACTIONS and harsh <= STRICT_REACTIONS for mild, harsh in (reactions, reactions[::-1]))
