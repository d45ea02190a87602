"""Splitting a text that is too long for one claim into claims, in order and with nothing lost (decision 90)."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from engrambus.knowledge.engrams.sentences import count_sentences, find_sentence_ends
from engrambus.knowledge.engrams.values import MAX_CLAIM_CHARS, MAX_CLAIM_SENTENCES

MAX_SPEAKER_CHARS = 40
_SPEAKER = re.compile(
    r"""(?: [\w@.'’-]+                                      # one word: Ada, user, agent-1
        |   [^\W\d_a-z][\w.'’-]* (?: [ ] [^\W_a-z][\w.'’-]* ){1,3}  # up to four, each with a capital: Dr. Ada Lovelace
        ) (?: :\s | ：\s? )""",
    re.VERBOSE,
)
_SPACE = re.compile(r"\s+")
_LINE_BREAK = re.compile("[\n-\r\x85\u2028\u2029]")
_CLAUSE_END = re.compile(r"[,;:)\]–—](?=\s)|[，、；：]")
_LINE, _CLAUSE, _WORD, _INSIDE = 1, 2, 3, 4
"""Where a sentence is cut: the lower, the better. The end of a sentence is 0."""
_MAX_CHARACTER_CHARS = 32
"""Code points that are looked at to keep a letter and its marks together."""
_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F400)


_MAX_WAYS = 8
"""Ways to cut the text so far that are followed; keeps the time in proportion to the text."""


class _Way(NamedTuple):
    """How a text was cut up to an offset; a lower one is better."""

    roughness: int
    came_from: int


def fits_claim(text: str) -> bool:
    """True if a text is short enough to be one claim."""
    return len(text) <= MAX_CLAIM_CHARS and count_sentences(text) <= MAX_CLAIM_SENTENCES


def split_claim(text: str) -> list[str]:
    """Return the text as claims that are short enough, as few as possible, in order; none for a blank text.

    A text that fits is returned unchanged. A longer one is cut at the ends of sentences. Only a sentence that does not
    fit by itself is cut inside: at a line break, after a clause, or between words; inside a word only if that is too
    long. White space becomes single spaces. If the text begins with the name of a speaker (`Ada: `), every piece does.
    """
    if not text or text.isspace():
        return []
    if fits_claim(text):
        return [text]
    return _Splitter(text).split()


def find_speaker(text: str) -> str:
    """Return the name that a turn of a conversation begins with, its colon and one space; empty if there is none."""
    match = _SPEAKER.match(text)
    if match is None or match.end() > MAX_SPEAKER_CHARS or count_sentences(f"{match[0]}x") > 1:
        return ""
    return _SPACE.sub(" ", match[0])


class _Splitter:
    """Finds the best cuts of one text."""

    def __init__(self, text: str) -> None:
        stripped = _SPACE.sub(lambda run: "\n" if _LINE_BREAK.search(run[0]) else " ", text.strip())
        self._text = stripped
        self._speaker = find_speaker(stripped)
        self._ends = sorted({*find_sentence_ends(stripped), len(stripped)})

    def split(self) -> list[str]:
        """Return the pieces."""
        rounds = [{0: _Way(0, 0)}]  # by the number of pieces so far: the best way to each offset
        while len(self._text) not in rounds[-1]:
            reached: dict[int, _Way] = {}
            for start, way in rounds[-1].items():
                for end, roughness in self._cuts(start):
                    after = self._skip_space(end)
                    found = _Way(way.roughness + roughness, start)
                    reached[after] = min(found, reached.get(after, found))
            rounds.append(_best_ways(reached))
        pieces = []
        end = len(self._text)
        for ways in rounds[:0:-1]:
            start = ways[end].came_from
            pieces.append(self._piece(start, end))
            end = start
        return pieces[::-1]

    def _piece(self, start: int, end: int) -> str:
        text = self._text[start:end].strip().replace("\n", " ")
        return text if start == 0 else self._speaker + text

    def _fits(self, start: int, end: int) -> bool:
        return fits_claim(self._piece(start, end))

    def _skip_space(self, offset: int) -> int:
        return offset + 1 if self._text[offset : offset + 1].isspace() else offset

    def _cuts(self, start: int) -> Iterator[tuple[int, int]]:
        """Yield where a piece that begins here may end, and how rough each cut is."""
        if start == len(self._text):
            return
        furthest = None
        for position in range(bisect_right(self._ends, start), len(self._ends)):
            if not self._fits(start, self._ends[position]):
                break
            furthest = self._ends[position]
        if furthest is not None:
            yield furthest, 0
        else:
            yield from self._cuts_inside(start)

    def _cuts_inside(self, start: int) -> Iterator[tuple[int, int]]:
        """Yield the furthest cuts of each kind inside a sentence that does not fit."""
        text = self._text
        begin = start or len(self._speaker)  # the name alone is no piece
        room = MAX_CLAIM_CHARS - (len(self._speaker) if start else 0)
        limit = min(start + room, len(text) - 1)
        half = (begin + limit) // 2
        spaces = [match.start() for match in _SPACE.finditer(text, begin + 1, limit + 1)]
        clauses = [match.end() for match in _CLAUSE_END.finditer(text, half, limit + 1) if match.end() <= limit]
        lines = [end for end in spaces if text[end] == "\n" and end >= half]
        found = False
        for ends, roughness in ((lines, _LINE), (clauses, _CLAUSE), (spaces, _WORD)):
            end = self._last_fitting(start, ends)
            if end is not None:
                yield end, roughness
                found = True
        next_word = self._skip_space(spaces[-1]) if spaces else begin
        if not found or (not clauses and not lines and self._word_end(next_word) - next_word > room):
            yield self._cut_word(start, begin, limit), _INSIDE

    def _last_fitting(self, start: int, ends: list[int]) -> int | None:
        return next((end for end in reversed(ends) if self._fits(start, end)), None)

    def _word_end(self, offset: int) -> int:
        space = _SPACE.search(self._text, offset)
        return space.start() if space else len(self._text)

    def _cut_word(self, start: int, begin: int, limit: int) -> int:
        """Return the furthest offset that fits, with a letter and its marks kept together."""
        end = limit
        while end > begin + 1 and not self._fits(start, end):
            end -= 1
        for offset in range(end, max(begin, end - _MAX_CHARACTER_CHARS), -1):
            if not self._is_inside_character(offset):
                return offset
        return end

    def _is_inside_character(self, offset: int) -> bool:
        following = self._text[offset]
        return (
            unicodedata.category(following)[0] == "M"
            or _JOINER in (following, self._text[offset - 1])
            or ord(following) in _SKIN_TONES
        )


def _best_ways(reached: dict[int, _Way]) -> dict[int, _Way]:
    """Return the ways that lead furthest, and of the others those that are smoother than all that lead further."""
    best: dict[int, _Way] = {}
    smoothest = None
    for offset in sorted(reached, reverse=True):
        way = reached[offset]
        if smoothest is None or way.roughness < smoothest:
            best[offset] = way
            smoothest = way.roughness
        if len(best) == _MAX_WAYS:
            break
    return best
