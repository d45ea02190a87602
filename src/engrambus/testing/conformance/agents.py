"""Runs, agents, tokens and policy: each caller may do only what its role allows."""

from __future__ import annotations

from engrambus.gateway import Credential
from engrambus.testing.client import NOTE, GatewayClient, expect_refusal, same_changes
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import FIRST_GOAL, Harness


class AgentConformance:
    """Runs, agents and policy."""

    def test_the_newest_open_run_is_the_current_one(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        first = client.call("list_agents").run_id
        second, third = client.open_run("second"), client.open_run("third")
        assert client.call("list_agents").run_id == third
        client.call("end_run", run_id=third)
        assert client.call("list_agents").run_id == second
        client.call("end_run", run_id=second)
        answer = client.call("list_agents")
        assert (answer.run_id, answer.goal) == (first, FIRST_GOAL)
        client.call("end_run", run_id=first)
        assert client.call("list_agents").run_id == third

    def test_an_ended_run_is_open_to_the_admin_alone_and_to_be_read(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        client.put("Alpha", mia, scope="run")
        run = client.call("list_agents").run_id
        assert client.call("end_run", run_id=run).run_id == run
        assert client.call("end_run", run_id=run).run_id == run
        for operation, fields in (
            ("query_engrams", {"q": "alpha"}),
            ("inbox", {}),
            ("deref_pointer", {"pointer": repo_ref("a.py")}),
            ("agent_token", {"name": "mia"}),
            ("add_agent", {"name": "paul"}),
            ("put_engram", {"claim": "Beta", "pointers": [{"type": "sam", "ref": NOTE}]}),
        ):
            with expect_refusal("RUN_ENDED"):
                client.call(operation, mia, **fields)
        with expect_refusal("RUN_ENDED", "as"):
            client.query("alpha", Credential(local_admin=True, speak_as="mia"))
        assert client.query_claims("alpha") == ["Alpha"]
        with expect_refusal("RUN_ENDED"):
            client.put("Beta")
        client.open_run()
        client.put("Beta")

    def test_unknown_runs_are_refused(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        for absent in ("", "nothing", "01KDVP9R000000000000000000", "é"):
            with expect_refusal("RUN_NOT_FOUND"):
                client.call("end_run", run_id=absent)
            with expect_refusal("RUN_NOT_FOUND"):
                client.query("alpha", Credential(local_admin=True, run=absent))

    def test_agents_are_listed_in_the_order_they_were_added(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        client.add_agent("ada", "programmer", mia)
        client.add_agent("bob", "tool", parent="mia")
        rows = [(row.agent_id, row.role, row.parent) for row in client.call("list_agents", mia).agents]
        assert rows == [("mia", "manager", None), ("ada", "programmer", "mia"), ("bob", "tool", "mia")]
        with expect_refusal("AGENT_EXISTS"):
            client.add_agent("ada")
        client.open_run()
        assert client.call("list_agents").agents == []
        client.add_agent("ada")

    def test_a_childs_role_is_below_its_parents(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        agents = {
            name: client.add_agent(name, name) for name in ("architect", "director", "manager", "programmer", "tool")
        }
        ranks = ["programmer", "manager", "director", "architect"]
        for parent in ranks[1:]:
            for role in (*ranks, "tool"):
                name = f"{parent}-{role}"
                if role == "tool":
                    client.add_agent(name, role, parent=parent)
                elif ranks.index(role) < ranks.index(parent):
                    client.add_agent(name, role, agents[parent])
                else:
                    with expect_refusal("ROLE_FORBIDDEN"):
                        client.add_agent(name, role, agents[parent])
        for childless in ("programmer", "tool"):
            with expect_refusal("ROLE_FORBIDDEN"):
                client.add_agent("child", "programmer", agents[childless])
        with expect_refusal("ROLE_FORBIDDEN", "role"):
            client.add_agent("child", "tool", parent="tool")
        with expect_refusal("ROLE_FORBIDDEN"):
            client.add_agent("boss", "admin")

    def test_an_agent_speaks_only_for_its_descendants(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        dora = client.add_agent("dora", "director")
        mia = client.add_agent("mia", "manager", dora)
        client.add_agent("paul", "programmer", mia)
        client.add_agent("max", "manager")
        for speaker, name in ((dora, "paul"), (mia, "paul"), (mia, "mia"), (dora, "mia")):
            engram = client.put("Alpha", Credential(token=speaker.token, speak_as=name))
            assert engram.provenance.created_by.endswith(f"/{name}")
        for name in ("max", "dora"):
            with expect_refusal("NOT_YOUR_DESCENDANT"):
                client.put("Alpha", Credential(token=mia.token, speak_as=name))
        for absent in ("nobody", "", "é"):
            with expect_refusal("AGENT_NOT_FOUND"):
                client.put("Alpha", Credential(token=mia.token, speak_as=absent))
        assert client.put("Alpha", Credential(local_admin=True, speak_as="paul")).provenance.created_by.endswith(
            "/paul"
        )

    # decision 4: tokens are signed and checked by the same gateway
    def test_a_call_without_a_valid_token_is_refused(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        ada = client.add_agent("ada")
        with expect_refusal("TOKEN_MISSING"):
            client.query("alpha", Credential())
        with expect_refusal("TOKEN_INVALID"):
            client.query("alpha", Credential(token="engrambus1.e30.AAAA"))  # noqa: S106  # nobody's
        harness.clock.advance(seconds=30 * 86_400 - 1)
        client.query("alpha", ada)
        harness.clock.advance(seconds=1)
        with expect_refusal("TOKEN_EXPIRED"):
            client.query("alpha", ada)

    def test_a_policy_takes_effect_when_it_is_applied(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        ada = client.add_agent("ada")
        with expect_refusal("SCOPE_FORBIDDEN"):
            client.put("Alpha", scope="org")
        client.call("apply_policy", policy={"write_scopes": {"programmer": ["run"]}, "max_ttl": "P1D"})
        client.put("Alpha", ada, scope="run", ttl="P1D")
        with expect_refusal("SCOPE_FORBIDDEN"):
            client.put("Alpha", ada, scope="project", ttl="P1D")
        with expect_refusal("TTL_TOO_LONG"):
            client.put("Alpha", ttl="P2D")
        client.call("apply_policy", policy={"promotion_floor": {"project": 0.95}})
        engram = client.put("Beta", ada, scope="run", ttl="P2D", confidence=0.9)
        with expect_refusal("SCOPE_FORBIDDEN"):
            client.call("promote_engram", id=engram.id)
        harness.delete_index()
        with expect_refusal("SCOPE_FORBIDDEN"):
            client.call("promote_engram", id=engram.id)
        with expect_refusal("POLICY_INVALID"):
            client.call("apply_policy", policy={"scopes": ["everywhere"]})
        with expect_refusal("ROLE_FORBIDDEN"):
            client.call("apply_policy", ada, policy={})

    def test_lone_surrogates_are_refused_in_every_field(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        journal = harness.journal_bytes()
        half = "\ud800"
        with expect_refusal("BAD_TEXT"):
            client.put(f"Alpha {half}")
        with expect_refusal("BAD_TEXT"):
            client.open_run(half)
        with expect_refusal("BAD_TEXT"):
            client.put("Alpha", Credential(local_admin=True, idempotency_key=half))
        assert client.try_call("get_engram", id=half)[0] in ("ENGRAM_NOT_FOUND", "BAD_TEXT")
        assert client.try_call("query_engrams", keys=[half], q=half)[0] in ("ok", "BAD_TEXT")
        assert client.try_call("add_agent", name=half)[0] in ("FIELD_VALUE", "BAD_TEXT")
        assert same_changes(harness.journal_bytes(), journal)
