"""The answer to a dereference: an excerpt of the pointed content, cut to a token budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import msgspec

from engrambus.core import MAX_BYTES_PER_TOKEN, check_fits, fits
from engrambus.errors import NotText
from engrambus.evidence.pointers.addresses import Pointer
from engrambus.evidence.pointers.resolve import Content


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
    # No text of more characters fits, so one that is too long is not encoded to find that out.
    most_chars = max_tokens * MAX_BYTES_PER_TOKEN
    if len(full.excerpt) <= most_chars and fits(full, max_tokens):
        return full
    # decision 5: the budget counts the JSON of the whole answer, because the reader pays for all of it
    empty = msgspec.structs.replace(full, excerpt="", truncated=True, tail=tail)
    check_fits(empty, max_tokens)
    text = full.excerpt[-most_chars:] if tail else full.excerpt[:most_chars]

    def answer(length: int) -> DerefAnswer:
        return msgspec.structs.replace(empty, excerpt=text[len(text) - length :] if tail else text[:length])

    whole_lines = _last_lines(text) if tail else _first_lines(text)
    length = _longest(whole_lines, answer, max_tokens)
    if not answer(length).excerpt.strip():
        length = _longest(range(length + 1, len(text) + 1), answer, max_tokens) or length
    return answer(length)


def _first_lines(text: str) -> list[int]:
    """Return the lengths of the text's beginnings that end with a line."""
    return [index + 1 for index, char in enumerate(text) if char == "\n"]


def _last_lines(text: str) -> list[int]:
    """Return the lengths of the text's ends that begin with a line, the shortest first."""
    return [len(text) - index - 1 for index in range(len(text) - 2, -1, -1) if text[index] == "\n"]


def _longest(lengths: Sequence[int], answer: Callable[[int], DerefAnswer], max_tokens: int) -> int:
    """Return the greatest of the ascending lengths whose answer fits, 0 if there is none."""
    count = bisect_right(lengths, False, key=lambda length: not fits(answer(length), max_tokens))
    # What stands before the cut changes the weight of what follows by a fraction of a token.
    while count and not fits(answer(lengths[count - 1]), max_tokens):
        count -= 1
    return lengths[count - 1] if count else 0
