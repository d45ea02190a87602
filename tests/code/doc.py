"""The table of points in `docs/inline-code.md`, generated from the detector: `python -m tests.code.doc`."""

from __future__ import annotations

from engrambus.knowledge.messages.code_lines import COUNTED, ENDING, OPENING, POINTS, SHAPES
from tests.code.files import ROOT

PAGE = ROOT / "docs" / "inline-code.md"
MEANING = {
    "bias": "every line that is not blank",
    "indent 2": "set in by 2 or more",
    "indent 4": "set in by 4 or more",
    "has comment": "a comment was taken off",
    "no words": "no letter is left",
    "strings": "strings, cap 3",
    "unbalanced": "not as many of `([{` as of `)]}`",
    "dense 10": "10 % or more of what is not blank is neither letter, digit nor one of `.,_-'’`",
    "dense 20": "20 % or more",
    "dense 30": "30 % or more",
    "one word": "one word (and a letter in it)",
    "two words": "two words",
    "plain": "plain words, cap 6",
    "plain run 3": "a run of 3 or more",
    "plain run 5": "a run of 5 or more",
    "plain run 8": "a run of 8 or more",
    "common": "common words, cap 4",
    "commas": "words in a run that end with a comma, cap 3",
    "mostly plain": "3 or more words, 80 % of them plain",
}


def table() -> str:
    rows = ["| feature | points | how it is counted |", "|---|---|---|"]
    for name in SHAPES:
        rows.append(f"| {name} | {POINTS[name]} | {MEANING[name]} |")
    for name, (pattern, cap) in COUNTED.items():
        rows.append(f"| {name} | {POINTS[name]} | counted, cap {cap}: {_shown(pattern)} |")
    for title, patterns in (("opening", OPENING), ("ending", ENDING)):
        rows.extend(f"| {name} | {POINTS[name]} | {title}: {_shown(pattern)} |" for name, pattern in patterns.items())
    return "\n".join(rows)


def _shown(pattern: str) -> str:
    return "`" + pattern.replace("|", "\\|") + "`"


def page() -> str:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- points -->\n")
    after = rest.partition("<!-- /points -->")[2]
    return f"{before}<!-- points -->\n{table()}\n<!-- /points -->{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
