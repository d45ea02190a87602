"""Reservations: leases on paths, and what ends them."""  # BX-14

from __future__ import annotations

import msgspec

from engrambus.core.process_names import process_name
from engrambus.errors import PathReserved
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.testing.client import GatewayClient, catch_refusal, expect_refusal, same_changes
from engrambus.testing.conformance.messages import Team
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness

MINUTE = 60
"""Seconds of a minute."""
NO_PROCESS = process_name().partition("/")[0] + "/999999999.1"
"""Name of a process of this machine that has ended."""


def paths_of(client: GatewayClient, caller: Credential = LOCAL_ADMIN) -> list[list[str]]:
    """Return the paths of each reservation that a caller sees."""
    return [row.paths for row in client.call("list_reservations", caller).reservations]


class ReservationConformance:
    """Holders of paths, the others that learn of them, and when paths are free again."""

    def test_the_first_holder_has_the_paths_and_is_named_to_the_next(self, harness: Harness) -> None:
        team = Team(harness)
        made = team.client.call("reserve", team.paul, paths=["src/billing/**", "docs/a.md"], reason="refund rework")
        journal = harness.journal_bytes()
        for path in ("src/billing/refunds.py", "src/**/refunds.py", "src/billing/**", "**/a.md"):
            refusal = catch_refusal(lambda path=path: team.client.call("reserve", team.pia, paths=["x.py", path]))  # type: ignore[misc]
            assert isinstance(refusal, PathReserved)
            assert (refusal.code, refusal.status, refusal.field) == ("PATH_RESERVED", 409, "paths")
            assert (refusal.holder, refusal.reason) == ("paul", "refund rework")
            assert (refusal.expires_at, refusal.reservation) == (made.expires_at, made.reservation_id)
            assert refusal.path in ("src/billing/**", "docs/a.md")
        assert same_changes(harness.journal_bytes(), journal)
        other = team.client.call("reserve", team.pia, paths=["src/ledger/**"])
        harness.delete_index()
        harness.reopen()
        rows = team.client.call("list_reservations", team.pia).reservations
        assert [row.reservation_id for row in rows] == [made.reservation_id, other.reservation_id]
        assert [row.yours for row in rows] == [False, True]
        assert [row.reason for row in rows] == ["refund rework", ""]
        (concerns,) = team.client.call("list_reservations", team.pia, foreign=True).reservations
        assert concerns.agent == "paul"

    def test_reserving_the_same_paths_again_renews(self, harness: Harness) -> None:
        team = Team(harness)
        first = team.client.call("reserve", team.paul, paths=["a.py", "b.py"], reason="one", expires_in="PT10M")
        harness.clock.advance(seconds=9 * MINUTE)
        again = team.client.call("reserve", team.paul, paths=["b.py", "./a.py"], expires_in="PT10M")
        assert (again.reservation_id, again.reason) == (first.reservation_id, "one")
        assert again.expires_at > first.expires_at
        harness.clock.advance(seconds=9 * MINUTE)
        with expect_refusal("PATH_RESERVED"):
            team.client.call("reserve", team.pia, paths=["a.py"])
        harness.clock.advance(seconds=MINUTE)
        assert paths_of(team.client) == []
        assert team.client.call("reserve", team.pia, paths=["a.py"]).agent == "pia"
        harness.delete_index()
        harness.reopen()
        assert paths_of(team.client) == [["a.py"]]

    def test_descendants_work_under_a_reservation_and_ancestors_do_not(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("reserve", team.mia, paths=["src/**"], reason="split it up")
        assert team.client.call("check_reservations", team.paul, paths=["src/a.py"]).reserved == []
        team.client.call("reserve", team.paul, paths=["src/a.py"])
        for caller, holders in ((team.lead, {"mia", "paul"}), (team.mia, {"paul"}), (team.pia, {"paul"})):
            found = team.client.call("check_reservations", caller, paths=["src/a.py"])
            assert {row.agent for row in found.reserved} == holders
        with expect_refusal("PATH_RESERVED"):
            team.client.call("reserve", team.mia, paths=["src/a.py"])
        assert team.client.call("check_reservations", paths=["src/a.py"]).reserved  # a person is told, too

    def test_another_run_is_told_as_well(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        client.add_agent("lead", "architect")
        first = Credential(local_admin=True, speak_as="lead")
        client.call("reserve", first, paths=["src/a.py"])
        session = client.call("add_lead", goal="a session", session="s-1")
        other = Credential(token=session.token)
        (row,) = client.call("list_reservations", other).reservations
        assert (row.agent, row.yours) == ("lead", False)
        with expect_refusal("PATH_RESERVED"):
            client.call("reserve", other, paths=["src/**"])

    def test_release_by_id_by_path_and_all(self, harness: Harness) -> None:
        team = Team(harness)
        made = team.client.call("reserve", team.paul, paths=["a.py", "b.py", "src/**"])
        (part,) = team.client.call("release_reservations", team.paul, paths=["b.py", "src"]).released
        assert part.paths == ["b.py", "src/**"]
        assert paths_of(team.client) == [["a.py"]]
        with expect_refusal("RESERVATION_NOT_FOUND", "paths[1]"):
            team.client.call("release_reservations", team.paul, paths=["a.py", "b.py"])
        assert paths_of(team.client) == [["a.py"]]
        for stranger in (team.pia, Credential(local_admin=True, speak_as="pia")):
            with expect_refusal("RESERVATION_NOT_FOUND"):
                team.client.call("release_reservations", stranger, paths=[made.reservation_id])
        team.client.call("release_reservations", team.mia, paths=[made.reservation_id[:13]])
        assert paths_of(team.client) == []
        for caller, path in ((team.paul, "a.py"), (team.pia, "b.py"), (team.mia, "c.py"), (LOCAL_ADMIN, "d.py")):
            team.client.call("reserve", caller, paths=[path])
        team.client.call("release_reservations", team.mia)
        assert paths_of(team.client) == [["a.py"], ["b.py"], ["d.py"]]
        team.client.call("release_reservations", team.mia, all=True)
        assert paths_of(team.client) == [["d.py"]]
        journal = harness.journal_bytes()
        assert team.client.call("release_reservations", team.mia, all=True).released == []
        assert harness.journal_bytes() == journal
        team.client.call("reserve", team.lead, paths=["e.py"])
        assert len(team.client.call("release_reservations", all=True).released) == 2  # a person ends everyone's

    def test_the_end_of_run_and_agent_ends_their_reservations(self, harness: Harness) -> None:
        team = Team(harness)
        for caller, path in ((team.paul, "a.py"), (team.pia, "b.py"), (team.lead, "c.py")):
            team.client.call("reserve", caller, paths=[path])
        team.client.call("remove_agent", name="paul")
        assert paths_of(team.client) == [["b.py"], ["c.py"]]
        team.client.call("remove_agent", name="mia")
        assert paths_of(team.client) == [["c.py"]]
        run = team.client.call("list_agents").run_id
        team.client.open_run()
        assert paths_of(team.client) == [["c.py"]]
        team.client.call("end_run", run_id=run)
        assert paths_of(team.client) == []
        harness.delete_index()
        harness.reopen()
        assert paths_of(team.client) == []

    def test_a_reservation_ends_with_the_process_of_its_holder(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("reserve", team.paul, paths=["a.py"], process=process_name())
        team.client.call("reserve", team.paul, paths=["b.py"], process=NO_PROCESS)
        team.client.call("reserve", team.paul, paths=["c.py"], process="another-host/1.1")
        assert paths_of(team.client) == [["a.py"], ["c.py"]]
        assert team.client.call("check_reservations", team.pia, paths=["b.py"]).reserved == []
        assert team.client.call("reserve", team.pia, paths=["b.py"]).agent == "pia"
        assert b'"cause":"process_ended"' in harness.journal_bytes()
        with expect_refusal("FIELD_VALUE", "process"):
            team.client.call("reserve", team.pia, paths=["d.py"], process="no name")

    def test_ceilings_and_bad_paths(self, harness: Harness) -> None:
        team = Team(harness)
        ceilings = {"max_per_agent": 2, "max_paths": 3, "max_duration": "PT1H", "default_duration": "PT2H"}
        team.client.call("apply_policy", policy={"reservations": ceilings})
        journal = harness.journal_bytes()
        bad = ("/etc/passwd", "../other", "src/../../x", "a\nb", "  ", "\u202esrc")
        for path in bad:
            with expect_refusal("INVISIBLE_TEXT" if path == bad[-1] else "RESERVATION_PATH"):
                team.client.call("reserve", team.paul, paths=[path])
        for path in ("**", ".", "*/**", "*"):
            with expect_refusal("RESERVATION_PATH", "paths"):
                team.client.call("reserve", team.paul, paths=[path])
        with expect_refusal("FIELD_VALUE", "paths"):
            team.client.call("reserve", team.paul, paths=["a", "b", "c", "d"])
        with expect_refusal("LIFETIME_TOO_LONG", "expires_in"):
            team.client.call("reserve", team.paul, paths=["a"], expires_in="PT61M")
        assert same_changes(harness.journal_bytes(), journal)
        for path in ("a", "b"):
            made = team.client.call("reserve", team.paul, paths=[path])
        assert made.expires_at[11:16] == team.client.call("reserve", paths=["e"], expires_in="PT1H").expires_at[11:16]
        with expect_refusal("TOO_MANY_RESERVATIONS", "reservations.max_per_agent"):
            team.client.call("reserve", team.paul, paths=["c"])
        assert team.client.call("reserve", team.paul, paths=["b"]).reservation_id == made.reservation_id

    def test_the_mode_of_the_limit_decides_what_an_edit_meets(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("reserve", team.paul, paths=["src/**"], reason="rework")
        warned = team.client.call("check_reservations", team.pia, paths=["src/a.py", "b.py"])
        assert (warned.mode, [row.path for row in warned.reserved]) == ("warn", ["src/**"])
        assert team.client.call("stats", team.pia).team.warnings == 1
        modes = {"programmer": "enforce", "manager": "off"}
        team.client.call("apply_policy", policy={"limits": {"reservations": modes}})
        with expect_refusal("PATH_RESERVED", "paths"):
            team.client.call("check_reservations", team.pia, paths=["src/a.py"])
        assert team.client.call("check_reservations", team.pia, paths=["b.py"]).reserved == []
        assert team.client.call("check_reservations", team.mia, paths=["src/a.py"]).reserved == []
        assert team.client.call("check_reservations", team.lead, paths=["src/a.py"]).mode == "warn"

    def test_a_role_is_not_told_of_paths_that_it_may_not_see(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"visibility": {"programmer": {"paths": ["!secret/*"]}}})
        team.client.call("reserve", team.mia, paths=["secret/key.py"], reason="rotate the key")
        team.client.call("reserve", team.lead, paths=["secret/other.py", "open.py"], reason="both of them")
        (row,) = team.client.call("list_reservations", team.paul).reservations
        assert (row.paths, row.reason) == (["open.py"], "")
        stranger = team.client.add_agent("quinn", "programmer")
        for paths in (["secret/key.py"], ["secret/**"], ["**/key.py"]):
            assert team.client.call("check_reservations", stranger, paths=paths).reserved == []
            team.client.call("reserve", stranger, paths=paths)  # as if nothing were there
        refusal = catch_refusal(lambda: team.client.call("reserve", stranger, paths=["open.py"]))
        assert "both of them" not in str(refusal.problem())
        assert "secret" not in str(refusal.problem())
        lines = team.client.call("brief", stranger).lines
        assert [line for line in lines if "[reserved]" in line] == [
            f"[reserved] open.py by lead until {row.expires_at[11:16]}Z"
        ]

    def test_briefs_show_what_others_have_reserved_nearest_first(self, harness: Harness) -> None:
        team = Team(harness)
        other = team.client.call("reserve", team.paul, paths=["docs/**"], reason="new guide", expires_in="PT20M")
        near = team.client.call("reserve", team.lead, paths=["src/*.py"], reason="refund\nrework", expires_in="PT8H")
        quinn = team.client.add_agent("quinn", "programmer")
        team.client.deref(quinn, repo_ref("src/a.py"))
        answer = team.client.call("brief", quinn)
        lines = [line for line in answer.lines if line.startswith("[reserved]")]
        assert lines == [
            f"[reserved] src/*.py by lead until {near.expires_at[11:16]}Z: refund rework",
            f"[reserved] docs/** by paul until {other.expires_at[11:16]}Z: new guide",
        ]
        assert [line for line in team.client.call("brief", team.paul).lines if "[reserved]" in line] == []
        harness.clock.advance(seconds=21 * MINUTE)
        later = team.client.call("brief", quinn)
        assert [line for line in later.lines if "[reserved]" in line] == lines[:1]
        assert later.version == answer.version  # a lease that ends makes no new version

    def test_a_reason_is_prose_without_secrets(self, harness: Harness) -> None:
        team = Team(harness)
        with expect_refusal("SECRET_FOUND", "reason"):
            team.client.call("reserve", team.paul, paths=["a.py"], reason="key AKIA" + "Z7Q2M4X9P1L6K8T3")
        with expect_refusal("BUDGET_EXCEEDED"):
            code = "def refund(order):\n    return order.total * 2\n"
            team.client.call("reserve", team.paul, paths=["a.py"], reason=code)
        retried = msgspec.structs.replace(team.paul, idempotency_key="k")
        first = team.client.call("reserve", retried, paths=["a.py"])
        assert team.client.call("reserve", retried, paths=["a.py"]) == first
