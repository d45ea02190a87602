"""When a schedule is due: cron expressions in a time zone, intervals, single times. Nothing here reads a clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from engrambus.core import SECOND_US, parse_duration, parse_time, print_duration, print_time
from engrambus.errors import CronInvalid, CronNeverFires, IntervalInvalid, ScheduleTiming, TtlInvalid, ZoneUnknown
from engrambus.space.schedules.values import Timing

MIN_INTERVAL_US = 10 * SECOND_US
MAX_INTERVAL_US = 3660 * 86_400 * SECOND_US
MAX_CRON_CHARS = 200
CRON_FIELDS = "minute hour day-of-month month day-of-week"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_WINDOW_US = 3600 * SECOND_US
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


def read_timing(
    *, cron: str | None = None, every: str | None = None, at: str | None = None, zone: str | None = None, now_us: int
) -> tuple[Timing, int]:
    """Parse when a schedule is due; return that and the first time. Refuse what is never due."""
    chosen = [name for name, value in (("cron", cron), ("every", every), ("at", at)) if value is not None]
    if len(chosen) != 1:
        raise ScheduleTiming(
            "A schedule has a cron expression, an interval or a time: exactly one of them.",
            field=chosen[1] if chosen else "cron",
            limit=1,
            used=len(chosen),
        )
    if zone is not None and cron is None:
        raise ScheduleTiming(
            "Only a cron expression has a time zone.",
            field="tz",
            hint="An interval needs none, and a time has its offset: 2026-12-01T09:00+01:00.",
        )
    if cron is not None:
        timing = Timing(cron=_read_cron(cron), zone=_read_zone_name("UTC" if zone is None else zone))
    elif every is not None:
        timing = Timing(every_us=_read_interval(every), start_us=now_us)
    else:
        timing = Timing(at_us=_read_time(at or "", now_us))
    first_us = next_after(timing, now_us)
    if first_us is None:
        raise CronNeverFires(field="cron", used=cron, hint="Its day does not occur in its months, or not for 50 years.")
    return timing, first_us


def next_after(timing: Timing, moment_us: int, start_us: int | None = None) -> int | None:
    """Return the first time after a moment; None if there is none. `start_us` replaces the start of intervals."""
    if timing.at_us is not None:
        return timing.at_us if timing.at_us > moment_us else None
    if timing.every_us is not None:
        start = timing.start_us if start_us is None else start_us
        return start + max(1, (moment_us - start) // timing.every_us + 1) * timing.every_us
    return next(_cron_times(timing, moment_us), None)


def times_until(
    timing: Timing, first_us: int, now_us: int, *, limit: int, start_us: int | None = None
) -> tuple[list[int], bool]:
    """Return the newest times from `first_us` to `now_us`, oldest first, and whether there are more than `limit`.

    It takes no longer if no one has looked for a year: a window that ends now is widened until it holds enough.
    """
    if timing.at_us is not None:
        return [timing.at_us], False
    if timing.every_us is not None:
        count = (now_us - first_us) // timing.every_us + 1
        last_us = first_us + (count - 1) * timing.every_us
        returned = min(count, limit)
        return [last_us - timing.every_us * back for back in range(returned - 1, -1, -1)], count > limit
    window_us = _FIRST_WINDOW_US
    while True:
        begin_us = max(first_us - 1, now_us - window_us)
        times: list[int] = []
        for moment_us in _cron_times(timing, begin_us):
            if moment_us > now_us:
                break
            times.append(moment_us)
        if len(times) > limit or begin_us == first_us - 1:
            return times[-limit:], len(times) > limit
        window_us *= 4


def _cron_times(timing: Timing, after_us: int) -> Iterator[int]:
    """Yield the times of a cron expression after a moment, each once, in order."""
    if timing.cron is None:
        return
    begin = (_EPOCH + timedelta(microseconds=after_us)).astimezone(find_zone(timing.zone))
    last_us = after_us
    try:
        for moment in CronSim(timing.cron, begin):
            moment_us = (moment - _EPOCH) // timedelta(microseconds=1)
            # decision 111: in the second pass of an hour that exists twice, and where an hour is left out, the
            # library's next time can be one that was there already.
            if moment_us > last_us:
                last_us = moment_us
                yield moment_us
    except OverflowError:  # after the year 9999
        return


def _read_cron(text: str) -> str:
    words = text.split()
    hint = f"Five fields: {CRON_FIELDS}. Each is *, a number, a list 1,2, a range 1-5 or steps */15; days also MON, L."
    if text.strip().lower() in _NICKNAMES:
        hint = f"Write it as {_NICKNAMES[text.strip().lower()]}."
    if len(words) == 6:
        hint = f"Seconds are not supported; an interval may be as short as {print_duration(MIN_INTERVAL_US)}. " + hint
    if len(text) > MAX_CRON_CHARS or not text.isascii():
        raise CronInvalid(
            "A cron expression is a short ASCII text.", field="cron", limit=MAX_CRON_CHARS, used=len(text), hint=hint
        )
    if len(words) != 5:
        raise CronInvalid("A cron expression has five fields.", field="cron", limit=5, used=len(words), hint=hint)
    cron = " ".join(words)
    try:
        CronSim(cron, _EPOCH)
    except (AssertionError, TypeError, ValueError):  # steps after "last" or "nth": 5L/2
        raise CronInvalid(f"'{cron}' is not valid.", field="cron", used=cron, hint=hint) from None
    except CronSimError as problem:
        problem_text = str(problem).removeprefix("Bad ")
        if problem_text == "day-of-month" and _has_valid_days(words):
            raise CronNeverFires(field="cron", used=cron, hint="None of its months has such a day.") from None
        raise CronInvalid(f"The {problem_text} of '{cron}' is not valid.", field="cron", used=cron, hint=hint) from None
    return cron


def _has_valid_days(words: list[str]) -> bool:
    """True if an expression would be valid in a month with 31 days."""
    try:
        CronSim(" ".join([*words[:3], "1", words[4]]), _EPOCH)  # January
    except CronSimError:
        return False
    return True


def _read_interval(text: str) -> int:
    limit = f"{print_duration(MIN_INTERVAL_US)} to {print_duration(MAX_INTERVAL_US)}"
    try:
        interval_us = parse_duration(text, "every")
    except TtlInvalid as problem:
        raise IntervalInvalid(
            problem.detail if problem.detail != problem.title else None,
            field="every",
            used=text[:40],
            limit=limit,
            hint="Write it like PT15M, PT6H or P1D.",
        ) from None
    if not MIN_INTERVAL_US <= interval_us <= MAX_INTERVAL_US:
        raise IntervalInvalid(
            "The interval is too short." if interval_us < MIN_INTERVAL_US else "The interval is too long.",
            field="every",
            used=text[:40],
            limit=limit,
        )
    return interval_us


def _read_time(text: str, now_us: int) -> int:
    try:
        moment_us = parse_time(text)
    except (ValueError, OverflowError):
        raise ScheduleTiming(
            "A time has a date and an offset.", field="at", used=text[:40], hint="Like 2026-12-01T09:00+01:00."
        ) from None
    if moment_us <= now_us:
        raise ScheduleTiming("The time is past.", field="at", used=text[:40], limit=print_time(now_us))
    return moment_us


def _read_zone_name(name: str) -> str:
    if name not in _zone_names():
        by_lower = {known.lower(): known for known in _zone_names()}
        near = [by_lower[match] for match in get_close_matches(name.lower()[:80], by_lower, n=3)]
        raise ZoneUnknown(
            f"There is no time zone '{name[:80]}'.",
            field="tz",
            used=name[:80],
            hint=f"Did you mean {' or '.join(near)}?" if near else "Name it like Europe/Berlin or UTC.",
        )
    return name


@cache
def _zone_names() -> frozenset[str]:
    # decision 111: the zones of the package `tzdata`, not of the machine, so that all machines agree.
    return frozenset((files("tzdata") / "zones").read_text("ascii").split())


def local_time(zone: str, moment_us: int) -> str:
    """Print a moment in a time zone: `Tue 2026-12-01 09:00 CET`."""
    return (_EPOCH + timedelta(microseconds=moment_us)).astimezone(find_zone(zone)).strftime("%a %Y-%m-%d %H:%M:%S %Z")


@lru_cache(maxsize=64)
def find_zone(name: str) -> ZoneInfo:
    """Return a time zone of the package `tzdata`."""
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)
