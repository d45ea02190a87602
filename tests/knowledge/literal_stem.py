"""A literal and slow implementation of the stem in docs/hash-keys.md; it shares nothing with the product."""

from __future__ import annotations

STEP_2 = [
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("logi", "log"),
]  # fmt: skip
STEP_3 = [
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
]  # fmt: skip
STEP_4 = [
    (ending, "")
    for ending in (
        *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate"),
        *("iti", "ous", "ive", "ize"),
    )
]


def is_vowel(word: str, i: int) -> bool:
    if word[i] == "y":
        return i > 0 and not is_vowel(word, i - 1)
    return word[i] in "aeiou"


def measure(word: str) -> int:
    return sum(is_vowel(word, i - 1) and not is_vowel(word, i) for i in range(1, len(word)))


def has_vowel(word: str) -> bool:
    return any(is_vowel(word, i) for i in range(len(word)))


def ends_short(word: str) -> bool:
    i = len(word) - 1
    if i < 2 or word[i] in "wxy":
        return False
    return not is_vowel(word, i) and is_vowel(word, i - 1) and not is_vowel(word, i - 2)


def step_1(word: str) -> str:
    for ending, replacement in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(ending):
            word = word[: len(word) - len(ending)] + replacement
            break
    if word.endswith("eed"):
        if measure(word[:-3]) > 0:
            word = word[:-1]
    else:
        for ending in ("ed", "ing"):
            rest = word[: len(word) - len(ending)]
            if word.endswith(ending) and has_vowel(rest):
                word = restore_verb(rest)
                break
    if word.endswith("y") and has_vowel(word[:-1]):
        word = word[:-1] + "i"
    return word


def restore_verb(word: str) -> str:
    if word[-2:] in ("at", "bl", "iz"):
        return word + "e"
    last = len(word) - 1
    if last > 0 and word[last] == word[last - 1] and not is_vowel(word, last) and word[last] not in "lsz":
        return word[:-1]
    if measure(word) == 1 and ends_short(word):
        return word + "e"
    return word


def replace_longest(word: str, table: list[tuple[str, str]], least: int) -> str:
    matching = [(ending, replacement) for ending, replacement in table if word.endswith(ending)]
    if not matching:
        return word
    ending, replacement = max(matching, key=lambda row: len(row[0]))
    rest = word[: len(word) - len(ending)]
    if ending == "ion" and rest[-1:] not in ("s", "t"):
        return word
    return rest + replacement if measure(rest) >= least else word


def step_5(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        if measure(rest) > 1 or (measure(rest) == 1 and not ends_short(rest)):
            word = rest
    if word.endswith("ll") and measure(word) > 1:
        word = word[:-1]
    return word


def porter(word: str) -> str:
    if len(word) < 3 or len(word) > 64:
        return word
    word = step_1(word)
    word = replace_longest(word, STEP_2, 1)
    word = replace_longest(word, STEP_3, 1)
    word = replace_longest(word, STEP_4, 2)
    return step_5(word)


def stem(word: str) -> str:
    while porter(word) != word:
        word = porter(word)
    return word
