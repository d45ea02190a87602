"""What steps of killed workers said they spent is counted once, and then their folders go. # YT-11 # YT-13"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engrambus.core import SystemClock
from engrambus.errors import DiskPressure, EngramBusError
from engrambus.policy.guardrails import Retention
from engrambus.space.tuples import Claim, Price
from engrambus.space.work import GarbageCollector, worker_name
from engrambus.space.work.step_folder import EXECUTION_FILE, Execution, StepFolder, sweep
from tests.space.shop import Shop, open_shop, step

LINES = '{"usd":0.01,"tokens_in":2}\n{"usd":0.02,"tokens_out":1}\n'
SAID = Price(micros=30_000, tokens=3)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop of the test's own."""
    with open_shop(tmp_path / "project") as shop:
        yield shop


def _held(shop: Shop) -> Claim:
    shop.put(step("agent.sum.numbers", a=1, b=2))
    (claim,) = shop.space.claim({"lane": "build"}, worker="w")
    return claim


def _scratch(shop: Shop) -> Path:
    return shop.shop.root / ".catalog/scratch"


def _leave(shop: Shop, claim: Claim, text: str = LINES, at: int = 0) -> Path:
    """The folder of a step as a killed worker leaves it."""
    folder = StepFolder(_scratch(shop), Execution(id=claim.id, fence=claim.fence, step=at))
    folder.cost.write_text(text)
    host = worker_name().rpartition("/")[0]
    return folder.path.rename(_scratch(shop) / f"{host}@{os.getpid()}.1@{folder.path.name[-8:]}")


def _left(shop: Shop) -> list[Path]:
    return list(_scratch(shop).iterdir())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LINES, SAID),
        (LINES.strip(), SAID),  # it was killed before it ended its line
        (LINES + '{"usd":0.', SAID),
        ('nothing\n{"usd":-1}\n' + LINES, SAID),
        ('{"usd":0.0000004}\n' * 5, Price(micros=2)),
        ("", Price()),
    ],
)
def test_what_a_killed_workers_step_said_counts_and_its_folder_goes(shop: Shop, text: str, said: Price) -> None:
    claim = _held(shop)
    _leave(shop, claim, text)
    shop.shop.sweep()
    assert shop.space.get(claim.id).own_spent == said
    assert _left(shop) == []


def test_what_was_counted_before_it_was_killed_is_not_counted_again(shop: Shop) -> None:
    claim = _held(shop)
    shop.space.record_cost(claim.id, claim.fence, 0, Price(micros=10_000, tokens=2))
    _leave(shop, claim)
    _leave(shop, claim, '{"usd":0.5}\n', at=1)
    shop.shop.sweep()
    assert shop.space.get(claim.id).own_spent == SAID + Price(micros=500_000)


def test_whoever_is_killed_between_counting_and_taking_away_leaves_it_to_the_next(shop: Shop) -> None:
    claim = _held(shop)
    _leave(shop, claim)

    def die(*told: Any) -> None:
        shop.space.record_cost(*told)
        raise KeyboardInterrupt

    for _ in range(2):
        with suppress(KeyboardInterrupt):
            sweep(_scratch(shop), die)
        assert len(_left(shop)) == 1
    shop.shop.sweep()
    assert shop.space.get(claim.id).own_spent == SAID
    assert _left(shop) == []


def test_what_cannot_be_written_down_waits(shop: Shop) -> None:
    claim = _held(shop)
    _leave(shop, claim)

    def full(*told: Any) -> None:
        raise DiskPressure

    for _ in range(2):
        sweep(_scratch(shop), full)
    shop.shop.sweep()
    assert (shop.space.get(claim.id).own_spent, _left(shop)) == (SAID, [])


def test_several_may_sweep_at_once(shop: Shop) -> None:
    claim = _held(shop)
    for at in range(20):
        _leave(shop, claim, at=at)
    sweepers = [threading.Thread(target=shop.shop.sweep) for _ in range(4)]
    for each in sweepers:
        each.start()
    for each in sweepers:
        each.join(60)
    assert shop.space.get(claim.id).own_spent == Price(micros=20 * SAID.micros, tokens=20 * SAID.tokens)
    assert _left(shop) == []


@pytest.mark.parametrize("odd", ["nobody", "half", "another journal", "no such claim", "pipe", "link", "folder"])
def test_what_is_nobodys_goes_uncounted(shop: Shop, tmp_path: Path, odd: str) -> None:
    claim = _held(shop)
    path = _leave(shop, claim)
    whose, cost = path / EXECUTION_FILE, path / "cost.jsonl"
    match odd:
        case "nobody":
            whose.unlink()
        case "half":
            whose.write_bytes(whose.read_bytes()[:-3])
        case "another journal":
            whose.write_text(whose.read_text().replace(claim.id, "sha256:" + "0" * 64))
        case "no such claim":
            whose.write_text(whose.read_text().replace('"counter":1', '"counter":2'))
        case _:
            cost.unlink()
            (tmp_path / "elsewhere").write_text(LINES)
            made = {
                "pipe": os.mkfifo,
                "link": lambda place: place.symlink_to(tmp_path / "elsewhere"),
                "folder": Path.mkdir,
            }
            made[odd](cost)
    before = shop.space.store.last_line()
    shop.shop.sweep()
    assert (shop.space.store.last_line(), _left(shop)) == (before, [])


def test_the_living_are_left_alone(shop: Shop) -> None:
    claim = _held(shop)
    with StepFolder(_scratch(shop), Execution(id=claim.id, fence=claim.fence, step=0)) as own:
        own.cost.write_text(LINES)
        shop.shop.sweep()
        assert _left(shop) == [own.path]
        own.report_spending(lambda said: None)
    assert _left(shop) == []


def test_who_makes_room_counts_first(shop: Shop) -> None:
    claim = _held(shop)
    _leave(shop, claim)
    catalog = shop.shop.root / ".catalog"
    collector = GarbageCollector(
        shop.space, shop.shop.bodies, catalog, SystemClock(), retention=Retention, pinned=tuple, free=lambda path: 2**40
    )
    assert collector.collect(dry_run=True).freed[-1].bodies == 1
    assert (shop.space.get(claim.id).own_spent, len(_left(shop))) == (Price(), 1)
    assert collector.collect().freed[-1].bodies == 1
    assert (shop.space.get(claim.id).own_spent, _left(shop)) == (SAID, [])


def test_a_step_whose_spending_could_not_be_counted_leaves_it_to_be_counted(shop: Shop) -> None:
    claim = _held(shop)
    told: list[Price] = []

    def count(said: Price) -> EngramBusError | None:
        told.append(said)
        if len(told) < 3:
            raise DiskPressure
        return None

    for fails in (True, False):
        with StepFolder(_scratch(shop), Execution(id=claim.id, fence=claim.fence, step=0)) as folder:
            folder.cost.write_text(LINES)
            for last in (False, True):
                with suppress(DiskPressure):
                    folder.report_spending(count, last=last)
        assert told[-1] == SAID, "told again, in all"
        left = sorted(each.name for each in folder.path.iterdir()) if folder.path.exists() else None
        assert left == (["cost.jsonl", EXECUTION_FILE] if fails else None)


def test_what_was_said_and_read_by_nobody_stays_to_be_counted(shop: Shop) -> None:
    claim = _held(shop)
    with suppress(OSError), StepFolder(_scratch(shop), Execution(id=claim.id, fence=claim.fence, step=0)) as folder:
        folder.cost.write_text(LINES)
        raise OSError
    assert _left(shop) == [folder.path]


def test_nothing_is_said_to_nobody(shop: Shop) -> None:
    """Something of a step may live for another moment: what it says when its folder was swept it is told is lost."""
    claim = _held(shop)
    path = _leave(shop, claim)
    seen: list[bool] = []
    sweep(_scratch(shop), lambda *told: seen.append(path.exists()))
    assert seen == [False]
