"""The time of a project: the machine's clock, held against the journal and the time since the machine's start.

A clock that is far ahead for one commit would expire everything for good. So each line also states the machine's boot
and how long it had been running, and a commit that is further ahead than that allows is refused (decision 91).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from engrambus.core.clock import SECOND_US, BootTime, Clock, print_time
from engrambus.errors import ClockAhead

AHEAD_LIMIT_US = 3600 * SECOND_US
"""How far the clock may run ahead of the time since the machine's start within one boot."""
BOOT_LIMIT_US = 400 * 86_400 * SECOND_US
"""How far ahead of the last line the clock may be in another boot, or in one that began behind the journal."""
BEHIND_TOLERANCE_US = 5 * SECOND_US
"""How far the journal may be ahead of the machine's clock before that is worth a correction."""
ACCEPT_HINT = "Set the clock right. If it is right, a person confirms it: engrambus recover --clock --accept."


class Stamp(NamedTuple):
    """The time of a commit, and what the machine's other clock said then."""

    at_us: int
    boot: str = ""
    """Short id of the machine's boot; empty in lines of older versions."""
    elapsed_ms: int = 0
    """Milliseconds since that boot."""
    is_behind: bool = False
    """True if the machine's clock was behind the journal, so that `at_us` is not the clock's."""


class ClockMark(msgspec.Struct, frozen=True, kw_only=True):
    """What the lines of a journal up to a position say about the clock."""

    trusted_us: int
    """The last time that was the clock's own."""
    boot: str = ""
    """The boot in which the last line was written."""
    anchor_us: int | None = None
    """The first time in that boot that was the clock's own; later ones are held against it."""
    anchor_elapsed_ms: int = 0
    """Milliseconds from the boot to the anchor."""


class ProjectTime(NamedTuple):
    """A moment by the project's clock."""

    now_us: int
    """The time that is written into what is made now."""
    expiry_us: int
    """The time as of which things have expired: it stands still while the machine's clock cannot be believed."""
    stamp: Stamp


def fixed_time(moment_us: int) -> ProjectTime:
    """Return a moment that nothing is committed at: for questions about the past."""
    return ProjectTime(moment_us, moment_us, Stamp(moment_us))


class TimeReads(Protocol):
    """The time of a view of a store."""

    @property
    def as_of(self) -> int:
        """The time in microseconds by the project's clock: never before the last commit."""
        ...

    @property
    def expiry_us(self) -> int:
        """The time as of which things have expired: `as_of`, but it waits for a clock that is behind (decision 91)."""
        ...


def follow(mark: ClockMark | None, stamp: Stamp) -> ClockMark:
    """Return what is known about the clock after another line."""
    same_boot = mark is not None and bool(stamp.boot) and mark.boot == stamp.boot
    if stamp.is_behind:
        trusted_us = stamp.at_us if mark is None else mark.trusted_us
        if mark is not None and same_boot:
            return mark
        return ClockMark(trusted_us=trusted_us, boot=stamp.boot)
    if mark is not None and same_boot and mark.anchor_us is not None:
        # A line outside the bounds is one that a person has accepted or corrected: the time is held against that then.
        latest_us = _latest_in_boot(mark.anchor_us, mark.anchor_elapsed_ms, stamp.elapsed_ms)
        if mark.trusted_us <= stamp.at_us <= latest_us:
            return msgspec.structs.replace(mark, trusted_us=stamp.at_us)
    return ClockMark(
        trusted_us=stamp.at_us,
        boot=stamp.boot,
        anchor_us=stamp.at_us if stamp.boot else None,
        anchor_elapsed_ms=stamp.elapsed_ms,
    )


def latest_allowed_us(last_us: int, mark: ClockMark | None, boot: BootTime) -> int | None:
    """Return the latest time that a commit may have after the last line; None if there is no line yet."""
    if not last_us:
        return None
    if mark is not None and mark.boot == boot.boot and mark.anchor_us is not None:
        return _latest_in_boot(mark.anchor_us, mark.anchor_elapsed_ms, boot.elapsed_ms)
    return last_us + BOOT_LIMIT_US


def _latest_in_boot(anchor_us: int, anchor_elapsed_ms: int, elapsed_ms: int) -> int:
    return anchor_us + (elapsed_ms - anchor_elapsed_ms) * 1000 + AHEAD_LIMIT_US


class ProjectClock:
    """The time of a project: the machine's, but never before the last time in its journal.

    After the machine's clock was set back, time goes on from the journal's last time at half the pace until the clock
    has caught up. It must not stand still, because leases would never end. Only what expires waits for the clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._behind: tuple[int, int] | None = None
        """Project time and monotonic time at which the project left the machine's clock; None while they agree."""

    def commit_time(self, last_us: int, mark: ClockMark | None) -> ProjectTime:
        """Return the time of a commit after the last line; raise ClockAhead if the clock cannot be believed."""
        time, latest_us = self._read(last_us, mark)
        if latest_us is not None:
            raise ClockAhead(
                f"The machine's clock says {print_time(time.stamp.at_us)}, which is further ahead of the journal's "
                f"last time, {print_time(last_us)}, than the machine has been running.",
                limit=print_time(latest_us),
                used=print_time(time.stamp.at_us),
                hint=ACCEPT_HINT,
            )
        return time

    def read_time(self, last_us: int, mark: ClockMark | None) -> ProjectTime:
        """Return the time of a read: the last project time if the clock cannot be believed."""
        return self._read(last_us, mark)[0]

    def machine_stamp(self) -> Stamp:
        """Return the machine's time, even if the journal is ahead of it."""
        boot = self._clock.since_boot()
        return Stamp(self._clock.now(), boot.boot, boot.elapsed_ms)

    def state(self, last_us: int, mark: ClockMark | None) -> ClockState:
        """Return how the machine's clock and the journal's last time stand to each other."""
        return ClockState(last_us, self._clock.now(), latest_allowed_us(last_us, mark, self._clock.since_boot()))

    def _read(self, last_us: int, mark: ClockMark | None) -> tuple[ProjectTime, int | None]:
        """Return the time, and the latest that is allowed if the machine's clock is past that."""
        wall_us, boot = self._clock.now(), self._clock.since_boot()
        trusted_us = last_us if mark is None else mark.trusted_us
        latest_us = latest_allowed_us(last_us, mark, boot)
        if latest_us is not None and wall_us > latest_us:
            return ProjectTime(last_us, trusted_us, Stamp(wall_us, boot.boot, boot.elapsed_ms)), latest_us
        now_us = self._never_before(last_us, wall_us)
        if now_us == wall_us:
            return ProjectTime(now_us, now_us, Stamp(now_us, boot.boot, boot.elapsed_ms)), None
        # decision 91: nothing expires, and nothing that has expired revives, until the clock has caught up
        return ProjectTime(now_us, trusted_us, Stamp(now_us, boot.boot, boot.elapsed_ms, is_behind=True)), None

    def _never_before(self, least_us: int, now_us: int) -> int:
        behind = self._behind
        if behind is not None and least_us < behind[0]:  # a person has corrected the project's time meanwhile
            behind = self._behind = None
        if behind is None and now_us >= least_us:
            return now_us
        monotonic_us = self._clock.monotonic()
        if behind is not None:
            project_us = behind[0] + (monotonic_us - behind[1]) // 2
            if now_us >= max(project_us, least_us):
                self._behind = None
                return now_us
            if project_us >= least_us:
                return project_us
        self._behind = least_us, monotonic_us
        return least_us


class ClockState(NamedTuple):
    """How the machine's clock and the time of a journal stand to each other."""

    last_us: int
    """The journal's last time."""
    machine_us: int
    """The machine's time."""
    latest_us: int | None
    """The latest time that a commit may have; None if the journal has no line."""

    @property
    def is_ahead(self) -> bool:
        """True if the machine's clock is further ahead than allowed, so that commits are refused."""
        return self.latest_us is not None and self.machine_us > self.latest_us

    @property
    def is_behind(self) -> bool:
        """True if the journal is ahead of the machine's clock by more than an ordinary difference."""
        return self.last_us - self.machine_us > BEHIND_TOLERANCE_US


class ClockAccepted(msgspec.Struct, frozen=True, kw_only=True, tag="clock.accepted", tag_field="fact"):
    """A person confirmed that the machine's clock is right, even if it is further ahead than the journal allows."""

    was_us: int
    """The project's time before."""


class ClockCorrected(msgspec.Struct, frozen=True, kw_only=True, tag="clock.corrected", tag_field="fact"):
    """A person corrected the project's time, which a wrong clock had moved ahead: the line's time holds from now on.

    Engrams that had expired only because of that live again, and none lives longer than its ttl from now on. All tokens
    and grants are revoked; leases and reservations end.
    """

    was_us: int
    """The project's time before."""


ClockChange = ClockAccepted | ClockCorrected


class TimedStore(Protocol):
    """A store whose journal keeps the time of its project."""

    def record_time(self, moment_us: int) -> None:
        """Commit the time if it has come to a moment that the last line is before, so that it cannot be undone."""
        ...

    def clock_state(self) -> ClockState:
        """Return how the machine's clock and the journal's last time stand to each other."""
        ...

    def set_time(self, change: ClockChange) -> None:
        """Take the machine's time, even if the journal is ahead of it: a person has decided that."""
        ...
