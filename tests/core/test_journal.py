"""The journal on disk: torn tails are dropped; damage is reported with its place and nothing is cut."""  # BX-03

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from engrambus.core import Stamp
from engrambus.core.journal import FORMAT, Journal, JournalPosition, create_journal, encode_facts
from engrambus.core.journal import file as journal_file
from engrambus.errors import DiskPressure, FormatUnknown, JournalDamaged, StoreReadOnly
from engrambus.testing.harness import KEY

PROJECT = "01KDVP9R00STGMERGYTEST0000"


def write(path: Path, count: int, *, batch: int = 1) -> list[int]:
    """Append lines, `batch` of them per sync, and return the offset of each line."""
    journal = Journal(path, KEY, "memory")
    place = journal.last_valid(journal.start)
    offsets = []
    for start in range(0, count, batch):
        mark, lines = place.offset, []
        for number in range(start, min(start + batch, count)):
            facts = encode_facts([{"fact": "test", "number": number, "text": "ключ"}])
            offsets.append(place.offset)
            line, place = journal.encode(place, stamp=Stamp(number), facts=facts, mark=mark)
            lines.append(line)
        journal.append(lines)
        journal.sync()
    journal.close()
    return offsets


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "memory.jsonl"
    create_journal(path, KEY, kind="memory", project=PROJECT, now_us=0)
    return path


def tail_of(path: Path, synced: int = 0) -> tuple[JournalPosition, int]:
    """Return the end of the valid lines, and the number of torn bytes after it."""
    journal = Journal(path, KEY, "memory")
    try:
        end = journal.last_valid(journal.start)
        return end, journal.classify_tail(end, synced)
    finally:
        journal.close()


def test_a_new_journal_has_only_a_header(path: Path) -> None:
    journal = Journal(path, KEY, "memory")
    assert (journal.header.kind, journal.header.project, journal.header.format) == ("memory", PROJECT, FORMAT)
    assert list(journal.read(journal.start)) == []
    assert journal.classify_tail(journal.start) == 0
    assert journal.size() == journal.start.offset
    journal.close()


def test_creating_a_journal_twice_keeps_the_first(path: Path) -> None:
    write(path, 3)
    content = path.read_bytes()
    create_journal(path, KEY, kind="memory", project="01KDVP9R000000000000000000", now_us=5)
    assert path.read_bytes() == content
    assert [entry.name for entry in path.parent.iterdir()] == ["memory.jsonl"]


def test_lines_are_read_back_as_they_were_written(path: Path) -> None:
    write(path, 5)
    journal = Journal(path, KEY, "memory")
    lines = list(journal.read(journal.start))
    assert [line.seq for line, _ in lines] == [1, 2, 3, 4, 5]
    assert [line.at_us for line, _ in lines] == [0, 1, 2, 3, 4]
    assert lines[2][0].facts == '[{"fact":"test","number":2,"text":"ключ"}]'.encode()
    assert list(journal.read(lines[2][1])) == lines[3:]
    assert lines[-1][1].offset == journal.size()
    assert all(journal.holds(position) for _, position in lines)
    journal.close()


def test_lines_longer_than_one_read_are_complete(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, 20)
    for size in (1, 7, 64, 333):
        monkeypatch.setattr(journal_file, "CHUNK", size)
        assert tail_of(path)[0].seq == 20


def test_a_tail_torn_at_any_byte_is_dropped_and_the_file_stays_usable(path: Path) -> None:
    offsets = write(path, 4)
    content = path.read_bytes()
    for length in range(offsets[-1], len(content)):
        path.write_bytes(content[:length])
        end, torn = tail_of(path)
        assert (end.seq, end.offset, torn) == (3, offsets[-1], length - offsets[-1])
        journal = Journal(path, KEY, "memory")
        journal.cut(end.offset)
        journal.close()
        write(path, 1)
        end, torn = tail_of(path)
        assert (end.seq, torn) == (4, 0)


def test_a_torn_batch_keeps_its_valid_lines(path: Path) -> None:
    write(path, 2)
    offsets = write(path, 4, batch=4)
    content = path.read_bytes()
    for length in range(offsets[0], len(content), 11):
        path.write_bytes(content[:length])
        end, torn = tail_of(path)
        assert end.seq == 2 + sum(1 for start in [*offsets[1:], len(content)] if start <= length)
        assert end.offset + torn == length


@pytest.mark.parametrize("hole", [bytes(200), b"\xff" * 200, b"\n" * 200])
def test_a_lost_page_of_an_unsynced_batch_is_a_torn_tail(path: Path, hole: bytes) -> None:
    """Later lines of the same batch are complete, but none of them says that the hole was synced."""
    write(path, 2)
    offsets = write(path, 4, batch=4)
    content = path.read_bytes()
    index = offsets[1] + 5
    path.write_bytes(content[:index] + hole[: offsets[2] - index - 3] + content[offsets[2] - 3 :])
    end, torn = tail_of(path)
    assert (end.seq, torn) == (3, len(content) - offsets[1])


def test_a_flipped_byte_before_the_last_mark_is_reported_and_nothing_is_cut(path: Path) -> None:
    offsets = write(path, 4)
    content = path.read_bytes()
    for line, start in enumerate(offsets[:-1], 2):
        for index in range(start, offsets[line - 1]):
            for flip in (1, 0x20, 0x80):
                damaged = content[:index] + bytes([content[index] ^ flip]) + content[index + 1 :]
                path.write_bytes(damaged)
                with pytest.raises(JournalDamaged) as caught:
                    tail_of(path)
                assert caught.value.code == "JOURNAL_DAMAGED"
                assert f"line {line}, byte {start}:" in caught.value.detail
                assert path.read_bytes() == damaged


def test_a_missing_and_a_doubled_line_are_damage(path: Path) -> None:
    offsets = write(path, 5)
    content = path.read_bytes()
    for changed, line in (
        (content[: offsets[1]] + content[offsets[2] :], 3),
        (content[: offsets[2]] + content[offsets[1] :], 4),
        (content[: offsets[1]] + b"\n" + content[offsets[1] :], 3),
        (
            content[: offsets[1]]
            + content[offsets[2] : offsets[3]]
            + content[offsets[1] : offsets[2]]
            + content[offsets[3] :],
            3,
        ),
    ):
        path.write_bytes(changed)
        with pytest.raises(JournalDamaged, match=f"line {line},"):
            tail_of(path)


def test_damage_in_the_last_line_is_reported_if_it_was_synced(path: Path) -> None:
    offsets = write(path, 3)
    content = path.read_bytes()
    for index in range(offsets[-1], len(content)):
        path.write_bytes(content[:index] + bytes([content[index] ^ 4]) + content[index + 1 :])
        with pytest.raises(JournalDamaged, match=f"line 4, byte {offsets[-1]}:"):
            tail_of(path, synced=len(content))


def test_a_valid_unsynced_line_is_kept(path: Path) -> None:
    write(path, 3)
    journal = Journal(path, KEY, "memory")
    end = journal.last_valid(journal.start)
    line, _ = journal.encode(end, stamp=Stamp(9), facts=b"[]", mark=end.offset)
    journal.append([line])  # and the process dies here
    journal.close()
    end, torn = tail_of(path)
    assert (end.seq, torn) == (4, 0)


def test_a_damaged_header_is_refused(path: Path) -> None:
    write(path, 2)
    content = path.read_bytes()
    for index in range(content.index(b"\n") + 1):
        path.write_bytes(content[:index] + bytes([content[index] ^ 0x81]) + content[index + 1 :])
        with pytest.raises(FormatUnknown):
            Journal(path, KEY, "memory")


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b"\x00" * 100, b"not a journal", b"[" * 100_000])
def test_other_files_are_no_journals(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(FormatUnknown):
        Journal(path, KEY, "memory")


def test_another_format_is_refused_by_its_number(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"format":2', b'"format":3'))
    with pytest.raises(FormatUnknown, match="format 3"):
        Journal(path, KEY, "memory")


def test_a_header_cut_short_is_refused(path: Path) -> None:
    header = path.read_bytes()
    for length in range(len(header)):
        path.write_bytes(header[:length])
        with pytest.raises(FormatUnknown):
            Journal(path, KEY, "memory")


def test_a_position_belongs_to_its_own_journal_only(path: Path, tmp_path: Path) -> None:
    write(path, 3)
    journal = Journal(path, KEY, "memory")
    end = journal.last_valid(journal.start)
    second_path = tmp_path / "second.jsonl"
    create_journal(second_path, KEY, kind="memory", project=PROJECT, now_us=1)
    write(second_path, 30)
    second = Journal(second_path, KEY, "memory")
    assert journal.holds(end)
    assert journal.holds(journal.start)
    assert not second.holds(end)
    assert not journal.holds(second.last_valid(second.start))
    journal.close()
    second.close()


def test_a_full_disk_leaves_the_journal_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, 2)
    content = path.read_bytes()
    journal = Journal(path, KEY, "memory")
    os_write = os.write
    for number in (errno.ENOSPC, errno.EDQUOT):

        def write_part_then_fail(descriptor: int, data: bytes, number: int = number) -> int:
            if len(data) > 20:
                return os_write(descriptor, data[:20])
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write_part_then_fail)
            with pytest.raises(DiskPressure):
                journal.append([b"x" * 100])
        assert path.read_bytes() == content
    journal.close()
    write(path, 1)
    assert tail_of(path)[0].seq == 3


def test_short_writes_are_continued(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os_write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: os_write(descriptor, data[:7]))
    write(path, 5, batch=5)
    assert tail_of(path)[0].seq == 5


def test_a_failed_sync_ends_all_writing_and_is_never_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, 2)
    journal = Journal(path, KEY, "memory")
    calls = 0

    def fail(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(journal_file, "sync", fail)
    with pytest.raises(StoreReadOnly):
        journal.sync()
    monkeypatch.undo()
    with pytest.raises(StoreReadOnly):
        journal.sync()
    with pytest.raises(StoreReadOnly):
        journal.append([b"x"])
    assert calls == 1
    assert journal.last_valid(journal.start).seq == 2
    journal.close()
