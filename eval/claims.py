"""Claims within the bus's limits: about a definition, and about a commit."""

from __future__ import annotations

import re

from engrambus.knowledge.engrams.sentences import split_sentences
from engrambus.knowledge.engrams.splitting import split_claim
from eval.definitions import Definition

_SPACES = re.compile(r"\s+")
_PARAGRAPH_END = re.compile(r"\n\s*\n")


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring on one line."""
    paragraph = _PARAGRAPH_END.split(docstring.strip(), maxsplit=1)[0]
    return next(split_sentences(_one_line(paragraph)), "")


def definition_claim(definition: Definition, *, with_docstring: bool = True) -> str:
    """Return what an agent would note about a definition: its name and file, and what it does, takes and calls."""
    head = f"{definition.kind} {definition.name} in {definition.path}"
    sentence = first_sentence(definition.docstring) if with_docstring else ""
    if sentence:
        return _cut(f"{head}: {sentence}")
    parts = []
    if definition.arguments:
        parts.append(f"{'extends' if definition.kind == 'class' else 'takes'} {', '.join(definition.arguments)}")
    if definition.calls:
        parts.append(f"calls {', '.join(definition.calls)}")
    return _cut(f"{head} {' and '.join(parts)}".rstrip())


def commit_claim(subject: str) -> str:
    """Return a commit's subject as a claim."""
    return _cut(_one_line(subject))


def _cut(claim: str) -> str:
    """Return the beginning of a claim that is within the limits."""
    pieces = split_claim(claim)
    return pieces[0] if pieces else ""


def _one_line(text: str) -> str:
    """Return a text on one line, without control characters."""
    return _SPACES.sub(" ", "".join(char if char.isprintable() else " " for char in text)).strip()
