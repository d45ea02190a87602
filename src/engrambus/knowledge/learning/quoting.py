"""From a draft to a claim: the first sentences of what it quotes that may stand in an engram.

A sentence with code, a secret or invisible characters in it is passed over; a draft without any other is skipped, and
the reason is counted.
"""

from __future__ import annotations

import re

from engrambus.knowledge.engrams import MAX_CLAIM_CHARS, MAX_CLAIM_SENTENCES, count_sentences
from engrambus.knowledge.learning.scoring import MIN_CHARS
from engrambus.knowledge.learning.values import Draft
from engrambus.knowledge.messages import count_code
from engrambus.policy.secrets import find_secrets
from engrambus.visible_text import find_invisible

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_UNDECODED = "\ufffd"
_ESCAPE = "\x1b"


class Quotation:
    """The outcome of quoting a draft: its claim, or the reason why there is none."""

    __slots__ = ("claim", "reason")

    def __init__(self, claim: str = "", reason: str = "") -> None:
        self.claim = claim
        self.reason = reason


def quote(draft: Draft) -> Quotation:
    """Return the claim of a draft, or why nothing of it may be quoted."""
    quoted: list[str] = []
    reason = "short"
    for sentence in draft.sentences[:12]:
        problem = _problem(sentence)
        if problem:
            reason = problem if not quoted else reason
            continue
        text = draft.prefix + " ".join((*quoted, " ".join(sentence.split())))
        if len(text) > MAX_CLAIM_CHARS or count_sentences(text) > min(draft.max_sentences, MAX_CLAIM_SENTENCES):
            if not quoted:
                reason = "long"
                continue
            break
        quoted.append(" ".join(sentence.split()))
    claim = draft.prefix + " ".join(quoted)
    # Sentences that are clean alone may look like code together.
    while len(quoted) > 1 and count_code(claim):
        quoted.pop()
        claim = draft.prefix + " ".join(quoted)
    if not quoted:
        return Quotation(reason=reason)
    if len(" ".join(quoted)) < MIN_CHARS:
        return Quotation(reason="short")
    if count_code(claim):
        return Quotation(reason="code")
    return Quotation(claim=claim)


def _problem(sentence: str) -> str:
    """Return why a sentence may not be quoted; empty if it may."""
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
