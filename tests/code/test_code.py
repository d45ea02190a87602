"""Inline code of every form is detected, and prose about code is not. # EB-07"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engrambus.knowledge.messages import CodeBlock, count_code, find_code, find_code_blocks
from engrambus.knowledge.messages.code_lines import BEGINNING, COUNTED, ENDING, NEEDED, OPENING, first_word
from engrambus.knowledge.messages.code_markup import CodeSpan, fold
from tests.code import doc
from tests.harness.examples import examples

LANGUAGES = Path(__file__).with_name("languages.txt").read_text(encoding="utf-8")
CODE = {
    name: code.rstrip("\n")
    for name, _, code in (block.partition("\n") for block in LANGUAGES.removeprefix("=== ").split("\n=== "))
}

PROSE = [
    "`git status`",
    "`engrambus put`",
    "Run `engrambus put` then `git commit -m wip` on `main`.",
    "`src/a/b.py`",
    "`v1.2.3`",
    "`--no-verify`",
    "`repo:abc123:src/a.py#L1-L20`",
    "`foo`",
    "`Foo.bar()`",
    "`pip install -e .`",
    "The gateway reserves budget before write in src/gateway/budget.py (reserve_budget), so retries are free.",
    "vendor_client.py returns 429 when X-Rate-Limit < 5; callers retry 3 times.",
    "Use UTF-8; see RFC 3339, section 5.6 (ISO 8601).",
    "Budget is 800 tokens, 12 engrams, 500 chars.",
    "p95 = 12 ms, was 40 ms (n = 1,000).",
    "- `a` → `b`\n- `c` → `d`",
    "TASK_STATUS: DONE",
    "TypeError: 'NoneType' object is not subscriptable",
    "Function parse_header() in http/parser.c leaks when len > 0 and buf == NULL.",
    "The test test_foo[bar-1] fails with KeyError('x') on Python 3.12.",
    "HTTP_PROXY and NO_PROXY are ignored by the client, see settings.py:42.",
    "https://example.org/a?b=c&d=e shows it.",
    "Set ENGRAMBUS_HOME=/tmp/x to move the catalogue.",
    "core/journal/format.py:120-140 writes the checksum; core/journal/reader.py checks it",
    "  - first item (see a.py)\n  - second item",
    "claims must have <= 3 sentences and >= 1 pointer",
    "key: value pairs are kept in order",
    "Fix #123: handle None in get_user()",
    "The lock is taken in `Store.commit(change)` and released in `finally`.",
    "state machine: idle -> running -> done",
    "1. Read the file\n2. Parse it\n3. Write it back",
    "int(x) truncates toward zero, round(x) does not",
    "`SELECT`",
    "`import httpx`",
]

HOSTILE = {
    "one letter": "a" * 1_000_000,
    "backticks": "`" * 1_000_000,
    "pairs of backticks": "` " * 500_000,
    "backticks of many widths": "".join("`" * (width % 900 + 1) + " " for width in range(2_200)),
    "line ends": "\n" * 1_000_000,
    "one letter a line": "a\n" * 500_000,
    "brackets": "(" * 1_000_000,
    "assignments": "a=" * 500_000,
    "quotes": "\"'" * 500_000,
    "tags": "<a " * 333_333,
    "fences": "```\n" * 250_000,
    "hunks": "@@ -1 +1 @@\n" * 80_000,
    "underscores": "_" * 1_000_000,
    "quotation marks": "> " * 500_000,
    "letters and blanks": ("a" * 200 + " " * 39 + "\n") * 4_200,
    "code and comments": ("x = 1;\n" + "# a b c\n" * 14) * 9_000,
}

TEXTS = st.text() | st.text(alphabet="`~ \n\t+-@>ax_=(){};:'\"#/<.,0", max_size=300)


def find_kinds(text: str) -> list[tuple[str, str]]:
    return [(span.kind, text[span.start : span.end]) for span in find_code(text)]


@pytest.mark.parametrize("name", CODE)
def test_pasted_code_is_detected_without_marks(name: str) -> None:
    assert count_code(CODE[name]) * 2 >= len(CODE[name])


@pytest.mark.parametrize("text", PROSE)
def test_prose_about_code_is_not_code(text: str) -> None:
    assert find_kinds(text) == []


def test_a_fence_makes_anything_code() -> None:
    assert find_kinds("See\n```\nhello there\n```\nend") == [("fenced", "hello there")]
    assert find_kinds("~~~ text\nhello\nthere") == [("fenced", "hello\nthere")]
    assert find_kinds("so ```print it``` is") == [("fenced", "print it")]


def test_short_code_in_backticks_inside_a_sentence_is_not_code() -> None:
    assert find_kinds("The bug is `return a + b * c` there.") == []
    assert find_kinds("Use ``x = foo(y)`` instead of this.") == []
    assert find_kinds("Use `foo`, `a.b()` and `open(path, mode)`.") == []


def test_code_in_backticks_that_is_long_or_alone_on_its_line_is_code() -> None:
    exactly = "x = f(" + "a" * 53 + ")"
    longer = "x = f(" + "a" * 54 + ")"
    assert len(exactly) == 60
    assert find_kinds(f"The fix is `{exactly}` there.") == []
    assert find_kinds(f"The fix is `{longer}` there.") == [("inline", longer)]
    assert find_kinds("The fix:\n`return a + b * c`\nIt works.") == [("inline", "return a + b * c")]


def test_many_short_pieces_in_backticks_one_after_another_are_code() -> None:
    pieces = ["x = load()", "y = parse(x)", "z = check(y)", "return z + 1"]
    text = "Please write " + " then ".join(f"`{piece}`" for piece in pieces) + " into the function."
    assert [code for _, code in find_kinds(text)] == pieces
    assert find_kinds(f"Please write `{pieces[0]}` then `{pieces[1]}` into the function.") == []
    assert find_kinds("Each of `x = f(1)`, `y = f(2)` and `z = f(3)` fails alone.") == []
    assert find_kinds("Try " + ", ".join(f"`x{n} = f({n})`" for n in range(6)) + " there.") != []


def test_characters_that_hide_code_are_seen_through() -> None:
    hidden = "r\u200beturn user + '-tok'"
    assert find_kinds(hidden) == [("pasted", hidden)]
    full_width = "if\uff08x == null\uff09{ return y; }"
    assert find_kinds(f"Look:\n{full_width}\nIt works.") == [("pasted", full_width)]
    assert find_kinds("设置\uff08timeout=30\uff09后\uff0c调用方必须检查返回值\uff1b否则会失败。") == []


def test_code_between_sentences_is_detected_at_its_position() -> None:
    assert find_kinds("The fix is small:\nx = compute(y)\nThen the tests pass.") == [("pasted", "x = compute(y)")]
    assert find_kinds("Look.\n\n    total = 0\n    for x in xs: total += x\n\nIt is slow.") == [
        ("indented", "    total = 0\n    for x in xs: total += x")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "The handler now does def close(self): self.lock.release(); return self.value + 1 and then stops.",
        "We changed it to if (x == null) { return; } because callers pass null.",
    ],
)
def test_code_inside_a_sentence_is_detected(text: str) -> None:
    assert [span.kind for span in find_code(text)] == ["pasted"]
    assert count_code(text) < len(text)


def test_a_diff_is_detected_as_a_diff() -> None:
    text = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n one\n-two\n+three"
    assert find_code(text) == [CodeSpan(0, len(text), "diff")]
    assert [kind for kind, _ in find_kinds("-    return a\n+    return a + 1")] == ["diff"]


def test_a_block_to_cut_out_includes_its_fence() -> None:
    text = "See\n```py\nx = 1\n```\nend"
    assert find_code_blocks(text) == [CodeBlock(4, 19, "x = 1")]
    assert find_code_blocks("~~~\nx = 1\n") == [CodeBlock(0, 10, "x = 1\n")]
    assert find_code_blocks("```\nx\n```") == [CodeBlock(0, 9, "x")]
    assert find_code_blocks("so ```print it``` is") == [CodeBlock(3, 17, "print it")]


def test_pasted_lines_with_blank_lines_between_them_are_one_block() -> None:
    code = "def f(x):\n    return x + 1\n\n\ndef g(x):\n    return x + 2"
    text = f"The fix is small:\n\n{code}\n\nThen the tests pass."
    assert find_code_blocks(text) == [CodeBlock(19, 19 + len(code), code)]


@given(TEXTS)
@settings(max_examples=examples(120), deadline=None)
def test_blocks_contain_all_code_and_do_not_overlap(text: str) -> None:
    blocks = find_code_blocks(text)
    end = 0
    for block in blocks:
        assert end <= block.start < block.end <= len(text)
        assert block.code.strip() in text[block.start : block.end]
        end = block.end
    for span in find_code(text):
        assert any(block.start <= span.start and span.end <= block.end for block in blocks)


@given(TEXTS)
@settings(max_examples=examples(120), deadline=None)
def test_spans_are_sorted_inside_the_text_and_do_not_overlap(text: str) -> None:
    end = 0
    for span in find_code(text):
        assert end <= span.start < span.end <= len(text)
        end = span.end
    assert count_code(text) <= len(text)
    assert find_code(text) == find_code(text)


@given(TEXTS.filter(lambda text: bool(text.strip())), st.sampled_from(["```", "~~~", "`````"]))
@settings(max_examples=examples(100), deadline=None)
def test_a_fence_around_a_text_makes_it_code(text: str, fence: str) -> None:
    text = fold(text).text.replace("`", "'").replace("~", "-")
    assume(text.strip())
    fenced = f"{fence}\n{text}\n{fence}"
    assert [span.kind for span in find_code(fenced)] == ["fenced"]
    assert count_code(fenced) >= len(text.strip())


@pytest.mark.parametrize("name", HOSTILE)
def test_a_megabyte_is_searched_in_linear_time(name: str) -> None:
    """About two seconds each; anything quadratic takes hours, and the time limit of every test stops it."""
    spans = find_code(HOSTILE[name])
    assert all(first.end <= second.start for first, second in pairwise(spans))


def test_the_documented_points_are_those_of_the_detector() -> None:
    assert doc.page() == doc.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NEEDED)
@given(st.data())
@settings(max_examples=30, deadline=None)
def test_a_pattern_is_skipped_only_where_it_cannot_match(name: str, data: st.DataObject) -> None:
    pattern = COUNTED[name][0] if name in COUNTED else OPENING.get(name) or ENDING[name]
    match = re.search(pattern, data.draw(st.from_regex(pattern)))
    assert match is not None
    assert any(literal in match[0] for literal in NEEDED[name])


@pytest.mark.parametrize("name", BEGINNING)
@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_pattern_is_tried_on_every_line_that_it_can_begin(name: str, data: st.DataObject) -> None:
    line = data.draw(st.from_regex(rf"\A(?:{OPENING[name]})"))
    assert first_word(line) in BEGINNING[name]


def test_both_quotes_count_for_a_string() -> None:
    assert all(("'" in literals) == ('"' in literals) for literals in NEEDED.values())
