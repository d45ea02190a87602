"""Which sentences say something alone: no command lines, questions, fragments, references or notes of routine."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engrambus.knowledge.learning.scoring import why_words

MIN_WORDS = 3
"""Words of plain language that a sentence has at least."""
MIN_SHARE = 0.5
"""Part of a sentence that is plain language; the rest is code, options, paths and numbers."""
MAX_REFERENCE_WORDS = 4
"""A sentence with fewer words and the number of an issue only leads there."""
MAX_TRIVIAL_WORDS = 9
"""A longer sentence about tests or documentation says more than that they were changed."""

PREFIX = re.compile(r"^\w+(?:\([^)]*\))?!?:\s+")
"""The type of a change in front of a subject: `docs: `, `fix(cli): `."""
_CODE = re.compile(r"`[^`]*`")
_WORD = re.compile(r"[(\"'“‘*_\[]*[^\W\d_]+(?:['’/-][^\W\d_]+)*[)\"'”’*_\].,;:!?…]*")
_REFERENCE = re.compile(
    r"https?://\S+|(?:[\w.-]+/[\w.-]+)?#\d+|\b[0-9a-f]{7,40}\b|\b(?:issue|gh|pr|bug)-?\d+", re.IGNORECASE
)
_COMMAND = re.compile(r"`[a-z$][\w./-]*(?:\s[^`(]*)?\s--?\w[^`]*`")
"""A command with an option in front of the text."""
_OPEN_END = re.compile(r"(?:[:,;…]|\.\.\.|[:,;]\.|(?:^|:\s*)\d+\.)[)\"'*_]*$")
_GLUED = re.compile(
    r"(?:\.\.\.|…|!!!|\?\?\?|:::|\[!\w+\]|\[[ xX]\]\s"
    r"|(?:warning|note|tip|hint|important|caution|danger|info|attention|seealso|admonition)\s+(?=[\"A-Z`]))"
)
"""Marks of a checklist or of an admonition that stand in front of the text."""


def _one_of(words: str, prefix: str = "", suffix: str = r"\b") -> re.Pattern[str]:
    """Return a pattern of alternatives that are written one after another, separated by `|`, on several lines."""
    alternatives = "|".join(part.strip() for part in words.replace("\n", "|").split("|") if part.strip())
    return re.compile(f"{prefix}(?:{alternatives}){suffix}", re.IGNORECASE)


_POINTS_ELSEWHERE = _one_of(
    """fix(?:e[sd])?|close[sd]?|resolve[sd]?|address(?:e[sd])?|refs?|see(?: also)?|related(?: to)?|supersedes?|reverts?
    follow-?up|prior art|reported by|thanks to|suggested by|inspired by|part of|tests? for""",
    prefix="(?:(?:this|that|it|also|and|partial|partially) )*",
)
_SEE = _one_of("for more (?:information|details?|info|context)|more (?:information|details)|see|cf", suffix=r"\b")
_CHANGE = _one_of(
    """fix|add|updat|improv|remov|delet|correct|tweak|clean|adjust|chang|mov|renam|address|appl|mak|rewrit|rework|revert
    run|use|simplif|refactor|polish|document|test|lint|format|review|bump|merg|rebas|silenc|please|satisf|skip|includ""",
    prefix=r"(?:(?:and|also|some|more|minor|small|better|new|further|missing|un|re|self)[\s-]+)*",
    suffix=r"\w*\b",
)
_ROUTINE_OBJECT = _one_of(
    """test ?-?cases?|tests?|unittests?|lint\\w*|line-too-long|flake8|pep-?8|codespell|pylint|mypy|ruff|black|isort
    pyright|typing|annotations?|type hints?|docs?|docstrings?|documentation|readme|typos?|wording|grammar|spelling
    comments?|reviews?|reviewers?|feedback|suggestions?|nits?|imports?|format(?:ting)?|whitespace|indentation|changelog|news
    release notes?|copyright|ci|travis|appveyor|azure|coverage|codecov|tox|pre-commit|workflows?|project files
    requirements|conflicts?|authors|contributors""",
    prefix=r"\b",
)
_LEANS_BACK = _one_of(
    """this|that|these|those|it|its|they|their|he|she|however|but|so|also|therefore|thus|hence|otherwise|instead|as such
    then|and|or|such|furthermore|additionally|alternatively|in (?:that|this|such|addition|those|these)|as a result
    for (?:that|this|these) reasons?|because of (?:that|this)|unfortunately|likewise|consequently|both|here|even so
    the (?:latter|former|same)|still|yet|with (?:this|that)|by doing (?:this|so)|to (?:that|this) end"""
)


def says_little(sentence: str, min_words: int = MIN_WORDS) -> str:
    """Return why a sentence says nothing alone: `fragment`, `question`, `code` or `reference`; empty if it does."""
    text = sentence.strip()
    is_aside = text.startswith("(") and text.endswith((")", ")."))
    if is_aside or _OPEN_END.search(text) or _GLUED.match(text) or text.count("`") % 2:
        return "fragment"
    if text.startswith("`") and _COMMAND.match(text):
        return "code"
    if text.endswith(("?", "?)", '?"')):
        return "question"
    prose = _REFERENCE.sub(" ", _CODE.sub(" ` ", text))
    if not prose.isascii():
        return ""  # other scripts do not separate their words by spaces
    words = [word for word in prose.split() if "`" in word or any(map(str.isalnum, word))]
    plain_count = sum(_WORD.fullmatch(word) is not None for word in words)
    if plain_count < MIN_SHARE * len(words):
        return "code"
    if plain_count < min_words:
        return "fragment"
    if prose != text and _SEE.match(text):
        return "reference"
    return "reference" if plain_count < MAX_REFERENCE_WORDS and prose != text and _POINTS_ELSEWHERE.match(text) else ""


def is_trivial(sentence: str) -> bool:
    """True if a sentence only says that tests, documentation or the like were changed, and not why."""
    if len(sentence.split()) > MAX_TRIVIAL_WORDS or why_words(sentence):
        return False
    sentence = PREFIX.sub("", sentence)
    return _CHANGE.match(sentence) is not None and _ROUTINE_OBJECT.search(sentence) is not None


def leans_back(sentence: str) -> bool:
    """True if a sentence begins with a word that refers to the one before it."""
    return _LEANS_BACK.match(sentence) is not None


def reasons_first(sentences: Sequence[str]) -> tuple[str, ...]:
    """Return sentences so that two which give the reason come first, in the order in which they stand."""
    reasons = [index for index, sentence in enumerate(sentences) if why_words(sentence)]
    if not reasons:
        return tuple(sentences)
    first = reasons[0]
    if first and leans_back(sentences[first]):
        chosen = [first - 1, first]
    else:
        # What follows the reason explains it, unless another sentence gives a second one.
        following = next(
            (index for index in reasons[1:] if not leans_back(sentences[index]) or index == first + 1), None
        )
        second = first + 1 if following is None and first + 1 < len(sentences) else following
        chosen = [first] if second is None else [first, second]
    return (*(sentences[index] for index in chosen), *(s for index, s in enumerate(sentences) if index not in chosen))
