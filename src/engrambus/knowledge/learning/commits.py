"""Commit messages that explain why: their subject with the sentences that give the reason."""

from __future__ import annotations

import re

from engrambus.knowledge.learning.markup import sentences_of
from engrambus.knowledge.learning.plain_sentences import PREFIX, is_trivial, reasons_first, says_little
from engrambus.knowledge.learning.scoring import ROUTINE, names_fix, quality, why_words
from engrambus.knowledge.learning.values import Draft, SourceCommit

MAX_FILES = 40
"""A commit that changes more is a sweep through the code."""
MAX_BODY_CHARS = 4000
MAX_SENTENCES = 3
"""Sentences of a claim: the subject and two of the body."""
MIN_BODY_WORDS = 4
"""A shorter sentence of a body says nothing alone."""

_TRAILER = re.compile(
    r"[A-Z][A-Za-z-]{1,40}: .*<?\S+@\S+>?\s*$|(?:Signed-off|Co-authored|Reviewed|Acked|Tested|Cc)[\w-]*:", re.IGNORECASE
)
_REFERENCE = re.compile(
    r"^(?:(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|see)\W+)?(?:[\w./-]{0,80}#\d+[\s,.]*)+$", re.IGNORECASE
)
_PULL = re.compile(
    r"(?:\s*\((?:#|PR\s?#?)\d+\)"
    r"|[,;.:]?\s+(?:refs?|closes?|fixes|resolves)\s+(?:#|GH-)\d+(?:,?\s+(?:(?:refs?|closes?)\s+)?#\d+)*)+\.?\s*$",
    re.IGNORECASE,
)
_BACKPORT = re.compile(
    r"^(?:\[(?:PR\s?)?#\d+[^\]]*\]\s*|\[?backport[^\]:]*[\]:]\s*|\[\d+\.\d[\w.]*\]\s*)+", re.IGNORECASE
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_CHECKLIST = re.compile(r"^\s*[-*+] \[[ xX]\] ", re.MULTILINE)
"""The checklist of a template for pull requests: it and what follows is not about the change."""
_SQUASHED = re.compile(r"^\* .+\n(?=\n|\Z)", re.MULTILINE)
"""The subject of a commit that was squashed into this one: an item with an empty line after it."""
MIN_SQUASHED_WORDS = 10
"""A squashed subject with fewer words, or without a reason, is a step on the way."""
SAME_WORDS = 0.8
"""A sentence of the body that has this part of its words from the subject repeats it."""
_CONVENTIONAL = re.compile(r"^(?:chore|ci|build|style)(?:\([^)]*\))?!?:", re.IGNORECASE)
_NOT_SOURCE = re.compile(
    r"(?:^|/)(?:tests?|testing|docs?|examples?|\.github|\.circleci|requirements|vendor|_vendor)/|(?:^|/)test_|_test\."
    r"|(?:^|/)(?:setup|conf|__about__|__version__)\.py$|\.(?:md|rst|txt|lock|toml|cfg|ini|ya?ml|json|svg|png|html|css)$"
    r"|^[^.]*$|/[^./]*$|(?:^|/)\.[^/]*$",
    re.IGNORECASE,
)


def commit_draft(commit: SourceCommit) -> Draft | None:
    """Return what a commit explains; None for routine and for sweeps through many files."""
    subject, _, body_text = commit.message.replace("\r", "").strip().partition("\n")
    subject = _PULL.sub("", _BACKPORT.sub("", " ".join(subject.split())))
    if not commit.paths or len(commit.paths) > MAX_FILES or commit.author.lower().endswith("[bot]"):
        return None
    if ROUTINE.search(subject) or ROUTINE.search(PREFIX.sub("", subject)) or _CONVENTIONAL.match(subject):
        return None
    paragraphs = _paragraphs(body_text)
    # A squashed commit repeats its subject, and lists the routine on the way.
    sentences = [
        sentence
        for paragraph in paragraphs
        for sentence in sentences_of(paragraph, 16)
        if not _repeats(sentence, subject)
        and not (ROUTINE.search(sentence) or is_trivial(sentence) or says_little(sentence, MIN_BODY_WORDS))
    ]
    ordered = reasons_first(sentences[:16])
    # Only what will be quoted counts: a long list of steps would otherwise seem to explain much.
    quoted = " ".join(ordered[: MAX_SENTENCES - 1])
    has_reason = why_words(quoted) > 0
    if is_trivial(subject) and not has_reason:
        return None
    points = quality(f"{subject}. {quoted}")
    path = _main_path(commit)
    if points < 0 or not path:
        return None
    points += min(12, len(quoted) // 30) + (8 if has_reason else 0) + (4 if names_fix(commit.message[:400]) else 0)
    points += 10 if not _NOT_SOURCE.search(path) else 0
    points -= 12 if is_trivial(subject) else 0
    return Draft(
        source="commit",
        kind="diff",
        sentences=(_ended(subject), *ordered),
        max_sentences=MAX_SENTENCES,
        path=path,
        commit=commit.id,
        parent=commit.parent,
        points=points,
        time_s=commit.time_s,
    )


def _paragraphs(text: str) -> list[str]:
    """Return the prose of a message, each paragraph and item on one line: no trailers, quoted output or references."""
    prose = _CHECKLIST.split(_COMMENT.sub("", text[:MAX_BODY_CHARS]), maxsplit=1)[0]
    is_squashed = len(_SQUASHED.findall(f"{prose.strip()}\n")) > 1
    paragraphs: list[list[str]] = [[]]
    is_fenced = False
    for line in prose.splitlines():
        stripped = line.strip()
        is_fence = stripped.startswith(("```", "~~~"))
        is_fenced ^= is_fence
        is_item = stripped.startswith(("* ", "- "))
        is_quoted = line.startswith(("    ", "\t", ">", "# ", "##", "---")) and not is_item and not paragraphs[-1]
        is_step = is_squashed and line.startswith("* ") and _is_step(stripped)
        if is_fence or is_fenced or is_step or is_quoted or not stripped or _is_trailer(stripped):
            paragraphs.append([])
            continue
        if is_item:
            paragraphs.append([])
        paragraphs[-1].append(stripped[2:].strip() if is_item else stripped)
    return [_ended(" ".join(lines).replace("**", "")) for lines in paragraphs if lines]


def _is_step(item: str) -> bool:
    return len(item.split()) <= MIN_SQUASHED_WORDS or not why_words(item)


def _is_trailer(line: str) -> bool:
    return bool(_TRAILER.match(line) or _REFERENCE.match(line))


def _repeats(sentence: str, subject: str) -> bool:
    """True if a sentence says what the subject says."""
    words, known = (set(re.findall(r"[^\W\d]\w*", text.casefold())) for text in (sentence, subject))
    return len(words & known) >= SAME_WORDS * len(words)


def _main_path(commit: SourceCommit) -> str:
    """Return the file that a commit is about: one that its message names, else the first that is source."""
    words = {word.removesuffix("s") for word in re.findall(r"[a-z_]\w{3,}", commit.message[:1000].lower())}

    def order(path: str) -> tuple[bool, bool]:
        is_named = path.rpartition("/")[2].partition(".")[0].lower().removesuffix("s") in words
        return bool(_NOT_SOURCE.search(path)), not is_named

    return next((path for path in sorted(commit.paths, key=order) if len(path) < 150), "")


def _ended(subject: str) -> str:
    return subject if subject[-1:] in ".!?:,;…" else f"{subject}."
