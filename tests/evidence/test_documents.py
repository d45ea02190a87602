"""Sections of Markdown documents."""  # EB-04

from __future__ import annotations

import pytest

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers.documents import pick_section, read_sections

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
