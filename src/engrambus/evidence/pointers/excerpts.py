"""The answer to a dereference: an excerpt of the pointed content, cut to a token budget, and what it proves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import msgspec

from engrambus.core import MAX_BYTES_PER_TOKEN, check_fits, digest, fits
from engrambus.errors import BudgetTooSmall, NotText
from engrambus.evidence.pointers.addresses import BodyAddress, Pointer, RepoAddress
from engrambus.evidence.pointers.grammar import parse_lines, parse_ref, print_address
from engrambus.evidence.pointers.read_spans import FileLines, ReadSpan, all_of
from engrambus.evidence.pointers.resolve import Content
from engrambus.evidence.pointers.staleness import EvidenceState
from engrambus.visible_text import count_invisible, make_visible


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
    excerpt_span: str | None = None
    """The lines in the excerpt, `L1-L60` of the file, if something was left out and `max_tokens` has room for it."""
    excerpt_digest: str | None = None
    """Digest of exactly these lines."""
    escaped: int = 0
    """Invisible characters that the excerpt shows as escapes; the digests are of the bytes as they are."""
    evidence: EvidenceState | None = None
    """How these lines compare with the files as they are now; left out if they are the same, or cannot be compared."""

    @property
    def excerpt_pointer(self) -> Pointer | None:
        """The pointer to exactly the lines in the excerpt, with their digest, if the answer names them."""
        address = parse_ref(self.pointer.ref)
        if self.excerpt_span is None or not isinstance(address, RepoAddress | BodyAddress):
            return None
        lines = parse_lines(self.excerpt_span, "excerpt_span")
        ref = print_address(msgspec.structs.replace(address, lines=lines))
        return Pointer(type=self.pointer.type, ref=ref, digest=self.excerpt_digest)


class PointedText(msgspec.Struct, frozen=True, kw_only=True):
    """The text a pointer leads to, before it is cut to a budget."""

    pointer: Pointer
    text: str
    digest: str
    """Digest of all the content."""
    lines_before: int = 0
    """Lines of the content that are not in `text`, which is its end."""
    incomplete: bool = False
    """True if the content is too large to hold, so that `text` is only one end of it."""
    place: FileLines | None = None
    """Where the content is in a file, if it is a part of one."""
    evidence: EvidenceState | None = None
    """How the content compares with the files as they are now, if it is not the same."""


def pointed_text(
    pointer: Pointer, content: Content, *, tail: bool, evidence: EvidenceState | None = None
) -> PointedText:
    """Return the text of a content; with `tail`, the end of content too large to hold."""
    incomplete = content.end is not None
    data = content.end if tail and content.end is not None else content.data
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise NotText(field="pointer.ref") from None
    return PointedText(
        pointer=pointer,
        text=text,
        digest=content.digest,
        lines_before=content.line_count - _count_lines(text) if tail and incomplete else 0,
        incomplete=incomplete,
        place=content.place,
        evidence=evidence if evidence is not None and evidence.state != "same" else None,
    )


def cut_to_fit(pointed: PointedText, max_tokens: int, *, tail: bool) -> tuple[DerefAnswer, tuple[ReadSpan, ...]]:
    """Return the answer with as many lines, the first or with `tail` the last, as fit, and the spans that it returns.

    The cut is at the end of a line; inside a line only where not one line fits.
    """
    text, cut = pointed.text, pointed.incomplete
    full = answer = DerefAnswer(
        excerpt=text,
        pointer=pointed.pointer,
        content_digest=pointed.digest,
        truncated=cut,
        tail=cut and tail,
        evidence=pointed.evidence,
    )
    # No text of more characters fits, so one that is too long is not encoded to find that out.
    if len(text) > max_tokens * MAX_BYTES_PER_TOKEN or not fits(_count_escapes(full), max_tokens):
        # decision 56: the lines of a cut read are named with their digest, unless that leaves no room for a line
        answer = _cut_naming_lines(pointed, full, max_tokens, tail) or _cut(pointed, full, max_tokens, tail)
    # decision 72: spans and digests are of the bytes, and only the text that is sent has escapes
    return _show(answer), _spans_of(pointed, answer)


def _count_escapes(answer: DerefAnswer) -> DerefAnswer:
    """Return the answer with the number of characters that will be shown as escapes."""
    count = count_invisible(answer.excerpt)
    return msgspec.structs.replace(answer, escaped=count) if count else answer


def _show(answer: DerefAnswer) -> DerefAnswer:
    counted = _count_escapes(answer)
    if counted is answer:
        return answer
    return msgspec.structs.replace(counted, excerpt=make_visible(answer.excerpt))


def _cut_naming_lines(pointed: PointedText, full: DerefAnswer, max_tokens: int, tail: bool) -> DerefAnswer | None:
    """Return the answer that names its lines and their digest; None if no whole line fits, or lines have no pointer."""
    if not isinstance(parse_ref(full.pointer.ref), RepoAddress | BodyAddress):
        return None
    offset = pointed.place.first - 1 if pointed.place is not None else 0

    def with_lines(answer: DerefAnswer) -> DerefAnswer:
        lines = _lines_of(pointed, answer)
        first, last = (offset + lines[0], offset + lines[1]) if lines else (1, 1)
        return msgspec.structs.replace(
            answer, excerpt_span=f"L{first}-L{last}", excerpt_digest=digest(answer.excerpt.encode())
        )

    try:
        answer = _cut(pointed, full, max_tokens, tail, with_lines)
    except BudgetTooSmall:
        return None
    return answer if answer.excerpt.strip() and _lines_of(pointed, answer) else None


def _cut(
    pointed: PointedText,
    full: DerefAnswer,
    max_tokens: int,
    tail: bool,
    complete: Callable[[DerefAnswer], DerefAnswer] = lambda answer: answer,
) -> DerefAnswer:
    """Return the answer with the longest excerpt that fits; `complete` adds what an answer says about its excerpt."""
    # decision 5: the budget counts the JSON of the whole answer, because the reader pays for all of it
    most_chars = max_tokens * MAX_BYTES_PER_TOKEN
    empty = msgspec.structs.replace(full, excerpt="", truncated=True, tail=tail)
    check_fits(complete(empty), max_tokens)
    text = full.excerpt[-most_chars:] if tail else full.excerpt[:most_chars]

    def answer(length: int) -> DerefAnswer:
        excerpt = text[len(text) - length :] if tail else text[:length]
        return complete(msgspec.structs.replace(empty, excerpt=excerpt))

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
    count = bisect_right(lengths, False, key=lambda length: not fits(_count_escapes(answer(length)), max_tokens))
    # What stands before the cut changes the weight of what follows by a fraction of a token.
    while count and not fits(_count_escapes(answer(lengths[count - 1])), max_tokens):
        count -= 1
    return lengths[count - 1] if count else 0


def _spans_of(pointed: PointedText, answer: DerefAnswer) -> tuple[ReadSpan, ...]:
    """Return the spans that an answer holds: of the pointed content, of its file, and of the lines that it names.

    All of the pointed content is not named: its digest alone stands for that.
    """
    spans: list[ReadSpan] = []
    lines = _lines_of(pointed, answer) if answer.truncated else (1, _count_lines(answer.excerpt))
    to_end = not answer.truncated or answer.tail
    if answer.truncated and lines:
        spans.append(ReadSpan(of=pointed.digest, first=lines[0], last=lines[1], to_end=to_end))
    elif answer.truncated:
        spans.append(_bytes_of(pointed, answer))
    if pointed.place is not None and lines:
        offset = pointed.place.first - 1
        ends_file = to_end and pointed.place.last is None
        spans.append(ReadSpan(of=pointed.place.file, first=lines[0] + offset, last=lines[1] + offset, to_end=ends_file))
    if answer.excerpt_digest is not None:
        spans.append(all_of(answer.excerpt_digest))
    return tuple(spans)


def _lines_of(pointed: PointedText, answer: DerefAnswer) -> tuple[int, int] | None:
    """Return the first and the last line of a cut excerpt, as the content counts them; None if a line is cut."""
    excerpt, text = answer.excerpt, pointed.text
    count = _count_lines(excerpt)
    if not answer.tail:
        return (1, count) if excerpt.endswith("\n") else None
    start = len(text) - len(excerpt)
    last = pointed.lines_before + _count_lines(text)
    # Where the end of content too large to hold begins inside a line is not known.
    begins_line = text[start - 1] == "\n" if start else not pointed.incomplete
    return (last - count + 1, last) if excerpt and begins_line else None


def _bytes_of(pointed: PointedText, answer: DerefAnswer) -> ReadSpan:
    """Return the bytes of a line that was cut; none if it is not known where they begin."""
    size = len(answer.excerpt.encode())
    if not answer.tail:
        return ReadSpan(of=pointed.digest, last=size, unit="bytes")
    if pointed.incomplete:
        return ReadSpan(of=pointed.digest, last=0)
    end = len(pointed.text.encode())
    return ReadSpan(of=pointed.digest, first=end - size + 1, last=end, to_end=True, unit="bytes")


def _count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and text != "")
