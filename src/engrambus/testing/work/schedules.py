"""Schedules: tuples that are put at certain times."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from engrambus.core import SECOND_US, parse_time, print_time
from engrambus.core.project_clock import ClockCorrected
from engrambus.errors import (
    ClockAhead,
    CronInvalid,
    CronNeverFires,
    EngramBusError,
    FieldValue,
    IntervalInvalid,
    ScheduleExists,
    ScheduleName,
    ScheduleNotFound,
    ScheduleTiming,
    ScheduleTuple,
    TooManySchedules,
    TupleTooLarge,
    ZoneUnknown,
)
from engrambus.space.schedules import (
    MAX_CATCH_UP,
    MAX_SCHEDULES_OF_AGENT,
    NEVER_US,
    Schedule,
    SchedulePosition,
    Schedules,
)
from engrambus.testing.work.harness import PERSON, RUN, WorkHarness, completion, draft, expect_error, put, take

HOUR = 3600
DAY = 24 * HOUR
AGENT = {"user": None, "agent": f"{RUN}/worker", "ci": False}


def schedules_of(harness: WorkHarness, *ended_runs: str) -> Schedules:
    """Return the schedules of a harness's space."""
    return Schedules(harness.space, lambda run: run in ended_runs)


def add(harness: WorkHarness, name: str = "nightly", **fields: Any) -> bool:
    """Add a schedule, at three every night by default."""
    if not {"cron", "every", "at"} & fields.keys():
        fields["cron"] = "0 3 * * *"
    owner: dict[str, Any] = {"run": RUN, "added_by": f"{RUN}/admin", "authority": PERSON, "is_admin": True}
    return schedules_of(harness).add(**{"name": name, "template": draft(), **owner, **fields})


def emitted(harness: WorkHarness, name: str = "nightly") -> list[str]:
    """Emit what is due now; return the times at which the new tuples of a schedule were put."""
    done = schedules_of(harness).emit_due()
    ids = [tuple_id for emission in done.emissions if emission.name == name for tuple_id in emission.tuples]
    return [_short(harness.space.public_tuple(tuple_id)["created_at"]) for tuple_id in ids]


def state(harness: WorkHarness, name: str = "nightly") -> Schedule:
    """Return a schedule."""
    return schedules_of(harness).get(name)


def due(harness: WorkHarness, name: str = "nightly") -> str | None:
    """Return when a schedule is due next."""
    due_us = state(harness, name).state.due_us
    return None if due_us is None else _short(print_time(due_us))


def go_to(harness: WorkHarness, moment: str) -> None:
    """Advance the clock to a time."""
    harness.clock.advance(microseconds=parse_time(moment) - harness.clock.now())


def _short(moment: str) -> str:
    return datetime.fromisoformat(moment).strftime("%m-%dT%H:%M:%S")


class ScheduleConformance:
    """Schedules."""  # YT-16

    def test_a_schedule_puts_a_tuple_whenever_it_is_due(self, harness: WorkHarness) -> None:
        """Stamped with the authority and the run of who added it, and with its name; any index is as good."""
        assert add(harness, template=draft("build", src_ptr=["doc://plan"]), authority=AGENT)
        assert emitted(harness) == []
        for day in (1, 2, 3):
            go_to(harness, f"2026-01-0{day}T02:59:59Z")
            assert emitted(harness) == []
            go_to(harness, f"2026-01-0{day}T03:00:00Z")
            assert due(harness) == f"01-0{day}T03:00:00"
            assert emitted(harness) == [f"01-0{day}T03:00:00"]
            assert emitted(harness) == []
            (claim,) = take(harness)
            assert (claim.run, claim.tuple.authority) == (RUN, AGENT)
            assert claim.tuple.src_ptr == ("doc://plan", "schedule:nightly")
            harness.space.complete([completion(harness, claim)])
            harness.delete_index()
            harness.reopen()
        schedule = state(harness).state
        assert (schedule.emitted, schedule.missed, schedule.skipped) == (3, 0, 0)
        assert (schedule.last_us, schedule.last_due_us) == (harness.clock.now(), harness.clock.now())
        assert schedule.last_tuple == claim.id
        add(harness, "unchanged")
        assert harness.space.store.verify() == []

    def test_an_interval_keeps_its_phase(self, harness: WorkHarness) -> None:
        """It is counted from when the schedule was added, however late a tuple was put."""
        add(harness, every="PT15M", overlap="queue")
        harness.clock.advance(seconds=15 * 60 + 100)
        assert emitted(harness) == ["01-01T00:16:40"]
        assert due(harness) == "01-01T00:30:00"
        harness.clock.advance(seconds=800)
        assert emitted(harness) == ["01-01T00:30:00"]

    def test_a_single_time_is_due_once(self, harness: WorkHarness) -> None:
        """The schedule has then ended, and keeps its name until it is removed."""
        add(harness, at="2026-01-01T02:00+01:00")
        assert due(harness) == "01-01T01:00:00"
        harness.clock.advance(seconds=HOUR)
        assert len(emitted(harness)) == 1
        assert state(harness).has_ended
        harness.clock.advance(seconds=100 * DAY)
        assert emitted(harness) == []
        expect_error(ScheduleExists, add, harness)
        schedules_of(harness).remove("nightly", by="me")
        assert add(harness)

    def test_equal_schedules_put_a_tuple_each(self, harness: WorkHarness) -> None:
        """In one commit, each with an id of its own; more than one commit takes are put all the same."""
        for number in range(150):
            add(harness, f"equal-{number}")
        go_to(harness, "2026-01-01T03:00:00Z")
        done = schedules_of(harness).emit_due()
        assert len(done.emissions) == 150
        assert len({tuple_id for emission in done.emissions for tuple_id in emission.tuples}) == 150
        assert done.next_us == parse_time("2026-01-02T03:00:00Z")

    def test_a_lane_is_never_more_than_full(self, harness: WorkHarness) -> None:
        """Tuples of one commit count each other; a refusal is recorded, and others go on."""
        most = harness.space.settings.queue_maxsize
        put(harness, *[draft() for _ in range(most - 2)])
        for number in range(4):
            add(harness, f"equal-{number}")
        add(harness, "other", template=draft("other"))
        go_to(harness, "2026-01-01T03:00:00Z")
        done = schedules_of(harness).emit_due()
        assert {emission.name for emission in done.emissions} == {"equal-0", "equal-1", "other"}
        assert set(done.refused) == {"equal-2", "equal-3"}
        assert state(harness, "equal-2").state.refusal.code == "LANE_FULL"  # type: ignore[union-attr]
        with harness.space.store.read() as view:
            assert view.waiting_count("build") == most

    def test_missed_times_are_caught_up_with_as_it_says(self, harness: WorkHarness) -> None:
        """With the newest, with all or with none; what is not caught up with is counted."""
        for catch_up in ("one", "all", "none"):
            add(harness, f"c-{catch_up}", cron="0 * * * *", catch_up=catch_up)
        go_to(harness, "2026-01-01T05:30:00Z")
        done = {emission.name: emission.tuples for emission in schedules_of(harness).emit_due().emissions}
        assert {name: len(tuples) for name, tuples in done.items()} == {"c-one": 1, "c-all": 5}
        assert len({*done["c-all"], *done["c-one"]}) == 6
        counts = {name: state(harness, name).state for name in ("c-one", "c-all", "c-none")}
        assert {name: counted.missed for name, counted in counts.items()} == {"c-one": 4, "c-all": 0, "c-none": 5}
        assert {due(harness, name) for name in counts} == {"01-01T06:00:00"}
        go_to(harness, "2026-01-01T06:00:59Z")
        assert len(emitted(harness, "c-none")) == 1

    def test_a_year_nobody_was_there_for_is_bounded(self, harness: WorkHarness) -> None:
        """Of every minute of it, the newest are put; no time is put twice."""
        add(harness, "all", cron="* * * * *", catch_up="all")
        add(harness, "one", cron="* * * * *")
        add(harness, "interval", every="PT10S", catch_up="all")
        harness.clock.advance(seconds=300 * DAY + 30)
        done = {emission.name: len(emission.tuples) for emission in schedules_of(harness).emit_due().emissions}
        assert done == {"all": MAX_CATCH_UP, "one": 1, "interval": MAX_CATCH_UP}
        assert state(harness, "one").state.missed >= MAX_CATCH_UP
        assert schedules_of(harness).emit_due().emissions == ()

    def test_overlap_is_skipped_or_queued(self, harness: WorkHarness) -> None:
        """A time is skipped while the previous tuple has not ended, and counted."""
        for overlap in ("skip", "queue"):
            add(harness, overlap, cron="0 * * * *", overlap=overlap, template=draft(overlap))
        for hour in range(1, 5):
            go_to(harness, f"2026-01-01T0{hour}:00:00Z")
            schedules_of(harness).emit_due()
        skip, queue = (state(harness, name).state for name in ("skip", "queue"))
        assert (skip.emitted, skip.skipped, queue.emitted, queue.skipped) == (1, 3, 4, 0)
        (claim,) = take(harness, "skip")
        harness.clock.advance(seconds=HOUR)
        assert emitted(harness, "skip") == []
        assert harness.space.renew([(claim.id, claim.fence)]) == [claim.id]
        harness.space.cancel(claim.id)
        harness.clock.advance(seconds=HOUR)
        assert len(emitted(harness, "skip")) == 1

    def test_a_paused_schedule_emits_nothing(self, harness: WorkHarness) -> None:
        """Nor for the times of the pause when it goes on; a single time is not lost."""
        add(harness, cron="0 * * * *")
        add(harness, "once", at="2026-01-01T01:00:00Z")
        schedules = schedules_of(harness)
        for name in ("nightly", "once"):
            schedules.pause(name, by="me")
            schedules.pause(name, by="me")
        go_to(harness, "2026-01-01T05:30:00Z")
        harness.reopen()
        assert schedules_of(harness).emit_due().looked_at == 0
        assert schedules_of(harness).next_look_us()[0] is None
        for name in ("nightly", "once"):
            schedules_of(harness).resume(name, by="me")
            schedules_of(harness).resume(name, by="me")
        assert due(harness) == "01-01T06:00:00"
        assert emitted(harness, "once") == ["01-01T05:30:00"]
        go_to(harness, "2026-01-01T06:00:00Z")
        assert len(emitted(harness)) == 1

    def test_a_tuple_is_put_by_hand(self, harness: WorkHarness) -> None:
        """Also of a paused schedule; its next time stays, and a repeated request puts nothing more."""
        add(harness)
        schedules = schedules_of(harness)
        schedules.pause("nightly", by="me")
        first = schedules.emit_now("nightly", idempotency=("k", "r"))
        repeated = schedules.emit_now("nightly", idempotency=("k", "r"))
        assert (first.id, first.new, repeated.new) == (repeated.id, True, False)
        assert harness.space.get(first.id).state == "waiting"
        record = state(harness).state
        assert (record.emitted, record.last_tuple, record.last_due_us, record.look_us) == (1, first.id, None, NEVER_US)
        schedules.resume("nightly", by="me")
        assert due(harness) == "01-01T03:00:00"

    def test_a_refusal_is_recorded_tried_again_and_stops_no_other(self, harness: WorkHarness) -> None:
        """Nothing is lost: once it is admitted, the time is caught up with."""
        add(harness)
        add(harness, "other", run="01KDVP9R00STGMERGYRUN00001")
        go_to(harness, "2026-01-01T03:00:00Z")
        done = schedules_of(harness, RUN).emit_due()
        assert ([emission.name for emission in done.emissions], done.refused) == (["other"], ("nightly",))
        refusal = state(harness).state.refusal
        assert refusal is not None
        assert (refusal.code, refusal.tries) == ("RUN_ENDED", 1)
        assert RUN in refusal.detail
        for seconds, tries in ((60, 2), (120, 3), (240, 4)):
            harness.clock.advance(seconds=seconds - 1)
            assert schedules_of(harness, RUN).emit_due().refused == ()
            harness.clock.advance(seconds=1)
            assert schedules_of(harness, RUN).emit_due().refused == ("nightly",)
            refusal = state(harness).state.refusal
            assert refusal is not None
            assert refusal.tries == tries
        harness.delete_index()
        harness.reopen()
        harness.clock.advance(seconds=480)
        assert len(emitted(harness)) == 1
        assert state(harness).state.refusal is None
        assert due(harness) == "01-02T03:00:00"

    def test_a_refused_schedule_is_tried_at_its_next_time_at_the_latest(self, harness: WorkHarness) -> None:
        """However often it was refused."""
        add(harness, every="PT2M")
        for _ in range(6):
            harness.clock.advance(seconds=120)
            assert schedules_of(harness, RUN).emit_due().refused == ("nightly",)
        harness.clock.advance(seconds=120)
        assert len(emitted(harness)) == 1
        assert state(harness).state.missed == 6

    def test_the_next_look_is_the_first_of_all(self, harness: WorkHarness) -> None:
        """An emitter sleeps until then."""
        schedules = schedules_of(harness)
        assert schedules.next_look_us()[0] is None
        add(harness)
        add(harness, "soon", every="PT1M")
        assert schedules.next_look_us()[0] == harness.clock.now() + 60 * SECOND_US
        schedules.remove("soon", by="me")
        assert schedules.next_look_us()[0] == parse_time("2026-01-01T03:00:00Z")

    def test_schedules_are_listed_by_their_next_time(self, harness: WorkHarness) -> None:
        """Page by page; those that are paused or have ended come last."""
        for hour in (5, 3, 4):
            add(harness, f"at-{hour}", cron=f"0 {hour} * * *")
        add(harness, "agents", cron="0 1 * * *", added_by="x/agent", run="01KDVP9R00STGMERGYRUN00001")
        schedules = schedules_of(harness)
        schedules.pause("at-3", by="me")
        names = [schedule.name for schedule in schedules.find_all()]
        assert names == ["agents", "at-4", "at-5", "at-3"]
        assert [schedule.name for schedule in schedules.find_all(added_by="x/agent")] == ["agents"]
        assert [schedule.name for schedule in schedules.find_all(run=RUN)] == names[1:]
        paged: list[str] = []
        after = None
        while page := schedules.find_all(limit=1, after=after):
            paged += (schedule.name for schedule in page)
            after = SchedulePosition(page[-1].state.look_us, page[-1].name)
        assert paged == names

    def test_who_does_not_see_a_schedule_cannot_tell_it_from_none(self, harness: WorkHarness) -> None:
        """It is the same error."""
        add(harness)
        schedules = schedules_of(harness)
        journal = harness.journal_bytes()
        for call in (schedules.pause, schedules.resume, schedules.remove):
            of_other = expect_error(ScheduleNotFound, call, "nightly", by="x", added_by="x")
            absent = expect_error(ScheduleNotFound, call, "nobody", by="x")
            assert (of_other.code, of_other.detail) == (absent.code, absent.detail)
        assert harness.journal_bytes() == journal

    def test_the_same_schedule_added_again_is_left_as_it_is(self, harness: WorkHarness) -> None:
        """Another one of its name is refused."""
        assert add(harness)
        journal = harness.journal_bytes()
        harness.clock.advance(seconds=5)
        assert not add(harness)
        for fields in (
            {"cron": "0 4 * * *"},
            {"template": draft("other")},
            {"overlap": "queue"},
            {"zone": "Asia/Tokyo"},
        ):
            error = expect_error(ScheduleExists, add, harness, **fields)
            assert (error.field, error.used) == ("name", "nightly")
        assert harness.journal_bytes() == journal

    def test_nonsense_is_refused_and_changes_nothing(self, harness: WorkHarness) -> None:
        """Each by a code of its own, with the field and the limit."""
        wrong: list[tuple[type[EngramBusError], str, dict[str, Any]]] = [
            *((CronInvalid, "cron", {"cron": text}) for text in BAD_CRON),
            *((CronNeverFires, "cron", {"cron": text}) for text in ("0 0 31 2 *", "0 0 30 FEB *", "0 0 31 4,6 *")),
            *((IntervalInvalid, "every", {"every": text}) for text in BAD_INTERVALS),
            *((ScheduleTiming, "at", {"at": text}) for text in ("now", "2026-12-01T09:00", "2025-01-01T00:00Z", "")),
            *((ZoneUnknown, "tz", {"zone": text, "cron": "0 3 * * *"}) for text in BAD_ZONES),
            (ScheduleTiming, "tz", {"zone": "UTC", "every": "PT1H"}),
            (ScheduleTiming, "every", {"cron": "0 3 * * *", "every": "PT1H"}),
            (ScheduleTiming, "cron", {"cron": None}),
            *((ScheduleName, "name", {"name": text}) for text in ("", "A", "a b", ".a", "x" * 65, "ä", "a/b")),
            (FieldValue, "overlap", {"catch_up": "all", "overlap": "skip"}),
            *(
                (ScheduleTuple, field, {"template": {"lane": "a", field: "x"}})
                for field in ("id", "parent_id", "receipts")
            ),
            *((ScheduleTuple, "agent_terms.deadline_iso", {"template": draft(agent_terms=DEADLINE)}),),
            (TupleTooLarge, "payload", {"template": draft(map_pos={"x": "y" * 70_000})}),
            (FieldValue, "lane", {"template": draft("")}),
        ]
        put(harness)
        journal = harness.journal_bytes()
        for kind, field, fields in wrong:
            error = expect_error(kind, add, harness, **fields)
            assert error.field == field, fields
        assert harness.journal_bytes() == journal

    def test_an_agent_has_so_many_schedules_at_most(self, harness: WorkHarness) -> None:
        """Those it removes do not count."""
        of_agent: dict[str, Any] = {"added_by": "x/agent", "is_admin": False}
        for number in range(MAX_SCHEDULES_OF_AGENT):
            add(harness, f"s{number}", **of_agent)
        error = expect_error(TooManySchedules, add, harness, **of_agent)
        assert (error.limit, error.used) == (MAX_SCHEDULES_OF_AGENT, MAX_SCHEDULES_OF_AGENT)
        assert add(harness, "another", added_by="x/second", is_admin=False)
        schedules_of(harness).remove("s7", by="x")
        assert add(harness, **of_agent)

    # decision 91
    def test_a_clock_that_is_set_back_emits_nothing_twice(self, harness: WorkHarness) -> None:
        """The next time is a fact, in spite of the clock."""
        add(harness, overlap="queue")
        go_to(harness, "2026-01-01T03:00:00Z")
        assert len(emitted(harness)) == 1
        harness.clock.set(parse_time("2026-01-01T02:00:00Z"))
        assert emitted(harness) == []
        harness.clock.advance(seconds=HOUR)
        assert emitted(harness) == []
        go_to(harness, "2026-01-02T03:00:00Z")
        assert len(emitted(harness)) == 1

    # decision 91
    def test_a_clock_that_is_far_ahead_emits_nothing(self, harness: WorkHarness) -> None:
        """No one believes it."""
        add(harness)
        start_us = harness.clock.now()
        harness.clock.set(start_us + 100 * 365 * DAY * SECOND_US)
        expect_error(ClockAhead, put, harness)
        assert emitted(harness) == []
        harness.clock.set(start_us)
        go_to(harness, "2026-01-01T03:00:00Z")
        assert len(emitted(harness)) == 1

    # decision 91
    def test_after_a_correction_schedules_go_on_from_the_right_time(self, harness: WorkHarness) -> None:
        """What a wrong clock had emitted is not taken back; the next time is that of the right clock."""
        add(harness, overlap="queue")
        add(harness, "interval", every="PT1H", overlap="queue")
        add(harness, "once", at="2026-06-01T00:00:00Z")
        add(harness, "paused", cron="0 1 * * *")
        schedules_of(harness).pause("paused", by="me")
        start_us = harness.clock.now()
        harness.clock.restart()
        harness.clock.set(start_us + 300 * DAY * SECOND_US)
        add(harness, "wrong", every="PT1H", overlap="queue")
        assert [len(emitted(harness)), len(emitted(harness, "interval"))] == [1, 0]
        harness.clock.set(start_us + 60 * SECOND_US)
        harness.space.store.set_time(ClockCorrected(was_us=harness.space.store.clock_state().last_us))
        for reopen in (False, True):
            if reopen:
                harness.delete_index()
                harness.reopen()
            assert schedules_of(harness).emit_due().emissions == ()
            assert due(harness) == "01-01T03:00:00"
            assert due(harness, "interval") == "01-01T01:00:00"
            assert due(harness, "wrong") == "01-01T01:01:00"
            assert state(harness, "paused").state.paused
        assert state(harness, "once").has_ended
        go_to(harness, "2026-01-01T01:01:00Z")
        assert {emission.name for emission in schedules_of(harness).emit_due().emissions} == {"interval", "wrong"}
        go_to(harness, "2026-01-01T03:00:00Z")
        assert len(emitted(harness)) == 1


DEADLINE = {"deadline_iso": "2027-01-01T00:00:00Z"}
BAD_ZONES = ("Mars/Base", "", "../UTC", "europe/berlin", "CET+1", "Europe/Berlin\x00", "x" * 500)
BAD_INTERVALS = ("PT0S", "PT9S", "P1M", "P1Y", "-PT1H", "15m", "", "P9999D", "PT1H30", "P" + "9" * 39)
BAD_CRON = (
    "",
    "nonsense",
    "* * * *",
    "* * * * * *",
    "0 0 3 * * * *",
    "60 * * * *",
    "* 24 * * *",
    "* * 0 * *",
    "* * 32 * *",
    "* * * 13 *",
    "* * * * 8",
    "*/0 * * * *",
    "5-1 * * * *",
    "1,,2 * * * *",
    "-1 * * * *",
    "1- * * * *",
    "٣ * * * *",
    "* * * * 5L/2",
    "* * * * MON#6",
    "@daily",
    "0 " * 300,
    "9" * 150 + " * * * *",
)
