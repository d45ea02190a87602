"""Secrets that the end of a line breaks in two: wrapped text, continued strings, folded YAML, quoted mail and diffs.

Where a line ends with the beginning of a known format, what stands between the pieces is taken out, and the format is
tried on the joined pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

from engrambus.policy.secrets.structure import SecretSpan

_WORD = rb"A-Za-z0-9_./+=-"
_WORDS = bytes(97 if (chr(c).isalnum() and c < 128) or c in b"_./+=-" else 32 for c in range(256))
_BLANK = b" \t\r\"'`\\+&~"
_SHAPE = bytes(c if c == 10 else 32 if c in _BLANK else 97 if _WORDS[c] == 97 else 33 for c in range(256))
"""Maps the characters of words to `a`, those that may follow a piece to a blank."""
_MIN_PIECE_CHARS = 6
_PLAIN = b"abcdefghijklmnopqrstuvwxyz ./=(,:"
"""Characters of words in a sentence or a call; a piece of a key has others too."""
_MAX_WORD = 4096
_MAX_PIECES = 200

FormatsIn = Callable[[bytes, int, int], Iterator[SecretSpan]]
"""Yields the known formats that begin in a part of a text."""


@cache
def _gap() -> re.Pattern[bytes]:
    """Return a pattern for what may stand between two pieces: quotes, a sign, the line end, indentation, marks."""
    return re.compile(
        rb"(?<![>|][+-])(?:[\"'`][ \t]{0,8}+[+.&~]{0,2}+)?[ \t]{0,8}+\\?\r? ?\n"
        rb"[ \t]{0,40}+(?:[>#*+&~|/-]{1,3}+[ \t]{0,8}+|\.[ \t]{0,8}+(?=[\"'`]))?[\"'`]?(?=[" + _WORD + rb"])"
    )


@cache
def _piece() -> re.Pattern[bytes]:
    return re.compile(rb"[" + _WORD + rb"]{1,65536}+")


@cache
def _ordinary_words() -> re.Pattern[bytes]:
    return re.compile(rb"(?:(?:[A-Z]?[a-z]++|[A-Z]++|[0-9]{1,4}+)(?:[_./+=-]++|\Z))++")


def find_broken(
    data: bytes, begins: Callable[[bytes, int, int], object], formats_in: FormatsIn
) -> Iterator[SecretSpan]:
    """Find known formats that extend across the end of a line; `begins` tells if one may begin in a part of a text."""
    words, done = b"", 0
    for end in _ends_of_pieces(data):
        if end < done:
            continue
        words = words or data.translate(_WORDS)
        start = max(words.rfind(b" ", max(0, end - _MAX_WORD), end) + 1, done)
        while data[start : start + 1] in (b"-", b"+"):  # the mark of a changed line
            start += 1
        if not begins(data, start, end):
            continue
        pieces = list(_pieces(data, start, end))
        done = pieces[-1][1]
        joined = b"".join(data[first:last] for first, last in pieces)
        for kind, first, last in formats_in(joined, 0, end - start):
            if any(span[1] == first for span in formats_in(joined[: end - start], first, end - start)):
                last = _end_of_secret(data, pieces, last)  # it is complete without the next line
            if last > end - start:
                yield kind, start + first, _original(pieces, last - 1) + 1


@cache
def _end_after_piece() -> re.Pattern[bytes]:
    """Return a pattern for the end of a line after a piece, in the shape of a text."""
    # It begins with a literal, which is searched for quickly; what stands before is looked at only there.
    ends = [b"", b" ", b"  ", b"   ", b"    ", b" a", b"  a"]  # the last two: a dot that joins strings
    return re.compile(rb"\n(?:" + b"|".join(b"(?<=" + b"a" * _MIN_PIECE_CHARS + end + b"\n)" for end in ends) + rb")")


def _ends_of_pieces(data: bytes) -> Iterator[int]:
    """Yield where lines end with a piece that is more than a plain word, in order."""
    shape = data.translate(_SHAPE)
    for match in _end_after_piece().finditer(shape):
        end = match.start()
        if data[end - 1 : end] == b"." and shape[end - 2] == 32:
            end -= 1
        while shape[end - 1] == 32:
            end -= 1
        tail = data[max(0, end - 2 * _MIN_PIECE_CHARS) : end]
        # A zero byte separates texts that are searched together.
        if tail.translate(None, _PLAIN) and data[match.end() : match.end() + 1] != b"\0":
            yield end


def _pieces(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the first piece, and each that continues the one before across the end of a line."""
    yield start, end
    for _ in range(_MAX_PIECES):
        gap = _gap().match(data, end)
        piece = _piece().match(data, gap.end()) if gap else None
        if piece is None:
            return
        yield piece.span()
        end = piece.end()


def _end_of_secret(data: bytes, pieces: list[tuple[int, int]], last: int) -> int:
    """Return where a secret ends in the joined pieces: not behind a name or a plain word that begins another line."""
    joined = pieces[0][1] - pieces[0][0]
    for start, end in pieces[1:]:
        if joined >= last:
            break
        rest = data[start : min(end, start + last - joined)]
        is_name = data[start + len(rest) : start + len(rest) + 1] in (b"=", b":")
        if is_name or len(rest) < _MIN_PIECE_CHARS or _ordinary_words().fullmatch(rest):
            return joined
        joined += end - start
    return last


def _original(pieces: list[tuple[int, int]], position: int) -> int:
    """Return where a position of the joined pieces is in the text."""
    for start, end in pieces:
        if position < end - start:
            return start + position
        position -= end - start
    return pieces[-1][1]
