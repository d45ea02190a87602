"""The journal is the truth: everything else is rebuilt from it."""

from __future__ import annotations

import threading

import msgspec

from engrambus.core.journal.format import is_valid_line, parse_header, parse_line
from engrambus.gateway import Credential
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.harness import PROJECT, Harness


class JournalConformance:
    """BX-03."""

    def test_one_line_is_one_commit(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        first, *lines = harness.journal_bytes().splitlines(keepends=True)
        assert parse_header(first).project == PROJECT
        assert len(lines) == 1
        hand.put("Alpha")
        hand.put_many(["Beta", "Gamma"])
        assert len(harness.journal_bytes().splitlines()) == 4
        counts = hand.counts()
        assert counts["commits"] == 3
        assert counts["journal_bytes"] == len(harness.journal_bytes())

    def test_every_line_vouches_for_the_one_before(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        for number in range(20):
            hand.put(f"Matter {number}")
        header, *lines = harness.journal_bytes().splitlines(keepends=True)
        previous = parse_header(header).checksum
        for number, written in enumerate(lines, 1):
            assert is_valid_line(previous, written)
            line = parse_line(written)
            assert line.seq == number
            previous = line.checksum

    def test_reading_and_refusals_write_nothing(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        engram = hand.put("Alpha")
        before = harness.journal_bytes()
        hand.query("alpha")
        hand.call("get_engram", id=engram.id)
        hand.call("list_agents")
        hand.call("promote_engram", id=engram.id)  # it has that scope already
        assert harness.gateway.store.verify() == []
        for bad in ({"claim": ""}, {"claim": "x" * 501}, {"claim": "x", "ttl": "P1M"}, {"claim": "x", "confidence": 2}):
            assert hand.try_call("put_engram", pointers=[], **bad)[0] != "ok"
        with expect_refusal("ENGRAM_NOT_FOUND"):
            hand.call("forget_engram", id="01KDVP9R000000000000000000")
        assert harness.journal_bytes() == before

    def test_the_same_answers_after_a_restart_and_without_an_index(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        mia = hand.add_agent("mia", "manager")
        paul = hand.add_agent("paul", "programmer", mia)
        hand.call("apply_policy", policy={"engrams_per_minute": 1000})
        ids = hand.put_many([f"The common matter {number}" for number in range(70)], paul, scope="run")
        hand.put_many([f"The gateway number {number}" for number in range(70)], mia, ttl="PT1H")
        for number in (3, 30, 64, 69):
            hand.call("promote_engram", mia, id=ids[number])
        for number in (4, 31, 65):
            hand.call("forget_engram", id=ids[number])
        hand.open_run("another")
        hand.put("The common matter of another run", Credential(local_admin=True, idempotency_key="k"), scope="run")
        hand.call("apply_policy", policy={"token_ttl": "P7D"})
        harness.clock.advance(seconds=1800)
        before = self._answers(hand, mia)
        harness.reopen()
        assert self._answers(hand, mia) == before
        harness.delete_index()
        assert self._answers(hand, mia) == before
        harness.gateway.store.rebuild()
        assert self._answers(hand, mia) == before
        harness.delete_index()
        harness.reopen()
        assert self._answers(hand, mia) == before
        harness.clock.advance(seconds=1800)
        passed = self._answers(hand, mia)
        assert passed != before
        harness.delete_index()
        assert self._answers(hand, mia) == passed
        assert harness.gateway.store.verify() == []

    def test_a_policy_is_the_same_however_its_file_orders_it(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.call("apply_policy", policy={"token_ttl": "P7D", "deref": {"tokens": 500, "repo": 2, "artifact": 1}})
        assert harness.gateway.store.verify() == []

    def test_writing_goes_on_when_the_index_is_taken_away(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        claims = []
        for number in range(70):
            if number % 10 == 3:
                harness.delete_index()
            hand.put(f"Matter {number}")
            claims.append(f"Matter {number}")
        assert hand.query_claims(k=100) == claims[::-1]
        assert hand.query_claims("matter", k=100) == hand.query_claims(keys=["matter"], k=100)
        assert harness.gateway.store.verify() == []

    def test_many_threads_write_and_each_gets_its_own_answer(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        answers: dict[int, list[str]] = {}

        def work(number: int) -> None:
            answers[number] = []
            for step in range(12):
                engram = hand.put(f"Matter {number} step {step}")
                assert engram.claim == f"Matter {number} step {step}"
                answers[number].append(engram.id)
                assert hand.call("get_engram", id=engram.id) == engram
                with expect_refusal("ENGRAM_NOT_FOUND"):
                    hand.call("forget_engram", id="01KDVP9R000000000000000000")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ids = [engram_id for each in answers.values() for engram_id in each]
        assert len(set(ids)) == 8 * 12
        assert hand.counts()["engrams"] == 8 * 12
        assert harness.gateway.store.verify() == []

    def _answers(self, hand: GatewayClient, who: Credential) -> list[bytes]:
        asked = [
            hand.query("common matter", who, k=100),
            hand.query("common matter", who, k=100, scope="project"),
            hand.query("gateway 13", who),
            hand.query("gateway", who, k=50, kind="fact"),
            hand.query("", who, k=100),
            hand.query("", k=7),
            hand.query("another run"),
            hand.call("list_agents", who),
            hand.call("stats"),
        ]
        return [msgspec.json.encode(answer) for answer in asked]
