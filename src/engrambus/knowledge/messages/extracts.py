"""Extracts: a few sentences that say what a longer text says, in its own words, without its code and its secrets.

The summary of an answer in prose and the claim of retrieved text are such extracts (decision 60). Nothing is rephrased:
a sentence is taken whole, or cut at a word and marked with `…`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from engrambus.knowledge.engrams import MAX_CLAIM_CHARS, MAX_CLAIM_SENTENCES, count_sentences, split_sentences
from engrambus.knowledge.messages.code import count_code, find_code_blocks
from engrambus.policy.secrets import find_secrets
from engrambus.visible_text import find_invisible

MAX_READ_CHARS = 20_000
"""Only the beginning of a text is read: what it is about is said there."""
MIN_CUT_CHARS = 40
"""The beginning of a sentence says nothing if it is shorter."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(.*?)[\s#]*")
_LIST_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_NO_PROSE = re.compile(r"\s*(?:\||[-=*_]{3,}\s*$|<[!/?a-zA-Z][^>]*>\s*$)")
_END = re.compile(r"[.!?…:;。！？]['\"”’)\]*_`]*$")


def extract_statement(text: str, *, max_chars: int = MAX_CLAIM_CHARS, max_sentences: int = MAX_CLAIM_SENTENCES) -> str:
    """Return the first sentences of a text that hold neither code nor a secret; "" if it has none."""
    text = read_beginning(text)
    whole = text.strip()
    is_short = len(whole) <= max_chars and "\n" not in whole
    if is_short and 0 < count_sentences(whole) <= max_sentences and is_clean(whole):
        return " ".join(whole.split())
    sentences = list(islice(filter(is_clean, _sentences(text)), max_sentences + 1))
    if len(sentences) > 1 and sentences[0][:1].islower():
        del sentences[0]  # a chunk that was cut out of a file begins in the middle of a sentence
    extract = _join_within(sentences, max_chars, max_sentences)
    return extract if count_sentences(extract) <= max_sentences and is_clean(extract) else ""


def read_beginning(text: str) -> str:
    """Return the part of a text that is read, without control characters."""
    return _CONTROL.sub(" ", text[:MAX_READ_CHARS])


def is_clean(sentence: str) -> bool:
    """True if a text holds neither code nor a secret nor invisible characters."""
    return not count_code(sentence) and not find_secrets(sentence) and not find_invisible(sentence)


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
