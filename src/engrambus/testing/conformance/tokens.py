"""Tokens that are issued, listed, renewed and revoked, and agents that are removed (decision 69)."""

from __future__ import annotations

from engrambus.core import parse_time, print_time
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.testing.client import GatewayClient, catch_refusal, expect_refusal
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness

DAY = 86_400


class TokenTeam:
    """A lead, its child and its grandchild."""

    def __init__(self, harness: Harness) -> None:
        self.client = GatewayClient(harness)
        self.lead = self.client.add_agent("lead", "architect")
        self.boss = self.client.add_agent("boss", "manager", self.lead)
        self.kid = self.client.add_agent("kid", "programmer", self.boss)

    def live(self, caller: Credential = LOCAL_ADMIN) -> list[str]:
        """Return the agents whose tokens a caller sees, in alphabetical order."""
        return sorted(row.agent_id for row in self.client.call("list_tokens", caller).tokens)

    def renew(self, caller: Credential, name: str = "lead", expires_in: str | None = None) -> Credential:
        """Get another token for an agent."""
        return Credential(token=self.client.call("agent_token", caller, name=name, expires_in=expires_in).token)


class TokenConformance:
    """Tokens and removed agents, on any back end."""

    def test_live_tokens_are_listed_for_the_admin_and_within_a_lineage(self, harness: Harness) -> None:
        team = TokenTeam(harness)
        assert team.live() == ["boss", "kid", "lead"]
        assert team.live(team.boss) == ["boss", "kid"]
        with expect_refusal("ROLE_FORBIDDEN"):
            team.live(team.kid)
        row = next(row for row in team.client.call("list_tokens").tokens if row.agent_id == "kid")
        assert (row.role, row.issued_by.rpartition("/")[2]) == ("programmer", "boss")
        assert parse_time(row.expires_at) - parse_time(row.issued_at) == 30 * DAY * 1_000_000
        harness.clock.advance(seconds=30 * DAY)
        assert team.live() == []

    def test_lists_of_tokens_go_on_after_a_cursor(self, harness: Harness) -> None:
        team = TokenTeam(harness)
        ids = [row.token_id for row in team.client.call("list_tokens").tokens]
        assert ids == sorted(ids, reverse=True)
        later = team.client.call("list_tokens", cursor=ids[0])
        assert [row.token_id for row in later.tokens] == ids[1:]
        with expect_refusal("FIELD_VALUE", "cursor"):
            team.client.call("list_tokens", cursor="nothing")

    def test_one_token_is_revoked_and_another_can_be_issued(self, harness: Harness) -> None:
        team = TokenTeam(harness)
        harness.clock.advance(seconds=1)  # ids of tokens are in the order of their time
        spare = team.renew(team.lead, "boss")
        boss = [row.token_id for row in team.client.call("list_tokens").tokens if row.agent_id == "boss"]
        assert team.client.call("revoke_tokens", team.lead, id=boss[-1]).tokens == 1
        for _ in range(2):
            with expect_refusal("TOKEN_REVOKED"):
                team.client.query("x", team.boss)
            team.client.query("x", spare)
            assert team.live(team.lead) == ["boss", "kid", "lead"]
            harness.delete_index()
            harness.reopen()
        with expect_refusal("TOKEN_NOT_FOUND", "id"):
            team.client.call("revoke_tokens", team.lead, id=boss[-1])
        assert harness.gateway.store.verify() == []

    def test_an_agents_tokens_are_revoked_with_its_descendants(self, harness: Harness) -> None:
        team = TokenTeam(harness)
        assert team.client.call("revoke_tokens", team.lead, agent="boss").tokens == 2
        assert team.live() == ["lead"]
        again = team.renew(team.lead, "boss")
        team.client.query("x", again)
        with expect_refusal("NOT_YOUR_DESCENDANT", "agent"):
            team.client.call("revoke_tokens", again, agent="lead")
        assert team.client.call("revoke_tokens", all=True).tokens == 2
        for caller in (team.lead, team.boss, team.kid, again):
            with expect_refusal("TOKEN_REVOKED"):
                team.client.query("x", caller)
        team.client.query("x", team.renew(LOCAL_ADMIN))
        assert harness.gateway.store.verify() == []

    def test_one_thing_is_revoked_at_a_time(self, harness: Harness) -> None:
        team = TokenTeam(harness)
        for fields in ({}, {"agent": "kid", "all": True}, {"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "agent": "kid"}):
            with expect_refusal("FIELD_MISSING"):
                team.client.call("revoke_tokens", **fields)
        with expect_refusal("ROLE_FORBIDDEN", "all"):
            team.client.call("revoke_tokens", team.lead, all=True)

    def test_an_agent_renews_its_token_up_to_the_ceiling_of_the_first(self, harness: Harness) -> None:
        team = TokenTeam(harness)
        ceiling_us = harness.clock.now() + 90 * DAY * 1_000_000
        token = team.lead
        for days in (29, 29):
            harness.clock.advance(seconds=days * DAY)
            token = team.renew(token)
        refusal = catch_refusal(lambda: team.renew(token, expires_in="P33D"))
        assert (refusal.code, refusal.field) == ("LIFETIME_TOO_LONG", "expires_in")
        assert refusal.limit == print_time(ceiling_us)
        harness.clock.advance(seconds=29 * DAY)
        last = team.client.call("agent_token", token, name="lead")
        assert parse_time(last.expires_at) == ceiling_us
        harness.clock.advance(seconds=3 * DAY)
        with expect_refusal("TOKEN_EXPIRED"):
            team.client.query("x", Credential(token=last.token))
        team.client.query("x", team.renew(LOCAL_ADMIN, expires_in="P90D"))  # an admin issues afresh

    def test_a_lower_ceiling_ends_tokens_that_are_older(self, harness: Harness) -> None:
        team = TokenTeam(harness)
        team.client.call("apply_policy", policy={"token_ttl": "PT1H", "max_token_ttl": "P1D"})
        team.client.query("x", team.lead)
        harness.clock.advance(seconds=DAY)
        with expect_refusal("TOKEN_EXPIRED"):
            team.client.query("x", team.lead)
        with expect_refusal("POLICY_INVALID", "token_ttl"):
            team.client.call("apply_policy", policy={"max_token_ttl": "P1D"})

    def test_no_grant_lives_longer_than_the_ceiling(self, harness: Harness) -> None:
        team = TokenTeam(harness)
        grant = {"child_id": "boss", "pointer": repo_ref("a.py")}
        refusal = catch_refusal(lambda: team.client.call("issue_grant", team.lead, **grant, expires_in="P8D"))
        assert (refusal.code, refusal.field) == ("LIFETIME_TOO_LONG", "expires_in")
        assert (refusal.limit, refusal.used) == ("P7D", "P8D")
        team.client.call("issue_grant", team.lead, **grant, expires_in="P7D")
        team.client.call("apply_policy", policy={"max_grant_ttl": "PT10M"})
        issued = team.client.call("issue_grant", team.lead, **grant)
        assert parse_time(issued.expires_at) == harness.clock.now() + 600_000_000

    def test_a_removed_agent_and_its_descendants_are_dead(self, harness: Harness) -> None:
        team = TokenTeam(harness)
        assert team.client.call("remove_agent", team.lead, name="boss").removed == ["boss", "kid"]
        for _ in range(2):
            assert [row.agent_id for row in team.client.call("list_agents").agents] == ["lead"]
            assert team.live() == ["lead"]
            for caller in (team.boss, team.kid, Credential(token=team.lead.token, speak_as="kid")):
                with expect_refusal("AGENT_REMOVED"):
                    team.client.query("x", caller)
            harness.delete_index()
            harness.reopen()
        for operation, fields in (
            ("agent_token", {"name": "boss"}),
            ("remove_agent", {"name": "boss"}),
            ("issue_grant", {"child_id": "kid", "pointer": repo_ref("a.py")}),
            ("add_agent", {"name": "new", "parent": "boss"}),
            ("send_message", {"text": "Go on.", "to": "boss"}),
        ):
            with expect_refusal("AGENT_REMOVED"):
                team.client.call(operation, team.lead, **fields)
        with expect_refusal("AGENT_EXISTS", "name"):
            team.client.add_agent("kid")
        assert harness.gateway.store.verify() == []

    def test_only_an_ancestor_or_an_admin_removes_an_agent(self, harness: Harness) -> None:
        team = TokenTeam(harness)
        with expect_refusal("NOT_YOUR_DESCENDANT", "name"):
            team.client.call("remove_agent", team.boss, name="lead")
        with expect_refusal("ROLE_FORBIDDEN", "name"):
            team.client.call("remove_agent", team.boss, name="boss")
        with expect_refusal("ROLE_FORBIDDEN"):
            team.client.call("remove_agent", team.kid, name="kid")
        assert team.client.call("remove_agent", name="lead").removed == ["lead", "boss", "kid"]

    def test_a_client_that_asks_again_gets_the_same_token(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        first = client.call("add_lead", goal="a session", session="s1")
        journal = harness.journal_bytes()
        again = client.call("add_lead", goal="a session", session="s1")
        assert again == first
        assert harness.journal_bytes() == journal
        harness.clock.advance(seconds=16 * DAY)
        assert client.call("add_lead", goal="a session", session="s1").token_id != first.token_id
        client.call("remove_agent", name=first.agent_id)
        with expect_refusal("AGENT_REMOVED"):
            client.call("add_lead", goal="a session", session="s1")

    def test_an_expired_token_leaves_the_index_with_the_next_one(self, harness: Harness) -> None:
        team = TokenTeam(harness)
        harness.clock.advance(seconds=31 * DAY)
        team.renew(LOCAL_ADMIN)
        assert team.live() == ["lead"]
        assert harness.gateway.store.verify() == []
