"""Messages that the tests share."""

from __future__ import annotations

import re
from typing import Any

import pytest

from engrambus.core import SECOND_US
from engrambus.errors import EngramBusError, RevisionNotFound
from engrambus.evidence.pointers import PointerCompleter
from engrambus.knowledge.messages import ChildMessage, Message, MessageKind, ParentMessage, parse_message

SHA = "a1b2c3d4" * 5
YEAR_US = 365 * 86_400 * SECOND_US
REF = f"repo:services/gateway/vendor_client.py#L280-L360@{SHA}"

# The two examples of the specification, with the values it leaves open filled in.
PUBLISHED_CHILD = f"""ROLE: Programmer
TASK_STATUS: in_progress
ENGRAMS:
- kind: risk
  claim: "Potential contradiction between SPEC budget rules and current gateway reservation flow."
  confidence: 0.72
  ttl: "P7D"
  scope: "project"
  pointers:
  - {{ type: "artifact", ref: "artifact:SPEC_Budget_Enforcement.md#sec=Rules@{SHA}" }}
  - {{ type: "repo", ref: "repo:services/gateway/vendor_client.py#L280-L360@{SHA}" }}
POINTER_PACK:
- {{ type: "repo", ref: "repo:services/gateway/routes/completions.py#L900-L1060@{SHA}" }}
DEREF_REQUESTS:
- pointer: {{ type: "repo", ref: "repo:services/ledger/reservation.py#L1-L220@{SHA}" }}
  reason: "Need to confirm reservation atomicity behavior."
OUTPUT:
  summary: "Top risks identified; need deref grant for ledger code."
  next: "Await grant or alternative pointers."
"""
PUBLISHED_PARENT = f"""ROLE: Manager
SHARED_BRIEF_MICRO:
- "Goal: implement Engram Bus with 5% context rule; pointer-first only."
- "Hard constraint: budget enforcement in gateway; reject oversize."
BUDGETS:
  max_engrams: 10
  max_repo_spans: 3
  max_sam_items: 2
  max_inline_tokens: 800
GRANTS:
- budget_token: "EpIBCigKBWNoaWxk"
  pointer: {{ type: "repo", ref: "repo:services/ledger/reservation.py#L1-L220@{SHA}" }}
  cap_tokens: 500
TARGET_POINTER_PACK:
- {{ type: "artifact", ref: "artifact:SPEC_Engram_Bus_PAS_Shared_Memory.md#sec=Budgets@{SHA}" }}
INSTRUCTIONS:
- "Confirm atomicity + idempotency; emit 3-5 Engrams max; no inline code."
"""
LEAST = "ROLE: programmer\nTASK_STATUS: done\nOUTPUT: {summary: All is well.}\n"


def completer(text: str = SHA) -> PointerCompleter:
    """A repository with the commits that a text names; the first published one is checked out."""
    commits: set[str] = {*re.findall(r"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])", text), SHA}

    def expand(revision: str) -> str:
        found = [commit for commit in commits if commit.startswith(revision)]
        if len(found) != 1:
            raise RevisionNotFound(used=revision)
        return found[0]

    return PointerCompleter(expand, lambda: SHA)


def parse(text: str, kind: MessageKind, **options: Any) -> Message:
    """Parse a text into a message; the first problem is raised."""
    parsed = parse_message(text, kind, **{"max_ttl_us": YEAR_US, **options})
    if parsed.message is None:
        raise parsed.problems[0]
    return parsed.message


def parse_child(text: str, **options: Any) -> ChildMessage:
    message = parse(text, "child", **options)
    assert isinstance(message, ChildMessage)
    return message


def parse_parent(text: str, **options: Any) -> ParentMessage:
    message = parse(text, "parent", **options)
    assert isinstance(message, ParentMessage)
    return message


def refusal(text: str, kind: MessageKind = "child", **options: Any) -> EngramBusError:
    """The first problem of a text."""
    with pytest.raises(EngramBusError) as caught:
        parse(text, kind, **options)
    return caught.value


def engram(claim: str = "The gateway reserves twice.", ref: str = REF) -> str:
    """An item of ENGRAMS."""
    return f'  - kind: fact\n    claim: "{claim}"\n    pointers: ["{ref}"]\n'
