"""The keys an engram is found by, the same on every machine; docs/hash-keys.md defines them for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from engrambus.knowledge.engrams.words import MAX_KEY, Token, tokens

if TYPE_CHECKING:
    from engrambus.knowledge.engrams.values import Engram

KEY_FORMAT = 2
"""Number of the rules in docs/hash-keys.md that keys are made by; facts carry it. 1 was the S-stemmer."""

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
    reading = _Reading()
    reading.read(claim)
    for tag in tags:  # a tag is a key as a whole, and each of its words is one
        _add(reading.concepts, normalise_key(tag))
        reading.read(tag)
    pointed = _Reading()
    pointed.concepts = pointed.identifiers  # concepts and names that pointers lead to are listed as they come
    for ref in refs:
        for position, text in enumerate(_names(ref)):
            if not position:
                _add(pointed.identifiers, normalise_key(text))
            pointed.read(text)
    keys: dict[str, None] = {}  # a dict keeps the order, and the order decides which 32 keys are shown
    for text in own_keys:
        key = normalise_key(text)
        if key is not None:
            keys[key] = None
    sentences = [*reading.sentences, *pointed.sentences]
    _collect(keys, reading.concepts, reading.identifiers, pointed.identifiers, *sentences)
    _collect(keys, reading.joined, pointed.joined)
    if len(keys) <= MAX_KEYS:  # phrases only where there is room: single words find more
        _add_phrases(keys, sentences)
        return Keys(tuple(keys), ())
    ranked = tuple(keys)
    return Keys(ranked[:MAX_KEYS], tuple(key for key in ranked[MAX_KEYS:] if "+" not in key))


def renew_keys(engram: Engram, more_keys: Sequence[str], key_format: int) -> tuple[str, ...]:
    """Return the keys beyond `hash_keys` that a stored engram is found by, under the rules of every format.

    Keys of an older format are read again by today's rules, and so are the claim, the pointers and the tags; the stored
    keys stay.
    """
    if key_format >= KEY_FORMAT:
        return tuple(more_keys)
    refs = [pointer.ref for pointer in engram.pointers]
    keys = hash_keys(engram.claim, refs, engram.tags, engram.hash_keys)
    stored = {*engram.hash_keys, *more_keys}
    return (*more_keys, *(key for key in (*keys.public, *keys.extra) if key not in stored))


def query_keys(text: str) -> tuple[str, ...]:
    """Return the keys of a question in free text."""
    reading = _Reading()
    reading.read(text)
    keys: dict[str, None] = {}
    _collect(keys, reading.concepts, reading.identifiers, *reading.sentences, reading.joined)
    _add_phrases(keys, reading.sentences)
    return tuple(keys)[:MAX_KEYS]


def requested_keys(text: str) -> tuple[str, ...]:
    """Return the keys to look up for a key written by a person: itself, and a name of several words as one word."""
    key = normalise_key(text)
    if key is None:
        return ()
    meaningful = _meaningful(text)
    joined = meaningful[0].joined if len(meaningful) == 1 and meaningful[0].alone is not None else ()
    return tuple(dict.fromkeys((key, *(name for name in joined if len(name) <= MAX_KEY))))


def normalise_key(text: str) -> str | None:
    """Return a key written by a person in canonical form; None if nothing in it can be a key."""
    meaningful = _meaningful(text)
    if len(meaningful) == 1 and meaningful[0].alone is not None:
        key = meaningful[0].alone
    else:
        key = "+".join(word for token in meaningful for word in token.words)
    return key if 0 < len(key) <= MAX_KEY else None


def _meaningful(text: str) -> list[Token]:
    return [token for token in tokens(text) if token.words or token.alone]


def name_keys(refs: Iterable[str]) -> tuple[str, ...]:
    """Return the names pointers lead to, as keys: the file, the artifact, the entry, the page."""
    keys: dict[str, None] = {}
    for ref in refs:
        for text in _names(ref)[:1]:
            key = normalise_key(text)
            if key is not None:
                keys[key] = None
    return tuple(keys)


class _Reading:
    """The keys of texts, by their kind."""

    __slots__ = ("concepts", "identifiers", "joined", "sentences")

    def __init__(self) -> None:
        self.concepts: list[str] = []
        self.identifiers: list[str] = []
        self.joined: list[str] = []
        self.sentences: list[list[str]] = []

    def read(self, text: str) -> None:
        """Add the keys of a text."""
        sentence: list[str] = []
        for token in tokens(text):
            if token.concepts:
                self.concepts += token.concepts
            if token.identifiers:
                self.identifiers += token.identifiers
            if token.joined:
                self.joined += token.joined
            sentence += token.words
            if token.last and sentence:
                self.sentences.append(sentence)
                sentence = []
        if sentence:
            self.sentences.append(sentence)


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
