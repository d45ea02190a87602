"""Commit messages that explain why: their subject with the sentences that give the reason."""

from __future__ import annotations

import re

from engrambus.knowledge.learning.markup import sentences_of
from engrambus.knowledge.learning.scoring import ROUTINE, names_fix, quality, why_words
from engrambus.knowledge.learning.values import Draft, SourceCommit

MAX_FILES = 40
"""A commit that changes more is a sweep through the code."""
MAX_BODY_CHARS = 4000

_TRAILER = re.compile(
    r"[A-Z][A-Za-z-]{1,40}: .*<?\S+@\S+>?\s*$|(?:Signed-off|Co-authored|Reviewed|Acked|Tested|Cc)[\w-]*:", re.IGNORECASE
)
_REFERENCE = re.compile(
    r"^(?:(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|see)\W+)?(?:[\w./-]{0,80}#\d+[\s,.]*)+$", re.IGNORECASE
)
_PULL = re.compile(r"\s*\((?:#|PR\s?#?)\d+\)\s*$")
_CONVENTIONAL = re.compile(r"^(?:chore|ci|build|style)(?:\([^)]*\))?!?:", re.IGNORECASE)
_NOT_SOURCE = re.compile(
    r"(?:^|/)(?:tests?|testing|docs?|examples?|\.github|\.circleci|requirements|vendor|_vendor)/|(?:^|/)test_|_test\."
    r"|(?:^|/)(?:setup|conf|__about__|__version__)\.py$|\.(?:md|rst|txt|lock|toml|cfg|ini|ya?ml|json|svg|png|html|css)$"
    r"|^[^.]*$|/[^./]*$|(?:^|/)\.[^/]*$",
    re.IGNORECASE,
)


def commit_draft(commit: SourceCommit) -> Draft | None:
    """Return what a commit explains; None for routine and for sweeps through many files."""
    subject, _, body_text = commit.message.strip().partition("\n")
    subject = " ".join(subject.split())
    if not commit.paths or len(commit.paths) > MAX_FILES or commit.author.lower().endswith("[bot]"):
        return None
    if ROUTINE.search(subject) or _CONVENTIONAL.match(subject):
        return None
    body = _body(body_text)
    # A squashed commit repeats its subject, and lists the routine on the way.
    sentences = [
        sentence
        for sentence in sentences_of(body, 16)
        if sentence.rstrip(".").casefold() not in _PULL.sub("", subject).casefold() and not ROUTINE.search(sentence)
    ]
    # The sentences that give the reason come first, in the order in which they stand.
    reasons = [sentence for sentence in sentences if why_words(sentence)]
    remarks = [sentence for sentence in sentences if not why_words(sentence)]
    points = quality(f"{subject}. {body[:600]}")
    path = _main_path(commit)
    if points < 0 or not path:
        return None
    points += min(12, len(body) // 40) + (8 if reasons and body else 0) + (4 if names_fix(commit.message[:400]) else 0)
    points += 10 if not _NOT_SOURCE.search(path) else 0
    return Draft(
        source="commit",
        kind="diff",
        sentences=(_ended(_PULL.sub("", subject)), *reasons, *remarks),
        max_sentences=3,
        path=path,
        commit=commit.id,
        parent=commit.parent,
        points=points,
        time_s=commit.time_s,
    )


def _body(text: str) -> str:
    """Return the prose of a message on one line: no trailers, no quoted output, no bare references."""
    paragraphs: list[list[str]] = [[]]
    for line in text[:MAX_BODY_CHARS].splitlines():
        stripped = line.strip()
        is_item = stripped.startswith(("* ", "- "))
        is_quoted = line.startswith(("    ", "\t", ">", "#", "---")) and not is_item and not paragraphs[-1]
        if not stripped or is_quoted or _TRAILER.match(stripped) or _REFERENCE.match(stripped):
            paragraphs.append([])
            continue
        if is_item:
            paragraphs.append([])
        paragraphs[-1].append(stripped[2:].strip() if is_item else stripped)
    return " ".join(_ended(" ".join(lines)) for lines in paragraphs if lines)


def _main_path(commit: SourceCommit) -> str:
    """Return the file that a commit is about: one that its message names, else the first that is source."""
    words = {word.removesuffix("s") for word in re.findall(r"[a-z_]\w{3,}", commit.message[:1000].lower())}

    def order(path: str) -> tuple[bool, bool]:
        is_named = path.rpartition("/")[2].partition(".")[0].lower().removesuffix("s") in words
        return bool(_NOT_SOURCE.search(path)), not is_named

    return next((path for path in sorted(commit.paths, key=order) if len(path) < 150), "")


def _ended(subject: str) -> str:
    return subject if subject[-1:] in ".!?:" else f"{subject}."
