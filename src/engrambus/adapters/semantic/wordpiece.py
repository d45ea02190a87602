"""The tokenizer of uncased BERT models: words in lower case without accents, cut into the longest known pieces.

Marks such as `[SEP]` in a text are ordinary text: only this module sets the marks of a sequence.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

MAX_WORD_CHARS = 100
"""A longer word is unknown as a whole."""
CONTINUES = "##"
"""Begins a piece that continues a word."""

_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
"""Blocks of characters that are words of their own."""


class WordPieces:
    """A vocabulary of word pieces, one a line; the number of a piece is its line, from 0."""

    def __init__(self, vocabulary: str) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary.split("\n")) if piece}
        self._unknown = self._numbers["[UNK]"]
        self._first = self._numbers["[CLS]"]
        self._last = self._numbers["[SEP]"]

    def encode(self, text: str, max_tokens: int) -> list[int]:
        """Return the numbers of a text's pieces between the marks of a sequence, at most `max_tokens` with these."""
        numbers = [self._first]
        for word in _words(text):
            if len(numbers) >= max_tokens:
                break
            numbers += self._pieces(word)
        return [*numbers[: max_tokens - 1], self._last]

    def _pieces(self, word: str) -> list[int]:
        if len(word) > MAX_WORD_CHARS:
            return [self._unknown]
        numbers: list[int] = []
        start = 0
        while start < len(word):
            prefix = CONTINUES if start else ""
            for end in range(len(word), start, -1):
                number = self._numbers.get(prefix + word[start:end])
                if number is not None:
                    numbers.append(number)
                    start = end
                    break
            else:
                return [self._unknown]
        return numbers


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text; each mark of punctuation and each ideograph is one."""
    for part in _normalise(text).split():
        start = 0
        for index, character in enumerate(part):
            if _stands_alone(character):
                if start < index:
                    yield part[start:index]
                yield character
                start = index + 1
        if start < len(part):
            yield part[start:]


def _normalise(text: str) -> str:
    """Return a text in lower case, without accents and control characters."""
    if text.isascii():  # the common case
        return "".join(character for character in text.lower() if character.isprintable() or character in "\t\n\r")
    clean = "".join(map(_clean, text))
    bare = (character for character in unicodedata.normalize("NFD", clean) if unicodedata.category(character) != "Mn")
    # Each character by itself: the lower case of a whole text depends on what stands around a letter.
    return "".join(character.lower() for character in bare)


def _clean(character: str) -> str:
    if character in "\t\n\r":
        return " "
    if character in "\0�" or unicodedata.category(character).startswith("C"):
        return ""
    return " " if character.isspace() else character


def _stands_alone(character: str) -> bool:
    if character.isascii():
        return not character.isalnum()
    return unicodedata.category(character).startswith("P") or _is_ideograph(ord(character))


def _is_ideograph(point: int) -> bool:
    return any(first <= point <= last for first, last in _IDEOGRAPHS)
