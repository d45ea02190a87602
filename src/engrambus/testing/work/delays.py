"""Tuples that say when they may first be claimed."""

from __future__ import annotations

from engrambus.core import SECOND_US, print_time
from engrambus.core.project_clock import ClockCorrected
from engrambus.errors import NotBeforePastDeadline, TermsInvalid
from engrambus.space.tuples import read_pattern
from engrambus.testing.work.harness import PERSON, RUN, WorkHarness, draft, expect_error, put, take

HOUR_US = 3600 * SECOND_US


def delayed(harness: WorkHarness, seconds: int, lane: str = "build", **terms: object) -> dict[str, object]:
    """Return a tuple that may be claimed that many seconds from now."""
    moment = print_time(harness.clock.now() + seconds * SECOND_US)
    return draft(lane, agent_terms={"not_before_iso": moment, **terms})


class DelayConformance:
    """Delayed emission."""  # YT-16

    def test_a_delayed_tuple_is_neither_claimed_nor_taken_early(self, harness: WorkHarness) -> None:
        """Nor by its id; `rd` shows it all the time."""
        (tuple_id,) = put(harness, delayed(harness, 60))
        (immediate,) = put(harness)
        with harness.space.store.read() as view:
            assert view.next_due_us(read_pattern({"lane": "build"})) == harness.clock.now() + 60 * SECOND_US
            assert [counts.waiting for counts in view.lane_counts()] == [2]
        harness.clock.advance(seconds=59)
        for reopen in (False, True):
            if reopen:
                harness.delete_index()
                harness.reopen()
            assert harness.space.claim({"id": tuple_id}, worker="w1") == []
            assert harness.space.in_({"id": tuple_id}, by="me") is None
            record = harness.space.rd({"id": tuple_id})
            assert record is not None
            assert (record.state, record.not_before_us) == ("waiting", harness.clock.now() + SECOND_US)
        assert [claim.id for claim in take(harness, limit=9)] == [immediate]
        harness.clock.advance(seconds=1)
        (claim,) = take(harness, limit=9)
        assert (claim.id, claim.attempt, claim.finished_steps) == (tuple_id, 1, {})

    def test_due_tuples_are_claimed_in_the_usual_order(self, harness: WorkHarness) -> None:
        """By rank, then by age, whether they were delayed or not."""
        late, low = put(harness, delayed(harness, 1), draft())
        (high,) = put(harness, {**delayed(harness, 2), "priority": 5})
        harness.clock.advance(seconds=3)
        assert [claim.id for claim in take(harness, limit=9)] == [high, late, low]

    def test_a_time_that_is_past_means_now(self, harness: WorkHarness) -> None:
        """However far, also before 1970."""
        ids = put(harness, delayed(harness, -60), draft(agent_terms={"not_before_iso": "1960-01-01T00:00:00Z"}))
        assert [claim.id for claim in take(harness, limit=9)] == ids

    def test_a_time_after_the_deadline_is_refused(self, harness: WorkHarness) -> None:
        """Nothing is put; one before it is accepted."""
        deadline = print_time(harness.clock.now() + 60 * SECOND_US)
        journal = harness.journal_bytes()
        for seconds in (60, 61):
            error = expect_error(NotBeforePastDeadline, put, harness, delayed(harness, seconds, deadline_iso=deadline))
            assert (error.field, error.limit) == ("agent_terms.not_before_iso", deadline)
        assert harness.journal_bytes() == journal
        (tuple_id,) = put(harness, delayed(harness, 59, deadline_iso=deadline))
        harness.clock.advance(seconds=59)
        assert [claim.id for claim in take(harness)] == [tuple_id]

    def test_what_is_no_time_with_an_offset_is_refused(self, harness: WorkHarness) -> None:
        """A local time would mean another moment on another machine."""
        journal = harness.journal_bytes()
        for text in ("tomorrow", "2026-12-01T09:00:00", "2026-13-01T09:00:00Z", "", 7):
            error = expect_error(TermsInvalid, put, harness, draft(agent_terms={"not_before_iso": text}))
            assert error.field == "agent_terms.not_before_iso"
        assert harness.journal_bytes() == journal

    def test_a_delayed_tuple_is_not_run_at_once(self, harness: WorkHarness) -> None:
        """`eval` puts and claims in one commit; that would be early."""
        run_now = harness.space.out_claimed
        error = expect_error(TermsInvalid, run_now, delayed(harness, 60), authority=PERSON, run=RUN, worker="w1")
        assert error.field == "agent_terms.not_before_iso"
        _, claim = run_now(delayed(harness, -1), authority=PERSON, run=RUN, worker="w1")
        assert claim is not None

    def test_the_counts_of_delayed_tuples_name_the_first_time(self, harness: WorkHarness) -> None:
        """For each lane; tuples that are due are not counted."""
        put(harness, draft(), delayed(harness, 5), delayed(harness, 9), delayed(harness, 7, "test"))
        start_us = harness.clock.now()
        harness.clock.advance(seconds=6)
        with harness.space.store.read() as view:
            listed = [(counts.lane, counts.tuples, counts.first_us) for counts in view.delayed_counts()]
        assert listed == [("build", 1, start_us + 9 * SECOND_US), ("test", 1, start_us + 7 * SECOND_US)]

    # decision 91
    def test_a_correction_of_the_clock_keeps_times_that_the_right_clock_set(self, harness: WorkHarness) -> None:
        """A delay that began under the wrong clock goes on for what is left of it."""
        (right,) = put(harness, delayed(harness, 7200))
        start_us = harness.clock.now()
        harness.clock.restart()
        harness.clock.set(start_us + 300 * 24 * HOUR_US)
        (wrong,) = put(harness, delayed(harness, 60))
        harness.clock.set(start_us + SECOND_US)
        harness.space.store.set_time(ClockCorrected(was_us=harness.space.store.clock_state().last_us))
        for reopen in (False, True):
            if reopen:
                harness.delete_index()
                harness.reopen()
            ready = [harness.space.get(tuple_id).ready_us for tuple_id in (right, wrong)]
            assert ready == [start_us + 7200 * SECOND_US, start_us + 61 * SECOND_US]
        assert take(harness) == []
        harness.clock.advance(seconds=60)
        assert [claim.id for claim in take(harness, limit=9)] == [wrong]
        harness.clock.advance(seconds=7200)
        assert right in [claim.id for claim in take(harness, limit=9)]

    def test_a_clock_that_is_set_back_does_not_lengthen_or_shorten_a_delay(self, harness: WorkHarness) -> None:
        """The project's time stands still until the clock has caught up."""
        put(harness, delayed(harness, 10))
        harness.clock.advance(seconds=9)
        assert take(harness) == []
        put(harness, draft("other"))
        harness.clock.set(harness.clock.now() - HOUR_US)
        assert take(harness) == []
        harness.clock.set(harness.clock.now() + HOUR_US + SECOND_US)
        assert len(take(harness)) == 1
