"""Extracts: a few sentences that say what a longer text says, in its own words, without its code and its secrets.

The summary of an answer in prose and the claim of retrieved text are made here (decision 60). Nothing is rephrased: a
sentence is taken whole, or cut at a word and marked with `…`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from engrambus.knowledge.engrams import count_sentences, split_sentences
from engrambus.knowledge.messages.code import count_code, find_code_blocks
from engrambus.policy.secrets import find_secrets

MAX_CLAIM_CHARS = 500
MAX_CLAIM_SENTENCES = 3
MAX_READ_CHARS = 20_000
"""Only the beginning of a text is read: what it is about is said there."""
MIN_CUT_CHARS = 40
"""The beginning of a sentence says nothing if it is shorter."""
MAX_NAMES = 8
"""Names that the description of code has."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(.*?)[\s#]*")
_LIST_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_NO_PROSE = re.compile(r"\s*(?:\||[-=*_]{3,}\s*$|<[!/?a-zA-Z][^>]*>\s*$)")
_END = re.compile(r"[.!?…:;。！？]['\"”’)\]*_`]*$")
_MODIFIERS = (
    "export|default|public|private|protected|internal|static|async|abstract|final|sealed|pub|unsafe|inline|open"
)
_DEFINED = re.compile(
    rf"""^[ \t]*(?:(?:{_MODIFIERS})(?:\([^)\n]{{0,40}}\))?[ \t]+){{0,5}}
    (?:def|class|function\*?|func|fn|fun|struct|interface|enum|trait|type|module|record|object|namespace|protocol)[ \t]+
    (?:\([^)\n]{{0,80}}\)[ \t]*)?(?P<name>[A-Za-z_$][\w$]{{0,79}})
    |^[ \t]*(?:export[ \t]+)?(?:const|let|var)[ \t]+(?P<arrow>[A-Za-z_$][\w$]{{0,79}})[ \t]*=[ \t]*
    (?:async[ \t]*)?(?:\(|function\b|[A-Za-z_$][\w$]{{0,79}}[ \t]*=>)
    |^[ \t]*create[ \t]+(?:table|view|index|function)[ \t]+(?:if[ \t]+not[ \t]+exists[ \t]+)?
    (?P<table>[A-Za-z_]\w{{0,79}})""",
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)
_DOCSTRING = re.compile(r'(?:"""|\'\'\')(.{1,2000}?)(?:"""|\'\'\')', re.DOTALL)
_COMMENT = re.compile(r"^[ \t]*(?:#+|//+|/\*+|\*+(?!/)|--|;;)[ \t]*([^\n]*?)[ \t]*(?:\*/)?$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_$][\w$]{3,79}")


def extract_statement(text: str, *, max_chars: int = MAX_CLAIM_CHARS, max_sentences: int = MAX_CLAIM_SENTENCES) -> str:
    """Return the first sentences of a text that hold neither code nor a secret; "" if it has none."""
    text = _CONTROL.sub(" ", text[:MAX_READ_CHARS])
    whole = text.strip()
    is_short = len(whole) <= max_chars and "\n" not in whole
    if is_short and 0 < count_sentences(whole) <= max_sentences and _is_clean(whole):
        return " ".join(whole.split())
    sentences = [sentence for sentence in _sentences(text) if _is_clean(sentence)]
    if len(sentences) > 1 and sentences[0][:1].islower():
        del sentences[0]  # a chunk that was cut out of a file begins in the middle of a sentence
    extract = _join_within(sentences, max_chars, max_sentences)
    return extract if count_sentences(extract) <= max_sentences and _is_clean(extract) else ""


def describe_found(text: str, location: str) -> str:
    """Return a claim for retrieved text: what it states or, if it is code, what it defines and where."""
    beginning = _CONTROL.sub(" ", text[:MAX_READ_CHARS])
    marks = sum(not char.isspace() for char in beginning)
    if count_code(beginning) * 2 < marks:
        statement = extract_statement(beginning)
        if statement:
            return statement
    return _describe_code(beginning, location)


def _describe_code(code: str, location: str) -> str:
    defined = [name for match in _DEFINED.finditer(code) if (name := next(filter(None, match.groups())))]
    names = list(dict.fromkeys(defined))
    verb = "defines"
    if not names:
        names = sorted(set(_NAME.findall(code)), key=lambda name: (-len(name), name))
        verb = "has code about"
    head = f"{location} {verb} {_listed(names)}." if names else f"{location} was retrieved without its text."
    comments = "\n\n".join(match[1] for match in _DOCSTRING.finditer(code)) or "\n".join(_COMMENT.findall(code))
    said = extract_statement(comments, max_chars=MAX_CLAIM_CHARS - len(head) - 1, max_sentences=MAX_CLAIM_SENTENCES - 1)
    claim = f"{head} {said}".strip()
    return claim if _is_clean(claim) and len(claim) <= MAX_CLAIM_CHARS else f"{location[-400:]} has code."


def _listed(names: list[str]) -> str:
    shown = names[:MAX_NAMES]
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(shown) + more


def _is_clean(sentence: str) -> bool:
    return not count_code(sentence) and not find_secrets(sentence)


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text without its code, its tables and the marks of its headings and lists."""
    for block in find_code_blocks(text)[::-1]:
        text = f"{text[: block.start]}\n\n{text[block.end :]}"
    heading = ""
    for paragraph in (*_paragraphs(text), ""):
        if match := _HEADING.fullmatch(paragraph):
            heading = match[1]
            continue
        if heading and paragraph and not _END.search(heading):
            heading += ":"
        for sentence in split_sentences(f"{heading} {paragraph}".strip()):
            # An item of a list often has no full stop, and would run into the next one.
            yield sentence if _END.search(sentence) else f"{sentence}."
        heading = ""


def _paragraphs(text: str) -> Iterator[str]:
    """Yield headings, list items and paragraphs, each on one line."""
    lines: list[str] = []
    for line in (*text.splitlines(), ""):
        is_heading = _HEADING.fullmatch(line) is not None
        item = _LIST_ITEM.match(line)
        if lines and (is_heading or item or not line.strip() or _NO_PROSE.match(line)):
            yield " ".join(" ".join(lines).split())
            lines = []
        if is_heading:
            yield line.strip()
        elif line.strip() and not _NO_PROSE.match(line):
            lines.append(line[item.end() :] if item else line.removeprefix(">"))


def _join_within(sentences: list[str], max_chars: int, max_sentences: int) -> str:
    """Return as many whole sentences as fit, or the beginning of the first one if none does."""
    taken: list[str] = []
    for sentence in sentences:
        longer = " ".join([*taken, sentence])
        if len(longer) > max_chars or count_sentences(longer) > max_sentences:
            break
        taken.append(sentence)
    if taken or not sentences or max_chars < MIN_CUT_CHARS:
        return " ".join(taken)
    cut = sentences[0][: max_chars - 1]
    words = cut.rpartition(" ")[0] or cut
    return f"{words.rstrip(' ,;:.')}…"
