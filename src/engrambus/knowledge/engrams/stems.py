"""From an English word to its stem; docs/hash-keys.md is the definition.

Porter's algorithm of 1980 with the two corrections that its author published later (`-bli`, `-logi`). Stems are stored
with every engram, so the algorithm is part of this project: a library could change it (decision 86).
"""

from __future__ import annotations

from functools import lru_cache

MIN_STEMMED_CHARS = 3
MAX_STEMMED_CHARS = 64
"""Shorter words have no ending, longer ones are data."""

_SHAPES = str.maketrans("abcdefghijklmnopqrstuvwxz", "vcccvcccvcccccvcccccvcccc")  # `y` is decided by its neighbour

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = frozenset(
    "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize".split()  # noqa: SIM905
)


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return the stem of a lower-case ASCII word: Porter's, of which Porter's is taken until it stays the same.

    So a stem is its own stem, and `alias` and `aliases`, `status` and `statuses` share one.
    """
    shorter = porter(word)
    while shorter != word:
        word, shorter = shorter, porter(shorter)
    return word


def porter(word: str) -> str:
    """Return what Porter's algorithm makes of a lower-case ASCII word."""
    if not MIN_STEMMED_CHARS <= len(word) <= MAX_STEMMED_CHARS:
        return word
    word = _without_past_or_gerund(_without_plural(word))
    if word[-1] == "y" and "v" in _shape(word)[:-1]:
        word = word[:-1] + "i"
    word = _replaced(word, _STEP_2, (7, 6, 5, 4, 3))
    word = _replaced(word, _STEP_3, (5, 4, 3))
    return _without_final_e(_without_suffix(word))


def _without_plural(word: str) -> str:
    """Take off a plural's ending (step 1a)."""
    if word[-1] != "s" or word[-2:] == "ss":
        return word
    return word[:-2] if word.endswith(("sses", "ies")) else word[:-1]


def _without_past_or_gerund(word: str) -> str:
    """Take off `-ed` and `-ing`, and restore the end of the verb (step 1b)."""
    if word.endswith("eed"):
        return word[:-1] if _measure(_shape(word)[:-3]) else word
    size = 2 if word.endswith("ed") else 3 if word.endswith("ing") else 0
    if not size:
        return word
    shape = _shape(word)[:-size]
    if "v" not in shape:
        return word
    word = word[:-size]
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if shape[-1] == "c" and word[-1] == word[-2:-1] and word[-1] not in "lsz":
        return word[:-1]
    return word + "e" if _measure(shape) == 1 and _ends_short(word, shape) else word


def _replaced(word: str, endings: dict[str, str], sizes: tuple[int, ...]) -> str:
    """Replace the longest ending of the word that is in the table, if what is before it has a syllable."""
    for size in sizes:
        ending = word[-size:]
        if ending in endings:
            stem = word[:-size]
            return stem + endings[ending] if _measure(_shape(stem)) else word
    return word


def _without_suffix(word: str) -> str:
    """Take off a suffix from a long word (step 4)."""
    for size in (5, 4, 3, 2):
        if word[-size:] in _STEP_4:
            stem = word[:-size]
            is_off = word[-size:] != "ion" or stem[-1:] in ("s", "t")
            return stem if is_off and _measure(_shape(stem)) > 1 else word
    return word


def _without_final_e(word: str) -> str:
    """Take off a final `e`, and one of two final `l` of a long word (step 5)."""
    if word[-1:] == "e":
        shape = _shape(word)[:-1]
        measure = _measure(shape)
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1], shape)):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(_shape(word)) > 1 else word


def _shape(word: str) -> str:
    """Return `v` for each vowel and `c` for each consonant; `y` is a vowel after a consonant."""
    shape = word.translate(_SHAPES)
    place = shape.find("y")
    while place >= 0:
        kind = "v" if place and shape[place - 1] == "c" else "c"
        shape = shape[:place] + kind + shape[place + 1 :]
        place = shape.find("y", place)
    return shape


def _measure(shape: str) -> int:
    """Return how often a vowel is followed by a consonant: about the number of syllables."""
    return shape.count("vc")


def _ends_short(word: str, shape: str) -> bool:
    """True if a word ends in consonant, vowel, consonant, of which the last is not `w`, `x` or `y`."""
    return shape[-3:] == "cvc" and word[-1] not in "wxy"
