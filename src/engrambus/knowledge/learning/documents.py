"""Documents: instructions for agents, rules for contributors, decision records, the changelog, and other pages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engrambus.knowledge.learning.markup import Block, blocks_of, plain, sentences_of
from engrambus.knowledge.learning.plain_sentences import leans_back
from engrambus.knowledge.learning.scoring import quality, rule_words, why_words
from engrambus.knowledge.learning.values import CLAUDE_MEMORY, Draft, SourceFile

MAX_FROM_FILE = 60
"""Drafts of one document, the best."""
MAX_FROM_PAGE = 12
"""The same for a page of the documentation."""

_VERSION = re.compile(r"\b(?:v|version\s+)?(\d+\.\d+(?:\.\d+)?(?:\.?(?:a|b|rc|dev|post)\d*)?)\b", re.IGNORECASE)
_DECISION = re.compile(
    r"^(?:\d+[.)]?\s+)?(?:the\s+)?(?:decision(?: outcome)?|outcome|resolution|proposal|solution)\b", re.IGNORECASE
)
_STATUS = re.compile(r"^(?:\*\*)?(?:status|date|deciders?|authors?|tags?|superseded?)\b\s*:?", re.IGNORECASE)
_ISSUE = re.compile(r"\s*\(?\s*(?:#\d+|GH-\d+|:(?:issue|pr):`\d+`)(?:,?\s*(?:#\d+|:(?:issue|pr):`\d+`))*\s*\)?\.?$")
_ENDED = re.compile(r"[.!?。！？][)\"'”’*_`\]]*$")
"""The end of a sentence, with closing marks."""
_RULES_ABOVE = re.compile(
    r"\b(?:convention|rule|style|guideline|requirement|polic|commit|test|review|must|never|do not)", re.IGNORECASE
)


def instructions(file: SourceFile) -> list[Draft]:
    """Return what CLAUDE.md, AGENTS.md and the like ask of those who work here."""
    return _best((_block_draft(block, file, "instructions", 24) for block in blocks_of(file.lines)), MAX_FROM_FILE)


def contributing(file: SourceFile) -> list[Draft]:
    """Return the rules for contributors."""
    return _best((_block_draft(block, file, "contributing", 12) for block in blocks_of(file.lines)), MAX_FROM_FILE)


def _block_draft(block: Block, file: SourceFile, source: str, base: int) -> Draft | None:
    points = quality(block.text)
    rules = rule_words(block.text)
    if points < 0 or block.text.endswith(":"):
        return None
    # An item of a template or a checklist names a thing; rules for agents are often written without a full stop.
    if source == "contributing" and not rules and not _ENDED.search(block.text):
        return None
    about = any(map(_RULES_ABOVE.search, block.headings))
    return Draft(
        source="instructions" if source == "instructions" else "contributing",
        kind="policy",
        sentences=sentences_of(block.text),
        path=file.path,
        first=block.first,
        last=block.last,
        points=base + points + (6 if about else 0) + (4 if rules else 0),
    )


def memory_notes(file: SourceFile) -> list[Draft]:
    """Return what Claude noted about a project for itself."""
    drafts = []
    for block in blocks_of(file.lines):
        points = quality(block.text)
        if points < 0:
            continue
        drafts.append(
            Draft(
                source=CLAUDE_MEMORY,
                kind="policy" if rule_words(block.text) else "fact",
                sentences=sentences_of(block.text),
                path=file.path,
                first=block.first,
                last=block.last,
                points=20 + points,
            )
        )
    return _best(iter(drafts), MAX_FROM_FILE)


def pages(file: SourceFile) -> list[Draft]:
    """Return what other documents demand, limit or give a reason for."""
    return _best((_page_draft(block, file) for block in blocks_of(file.lines)), MAX_FROM_PAGE)


def _page_draft(block: Block, file: SourceFile) -> Draft | None:
    weight = rule_words(block.text) + 2 * why_words(block.text)
    points = quality(block.text)
    if points < 0 or weight < 2 or not _ENDED.search(block.text):
        return None
    # The sentence that limits or explains says more than the first of its paragraph.
    sentences = sentences_of(block.text, 12)
    start = max(range(len(sentences)), key=lambda index: (quality(sentences[index]), -index)) if sentences else 0
    if start and (leans_back(sentences[start]) or start == len(sentences) - 1):
        start -= 1
    return Draft(
        source="docs",
        kind="fact",
        sentences=(*sentences[start:], *sentences[:start]),
        path=file.path,
        first=block.first,
        last=block.last,
        points=points,
    )


def decisions(file: SourceFile) -> list[Draft]:
    """Return what a decision record decides: its title with the first sentences of the decision, and its reasons."""
    blocks = [block for block in blocks_of(file.lines) if not _STATUS.match(block.text)]
    if not blocks:
        return []
    title = blocks[0].headings[0] if blocks[0].headings else ""
    decided = next((block for block in blocks if block.headings and _DECISION.match(block.headings[-1])), blocks[0])
    opening = sentences_of(decided.text, 4)
    drafts: list[Draft | None] = [
        Draft(
            source="decision",
            kind="decision",
            sentences=((_ended(title), *opening) if title else opening),
            max_sentences=3,
            path=file.path,
            first=1 if decided.first <= 12 else decided.first,
            last=decided.last,
            points=46,
        )
    ]
    for block in blocks:
        points = quality(block.text)
        if block is not decided and points >= 14:
            drafts.append(
                Draft(
                    source="decision",
                    kind="decision",
                    sentences=sentences_of(block.text, 6),
                    path=file.path,
                    first=block.first,
                    last=block.last,
                    points=8 + points,
                )
            )
    return _best(iter(drafts), 4)


def changelog(file: SourceFile) -> list[Draft]:
    """Return the entries of a changelog, each with its version."""
    drafts = []
    for number, block in enumerate(blocks_of(file.lines)):
        version = _version_of(block)
        text = _ISSUE.sub("", plain(block.text))
        points = quality(text)
        if points < 0 or not version or block.text.endswith(":"):
            continue
        recency = max(0, 10 - number // 40)  # a changelog begins with the newest version
        drafts.append(
            Draft(
                source="changelog",
                kind="fact",
                sentences=sentences_of(block.text),
                prefix=f"{version}: ",
                path=file.path,
                first=block.first,
                last=block.last,
                points=4 + points + recency,
            )
        )
    return sorted(drafts, key=lambda draft: -draft.points)[:400]


def _version_of(block: Block) -> str:
    for heading in reversed(block.headings):
        if match := _VERSION.search(heading):
            return match[1]
        if "unreleased" in heading.lower():
            return "unreleased"
    return ""


def _ended(title: str) -> str:
    """Return a title as a sentence of its own."""
    title = re.sub(r"^(?:ADR|RFC|PEP)?[-\s]*\d+\s*[.:)\-–—]?\s*", "", title, flags=re.IGNORECASE) or title
    return title if title[-1:] in ".!?" else f"{title}."


def _best(drafts: Iterator[Draft | None], limit: int) -> list[Draft]:
    present = [draft for draft in drafts if draft is not None]
    return sorted(present, key=lambda draft: -draft.points)[:limit]
