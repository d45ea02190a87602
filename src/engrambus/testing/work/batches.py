"""Batches: spawning, unfolding, counts, folding back, cancelling, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.errors import (
    BatchNotFound,
    BatchPath,
    BatchRunning,
    BatchShapeInvalid,
    BatchTemplate,
    BatchThreshold,
    BatchTooLarge,
    IdempotencyConflict,
    LaneFull,
    TupleEnded,
    TupleNotFound,
)
from engrambus.space.tuples import BatchSpace, Price, level_statuses, pause, read_match, set_limit, unpause
from engrambus.testing.work.harness import (
    PERSON,
    RUN,
    WorkHarness,
    completion,
    draft,
    expect_error,
    failure,
    put,
    take,
)

TEMPLATE: dict[str, Any] = draft("build", 0)
ENDED_STATES = ("done", "dead", "cancelled", "taken")


def spawn(
    harness: WorkHarness, depth: int = 2, branching: int = 3, *, threshold: int = 1, run: str = RUN, **fields: Any
) -> str:
    """Spawn a batch, folded unless a threshold is given, and return its id."""
    batches = BatchSpace(harness.space)
    return batches.spawn(
        TEMPLATE | fields, depth=depth, branching=branching, threshold=threshold, authority=PERSON, run=run
    ).id


def figures(harness: WorkHarness, batch_id: str) -> list[dict[str, Any]]:
    """Return the counts of every level, folded agents counted as waiting or open, as in a batch that is not folded."""
    with harness.space.store.read() as view:
        batch = view.batch(batch_id)
        assert batch is not None
        rows = level_statuses(view, batch)
    levels: list[dict[str, Any]] = []
    for row in rows:
        states = dict(row.counts.states)
        assert row.folded + sum(states.values()) == row.agents
        name = "waiting" if row.level == batch.shape.depth else "open"
        states[name] = states.get(name, 0) + row.folded
        counts = {state: count for state, count in sorted(states.items()) if count}
        spent = (row.counts.micros, row.counts.tokens)
        levels.append({"states": counts, "spent": spent, "receipts": row.counts.receipts})
    return levels


def folded(harness: WorkHarness, batch_id: str) -> list[int]:
    """Return the number of folded agents of every level."""
    return [row.folded for row in BatchSpace(harness.space).levels(batch_id)]


def waiting_ids(harness: WorkHarness, lane: str = "build") -> dict[str, str]:
    """Return the ids of the waiting leaves of a lane by path."""
    records = harness.space.rd_all({"lane": lane, "state": "waiting"}, limit=10_000)
    return {record.tuple.map_pos["agent"]: record.id for record in records}


class BatchConformance:
    """Batches are one compressed node until workers reach their leaves."""  # YT-16

    def test_a_spawned_batch_is_one_tuple_and_its_counts(self, harness: WorkHarness) -> None:
        """A billion leaves are no more than one."""
        batch = spawn(harness, 3, 1000)
        assert folded(harness, batch) == [0, 1000, 1_000_000, 1_000_000_000]
        assert harness.space.get(batch).state == "open"
        with harness.space.store.read() as view:
            assert view.waiting_count("build") == 0
            (totals,) = view.run_totals()
        assert totals.states == {"open": 1}
        assert len(harness.journal_bytes()) < 5_000

    def test_a_claim_unfolds_the_first_leaves_and_the_nodes_above_them(self, harness: WorkHarness) -> None:
        """Each leaf knows its path, its parent and its batch."""
        batch = spawn(harness, 2, 100, payload=[{"yool": "agent.lint.ruff", "args": {"n": "${agent.number}"}}])
        claims = take(harness, limit=2)
        assert [claim.tuple.map_pos for claim in claims] == [
            {"agent": "0.0.0", "batch": batch},
            {"agent": "0.0.1", "batch": batch},
        ]
        assert [claim.tuple.payload[0].args for claim in claims] == [{"n": 0}, {"n": 1}]
        node = harness.space.get(claims[0].tuple.parent_id or "")
        assert (node.state, node.parent_id, node.tuple.map_pos["agent"]) == ("open", batch, "0.0")
        assert folded(harness, batch) == [0, 99, 9_968]

    def test_paths_fill_the_arguments_of_steps(self, harness: WorkHarness) -> None:
        """As texts within texts, and the number alone as a number."""
        args = {"a": "part ${agent.path} of it", "b": ["${agent.number}", "n${agent.number}"], "c": "${other}"}
        spawn(harness, 1, 5, payload=[{"yool": "agent.lint.ruff", "args": args}])
        claims = take(harness, limit=3)
        assert claims[2].tuple.payload[0].args == {"a": "part 0.2 of it", "b": [2, "n2"], "c": "${other}"}

    def test_a_batch_below_its_threshold_is_put_as_tuples(self, harness: WorkHarness) -> None:
        """Nothing of it is folded, and its ids are those that unfolding gives."""
        batch = spawn(harness, threshold=10)
        assert folded(harness, batch) == [0, 0, 0]
        assert figures(harness, batch)[2]["states"] == {"waiting": 9}
        spawn(harness, threshold=9, lane="other")
        assert waiting_ids(harness, "other") == {}

    def test_what_no_worker_may_start_is_not_unfolded(self, harness: WorkHarness) -> None:
        """A paused lane, and a key at its limit; claims of an earlier boot no longer count."""
        batch = spawn(harness, 2, 50, agent_terms={"concurrency_key": "customer-1"})
        before = folded(harness, batch)
        match = read_match(lane="build")
        harness.space.store.commit(lambda view: (pause(view, match, why="", by="me")[0], None))
        journal = harness.journal_bytes()
        assert take(harness, limit=5) == []
        assert (folded(harness, batch), harness.journal_bytes()) == (before, journal)
        harness.space.store.commit(lambda view: (unpause(view, match, by="me")[0], None))
        key = read_match(key="customer-*")
        harness.space.store.commit(lambda view: (set_limit(view, key, running=2, rate=None, by="me")[0], None))
        assert len(take(harness, limit=5)) == 2
        BatchSpace(harness.space).prune(batch)
        before, journal = folded(harness, batch), harness.journal_bytes()
        assert take(harness, limit=5, worker="w2") == []
        assert (folded(harness, batch), harness.journal_bytes()) == (before, journal)
        harness.reboot("another")
        assert len(take(harness, limit=5)) == 2

    def test_every_leaf_is_claimed_once_and_the_batch_ends_with_the_last(self, harness: WorkHarness) -> None:
        """Each node above ends with a receipt that names those of its children."""
        batch = spawn(harness, 2, 3)
        paths = []
        while claims := take(harness, limit=2):
            paths += [claim.tuple.map_pos["agent"] for claim in claims]
            harness.space.complete([completion(harness, claim, usd=0.01, tokens_in=5) for claim in claims])
        assert sorted(paths) == [f"0.{a}.{b}" for a in range(3) for b in range(3)]
        record = harness.space.get(batch)
        assert (record.state, record.spent_micros, record.spent_tokens) == ("done", 90_000, 45)
        assert figures(harness, batch) == [
            {"states": {"done": 1}, "spent": (0, 0), "receipts": 1},
            {"states": {"done": 3}, "spent": (0, 0), "receipts": 3},
            {"states": {"done": 9}, "spent": (90_000, 45), "receipts": 18},
        ]
        with harness.space.store.read() as view:
            (final,) = view.receipt_ids(batch)
            receipt = view.receipt(final)
            assert receipt is not None
            nodes = [view.receipt(child) for child in receipt.receipts]
        assert (receipt.exit, receipt.cost.usd_micros, receipt.cost.tokens, receipt.error) == (0, 90_000, 45, None)
        assert [node and (len(node.receipts), node.cost.usd_micros) for node in nodes] == [(3, 30_000)] * 3

    def test_completing_and_claiming_in_one_commit_unfolds_as_well(self, harness: WorkHarness) -> None:
        """As busy workers do."""
        batch = spawn(harness, 1, 100)
        claims, done = take(harness, limit=40), 0
        while claims:
            finished = [completion(harness, claim) for claim in claims]
            done += len(finished)
            _, claims = harness.space.complete(finished, claim_more=({"lane": "build"}, "w1", 40))
        assert done == 100
        assert harness.space.get(batch).state == "done"

    def test_leaves_that_failed_are_counted_in_the_receipts_above(self, harness: WorkHarness) -> None:
        """The batch ends all the same, and its receipt says that it did not succeed."""
        batch = spawn(harness, 1, 3, agent_terms={"max_retries": 0})
        first, second, third = take(harness, limit=3)
        harness.space.complete([failure(harness, first), completion(harness, second)])
        harness.space.cancel(third.id)
        assert harness.space.get(batch).state == "done"
        with harness.space.store.read() as view:
            receipt = view.receipt(view.receipt_ids(batch)[-1])
        assert receipt is not None
        assert (receipt.exit, receipt.error) == (1, "of 3 leaves 1 given up, 1 cancelled or taken")

    def test_all_agents_spend_the_budget_of_the_root(self, harness: WorkHarness) -> None:
        """Leaves keep the other terms."""
        batch = spawn(harness, 3, 10, agent_terms={"budget_usd": 0.5, "budget_tokens": 100, "max_retries": 7})
        (claim,) = take(harness)
        assert claim.tuple.agent_terms == {"max_retries": 7}
        harness.space.start_step(claim, 0, Price(micros=400_000, tokens=60))
        record = harness.space.get(batch)
        assert (record.budget_micros, record.reserved_micros, record.reserved_tokens) == (500_000, 400_000, 60)
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=100, tokens=3))
        assert harness.space.get(batch).spent_micros == 100
        assert figures(harness, batch)[3]["spent"] == (100, 3)

    def test_a_batch_may_be_part_of_a_tuple(self, harness: WorkHarness) -> None:
        """Then that tuple's budget is spent as well."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 1}))
        spawn(harness, 2, 3, parent_id=top)
        (claim,) = take(harness)
        harness.space.complete([completion(harness, claim, usd=0.2)])
        assert harness.space.get(top).spent_micros == 200_000

    def test_folding_and_unfolding_gives_the_same_tuples(self, harness: WorkHarness) -> None:
        """What has begun stays as it is."""
        batch = spawn(harness, 2, 10)
        (claim,) = take(harness)
        waiting, counts = waiting_ids(harness), figures(harness, batch)
        assert len(waiting) == 31
        batches = BatchSpace(harness.space)
        assert batches.prune(batch) == 31 + 3
        assert waiting_ids(harness) == {}
        assert figures(harness, batch) == counts
        assert folded(harness, batch) == [0, 9, 99]
        assert batches.prune(batch) == 0
        refolded = take(harness, limit=32)  # nodes take turns, so 31 of as many leaves would not be the first ones
        assert waiting.items() <= {item.tuple.map_pos["agent"]: item.id for item in refolded}.items()
        assert claim.id not in waiting.values()

    def test_a_node_with_a_running_agent_is_not_folded(self, harness: WorkHarness) -> None:
        """The refusal names it; nodes beside it can be folded."""
        batch = spawn(harness, 2, 10)
        (claim,) = take(harness)
        batches = BatchSpace(harness.space)
        for path in ("0", "0.0", "0.0.0"):
            refusal = expect_error(BatchRunning, batches.compress, batch, path)
            assert claim.id[7:19] in refusal.detail
        assert batches.compress(batch, "0.1") == 11
        assert batches.compress(batch, "0.0.5") == 1
        assert batches.compress(batch, "0.7") == 0
        assert folded(harness, batch) == [0, 7, 79]
        assert sorted(waiting_ids(harness)) == sorted(
            [f"0.0.{n}" for n in (1, 2, 3, 4, 6, 7, 8, 9)] + [f"0.2.{n}" for n in range(10)] + ["0.3.0", "0.3.1"]
        )

    def test_a_leaf_that_was_claimed_before_is_not_folded(self, harness: WorkHarness) -> None:
        """Its attempts and costs would be lost."""
        batch = spawn(harness, 1, 5)
        (claim,) = take(harness)
        harness.space.release([(claim.id, claim.fence)])
        BatchSpace(harness.space).prune(batch)
        assert waiting_ids(harness) == {"0.0": claim.id}

    def test_an_agent_with_a_child_from_outside_is_not_folded(self, harness: WorkHarness) -> None:
        """The child goes on spending the batch's budget."""
        batch = spawn(harness, 2, 4, agent_terms={"budget_usd": 1})
        (claim,) = take(harness)
        leaves = waiting_ids(harness)
        node = harness.space.get(leaves["0.2.0"]).parent_id
        put(harness, draft("side", parent_id=leaves["0.1.1"]), draft("side", 1, parent_id=node))
        BatchSpace(harness.space).prune(batch)
        assert sorted(waiting_ids(harness)) == ["0.1.1", "0.2.0", "0.2.1", "0.2.2", "0.2.3"]
        harness.space.complete([completion(harness, side, usd=0.1) for side in take(harness, "side", limit=2)])
        assert harness.space.get(batch).spent_micros == 200_000
        harness.space.complete([completion(harness, claim)])

    def test_a_leaf_that_a_tuple_waits_for_is_not_folded(self, harness: WorkHarness) -> None:
        """The tuple goes on when the leaf, or the whole batch, is done."""  # YT-16
        batch = spawn(harness, 1, 40)
        take(harness)
        leaves = waiting_ids(harness)
        for number, awaited in enumerate((leaves["0.3"], batch)):
            (waiting,) = put(harness, draft("side", number))
            harness.space.block(waiting, on=[awaited], by="me")
        BatchSpace(harness.space).prune(batch)
        assert waiting_ids(harness) == {"0.3": leaves["0.3"]}
        (claim,) = take(harness)
        harness.space.complete([completion(harness, claim)])
        assert len(take(harness, "side", limit=5)) == 1
        harness.clock.advance(seconds=40)
        harness.space.complete([completion(harness, claim) for claim in take(harness, limit=40)])
        assert harness.space.get(batch).state == "done"
        harness.space.complete([completion(harness, claim) for claim in take(harness, "side", limit=5)])
        assert harness.space.rd_all({"lane": "side", "state": "blocked"}) == []

    def test_cancelling_a_batch_counts_its_folded_agents(self, harness: WorkHarness) -> None:
        """A claim on one of its leaves becomes stale, and no further leaf is put."""
        batch = spawn(harness, 3, 10)
        claims = take(harness, limit=2)
        harness.space.complete([completion(harness, claims[0])])
        receipt = harness.space.cancel(batch)
        assert (receipt.tuple_id, receipt.exit) == (batch, 130)
        assert [level["states"] for level in figures(harness, batch)] == [
            {"cancelled": 1},
            {"cancelled": 10},
            {"cancelled": 100},
            {"cancelled": 999, "done": 1},
        ]
        assert harness.space.complete([completion(harness, claims[1])])[0] == ["STALE_FENCE"]
        assert take(harness) == []
        with harness.space.store.read() as view:
            assert (view.waiting_count("build"), len(view.folded_batches("build"))) == (0, 0)
        expect_error(TupleEnded, harness.space.cancel, batch)

    def test_a_folded_node_is_cancelled_without_its_leaves_being_put(self, harness: WorkHarness) -> None:
        """Its agents are counted, and the others go on."""
        batch, batches = spawn(harness, 3, 4), BatchSpace(harness.space)
        batches.cancel(batch, "0.3")
        batches.cancel(batch, "0.2.1")
        batches.cancel(batch, "0.1.0.2")
        assert [level["states"] for level in figures(harness, batch)] == [
            {"open": 1},
            {"cancelled": 1, "open": 3},
            {"cancelled": 5, "open": 11},
            {"cancelled": 21, "waiting": 43},
        ]
        for path in ("0.3", "0.3.0", "0.3.0.0", "0.1.0.2"):
            expect_error(TupleEnded, batches.cancel, batch, path)
        done = 0
        while claims := take(harness, limit=8):
            done += len(claims)
            harness.space.complete([completion(harness, claim) for claim in claims])
        assert (done, harness.space.get(batch).state) == (43, "done")
        assert figures(harness, batch)[1]["states"] == {"cancelled": 1, "done": 3}

    def test_a_batch_ends_with_its_last_nodes_cancelled(self, harness: WorkHarness) -> None:
        """Even if none of its leaves was ever a tuple."""
        batch, batches = spawn(harness, 2, 2), BatchSpace(harness.space)
        batches.cancel(batch, "0.0")
        batches.cancel(batch, "0.1.0")
        assert harness.space.get(batch).state == "open"
        batches.cancel(batch, "0.1.1")
        with harness.space.store.read() as view:
            receipt = view.receipt(view.receipt_ids(batch)[-1])
        assert receipt is not None
        assert (receipt.exit, receipt.error) == (130, "of 4 leaves 4 cancelled or taken")

    def test_folded_leaves_do_not_fill_a_lane_and_tuples_do(self, harness: WorkHarness) -> None:
        """No more leaves are unfolded than the lane has room for."""
        harness.space.settings = msgspec.structs.replace(harness.space.settings, queue_maxsize=5)
        batch = spawn(harness, 1, 1000)
        put(harness, draft("build", 1))
        assert len(take(harness, limit=3)) == 3
        with harness.space.store.read() as view:
            assert view.waiting_count("build") == 2
        assert folded(harness, batch) == [0, 996]
        expect_error(LaneFull, spawn, harness, 1, 10, threshold=11)

    def test_claims_take_the_highest_rank_first_folded_or_not(self, harness: WorkHarness) -> None:
        """A folded batch of a higher rank goes before tuples that wait."""
        put(harness, draft("build", 1))
        spawn(harness, 1, 2, priority=5)
        spawn(harness, 1, 2, priority=-5, map_pos={"late": True})
        order = [claim.tuple.map_pos.get("agent") for claim in take(harness, limit=5)]
        assert order == ["0.0", "0.1", None, "0.0", "0.1"]

    def test_a_worker_unfolds_only_what_it_can_run_and_is_meant_for(self, harness: WorkHarness) -> None:
        """By yool, by run and by other conditions."""
        batch = spawn(harness, 1, 3, map_pos={"stack": "python"})
        claim = harness.space.claim
        assert claim({"lane": "build"}, worker="w", can_run=lambda name: name != "agent.lint.ruff") == []
        assert claim({"lane": "build", "run": "01KDVP9R00STGMERGYRUN00001"}, worker="w") == []
        assert claim({"lane": "build", "map_pos.stack": "rust"}, worker="w") == []
        assert folded(harness, batch) == [0, 3]
        assert len(claim({"map_pos.stack": "python", "run": RUN}, worker="w", limit=9)) == 3

    def test_a_leaf_can_be_taken(self, harness: WorkHarness) -> None:
        """It then has no receipt, and counts as ended."""
        batch = spawn(harness, 1, 2)
        assert harness.space.in_({"lane": "build"}, by="me") is not None
        assert figures(harness, batch)[1]["states"] == {"taken": 1, "waiting": 1}
        assert harness.space.in_({"lane": "build"}, by="me") is not None
        assert harness.space.get(batch).state == "done"

    def test_a_lost_worker_loses_nothing_of_a_batch(self, harness: WorkHarness) -> None:
        """Its leaves are claimed again, each once."""
        batch = spawn(harness, 2, 3)
        lost = [claim.id for claim in take(harness, limit=4)]
        harness.clock.advance(seconds=40)
        claims = take(harness, limit=9, worker="w2")
        assert set(lost) < {claim.id for claim in claims}
        assert len({claim.id for claim in claims}) == 9
        harness.space.complete([completion(harness, claim) for claim in claims])
        assert harness.space.get(batch).state == "done"

    def test_a_batch_is_the_same_after_reopening_and_from_the_journal_alone(self, harness: WorkHarness) -> None:
        """Counts, folded ranges and ids."""
        batch, batches = spawn(harness, 3, 4), BatchSpace(harness.space)
        claims = take(harness, limit=3)
        harness.space.complete([completion(harness, claims[0], usd=0.5)])
        batches.cancel(batch, "0.2")
        batches.prune(batch)
        earlier = figures(harness, batch), folded(harness, batch), waiting_ids(harness)
        harness.reopen()
        assert (figures(harness, batch), folded(harness, batch), waiting_ids(harness)) == earlier
        harness.delete_index()
        harness.reopen()
        assert (figures(harness, batch), folded(harness, batch), waiting_ids(harness)) == earlier
        assert harness.space.store.verify() == []
        assert [claim.tuple.map_pos["agent"] for claim in take(harness)] == ["0.0.3.0"]  # nodes take turns

    def test_a_repeated_request_spawns_nothing_new(self, harness: WorkHarness) -> None:
        """Another request under the same key is refused."""
        batches = BatchSpace(harness.space)

        def request(branching: int, digest: str) -> tuple[str, bool]:
            answer = batches.spawn(
                TEMPLATE, depth=1, branching=branching, authority=PERSON, run=RUN, idempotency=("me key", digest)
            )
            return answer.id, answer.new

        first, is_new = request(2, "one")
        assert is_new
        assert request(2, "one") == (first, False)
        expect_error(IdempotencyConflict, request, 3, "two")
        with harness.space.store.read() as view:
            assert [batch.id for batch in view.list_batches(None, limit=10)] == [first]

    def test_batches_are_listed_newest_first(self, harness: WorkHarness) -> None:
        """By run, and page by page."""
        other_run = "01KDVP9R00STGMERGYRUN00001"
        ids = [spawn(harness, 1, 2, run=run) for run in (RUN, other_run, RUN)]
        with harness.space.store.read() as view:
            assert [batch.id for batch in view.list_batches(None, limit=9)] == ids[::-1]
            (newest,) = view.list_batches(RUN, limit=1)
            assert [batch.id for batch in view.list_batches(RUN, limit=9, before=newest.ordinal)] == [ids[0]]

    def test_bad_batches_are_refused_and_nothing_is_stored(self, harness: WorkHarness) -> None:
        """Each refusal names its field."""
        journal = harness.journal_bytes()
        (error, call) = (expect_error, spawn)
        assert error(BatchShapeInvalid, call, harness, 0, 3).field == "depth"
        assert error(BatchShapeInvalid, call, harness, 64, 1).limit == 63
        assert error(BatchShapeInvalid, call, harness, 2, 0).field == "branching"
        assert error(BatchTooLarge, call, harness, 31, 2).limit == 1_000_000_000
        error(BatchTooLarge, call, harness, 63, 10**300)
        assert error(BatchThreshold, call, harness, 1, 1, threshold=0).field == "compression_threshold"
        error(BatchThreshold, call, harness, 1, 1, threshold=-1)
        assert error(BatchTemplate, call, harness, payload=[]).field == "payload"
        assert error(BatchTemplate, call, harness, id="sha256:" + "0" * 64).field == "id"
        assert error(BatchTemplate, call, harness, map_pos={"agent": "0"}).field == "map_pos.agent"
        unknown = [{"yool": "agent.lint.ruff", "args": {"paths": ["src/${agent.nope}/a.py"]}}]
        assert error(BatchTemplate, call, harness, payload=unknown).used == "${agent.nope}"
        error(TupleNotFound, call, harness, parent_id="sha256:" + "0" * 64)
        assert harness.journal_bytes() == journal

    def test_the_levels_of_a_batch_count_as_generations(self, harness: WorkHarness) -> None:
        """The chain of parents stays within its limit."""
        (top,) = put(harness, draft("top"))
        assert expect_error(BatchShapeInvalid, spawn, harness, 63, 1, parent_id=top).limit == 62
        batch = spawn(harness, 62, 1, parent_id=top)
        (claim,) = take(harness)
        harness.space.complete([completion(harness, claim, usd=0.25)])
        assert harness.space.get(top).spent_micros == 250_000
        assert harness.space.get(batch).state == "done"

    def test_unknown_batches_and_paths_are_refused(self, harness: WorkHarness) -> None:
        """A path has as many numbers as the tree has levels, at most."""
        batch, batches = spawn(harness, 2, 3), BatchSpace(harness.space)
        for path in ("", "1", "0.3", "0.0.1.0", "0.x", "0.-1", "0..1", "0.٣"):
            expect_error(BatchPath, batches.compress, batch, path)
        (single,) = put(harness, draft())
        expect_error(BatchNotFound, batches.prune, single)

    def test_a_leaf_whose_id_is_taken_is_created_a_moment_later(self, harness: WorkHarness) -> None:
        """A tuple that someone has put with the same content stays a tuple of its own."""
        batch, batches = spawn(harness, 1, 40), BatchSpace(harness.space)
        (claim,) = take(harness)
        batches.prune(batch)
        first = claim.tuple
        forged = msgspec.to_builtins(first) | {"map_pos": {"agent": "0.1", "batch": batch}}
        forged.pop("flags", None)
        (same_content,) = put(harness, forged | {"id": _id_of(forged)})
        claims = take(harness, limit=40)
        assert len(claims) == 40
        paths = [item.tuple.map_pos["agent"] for item in claims if item.id != same_content]
        assert sorted(paths) == sorted(f"0.{n}" for n in range(1, 40))
        harness.space.complete([completion(harness, item) for item in (claim, *claims)])
        assert harness.space.get(batch).state == "done"
        assert figures(harness, batch)[1]["states"] == {"done": 40}


def _id_of(fields: dict[str, Any]) -> str:
    from engrambus.space.tuples import tuple_id

    return tuple_id(fields)
