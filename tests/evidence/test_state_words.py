"""Words for the state of evidence."""  # BX-01

from __future__ import annotations

import pytest

from engrambus.evidence.pointers import EvidenceState, describe_state


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (None, ""),
        (EvidenceState(state="same"), ""),
        (EvidenceState(state="moved"), "moved"),
        (EvidenceState(state="moved", now="src/b.py:12-14"), "moved to src/b.py:12-14"),
        (EvidenceState(state="changed"), "changed since"),
        (
            EvidenceState(state="changed", share=0.6, now="src/a.py:12-14"),
            "changed since, 60 % left, now src/a.py:12-14",
        ),
        (EvidenceState(state="changed", share=0.999), "changed since, 99 % left"),
        (EvidenceState(state="changed", share=0.001), "changed since, 1 % left"),
        (EvidenceState(state="changed", share=1.0, now="a.py:1"), "changed since, no longer together, now a.py:1"),
        (EvidenceState(state="gone"), "gone"),
        (EvidenceState(state="unresolved"), "unresolved"),
    ],
)
def test_a_state_is_told_in_few_words_and_the_same_lines_in_none(evidence: EvidenceState | None, words: str) -> None:
    assert describe_state(evidence) == words
