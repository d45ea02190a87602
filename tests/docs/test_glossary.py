"""The glossary lists each word once, in alphabetical order."""

from __future__ import annotations

import re

from tests.docs.examples import ROOT


def test_the_glossary_is_in_order() -> None:
    words = re.findall(r"^\| \*\*([^*]+)\*\*", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE)
    assert len(words) > 20
    assert words == sorted(set(words), key=str.casefold)
