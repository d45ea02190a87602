"""When schedules are due: cron expressions in time zones, intervals, and years in which nobody looked. # YT-16"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engrambus.core import SECOND_US, parse_time, print_time
from engrambus.errors import CronInvalid, CronNeverFires, IntervalInvalid, ScheduleRefusal
from engrambus.space.schedules import Timing, local_time, next_after, read_timing, times_until

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kathmandu")
DAY_US = 86_400 * SECOND_US
CRON = st.builds(
    lambda minute, hour, day, weekday: f"{minute} {hour} {day} * {weekday}",
    st.sampled_from(("0", "30", "15,45", "*/20", "*", "1-3")),
    st.sampled_from(("*", "0", "2", "1-3", "*/6", "23", "2,3")),
    st.sampled_from(("*", "1", "L", "29", "*/10")),
    st.sampled_from(("*", "MON", "0", "SUN#2", "1-5")),
)
# Both sides of the changes of 2026: spring and autumn of either hemisphere.
MOMENTS = st.sampled_from(("2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", "2026-10-04")).flatmap(
    lambda day: st.integers(-2 * DAY_US, 2 * DAY_US).map(lambda offset: parse_time(f"{day}T00:00Z") + offset)
)


def following(cron: str, zone: str, start: str, count: int) -> list[str]:
    """Return the next times of an expression in its zone."""
    timing = Timing(cron=cron, zone=zone)
    moment_us: int | None = parse_time(start)
    times = []
    for _ in range(count):
        moment_us = next_after(timing, moment_us or 0)
        assert moment_us is not None
        times.append(local_time(zone, moment_us)[4:])
    return times


def test_a_local_time_that_does_not_exist_is_due_once_at_the_next_moment() -> None:
    assert following("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00Z", 3) == [
        "2026-03-28 02:30:00 CET",
        "2026-03-29 03:00:00 CEST",
        "2026-03-30 02:30:00 CEST",
    ]
    # Two times of the hour that is left out are one moment, and due once.
    assert following("0,30 2 * * *", "Europe/Berlin", "2026-03-29T00:00Z", 2) == [
        "2026-03-29 03:00:00 CEST",
        "2026-03-30 02:00:00 CEST",
    ]


def test_a_local_time_that_exists_twice_is_due_once_at_the_first() -> None:
    assert following("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", 2) == [
        "2026-10-25 02:30:00 CEST",
        "2026-10-26 02:30:00 CET",
    ]
    # Also if nobody looked before the hour came for the second time.
    assert following("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10Z", 1) == ["2026-10-26 02:30:00 CET"]


def test_an_expression_that_begins_with_a_star_counts_real_time() -> None:
    assert [time[11:] for time in following("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:15Z", 4)] == [
        "02:30:00 CEST",
        "02:00:00 CET",
        "02:30:00 CET",
        "03:00:00 CET",
    ]
    assert [time[11:] for time in following("0 * * * *", "Europe/Berlin", "2026-03-29T00:30Z", 2)] == [
        "03:00:00 CEST",
        "04:00:00 CEST",
    ]


@settings(max_examples=300, deadline=None)
@given(CRON, st.sampled_from(ZONES), MOMENTS)
@example("30 2 * * *", "Europe/Berlin", parse_time("2026-10-25T01:10Z"))
def test_times_grow_and_do_not_depend_on_when_somebody_looks(cron: str, zone: str, start_us: int) -> None:
    timing = Timing(cron=cron, zone=zone)
    times = [next_after(timing, start_us) or 0]
    while len(times) < 12:
        times.append(next_after(timing, times[-1]) or 0)
    assert times == sorted(set(times))
    assert times[0] > start_us
    # Whoever comes later sees the same: the newest ones of them, or all.
    for limit in (1, 5, 100):
        newest, more = times_until(timing, times[0], times[-1], limit=limit)
        assert newest == times[-limit:]
        assert more == (limit < len(times))
    between_us = (times[3] + times[4]) // 2
    assert next_after(timing, between_us) == times[4]


@settings(max_examples=100, deadline=None)
@given(st.integers(10, 10_000_000), st.integers(0, 10**15), st.integers(1, 10**10))
def test_an_interval_is_counted_from_its_start(seconds: int, start_us: int, later_us: int) -> None:
    timing = Timing(every_us=seconds * SECOND_US, start_us=start_us)
    first_us = next_after(timing, start_us)
    assert first_us == start_us + seconds * SECOND_US
    after_us = next_after(timing, start_us + later_us)
    assert after_us is not None
    assert 0 < after_us - (start_us + later_us) <= seconds * SECOND_US
    assert (after_us - start_us) % (seconds * SECOND_US) == 0
    times, _ = times_until(timing, first_us, max(first_us, start_us + later_us), limit=3)
    assert times[-1] + seconds * SECOND_US == next_after(timing, max(first_us, start_us + later_us))


def test_a_year_of_minutes_is_as_quick_as_a_day() -> None:
    """It is counted in steps of the library, not in time: only the newest times are looked at."""
    timing = Timing(cron="* * * * *")
    first_us = parse_time("2026-01-01T00:00Z")
    times, more = times_until(timing, first_us, first_us + 365 * DAY_US, limit=2)
    assert [print_time(time_us)[:16] for time_us in times] == ["2026-12-31T23:59", "2027-01-01T00:00"]
    assert more


def test_a_leap_day_and_a_last_day_are_found() -> None:
    assert following("0 0 29 2 *", "UTC", "2026-01-01T00:00Z", 1) == ["2028-02-29 00:00:00 UTC"]
    assert following("0 0 L * *", "UTC", "2026-02-01T00:00Z", 1) == ["2026-02-28 00:00:00 UTC"]
    assert next_after(Timing(cron="0 0 1 1 *"), parse_time("9999-06-01T00:00Z")) is None


def test_an_expression_without_a_day_says_so() -> None:
    for cron in ("0 0 31 2 *", "0 0 31 4,6,9 *", "0 0 29 2 MON#5/2"):
        with pytest.raises(ScheduleRefusal):
            read_timing(cron=cron, now_us=0)
    with pytest.raises(CronNeverFires, match="never due"):
        read_timing(cron="0 0 31 2 *", now_us=0)


def test_six_fields_and_nicknames_are_refused_with_what_to_write() -> None:
    with pytest.raises(CronInvalid) as refusal:
        read_timing(cron="* * * * * *", now_us=0)
    assert (refusal.value.limit, refusal.value.used) == (5, 6)
    assert "Seconds are not supported" in str(refusal.value.hint)
    assert "minute hour day-of-month month day-of-week" in str(refusal.value.hint)
    with pytest.raises(CronInvalid) as refusal:
        read_timing(cron="@daily", now_us=0)
    assert refusal.value.hint == "Write it as 0 0 * * *."


def test_an_interval_names_its_limits() -> None:
    for text in ("PT9S", "P3661D"):
        with pytest.raises(IntervalInvalid) as refusal:
            read_timing(every=text, now_us=0)
        assert refusal.value.limit == "PT10S to P3660D"
    with pytest.raises(IntervalInvalid, match="Years and months have no fixed length"):
        read_timing(every="P1M", now_us=0)


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=40) | st.from_regex(r"[0-9*/,L#\-A-Z]{1,8}( [0-9*/,L#\-A-Z]{1,8}){4}", fullmatch=True))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with suppress(CronInvalid, CronNeverFires):
        timing, first_us = read_timing(cron=text, zone="Europe/Berlin", now_us=0)
        assert first_us > 0
        assert next_after(timing, first_us) != first_us


def test_zones_come_with_the_package() -> None:
    """No zone of the machine is read: not by `TZ`, and also if the machine has none."""
    code = (
        "from engrambus.space.schedules import next_after, Timing; "
        "print(next_after(Timing(cron='0 3 * * *', zone='Europe/Berlin'), 0))"
    )
    environment = {**os.environ, "PYTHONTZPATH": "", "TZ": "Asia/Tokyo"}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert int(printed.stdout) == (datetime(1970, 1, 1, 2, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )
