"""What is asked in process and over HTTP gets the same answers and the same refusals."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from engrambus import Bus, Engram, EngramBusError, Pointer, PutEngram
from engrambus.errors import FieldType, TooDeep
from engrambus.operations import OPERATIONS
from engrambus.operations.tuples import TupleDispatch
from tests.sdk.conftest import Both

CLAIM = "The parser trusts its input."
AT = ["src/parser.py:10-20"]


def plain(answer: Any) -> Any:
    """An answer without what differs from one moment to the next."""
    passing = {"as_of", "created_at", "expires_at", "token", "token_id", "commits", "journal_bytes"}

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: strip(item) for name, item in value.items() if name not in passing}
        return [strip(item) for item in value] if isinstance(value, list) else value

    return strip(msgspec.to_builtins(answer))


@pytest.fixture(scope="module")
def engram(both: Both) -> Engram:
    """One engram both ways can see."""
    return both.local.put_engram(CLAIM, at=AT, kind="risk", tags=["parsing"])


READS: dict[str, Callable[[Bus, Engram], Any]] = {
    "the newest": lambda bus, _: bus.query_engrams(),
    "by words": lambda bus, _: bus.query_engrams("parser input"),
    "by words that are nowhere": lambda bus, _: bus.query_engrams("zebra"),
    "by keys": lambda bus, _: bus.query_engrams(keys=["parser", "input"], k=3),
    "by kind and scope": lambda bus, _: bus.query_engrams("parser", kind="risk", scope="project"),
    "within a budget": lambda bus, _: bus.query_engrams("parser", max_tokens=400),
    "one engram": lambda bus, engram: bus.get_engram(engram.id),
    "lines by pointer": lambda bus, engram: bus.deref_pointer(engram.pointers[0]),
    "lines by ref": lambda bus, engram: bus.deref_pointer(engram.pointers[0].ref, max_tokens=120),
    "links": lambda bus, engram: bus.link_pointer(engram.pointers[0].ref),
    "who is there": lambda bus, _: bus.list_agents(),
    "another token": lambda bus, _: bus.agent_token("coder", expires_in="PT1H"),
}


@pytest.mark.parametrize("depth", [33, 975, 5000])
def test_deep_nesting_is_refused_in_process_and_remote(both: Both, depth: int) -> None:
    deep: dict[str, Any] = {}  # YT-10
    for _ in range(depth):
        deep = {"a": deep}
    for bus in (both.local, both.remote):
        with pytest.raises(TooDeep) as refused:
            bus.tuple_dispatch("build", map_pos=deep)
        assert refused.value.limit == 32
    response = TupleDispatch(lane="build", map_pos=deep)
    with pytest.raises(TooDeep):
        both.local.call(OPERATIONS["tuple_dispatch"], response)


@pytest.mark.parametrize("ask", READS.values(), ids=READS.keys())
def test_a_read_gives_the_same_answer_in_process_and_remote(
    both: Both, engram: Engram, ask: Callable[[Bus, Engram], Any]
) -> None:
    local, remote = ask(both.local, engram), ask(both.remote, engram)
    assert type(local) is type(remote)
    assert plain(local) == plain(remote)


def test_a_put_has_the_same_provenance_in_process_and_remote(both: Both) -> None:
    puts = [bus.put_engram(CLAIM, at=AT, confidence=0.7, ttl="P2D", scope="run") for bus in (both.local, both.remote)]
    local, remote = (plain(msgspec.structs.replace(engram, id="")) for engram in puts)
    assert local == remote
    assert local["provenance"]["created_by"].endswith("/lead")


def test_many_engrams_go_in_one_call_both_ways(both: Both) -> None:
    for bus in (both.local, both.remote):
        answer = bus.put_engrams([PutEngram(claim=f"{CLAIM} {n}", at=AT) for n in range(3)])
        assert len(set(answer.ids)) == 3
        assert bus.get_engram(answer.ids[2]).claim == f"{CLAIM} 2"


def test_values_that_cannot_be_sent_are_refused_before_sending(both: Both) -> None:
    url = f"http://127.0.0.1:{both.served.port}"
    for token in ("tok€n", "two\nlines", ""):
        with Bus.connect(url, token=token) as bus, pytest.raises(EngramBusError) as refused:
            bus.list_agents()
        assert refused.value.code == "TOKEN_INVALID"
    for bus in (both.local, both.remote):
        with pytest.raises(EngramBusError) as refused:
            bus.put_engram("half \ud800 a pair", at=AT)
        assert refused.value.code == "BAD_TEXT"
    with pytest.raises(EngramBusError) as refused:
        both.remote.put_engram(CLAIM, at=AT, idempotency_key="kéy")
    assert refused.value.field == "Idempotency-Key"


REFUSED: dict[str, tuple[str, Callable[[Bus], Any]]] = {
    "no pointer": ("NO_POINTER", lambda bus: bus.put_engram(CLAIM)),
    "a wrong type": ("FIELD_TYPE", lambda bus: bus.put_engram(5, at=AT)),  # type: ignore[arg-type]
    "a wrong kind": ("FIELD_VALUE", lambda bus: bus.query_engrams(kind="guess")),  # type: ignore[arg-type]
    "too many": ("FIELD_VALUE", lambda bus: bus.query_engrams(k=10_000)),
    "an absent engram": ("ENGRAM_NOT_FOUND", lambda bus: bus.get_engram("01K7Z3V5QX0000000000000000")),
    "a slash in an id": ("ENGRAM_NOT_FOUND", lambda bus: bus.get_engram("a")),
    "a short revision": (
        "POINTER_REVISION",
        lambda bus: bus.deref_pointer(Pointer(type="repo", ref="repo:src/parser.py#L1@abc")),
    ),
    "a small budget": ("BUDGET_TOO_SMALL", lambda bus: bus.inbox(max_tokens=1)),
    "a role that may not": ("ROLE_FORBIDDEN", lambda bus: bus.stats(over="project")),
    "an absent descendant": ("AGENT_NOT_FOUND", lambda bus: bus.speak_as("nobody").query_engrams()),
    "someone else's child": ("NOT_YOUR_DESCENDANT", lambda bus: bus.speak_as("stranger").query_engrams()),
    "an agent that exists": ("AGENT_EXISTS", lambda bus: bus.add_agent("coder")),
}


@pytest.mark.parametrize(("code", "ask"), REFUSED.values(), ids=REFUSED.keys())
def test_an_error_is_the_same_in_process_and_remote(both: Both, code: str, ask: Callable[[Bus], Any]) -> None:
    problems = []
    for bus in (both.local, both.remote):
        with pytest.raises(EngramBusError) as refused:
            ask(bus)
        problems.append((type(refused.value), refused.value.problem()))
    assert problems[0] == problems[1]
    assert problems[0][1]["code"] == code


def test_a_parent_speaks_as_its_child(both: Both) -> None:
    for bus in (both.local, both.remote):
        with bus.speak_as("coder") as child:
            engram = child.put_engram(CLAIM, at=AT)
        assert engram.provenance.created_by.endswith("/coder")
        assert bus.get_engram(engram.id) == engram, "closing the child's bus leaves its parent's open"


def test_an_idempotency_key_is_shared_by_both_transports(both: Both) -> None:
    first, repeated = (bus.put_engram(CLAIM, at=AT, idempotency_key="once") for bus in (both.local, both.remote))
    assert first == repeated
    with pytest.raises(EngramBusError, match="another request"):
        both.remote.put_engram("Something else.", at=AT, idempotency_key="once")


def test_the_local_admin_needs_no_token_and_chooses_a_run(both: Both) -> None:
    run = both.served.run
    with Bus.open(both.served.repository.path, run=run, settings=both.settings) as admin:
        assert admin.stats().run_id == run
        assert admin.verify().sound
        assert admin.apply_policy({"token_ttl": "P7D"}).policy == {"token_ttl": "P7D"}


def test_an_operation_without_a_route_says_why(both: Both) -> None:
    with pytest.raises(EngramBusError, match="at the machine") as refused:
        both.remote.verify()
    assert refused.value.code == "ROUTE_NOT_FOUND"


def test_types_are_checked_before_anything_is_sent(both: Both) -> None:
    with pytest.raises(FieldType):
        both.remote.query_engrams(q=["a"])  # type: ignore[arg-type]


def test_threads_share_a_bus(both: Both) -> None:
    def work(number: int) -> str:
        bus = both.local if number % 2 else both.remote
        engram = bus.put_engram(f"{CLAIM} {number}", at=AT, scope="run")
        return bus.get_engram(engram.id).claim

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(40))) == [f"{CLAIM} {number}" for number in range(40)]


def test_a_claim_is_replaced_and_the_past_is_asked_both_ways(both: Both) -> None:  # BX-11
    for bus, name in ((both.local, "near"), (both.remote, "far")):
        older = bus.put_engram(f"The {name} lane is closed at night.", at=AT)
        newer = bus.put_engram(f"The {name} lane is open at night.", at=AT, replaces=older.id)
        for asked in (both.local, both.remote):
            about = asked.show_engram(older.id).about[older.id]
            assert (about.replaced_by, about.valid_from) == (newer.id, older.provenance.created_at)
            assert asked.show_engram(newer.id).about[newer.id].replaces == [older.id]
            past = asked.query_engrams(f"{name} lane", as_of=older.provenance.created_at)
            assert past.engrams[0].id == older.id
            assert newer.id not in [engram.id for engram in past.engrams]
            with pytest.raises(EngramBusError, match="was replaced"):
                asked.confirm_engram(older.id)


def test_a_contradiction_is_decided_both_ways(both: Both) -> None:  # EB-24
    for bus, name in ((both.local, "blue"), (both.remote, "green")):
        older = bus.put_engram(f"The {name} queue has a limit of 40 tuples.", at=AT, kind="decision")
        with pytest.warns(UserWarning, match="May contradict"):
            newer = bus.put_engram(f"The {name} queue has a limit of 90 tuples.", at=AT, kind="decision")
        (row,) = bus.list_contradictions().contradictions
        decided = bus.decide_contradiction(row.contradiction_id, keep="new", reason="Measured again.")
        assert (decided.newer.id, decided.older.id, decided.keep) == (newer.id, older.id, "new")
        assert bus.list_contradictions().contradictions == []
