"""A project that has every file the bus makes: for tests that damage some of them."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from engrambus.app import open_worker_dependencies
from engrambus.gateway import LOCAL_ADMIN, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from engrambus.space.tuples import TupleSpace, read_pattern
from engrambus.space.work import LaneWorkerPool, ProcessRunner
from engrambus.testing.work import PERSON
from tests.projects import make_gateway, make_repository
from tests.space.worker_harness import CATALOG, MODULE, YOOLS, step

ENGRAMS = 60
TUPLES = 6
WORDS = ("orbit", "ledger", "parser", "cursor", "lease")


def call(gateway: Gateway, operation: str, **fields: Any) -> Any:
    """Call an operation as the admin."""
    declared = OPERATIONS[operation]
    return gateway.call(declared, to_request(fields, declared.request), LOCAL_ADMIN)


class WholeProject:
    """A project in a folder of its own, with its home."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings.from_environment({"HOME": str(folder / "home"), "PATH": os.environ["PATH"]})

    @property
    def root(self) -> Path:
        """The repository."""
        return self.folder / "repo"

    @property
    def derived(self) -> Path:
        """The folder of what is made from the journals and from git."""
        (derived,) = (self.root / ".catalog").glob("derived-*")
        return derived

    def make(self) -> None:
        """Make a project with engrams, work, and every file that is made from them."""
        make_repository(self.root)
        with closing(make_gateway(self.root, self.settings)) as gateway:
            drafts = [
                {
                    "claim": f"The {WORDS[number % 5]} number {number} keeps its {WORDS[number % 3]} value in a table.",
                    "kind": ("fact", "risk", "decision")[number % 3],
                    "pointers": [{"type": "repo", "ref": f"src/parser.py:{1 + number % 20}-{2 + number % 20}"}],
                }
                for number in range(ENGRAMS)
            ]
            call(gateway, "put_engrams", engrams=drafts)
            self._work(gateway)
            call(gateway, "query_engrams", q="parser table")
            call(gateway, "anchor_text", text="line 7 of the parser\nline 8 of the parser\nline 9 of the parser\n")

    def _work(self, gateway: Gateway) -> None:
        """Put tuples, and work them off."""
        deps = open_worker_dependencies(gateway, self.settings)
        runner = ProcessRunner(deps.bodies, gateway.project_files.state_path("scratch"), deps.clock, [MODULE])
        deps = msgspec.structs.replace(deps, registry=YOOLS, catalog=lambda: CATALOG, runner=runner)
        # The project's catalog does not declare the tests' yools, so tuples are put without it.
        space = TupleSpace(deps.space.store, settings=deps.space.settings)
        run = gateway.identify(LOCAL_ADMIN).run.run_id
        for number in range(TUPLES):
            space.out(
                {"lane": "build", "payload": [step("agent.sum.numbers", a=number, b=1)]}, authority=PERSON, run=run
            )
        LaneWorkerPool(deps, read_pattern({"lane": "build"}), concurrency=1).run(until_empty=True)
        runner.close()
