"""Engrams with stale evidence come last in an answer."""  # BX-01

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from engrambus.evidence.pointers import Staleness
from engrambus.knowledge.engrams import Engram, Provenance, current_first
from engrambus.knowledge.engrams.current import MAX_WINDOW, WINDOW
from engrambus.knowledge.engrams.ranking import RankedEngram

PROVENANCE = Provenance(created_at="2026-01-01T00:00:00Z", created_by="run/ada", source="agent")


def ranked_engram(name: str, *, is_untrusted: bool = False) -> RankedEngram:
    """Return an engram of this id."""
    engram = Engram(
        id=name, kind="fact", claim="A.", pointers=(), confidence=1, ttl="P1D", scope="run", provenance=PROVENANCE
    )
    return RankedEngram(engram, is_untrusted)


def order(ranked: Sequence[RankedEngram], stale: set[str], k: int) -> list[str]:
    """Return the ids of an answer to a question that finds these engrams, best first."""
    return [
        engram.id for engram in current_first(lambda size: ranked[:size], k, lambda _: dict.fromkeys(stale, "changed"))
    ]


@given(flags=st.lists(st.booleans(), max_size=60), k=st.integers(1, 30))
def test_stale_engrams_come_last_and_nothing_else_changes(flags: list[bool], k: int) -> None:
    ids = [str(number) for number in range(len(flags))]
    stale = {name for name, is_stale in zip(ids, flags, strict=True) if is_stale}
    window = ids[: max(k, min(WINDOW * k, MAX_WINDOW))]
    expected = [*(name for name in window if name not in stale), *(name for name in window if name in stale)]
    assert order([ranked_engram(name) for name in ids], stale, k) == expected[:k]


def test_only_the_engrams_of_an_answer_are_compared_if_none_of_them_is_stale() -> None:
    ranked = [ranked_engram(str(number)) for number in range(50)]
    compared: list[int] = []

    def find_stale(engrams: Sequence[Engram]) -> dict[str, Staleness]:
        compared.append(len(engrams))
        return {"30": "gone"}

    current_first(lambda size: ranked[:size], 12, find_stale)
    assert compared == [12]


def test_untrusted_engrams_do_not_take_the_place_of_stale_ones_of_the_project() -> None:
    own = [ranked_engram(f"own {number}") for number in range(4)]
    foreign = [ranked_engram(f"foreign {number}", is_untrusted=True) for number in range(8)]
    answer = order([*own, *foreign], {entry.engram.id for entry in own}, 4)
    assert sorted(answer) == ["foreign 0", "foreign 1", "own 0", "own 1"]
    assert answer[-2:] == ["own 0", "own 1"]
