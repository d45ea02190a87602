"""Engrams that others share through git: taken on once, followed until a person decides, exported as events."""

from __future__ import annotations

from typing import Any

from engrambus.core import SECOND_US, print_time
from engrambus.knowledge.engrams import ForeignEngram
from engrambus.knowledge.sharing import ImportableEngram
from engrambus.operations.sharing import ExportAnswer, ImportAnswer
from engrambus.testing.client import GatewayClient
from engrambus.testing.conformance.adoption import FOREIGN_ID, ORIGIN, foreign_engram
from engrambus.testing.harness import Harness

KEY = "ed25519:" + "A" * 43
OTHER_KEY = "ed25519:" + "B" * 43
NEWER_ID = "01KDVP9R00FQREJGN000000002"
RIVAL_ID = "01KDVP9R00FQREJGN000000003"
OWN_CLAIM = "The ledger keeps a lease."
DAY_US = 86_400 * SECOND_US


class Importing:
    """A project that imports what others share."""

    def __init__(self, harness: Harness) -> None:
        self.client = GatewayClient(harness)
        self.harness = harness

    def item(
        self,
        engram_id: str = FOREIGN_ID,
        *,
        key: str = KEY,
        left_us: int = 10 * DAY_US,
        pinned: bool = False,
        **more: Any,
    ) -> ImportableEngram:
        """Return an engram of others that has this long to live."""
        names = ("replaces", "replaced_by", "withdrawn")
        changes = {name: more.pop(name) for name in names if name in more}
        return ImportableEngram(
            foreign=ForeignEngram(
                fields=foreign_engram(engram_id=engram_id, **more),
                expires_us=self.harness.clock.now() + left_us,
                pinned=pinned,
            ),
            id=engram_id,
            key=key,
            project=ORIGIN,
            made_us=1_700_000_000 * SECOND_US,
            **changes,
        )

    def take(self, *items: ImportableEngram) -> list[str]:
        """Import engrams and return the verdict, or the code of the refusal, of each."""
        answer: ImportAnswer = self.client.call("import_shared", engrams=list(items))
        return [row.verdict or row.code for row in answer.engrams]

    def export(self) -> ExportAnswer:
        """Return the events that may leave."""
        answer: ExportAnswer = self.client.call("export_engrams")
        return answer

    def about(self, engram_id: str) -> Any:
        """Return what is known about an engram."""
        return self.client.call("show_engram", id=engram_id).about[engram_id]

    def check(self) -> None:
        """Compare the index with one that is built again."""
        assert self.harness.gateway.store.verify() == []
        self.harness.delete_index()
        self.harness.reopen()


class SharingConformance:
    """What becomes of engrams that others share, and which events leave."""  # BX-13

    def test_an_import_is_untrusted_and_happens_once(self, harness: Harness) -> None:
        project = Importing(harness)
        item = project.item(replaces=(NEWER_ID,), pinned=True)
        assert project.take(item) == ["new"]
        assert project.take(item) == ["known"]
        project.check()
        assert project.take(item, item) == ["known", "known"]
        mark = project.about(FOREIGN_ID).untrusted
        assert (mark.origin, mark.key, mark.replaces, mark.pinned) == (ORIGIN, KEY, (NEWER_ID,), True)
        assert project.about(FOREIGN_ID).signer.key == KEY
        assert item.foreign.fields["claim"] not in "\n".join(project.client.call("brief").lines)

    def test_copies_in_one_import_are_one(self, harness: Harness) -> None:
        project = Importing(harness)
        assert project.take(project.item(), project.item(key=OTHER_KEY)) == ["new", "known"]
        assert project.take(project.item(key=OTHER_KEY)) == ["known"]

    def test_another_claim_under_the_same_id_gets_another(self, harness: Harness) -> None:
        project = Importing(harness)
        rival = project.item(key=OTHER_KEY, claim="The ledger is a lie.")
        assert project.take(project.item(), rival) == ["new", "new"]
        assert project.take(project.item(), rival) == ["known", "known"]
        assert len(project.client.call("feed", untrusted=True).rows) == 2

    def test_what_ends_there_ends_here_until_a_person_has_trusted_it(self, harness: Harness) -> None:
        project = Importing(harness)
        project.take(project.item(), project.item(NEWER_ID, claim="The ledger is small."))
        assert project.take(project.item(withdrawn=True)) == ["withdrawn"]
        assert project.take(project.item(NEWER_ID, claim="The ledger is small.", replaced_by=RIVAL_ID)) == ["replaced"]
        assert project.client.call("feed", untrusted=True).rows == []
        assert project.take(project.item(), project.item(NEWER_ID, claim="The ledger is small.")) == ["known", "known"]
        assert project.take(project.item(RIVAL_ID, claim="The ledger is new.")) == ["new"]
        project.client.call("confirm_engram", id=RIVAL_ID)
        assert project.take(project.item(RIVAL_ID, claim="The ledger is new.", withdrawn=True)) == ["known"]
        project.check()
        assert [engram.id for engram in project.client.query("ledger").engrams] == [RIVAL_ID]

    def test_what_ended_before_it_came_is_left_out(self, harness: Harness) -> None:
        project = Importing(harness)
        items = [project.item(withdrawn=True), project.item(replaced_by=NEWER_ID), project.item(left_us=-1)]
        assert [verdict for item in items for verdict in project.take(item)] == ["ended"] * 3

    def test_one_that_ran_out_here_and_was_confirmed_there_comes_back_once(self, harness: Harness) -> None:
        project = Importing(harness)
        project.take(project.item(left_us=DAY_US))
        harness.clock.advance(seconds=2 * 86_400)
        assert project.take(project.item(left_us=-DAY_US)) == ["known"]
        renewed = project.item(left_us=10 * DAY_US)
        assert project.take(renewed) == ["new"]
        assert project.take(renewed) == ["known"]
        (row,) = project.client.call("feed", untrusted=True).rows
        assert row.about.untrusted.id == FOREIGN_ID
        project.client.call("forget_engram", id=row.engram.id)
        assert project.take(renewed) == ["known"], "a person has forgotten it"

    def test_an_own_engram_is_known_and_its_id_is_not_given_away(self, harness: Harness) -> None:
        project = Importing(harness)
        own = project.client.put(OWN_CLAIM)
        assert project.take(project.item(own.id, claim=OWN_CLAIM, kind=own.kind)) == ["known"]
        assert project.take(project.item(own.id)) == ["ID_TAKEN"]

    def test_rivals_are_marked_and_a_confirmed_one_takes_the_place(self, harness: Harness) -> None:
        project = Importing(harness)
        own = project.client.put(OWN_CLAIM)
        rivals = [
            project.item(NEWER_ID, claim="The ledger keeps two leases.", replaces=(own.id,)),
            project.item(RIVAL_ID, claim="The ledger keeps three leases.", replaces=(own.id,), key=OTHER_KEY),
        ]
        assert project.take(*rivals) == ["new", "new"]
        assert project.about(NEWER_ID).conflicts == [RIVAL_ID]
        assert project.about(RIVAL_ID).conflicts == [NEWER_ID]
        assert sorted(project.about(own.id).replaced_elsewhere) == [NEWER_ID, RIVAL_ID]
        project.check()
        assert project.client.call("confirm_engram", id=NEWER_ID).replaced == [own.id]
        assert project.about(own.id).replaced_by == NEWER_ID
        assert project.about(RIVAL_ID).conflicts == [NEWER_ID]
        assert project.about(NEWER_ID).conflicts == [RIVAL_ID]

    def test_what_breaks_a_rule_is_refused_alone(self, harness: Harness) -> None:
        project = Importing(harness)
        bad = project.item(claim="Use ghp_q7Zp2Lx9Vb4Nc8Kd1Wf6Rt3Yh5Jm0Gs2Qa7B here.")
        assert project.take(bad, project.item(NEWER_ID)) == ["SECRET_FOUND", "new"]
        assert project.take(project.item(RIVAL_ID, scope="run")) == ["SCOPE_FORBIDDEN"]

    def test_an_export_holds_what_the_project_states_and_nothing_else(self, harness: Harness) -> None:
        project = Importing(harness)
        own = project.client.put(OWN_CLAIM)
        hidden = project.client.put("Only this run knows it.", scope="run")
        project.take(project.item())
        project.client.call("pin_engram", id=own.id)
        (engram,) = project.export().engrams
        assert (engram.id, engram.live, [event.event for event in engram.events]) == (own.id, True, ["put", "pinned"])
        put = engram.events[0]
        assert (put.claim, put.by, put.pointers) == (OWN_CLAIM, own.provenance.created_by, own.pointers)
        assert project.export() == project.export()
        project.client.call("promote_engram", id=hidden.id)
        project.client.call("confirm_engram", id=FOREIGN_ID)
        exported = {engram.id: [event.event for event in engram.events] for engram in project.export().engrams}
        assert exported == {own.id: ["put", "pinned"], hidden.id: ["put"], FOREIGN_ID: ["confirmed"]}
        project.client.call("forget_engram", id=own.id)
        before = project.export()
        ended = {engram.id: engram.live for engram in before.engrams}
        assert ended == {own.id: False, hidden.id: True, FOREIGN_ID: True}
        harness.reopen()
        assert project.export() == before

    def test_a_replacing_claim_and_a_repeated_one_are_events(self, harness: Harness) -> None:
        project = Importing(harness)
        older = project.client.put(OWN_CLAIM)
        newer = project.client.put("The ledger keeps two leases.", replaces=older.id)
        events = {engram.id: engram.events for engram in project.export().engrams}
        assert events[newer.id][0].replaces == (older.id,)
        assert (events[older.id][1].event, events[older.id][1].other) == ("replaced", newer.id)
        project.client.call("confirm_engram", id=newer.id)
        assert len(project.export().engrams[1].events) == 1, "it lives no longer than before"
        harness.clock.advance(seconds=60 * 86_400)
        confirmed = project.client.call("confirm_engram", id=newer.id)
        (event,) = project.export().engrams[1].events[1:]
        assert (event.event, event.expires) == ("confirmed", confirmed.expires_at)
        assert print_time(harness.clock.now())[:10] == event.at[:10]
