"""Flips of one byte, and truncations, of every file made from the journals: no wrong answer and no traceback.

A project is made once. Each round copies it, damages one file, asks a fixed list of questions and compares the answers
with those of the undamaged project. `run_flips` is called by the suite with few rounds and by `make torture` with many.
"""

from __future__ import annotations

import os
import random
import shutil
import traceback
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from engrambus.app import open_project, open_worker_dependencies
from engrambus.edges.integrations.doctor import examine
from engrambus.errors import EngramBusError
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


class FlipCounts(msgspec.Struct):
    """What became of the damages of one file."""

    file: str
    rounds: int = 0
    wrong: list[str] = []
    """Damages after which an answer was another one."""
    raised: list[str] = []
    """Damages after which a question ended in an exception that is no refusal of ours, or in a refusal."""


def run_flips(folder: Path, rounds: int, seed: int = 0, *, every_check: int = 10) -> list[FlipCounts]:
    """Damage each derived file `rounds` times in an empty folder; return what became of that, by file."""
    whole = TorturedProject(folder / "whole")
    whole.make()
    expected = whole.answers()
    results = []
    for name in whole.derived_files():
        counts = FlipCounts(file=name)
        chance = random.Random(f"{seed} {name}")
        for number in range(rounds):
            copy = TorturedProject(folder / "copy")
            shutil.copytree(whole.folder, copy.folder, symlinks=True)
            what = damage(copy.derived / name, chance)
            counts.rounds += 1
            try:
                if number % every_check == 0:
                    copy.check()
                answers = copy.answers()
                if answers != expected:
                    different = [question for question in expected if answers[question] != expected[question]]
                    counts.wrong.append(f"{name} {what}: {', '.join(different)}")
            except Exception:
                counts.raised.append(f"{name} {what}: {traceback.format_exc(limit=-6)}")
            finally:
                shutil.rmtree(copy.folder)
        results.append(counts)
    return results


def damage(path: Path, chance: random.Random) -> str:
    """Flip a bit of a random byte, or cut the file at a random length, a page's or any; return what was done."""
    size = path.stat().st_size
    kind = chance.choice(("flip", "flip", "flip", "cut", "cut at a page"))
    if kind == "flip":
        offset, bit = chance.randrange(size), 1 << chance.randrange(8)
        with path.open("r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ bit]))
        return f"flip at {offset} of {bit}"
    length = chance.randrange(size)
    if kind == "cut at a page":
        length -= length % 4096
    os.truncate(path, length)
    return f"cut at {length} of {size}"


class TorturedProject:
    """A project whose derived files are damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.settings = Settings.from_environment({"HOME": str(self.home), "PATH": os.environ["PATH"]})

    @property
    def root(self) -> Path:
        """The repository."""
        return self.folder / "repo"

    @property
    def derived(self) -> Path:
        """The folder of what is made from the journals and from git."""
        (derived,) = (self.root / ".catalog").glob("derived-*")
        return derived

    def derived_files(self) -> list[str]:
        """Return the names of the files that have content."""
        names = (str(path.relative_to(self.derived)) for path in self.derived.rglob("*") if path.is_file())
        return sorted(name for name in names if (self.derived / name).stat().st_size)

    def make(self) -> None:
        """Make a project with engrams, work, and every file that is made from them."""
        make_repository(self.root)
        with closing(make_gateway(self.root, self.settings)) as gateway:
            words = ("orbit", "ledger", "parser", "cursor", "lease")
            drafts = [
                {
                    "claim": f"The {words[number % 5]} number {number} keeps its {words[number % 3]} value in a table.",
                    "kind": ("fact", "risk", "decision")[number % 3],
                    "pointers": [{"type": "repo", "ref": f"src/parser.py:{1 + number % 20}-{2 + number % 20}"}],
                }
                for number in range(ENGRAMS)
            ]
            call(gateway, "put_engrams", engrams=drafts)
            self._work(gateway)
            list(self._ask(gateway))

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

    def answers(self) -> dict[str, Any]:
        """Open the project anew and return the answer to each question."""
        with closing(open_project(self.root, self.settings)) as gateway:
            return dict(self._ask(gateway))

    def check(self) -> None:
        """Run `verify` and `doctor`: they may find anything, but must not fail."""
        list(examine(self.root, self.settings))
        with closing(open_project(self.root, self.settings)) as gateway, suppress(EngramBusError):
            call(gateway, "verify")

    def _ask(self, gateway: Gateway) -> Iterator[tuple[str, Any]]:
        for text in ("orbit value", "ledger number 7", "parser table", "lease", "nothing of the kind"):
            yield f"query {text}", call(gateway, "query_engrams", q=text)
        yield "runs", call(gateway, "list_runs")
        with gateway.tuple_space.space.store.read() as view:
            receipts = view.list_receipts(None, limit=100, after=0)
        for _, receipt in receipts:
            yield f"receipt {receipt.id}", call(gateway, "receipt_get", id=receipt.id)
            yield f"check {receipt.id}", call(gateway, "receipt_verify", id=receipt.id)
        anchored = "line 7 of the parser\nline 8 of the parser\nline 9 of the parser\n"
        yield "anchor", call(gateway, "anchor_text", text=anchored)
        yield "tuples", call(gateway, "list_work")


def call(gateway: Gateway, operation: str, **fields: Any) -> Any:
    """Call an operation as the admin; return its answer as JSON's values, without times."""
    declared = OPERATIONS[operation]
    answer = gateway.call(declared, to_request(fields, declared.request), LOCAL_ADMIN)
    return _timeless(msgspec.to_builtins(answer))


_TIMES = frozenset({"as_of", "age", "age_s", "expires_in", "ttl", "took_ms", "now", "uptime", "index_bytes", "disk"})


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(part) for name, part in value.items() if name not in _TIMES}
    if isinstance(value, list):
        return [_timeless(part) for part in value]
    return value
