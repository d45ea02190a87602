"""From a draft to a claim: the first sentences of what it quotes that may stand in an engram.

A sentence with code, a secret or invisible characters in it is passed over, and so is one that says nothing alone; a
draft without any other is skipped, and the reason is counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from engrambus.knowledge.engrams import MAX_CLAIM_CHARS, MAX_CLAIM_SENTENCES, count_sentences
from engrambus.knowledge.learning.plain_sentences import says_little
from engrambus.knowledge.learning.scoring import MIN_CHARS
from engrambus.knowledge.learning.values import Draft
from engrambus.knowledge.messages import count_code
from engrambus.policy.secrets import find_secrets
from engrambus.visible_text import find_invisible

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_UNDECODED = "\ufffd"
_ESCAPE = "\x1b"
_TITLED = ("commit", "decision", "changelog")
MAX_TRIED = 12
"""Sentences of a text that are tried."""


class Quotation:
    """The outcome of quoting a draft: its claim, or the reason why there is none."""

    __slots__ = ("claim", "reason")

    def __init__(self, claim: str = "", reason: str = "") -> None:
        self.claim = claim
        self.reason = reason


def quote(draft: Draft) -> Quotation:
    """Return the claim of a draft, or why nothing of it may be quoted."""
    tried = [" ".join(sentence.split()) for sentence in draft.sentences[:MAX_TRIED]]
    empty = [_says_little(draft, position, sentence) for position, sentence in enumerate(tried)]
    sentences = [sentence for sentence, reason in zip(tried, empty, strict=True) if not reason]
    if not sentences:
        problems = filter(None, map(text_problem, draft.sentences[:MAX_TRIED]))
        return Quotation(reason=next(problems, empty[0] if empty else "short"))
    quoted = _joined(draft, sentences)
    # Most texts are clean, and one check of all of it is cheaper than one for each sentence.
    if not quoted or text_problem(draft.prefix + " ".join(quoted)):
        reasons = [text_problem(sentence) for sentence in sentences]
        clean = [sentence for sentence, reason in zip(sentences, reasons, strict=True) if not reason]
        quoted = _joined(draft, clean)
        # Sentences that are clean alone may look like code together.
        while len(quoted) > 1 and count_code(draft.prefix + " ".join(quoted)):
            quoted.pop()
        if not quoted:
            return Quotation(reason=next(filter(None, reasons), "long" if clean else "short"))
        if problem := text_problem(draft.prefix + " ".join(quoted)):
            return Quotation(reason=problem)
    if len(" ".join(quoted)) < MIN_CHARS:
        return Quotation(reason="short")
    return Quotation(claim=draft.prefix + " ".join(quoted))


def _says_little(draft: Draft, position: int, sentence: str) -> str:
    """Return why a sentence of a draft is passed over; empty if it is not."""
    is_ours = draft.source in ("ci", "owners") or (draft.source == "test" and not draft.prefix)
    if is_ours or draft.source == "todo":
        return ""  # a fixed sentence with names in it; and an open question is what a comment leaves to do
    # A subject, a title or an entry may be a verb and a name of code.
    return says_little(sentence, 1) if draft.source in _TITLED and not position else says_little(sentence)


def _joined(draft: Draft, sentences: Sequence[str]) -> list[str]:
    """Return the first sentences that fit into a claim together; one that is too long alone is passed over."""
    quoted: list[str] = []
    for sentence in sentences:
        text = draft.prefix + " ".join((*quoted, sentence))
        if len(text) > MAX_CLAIM_CHARS or count_sentences(text) > min(draft.max_sentences, MAX_CLAIM_SENTENCES):
            if quoted:
                break
            continue
        quoted.append(sentence)
    return quoted


@lru_cache(maxsize=2048)  # a claim is checked when it is chosen, and again when it is put
def text_problem(sentence: str) -> str:
    """Return why a text may not be quoted; empty if it may."""
    if _UNDECODED in sentence:
        return "not UTF-8"
    if _ESCAPE in sentence or _CONTROL.search(sentence):
        return "control characters"
    if not sentence.isascii() and find_invisible(sentence) is not None:
        return "invisible text"
    if len(sentence) > MAX_CLAIM_CHARS:
        return "long"
    if count_code(sentence):
        return "code"
    return "secret" if find_secrets(sentence) else ""
