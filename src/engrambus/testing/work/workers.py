"""The conformance suite of workers with different code: what each claims, and what they announce."""

from __future__ import annotations

from typing import Any

from engrambus.core import SECOND_US
from engrambus.core.process_names import process_name
from engrambus.space.tuples import Claim, Completion, Price, RunningWorker, read_pattern
from engrambus.testing.work.harness import LEASE_US, RUN, WorkHarness, completion, draft, failure, put, receipt

ALPHA, BETA = "agent.work.alpha", "agent.work.beta"


def payload(*yools: str, **after: list[int]) -> list[dict[str, Any]]:
    """Return a step for each of these yools; `s2=[0]` says what step 2 waits for."""
    return [
        {"yool": yool, "args": {}, **({"after": after.get(f"s{position}", [])} if after else {})}
        for position, yool in enumerate(yools)
    ]


def take_for(harness: WorkHarness, *yools: str, limit: int = 10, **conditions: Any) -> list[Claim]:
    """Claim for a worker with code for these yools."""
    return harness.space.claim(conditions or {"lane": "build"}, worker="w", limit=limit, can_run=yools.__contains__)


def finish(harness: WorkHarness, claim: Claim, *steps: int) -> None:
    """Record some steps of a tuple, and give it back."""
    done = tuple(receipt(harness, claim, step) for step in steps)
    harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=done)])
    harness.space.release([(claim.id, claim.fence)])


class WorkerConformance:
    """Workers that share lanes without having the same code."""  # YT-06 # YT-22

    # decision 100
    def test_a_worker_claims_only_what_it_can_run(self, harness: WorkHarness) -> None:
        """By lane, over all lanes, by id and by another field; highest priority first, then the oldest."""
        beta, alpha, urgent, elsewhere = put(
            harness,
            draft(payload=payload(BETA), priority=9),
            draft(payload=payload(ALPHA)),
            draft(payload=payload(ALPHA, BETA), priority=5, map_pos={"n": 1}),
            draft("other", payload=payload(ALPHA)),
        )
        assert take_for(harness, "agent.work.gamma") == []
        assert take_for(harness, ALPHA, id=beta) == []
        assert take_for(harness, ALPHA, **{"map_pos.n": 2}) == []
        assert [claim.id for claim in take_for(harness, BETA, **{"map_pos.n": 1})] == []
        assert [claim.id for claim in take_for(harness, ALPHA, **{"map_pos.n": 1})] == [urgent]
        assert [claim.id for claim in take_for(harness, ALPHA, id=alpha)] == [alpha]
        assert [claim.id for claim in take_for(harness, ALPHA, state="waiting")] == [elsewhere]
        assert [claim.id for claim in take_for(harness, BETA)] == [beta]

    def test_a_tuple_without_steps_needs_no_code(self, harness: WorkHarness) -> None:
        """Any worker of its lane claims it."""
        (note,) = put(harness, draft(payload=[]))
        assert [claim.id for claim in take_for(harness)] == [note]

    def test_what_a_tuple_needs_follows_its_finished_steps(self, harness: WorkHarness) -> None:
        """Also after the index was made again from the journal."""
        (tuple_id,) = put(harness, draft(payload=payload(ALPHA, BETA, ALPHA)))
        (first,) = take_for(harness, ALPHA)
        finish(harness, first, 0)
        assert take_for(harness, ALPHA) == []
        harness.delete_index()
        assert take_for(harness, ALPHA) == []
        (second,) = take_for(harness, BETA)
        assert (second.attempt, list(second.finished_steps)) == (1, [0])
        finish(harness, second, 1)
        assert take_for(harness, BETA) == []
        (third,) = take_for(harness, ALPHA)
        assert harness.space.complete([completion(harness, third)])[0] == [None]
        assert harness.space.get(tuple_id).state == "done"
        assert harness.space.store.verify() == []

    def test_one_step_that_can_run_is_enough(self, harness: WorkHarness) -> None:
        """Branches that run in parallel may be of different workers."""  # YT-07
        put(harness, draft(payload=payload(ALPHA, BETA, "agent.work.gamma", s2=[0])))
        assert take_for(harness, "agent.work.gamma") == []
        (first,) = take_for(harness, BETA)
        finish(harness, first, 1)
        assert take_for(harness, BETA) == []
        (second,) = take_for(harness, ALPHA)
        finish(harness, second, 0)
        assert take_for(harness, ALPHA, BETA) == []
        assert len(take_for(harness, "agent.work.gamma")) == 1

    def test_a_tuple_of_a_lost_worker_waits_for_one_with_its_code(self, harness: WorkHarness) -> None:
        """The first claim that finds it lets it wait again, once; the attempt of the lost worker counts."""
        (tuple_id,) = put(harness, draft(payload=payload(BETA), agent_terms={"max_retries": 1}))
        (lost,) = take_for(harness, BETA)
        harness.space.start_step(lost, 0, Price(tokens=1))
        harness.clock.advance(seconds=31)
        assert take_for(harness, ALPHA) == []
        record = harness.space.get(tuple_id)
        assert (record.state, record.attempts, record.reserved_tokens) == ("waiting", 1, 0)
        line = harness.space.store.last_line()
        assert take_for(harness, ALPHA) == []
        assert harness.space.store.last_line() == line
        assert harness.space.complete([completion(harness, lost)])[0] == ["STALE_FENCE"]
        assert [claim.attempt for claim in take_for(harness, BETA)] == [2]

    def test_lost_tuples_do_not_hide_what_can_be_run(self, harness: WorkHarness) -> None:
        """However many of them there are."""
        put(harness, *[draft(payload=payload(BETA), priority=1)] * 300)
        take_for(harness, BETA, limit=300)
        (ours,) = put(harness, draft(payload=payload(ALPHA)))
        harness.clock.advance(seconds=31)
        assert [claim.id for claim in take_for(harness, ALPHA, limit=1)] == [ours]

    def test_the_next_due_time_is_of_what_can_be_run(self, harness: WorkHarness) -> None:
        """A delayed tuple by its next step; a claimed one by any step that is left."""
        put(harness, draft(payload=payload(ALPHA)), draft(payload=payload(ALPHA, BETA)))
        failing, held = take_for(harness, ALPHA)
        harness.space.complete([failure(harness, failing)])

        def due(*yools: str) -> int | None:
            with harness.space.store.read() as view:
                due_us = view.next_due_us(read_pattern({"lane": "build"}), can_run=yools.__contains__)
                return None if due_us is None else due_us - view.as_of

        assert (due(ALPHA), due(BETA), due("agent.work.gamma")) == (SECOND_US, LEASE_US, None)
        assert harness.space.complete([completion(harness, held)])[0] == [None]
        assert due(BETA) is None

    def test_waiting_tuples_are_grouped_by_what_they_need(self, harness: WorkHarness) -> None:
        """By lane, yools and run; with how many there are, and the oldest."""
        ids = put(
            harness,
            draft(payload=payload(ALPHA, BETA)),
            draft(payload=payload(BETA)),
            draft(payload=payload(ALPHA)),
            draft("other", payload=payload(ALPHA, BETA, s1=[])),
            draft("other", payload=[]),
        )
        put(harness, draft(payload=payload(BETA)), run="another")
        (claim, _) = take_for(harness, ALPHA)
        finish(harness, claim, 0)
        with harness.space.store.read() as view:
            groups = [(group.lane, group.yools, group.run, group.tuples) for group in view.waiting_groups()]
            oldest = [group.oldest.id for group in view.waiting_groups() if group.run == RUN]
        assert groups == sorted(
            [
                ("build", (BETA,), RUN, 2),
                ("build", (BETA,), "another", 1),
                ("other", (), RUN, 1),
                ("other", (ALPHA, BETA), RUN, 1),
            ]
        )
        assert oldest == [ids[0], ids[4], ids[3]]

    def test_workers_are_announced_for_the_length_of_a_lease(self, harness: WorkHarness) -> None:
        """Again and again while they run; nothing of it is journalled."""
        journal = harness.journal_bytes()
        worker = RunningWorker(
            id="0123456789abcdef",
            process="another-machine/1.1",
            lane="build",
            run=None,
            yools=(f"{ALPHA}.v1",),
            until_us=0,
        )
        harness.space.announce(worker)
        (running,) = harness.space.running_workers()
        assert (running.works_in("build", RUN), running.works_in("other", RUN)) == (True, False)
        assert running.until_us == harness.clock.now() + LEASE_US
        harness.clock.advance(seconds=29)
        harness.space.announce(worker)
        harness.clock.advance(seconds=29)
        assert len(harness.space.running_workers()) == 1
        harness.clock.advance(seconds=2)
        assert harness.space.running_workers() == []
        harness.space.announce(worker)
        harness.space.store.withdraw(worker.id)
        harness.space.store.withdraw(worker.id)
        assert harness.space.running_workers() == []
        assert harness.journal_bytes() == journal

    def test_a_worker_whose_process_has_ended_does_not_run(self, harness: WorkHarness) -> None:
        """Whatever its announcement says: it is forgotten at once."""
        gone = f"{process_name().partition('/')[0]}/{2**22 + 1}.1"
        worker = RunningWorker(id="00", process=gone, lane=None, run=None, yools=(), until_us=0)
        harness.space.announce(worker)
        assert len(harness.space.store.announced()) == 1
        assert harness.space.running_workers() == []
        assert harness.space.store.announced() == []
