"""A long text becomes engrams in one commit, in order: the same in process and over HTTP."""  # EB-13

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from engrambus import Bus, EngramBusError
from engrambus.policy import space_of
from tests.http.running_server import count_engrams
from tests.sdk.conftest import Both

AT = ["src/parser.py:10-20"]
TALK = "Ada: " + " ".join(
    f"The {word} is kept in the ledger of {word}s." for word in ("cat", "dog", "owl", "fox", "elk")
)


@pytest.fixture(params=["local", "remote"])
def bus(both: Both, request: pytest.FixtureRequest) -> Bus:
    """The bus, opened here and over HTTP."""
    chosen: Bus = getattr(both, request.param)
    return chosen


def journal_lines(both: Both) -> list[dict[str, Any]]:
    """Return the commits of the journal."""
    return [json.loads(line) for line in both.served.journal().splitlines()]


def test_a_long_text_is_put_in_order_and_in_one_commit(both: Both, bus: Bus) -> None:
    before = len(journal_lines(both))
    text = TALK.replace("Ada", f"Ada {'L' if bus is both.local else 'R'}")
    parts = bus.put_text(text, at=AT, kind="decision", tags=["zoo"], scope="run").parts
    speaker = text.partition(": ")[0]
    assert [part.claim for part in parts] == [
        f"{speaker}: The cat is kept in the ledger of cats. The dog is kept in the ledger of dogs. "
        "The owl is kept in the ledger of owls.",
        f"{speaker}: The fox is kept in the ledger of foxs. The elk is kept in the ledger of elks.",
    ]
    for part in parts:
        engram = bus.get_engram(part.id)
        assert (engram.claim, engram.kind, engram.scope, list(engram.tags)) == (part.claim, "decision", "run", ["zoo"])
        assert engram.pointers[0].ref.startswith("repo:src/parser.py#L10-L20@")
    (commit,) = journal_lines(both)[before:]
    stored = json.dumps(commit)
    assert stored.index(parts[0].id) < stored.index(parts[1].id), "their order is that of the text"
    with both.served.gateway.store.read() as view:
        run = view.current_run()
        assert run is not None
        found = [view.find((space_of("run", run),), part.id) for part in parts]
    first, second = (engram.ordinal for engram in found if engram is not None)
    assert second == first + 1, "nothing stands between them"


def test_a_short_text_is_one_engram(bus: Bus) -> None:
    (part,) = bus.put_text("The lamp is on.", at=AT).parts
    assert bus.get_engram(part.id).claim == "The lamp is on."


def test_only_the_first_engram_replaces_another_and_names_what_was_used(bus: Bus) -> None:
    older = bus.put_engram(f"The lamp of bus {id(bus)} is old.", at=AT)
    basis = bus.put_engram("The lamps were counted.", at=AT)
    text = " ".join(f"Lamp {name} of bus {id(bus)} is new." for name in ("one", "two", "three", "four"))
    first, second = bus.put_text(text, at=AT, replaces=older.id, used=[basis.id]).parts
    assert bus.show_engram(older.id).about[older.id].replaced_by == first.id
    assert bus.show_engram(first.id).about[first.id].used == [basis.id]
    assert bus.show_engram(second.id).about[second.id].used == []


def test_a_repeated_call_with_the_same_key_puts_nothing(both: Both, bus: Bus) -> None:
    key = f"talk-{id(bus)}"
    text = TALK.replace("ledger", f"ledger {key}")
    first = bus.put_text(text, at=AT, idempotency_key=key)
    engrams = count_engrams(both.served.gateway)
    assert bus.put_text(text, at=AT, idempotency_key=key) == first
    assert count_engrams(both.served.gateway) == engrams


REFUSED: dict[str, tuple[str, str | None, Callable[[Bus], Any]]] = {
    "nothing": ("CLAIM_EMPTY", "text", lambda bus: bus.put_text("", at=AT)),
    "white space": ("CLAIM_EMPTY", "text", lambda bus: bus.put_text(" \n\t ", at=AT)),
    "much white space": ("CLAIM_EMPTY", "text", lambda bus: bus.put_text(" " * 5000, at=AT)),
    "no evidence": ("NO_POINTER", "pointers", lambda bus: bus.put_text(TALK)),
    "evidence that is not there": ("FILE_NOT_FOUND", "at[0]", lambda bus: bus.put_text(TALK, at=["absent.py:1"])),
    "an unknown engram to replace": (
        "ENGRAM_NOT_FOUND",
        "replaces",
        lambda bus: bus.put_text(TALK, at=AT, replaces="01K7Z3V5QX0000000000000000"),
    ),
    "too long": ("FIELD_VALUE", "text", lambda bus: bus.put_text("It is long. " * 8334, at=AT)),
    "too many": ("FIELD_VALUE", "text", lambda bus: bus.put_text("It is so. " * 1501, at=AT)),
    "more than the rate": ("RATE_LIMITED", "engrams_per_minute", lambda bus: bus.put_text("It is so. " * 1500, at=AT)),
    "half of a pair": ("BAD_TEXT", None, lambda bus: bus.put_text("half \ud800 a pair " * 60, at=AT)),
    "a control character": ("FIELD_VALUE", "text", lambda bus: bus.put_text("a bell \x07 rings " * 60, at=AT)),
}


@pytest.mark.parametrize(("code", "field", "put"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_text_stores_nothing(
    both: Both, bus: Bus, code: str, field: str | None, put: Callable[[Bus], Any]
) -> None:
    engrams = count_engrams(both.served.gateway)
    with pytest.raises(EngramBusError) as refused:
        put(bus)
    assert refused.value.code == code
    if field is not None:
        assert refused.value.field == field
    assert count_engrams(both.served.gateway) == engrams


def test_ten_megabytes_are_refused_with_the_limit(both: Both) -> None:
    text = "It is long. " * 870_000
    for bus in (both.local, both.remote):
        with pytest.raises(EngramBusError) as refused:
            bus.put_text(text, at=AT)
        assert (refused.value.code, refused.value.field, refused.value.limit) == ("FIELD_VALUE", "text", 100_000)
    answer = both.served.call("POST", "/engram/text", {"text": text, "at": AT})
    assert (answer.code, answer.json["limit"]) == ("BODY_TOO_LARGE", 1024 * 1024)


def test_a_put_still_takes_one_claim(bus: Bus) -> None:
    with pytest.raises(EngramBusError) as refused:
        bus.put_engram(TALK, at=AT)
    assert (refused.value.code, refused.value.limit) == ("CLAIM_TOO_MANY_SENTENCES", 3)
