"""The answer to a dereference: an excerpt of the pointed content, cut to a token budget."""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from engrambus.core import BYTES_PER_TOKEN, answer_size
from engrambus.errors import NotText
from engrambus.evidence.pointers.addresses import Pointer
from engrambus.evidence.pointers.resolve import Content

_encode = msgspec.json.Encoder().encode


class DerefAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    excerpt: str
    """The pointed lines, as many as fit; a part of one line where not one fits."""
    pointer: Pointer
    """The pointer that was followed, in canonical form."""
    content_digest: str
    """Digest of all the pointed content, even if the excerpt holds only a part of it."""
    truncated: bool
    """True if something was left out."""
    tail: bool = False
    """True if the beginning was cut off rather than the end."""


def full_answer(pointer: Pointer, content: Content, *, tail: bool) -> DerefAnswer:
    """Return the answer with all the content that was read: with `tail`, the end of content too large to hold."""
    try:
        text = (content.end if tail and content.end is not None else content.data).decode()
    except UnicodeDecodeError:
        raise NotText(field="pointer.ref") from None
    cut = content.end is not None
    return DerefAnswer(excerpt=text, pointer=pointer, content_digest=content.digest, truncated=cut, tail=cut and tail)


def cut_to_fit(full: DerefAnswer, max_tokens: int, *, tail: bool) -> DerefAnswer:
    """Return the answer with as many lines, the first or with `tail` the last, as fit into `max_tokens`.

    The cut is at the end of a line; inside a line only where not one line fits.
    """
    allowed_bytes = max_tokens * BYTES_PER_TOKEN
    # JSON has at least a byte for each character, so a text that is too long is not encoded to find that out.
    if len(full.excerpt) <= allowed_bytes and len(_encode(full)) <= allowed_bytes:
        return full
    # decision 5: the budget counts the JSON of the whole answer, because the reader pays for all of it
    empty = msgspec.structs.replace(full, excerpt="", truncated=True, tail=tail)
    remaining_bytes = allowed_bytes - answer_size(empty, max_tokens)
    take = _last_lines if tail else _first_lines
    return msgspec.structs.replace(empty, excerpt=take(full.excerpt, remaining_bytes))


def _first_lines(text: str, size_bytes: int) -> str:
    end = 0
    while end < len(text):
        next_end = text.find("\n", end) + 1 or len(text)
        line_bytes = _json_bytes(text[end:next_end])
        if line_bytes > size_bytes:
            break
        size_bytes -= line_bytes
        end = next_end
    if not text[:end].strip():
        line = text[end : end + size_bytes]
        end += bisect_right(range(1, len(line) + 1), size_bytes, key=lambda length: _json_bytes(line[:length]))
    return text[:end]


def _last_lines(text: str, size_bytes: int) -> str:
    start = len(text)
    while start > 0:
        next_start = text.rfind("\n", 0, start - 1) + 1
        line_bytes = _json_bytes(text[next_start:start])
        if line_bytes > size_bytes:
            break
        size_bytes -= line_bytes
        start = next_start
    if not text[start:].strip():
        line = text[max(0, start - size_bytes) : start]
        start -= bisect_right(range(1, len(line) + 1), size_bytes, key=lambda length: _json_bytes(line[-length:]))
    return text[start:]


def _json_bytes(text: str) -> int:
    """Return the size of a text inside the answer's JSON, without its quotes."""
    return len(_encode(text)) - 2
