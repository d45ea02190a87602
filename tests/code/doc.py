"""The tables in `docs/inline-code.md`, generated from the detector: `python -m tests.code.doc`."""

from __future__ import annotations

from engrambus.knowledge.messages.code_lines import COUNTED, ENDING, OPENING, SHAPES
from engrambus.knowledge.messages.code_points import POINTS
from engrambus.knowledge.messages.code_statements import STATEMENTS
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
    "formula": "section 6 takes the line for a formula",
    "whole statement": "a statement of section 5 opens the line, perhaps after a list mark",
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
    mark = "``" if "`" in pattern else "`"
    return mark + pattern.replace("|", "\\|") + mark


def statements() -> str:
    rows = ["| statement | one of the words | all of | one of | pattern |", "|---|---|---|---|---|"]
    for name, statement in STATEMENTS.items():
        characters = " ".join(_shown(char) for char in statement.characters)
        pieces = " ".join(_shown(piece) for piece in statement.pieces.split())
        rows.append(f"| {name} | {statement.words} | {characters} | {pieces} | {_shown(statement.pattern)} |")
    return "\n".join(rows)


def page() -> str:
    text = PAGE.read_text(encoding="utf-8")
    for name, content in (("points", table()), ("statements", statements())):
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        after = rest.partition(f"<!-- /{name} -->")[2]
        text = f"{before}<!-- {name} -->\n{content}\n<!-- /{name} -->{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
