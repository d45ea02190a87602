"""Who may do what: runs, agents, tokens, policy."""

from __future__ import annotations

from engrambus.gateway import Credential
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.harness import FIRST_GOAL, Harness


class AgentConformance:
    """Runs, agents and policy."""

    def test_the_last_run_that_goes_on_is_the_current_one(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        first = hand.call("list_agents").run_id
        second, third = hand.open_run("second"), hand.open_run("third")
        assert hand.call("list_agents").run_id == third
        hand.call("end_run", run_id=third)
        assert hand.call("list_agents").run_id == second
        hand.call("end_run", run_id=second)
        answer = hand.call("list_agents")
        assert (answer.run_id, answer.goal) == (first, FIRST_GOAL)
        hand.call("end_run", run_id=first)
        assert hand.call("list_agents").run_id == third

    def test_an_ended_run_is_read_and_not_written(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        mia = hand.add_agent("mia", "manager")
        hand.put("Alpha", mia, scope="run")
        run = hand.call("list_agents").run_id
        assert hand.call("end_run", run_id=run).run_id == run
        assert hand.call("end_run", run_id=run).run_id == run
        assert hand.query_claims("alpha", mia) == ["Alpha"]
        with expect_refusal("RUN_ENDED"):
            hand.put("Beta", mia)
        with expect_refusal("RUN_ENDED"):
            hand.put("Beta")
        with expect_refusal("RUN_ENDED"):
            hand.add_agent("paul", "programmer", mia)
        hand.open_run()
        hand.put("Beta")

    def test_runs_that_are_not_there(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        for absent in ("", "nothing", "01KDVP9R000000000000000000", "é"):
            with expect_refusal("RUN_NOT_FOUND"):
                hand.call("end_run", run_id=absent)
            with expect_refusal("RUN_NOT_FOUND"):
                hand.query("alpha", Credential(local_admin=True, run=absent))

    def test_agents_are_listed_in_the_order_they_came(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        mia = hand.add_agent("mia", "manager")
        hand.add_agent("ada", "programmer", mia)
        hand.add_agent("bob", "tool", mia)
        rows = [(row.agent_id, row.role, row.parent) for row in hand.call("list_agents", mia).agents]
        assert rows == [("mia", "manager", None), ("ada", "programmer", "mia"), ("bob", "tool", "mia")]
        with expect_refusal("AGENT_EXISTS"):
            hand.add_agent("ada")
        hand.open_run()
        assert hand.call("list_agents").agents == []
        hand.add_agent("ada")

    def test_a_childs_role_stands_below_its_parents(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        who = {name: hand.add_agent(name, name) for name in ("architect", "director", "manager", "programmer", "tool")}
        ranks = ["programmer", "manager", "director", "architect"]
        for parent in ranks[1:]:
            for role in (*ranks, "tool"):
                name = f"{parent}-{role}"
                if role == "tool" or ranks.index(role) < ranks.index(parent):
                    hand.add_agent(name, role, who[parent])
                else:
                    with expect_refusal("ROLE_FORBIDDEN"):
                        hand.add_agent(name, role, who[parent])
        for childless in ("programmer", "tool"):
            with expect_refusal("ROLE_FORBIDDEN"):
                hand.add_agent("child", "tool", who[childless])
        with expect_refusal("ROLE_FORBIDDEN"):
            hand.add_agent("boss", "admin")

    def test_one_speaks_only_for_descendants(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        dora = hand.add_agent("dora", "director")
        mia = hand.add_agent("mia", "manager", dora)
        hand.add_agent("paul", "programmer", mia)
        hand.add_agent("max", "manager")
        for speaker, name in ((dora, "paul"), (mia, "paul"), (mia, "mia"), (dora, "mia")):
            said = hand.put("Alpha", Credential(token=speaker.token, speak_as=name))
            assert said.provenance.created_by.endswith(f"/{name}")
        for name in ("max", "dora"):
            with expect_refusal("NOT_YOUR_DESCENDANT"):
                hand.put("Alpha", Credential(token=mia.token, speak_as=name))
        for absent in ("nobody", "", "é"):
            with expect_refusal("AGENT_NOT_FOUND"):
                hand.put("Alpha", Credential(token=mia.token, speak_as=absent))
        assert hand.put("Alpha", Credential(local_admin=True, speak_as="paul")).provenance.created_by.endswith("/paul")

    def test_without_a_sound_token_nothing_is_answered(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        ada = hand.add_agent("ada")
        with expect_refusal("TOKEN_MISSING"):
            hand.query("alpha", Credential())
        with expect_refusal("TOKEN_INVALID"):
            hand.query("alpha", Credential(token="engrambus1.e30.AAAA"))  # noqa: S106  # nobody's
        harness.clock.advance(seconds=30 * 86_400 - 1)
        hand.query("alpha", ada)
        harness.clock.advance(seconds=1)
        with expect_refusal("TOKEN_EXPIRED"):
            hand.query("alpha", ada)

    def test_a_policy_is_in_force_once_applied(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        ada = hand.add_agent("ada")
        with expect_refusal("SCOPE_FORBIDDEN"):
            hand.put("Alpha", scope="org")
        hand.call("apply_policy", policy={"write_scopes": {"programmer": ["run"]}, "max_ttl": "P1D"})
        hand.put("Alpha", ada, scope="run", ttl="P1D")
        with expect_refusal("SCOPE_FORBIDDEN"):
            hand.put("Alpha", ada, scope="project", ttl="P1D")
        with expect_refusal("TTL_TOO_LONG"):
            hand.put("Alpha", ttl="P2D")
        hand.call("apply_policy", policy={"promotion_floor": {"project": 0.95}})
        engram = hand.put("Beta", ada, scope="run", ttl="P2D", confidence=0.9)
        with expect_refusal("SCOPE_FORBIDDEN"):
            hand.call("promote_engram", id=engram.id)
        harness.delete_index()
        with expect_refusal("SCOPE_FORBIDDEN"):
            hand.call("promote_engram", id=engram.id)
        with expect_refusal("POLICY_INVALID"):
            hand.call("apply_policy", policy={"scopes": ["everywhere"]})
        with expect_refusal("ROLE_FORBIDDEN"):
            hand.call("apply_policy", ada, policy={})

    def test_halves_of_characters_are_refused_everywhere(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        before = harness.journal_bytes()
        half = "\ud800"
        with expect_refusal("BAD_TEXT"):
            hand.put(f"Alpha {half}")
        with expect_refusal("BAD_TEXT"):
            hand.open_run(half)
        with expect_refusal("BAD_TEXT"):
            hand.put("Alpha", Credential(local_admin=True, idempotency_key=half))
        assert hand.try_call("get_engram", id=half)[0] in ("ENGRAM_NOT_FOUND", "BAD_TEXT")
        assert hand.try_call("query_engrams", keys=[half], q=half)[0] in ("ok", "BAD_TEXT")
        assert hand.try_call("add_agent", name=half)[0] in ("FIELD_VALUE", "BAD_TEXT")
        assert harness.journal_bytes() == before
