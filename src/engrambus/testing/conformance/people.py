"""Who may do what: runs, agents, tokens, policy."""

from __future__ import annotations

from engrambus.gateway import Credential
from engrambus.testing.hand import Hand, refused
from engrambus.testing.harness import FIRST_GOAL, Harness


class People:
    """Runs, agents and policy."""

    def test_the_last_run_that_goes_on_is_the_current_one(self, harness: Harness) -> None:
        hand = Hand(harness)
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
        hand = Hand(harness)
        mia = hand.add("mia", "manager")
        hand.put("Alpha", mia, scope="run")
        run = hand.call("list_agents").run_id
        assert hand.call("end_run", run_id=run).run_id == run
        assert hand.call("end_run", run_id=run).run_id == run
        assert hand.found("alpha", mia) == ["Alpha"]
        with refused("RUN_ENDED"):
            hand.put("Beta", mia)
        with refused("RUN_ENDED"):
            hand.put("Beta")
        with refused("RUN_ENDED"):
            hand.add("paul", "programmer", mia)
        hand.open_run()
        hand.put("Beta")

    def test_runs_that_are_not_there(self, harness: Harness) -> None:
        hand = Hand(harness)
        for absent in ("", "nothing", "01KDVP9R000000000000000000", "é"):
            with refused("RUN_NOT_FOUND"):
                hand.call("end_run", run_id=absent)
            with refused("RUN_NOT_FOUND"):
                hand.query("alpha", Credential(local_admin=True, run=absent))

    def test_agents_are_listed_in_the_order_they_came(self, harness: Harness) -> None:
        hand = Hand(harness)
        mia = hand.add("mia", "manager")
        hand.add("ada", "programmer", mia)
        hand.add("bob", "tool", mia)
        rows = [(row.agent_id, row.role, row.parent) for row in hand.call("list_agents", mia).agents]
        assert rows == [("mia", "manager", None), ("ada", "programmer", "mia"), ("bob", "tool", "mia")]
        with refused("AGENT_EXISTS"):
            hand.add("ada")
        hand.open_run()
        assert hand.call("list_agents").agents == []
        hand.add("ada")

    def test_a_childs_role_stands_below_its_parents(self, harness: Harness) -> None:
        hand = Hand(harness)
        who = {name: hand.add(name, name) for name in ("architect", "director", "manager", "programmer", "tool")}
        ranks = ["programmer", "manager", "director", "architect"]
        for parent in ranks[1:]:
            for role in (*ranks, "tool"):
                name = f"{parent}-{role}"
                if role == "tool" or ranks.index(role) < ranks.index(parent):
                    hand.add(name, role, who[parent])
                else:
                    with refused("ROLE_FORBIDDEN"):
                        hand.add(name, role, who[parent])
        for childless in ("programmer", "tool"):
            with refused("ROLE_FORBIDDEN"):
                hand.add("child", "tool", who[childless])
        with refused("ROLE_FORBIDDEN"):
            hand.add("boss", "admin")

    def test_one_speaks_only_for_descendants(self, harness: Harness) -> None:
        hand = Hand(harness)
        dora = hand.add("dora", "director")
        mia = hand.add("mia", "manager", dora)
        hand.add("paul", "programmer", mia)
        hand.add("max", "manager")
        for speaker, name in ((dora, "paul"), (mia, "paul"), (mia, "mia"), (dora, "mia")):
            said = hand.put("Alpha", Credential(token=speaker.token, speak_as=name))
            assert said.provenance.created_by.endswith(f"/{name}")
        for name in ("max", "dora"):
            with refused("NOT_YOUR_DESCENDANT"):
                hand.put("Alpha", Credential(token=mia.token, speak_as=name))
        for absent in ("nobody", "", "é"):
            with refused("AGENT_NOT_FOUND"):
                hand.put("Alpha", Credential(token=mia.token, speak_as=absent))
        assert hand.put("Alpha", Credential(local_admin=True, speak_as="paul")).provenance.created_by.endswith("/paul")

    def test_without_a_sound_token_nothing_is_answered(self, harness: Harness) -> None:
        hand = Hand(harness)
        ada = hand.add("ada")
        with refused("TOKEN_MISSING"):
            hand.query("alpha", Credential())
        with refused("TOKEN_INVALID"):
            hand.query("alpha", Credential(token="engrambus1.e30.AAAA"))  # noqa: S106  # nobody's
        harness.clock.turn(seconds=30 * 86_400 - 1)
        hand.query("alpha", ada)
        harness.clock.turn(seconds=1)
        with refused("TOKEN_EXPIRED"):
            hand.query("alpha", ada)

    def test_a_policy_is_in_force_once_applied(self, harness: Harness) -> None:
        hand = Hand(harness)
        ada = hand.add("ada")
        with refused("SCOPE_FORBIDDEN"):
            hand.put("Alpha", scope="org")
        hand.call("apply_policy", policy={"write_scopes": {"programmer": ["run"]}, "max_ttl": "P1D"})
        hand.put("Alpha", ada, scope="run", ttl="P1D")
        with refused("SCOPE_FORBIDDEN"):
            hand.put("Alpha", ada, scope="project", ttl="P1D")
        with refused("TTL_TOO_LONG"):
            hand.put("Alpha", ttl="P2D")
        hand.call("apply_policy", policy={"promotion_floor": {"project": 0.95}})
        engram = hand.put("Beta", ada, scope="run", ttl="P2D", confidence=0.9)
        with refused("SCOPE_FORBIDDEN"):
            hand.call("promote_engram", id=engram.id)
        harness.delete_index()
        with refused("SCOPE_FORBIDDEN"):
            hand.call("promote_engram", id=engram.id)
        with refused("POLICY_INVALID"):
            hand.call("apply_policy", policy={"scopes": ["everywhere"]})
        with refused("ROLE_FORBIDDEN"):
            hand.call("apply_policy", ada, policy={})

    def test_halves_of_characters_are_refused_everywhere(self, harness: Harness) -> None:
        hand = Hand(harness)
        before = harness.journal_bytes()
        half = "\ud800"
        with refused("BAD_TEXT"):
            hand.put(f"Alpha {half}")
        with refused("BAD_TEXT"):
            hand.open_run(half)
        with refused("BAD_TEXT"):
            hand.put("Alpha", Credential(local_admin=True, idempotency_key=half))
        assert hand.ask("get_engram", id=half)[0] in ("ENGRAM_NOT_FOUND", "BAD_TEXT")
        assert hand.ask("query_engrams", keys=[half], q=half)[0] in ("ok", "BAD_TEXT")
        assert hand.ask("add_agent", name=half)[0] in ("FIELD_VALUE", "BAD_TEXT")
        assert harness.journal_bytes() == before
