"""Part 2: the states that a power cut can leave, rebuilt from a recorded run of the writer.

What was synced is there. Of what was not, the disk may have any part: writes in any order and torn between sectors of
512 bytes, a file that has grown and holds zeros, changes of a folder that was not synced yet or not. No file system
leaves all of these; whoever survives them survives each of them (decision 99).
"""

from __future__ import annotations

import os
import random
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

from engrambus.core import clock
from tests.torture.notes import Notes, Problem, check_project, in_process
from tests.torture.outcome import Outcome
from tests.torture.recording import Node, Note, Operation, Recording, Rename, Sync, Truncate, Write, record
from tests.torture.workload import WRITES, TortureProject, create_torture_project

SECTOR_BYTES = 512
UNSYNCED_COPIES = ("receipts/", "sam/", "derived-")
"""Copies that are not synced: a power cut may leave them torn, and `verify --repair` makes them again (decision 94)."""
VARIANTS = ("dropped", "kept", "some", "torn", "grown", "tail torn")
"""What becomes of operations that were not synced: none, all, whole ones or single sectors by chance, none but with
files that have grown, or everything but a part of the last write of each file."""


def cut_power_everywhere(folder: Path, outcome: Outcome, *, rounds: int | None, seed: int) -> None:
    """Rebuild the states after every operation in every variant, or `rounds` of them, and check each."""
    project = create_torture_project(folder / "project")
    recording = record(project, WRITES)
    Notes(item.text for item in recording.operations if isinstance(item, Note)).check_undisturbed()
    _check_replay(project, recording)
    states = [(length, variant) for length in range(len(recording.operations) + 1) for variant in VARIANTS]
    # A state that differs from the one before only by what is synced, or by a note, is still another promise.
    for length, variant in outcome.choose(states, rounds, seed):
        case = f"operation {length} of {len(recording.operations)}, {variant}"
        dice = random.Random(f"{seed} {length} {variant}")
        write_state(recording, length, variant, dice, project.catalog)
        notes = Notes(item.text for item in recording.operations[:length] if isinstance(item, Note))
        outcome.add(case, notes.acknowledged, in_process(lambda notes=notes: _check_after_restart(project, notes)))  # type: ignore[misc]


def _check_after_restart(project: TortureProject, notes: Notes) -> list[Problem]:
    restart_machine()
    return check_project(project, notes, repaired=UNSYNCED_COPIES)


def restart_machine() -> None:
    """Give this process another boot id: a power cut means a new boot."""
    # The id is read from a path below /proc, which only root could cover with another file; so the reader of this
    # forked process is given another path. No production code knows of it.
    other = str(uuid.uuid4())

    class OtherBoot(type(Path())):  # type: ignore[misc]
        def read_text(self, *arguments: object, **options: object) -> str:
            return other if self.name == "boot_id" else str(super().read_text(*arguments, **options))

    setattr(clock, "Path", OtherBoot)  # noqa: B010 - a class is no value that mypy lets one assign
    clock.boot_id.cache_clear()
    assert clock.boot_id() == other


def _check_replay(project: TortureProject, recording: Recording) -> None:
    """Check that the recording is complete: everything kept gives the very files that the writer left."""
    rebuilt = project.folder / "rebuilt"
    write_state(recording, len(recording.operations), "kept", random.Random(0), rebuilt)
    assert _files(rebuilt) == _files(project.catalog), "the recording lacks something"


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")
    }


def write_state(recording: Recording, length: int, variant: str, dice: random.Random, target: Path) -> None:
    """Write the files that a power cut after `length` operations may leave into a folder."""
    operations = recording.operations[:length]
    synced: dict[Node, int] = {item.node: number for number, item in enumerate(operations) if isinstance(item, Sync)}
    folders = _folders(recording, operations, synced, variant, dice)
    shutil.rmtree(target, ignore_errors=True)
    _write_folder(recording.root, folders, _contents(operations, synced, variant, dice), target)


def _write_folder(node: Node, folders: dict[Node, dict[str, Node]], contents: dict[Node, bytes], target: Path) -> None:
    target.mkdir(mode=0o700)
    for name, child in folders.get(node, {}).items():
        if child.content is None:
            _write_folder(child, folders, contents, target / name)
        else:
            descriptor = os.open(target / name, os.O_WRONLY | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(contents.get(child, child.content))


def _folders(
    recording: Recording, operations: list[Operation], synced: dict[Node, int], variant: str, dice: random.Random
) -> dict[Node, dict[str, Node]]:
    """Return what each folder holds."""
    folders: dict[Node, dict[str, Node]] = {}
    for path, node in recording.initial.items():
        above, _, name = path.rpartition("/")
        if above in recording.initial:
            folders.setdefault(recording.initial[above], {})[name] = node
    for number, item in enumerate(operations):
        if not isinstance(item, Rename):
            continue
        # A rename between two folders counts as synced with either of them: it is one change.
        durable = any(synced.get(folder, -1) > number for folder, _, _ in item.places)
        if durable or _keeps(variant, dice):
            for folder, name, child in item.places:
                entries = folders.setdefault(folder, {})
                if child is None:
                    entries.pop(name, None)
                else:
                    entries[name] = child
    return folders


def _keeps(variant: str, dice: random.Random) -> bool:
    """Return whether an unsynced change as a whole is on the disk."""
    match variant:
        case "kept" | "tail torn":
            return True
        case "dropped":
            return False
        case "grown":
            return dice.random() < 0.8  # a file that is not there cannot have grown
        case _:
            return dice.random() < 0.5


def _contents(
    operations: list[Operation], synced: dict[Node, int], variant: str, dice: random.Random
) -> dict[Node, bytes]:
    """Return what is in each file that was changed."""
    last = {item.node: number for number, item in enumerate(operations) if isinstance(item, Write)}
    contents: dict[Node, bytearray] = {}
    for number, item in enumerate(operations):
        if not isinstance(item, Write | Truncate):
            continue
        content = contents.setdefault(item.node, bytearray(item.node.content or b""))
        durable = synced.get(item.node, -1) > number
        if isinstance(item, Truncate):
            if durable or _keeps(variant, dice):
                _resize(content, item.size)
        elif durable:
            _overwrite(content, item.offset, item.data)
        else:
            _write_unsynced(content, item, variant, dice, is_last=last[item.node] == number)
    return {node: bytes(content) for node, content in contents.items()}


def _write_unsynced(content: bytearray, item: Write, variant: str, dice: random.Random, *, is_last: bool) -> None:
    if variant == "torn" or (variant == "tail torn" and is_last):
        for offset, sector in _sectors(item):
            if dice.random() < 0.5:
                _overwrite(content, offset, sector)
    elif variant == "grown":
        _resize(content, max(len(content), item.offset + len(item.data)))
    elif _keeps(variant, dice):
        _overwrite(content, item.offset, item.data)


def _sectors(item: Write) -> Iterable[tuple[int, bytes]]:
    """Yield the parts of a write that reach the disk as wholes, with their offsets."""
    start, end = item.offset, item.offset + len(item.data)
    while start < end:
        stop = min(end, start - start % SECTOR_BYTES + SECTOR_BYTES)
        yield start, item.data[start - item.offset : stop - item.offset]
        start = stop


def _resize(content: bytearray, size: int) -> None:
    if size <= len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _overwrite(content: bytearray, offset: int, data: bytes) -> None:
    if offset > len(content):
        _resize(content, offset)
    content[offset : offset + len(data)] = data
