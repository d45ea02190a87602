"""What a journal's lines say about the machine's clock, and which times a commit may have (decision 91)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engrambus.core import SECOND_US, ProjectClock
from engrambus.core.project_clock import AHEAD_LIMIT_US, BOOT_LIMIT_US, ClockMark, follow
from engrambus.errors import ClockAhead
from engrambus.testing import ManualClock
from engrambus.testing.clock import NEW_YEAR

HOUR = 3600
DAY = 86_400

Turn = tuple[str, int]
turns = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(0, 3 * DAY)),
        st.tuples(st.just("set"), st.integers(-30 * DAY, 900 * DAY)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("commit"), st.just(0)),
    ),
    max_size=40,
)


@given(turns)
def test_no_series_of_jumps_gets_past_the_bounds(turns: list[Turn]) -> None:  # BX-03
    """Within one boot, the times of commits that are the clock's never gain more than an hour on the boot's time."""
    machine, clock = ManualClock(), None
    last_us, mark = 0, None
    first: tuple[int, int] | None = None
    """Time and time since the boot of the boot's first commit by the clock's own time."""
    boots = [0]
    for turn, amount in turns:
        if turn == "advance":
            machine.advance(seconds=amount)
        elif turn == "set":
            machine.set(machine.now() + amount * SECOND_US)
        elif turn == "restart":
            machine.restart()
            boots.append(0)
            clock, first = None, None
        else:
            clock = clock or ProjectClock(machine)
            try:
                time = clock.commit_time(last_us, mark)
            except ClockAhead:
                continue
            assert time.now_us >= last_us
            assert time.expiry_us <= time.now_us
            elapsed_us = machine.since_boot().elapsed_ms * 1000
            if not time.stamp.is_behind:
                if first is not None:
                    assert time.now_us - first[0] <= elapsed_us - first[1] + AHEAD_LIMIT_US + 1000
                elif last_us:
                    assert time.now_us <= last_us + BOOT_LIMIT_US
                first = first or (time.now_us, elapsed_us)
            last_us, mark = time.now_us, follow(mark, time.stamp)


def test_expiry_stands_still_at_the_last_time_that_was_the_clocks() -> None:
    machine = ManualClock()
    clock = ProjectClock(machine)
    stamp = clock.commit_time(0, None).stamp
    mark = follow(None, stamp)
    assert mark.trusted_us == NEW_YEAR
    machine.advance(seconds=-DAY)
    machine.advance(seconds=HOUR)
    behind = clock.commit_time(NEW_YEAR, mark)
    machine.advance(seconds=HOUR)
    behind = clock.commit_time(behind.now_us, follow(mark, behind.stamp))
    assert behind.now_us == NEW_YEAR + HOUR * SECOND_US // 2
    assert (behind.expiry_us, behind.stamp.is_behind) == (NEW_YEAR, True)


def test_lines_of_older_versions_say_nothing_about_the_boot() -> None:
    machine = ManualClock()
    clock = ProjectClock(machine)
    old = ClockMark(trusted_us=NEW_YEAR)
    machine.set(NEW_YEAR + 399 * DAY * SECOND_US)
    assert clock.commit_time(NEW_YEAR, old).now_us == machine.now()
