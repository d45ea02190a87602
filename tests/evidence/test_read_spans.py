"""What a read proves: the lines that were returned, and how much of a pointer several reads cover."""  # EB-05, EB-22

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.core import digest, estimate_tokens
from engrambus.errors import BudgetTooSmall
from engrambus.evidence.pointers import (
    Content,
    DerefAnswer,
    FileLines,
    Pointer,
    ReadSpan,
    all_of,
    cover,
    cut_lines,
    cut_to_fit,
    pointed_text,
    print_spans,
)

SHA = "a" * 40
FILE = "git:" + "b" * 40
"""The id of the file that is read."""


class Span(NamedTuple):
    """Lines of the file, or all of it."""

    first: int
    last: int | None

    def of(self, data: bytes) -> bytes:
        return data if self.last is None else cut_lines(data, self.first, self.last)

    def numbers(self, count: int) -> set[int]:
        return set(range(self.first, (count if self.last is None else self.last) + 1))


class Read(NamedTuple):
    span: Span
    max_tokens: int
    tail: bool


def deref(data: bytes, read: Read) -> tuple[DerefAnswer, tuple[ReadSpan, ...]]:
    """Read lines of the file as a resolver and the rule of dereferencing do."""
    span = read.span
    content = span.of(data)
    count = len(data.splitlines())
    place = FileLines(file=FILE, first=span.first, last=None if span.last == count else span.last)
    lines = f"#L{span.first}-L{span.last}" if span.last is not None else ""
    pointer = Pointer(type="repo", ref=f"repo:src/a.py{lines}@{SHA}")
    pointed = pointed_text(pointer, Content.of(content, place=place), tail=read.tail)
    answer, spans = cut_to_fit(pointed, read.max_tokens, tail=read.tail)
    if not any(part.of == pointed.digest for part in spans):
        spans = (all_of(pointed.digest), *spans)
    return answer, spans


def covered(data: bytes, span: Span, spans: list[ReadSpan], *, file: str = FILE) -> set[int] | str:
    """Return the lines of a pointer that the spans cover, or `whole` or `bytes`."""
    place = FileLines(file=file, first=span.first, last=span.last)
    coverage = cover(spans, digest=digest(span.of(data)), place=place)
    if coverage.whole:
        return "whole"
    if coverage.bytes:
        return "bytes"
    return {number for first, last in coverage.lines for number in range(first, last + 1)}


line_texts = st.sampled_from(["", "x", "value = compute(first, second)", "é" * 40, "{" + "1234567890" * 30 + "}"])


@st.composite
def files(draw: st.DrawFn) -> bytes:
    lines = draw(st.lists(line_texts, min_size=1, max_size=30))
    # Numbered, so that no two spans have the same content: what equal content covers is another rule.
    text = "\n".join(f"{number} {line}".strip() for number, line in enumerate(lines, 1))
    return (text + draw(st.sampled_from(["", "\n"]))).encode()


@st.composite
def spans_in(draw: st.DrawFn, data: bytes) -> Span:
    count = len(data.splitlines())
    if draw(st.integers(0, 4)) == 0:
        return Span(1, None)
    first = draw(st.integers(1, count))
    return Span(first, draw(st.integers(first, count)))


@given(st.data())
def test_reads_cover_exactly_the_lines_that_they_returned(data: st.DataObject) -> None:
    text = data.draw(files())
    count = len(text.splitlines())
    lines = text.decode().splitlines(keepends=True)
    returned: set[int] = set()
    spans: list[ReadSpan] = []
    for _ in range(data.draw(st.integers(0, 5))):
        read = Read(data.draw(spans_in(text)), data.draw(st.integers(60, 400)), data.draw(st.booleans()))
        try:
            answer, read_spans = deref(text, read)
        except BudgetTooSmall:
            continue
        spans += read_spans
        # The model looks at the excerpt alone: which whole lines of the pointed ones stand in it.
        numbers = sorted(read.span.numbers(count), reverse=answer.tail)
        remaining = answer.excerpt
        whole_lines = set()
        for number in numbers:
            line = lines[number - 1]
            if not (remaining.endswith(line) if answer.tail else remaining.startswith(line)):
                break
            remaining = remaining[: len(remaining) - len(line)] if answer.tail else remaining[len(line) :]
            whole_lines.add(number)
        if not remaining:
            returned |= whole_lines
    pointer = data.draw(spans_in(text))
    expected = pointer.numbers(count) & returned
    seen = covered(text, pointer, spans)
    if expected == pointer.numbers(count):
        assert seen == "whole"
    elif expected:
        assert seen == expected
    else:
        assert seen in (set(), "bytes")


@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8), st.sampled_from(("file", "content"))), max_size=4),
    st.integers(1, 8),
    st.integers(1, 8),
)
def test_spans_of_a_file_and_of_the_pointed_lines_are_united_line_by_line(
    ranges: list[tuple[int, int, str]], first: int, last: int
) -> None:
    """Spans of eight lines, against a set of their numbers; those of the content are counted from its first line."""
    first, last = min(first, last), max(first, last)
    pointed = set(range(first, last + 1))
    returned: set[int] = set()
    spans = []
    for start, end, of in ranges:
        if of == "content":
            end = min(end, last - first + 1)
            returned |= {number + first - 1 for number in range(start, end + 1)}
            spans.append(ReadSpan(of="sha256:content", first=start, last=end, to_end=end == last - first + 1))
        else:
            returned |= set(range(start, end + 1))
            spans.append(ReadSpan(of=FILE, first=start, last=end))
    coverage = cover(spans, digest="sha256:content", place=FileLines(file=FILE, first=first, last=last))
    seen = {number for start, end in coverage.lines for number in range(start, end + 1)}
    assert coverage.whole == (returned >= pointed)
    assert coverage.whole or seen == returned & pointed


@given(st.data())
def test_the_digest_and_the_span_of_a_cut_read_are_those_of_its_excerpt(data: st.DataObject) -> None:
    text = data.draw(files())
    read = Read(data.draw(spans_in(text)), data.draw(st.integers(60, 300)), data.draw(st.booleans()))
    try:
        answer, spans = deref(text, read)
    except BudgetTooSmall:
        return
    assert estimate_tokens(msgspec.json.encode(answer)) <= read.max_tokens
    part = answer.excerpt_pointer
    if part is None:
        assert answer.excerpt_digest is None
        return
    assert answer.truncated
    first, last = (int(number) for number in part.ref.partition("#L")[2].partition("@")[0].split("-L"))
    named = Span(first, last)
    assert named.of(text).decode() == answer.excerpt
    assert part.digest == digest(named.of(text))
    # The pointer that the answer names is read whole, also by its digest alone, in any file.
    assert covered(text, named, list(spans)) == "whole"
    assert covered(text, named, list(spans), file="git:other") == "whole"


def test_reads_of_parts_add_up_and_gaps_stay() -> None:
    text = b"".join(b"line %d\n" % number for number in range(1, 101))
    first = deref(text, Read(Span(1, 40), 10_000, False))[1]
    second = deref(text, Read(Span(61, 100), 10_000, False))[1]
    middle = deref(text, Read(Span(41, 60), 10_000, False))[1]
    assert covered(text, Span(10, 20), list(first)) == "whole"
    assert covered(text, Span(30, 50), list(first)) == set(range(30, 41))
    assert covered(text, Span(1, None), [*first, *second]) == {*range(1, 41), *range(61, 101)}
    assert covered(text, Span(1, None), [*first, *second, *middle]) == "whole"


def test_the_same_lines_in_a_file_that_changed_elsewhere_were_read() -> None:
    text = b"one\ntwo\nthree\n"
    spans = deref(text, Read(Span(2, 3), 10_000, False))[1]
    later = b"zero\none\ntwo\nthree\n"
    assert covered(later, Span(3, 4), list(spans), file="git:later") == "whole"
    assert covered(later, Span(2, 4), list(spans), file="git:later") == set()


def test_a_part_of_one_long_line_is_counted_in_bytes() -> None:
    text = b'{"key": "' + b"value " * 500 + b'"}'
    head, spans = deref(text, Read(Span(1, None), 200, False))
    assert head.truncated
    assert (head.excerpt_span, head.excerpt_digest) == (None, None)
    coverage = cover(spans, digest=digest(text), place=None)
    assert coverage.bytes == ((1, len(head.excerpt)),)
    tail, more = deref(text, Read(Span(1, None), 200, True))
    coverage = cover([*spans, *more], digest=digest(text), place=None)
    assert coverage.bytes == ((1, len(head.excerpt)), (len(text) - len(tail.excerpt) + 1, len(text)))
    everything = deref(text, Read(Span(1, None), 10_000, True))[1]
    assert cover([*spans, *everything], digest=digest(text), place=None).whole


def test_both_ends_of_content_too_large_to_hold_are_lines_of_all_of_it() -> None:
    pointer = Pointer(type="artifact", ref="artifact:sha256:" + "c" * 64)
    content = Content(data=b"one\ntwo\n", end=b"eight\nnine\n", digest="sha256:" + "c" * 64, line_count=9)
    _, head = cut_to_fit(pointed_text(pointer, content, tail=False), 1000, tail=False)
    assert cover(head, digest=content.digest, place=None).lines == ((1, 2),)
    answer, tail = cut_to_fit(pointed_text(pointer, content, tail=True), 1000, tail=True)
    assert answer.excerpt == "eight\nnine\n"
    assert cover(tail, digest=content.digest, place=None) == cover((), digest=None, place=None)  # may begin in a line
    many = end_of_content(b"".join(b"line %d\n" % number for number in range(60, 100)), 99)
    answer, tail = cut_to_fit(pointed_text(pointer, many, tail=True), 200, tail=True)
    count = answer.excerpt.count("\n")
    assert cover(tail, digest=many.digest, place=None).lines == ((100 - count, 99),)
    assert answer.excerpt_span == f"L{100 - count}-L99"


def end_of_content(end: bytes, line_count: int) -> Content:
    """Return content of which only the end is of interest."""
    return Content(data=b"", end=end, digest="sha256:" + "d" * 64, line_count=line_count)


def test_an_empty_file_is_read_whole() -> None:
    spans = deref(b"", Read(Span(1, None), 1000, False))[1]
    assert covered(b"", Span(1, None), list(spans)) == "whole"


@pytest.mark.parametrize(
    ("spans", "text"),
    [([(1, 40)], "1-40"), ([(3, 3), (5, 9)], "3,5-9"), ([(1, 1), (3, 3), (5, 5), (7, 7)], "1,3,5,…")],
)
def test_spans_are_printed_as_people_write_them(spans: list[tuple[int, int]], text: str) -> None:
    assert print_spans(spans) == text
