"""Limits with real processes: a killed worker gives its slot back, and waiting workers are woken. # YT-17"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from engrambus.space.tuples import Claim, LimitMatch, SpaceSettings, TupleSpace, pause, set_limit, unpause
from engrambus.testing.work import completion, draft, put
from tests.harness.stores import SqliteWorkHarness

CLAIMANT = """
import sys, time
from collections.abc import Callable
from pathlib import Path
from engrambus.backends.sqlite.work import SqliteWork
from engrambus.core import SystemClock
from engrambus.space.tuples import SpaceSettings, TupleSpace
from engrambus.testing.harness import KEY

space = TupleSpace(SqliteWork(Path(sys.argv[1]), KEY, SystemClock()), settings=SpaceSettings(lease_us=1_000_000))
claims = space.claim({"lane": "build"}, worker="killed", limit=9)
print(len(claims), flush=True)
while True:
    space.renew([(claim.id, claim.fence) for claim in claims])
    time.sleep(0.2)
"""


def real_time(tmp_path: Path) -> TupleSpace:
    """Return a space with the machine's clock and a key that one task may use at once."""
    from engrambus.backends.sqlite.work import SqliteWork
    from engrambus.core import SystemClock
    from engrambus.testing.harness import KEY

    harness = SqliteWorkHarness(tmp_path / "catalog")
    harness.close()
    store = SqliteWork(tmp_path / "catalog", KEY, SystemClock())
    space = TupleSpace(store, settings=SpaceSettings(lease_us=1_000_000))
    match = LimitMatch(key="a")
    store.commit(lambda view: set_limit(view, match, running=1, rate=None, by="admin"))
    return space


# YT-17: slots are leases, so a crash never leaks one
def test_the_slot_of_a_killed_process_comes_back(tmp_path: Path) -> None:
    space = real_time(tmp_path)
    keyed = draft(agent_terms={"concurrency_key": "a"})
    space.out(keyed, keyed, authority={"user": "admin", "agent": None, "ci": False}, run="run")
    command = [sys.executable, "-c", CLAIMANT, str(tmp_path / "catalog")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "1\n"
        assert space.claim({"lane": "build"}, worker="w", limit=9) == []
        child.kill()
    (again,) = space.claim({"lane": "build"}, worker="w", limit=9, timeout=60.0)
    assert (again.attempt, space.get(again.id).worker) == (2, "w")
    assert space.claim({"lane": "build"}, worker="w2", limit=9) == []
    space.close()


def test_a_waiting_worker_is_woken_by_a_freed_slot_and_by_the_end_of_a_pause(tmp_path: Path) -> None:
    harness = SqliteWorkHarness(tmp_path / "catalog")
    store = harness.space.store
    ids = put(harness, *(draft(map_pos={"n": n}) for n in range(3)))
    store.commit(lambda view: set_limit(view, LimitMatch(lane="build"), running=1, rate=None, by="admin"))
    (first,) = harness.space.claim({"lane": "build"}, worker="w")
    woken = _claim_later(harness)
    assert harness.space.complete([completion(harness, first)])[0] == [None]
    (second,) = woken()
    assert second.id == ids[1]
    store.commit(lambda view: pause(view, LimitMatch(lane="build"), why="", by="admin"))
    assert harness.space.complete([completion(harness, second)])[0] == [None]
    woken = _claim_later(harness)
    store.commit(lambda view: unpause(view, LimitMatch(lane="build"), by="admin"))
    assert [claim.id for claim in woken()] == [ids[2]]
    harness.close()


def _claim_later(harness: SqliteWorkHarness) -> Callable[[], list[Claim]]:
    """Start to wait for a claim in a thread; return what waits for its answer."""
    claims: list[Claim] = []
    waiter = threading.Thread(
        target=lambda: claims.extend(harness.space.claim({"lane": "build"}, worker="w2", timeout=60.0))
    )
    waiter.start()

    def answer() -> list[Claim]:
        waiter.join(60)
        return claims

    return answer


def test_turns_are_the_same_for_another_process(tmp_path: Path) -> None:
    """They are in the journal, not in a process."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    large = put(harness, *(draft(map_pos={"n": n}) for n in range(5)), run="large")
    small = put(harness, draft(), draft(map_pos={"n": 1}), run="small")
    other = SqliteWorkHarness(tmp_path / "catalog", harness.clock)
    found = [
        claim.id
        for space in (harness.space, other.space, harness.space, other.space)
        for claim in space.claim({"lane": "build"}, worker="w")
    ]
    assert found == [large[0], small[0], large[1], small[1]]
    other.close()
    harness.close()
