"""The MACs of a journal: written with the key, worth something in one place only."""  # BX-03

from __future__ import annotations

import hashlib
import hmac
import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.core import Stamp
from engrambus.core.journal import Journal, JournalKey, create_journal, encode_facts, find_damage, set_damage_aside
from engrambus.core.journal import vouch_for as vouch
from engrambus.errors import JournalDamaged, JournalForeign, StoreReadOnly
from engrambus.testing.harness import KEY, PROJECT
from tests.attacks.foreign_state import continue_without_key
from tests.harness.old_journals import without_macs

SECRET = b"a secret of thirty-two bytes, ok"
OTHER_KEY = JournalKey(b"another secret of thirty-two byt")


def make_journal(path: Path, count: int, key: JournalKey = KEY) -> None:
    """Create a journal with some commits."""
    create_journal(path, key, kind="memory", project=PROJECT, now_us=0)
    append(path, count, key)


def append(path: Path, count: int, key: JournalKey = KEY) -> None:
    """Append some commits, each synced."""
    with closing(Journal(path, key, "memory")) as journal:
        end = journal.last_valid(journal.start)
        for number in range(count):
            facts = encode_facts([{"fact": "test", "number": number}])
            line, end = journal.encode(end, stamp=Stamp(number), facts=facts, mark=end.offset)
            journal.append([line])
        journal.sync()


def read_to_end(path: Path, key: JournalKey | None = KEY) -> int:
    """Return the number of commits, or raise."""
    with closing(Journal(path, key, "memory")) as journal:
        end = journal.last_valid(journal.start)
        journal.classify_tail(end)
        return end.seq


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "memory.jsonl"
    make_journal(path, 5)
    return path


def test_every_line_carries_the_documented_mac(tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    make_journal(path, 3, JournalKey(SECRET))
    line_key = hmac.digest(SECRET, f"engrambus journal line\0memory\0{PROJECT}".encode(), "sha256")
    previous = b""
    for line in path.read_bytes().splitlines():
        text, mac, checksum = re.fullmatch(rb'(.*),"mac":"(\w{32})","sum":"(\w{32})"}', line).groups()  # type: ignore[union-attr]
        assert mac.decode() == hmac.digest(line_key, previous + text, "sha256").hex()[:32]
        covered = text + b',"mac":"' + mac + b'"'
        assert checksum.decode() == hashlib.sha256(previous + covered).hexdigest()[:32]
        previous = checksum
        json.loads(line)


def test_anyone_can_check_the_checksums_and_nobody_can_append_without_the_key(path: Path) -> None:
    assert read_to_end(path, None) == 5
    with closing(Journal(path, None, "memory")) as journal:
        assert [line.seq for line, _ in journal.read(journal.start)] == [1, 2, 3, 4, 5]
        with pytest.raises(StoreReadOnly):
            journal.append([b"x\n"])
    with pytest.raises(JournalForeign):
        Journal(path, OTHER_KEY, "memory")


@given(kept=st.integers(1, 6), added=st.integers(1, 3), kind=st.sampled_from(["none", "random", "copied"]))
def test_lines_of_someone_else_are_never_taken_whatever_is_kept_before_them(
    tmp_path_factory: pytest.TempPathFactory, kept: int, added: int, kind: str
) -> None:
    path = tmp_path_factory.mktemp("journal") / "memory.jsonl"
    make_journal(path, 5)
    content = path.read_bytes()
    macs = re.findall(rb'"mac":"([0-9a-f]{32})"', content)
    before = b"".join(content.splitlines(keepends=True)[:kept])
    copied = macs[kept - 2] if kind == "copied" else b""
    facts = [b'[{"fact":"test","number":9}]'] * added
    path.write_bytes(continue_without_key(before, facts, marked=kind == "random", mac=copied))
    with pytest.raises(JournalForeign, match=rf"from line {kept + 1} on, byte {len(before)},"):
        read_to_end(path)
    with closing(Journal(path, KEY, "memory")) as journal:
        damage = find_damage(journal)
        assert damage is not None
        assert (damage.foreign, damage.commits, damage.offset) == (True, kept - 1, len(before))
        set_damage_aside(journal, 1)
    assert path.read_bytes() == before
    append(path, 1)
    assert read_to_end(path) == kept


@given(cut=st.data())
def test_a_journal_cut_at_any_byte_keeps_every_whole_line(
    tmp_path_factory: pytest.TempPathFactory, cut: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "memory.jsonl"
    make_journal(path, 4)
    content = path.read_bytes()
    length = cut.draw(st.integers(content.index(b"\n") + 1, len(content)))
    path.write_bytes(content[:length])
    assert read_to_end(path) == content[:length].count(b"\n") - 1


def test_a_line_torn_after_foreign_lines_does_not_hide_them(path: Path) -> None:
    forged = continue_without_key(path.read_bytes(), [b"[]", b"[]"], marked=True)
    path.write_bytes(forged[:-7])
    with pytest.raises(JournalForeign):
        read_to_end(path)


@pytest.mark.parametrize("key", [KEY, OTHER_KEY], ids=["format 1", "another key"])
def test_vouching_makes_an_older_or_foreign_journal_ones_own(tmp_path: Path, key: JournalKey) -> None:
    path = tmp_path / "memory.jsonl"
    make_journal(path, 5, key)
    if key is KEY:
        path.write_bytes(without_macs(path.read_bytes()))
    before = path.read_bytes()
    with pytest.raises(JournalForeign):
        Journal(path, KEY, "memory")
    assert vouch(path, KEY, "memory", 7) == 5
    assert read_to_end(path) == 5
    append(path, 2)
    assert read_to_end(path) == read_to_end(path, None) == 7
    (segment,) = tmp_path.glob("memory.0*.jsonl")
    assert segment.read_bytes() == before, "what was vouched for is not changed"
    segment.write_bytes(before.replace(b'"number":3', b'"number":4'))
    with pytest.raises(JournalDamaged):
        read_to_end(path)


@pytest.mark.parametrize("rest", [0, 2], ids=["empty segment", "with lines"])
@pytest.mark.parametrize("shape", ["shorter", "same", "longer"])
def test_a_finished_segment_is_vouched_for_by_the_header_behind_it(path: Path, rest: int, shape: str) -> None:
    """Whatever its lines carry: the header of the open segment names the checksum of its last line."""
    with closing(Journal(path, KEY, "memory")) as journal:
        journal.begin_segment(journal.last_valid(journal.start), 9)
    append(path, rest)
    assert read_to_end(path) == 5 + rest
    (segment,) = path.parent.glob("memory.0*.jsonl")
    whole = segment.read_bytes()
    header = whole.splitlines(keepends=True)[0]
    forged = continue_without_key(header, [b'[{"fact":"test","number":9}]'] * {"shorter": 2, "same": 3}.get(shape, 9))
    segment.write_bytes(forged if shape != "same" else forged.ljust(len(whole) - 1) + b"\n")
    content = path.read_bytes()
    with pytest.raises((JournalDamaged, JournalForeign), match=r"memory\.0+\.jsonl"):
        read_to_end(path)
    assert path.read_bytes() == content, "nothing is cut"


def test_the_segment_of_another_project_or_journal_is_refused(tmp_path: Path) -> None:
    create_journal(tmp_path / "tuples.jsonl", KEY, kind="tuples", project=PROJECT, now_us=0)
    header = (tmp_path / "tuples.jsonl").read_bytes()
    path = tmp_path / "memory.jsonl"
    for forged in (
        header.replace(b'"kind":"tuples"', b'"kind":"memory"'),
        header.replace(b'"kind":"tuples"', b'"kind":"memory"').replace(PROJECT.encode(), b"01KDVP9R00STGMERGYTEST9999"),
    ):
        text = re.sub(rb',"sum":"\w{32}"}\n', b"", forged)
        path.write_bytes(text + b',"sum":"' + hashlib.sha256(text).hexdigest()[:32].encode() + b'"}\n')
        with pytest.raises(JournalForeign):
            Journal(path, KEY, "memory")
