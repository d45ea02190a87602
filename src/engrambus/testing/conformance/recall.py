"""Recall of engrams by keys, by words and by age, always in the same order."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.core import estimate_tokens
from engrambus.knowledge.engrams import MAX_K
from engrambus.testing.client import GatewayClient, expect_refusal, ref_to_test, without_keys
from engrambus.testing.harness import Harness

LOW_ID = "00000000000000000000000001"
HIGH_ID = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"


class RecallConformance:
    """Ranking, paging, visibility and budgets of queries."""  # EB-13

    def test_an_engram_is_found_by_each_of_its_words(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        engram = client.put("The gateway retries three times", tags=["service:gateway"])
        for question in ("gateway", "RETRIES", "how often are retries made", "gateway retries"):
            assert client.query(question).engrams == [without_keys(engram)], question
        assert client.query(keys=["service:gateway"]).engrams == [without_keys(engram)]
        assert client.query("bananas").engrams == []

    def test_an_engram_is_found_by_its_id(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        engram = client.put("The gateway retries three times")
        assert client.call("get_engram", id=engram.id) == engram
        for absent in (LOW_ID, "", "not an id", "\x00", "é" * 36, "%"):
            with expect_refusal("ENGRAM_NOT_FOUND"):
                client.call("get_engram", id=absent)

    def test_more_shared_keys_rank_higher(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put("The cache is warm")
        client.put("The cache of the gateway is warm")
        client.put("The gateway is new")
        assert client.query_claims("warm gateway cache")[0] == "The cache of the gateway is warm"

    # decision 87: weights are made from true frequencies
    def test_rarer_keys_weigh_more(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put("Only here stands zanzibar")
        client.put_many([f"The common matter number {number}" for number in range(40)])
        assert client.query_claims("zanzibar common")[0] == "Only here stands zanzibar"
        assert len(client.query_claims("zanzibar common", k=100)) == 41

    def test_ties_go_to_the_nearer_scope_first(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put("Alpha in the run", scope="run", confidence=0.1)
        harness.clock.advance(seconds=5)
        client.put("Alpha in the project", scope="project", confidence=0.9, refs=[ref_to_test("alpha.py")])
        assert client.query_claims(keys=["alpha"]) == ["Alpha in the run", "Alpha in the project"]

    def test_ties_in_scope_go_to_the_more_recent_second(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put("Alpha one", confidence=0.9)
        harness.clock.advance(seconds=1)
        client.put("Alpha two", confidence=0.1)
        assert client.query_claims(keys=["alpha"]) == ["Alpha two", "Alpha one"]

    def test_ties_within_one_second_go_to_the_more_confident(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put("Alpha one", confidence=0.9, refs=[ref_to_test("other.py")])
        harness.clock.advance(microseconds=999_999)
        client.put("Alpha two", confidence=0.5, refs=[ref_to_test("other.py")])
        assert client.query_claims(keys=["alpha"]) == ["Alpha one", "Alpha two"]

    def test_ties_in_confidence_go_to_pointers_the_query_names(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        # Both hold every key that is asked for; only one is pointed at a file of that name.
        client.put("Alpha is in x9.py", id=LOW_ID)
        client.put("Alpha is in there", id=HIGH_ID, refs=[ref_to_test("x9.py")])
        assert client.query_claims(keys=["alpha", "x9.py"]) == ["Alpha is in there", "Alpha is in x9.py"]

    def test_remaining_ties_go_to_the_lower_id(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put("Alpha high", id=HIGH_ID)
        client.put("Alpha low", id=LOW_ID)
        assert client.query_claims(keys=["alpha"]) == ["Alpha low", "Alpha high"]

    # decision 87: every engram that the caller may see is ranked, however many there are
    def test_the_best_engram_is_found_however_old_it_is(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put("The oldest common matter of the gateway", confidence=0.5)
        client.put_many([f"The common matter number {number}" for number in range(300)])
        assert client.query_claims("common gateway", k=1) == ["The oldest common matter of the gateway"]
        assert client.query_claims("oldest") == ["The oldest common matter of the gateway"]

    def test_ties_of_one_second_are_all_compared(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put("The surest common matter", confidence=1.0)
        client.put_many([f"The common matter number {number}" for number in range(400)])
        assert client.query_claims(keys=["common"], k=1) == ["The surest common matter"]

    # decision 87: an engram the caller cannot see must not be noticeable in any answer
    def test_invisible_engrams_do_not_influence_the_ranking(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        reader = client.add_agent("reader")
        client.put("The rare matter of the gateway", scope="run")
        client.put_many([f"The common gateway number {number}" for number in range(20)])
        questions: list[dict[str, Any]] = [
            {"q": "rare gateway"},
            {"q": "common"},
            {"keys": ["gateway"]},
            {"k": 5},
            {"scope": "run"},
        ]
        expected = [client.try_call("query_engrams", reader, **question) for question in questions]
        client.open_run("Nobody else's business")
        client.put_many([f"The rare common gateway secret {number}" for number in range(200)], scope="run")
        after = [client.try_call("query_engrams", reader, **question) for question in questions]
        assert after == expected

    def test_queries_filter_by_kind_and_scope(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put("Alpha risk", kind="risk")
        client.put("Alpha fact", kind="fact")
        client.put("Alpha test", kind="test", scope="run")
        assert client.query_claims("alpha", kind="risk") == ["Alpha risk"]
        assert client.query_claims("alpha", scope="run") == ["Alpha test"]
        assert client.query_claims("alpha", scope="project", kind="test") == []
        assert client.query_claims(kind="fact") == ["Alpha fact"]
        assert client.query_claims("alpha", scope="org") == []

    def test_pages_have_no_gaps_and_no_repeats(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        claims = [f"Matter number {number}" for number in range(150)]
        for start in range(0, 150, 50):
            client.put_many(claims[start : start + 50], scope="run" if start == 50 else "project")
        for size in (1, 7, 64, 100):
            seen: list[str] = []
            cursor = None
            while True:
                page = client.query(k=size, cursor=cursor)
                seen += [engram.claim for engram in page.engrams]
                cursor = page.cursor
                if cursor is None:
                    break
            assert seen == claims[::-1], size

    def test_paging_survives_changes_in_between(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        ids = client.put_many([f"Matter number {number}" for number in range(10)])
        first = client.query(k=4)
        client.put("Something newer")
        client.call("forget_engram", id=ids[5])
        second = client.query(k=4, cursor=first.cursor)
        assert [engram.claim[-1] for engram in (*first.engrams, *second.engrams)] == list("98764321")

    def test_another_callers_cursor_is_refused_or_empty(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put("Alpha")
        for bad in ("x", "-1", "1.5", "٣", " 1", "1" * 20):
            with expect_refusal("FIELD_VALUE"):
                client.query(cursor=bad)
        assert client.query_claims(cursor="1") == []
        assert client.query_claims(cursor="0") == []
        assert client.query_claims(cursor="9" * 18) == ["Alpha"]

    def test_k_limits_the_number_of_engrams(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put_many([f"The common matter {number}" for number in range(MAX_K + 20)])
        for k in (1, 12, MAX_K):
            assert len(client.query_claims("common", k=k)) == k
            assert len(client.query_claims(k=k)) == k

    # decision 5: the limit counts the whole answer, not only the claims
    def test_a_token_limit_cuts_from_the_end_and_reports_it(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put_many([f"The common matter {number}" for number in range(10)])
        complete = client.query("common", k=10)
        complete_tokens = estimate_tokens(msgspec.json.encode(complete))
        assert client.query("common", k=10, max_tokens=complete_tokens) == complete
        for tokens in range(50, complete_tokens, 97):
            cut = client.query("common", k=10, max_tokens=tokens)
            assert cut.truncated
            assert cut.engrams == complete.engrams[: len(cut.engrams)]
            assert estimate_tokens(msgspec.json.encode(cut)) <= tokens
        with expect_refusal("BUDGET_TOO_SMALL"):
            client.query("common", max_tokens=1)

    def test_hostile_keys_find_only_what_they_name(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        keys = [
            "service:gateway", "р:ключ", "日本語", "ünï-cödé", "c++", "a+b+c", "*", "p:*", "r1:alpha", "kind=risk",
            "x" * 80, "NEAR", "AND", "naïve:é", "a.b.c", "path/to/file.py", "f(x)", "50%", "[a-z]", "~!@#$%^&",
            "back\\slash", "tokens:alpha", "{x}", "emoji🙂key", "ǅ", "ﬁne", "i̇stanbul", "a^b", "-alpha", "pending",
        ]  # fmt: skip
        for number, key in enumerate(keys):
            client.put(f"Matter number {number}", hash_keys=[key], kind="risk" if number % 2 else "fact")
        for number, key in enumerate(keys):
            # Nothing but signs, or a word that every text has, is no key at all, and finds nothing.
            is_key = key not in ("*", "~!@#$%^&", "AND")
            assert (f"Matter number {number}" in client.query_claims(keys=[key], k=100)) is is_key, key
        for signs in ('"', "' OR 1=1 --", '" OR "', "tokens:*", "^", "NOT alpha", "(", "\\"):
            client.query(keys=[signs])
            client.query(signs)

    def test_claims_in_any_language_are_found(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        for claim in ("Шлюз повторяет трижды", "网关重试三次", "La passerelle réessaie", "Η πύλη", "🙂 works"):
            client.put(claim)
            assert claim in client.query_claims(claim), claim

    # decision 87: ranks are integers in a total order, so every back end answers alike
    def test_the_same_query_gives_the_same_bytes(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put_many([f"The common matter {number % 7} of {number % 3}" for number in range(90)])
        first = client.try_call("query_engrams", q="common matter 3", k=50)
        assert client.try_call("query_engrams", q="common matter 3", k=50) == first
