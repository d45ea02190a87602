"""A journal of work that has grown long goes on in a new file; nothing of it is lost to those who read or rebuild."""

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
from engrambus.testing.work import PERSON, RUN

LATER = 1 << 62
PROJECT = "01KDVP9R00STGMERGYTEST0000"


def open_work(folder: Path) -> TupleSpace:
    """The work in a folder."""
    folder.mkdir(exist_ok=True)
    create_work(folder, project=PROJECT, now_us=SystemClock().now())
    return TupleSpace(SqliteWork(folder, SystemClock()))


def store(space: TupleSpace) -> SqliteWork:
    """Its back end."""
    assert isinstance(space.store, SqliteWork)
    return space.store


def put(space: TupleSpace, number: int) -> str:
    """Put one tuple."""
    return space.out({"lane": "notes", "map_pos": {"n": number}}, authority=PERSON, run=RUN)[0].id


def numbers(space: TupleSpace) -> list[Any]:
    """What was put, in order."""
    return [each.tuple.map_pos["n"] for each in space.rd_all({"lane": "notes"}, limit=10_000)]


def lines(space: TupleSpace) -> list[int]:
    """The numbers of all lines, read in pages."""
    found: list[int] = []
    while page := store(space).lines_after(found[-1] if found else 0, 7):
        found += [line.seq for line in page]
    return found


# YT-13, YT-10
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_lost_however_often_it_goes_on_in_a_new_file(tmp_path_factory: Any, stretches: list[int]) -> None:
    folder = tmp_path_factory.mktemp("work")
    space, put_so_far = open_work(folder), 0
    for stretch in stretches:
        for _ in range(stretch):
            put(space, put_so_far)
            put_so_far += 1
        assert store(space).rotate(least_bytes=1, before_us=LATER) == (stretch > 0)
        assert numbers(space) == list(range(put_so_far))
    assert lines(space) == list(range(1, put_so_far + 1))
    assert store(space).verify() == []
    store(space).rebuild()
    assert numbers(space) == list(range(put_so_far))
    put(space, put_so_far)
    space.close()
    (folder / "work.db").unlink()
    again = open_work(folder)
    assert numbers(again) == list(range(put_so_far + 1))
    assert store(again).verify() == []
    again.close()


def test_a_short_segment_is_left_alone(tmp_path: Path) -> None:
    space = open_work(tmp_path)
    put(space, 0)
    assert not store(space).rotate(least_bytes=1_000_000, before_us=LATER)
    assert sorted(tmp_path.glob("tuples*")) == [tmp_path / "tuples.jsonl"]
    space.close()


def test_a_segment_begun_today_is_left_alone(tmp_path: Path) -> None:
    space = open_work(tmp_path)
    put(space, 0)
    assert not store(space).rotate(least_bytes=1, before_us=0)
    space.close()


def test_those_who_had_it_open_go_on_in_the_new_file(tmp_path: Path) -> None:
    one, other = open_work(tmp_path), open_work(tmp_path)
    put(one, 0)
    assert numbers(other) == [0]
    assert store(one).rotate(least_bytes=1, before_us=LATER)
    put(other, 1)
    put(one, 2)
    assert store(other).rotate(least_bytes=1, before_us=LATER)
    put(one, 3)
    assert numbers(one) == numbers(other) == [0, 1, 2, 3]
    assert lines(one) == lines(other) == [1, 2, 3, 4]
    assert store(one).verify() == []
    assert len(list(tmp_path.glob("tuples.*.jsonl.gz"))) == 2
    one.close()
    other.close()


# Killed before the second name, between it and the new file, and between the new file and the index.
@pytest.mark.parametrize("fatal", ["os.link", "pathlib.Path.rename", "engrambus.core.journal.Journal.into_segment"])
def test_a_process_that_dies_over_it_leaves_a_whole_journal(tmp_path: Path, fatal: str) -> None:
    space = open_work(tmp_path)
    for number in range(3):
        put(space, number)
    space.close()
    code = (
        "import os, sys; from pathlib import Path; from unittest.mock import patch\n"
        "from tests.guardrails.test_segments import open_work, store\n"
        "space = open_work(Path(sys.argv[1]))\n"
        "def die(*args, **more): os._exit(9)\n"
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


def test_a_missing_segment_is_told(tmp_path: Path) -> None:
    space = open_work(tmp_path)
    put(space, 0)
    store(space).rotate(least_bytes=1, before_us=LATER)
    put(space, 1)
    os.unlink(next(tmp_path.glob("tuples.*.gz")))
    with pytest.raises(JournalDamaged, match="segment"):
        store(space).rebuild()
    space.close()


def three_segments(folder: Path) -> list[Path]:
    """Work in two compressed segments and the file that is appended to, forty tuples in each; the compressed ones."""
    space = open_work(folder)
    for number in range(120):
        put(space, number)
        if number in (39, 79):
            store(space).rotate(least_bytes=1, before_us=LATER)
    space.close()
    return sorted(folder.glob("tuples.*.gz"))


def cut_short(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def changed(whole: bytes) -> bytes:
    return whole[:-300] + b"\xff" * 8 + whole[-292:]


def no_archive(whole: bytes) -> bytes:
    return b"hello" * 50


def nothing(whole: bytes) -> bytes:
    return b""


def other_lines(whole: bytes) -> bytes:
    return gzip.compress(gzip.decompress(whole).replace(b'"n":60', b'"n":61'))


DAMAGE = [cut_short, changed, no_archive, nothing, other_lines]


# BX-03: whatever is wrong with a compressed segment, it is damage with a place, and no fault of ours.
@pytest.mark.parametrize("harm", DAMAGE)
def test_a_damaged_segment_is_told_with_its_name(tmp_path: Path, harm: Callable[[bytes], bytes]) -> None:
    _, second = three_segments(tmp_path)
    second.write_bytes(harm(second.read_bytes()))
    space = open_work(tmp_path)
    assert numbers(space) == list(range(120))
    for ask in (store(space).verify, store(space).rebuild):
        with pytest.raises(JournalDamaged) as told:
            ask()
        assert second.name in told.value.detail
        assert "engrambus recover" in (told.value.hint or "")
    space.close()


# YT-10, BX-03: what is sound before the damage goes on; everything else is kept aside.
@pytest.mark.parametrize("harm", DAMAGE)
def test_what_is_sound_before_a_damaged_segment_goes_on(tmp_path: Path, harm: Callable[[bytes], bytes]) -> None:
    first, second = three_segments(tmp_path)
    second.write_bytes(harm(second.read_bytes()))
    before = {each.name: each.read_bytes() for each in tmp_path.glob("tuples*")}
    journal = Journal(tmp_path / "tuples.jsonl")
    damage = find_damage(journal)
    assert damage is not None
    assert 40 <= damage.commits < 80
    done = set_damage_aside(journal, SystemClock().now())
    assert done is not None
    assert find_damage(journal) is None
    journal.close()
    aside = {each.name.partition(".damaged-")[0]: each.read_bytes() for each in tmp_path.glob("*.damaged-*")}
    assert {name: before[name] for name in (second.name, "tuples.jsonl")}.items() <= aside.items()
    space = open_work(tmp_path)
    kept = damage.commits
    assert numbers(space) == list(range(kept))
    assert store(space).verify() == []
    for number in range(kept, kept + 50):
        put(space, number)
        if number % 20 == 0:
            store(space).rotate(least_bytes=1, before_us=LATER)
    store(space).rebuild()
    assert numbers(space) == list(range(kept + 50))
    assert store(space).verify() == []
    space.close()
    assert first.exists() or kept == 40


def test_names_reach_the_disk_before_others_are_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut may keep any change of a folder that was not synced and lose the one before it. # YT-10"""
    space = open_work(tmp_path)
    put(space, 0)
    happened: list[str] = []

    def noted(of: Any, name: str) -> None:
        real = getattr(of, name)

        def call(*args: Any, **more: Any) -> Any:
            happened.append(name)
            return real(*args, **more)

        monkeypatch.setattr(of, name, call)

    for of, name in ((os, "link"), (Path, "rename"), (Path, "unlink"), (os, "fsync")):
        noted(of, name)
    store(space).rotate(least_bytes=1, before_us=LATER)
    assert [name for name in happened if name != "unlink"] == [
        *("link", "fsync", "rename", "fsync"),  # a second name, on the disk, before another file takes the first
        *("fsync", "rename", "fsync"),  # the compressed file and its name
    ]
    assert happened[-1] == "unlink"  # of what was compressed
    space.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_what_was_compressed_is_not_kept_open(tmp_path: Path) -> None:
    """Its room is free again, though others have the project open. # YT-10"""
    one, other = open_work(tmp_path), open_work(tmp_path)
    for number in range(3):
        put(one, number)
        reading = store(one).journal.read(store(one).journal.start)
        next(reading)
        store(other).rotate(least_bytes=1, before_us=LATER)
        assert numbers(one) == list(range(number + 1))
        assert [line.seq for line, _ in reading] == list(range(2, number + 2))  # who was reading reads on
        del reading
    gone = [each for each in Path("/proc/self/fd").iterdir() if _leads_to(each).startswith(f"{tmp_path}/tuples")]
    assert not [each for each in map(_leads_to, gone) if each.endswith("(deleted)")]
    one.close()
    other.close()


def _leads_to(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""
