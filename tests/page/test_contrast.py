"""Every text colour is readable on every background it is used on, light and dark."""  # EB-27

from __future__ import annotations

import re

import pytest

from engrambus.edges.page.assets import static_files

COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([a-z-]+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)", static_files()["page.css"][0].decode()
    )
}
TEXT = ("ink", "soft", "faint", "mark", "alarm", "amber", "violet", "blue", "teal", "green")
GROUNDS = ("ground", "sheet", "raised")
WASHES = [
    *((text, "wash") for text in ("ink", "soft", "faint", "mark")),
    *((text, "alarm-wash") for text in ("ink", "soft", "alarm")),
    ("sheet", "mark"),
]
"""Selected rows, notices, removed lines and stale rows; the badges."""
MIN_CONTRAST = 4.5
"""WCAG 2, level AA."""


def _luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), [*((text, ground) for text in TEXT for ground in GROUNDS), *WASHES])
def test_text_has_enough_contrast(text: str, ground: str, theme: int) -> None:
    low, high = sorted((_luminance(COLOURS[text][theme]), _luminance(COLOURS[ground][theme])))
    assert (high + 0.05) / (low + 0.05) >= MIN_CONTRAST
