"""Rotation: a long journal of work continues in a new file, and readers and rebuilds lose nothing."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engrambus.backends.sqlite.work import SqliteWork, create_work
from engrambus.core import SystemClock
from engrambus.core.journal import Journal, find_damage, set_damage_aside
from engrambus.errors import JournalDamaged
from engrambus.space.tuples import TupleSpace
from engrambus.testing.harness import KEY
from engrambus.testing.work import PERSON, RUN

LATER = 1 << 62
PROJECT = "01KDVP9R00STGMERGYTEST0000"


def open_work(folder: Path) -> TupleSpace:
    """Open the tuple space of a folder."""
    folder.mkdir(exist_ok=True)
    create_work(folder, KEY, project=PROJECT, now_us=SystemClock().now())
    return TupleSpace(SqliteWork(folder, KEY, SystemClock()))


def store(space: TupleSpace) -> SqliteWork:
    """Return the back end of a space."""
    assert isinstance(space.store, SqliteWork)
    return space.store


def put(space: TupleSpace, number: int) -> str:
    """Put a tuple with a number; return its id."""
    return space.out({"lane": "notes", "map_pos": {"n": number}}, authority=PERSON, run=RUN)[0].id


def numbers(space: TupleSpace) -> list[Any]:
    """Return the numbers of the tuples, in order."""
    return [record.tuple.map_pos["n"] for record in space.rd_all({"lane": "notes"}, limit=10_000)]


def lines(space: TupleSpace) -> list[int]:
    """Return the numbers of all journal lines, read in pages."""
    seqs: list[int] = []
    while page := store(space).lines_after(seqs[-1] if seqs else 0, 7):
        seqs += [line.seq for line in page]
    return seqs


# YT-13, YT-10
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_lost_however_often_the_journal_is_rotated(tmp_path_factory: Any, batches: list[int]) -> None:
    folder = tmp_path_factory.mktemp("work")
    space, count = open_work(folder), 0
    for batch in batches:
        for _ in range(batch):
            put(space, count)
            count += 1
        assert store(space).rotate(least_bytes=1, before_us=LATER) == (batch > 0)
        assert numbers(space) == list(range(count))
    assert lines(space) == list(range(1, count + 1))
    assert store(space).verify() == []
    store(space).rebuild()
    assert numbers(space) == list(range(count))
    put(space, count)
    space.close()
    (folder / KEY.derived_folder / "work.db").unlink()
    reopened = open_work(folder)
    assert numbers(reopened) == list(range(count + 1))
    assert store(reopened).verify() == []
    reopened.close()


def test_a_short_segment_is_not_rotated(tmp_path: Path) -> None:
    space = open_work(tmp_path)
    put(space, 0)
    assert not store(space).rotate(least_bytes=1_000_000, before_us=LATER)
    assert sorted(tmp_path.glob("tuples*.jsonl")) == [tmp_path / "tuples.jsonl"]
    space.close()


def test_a_segment_begun_today_is_not_rotated(tmp_path: Path) -> None:
    space = open_work(tmp_path)
    put(space, 0)
    assert not store(space).rotate(least_bytes=1, before_us=0)
    space.close()


def test_other_processes_continue_in_the_new_file(tmp_path: Path) -> None:
    first, second = open_work(tmp_path), open_work(tmp_path)
    put(first, 0)
    assert numbers(second) == [0]
    assert store(first).rotate(least_bytes=1, before_us=LATER)
    put(second, 1)
    put(first, 2)
    assert store(second).rotate(least_bytes=1, before_us=LATER)
    put(first, 3)
    assert numbers(first) == numbers(second) == [0, 1, 2, 3]
    assert lines(first) == lines(second) == [1, 2, 3, 4]
    assert store(first).verify() == []
    assert len(list(tmp_path.glob("tuples.*.jsonl.gz"))) == 2
    first.close()
    second.close()


# Killed before the second name, between it and the new file, and between the new file and the index.
@pytest.mark.parametrize("fatal", ["os.link", "os.rename", "engrambus.core.journal.Journal.into_segment"])
def test_a_process_that_dies_during_rotation_leaves_a_sound_journal(tmp_path: Path, fatal: str) -> None:
    space = open_work(tmp_path)
    for number in range(3):
        put(space, number)
    space.close()
    code = (
        "import os, sys; from pathlib import Path; from unittest.mock import patch\n"
        "from tests.guardrails.test_segments import open_work, store\n"
        "space = open_work(Path(sys.argv[1]))\n"
        "def die(*args, **options): os._exit(9)\n"
        "with patch(sys.argv[2], die): store(space).rotate(least_bytes=1, before_us=1 << 62)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path), fatal], check=False).returncode == 9
    space = open_work(tmp_path)
    assert numbers(space) == [0, 1, 2]
    put(space, 3)
    assert store(space).rotate(least_bytes=1, before_us=LATER)
    put(space, 4)
    assert numbers(space) == [0, 1, 2, 3, 4]
    assert store(space).verify() == []
    store(space).rebuild()
    assert numbers(space) == [0, 1, 2, 3, 4]
    space.close()


def test_a_missing_segment_is_reported(tmp_path: Path) -> None:
    space = open_work(tmp_path)
    put(space, 0)
    store(space).rotate(least_bytes=1, before_us=LATER)
    put(space, 1)
    os.unlink(next(tmp_path.glob("tuples.*.gz")))
    with pytest.raises(JournalDamaged, match="segment"):
        store(space).rebuild()
    space.close()


def three_segments(folder: Path) -> list[Path]:
    """Write forty tuples into each of three segments; return the two that are compressed."""
    space = open_work(folder)
    for number in range(120):
        put(space, number)
        if number in (39, 79):
            store(space).rotate(least_bytes=1, before_us=LATER)
    space.close()
    return sorted(folder.glob("tuples.*.gz"))


def cut_short(content: bytes) -> bytes:
    return content[: len(content) // 2]


def changed(content: bytes) -> bytes:
    return content[:-300] + b"\xff" * 8 + content[-292:]


def no_archive(content: bytes) -> bytes:
    return b"hello" * 50


def nothing(content: bytes) -> bytes:
    return b""


def other_lines(content: bytes) -> bytes:
    return gzip.compress(gzip.decompress(content).replace(b'"n":60', b'"n":61'))


DAMAGE = [cut_short, changed, no_archive, nothing, other_lines]


# BX-03: any damage to a compressed segment is reported as such.
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_segment_is_reported_with_its_name(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    _, second = three_segments(tmp_path)
    second.write_bytes(damage(second.read_bytes()))
    space = open_work(tmp_path)
    assert numbers(space) == list(range(120))
    for check in (store(space).verify, store(space).rebuild):
        with pytest.raises(JournalDamaged) as refused:
            check()
        assert second.name in refused.value.detail
        assert "engrambus recover" in (refused.value.hint or "")
    space.close()


# YT-10, BX-03: everything behind the damage is set aside.
@pytest.mark.parametrize("harm", DAMAGE)
def test_recovery_keeps_what_is_sound_before_a_damaged_segment(tmp_path: Path, harm: Callable[[bytes], bytes]) -> None:
    first, second = three_segments(tmp_path)
    second.write_bytes(harm(second.read_bytes()))
    contents = {path.name: path.read_bytes() for path in tmp_path.glob("tuples*")}
    journal = Journal(tmp_path / "tuples.jsonl", KEY, "tuples")
    damage = find_damage(journal)
    assert damage is not None
    assert 40 <= damage.commits < 80
    done = set_damage_aside(journal, SystemClock().now())
    assert done is not None
    assert find_damage(journal) is None
    journal.close()
    aside = {path.name.partition(".damaged-")[0]: path.read_bytes() for path in tmp_path.glob("*.damaged-*")}
    assert {name: contents[name] for name in (second.name, "tuples.jsonl")}.items() <= aside.items()
    space = open_work(tmp_path)
    commits = damage.commits
    kept = numbers(space)
    assert kept == [*range(commits), *range(120 - done.kept, 120)]
    assert done.kept >= 40  # everything in the segment behind the damaged one
    assert commits + done.lost + done.kept == 120
    assert lines(space) == list(range(1, 121))  # numbers of lines, and so of events, stay
    assert store(space).verify() == []
    for number in range(1000, 1050):
        put(space, number)
        if number % 20 == 0:
            store(space).rotate(least_bytes=1, before_us=LATER)
    store(space).rebuild()
    assert numbers(space) == [*kept, *range(1000, 1050)]
    assert store(space).verify() == []
    space.close()
    assert first.exists() or commits == 40


def test_new_names_are_synced_before_old_ones_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut an unsynced change of a folder may be there while an earlier one is lost. # YT-10"""
    space = open_work(tmp_path)
    put(space, 0)
    calls: list[str] = []

    def record_calls(target: Any, name: str) -> None:
        real = getattr(target, name)

        def call(*args: Any, **options: Any) -> Any:
            calls.append(name)
            return real(*args, **options)

        monkeypatch.setattr(target, name, call)

    for target, name in ((os, "link"), (os, "rename"), (os, "unlink"), (os, "fsync")):
        record_calls(target, name)
    store(space).rotate(least_bytes=1, before_us=LATER)
    assert [name for name in calls if name != "unlink"] == [
        *("link", "fsync", "rename", "fsync"),  # a second name, on the disk, before another file takes the first
        *("fsync", "rename", "fsync"),  # the compressed file and its name
    ]
    assert calls[-1] == "unlink"  # of what was compressed
    space.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_compressed_files_are_not_kept_open(tmp_path: Path) -> None:
    """Otherwise their disk space would not be freed while others have the project open. # YT-10"""
    first, second = open_work(tmp_path), open_work(tmp_path)
    for number in range(3):
        put(first, number)
        reading = store(first).journal.read(store(first).journal.start)
        next(reading)
        store(second).rotate(least_bytes=1, before_us=LATER)
        assert numbers(first) == list(range(number + 1))
        assert [line.seq for line, _ in reading] == list(range(2, number + 2))  # a reader continues
        del reading
    descriptors = [
        path for path in Path("/proc/self/fd").iterdir() if _link_target(path).startswith(f"{tmp_path}/tuples")
    ]
    assert not [path for path in map(_link_target, descriptors) if path.endswith("(deleted)")]
    first.close()
    second.close()


def _link_target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""
