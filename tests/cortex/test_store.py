"""The episodic store on disk: a copy of the journal that repairs itself, read by the memory controller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import engrambus
from engrambus.core import canonical
from engrambus.gateway import LOCAL_ADMIN
from engrambus.knowledge.memory.records import read_record
from tests.cortex.conftest import Team

WRITER = """
import sys
from collections.abc import Callable
from pathlib import Path
from engrambus.app import open_project
from engrambus.gateway import LOCAL_ADMIN, to_request
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
gateway = open_project(Path(sys.argv[1]), Settings.from_environment({"HOME": sys.argv[2]}))
keep = OPERATIONS["keep_episode"]
if sys.argv[4] == "die":
    import os, signal
    gateway._cortex.write_episodes = lambda read, **options: os.kill(os.getpid(), signal.SIGKILL)
for number in range(int(sys.argv[5])):
    text = f"Writer {sys.argv[3]} remembers {number}"
    gateway.call(keep, to_request({"text": text}, keep.request), LOCAL_ADMIN)
gateway.close()
"""


def start_writer(team: Team, name: str, mode: str, count: int) -> subprocess.Popen[bytes]:
    """Start a process that keeps episodes; in mode `die` it is killed before it writes the store."""
    home = team.repository.path.parent / "home"
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(team.repository.path), str(home), name, mode, str(count)],
        env={**os.environ, "PYTHONPATH": str(Path(engrambus.__file__).parents[1])},
    )


def expected_store(team: Team) -> bytes:
    """Return the correct content of the store: every version of every episode, in order."""
    with team.gateway.store.read() as view:
        return b"".join(canonical(episode.record()) + b"\n" for episode in view.episodes_after(0, limit=10_000))


def test_every_version_is_a_record_the_controller_reads(team: Team) -> None:
    team.keep("Refunds need two approvals.", kind="decision", slug="refunds", categories=["Billing"], importance=0.9)
    team.keep("Refunds need three approvals.", kind="decision", slug="refunds", at=["src/parser.py:1-2"], ttl="P30D")
    team.client.call("pin_episode", id="decision:refunds")
    assert [record["memory_id"] for record in team.records()] == [f"decision:refunds@{n}" for n in (1, 2, 3)]
    assert team.records()[0]["tags"] == ["billing"]
    details, pointer = team.records()[1]["refs"]
    assert (details["importance"], details["pinned"], "expires_at" in details) == (0.5, False, True)
    assert pointer["ref"].startswith("repo:src/parser.py#L1-L2@")
    assert pointer["digest"].startswith("sha256:")
    records = [read_record(line) for line in team.store.read_bytes().splitlines()]
    assert all(record is not None for record in records)
    # The hash covers `refs`, and so the pin.
    assert len({record.record_hash for record in records if record}) == 3
    package = team.read("refunds approvals billing")
    assert package.selection.selected[0].memory_id == "decision:refunds@1"
    assert {item.memory_id for item in package.selection.selected} == {f"decision:refunds@{n}" for n in (1, 2, 3)}


DAMAGE: dict[str, Callable[[Path], object]] = {
    "deleted": lambda store: store.unlink(),
    "emptied": lambda store: store.write_bytes(b""),
    "torn": lambda store: store.write_bytes(store.read_bytes()[:-7]),
    "half a line more": lambda store: store.write_bytes(store.read_bytes() + b'{"memory_id":"torn'),
    "a line more": lambda store: store.write_bytes(store.read_bytes() + b'{"memory_id":"mine","text":"by hand"}\n'),
    "edited at the start": lambda store: store.write_bytes(store.read_bytes().replace(b"first", b"worst")),
    "edited at the end": lambda store: store.write_bytes(store.read_bytes().replace(b"third", b"birds")),
    "a line taken out": lambda store: store.write_bytes(b"".join(store.read_bytes().splitlines(keepends=True)[1:])),
    "without its note": lambda store: note_of(store).unlink(),
    "with a damaged note": lambda store: note_of(store).write_bytes(b"nonsense"),
    "with a note that is not text": lambda store: note_of(store).write_bytes(b'{"chain":"\xff"}'),
}


def note_of(store: Path) -> Path:
    """Return the file that says how much of a store was written."""
    return next(store.parents[1].glob("derived-*/episodes.written"))


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_store_is_repaired(team: Team, kind: str) -> None:
    damage = DAMAGE[kind]
    for text in ("The first thing.", "The second thing.", "The third thing."):
        team.keep(text)
    damage(team.store)
    package = team.read("thing")  # a read repairs it
    assert team.store.read_bytes() == expected_store(team)
    assert len(package.selection.selected) == 3
    damage(team.store)
    team.keep("The fourth thing.")  # and so does a write
    assert team.store.read_bytes() == expected_store(team)
    assert len(team.records()) == 4


@pytest.mark.parametrize("kind", DAMAGE)
def test_verify_goes_on_at_a_damaged_store(team: Team, kind: str) -> None:  # BX-03
    team.keep("The first thing.")
    DAMAGE[kind](team.store)
    assert team.client.call("verify", repair=True).sound
    assert team.store.read_bytes() == expected_store(team)


def test_a_store_of_another_journal_is_rewritten(team: Team) -> None:
    team.keep("Only here.")
    foreign = team.store.read_bytes().replace(b"Only here.", b"Only there")
    team.keep("And this.")
    team.store.write_bytes(foreign)
    team.reopen()
    team.read("here")
    assert team.store.read_bytes() == expected_store(team)


def test_several_processes_keep_episodes_at_once(team: Team) -> None:
    writers = [start_writer(team, name, "live", 15) for name in "abc"]
    for number in range(15):
        team.keep(f"Here as well {number}")
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    assert len(team.records()) == 60
    assert team.store.read_bytes() == expected_store(team)


def test_episodes_of_a_process_that_died_before_writing_are_read(team: Team) -> None:
    team.keep("Written as usual.")
    assert start_writer(team, "victim", "die", 1).wait(timeout=60) == -signal.SIGKILL
    assert len(team.records()) == 1
    package = team.read("victim remembers", caller=LOCAL_ADMIN)
    assert package.selection.selected[0].excerpt == "Writer victim remembers 0"
    assert team.store.read_bytes() == expected_store(team)


def test_a_store_that_cannot_be_written_loses_nothing(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    team.store.parent.mkdir(exist_ok=True)
    team.store.mkdir()
    episode = team.keep("Remembered all the same.")
    assert "could not be written" in caplog.text
    team.store.rmdir()
    team.reopen()
    assert team.read("remembered").selection.selected[0].memory_id == episode.memory_id


def test_reading_does_not_change_the_store(team: Team) -> None:  # MC-09
    team.keep("The first thing.")
    content, status = team.store.read_bytes(), team.store.stat()
    team.read("first")
    assert team.store.read_bytes() == content
    assert team.store.stat().st_mtime_ns == status.st_mtime_ns
