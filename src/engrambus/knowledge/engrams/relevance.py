"""Relevance: which engrams fit a prompt, a task or an edit well enough to be shown unasked.

A query shows the best of what there is; what an agent has not asked for is shown only if it fits well (decision 78). An
engram fits if it points at a file that the text names, or if enough of its words are in the text: their weights, more
for a rare word than for a common one, and the share of the claim that they make up. What was learned from the
repository fits by its words or by the edited lines only, and comes after what people and agents stated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engrambus.evidence.pointers import RepoAddress, parse_ref, pointed_path
from engrambus.knowledge.engrams.keys import name_keys
from engrambus.knowledge.engrams.ports import EVERYTHING, VisibleStore
from engrambus.knowledge.engrams.recall_lines import PathLines, parse_path_lines
from engrambus.knowledge.engrams.values import Engram, has_evidence, is_learned
from engrambus.knowledge.engrams.words import Token, tokens

MAX_TEXT_CHARS = 8000
"""Characters of a text that are read; a prompt with a long paste says first what it is about."""
MAX_WORDS = 96
"""Different words of a text that are looked up."""
MAX_PATHS = 16
"""Files named in a text that are looked up."""
DEPTH = 64
"""Newest engrams that are read for a word; a hook must not wait for more."""
MAX_FITS = 24
"""Engrams that are considered; the states of their evidence are worked out after this."""
LEAST_COUNT = 16
"""Engrams that a store counts as having at least, so that in a new project not every word is rare."""
NAME_WEIGHT = 2
"""A name from the code, such as `vendor_client`, says more than a word: its weight counts so many times."""
MIN_SCORE = 10
MIN_WORDS = 2
MIN_SHARE = 0.3
"""Least weight, number and share of the claim's words; measured, docs/recall.md."""

_PATH = re.compile(r"(?<![\w/.@-])(?:[\w.@-]+/)*[\w@][\w.@-]*(?::(\d{1,7})(?:-(\d{1,7}))?)?")


class Fit(NamedTuple):
    """An engram that fits, and how well."""

    engram: Engram
    score: int
    """Weight of what it shares with the text; ranks those that fit."""
    is_named: bool
    """True if it points at a file that is named or edited."""
    overlaps: bool
    """True if it points at the lines that are named or edited, as far as its own lines are where they were."""


def named_paths(text: str) -> list[PathLines]:
    """Return the files that a text names: what has a slash or an extension, if it is a file shows the store."""
    places: dict[PathLines, None] = {}
    for match in _PATH.finditer(text[:MAX_TEXT_CHARS]):
        name = match[0].rstrip(".")
        if "/" in name or "." in name.partition(":")[0].strip("."):
            places[parse_path_lines(name)] = None
            if len(places) == MAX_PATHS:
                break
    return list(places)


def fit_text(stores: Sequence[VisibleStore], text: str, paths: Sequence[PathLines] = ()) -> list[Fit]:
    """Return the engrams that fit a text and the files it is about, the best first."""
    trusted = [store for store in stores if not store.is_untrusted]  # decision 68
    text = text[:MAX_TEXT_CHARS]
    places = [*paths, *named_paths(text)]
    words, names = _words(tokens(text))
    matched: dict[str, _Match] = {}
    total = max(LEAST_COUNT, sum(len(_postings(store, EVERYTHING)) for store in trusted))
    for word in [*names, *words][:MAX_WORDS]:
        postings = [(store, _postings(store, word)) for store in trusted]
        count = sum(len(ordinals) for _, ordinals in postings)
        weight = max(1, (min(total, DEPTH) // max(1, count)).bit_length()) * (NAME_WEIGHT if word in names else 1)
        for store, ordinals in postings:
            for ordinal in ordinals:
                match = matched.setdefault(f"{id(store.reads)}/{ordinal}", _Match(store, ordinal))
                match.weights[word] = weight
    best = sorted(matched.values(), key=lambda match: -match.score)[:MAX_FITS]
    fits = [
        _fit(engram, match.score, places)
        for match in best
        for engram in match.store.reads.engrams((match.ordinal,))
        if _fits_words(engram, match.weights)
    ]
    fit_ids = {fit.engram.id for fit in fits}
    scores = {(id(match.store.reads), match.ordinal): match.score for match in matched.values()}
    for store, ordinal, engram in _pointing_at(trusted, places):
        if engram.id not in fit_ids and not is_learned(engram):
            fit_ids.add(engram.id)
            fits.append(_fit(engram, scores.get((id(store.reads), ordinal), 0), places))
    return _best_first(fits)


def fit_before_edit(stores: Sequence[VisibleStore], paths: Sequence[PathLines]) -> list[Fit]:
    """Return the engrams that point at files about to be edited: those at the edited lines first, then the newest."""
    trusted = [store for store in stores if not store.is_untrusted]
    fits = {engram.id: _fit(engram, ordinal, paths) for _, ordinal, engram in _pointing_at(trusted, paths)}
    return _best_first([fit for fit in fits.values() if fit.overlaps or not is_learned(fit.engram)])


def overlaps(ref: str, places: Iterable[PathLines]) -> bool:
    """True if a pointer leads to lines that are named; one to a whole file overlaps with no lines in particular."""
    path = _path(ref)
    lines = _lines(ref)
    return lines is not None and any(
        place.has_lines
        and path is not None
        and _is_at(path, place.path)
        and place.first <= lines[1]
        and lines[0] <= place.last
        for place in places
    )


class _Match:
    """The words of a text that an engram was found by."""

    def __init__(self, store: VisibleStore, ordinal: int) -> None:
        self.store, self.ordinal = store, ordinal
        self.weights: dict[str, int] = {}

    @property
    def score(self) -> int:
        return sum(self.weights.values())


def _fits_words(engram: Engram, weights: dict[str, int]) -> bool:
    """True if an engram shares enough with a text to be shown unasked."""
    claim_words, claim_names = _words(tokens(engram.claim))
    in_claim = {*claim_words, *claim_names}
    shared = [word for word in weights if word in in_claim]
    score = sum(weights[word] for word in shared)
    return (
        has_evidence(engram)
        and len(shared) >= MIN_WORDS
        and score >= MIN_SCORE
        and len(shared) / max(1, len(in_claim)) >= MIN_SHARE
    )


def _words(text_tokens: Sequence[Token]) -> tuple[dict[str, None], dict[str, None]]:
    """Return the words of a text, and the names from the code in it, each once and in order."""
    words = dict.fromkeys(word for token in text_tokens for word in token.words)
    names = dict.fromkeys(name for token in text_tokens for name in (*token.concepts, *token.identifiers))
    return {word: None for word in words if word not in names}, names


def _postings(store: VisibleStore, key: str) -> Sequence[int]:
    return store.reads.postings(store.spaces, key, kind=None, limit=DEPTH)


def _pointing_at(stores: Sequence[VisibleStore], places: Sequence[PathLines]) -> list[tuple[VisibleStore, int, Engram]]:
    """Return the engrams with evidence that point at one of these files, the newest first."""
    pointing = []
    keys = name_keys(f"repo:{place.path}@" for place in places[:MAX_PATHS])
    for store in stores:
        ordinals = dict.fromkeys(ordinal for key in keys for ordinal in _postings(store, key))
        newest = sorted(ordinals, reverse=True)
        for ordinal, engram in zip(newest, store.reads.engrams(newest), strict=True):
            if has_evidence(engram) and _is_named(engram, places):
                pointing.append((store, ordinal, engram))
    return pointing


def _fit(engram: Engram, score: int, places: Sequence[PathLines]) -> Fit:
    at_lines = any(overlaps(pointer.ref, places) for pointer in engram.pointers)
    return Fit(engram, score, _is_named(engram, places), at_lines)


def _best_first(fits: list[Fit]) -> list[Fit]:
    return sorted(fits, key=_order)[:MAX_FITS]


def _order(fit: Fit) -> tuple[bool, bool, bool, int, str]:
    return (not fit.overlaps, is_learned(fit.engram), not fit.is_named, -fit.score, fit.engram.id)


def _is_named(engram: Engram, places: Sequence[PathLines]) -> bool:
    paths = [path for pointer in engram.pointers if (path := _path(pointer.ref)) is not None]
    return any(_is_at(path, place.path) for path in paths for place in places)


def _is_at(path: str, named: str) -> bool:
    return path == named or (bool(named) and path.endswith(f"/{named}"))


def _path(ref: str) -> str | None:
    path = pointed_path(ref)
    if path is None or "%" not in path:
        return path
    from urllib.parse import unquote  # few refs are encoded

    return unquote(path)


def _lines(ref: str) -> tuple[int, int] | None:
    address = parse_ref(ref)
    return address.lines if isinstance(address, RepoAddress) else None
