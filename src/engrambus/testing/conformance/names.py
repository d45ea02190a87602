"""Names of agents: generated names, names across runs, leads of sessions, and what only an admin adds."""  # EB-31

from __future__ import annotations

import msgspec

from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.policy import AgentAdded
from engrambus.testing.client import GatewayClient, catch_refusal, expect_refusal, same_changes
from engrambus.testing.harness import Harness


class NameConformance:
    """What a name means, who gets one, and whose lead a session has (decision 43)."""

    def test_an_agent_without_a_name_gets_two_words_that_no_agent_ever_had(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        names = [client.call("add_agent").agent_id for _ in range(20)]
        client.open_run()
        names += [client.call("add_agent").agent_id for _ in range(20)]
        assert len(set(names)) == 40
        assert all(len(name.split("-")) == 2 for name in names)
        harness.delete_index()
        harness.reopen()
        assert [row.agent_id for row in client.call("list_agents").agents] == names[20:]

    def test_the_id_of_a_client_finds_its_agent_again(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        max_ = client.add_agent("max", "manager")
        added = client.call("add_agent", client_id="sub-1", parent="mia")
        journal = harness.journal_bytes()
        again = client.call("add_agent", client_id="sub-1", parent="max", role="manager", name="other")
        assert (again.agent_id, again.role, again.run_id) == (added.agent_id, "programmer", added.run_id)
        assert client.call("add_agent", mia, client_id="sub-1").agent_id == added.agent_id
        assert same_changes(harness.journal_bytes(), journal)
        # Otherwise an id would be as good as the token of another agent's child.
        with expect_refusal("NOT_YOUR_DESCENDANT", "client_id"):
            client.call("add_agent", max_, client_id="sub-1")
        harness.delete_index()
        harness.reopen()
        assert client.call("add_agent", client_id="sub-1").agent_id == added.agent_id
        assert client.call("add_agent", client_id="sub-2").agent_id != added.agent_id
        client.open_run()
        assert client.call("add_agent", client_id="sub-1").agent_id != added.agent_id
        with expect_refusal("FIELD_VALUE", "client_id"):
            client.call("add_agent", client_id="a/b")

    def test_a_bare_name_means_this_run_then_the_only_agent_of_the_project(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        first = client.call("list_agents").run_id
        client.add_agent("boss", "manager")
        client.add_agent("kim")
        second = client.open_run()
        client.add_agent("kim")
        assert client.call("agent_token", name="boss").run_id == first
        assert client.call("agent_token", name="kim").run_id == second
        assert client.call("agent_token", name=f"{first}/kim").run_id == first
        assert client.call("add_agent", name="pat", parent="boss").run_id == first
        assert client.put("Alpha", Credential(local_admin=True, speak_as="pat")).provenance.created_by == f"{first}/pat"
        third = client.open_run()
        refusal = catch_refusal(lambda: client.call("agent_token", name="kim"))
        assert (refusal.code, refusal.field, refusal.used) == ("AGENT_AMBIGUOUS", "name", 2)
        assert f"{second}/kim, {first}/kim" in refusal.detail
        with expect_refusal("AGENT_AMBIGUOUS", "as"):
            client.put("Alpha", Credential(local_admin=True, speak_as="kim"))
        assert client.call("list_agents").run_id == third
        client.call("end_run", run_id=first)
        with expect_refusal("RUN_ENDED"):
            client.call("add_agent", parent="boss")

    def test_every_operation_that_names_agents_reaches_an_admins_other_runs(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        first = client.call("list_agents").run_id
        mia = client.add_agent("mia", "manager")
        client.add_agent("paul", "programmer", mia)
        client.open_run()
        client.add_agent("here", "manager")
        client.call("issue_grant", child_id="paul", pointer="repo:a.py@" + "a" * 40, cap_tokens=50)
        assert client.call("close_turn", name="paul").agent_id == "paul"
        assert client.broadcast(LOCAL_ADMIN, "Alpha holds.", role="architect", to=["mia"]).to == ["mia"]
        assert client.call("inherit", for_agent=f"{first}/paul")
        with expect_refusal("FIELD_VALUE", "to"):
            client.broadcast(LOCAL_ADMIN, "Alpha holds.", role="architect", to=["mia", "here"])

    def test_an_agent_names_only_descendants_and_gets_no_other_names_suggested(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        client.add_agent("amber-fox", "programmer", mia)
        client.add_agent("amber-fix", "programmer")
        client.open_run()
        client.add_agent("amber-fax")
        refusal = catch_refusal(lambda: client.put("Alpha", msgspec.structs.replace(mia, speak_as="amber-fux")))
        assert (refusal.code, refusal.hint) == ("AGENT_NOT_FOUND", "Did you mean amber-fox?")
        with expect_refusal("AGENT_NOT_FOUND", "as"):
            client.put("Alpha", msgspec.structs.replace(mia, speak_as="amber-fax"))
        refusal = catch_refusal(lambda: client.call("agent_token", name="amber-fux"))
        assert all(f"amber-{word}" in (refusal.hint or "") for word in ("fax", "fix", "fox"))
        assert "mean" not in (catch_refusal(lambda: client.call("agent_token", name="zzz")).hint or "")

    def test_the_run_of_a_session_is_never_the_current_one(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        first = client.call("list_agents").run_id
        session = client.call("open_run", goal="Session", session="s-1").run_id
        lead = client.call("add_lead", goal="MCP session")
        assert len({first, session, lead.run_id}) == 3
        assert client.call("list_agents").run_id == first
        client.call("end_run", run_id=first)
        assert client.call("list_agents").run_id == first
        harness.delete_index()
        harness.reopen()
        assert client.call("list_agents").run_id == first
        rows = {row.run_id: row for row in client.call("list_runs").runs}
        assert [rows[run].current for run in (first, session, lead.run_id)] == [True, False, False]
        assert [rows[run].session for run in (first, session, lead.run_id)] == [False, True, True]
        assert [rows[run].lead for run in (first, session, lead.run_id)] == [None, None, lead.agent_id]
        assert list(rows) == [lead.run_id, session, first]

    def test_a_session_has_one_lead_however_often_it_is_asked_for(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        lead = client.call("add_lead", goal="Session", session="s-1", session_turns=4)
        journal = harness.journal_bytes()
        again = client.call("add_lead", goal="Session", session="s-1", role="manager", session_turns=1)
        assert (again.agent_id, again.run_id, again.role) == (lead.agent_id, lead.run_id, "architect")
        assert same_changes(harness.journal_bytes(), journal)
        (row,) = client.call("list_agents", Credential(token=lead.token)).agents
        assert (row.agent_id, row.session_turns, row.parent) == (lead.agent_id, 4, None)
        assert client.call("open_run", goal="Session", session="s-1").run_id == lead.run_id
        unnamed = [client.call("add_lead", goal="MCP session") for _ in range(2)]
        assert len({lead.run_id, *(other.run_id for other in unnamed)}) == 3
        chosen = client.call("list_agents").run_id
        in_run = client.call("add_lead", Credential(local_admin=True, run=chosen), goal="Session", session="s-1")
        assert in_run.run_id == chosen
        client.call("end_run", run_id=lead.run_id)
        assert client.call("add_lead", goal="Session", session="s-1").run_id not in (lead.run_id, chosen)

    def test_the_policy_sets_the_highest_role_of_a_lead(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        assert client.call("add_lead", goal="a", role="programmer").role == "programmer"
        client.call("apply_policy", policy={"lead_role": "manager"})
        assert client.call("add_lead", goal="a").role == "manager"
        assert client.call("add_lead", goal="a", role="programmer").role == "programmer"
        with expect_refusal("ROLE_FORBIDDEN", "role"):
            client.call("add_lead", goal="a", role="director")
        for role in ("admin", "tool"):
            with expect_refusal("FIELD_VALUE", "role"):
                client.call("add_lead", goal="a", role=role)
        for role in ("admin", "tool", "programmer"):  # the lead of a session with sub-agents has children
            with expect_refusal("POLICY_INVALID"):
                client.call("apply_policy", policy={"lead_role": role})

    def test_only_an_admin_adds_tools_leads_and_longer_turns(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        ann = client.add_agent("ann", "architect")
        as_ann = Credential(local_admin=True, speak_as="ann")
        journal = harness.journal_bytes()
        for caller in (ann, as_ann):
            with expect_refusal("ROLE_FORBIDDEN", "role"):
                client.call("add_agent", caller, role="tool")
            with expect_refusal("ROLE_FORBIDDEN", "session_turns"):
                client.call("add_agent", caller, session_turns=2)
            with expect_refusal("ROLE_FORBIDDEN"):
                client.call("add_lead", caller, goal="a")
        for turns in (0, 17):
            with expect_refusal("FIELD_VALUE", "session_turns"):
                client.call("add_agent", session_turns=turns)
        assert same_changes(harness.journal_bytes(), journal)
        client.call("add_agent", session_turns=16)

    def test_a_tool_deletes_only_what_its_parent_could(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        ann = client.add_agent("ann", "architect")
        mia = client.add_agent("mia", "manager")
        engram = client.put("Alpha", ann)
        run = client.call("list_agents").run_id
        # As an older version wrote it, when parents added tools.
        old = AgentAdded(run=run, name="broom", role="tool", by=f"{run}/mia", parent="mia")
        harness.gateway.store.commit(lambda view: ([old], None))
        broom = Credential(token=client.call("agent_token", mia, name="broom").token)
        for caller in (broom, msgspec.structs.replace(mia, speak_as="broom")):
            with expect_refusal("ROLE_FORBIDDEN", "id"):
                client.call("forget_engram", caller, id=engram.id)
        assert client.query_claims("alpha") == ["Alpha"]
        sweeper = client.add_agent("sweeper", "tool")
        with expect_refusal("NOT_YOUR_DESCENDANT", "as"):
            client.call("forget_engram", msgspec.structs.replace(ann, speak_as="sweeper"), id=engram.id)
        client.call("forget_engram", sweeper, id=engram.id)
        assert client.query_claims("alpha") == []
