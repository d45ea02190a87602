"""The keys an engram is found by, the same on every machine; docs/hash-keys.md defines them for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engrambus.knowledge.engrams.words import MAX_KEY, tokens

MAX_KEYS = 32
"""Most keys an engram shows, and most keys of a question."""

MAX_PHRASE_WORDS = 5


class Keys(NamedTuple):
    """The keys of an engram."""

    public: tuple[str, ...]
    """The best 32, which the engram shows as its `hash_keys`."""
    extra: tuple[str, ...]
    """All further words, for the index only: every word of an engram can be found."""


def hash_keys(claim: str, refs: Iterable[str] = (), tags: Iterable[str] = (), own_keys: Iterable[str] = ()) -> Keys:
    """Return the keys of an engram: its author's own, then concepts and tags, names, words, and phrases of 2 to 5."""
    concepts: list[str] = []
    identifiers: list[str] = []
    sentences: list[list[str]] = []
    _read(claim, concepts, identifiers, sentences)
    for tag in tags:  # a tag is a key as a whole, and each of its words is one
        _add(concepts, normalise_key(tag))
        _read(tag, concepts, identifiers, sentences)
    names: list[str] = []
    for ref in refs:
        for position, text in enumerate(_names(ref)):
            if not position:
                _add(names, normalise_key(text))
            _read(text, names, names, sentences)
    keys: dict[str, None] = {}  # a dict keeps the order, and the order decides which 32 keys are shown
    for text in own_keys:
        key = normalise_key(text)
        if key is not None:
            keys[key] = None
    _collect(keys, concepts, identifiers, names, *sentences)
    if len(keys) <= MAX_KEYS:  # phrases only where there is room: single words find more
        _add_phrases(keys, sentences)
        return Keys(tuple(keys), ())
    ranked = tuple(keys)
    return Keys(ranked[:MAX_KEYS], tuple(key for key in ranked[MAX_KEYS:] if "+" not in key))


def query_keys(text: str) -> tuple[str, ...]:
    """Return the keys of a question in free text."""
    concepts: list[str] = []
    identifiers: list[str] = []
    sentences: list[list[str]] = []
    _read(text, concepts, identifiers, sentences)
    keys: dict[str, None] = {}
    _collect(keys, concepts, identifiers, *sentences)
    _add_phrases(keys, sentences)
    return tuple(keys)[:MAX_KEYS]


def normalise_key(text: str) -> str | None:
    """Return a key written by a person in canonical form; None if nothing in it can be a key."""
    meaningful = [token for token in tokens(text) if token.words or token.alone]
    if len(meaningful) == 1 and meaningful[0].alone is not None:
        key = meaningful[0].alone
    else:
        key = "+".join(word for token in meaningful for word in token.words)
    return key if 0 < len(key) <= MAX_KEY else None


def name_keys(refs: Iterable[str]) -> tuple[str, ...]:
    """Return the names pointers lead to, as keys: the file, the artifact, the entry, the page."""
    keys: dict[str, None] = {}
    for ref in refs:
        for text in _names(ref)[:1]:
            key = normalise_key(text)
            if key is not None:
                keys[key] = None
    return tuple(keys)


def _read(text: str, concepts: list[str], identifiers: list[str], sentences: list[list[str]]) -> None:
    sentence: list[str] = []
    for token in tokens(text):
        if token.concepts:
            concepts += token.concepts
        if token.identifiers:
            identifiers += token.identifiers
        sentence += token.words
        if token.last and sentence:
            sentences.append(sentence)
            sentence = []
    if sentence:
        sentences.append(sentence)


def _add(keys: list[str], key: str | None) -> None:
    if key is not None:
        keys.append(key)


def _collect(keys: dict[str, None], *groups: Sequence[str]) -> None:
    for group in groups:
        for key in group:
            if len(key) <= MAX_KEY:
                keys[key] = None


def _add_phrases(keys: dict[str, None], sentences: Sequence[Sequence[str]]) -> None:
    """Fill the keys up to `MAX_KEYS` with phrases, short ones first."""
    for length in range(2, MAX_PHRASE_WORDS + 1):
        for sentence in sentences:
            for start in range(len(sentence) - length + 1):
                if len(keys) >= MAX_KEYS:
                    return
                phrase = "+".join(sentence[start : start + length])
                if len(phrase) <= MAX_KEY:
                    keys[phrase] = None


def _names(ref: str) -> list[str]:
    """Return the texts in a pointer's ref that name something, the name of the target first."""
    scheme, _, address = ref.partition(":")
    if scheme == "artifact" and address.startswith("sha256:"):
        return []
    unpinned = address.rpartition("@")[0]
    if scheme == "sam":
        return [_decoded(unpinned)]
    if scheme == "test":
        file, *cases = _decoded(unpinned).split("::")
        return [file.rpartition("/")[2], *cases]
    if scheme == "url":
        host, _, path = unpinned.removeprefix("https://").partition("?")[0].partition("/")
        page = path.rpartition("/")[2]
        return [_decoded(page), host] if page else [host]
    path, _, fragment = unpinned.partition("#")
    headings = fragment.removeprefix("sec=").split("/") if scheme == "artifact" and fragment else []
    return [_decoded(path.rpartition("/")[2]), *map(_decoded, headings)]


def _decoded(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote  # few refs are encoded, and a put should not pay for the import

    return unquote(text)
