"""Workers: steps, receipts, the cache, budgets, stopping. # YT-06 # YT-07 # YT-08 # YT-09 # YT-10 # YT-11"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus.backends.sqlite.work import WORK_JOURNAL
from engrambus.core import SECOND_US, print_time
from engrambus.errors import DiskPressure
from engrambus.evidence.receipts import EMPTY_DIGEST, Receipt, ReceiptFolder, in_toto_statement, receipt_id
from engrambus.space.tuples import Completion, Price, SpaceSettings, read_pattern
from engrambus.space.work import LaneWorkerPool, Progress, SingleFlight, eval_, is_dead, tuple_run, worker, worker_name
from engrambus.space.work.single_flight import StepLock
from engrambus.testing.work import PERSON, RUN
from tests.space.shop import SETTINGS, Shop, at_work, open_shop, step, until, with_environment


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop of the test's own."""
    with open_shop(tmp_path / "project") as shop:
        yield shop


def test_steps_run_in_order_and_leave_a_receipt_each_and_one_together(shop: Shop) -> None:
    one = shop.put(step("agent.sum.numbers", a=1, b=2), step("agent.leave.report", text="<ok/>"))
    assert shop.work() == ["miss", "miss", "done"]
    first, second, last = shop.receipts(one)
    assert [each.yool for each in (first, second, last)] == [
        "agent.sum.numbers.v1",
        "agent.leave.report.v1",
        "tuple.run",
    ]
    assert last.receipts == (first.id, second.id)
    assert shop.printed(one) == "adding\n3\n"
    (artifact,) = second.artifacts
    assert (artifact.kind, artifact.path, shop.shop.bodies.get(artifact.sha)) == ("junit", "junit.xml", b"<ok/>")
    assert all(receipt_id(each) == each.id for each in (first, second, last))
    assert shop.space.get(one).state == "done"


def test_receipts_lie_as_files_and_are_written_again(shop: Shop, tmp_path: Path) -> None:  # CP2
    one = shop.put(step("agent.sum.numbers", a=1, b=2))
    shop.work()
    receipt = shop.receipts(one)[0]
    digits = receipt.id.removeprefix("sha256:")
    file = tmp_path / "project/.catalog/receipts" / digits[:2] / f"{digits[2:]}.json"
    assert json.loads(file.read_text())["id"] == receipt.id
    for each in (file.parent.parent / ".written", file):
        each.unlink()
    shop.space.write_receipts(shop.shop.receipts)
    assert json.loads(file.read_text())["yool"] == "agent.sum.numbers.v1"


def test_several_threads_may_write_receipts_at_once(shop: Shop, tmp_path: Path) -> None:  # YT-08
    shop.put(step("agent.sum.numbers", a=1, b=2))
    shop.work()
    with shop.space.store.read() as view:
        ((_, one), *_) = view.list_receipts(None, limit=9)

    def numbered(after: int, limit: int) -> list[tuple[int, Receipt]]:
        return [(after + 1, one)] if after < 200 else []

    with ThreadPoolExecutor(4) as threads:
        written = [threads.submit(ReceiptFolder(tmp_path / "copies").catch_up, numbered) for _ in range(4)]
        assert max(each.result() for each in written) == 200
    left = sorted(each.name for each in (tmp_path / "copies").rglob("*") if each.is_file())
    assert left == [".written", f"{one.id[9:]}.json"]


def test_a_statement_names_what_was_produced(shop: Shop) -> None:
    one = shop.put(step("agent.leave.report", text="<ok/>"))
    shop.work()
    said = in_toto_statement(shop.receipts(one)[0])
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    named = {each["name"]: each["digest"]["sha256"] for each in said["subject"]}
    assert "sha256:" + named["junit.xml"] == shop.receipts(one)[0].artifacts[0].sha


def test_the_same_input_is_not_computed_twice(shop: Shop) -> None:
    first = shop.put(step("agent.sum.numbers", a=1, b=2))
    shop.work()
    again = shop.put(step("agent.sum.numbers", a=1, b=2))
    assert shop.work() == ["hit", "done"]
    assert shop.receipts(again)[0] == shop.receipts(first)[0]
    assert shop.receipts(again)[1].cost.usd == 0
    shop.put(step("agent.sum.numbers", a=1, b=3))
    assert shop.work() == ["miss", "done"]
    shop.put(step("agent.sum.numbers", a=1, b=2), flags={"no_cache": True})
    assert shop.work() == ["miss", "done"]


@pytest.mark.parametrize("workers", [1, 2])
def test_equal_steps_at_once_are_executed_once(shop: Shop, tmp_path: Path, workers: int) -> None:  # YT-09
    calls, go = tmp_path / "calls", tmp_path / "go"
    ids = [shop.put(step("agent.think.once", calls=str(calls), go=str(go))) for _ in range(4)]
    pools = [shop.pool(concurrency=4 // workers) for _ in range(workers)]
    working = [threading.Thread(target=pool.run) for pool in pools]
    for each in working:
        each.start()
    until(lambda: calls.exists() and len(shop.space.rd_all({"state": "claimed"})) == 4)
    go.touch()
    until(lambda: all(shop.space.get(each).state == "done" for each in ids))
    for pool, each in zip(pools, working, strict=True):
        pool.stop()
        each.join(30)
    assert calls.read_text() == "called\n"
    assert sorted(each.kind for each in shop.told) == ["done"] * 4 + ["hit"] * 3 + ["miss"]
    assert list((tmp_path / "project/.catalog/flights").iterdir()) == []


def test_those_who_waited_for_a_step_that_failed_try_themselves(shop: Shop, tmp_path: Path) -> None:
    calls, go = tmp_path / "calls", tmp_path / "go"
    go.touch()
    for _ in range(3):
        shop.put(step("agent.think.once", calls=str(calls), go=str(go), fails=True))
    assert sorted(shop.work()) == ["dead"] * 3 + ["failed"] * 3
    assert calls.read_text() == "called\n" * 3


def test_nobody_waits_for_the_dead(tmp_path: Path) -> None:
    hold = (
        "import sys, threading; from pathlib import Path; from engrambus.space.work import SingleFlight\n"
        f"SingleFlight(Path({str(tmp_path)!r})).acquire('key', lambda: False, threading.Event())\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    other.stdout.readline()
    stop = threading.Event()
    found: list[StepLock] = []
    thread = threading.Thread(target=lambda: found.append(SingleFlight(tmp_path).acquire("key", lambda: False, stop)))
    thread.start()
    other.kill()
    other.communicate()
    thread.join(30)
    assert found
    found[0].release()
    late = SingleFlight(tmp_path).acquire("key", lambda: True, stop)
    assert not late.waited
    late.release()


def test_failures_are_no_hits(shop: Shop) -> None:
    for _ in range(2):
        one = shop.put(step("agent.fail.always"))
        assert shop.work() == ["failed", "dead"]
        receipt, last = shop.receipts(one)
        assert (receipt.exit, receipt.key, last.exit) == (1, None, 1)
        assert b"this is why" in shop.shop.bodies.get(receipt.stderr_sha)


def test_a_changed_file_is_another_input(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "project" / "a.txt"
    file.write_text("one")
    shop.put(step("agent.show.file", path="a.txt"))
    shop.work()
    file.write_text("two")
    other = shop.put(step("agent.show.file", path="a.txt"))
    assert shop.work() == ["miss", "done"]
    assert shop.printed(other) == "two"
    file.write_text("one")
    shop.put(step("agent.show.file", path="a.txt"))
    assert shop.work() == ["hit", "done"]


def test_what_was_made_of_a_file_that_changed_meanwhile_is_no_hit(shop: Shop, tmp_path: Path) -> None:  # YT-09
    file = tmp_path / "project" / "a.txt"
    file.write_text("one")
    one = shop.put(step("agent.count.slowly", path="a.txt", more="and more"))
    assert shop.work() == ["miss", "done"]
    assert shop.receipts(one)[0].key is None
    file.write_text("one")
    shop.put(step("agent.count.slowly", path="a.txt", more="and more"))
    assert shop.work() == ["miss", "done"]


def test_what_was_done_counts_though_what_it_read_cannot_be_read_any_more(shop: Shop, tmp_path: Path) -> None:  # YT-08
    (tmp_path / "project/src").mkdir()
    one = shop.put(step("agent.lead.out", path="src"))
    assert shop.work() == ["miss", "done"]
    executed, _ = shop.receipts(one)
    assert (executed.exit, executed.key) == (0, None)


def test_only_named_variables_are_seen_and_they_count(shop: Shop) -> None:
    coloured = with_environment(shop, COLOUR="red", SECRET="x")
    one = coloured.put(step("agent.show.env"))
    coloured.work()
    assert "COLOUR=red" in coloured.printed(one)
    assert "SECRET" not in coloured.printed(one)
    coloured.put(step("agent.show.env"))
    assert coloured.work() == ["hit", "done"]
    other = with_environment(shop, COLOUR="blue")
    other.put(step("agent.show.env"))
    assert other.work() == ["miss", "done"]


@pytest.mark.parametrize("name", ["agent.tell.tuple", "agent.show.tuple"])
def test_a_step_knows_which_tuple_it_is_of(shop: Shop, name: str) -> None:  # YT-11
    """So it can put others that spend what its own may."""
    put = [shop.put(step(name)) for _ in range(2)]
    assert shop.work().count("done") == 2
    assert [shop.printed(each).strip().strip('"') for each in put] == put


def test_a_damaged_body_is_a_miss_and_is_reported(shop: Shop, tmp_path: Path) -> None:
    one = shop.put(step("agent.sum.numbers", a=1, b=2))
    shop.work()
    sha = shop.receipts(one)[0].stdout_sha.removeprefix("sha256:")
    body = tmp_path / "project/.catalog/cas" / sha[:2] / sha[2:]
    body.write_bytes(b"adding\n4\n")
    again = shop.put(step("agent.sum.numbers", a=1, b=2))
    assert shop.work() == ["damaged", "miss", "done"]
    assert shop.printed(again) == "adding\n3\n"
    shop.put(step("agent.sum.numbers", a=1, b=2))
    assert shop.work() == ["hit", "done"]


def test_the_published_formula_is_the_key(shop: Shop) -> None:
    one = shop.put(step("agent.sum.numbers", a=1, b=2))
    shop.work()
    # sha256 of: agent.sum.numbers.v1{"a": 1, "b": 2}
    expected = "f839094b631159db7638ffc35722a248515fd410d458d61be7058af6752b43ec"
    assert shop.receipts(one)[0].key == f"agent.sum.numbers.v1@{expected}"


def test_steps_may_run_as_soon_as_those_they_wait_for_are_done(shop: Shop, tmp_path: Path) -> None:  # YT-07
    marks = [tmp_path / name for name in "ab"]
    waiting = [step("agent.wait.long", started=str(mark)) | {"after": []} for mark in marks]
    one = shop.put(*waiting, step("agent.sum.numbers", a=1, b=2) | {"after": [0, 1]})
    pool = shop.pool(concurrency=4)
    working = threading.Thread(target=pool.run)
    working.start()
    until(lambda: all(mark.exists() for mark in marks))  # both at once, though neither ends
    assert shop.space.public_tuple(one)["receipts"] == []
    pool.stop(at_once=True)
    working.join(30)
    assert shop.space.get(one).state == "waiting"
    assert shop.space.get(one).attempts == 0


def test_what_is_given_back_at_once_has_ended_before(shop: Shop, tmp_path: Path) -> None:  # YT-06
    """Whoever takes it next begins when nothing of it runs any more."""
    one = shop.put(step("agent.end.slowly", started=str(tmp_path / "started"), ended=str(tmp_path / "ended")))
    pool = shop.pool()
    working = threading.Thread(target=pool.run)
    working.start()
    until((tmp_path / "started").exists)
    pool.stop(at_once=True)
    (claim,) = shop.space.claim({"lane": "build"}, worker="next", timeout=30)
    assert (tmp_path / "ended").exists()
    assert (claim.id, claim.attempt) == (one, 1)
    working.join(30)


def test_a_worker_may_be_sent_to_work_again(shop: Shop) -> None:  # YT-06
    pool = shop.pool()
    for a in (1, 2):
        shop.put(step("agent.sum.numbers", a=a, b=2))
        pool.run(until_empty=True)
    assert [each.kind for each in shop.told] == ["miss", "done"] * 2


def test_a_worker_waits_for_room_to_write_down_what_was_done(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the work nor the worker is lost when the disk is full for a moment. # YT-13"""
    real, full = shop.space.store.commit, ["claim", "complete"]

    def commit(decide: Any, **more: Any) -> Any:
        if full and ("complete" in decide.__qualname__) == (full[0] == "complete"):
            full.pop(0)
            raise DiskPressure
        return real(decide, **more)

    one = shop.put(step("agent.sum.numbers", a=1, b=2))
    monkeypatch.setattr(shop.space.store, "commit", commit)
    monkeypatch.setattr(worker, "PRESSURE_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(tuple_run, "PRESSURE_RETRY_SECONDS", 0.01)
    pool = shop.pool()
    working = threading.Thread(target=pool.run)
    working.start()
    until(lambda: shop.space.get(one).state == "done")
    pool.stop()
    working.join(30)
    assert not full
    assert [each.kind for each in shop.told] == ["pressure", "miss", "done"]


def test_a_cancelled_tuple_stops_with_everything_it_started(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, lease_us=3600 * SECOND_US)  # long before it would be renewed
    with open_shop(tmp_path / "project", settings) as shop:
        one = shop.put(step("agent.run.children", path="child.pid"))
        file = tmp_path / "project" / "child.pid"
        pool = shop.pool()
        working = threading.Thread(target=pool.run)
        working.start()
        until(lambda: file.exists() and file.read_text().strip() != "")
        child = int(file.read_text())
        shop.space.cancel(one)
        until(lambda: not _runs(child))
        pool.stop()
        working.join(30)
        assert shop.space.get(one).state == "cancelled"
        assert [each.yool for each in shop.receipts(one)] == ["tuple.run"]
        assert [each.kind for each in shop.told] == ["lost"]


def test_what_was_not_begun_is_given_back_when_told_to_stop(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # YT-06
    monkeypatch.setattr(tuple_run, "SLOT_SECONDS", 600.0)  # it is given back because it is told so
    calls, go = tmp_path / "calls", tmp_path / "go"
    ids = [shop.put(step("agent.think.once", calls=str(calls), go=str(go), n=n)) for n in range(2)]
    pool = shop.pool(concurrency=1)
    with at_work(pool):
        until(lambda: calls.exists() and len(shop.space.rd_all({"state": "claimed"})) == 2)
        pool.stop()
        until(lambda: len(shop.space.rd_all({"state": "waiting"})) == 1)
        go.touch()
        until(lambda: len(shop.space.rd_all({"state": "done"})) == 1)
    (left,) = (each for each in map(shop.space.get, ids) if each.state == "waiting")
    assert left.attempts == 0
    assert calls.read_text() == "called\n"


def test_no_worker_keeps_what_it_cannot_begin(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # YT-06
    """The first worker has one slot and held both; the second one is idle, and gets the other."""
    monkeypatch.setattr(tuple_run, "SLOT_SECONDS", 0.1)
    calls, go = tmp_path / "calls", tmp_path / "go"
    ids = [shop.put(step("agent.think.once", calls=str(calls), go=str(go), n=n)) for n in range(2)]
    with at_work(shop.pool(concurrency=1)):
        journal = tmp_path / "project/.catalog" / WORK_JOURNAL
        until(lambda: calls.exists() and b"no slot was free" in journal.read_bytes())
        assert [shop.space.get(each).state for each in ids].count("waiting") == 1
        with at_work(shop.pool(concurrency=1)):
            until(lambda: calls.read_text() == "called\n" * 2)
            go.touch()
            until(lambda: all(shop.space.get(each).state == "done" for each in ids))
    assert [shop.space.get(each).attempts for each in ids] == [1, 1]


def test_a_step_that_could_not_be_begun_is_tried_again(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, max_retries=1)
    with open_shop(tmp_path / "project", settings) as shop:
        one = shop.put(step("agent.sum.numbers", a=1, b=2))
        scratch = tmp_path / "project/.catalog/scratch"
        scratch.touch()  # no folder can be made there
        pool = LaneWorkerPool(shop.shop, read_pattern({"lane": "build"}), on_progress=_once(shop, scratch))
        pool.run(until_empty=True)
        assert [each.kind for each in shop.told] == ["refused", "again", "miss", "done"]
        assert "FileExistsError" in (shop.told[0].error or "")
        assert shop.space.get(one).attempts == 2


def test_a_worker_does_not_leave_what_comes_due_as_it_looks(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, max_retries=8, backoff_us=1)  # due before it can look again
    with open_shop(tmp_path / "project", settings) as shop:
        ids = [shop.put(step("agent.fail.always")) for _ in range(4)]
        shop.work()
        assert [shop.space.get(each).attempts for each in ids] == [9] * 4


def _once(shop: Shop, scratch: Path) -> Callable[[Progress], None]:
    """Make room for the next attempt once the first has failed."""

    def tell(progress: Progress) -> None:
        shop.told.append(progress)
        if progress.kind == "refused":
            scratch.unlink()

    return tell


def test_a_heart_goes_on_beating_though_receipts_cannot_be_written(tmp_path: Path) -> None:  # YT-06
    settings = msgspec.structs.replace(SETTINGS, lease_us=SECOND_US // 2)
    with open_shop(tmp_path / "project", settings) as shop:
        calls, go = tmp_path / "calls", tmp_path / "go"
        one = shop.put(step("agent.think.once", calls=str(calls), go=str(go)))
        receipts = tmp_path / "project/.catalog/receipts"
        receipts.touch()  # no folder can be made there
        other = shop.put(lane="elsewhere")
        (claim,) = shop.space.claim({"lane": "elsewhere"}, worker="another")
        shop.space.complete([Completion(id=other, fence=claim.fence, failure="so that there is a receipt")])
        pool = shop.pool()
        working = threading.Thread(target=pool.run)
        working.start()
        until(calls.exists)
        first = shop.space.get(one).lease_until_us
        until(lambda: shop.space.get(one).lease_until_us > first + 2 * settings.lease_us)
        receipts.unlink()
        go.touch()
        until(lambda: shop.space.get(one).state == "done")
        pool.stop()
        working.join(30)
        assert shop.space.get(one).attempts == 1


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_was_finished_is_not_done_again(shop: Shop, tmp_path: Path) -> None:  # YT-10
    """The worker is lost in the second step; the next one begins there."""
    calls, started = tmp_path / "calls", tmp_path / "started"
    one = shop.put(
        step("agent.count.calls", path=str(calls)),
        step("agent.wait.long", started=str(started)),
        agent_terms={"max_retries": 5},
    )
    pool = shop.pool()
    working = threading.Thread(target=pool.run)
    working.start()
    until(started.exists)
    held = shop.space.get(one)
    assert held.fence is not None
    shop.space.release_dead([(one, held.fence)], reason="as if it were gone")
    pool.stop(at_once=True)
    working.join(30)
    (claim,) = shop.space.claim({"lane": "build"}, worker="next")
    assert list(claim.finished_steps) == [0]
    assert calls.read_text() == "called\n"
    assert len(shop.receipts(one)) == 1


def test_a_step_that_spends_too_much_is_stopped(shop: Shop) -> None:  # YT-11
    one = shop.put(step("agent.spend.money", usd=0.004, times=40), agent_terms={"budget_usd": 0.01})
    assert shop.work() == ["failed", "dead"]
    kept = shop.space.get(one)
    receipt, _ = shop.receipts(one)
    assert receipt.error == "BUDGET_EXCEEDED"
    why = shop.shop.bodies.get(receipt.stderr_sha).decode()
    assert re.search(r"The tuple has spent 1[26]000 micro-dollars of 10000\.", why)
    assert receipt.cost.usd_micros == kept.spent_micros
    assert 10_000 < kept.spent_micros < 40 * 4_000
    assert len(shop.space.rd_all({"lane": "alarm"})) == 1


def test_the_last_receipt_says_what_every_attempt_cost(tmp_path: Path) -> None:  # YT-11
    with open_shop(tmp_path / "project", msgspec.structs.replace(SETTINGS, max_retries=1)) as shop:
        one = shop.put(step("agent.sum.numbers", a=1, b=2), step("agent.spend.again", mark=str(tmp_path / "mark")))
        assert shop.work() == ["miss", "failed", "again", "miss", "done"]
        last, kept = shop.receipts(one)[-1], shop.space.get(one)
        assert (last.cost.usd_micros, last.cost.tokens) == (kept.spent_micros, kept.spent_tokens) == (40_000, 14)
        assert len(last.receipts) == 2


def test_what_an_attempt_spent_that_was_cut_short_is_on_the_last_receipt(tmp_path: Path) -> None:  # YT-11
    with open_shop(tmp_path, msgspec.structs.replace(SETTINGS, max_retries=3)) as shop:
        one = shop.put(step("agent.spend.money", usd=0.02, times=2))
        (claim,) = shop.space.claim({"lane": "build"}, worker="killed")
        shop.space.start_step(claim, 0, Price())
        shop.space.record_cost(claim.id, claim.fence, 0, Price(micros=1_500_000, tokens=7))
        shop.space.release_dead([(claim.id, claim.fence)], reason="its worker is gone")
        assert shop.work()[-1] == "done"
        executed, last = shop.receipts(one)
        assert (executed.cost.usd_micros, last.cost.usd_micros) == (40_000, 1_540_000)
        assert (last.cost.tokens_in, last.cost.tokens_out) == (27, 2)
        kept = shop.space.get(one)
        assert (kept.spent_micros, kept.spent_tokens) == (last.cost.usd_micros, last.cost.tokens)


@pytest.mark.parametrize(
    ("amounts", "micros"),
    [([0.1 + 0.2], 300_000), ([0.000_037_5] * 4, 150), ([0.000_000_4], 1), ([0.000_000_4] * 5, 2), ([], 0)],
)
def test_prices_finer_than_a_micro_dollar_are_added_before_they_are_rounded_up(
    shop: Shop, amounts: list[float], micros: int
) -> None:  # YT-11
    one = shop.put(step("agent.spend.each", amounts=amounts))
    assert shop.work() == ["miss", "done"]
    assert shop.receipts(one)[0].cost.usd_micros == shop.space.get(one).spent_micros == micros


@pytest.mark.parametrize("amount", [-0.01, 1e300])
def test_a_step_that_spends_what_none_can_is_stopped(shop: Shop, amount: float) -> None:
    one = shop.put(step("agent.spend.each", amounts=[amount]))
    assert shop.work() == ["failed", "dead"]
    assert shop.receipts(one)[0].error == "FIELD_VALUE"


def test_what_it_cost_before_is_what_it_will_probably_cost(shop: Shop) -> None:
    shop.put(step("agent.spend.money", usd=0.02, times=1))
    shop.work()
    one = shop.put(step("agent.spend.money", usd=0.02, times=1), agent_terms={"budget_usd": 0.019})
    assert shop.work() == ["refused", "dead"]
    assert "left; the step is estimated to cost 20000" in (shop.told[0].error or "")
    # YT-06: there is no receipt of the step, so that of the tuple says it all.
    assert shop.receipts(one)[-1].error == (
        "BUDGET_EXCEEDED: The tuple has 19000 micro-dollars left; the step is estimated to cost 20000. "
        "(agent_terms.budget_usd, 20000 of 19000)"
    )
    assert shop.space.get(one).spent_micros == 0


# YT-06: another attempt would only be refused again.
@pytest.mark.parametrize(
    ("refused", "terms"),
    [
        (step("agent.leave.link"), {}),
        (step("agent.spend.each", amounts=[-1]), {}),
        (step("agent.run.children"), {}),
        (step("agent.give.back", what="path"), {}),
        (step("agent.show.file", path="/etc/passwd"), {}),
        (step("agent.spend.money", usd=1, times=1), {"budget_usd": 0.5}),
    ],
)
def test_what_would_only_be_refused_again_is_not_tried_again(
    tmp_path: Path, refused: dict[str, object], terms: dict[str, object]
) -> None:
    with open_shop(tmp_path / "project", msgspec.structs.replace(SETTINGS, max_retries=3)) as shop:
        one = shop.put(refused, agent_terms=terms)
        assert shop.work()[1:] == ["dead"]
        assert shop.space.get(one).attempts == 1


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("path", "PosixPath is not JSON serializable"),
        ("set", "set is not JSON serializable"),
        ("key", "keys must be"),
        ("circle", "Circular"),
        ("text", "surrogates not allowed"),
    ],
)
def test_what_cannot_be_written_down_is_told_in_a_line(shop: Shop, what: str, why: str) -> None:  # YT-08
    one = shop.put(step("agent.give.back", what=what))
    assert shop.work() == ["failed", "dead"]
    receipt = shop.receipts(one)[0]
    assert (receipt.exit, receipt.error, receipt.stdout_sha) == (1, "FIELD_VALUE", EMPTY_DIGEST)
    (said,) = shop.shop.bodies.get(receipt.stderr_sha).decode().splitlines()
    assert said.startswith("refused: FIELD_VALUE: The step's return value is not JSON")
    assert why in said


# YT-06: a tuple has no more time than the one it is a part of.
def test_a_step_is_stopped_at_the_deadline_of_the_tuple_it_is_a_part_of(shop: Shop, tmp_path: Path) -> None:
    ends = print_time(shop.shop.clock.now() + SECOND_US)
    whole = shop.put(lane="elsewhere", agent_terms={"deadline_iso": ends})
    one = shop.put(step("agent.wait.long", started=str(tmp_path / "started")), parent_id=whole)
    assert shop.work()[-1] == "dead"
    assert (shop.receipts(one)[-1].error or "").startswith("DEADLINE_PAST")
    assert shop.space.get(one).attempts == 1


def test_an_artifact_that_leads_out_fails_the_step(shop: Shop) -> None:
    one = shop.put(step("agent.leave.link"))
    assert shop.work() == ["failed", "dead"]
    assert shop.receipts(one)[0].error == "ARTIFACT_PATH"
    assert shop.receipts(one)[0].artifacts == ()


@pytest.mark.parametrize(
    ("how", "exit", "error"),
    [
        ("name", 1, "ARTIFACT_PATH"),
        ("exit", 1, "exit 1"),
        ("wrapped", 1, "exit 1"),
        ("says", 1, "exit 1"),
        ("removes", 0, None),
    ],
)
def test_whatever_a_step_does_it_leaves_a_receipt(shop: Shop, how: str, exit: int, error: str | None) -> None:  # YT-08
    one = shop.put(step("agent.do.oddly", how=how))
    shop.work()
    receipt, last = shop.receipts(one)
    assert (receipt.yool, receipt.exit, receipt.error) == ("agent.do.oddly.v1", exit, error)
    assert last.exit == exit
    said = shop.shop.bodies.get(receipt.stderr_sha) if receipt.stderr_sha != EMPTY_DIGEST else b""
    why = b"refused: ARTIFACT_PATH: The name of an artifact is not UTF-8. (artifacts, '\\udcff')\n"
    assert said == {"says": b"this is why\n", "name": why}.get(how, b"")


def test_a_yool_nobody_carries_out_is_a_dead_letter(shop: Shop) -> None:
    one = shop.put(step("agent.nobody.knows"))
    assert shop.work() == ["refused", "dead"]
    assert (shop.receipts(one)[-1].error or "").startswith("YOOL_NOT_FOUND: ")


def test_the_authority_is_looked_at_again_where_it_runs(shop: Shop) -> None:  # YT-04
    agent = {"user": None, "agent": "run/coder", "ci": False}
    draft = {"lane": "build", "payload": [step("agent.deploy.prod")]}
    one = shop.space.out(draft, authority=agent, run=RUN)[0].id
    assert shop.work() == ["refused", "dead"]
    assert (shop.receipts(one)[-1].error or "").startswith("YOOL_FORBIDDEN: ")


def test_an_active_tuple_computes_itself(shop: Shop) -> None:  # YT-05
    draft = {"lane": "own", "payload": [step("agent.sum.numbers", a=20, b=22)]}
    thread = eval_(shop.shop, draft, authority=PERSON, run=RUN)
    thread.join(60)
    found = shop.space.rd({"lane": "own", "state": "done"})
    assert found is not None
    assert found.id == thread.name
    assert shop.printed(found.id) == "adding\n42\n"


def test_an_active_tuple_ends_though_others_are_at_work(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, lease_us=3600 * SECOND_US)
    with open_shop(tmp_path / "project", settings) as shop:
        shop.put(step("agent.sum.numbers", a=1, b=2))
        assert shop.space.claim({"lane": "build"}, worker="another")
        draft = {"lane": "own", "payload": [step("agent.sum.numbers", a=20, b=22)]}
        thread = eval_(shop.shop, draft, authority=PERSON, run=RUN)
        thread.join(60)
        assert not thread.is_alive()


def test_an_active_tuple_computes_itself_here_though_others_wait_in_its_lane(shop: Shop) -> None:  # YT-05
    over = threading.Event()
    stolen: list[str] = []

    def wait_for_work() -> None:
        while not over.is_set():
            claims = shop.space.claim({"lane": "own"}, worker="another", timeout=5)
            stolen.extend(claim.id for claim in claims)

    other = threading.Thread(target=wait_for_work, daemon=True)
    other.start()
    try:
        ids = []
        for number in range(20):
            draft = {"lane": "own", "payload": [step("agent.sum.numbers", a=number, b=1)]}
            active = eval_(shop.shop, draft, authority=PERSON, run=RUN)
            ids.append(active.name)
            until(lambda active=active: bool(stolen) or not active.is_alive())  # type: ignore[misc]
    finally:
        over.set()
        shop.put(lane="own")
        other.join(30)
    assert not set(stolen) & set(ids)
    for each in ids:
        executed, last = shop.receipts(each)
        assert (executed.exit, last.exit, last.worker) == (0, 0, worker_name())


def test_an_active_tuple_that_was_put_before_is_worked_on_once(shop: Shop) -> None:  # YT-05
    one = shop.put(step("agent.sum.numbers", a=1, b=2))
    draft = shop.space.public_tuple(one)
    for _ in range(2):
        active = eval_(shop.shop, draft, authority=PERSON, run=RUN)
        active.join(60)
        assert active.name == one
    assert [each.yool for each in shop.receipts(one)] == ["agent.sum.numbers.v1", "tuple.run"]


def test_a_tuple_without_steps_is_done_at_once(shop: Shop) -> None:
    one = shop.put()
    assert shop.work() == ["done"]
    assert [each.yool for each in shop.receipts(one)] == ["tuple.run"]


def test_a_dead_worker_is_known(shop: Shop) -> None:
    assert not is_dead(worker_name())
    host = worker_name().rpartition("/")[0]
    assert is_dead(f"{host}/{os.getpid()}.1")
    assert not is_dead("another-host/1.1")


def test_settings_have_the_published_defaults() -> None:
    given = SpaceSettings()
    assert (given.lane_concurrency, given.max_lane_concurrency, given.cpu_quota_pct) == (32, 64, 95)
    assert (given.queue_maxsize, given.compression_threshold) == (8192, 1024)
