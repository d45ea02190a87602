"""Sections of Markdown documents."""  # EB-04

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import ArtifactAddress, parse_ref
from engrambus.evidence.pointers.documents import pick_section, read_sections
from engrambus.evidence.pointers.grammar import print_section

DOCUMENT = b"""\
Preamble
# Budget Rules
intro
## Limits
first limits
### Deep
deep
## Grants
```python
# Not a heading
```
~~~~
# Nor this
~~~
## nor this
~~~~
````
```
# Still code
```
````
    # indented code

> # quoted

- # in a list

<!--
# commented out
-->
Two-line
title
===
text

Sub
---
sub text
# I/O & `code`
## Limits
second limits
### *Deep* ###
end"""


def section(path: str) -> str:
    picked = pick_section(read_sections(DOCUMENT), tuple(path.split("/")))
    return DOCUMENT[picked.start : picked.end].decode()


def test_only_real_headings_are_sections() -> None:
    assert [entry.path for entry in read_sections(DOCUMENT)] == [
        ("Budget Rules",),
        ("Budget Rules", "Limits"),
        ("Budget Rules", "Limits", "Deep"),
        ("Budget Rules", "Grants"),
        ("Two-line title",),
        ("Two-line title", "Sub"),
        ("I/O & `code`",),
        ("I/O & `code`", "Limits"),
        ("I/O & `code`", "Limits", "*Deep*"),
    ]


def test_a_section_runs_to_the_next_heading_of_its_level_or_above() -> None:
    assert section("Budget Rules/Limits") == "## Limits\nfirst limits\n### Deep\ndeep\n"
    assert section("Deep") == "### Deep\ndeep\n"
    assert section("Budget Rules").startswith("# Budget Rules\nintro\n## Limits\n")
    assert section("Budget Rules").endswith("-->\n")
    assert section("Sub") == "Sub\n---\nsub text\n"
    assert section("*Deep*") == "### *Deep* ###\nend"


def test_a_heading_is_found_by_its_letters_and_digits() -> None:
    assert section("BudgetRules/limits") == section("Budget Rules/Limits")
    assert section("two line TITLE") == section("Two-line title")
    picked = pick_section(read_sections(DOCUMENT), ("io code",))
    assert picked.path == ("I/O & `code`",)


def test_exact_text_wins_over_letters_alone() -> None:
    document = b"# a-b\none\n# A B\ntwo\n"
    sections = read_sections(document)
    assert pick_section(sections, ("A B",)).start == 10
    with pytest.raises(EngramBusError) as caught:
        pick_section(sections, ("ab",))
    assert caught.value.code == "SECTION_AMBIGUOUS"


def test_two_sections_of_the_same_name_are_ambiguous() -> None:
    with pytest.raises(EngramBusError) as caught:
        section("Limits")
    assert caught.value.code == "SECTION_AMBIGUOUS"
    assert "/Budget%20Rules/Limits" in str(caught.value.hint)
    assert "/I%2FO%20&%20`code`/Limits" in str(caught.value.hint)


def test_a_path_from_the_top_names_the_outer_section() -> None:
    sections = read_sections(b"# Setup\n# B\n## Setup\n")
    with pytest.raises(EngramBusError):
        pick_section(sections, ("Setup",))
    assert pick_section(sections, ("", "Setup")).path == ("Setup",)
    assert pick_section(sections, ("", "B", "Setup")).path == ("B", "Setup")
    twins = read_sections(b"# Setup\n# Setup\n")
    with pytest.raises(EngramBusError):
        pick_section(twins, ("", "Setup"))


def test_equal_headings_are_named_by_their_number() -> None:  # EB-04
    document = b"# T\n## Dup\none\n## Dup\ntwo\n### In\n## Other\n### In\n# U\n## Dup\n"
    with pytest.raises(EngramBusError) as caught:
        pick(document, "/T/Dup")
    assert caught.value.code == "SECTION_AMBIGUOUS"
    assert caught.value.hint == "Name one from the top: /T/Dup[1], /T/Dup[2]"
    assert pick(document, "/T/Dup[1]") == b"## Dup\none\n"
    assert pick(document, "/T/Dup[2]") == pick(document, "Dup[2]") == b"## Dup\ntwo\n### In\n"
    assert pick(document, "/T/Dup[2]/In") == b"### In\n"
    with pytest.raises(EngramBusError) as caught:
        pick(document, "Dup[1]")
    assert caught.value.hint == "Name one from the top: /T/Dup[1], /U/Dup"
    with pytest.raises(EngramBusError) as caught:
        pick(document, "/T/Dup[3]")
    assert (caught.value.code, caught.value.used) == ("SECTION_NOT_FOUND", "/T/Dup[3]")


def test_a_heading_that_ends_in_a_number_keeps_its_name() -> None:
    document = b"# Dup\none\n# Dup\ntwo\n# Dup[2]\nthree\n# Alone[7]\n"
    assert pick(document, "Dup[2]") == b"# Dup\ntwo\n"
    assert pick(document, "Dup%5B2%5D") == b"# Dup[2]\nthree\n"
    assert pick(document, "Alone[7]") == pick(document, "Alone%5B7%5D") == b"# Alone[7]\n"


titles = st.sampled_from(["A", "B", "A[2]", "B[1]", "I/O"])


@given(st.lists(st.tuples(st.integers(1, 3), titles), min_size=1, max_size=8))
def test_every_section_has_a_name_that_leads_to_it_alone(headings: list[tuple[int, str]]) -> None:
    document = "".join(f"{'#' * level} {title}\n{number}\n" for number, (level, title) in enumerate(headings)).encode()
    for found in read_sections(document):
        assert (
            pick(document, print_section(("", *found.path), (0, *found.numbers))) == document[found.start : found.end]
        )


def pick(document: bytes, fragment: str) -> bytes:
    address = parse_ref(f"artifact:a.md#sec={fragment}@v1")
    assert isinstance(address, ArtifactAddress)
    assert address.section is not None
    picked = pick_section(read_sections(document), address.section, address.numbers)
    return document[picked.start : picked.end]


@pytest.mark.parametrize(
    "heading_path", [("Nothing",), ("Limits", "Budget Rules"), ("Not a heading",), ("!!!",), ("", "Limits")]
)
def test_a_missing_section_is_refused(heading_path: tuple[str, ...]) -> None:
    with pytest.raises(EngramBusError) as caught:
        pick_section(read_sections(DOCUMENT), heading_path)
    assert caught.value.code == "SECTION_NOT_FOUND"


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\n"])
def test_every_kind_of_line_end(end: bytes) -> None:
    document = end.join([b"\xef\xbb\xbf# A", b"x", b"## B", b"y", b"# C", b""])
    sections = read_sections(document)
    picked = pick_section(sections, ("B",))
    assert document[picked.start : picked.end] == b"## B" + end + b"y" + end


def test_documents_without_headings_or_text() -> None:
    assert read_sections(b"") == ()
    assert read_sections(b"words\n") == ()
    assert [entry.path for entry in read_sections(b"#\n# A\n")] == [("",), ("A",)]
