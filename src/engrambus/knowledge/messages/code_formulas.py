"""Formulas in running text, which look like code and are not."""

from __future__ import annotations

import re
from typing import Final

MIN_WORDS: Final = 2
"""Words that make a line a sentence around a formula."""

_FORMULA_SIGN = re.compile(r"[=<>^≤≥≈±²³]")
_NOT_IN_FORMULAS = re.compile(
    r";(?! (?:then|so|hence|for|with|and|it|we|thus) )|[\"'$#@&\\]|[=!:+*/-]=|=>|->|<-|:=|\*\*|\w\.\w*[A-Za-z]|\w\["
    r"|_[a-z]{2}|\b(?:return|def|let|const|var|val|if|for|in|while|fn|func|function)\b"
)
_IN_FORMULAS = re.compile(
    r"[±≈≤≥≠∈∉∑Σ∏√∞∀∃·×÷⇒⇔∂∇∪∩⊂⊆πσμλθ²³ⁿ₀-₉]"
    r"|\^|\b\d+[a-z]\b|\b[A-Za-z]\([^()]*\) ?[=<>]|\|\w[^|]*\||\) ?[a-z]+\(|\blog [a-z]\b"
)
_OPERANDS = re.compile(r"([A-Za-z]*)\d*[)|!]* ?(?:(?<= )[-+](?= )|[*/^=<>≤≥≈±|]+) ?[(|]*\d*(?=([A-Za-z]*))")
_FUNCTIONS = frozenset(
    re.findall(r"\w+", "log ln exp sin cos tan sqrt lim max min sum prod mod gcd det dim inf sup arg pi sigma mu")
)
_WORDS = re.compile(r"(?<![\w.])[A-Za-z][a-z]{2,}(?![\w(.])")


def is_formula(line: str) -> bool:
    """True if only short variables, numbers and mathematical functions stand with the operators of a line.

    A line that has no words besides also needs something that code would not have: `2x`, `x^2`, `f(x) =`, `|x|`.
    """
    if not _FORMULA_SIGN.search(line) or _NOT_IN_FORMULAS.search(line):
        return False
    if not _IN_FORMULAS.search(line) and len(_WORDS.findall(line)) < MIN_WORDS:
        return False
    return all(
        len(operand) <= 2 or operand.isdigit() or operand in _FUNCTIONS
        for match in _OPERANDS.finditer(line)
        for operand in match.groups()
        if operand
    )
