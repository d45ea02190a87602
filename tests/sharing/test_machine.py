"""Any number of projects that share in any order come to the same set of events, and nothing said is lost."""  # BX-13

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.projects import git
from tests.sharing.team import Colleague, make_team

EXAMPLES = int(os.environ.get("ENGRAMBUS_MACHINE_EXAMPLES", "8"))
STEPS = int(os.environ.get("ENGRAMBUS_MACHINE_STEPS", "18"))
SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") else None  # in memory, because syncing is not tested here
NAMES = ("ada", "bob", "carl")
who = st.sampled_from(range(len(NAMES)))


class SharingMachine(RuleBasedStateMachine):
    """Three clones with a project each, one bare repository between them, real git, real commands."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=SCRATCH, prefix="engrambus-"))
        self.patch = pytest.MonkeyPatch()
        self.team = make_team(self.folder, self.patch, *NAMES)
        self.own: list[dict[str, str]] = [{} for _ in NAMES]
        """The live claims of each, by id."""
        self.trusted: list[set[str]] = [set() for _ in NAMES]
        """Ids of what each has confirmed."""
        self.away = False
        self.number = 0
        self.seen: dict[str, set[str]] = {}
        """Every line that the hub ever had, by file."""

    @rule(at=who)
    def put(self, at: int) -> None:
        self.number += 1
        claim = f"The cache number {self.number} is warm."
        self.own[at][self.team[at].put(claim)] = claim

    @rule(at=who)
    def confirm(self, at: int) -> None:
        """Trust what a colleague said; its author may change its mind later."""
        rows = self.team[at].json("feed", "--untrusted", "--k", "50")["rows"]
        if rows:
            engram_id = min(row["engram"]["id"] for row in rows)
            self.team[at].ok("confirm", engram_id)
            self.trusted[at].add(engram_id)

    @rule(at=who)
    def replace(self, at: int) -> None:
        if self.own[at]:
            older = sorted(self.own[at])[0]
            self.number += 1
            claim = f"The cache number {self.number} is cold."
            newer = self.team[at].put(claim, "--replaces", older)
            del self.own[at][older]
            self.own[at][newer] = claim

    @rule(at=who)
    def forget(self, at: int) -> None:
        if len(self.own[at]) > 1:
            engram_id = sorted(self.own[at])[-1]
            self.team[at].ok("forget", engram_id)
            del self.own[at][engram_id]

    @rule(at=who)
    def pin(self, at: int) -> None:
        if self.own[at]:
            self.team[at].ok("pin", sorted(self.own[at])[0])

    @rule(at=who)
    def sync(self, at: int) -> None:
        result = self.team[at].run("sync")
        assert result.code == int(self.away), result
        self.check_hub()

    @rule(at=who, other=who)
    def import_files(self, at: int, other: int) -> None:
        """Take on what a colleague has exported to files, as from a pull request."""
        self.team[other].ok("export")
        folder = self.team[other].path / "engrams"
        if folder.is_dir():
            self.team[at].ok("import", "--from", str(folder))

    @precondition(lambda self: not self.away)
    @rule()
    def lose_the_hub(self) -> None:
        (self.folder / "hub.git").rename(self.folder / "away.git")
        self.away = True

    @precondition(lambda self: self.away)
    @rule()
    def find_the_hub(self) -> None:
        (self.folder / "away.git").rename(self.folder / "hub.git")
        self.away = False

    def check_hub(self) -> None:
        """Check that no line that was shared is gone."""
        if self.away or not git(self.folder / "hub.git", "for-each-ref", "refs/heads/shared-engrams"):
            return
        hub = Colleague(self.folder / "hub.git", self.folder, self.patch)
        shared = hub.shared()
        for name, lines in self.seen.items():
            assert lines <= shared[name]
        self.seen = shared

    def teardown(self) -> None:
        try:
            if self.away:
                self.find_the_hub()
            for colleague in (*self.team, *self.team):
                colleague.ok("sync")
            self.check_hub()
            if self.seen:
                self.check_agreement()
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder)

    def check_agreement(self) -> None:
        """Check that all have the same events, and find what any of them states."""
        for colleague in self.team:
            assert colleague.shared() == self.seen
        stated = {engram_id: claim for own in self.own for engram_id, claim in own.items()}
        for colleague, own, trusted in zip(self.team, self.own, self.trusted, strict=True):
            rows = colleague.json("feed", "--untrusted", "--k", "50")["rows"]
            found = {row["engram"]["id"]: row["engram"]["claim"] for row in rows}
            assert found == {
                engram_id: claim for engram_id, claim in stated.items() if engram_id not in {*own, *trusted}
            }


TestSharing = SharingMachine.TestCase
TestSharing.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="ENGRAMBUS_MACHINE_EXAMPLES" not in os.environ,
)
