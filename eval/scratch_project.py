"""A project of its own for one measurement: created in a scratch folder, filled through the bus, removed afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from engrambus import Bus, EngramBusError, Pointer, PutEngram, Settings
from engrambus.app import init_project, open_project
from engrambus.gateway import Credential
from engrambus.testing.clock import ManualClock, SeededRandomness
from eval.dataset import Item
from eval.git_history import run_git

BATCH = 500
"""Most engrams of one call."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder that is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="engrambus-eval-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def clone_at(repository: Path, commit: str, folder: Path) -> Path:
    """Check a commit out in a clone: pointers at it are current, and the repository itself stays as it is."""
    run_git(folder, "clone", "--quiet", "--no-checkout", str(repository.resolve()), "clone")
    clone = folder / "clone"
    run_git(clone, "checkout", "--quiet", "--detach", commit)
    return clone


def commit_text(folder: Path, files: dict[str, str]) -> tuple[Path, str]:
    """Create a repository with these files in one commit; return it and the commit's id."""
    repository = folder / "texts"
    repository.mkdir()
    for name, text in files.items():
        (repository / name).write_text(text, "utf-8")
    run_git(repository, "init", "--quiet", "--initial-branch=main")
    run_git(repository, "add", "--all")
    who = ("-c", "user.name=eval", "-c", "user.email=eval@example.invalid")
    run_git(repository, *who, "commit", "--quiet", "--message=Add the texts")
    return repository, run_git(repository, "rev-parse", "HEAD").strip()


class Filled(NamedTuple):
    """A bus with every item on it that was accepted."""

    bus: Bus
    positions: dict[str, int]
    """Position of the item by the engram's id."""
    refused: Counter[str]
    """How many items were refused, by the code of the error."""


@contextmanager
def filled_bus(repository: Path, items: Sequence[Item]) -> Iterator[Filled]:
    """Create a project in a repository and put the items in order, by one author."""
    init_project(repository, _settings(repository), clock=ManualClock(), randomness=SeededRandomness())
    with open_bus(repository) as bus:
        filled = Filled(bus, {}, Counter())
        for start in range(0, len(items), BATCH):
            _put(filled, items, range(start, min(start + BATCH, len(items))))
        yield filled


def open_bus(repository: Path, *, semantic: bool = False) -> Bus:
    """Open the project of a repository as its admin; with `semantic` questions are answered by meaning, too."""
    # Ids and times decide ties, so both are the same in every run.
    gateway = open_project(
        repository, _settings(repository, semantic=semantic), clock=ManualClock(), randomness=SeededRandomness(1)
    )
    admin = Credential(local_admin=True, any_file=True)
    return Bus(gateway, admin, on_warning=lambda _: None, worktree=repository)


def _settings(repository: Path, *, semantic: bool = False) -> Settings:
    environment = {"HOME": str(repository.parent / "home")}
    return Settings.from_environment({**environment, "ENGRAMBUS_SEMANTIC": "1"} if semantic else environment)


def _put(filled: Filled, items: Sequence[Item], batch: range) -> None:
    """Put some items in one call; if it is refused, in halves, until only the refused item is left out."""
    try:
        answer = filled.bus.put_engrams([_draft(items[position]) for position in batch])
    except EngramBusError as refusal:
        if len(batch) == 1:
            filled.refused[refusal.code] += 1
            return
        middle = len(batch) // 2
        _put(filled, items, batch[:middle])
        _put(filled, items, batch[middle:])
        return
    for position, engram_id in zip(batch, answer.ids, strict=True):
        filled.positions.setdefault(engram_id, position)


def _draft(item: Item) -> PutEngram:
    pointers: list[Pointer | str] = [Pointer(type=cast("Any", ref.partition(":")[0]), ref=ref) for ref in item.refs]
    return PutEngram(claim=item.claim, kind=cast("Any", item.kind), pointers=pointers, scope="project")
