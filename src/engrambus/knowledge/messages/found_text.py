"""The claim for retrieved text: what it states or, if it is code, what it defines and what its comments say."""

from __future__ import annotations

import re

from engrambus.knowledge.engrams import MAX_CLAIM_CHARS, MAX_CLAIM_SENTENCES
from engrambus.knowledge.messages.code import count_code
from engrambus.knowledge.messages.extracts import extract_statement, is_clean, read_beginning

MAX_NAMES = 8
"""Names that the description of code has."""

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


def describe_found(text: str, location: str) -> str:
    """Return a claim for retrieved text: what it states or, if it is code, what it defines and where."""
    beginning = read_beginning(text)
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
    return claim if is_clean(claim) and len(claim) <= MAX_CLAIM_CHARS else f"{location[-400:]} has code."


def _listed(names: list[str]) -> str:
    shown = names[:MAX_NAMES]
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(shown) + more
