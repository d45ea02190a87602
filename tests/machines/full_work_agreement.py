"""The work plane's state machine with schedules, tasks, batches and a clock that was wrong, all at once. # YT-16"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, multiple, rule

from engrambus.core import SECOND_US
from engrambus.core.project_clock import ClockCorrected
from engrambus.evidence.receipts import EvidenceRef
from engrambus.space.schedules import (
    ScheduleAdded,
    ScheduleEmitted,
    ScheduleMoved,
    SchedulePaused,
    ScheduleRefused,
    ScheduleRemoved,
    ScheduleResumed,
    Schedules,
    ScheduleSkipped,
)
from engrambus.space.tasks import (
    TASK_RUN,
    TaskTerms,
    add_task,
    claim_task,
    finish_task,
    give_task,
    live_tasks,
    release_tasks,
    renew_tasks,
)
from engrambus.space.tuples import BatchSpace, TupleSpace, WorkView
from engrambus.testing.work.harness import PERSON, RUN, completion, draft
from tests.machines.work_agreement import LANES, SETTINGS, WorkAgreement, facts_of

ENDED_RUN = "ended"
NAMES = ("first", "second", "third")
TIMINGS: tuple[dict[str, str], ...] = (
    {"every": "PT10S"},
    {"every": "PT31S"},
    {"cron": "* * * * *"},
    {"at": "2026-01-01T00:00:20Z"},
    {"at": "2026-01-02T00:00:00Z"},
    {"every": "PT1S"},
)
"""When schedules of the machine are due; the last is invalid."""
SCHEDULE_KINDS = {
    kind.__struct_config__.tag
    for kind in (
        ScheduleAdded,
        ScheduleEmitted,
        ScheduleMoved,
        SchedulePaused,
        ScheduleRefused,
        ScheduleRemoved,
        ScheduleResumed,
        ScheduleSkipped,
    )
}
"""Tags of the facts of schedules."""
WRONG_US = 40 * 86_400 * SECOND_US
"""How far ahead the clock is while it is wrong."""
ACTORS = ("one", "two", "admin")
SHAPES = ((1, 1), (1, 3), (2, 2), (1, 40), (3, 3))
SHOWS = EvidenceRef(ref="file:///a.py", digest="sha256:" + "0" * 64)

paths = st.sampled_from(("0", "0.0", "0.1", "0.1.0", "0.7"))


class FullWorkAgreement(WorkAgreement):
    """Everything that can happen in the work plane, on two back ends."""

    tuples = WorkAgreement.tuples
    claims = WorkAgreement.claims
    tasks = Bundle("tasks")
    batches = Bundle("batches")

    def teardown(self) -> None:
        """Check that schedules agree as well; then all the rest."""
        self.do_everything_with_schedules()
        self.both(_schedules)
        assert SCHEDULE_KINDS - {fact["fact"] for fact in facts_of(self.reference.journal_bytes())} == set()
        super().teardown()

    def do_everything_with_schedules(self) -> None:
        """Make every kind of fact of schedules happen once."""
        for name in NAMES:
            self.change_schedule(name, "remove")
        for match in ({"lane": "scheduled"}, {"authority": "user"}):
            self.change_a_limit(match, "remove")
        self.schedule("first", {"every": "PT10S"}, "scheduled", "one", "skip", RUN)
        self.schedule("second", {"every": "PT10S"}, "scheduled", "one", "queue", ENDED_RUN)
        self.wrong_clock(None, 20)
        for _ in range(2):
            self.turn_the_clock(31)
            self.emit_due()
        self.change_schedule("first", "pause")
        self.change_schedule("first", "resume")
        self.change_schedule("first", "remove")

    # Schedules

    @rule(
        name=st.sampled_from(NAMES),
        timing=st.sampled_from(TIMINGS),
        lane=st.sampled_from(LANES),
        catch_up=st.sampled_from(("one", "all", "none")),
        overlap=st.sampled_from((None, "skip", "queue")),
        run=st.sampled_from((RUN, RUN, ENDED_RUN)),
    )
    def schedule(
        self, name: str, timing: dict[str, str], lane: str, catch_up: str, overlap: str | None, run: str
    ) -> None:
        """Add a schedule, some invalid."""
        fields = {
            "template": draft(lane, agent_terms={"concurrency_key": "a"}),
            "authority": PERSON,
            "added_by": "me",
            "is_admin": False,
        }
        options = {"catch_up": catch_up, "overlap": overlap, "run": run, **timing}
        self.both(lambda space: _schedules_of(space).add(name=name, **fields, **options))
        self.both(_schedules)

    @rule(target=WorkAgreement.tuples, name=st.sampled_from(NAMES))
    def emit_now(self, name: str) -> Any:
        """Put a tuple of a schedule at once."""
        answer = self.both(lambda space: _schedules_of(space).emit_now(name))
        return multiple(answer.id) if answer else multiple()

    @rule(name=st.sampled_from(NAMES), change=st.sampled_from(("pause", "resume", "remove")))
    def change_schedule(self, name: str, change: str) -> None:
        """Pause, resume or remove a schedule."""
        if change == "remove":
            self.both(lambda space: _schedules_of(space).remove(name, by="me"))
        elif change == "pause":
            self.both(lambda space: _schedules_of(space).pause(name, by="me"))
        else:
            self.both(lambda space: _schedules_of(space).resume(name, by="me"))

    @rule(target=WorkAgreement.tuples, seconds=st.sampled_from((0, 10, 31, 60, 130)))
    def emit_due(self, seconds: int = 0) -> Any:
        """Emit what is due some seconds later: each time once, and no lane becomes more than full."""
        self.clock.advance(seconds=seconds)
        before = self.both(_waiting)
        done = self.both(lambda space: _schedules_of(space).emit_due())
        for lane, waiting in self.both(_waiting).items():
            assert waiting <= max(SETTINGS.queue_maxsize, before.get(lane, 0)), lane
        assert self.both(lambda space: _schedules_of(space).emit_due()).looked_at == 0
        return multiple(*(tuple_id for emission in done.emissions for tuple_id in emission.tuples))

    # The clock

    @rule(target=WorkAgreement.claims, name=st.none() | st.sampled_from(NAMES), seconds=st.integers(0, 20))
    def wrong_clock(self, name: str | None, seconds: int) -> Any:
        """Work under a clock that is far ahead, correct it, and go on."""
        now_us = self.clock.now()
        self.clock.restart()
        self.clock.set(now_us + WRONG_US)
        if name is not None:
            self.schedule(name, {"every": "PT10S"}, "build", "one", "queue", RUN)
        self.both(lambda space: space.out(draft("build"), draft("test"), authority=PERSON, run=RUN))
        claimed = self.both(lambda space: space.claim({}, worker="w", limit=3)) or []
        if len(claimed) > 1:
            fence = claimed[-1].id, claimed[-1].fence
            self.both(lambda space: space.release([fence], reason="later", delay_us=60 * SECOND_US))
        self.emit_due()
        self.clock.set(now_us + seconds * SECOND_US)
        for harness in (self.reference, self.candidate):
            store = harness.space.store
            store.set_time(ClockCorrected(was_us=store.clock_state().last_us))
        self.both(_schedules)
        return multiple(*claimed)

    # Tasks

    @rule(target=tasks, after=st.lists(WorkAgreement.tuples, max_size=2), priority=st.sampled_from((0, 5)))
    def add_task(self, after: list[str], priority: int) -> Any:
        """Add a task, perhaps one that waits for tuples."""
        terms = TaskTerms(title="do it", after=tuple(after), priority=priority)
        add = partial(add_task, terms=terms, authority=PERSON, settings=SETTINGS)
        answer = self.both(lambda space: space.store.commit(add))
        return multiple(answer.id) if answer else multiple()

    @rule(task=st.none() | tasks, actor=st.sampled_from(ACTORS))
    def claim_task(self, task: str | None, actor: str) -> None:
        """Claim a task, or the next one."""
        self._change_task(
            task,
            lambda space, view, record: claim_task(
                view, record, actor=actor, settings=SETTINGS, boot=space.boot, is_dead=_never, is_gone=_never
            ),
        )

    @rule(task=tasks, actor=st.sampled_from(ACTORS))
    def finish_task(self, task: str, actor: str) -> None:
        """End a task with evidence."""
        self._change_task(
            task,
            lambda space, view, record: finish_task(
                view,
                record,
                [SHOWS],
                actor=actor,
                note="done",
                settings=SETTINGS,
                boot=space.boot,
                is_dead=_never,
                is_gone=_never,
            ),
        )

    @rule(task=tasks, actor=st.sampled_from(ACTORS), change=st.sampled_from(("give", "release", "renew", "cancel")))
    def change_task(self, task: str, actor: str, change: str) -> None:
        """Give, release, renew or cancel a task."""
        if change == "cancel":
            self.cancel(task)
        elif change == "give":
            self._change_task(
                task, lambda space, view, record: (give_task(view, record, actor, actor="admin", note=""), None)
            )
        elif change == "release":
            self._change_task(task, lambda space, view, record: release_tasks(view, [record], actor=actor))
        else:
            renew = partial(renew_tasks, actor=actor, settings=SETTINGS, is_dead=_never)
            self.both(lambda space: space.store.commit(lambda view: (renew(view), None)))

    @rule(task=tasks, awaited=st.none() | tasks | WorkAgreement.tuples)
    def block_task(self, task: str, awaited: str | None) -> None:
        """Block a task."""
        self.block(task, awaited, None if awaited else "why")

    @rule(task=tasks)
    def unblock_task(self, task: str) -> None:
        """Unblock a task."""
        self.unblock(task, [])

    def _change_task(
        self,
        task: str | None,
        change: Callable[[TupleSpace, WorkView, Any], tuple[Sequence[Any], Any]],
    ) -> None:
        def decide(space: TupleSpace) -> Any:
            return space.store.commit(lambda view: change(space, view, None if task is None else view.find(task)))

        self.both(decide)
        self.both(_tasks)

    # Batches

    @rule(
        target=batches,
        shape=st.sampled_from(SHAPES),
        lane=st.sampled_from(LANES),
        threshold=st.sampled_from((1, 1, 5)),
        parent=st.none() | WorkAgreement.tuples,
        terms=st.sampled_from(({}, {"concurrency_key": "a"}, {"budget_usd": 0.01}, {"max_retries": 0})),
    )
    def spawn(
        self, shape: tuple[int, int], lane: str, threshold: int, parent: str | None, terms: dict[str, Any]
    ) -> Any:
        """Spawn a batch, folded or not."""
        template = draft(lane, agent_terms=terms, **({} if parent is None else {"parent_id": parent}))
        depth, branching = shape
        answer = self.both(
            lambda space: BatchSpace(space).spawn(
                template, depth=depth, branching=branching, threshold=threshold, authority=PERSON, run=RUN
            )
        )
        return multiple(answer.id) if answer else multiple()

    @rule(
        target=WorkAgreement.claims,
        batch=batches,
        path=paths,
        change=st.sampled_from(("prune", "compress", "cancel")),
        first=st.integers(0, 2),
    )
    def change_batch(self, batch: str, path: str, change: str, first: int) -> Any:
        """Claim some agents of a batch, so that leaves of it are unfolded, and fold or cancel what is below a node."""
        claimed = self.both(lambda space: space.claim({"map_pos.batch": batch}, worker="w", limit=first)) or []
        if change == "prune":
            self.both(lambda space: BatchSpace(space).prune(batch))
        elif change == "compress":
            self.both(lambda space: BatchSpace(space).compress(batch, path))
        else:
            self.both(lambda space: BatchSpace(space).cancel(batch, path))
        self.both(lambda space: BatchSpace(space).levels(batch))
        return multiple(*claimed)

    @rule(target=WorkAgreement.tuples, batch=batches)
    def name_agents(self, batch: str) -> Any:
        """Let other rules work on the tuples of a batch."""
        agents = self.both(lambda space: _agents(space, batch))
        return multiple(*agents[:3])

    @rule(claim=consumes(WorkAgreement.claims))
    def complete_alone(self, claim: Any) -> None:
        """Complete a tuple and claim nothing."""
        completed = completion(self.reference, claim)
        self.both(lambda space: space.complete([completed]))


def _never(name: str) -> bool:
    return False


def _schedules_of(space: TupleSpace) -> Schedules:
    return Schedules(space, lambda run: run == ENDED_RUN)


def _schedules(space: TupleSpace) -> Any:
    schedules = _schedules_of(space)
    return schedules.find_all(), schedules.next_look_us()


def _waiting(space: TupleSpace) -> dict[str, int]:
    with space.store.read() as view:
        return {lane: view.waiting_count(lane) for lane in LANES}


def _tasks(space: TupleSpace) -> Any:
    with space.store.read() as view:
        return live_tasks(view, _never), [totals for totals in view.run_totals() if totals.run == TASK_RUN]


def _agents(space: TupleSpace, batch_id: str) -> list[str]:
    with space.store.read() as view:
        batch = view.batch(batch_id)
        if batch is None:
            return []
        return [
            agent.id
            for level in range(batch.shape.depth, 0, -1)
            for agent in view.agents_at(batch_id, level, 0, batch.shape.agents_at(level))
        ]
