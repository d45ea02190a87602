"""The journal is the truth: everything else is rebuilt from it."""

from __future__ import annotations

import threading

import msgspec

from engrambus.core.journal.format import is_valid_line, parse_header, parse_line
from engrambus.gateway import Credential
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.harness import PROJECT, Harness


class JournalConformance:
    """The journal is complete and everything else can be deleted."""  # BX-03

    # decision 1: a commit is complete or never happened
    def test_one_line_is_one_commit(self, harness: Harness) -> None:  # BX-03
        client = GatewayClient(harness)
        first, *lines = harness.journal_bytes().splitlines(keepends=True)
        assert parse_header(first).project == PROJECT
        assert len(lines) == 1
        client.put("Alpha")
        client.put_many(["Beta", "Gamma"])
        assert len(harness.journal_bytes().splitlines()) == 4
        counts = client.counts()
        assert counts["commits"] == 3
        assert counts["journal_bytes"] == len(harness.journal_bytes())

    # decision 1: no line can be removed, reordered or edited unnoticed
    def test_every_lines_checksum_covers_the_line_before(self, harness: Harness) -> None:  # BX-03
        client = GatewayClient(harness)
        for number in range(20):
            client.put(f"Matter {number}")
        header, *lines = harness.journal_bytes().splitlines(keepends=True)
        previous = parse_header(header).checksum
        for number, written in enumerate(lines, 1):
            assert is_valid_line(previous, written)
            line = parse_line(written)
            assert line.seq == number
            previous = line.checksum

    # decision 1: a change that raises leaves no trace
    def test_reading_and_refusals_write_nothing(self, harness: Harness) -> None:  # BX-03
        client = GatewayClient(harness)
        engram = client.put("Alpha")
        journal = harness.journal_bytes()
        client.query("alpha")
        client.call("get_engram", id=engram.id)
        client.call("list_agents")
        client.call("promote_engram", id=engram.id)  # it has that scope already
        assert harness.gateway.store.verify() == []
        for bad in ({"claim": ""}, {"claim": "x" * 501}, {"claim": "x", "ttl": "P1M"}, {"claim": "x", "confidence": 2}):
            assert client.try_call("put_engram", pointers=[], **bad)[0] != "ok"
        with expect_refusal("ENGRAM_NOT_FOUND"):
            client.call("forget_engram", id="01KDVP9R000000000000000000")
        assert harness.journal_bytes() == journal

    def test_answers_are_the_same_after_a_restart_and_without_an_index(self, harness: Harness) -> None:  # BX-03
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        paul = client.add_agent("paul", "programmer", mia)
        client.call("apply_policy", policy={"engrams_per_minute": 1000})
        ids = client.put_many([f"The common matter {number}" for number in range(70)], paul, scope="run")
        client.put_many([f"The gateway number {number}" for number in range(70)], mia, ttl="PT1H")
        for number in (3, 30, 64, 69):
            client.call("promote_engram", mia, id=ids[number])
        for number in (4, 31, 65):
            client.call("forget_engram", id=ids[number])
        client.open_run("another")
        client.put("The common matter of another run", Credential(local_admin=True, idempotency_key="k"), scope="run")
        client.call("apply_policy", policy={"token_ttl": "P7D"})
        harness.clock.advance(seconds=1800)
        expected = self._answers(client, mia)
        harness.reopen()
        assert self._answers(client, mia) == expected
        harness.delete_index()
        assert self._answers(client, mia) == expected
        harness.gateway.store.rebuild()
        assert self._answers(client, mia) == expected
        harness.delete_index()
        harness.reopen()
        assert self._answers(client, mia) == expected
        harness.clock.advance(seconds=1800)
        passed = self._answers(client, mia)
        assert passed != expected
        harness.delete_index()
        assert self._answers(client, mia) == passed
        assert harness.gateway.store.verify() == []

    def test_the_order_of_keys_in_a_policy_does_not_matter(self, harness: Harness) -> None:  # BX-03
        client = GatewayClient(harness)
        client.call("apply_policy", policy={"token_ttl": "P7D", "deref": {"tokens": 500, "repo": 2, "artifact": 1}})
        assert harness.gateway.store.verify() == []

    # decision 1: the index may be deleted at any moment
    def test_writing_continues_when_the_index_is_deleted(self, harness: Harness) -> None:  # BX-03
        client = GatewayClient(harness)
        claims = []
        for number in range(70):
            if number % 10 == 3:
                harness.delete_index()
            client.put(f"Matter {number}")
            claims.append(f"Matter {number}")
        assert client.query_claims(k=100) == claims[::-1]
        assert client.query_claims("matter", k=100) == client.query_claims(keys=["matter"], k=100)
        assert harness.gateway.store.verify() == []

    def test_concurrent_writers_each_get_their_own_answer(self, harness: Harness) -> None:  # BX-03
        client = GatewayClient(harness)
        answers: dict[int, list[str]] = {}

        def work(number: int) -> None:
            answers[number] = []
            for step in range(12):
                engram = client.put(f"Matter {number} step {step}")
                assert engram.claim == f"Matter {number} step {step}"
                answers[number].append(engram.id)
                assert client.call("get_engram", id=engram.id) == engram
                with expect_refusal("ENGRAM_NOT_FOUND"):
                    client.call("forget_engram", id="01KDVP9R000000000000000000")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ids = [engram_id for thread_ids in answers.values() for engram_id in thread_ids]
        assert len(set(ids)) == 8 * 12
        assert client.counts()["engrams"] == 8 * 12
        assert harness.gateway.store.verify() == []

    def _answers(self, client: GatewayClient, caller: Credential) -> list[bytes]:
        questions = [
            client.query("common matter", caller, k=100),
            client.query("common matter", caller, k=100, scope="project"),
            client.query("gateway 13", caller),
            client.query("gateway", caller, k=50, kind="fact"),
            client.query("", caller, k=100),
            client.query("", k=7),
            client.query("another run"),
            client.call("list_agents", caller),
            client.call("stats"),
        ]
        return [msgspec.json.encode(answer) for answer in questions]
