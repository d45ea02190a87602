"""`verify` names every damaged file, and `verify --repair` makes what is a copy again. # BX-03 # YT-08"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from engrambus.app import open_project
from engrambus.backends import jsonl_stores
from engrambus.backends.sqlite import comparison
from engrambus.backends.sqlite.connections import connect
from engrambus.backends.vector_file import VectorFile
from engrambus.errors import JournalDamaged
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.knowledge.engrams import StoredVector
from engrambus.operations.verification import MAX_FINDINGS
from engrambus.space.tuples import BodyPurged
from engrambus.testing.work import PERSON
from tests.crash.whole_project import WholeProject, call

FLIPPED_BYTE = 2000
ROUNDS = 5
AT = "src/parser.py:3-4"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> WholeProject:
    """Return a project that has every kind of file."""
    project = WholeProject(tmp_path_factory.mktemp("whole") / "project")
    project.make()
    with closing(open_project(project.root, project.settings)) as gateway, pytest.MonkeyPatch.context() as patch:
        for slug in ("deploy", "review"):
            call(gateway, "keep_episode", text=f"We {slug} on Thursdays.", kind="decision", slug=slug)
        for _ in range(2):
            call(gateway, "inherit", scope={"include_atoms": True})
        patch.setattr(jsonl_stores, "SEGMENT_BYTES", 1)
        budget = {"max_items": 5, "max_excerpt_tokens": 500}
        call(gateway, "memory_read", query="deploy", store_paths=[".catalog/sam/episodes.jsonl"], budget=budget)
    with closing(VectorFile(project.derived / "vectors.db")) as vectors:
        vectors.put("model", [StoredVector(f"ref {number}", b"x" * 32, b"y" * 400) for number in range(100)])
    return project


@pytest.fixture
def project(whole: WholeProject, tmp_path: Path) -> WholeProject:
    """Return a copy that a test may damage."""
    copy = WholeProject(tmp_path / "project")
    shutil.copytree(whole.folder, copy.folder, symlinks=True)
    return copy


def verify(project: WholeProject, *, repair: bool = False) -> Any:
    """Open the project and verify it."""
    with closing(open_project(project.root, project.settings)) as gateway:
        return call(gateway, "verify", repair=repair)


def contents(project: WholeProject) -> dict[str, bytes]:
    """Return the content of every private file; of databases without what SQLite puts beside them."""
    state = project.root / ".catalog"
    paths = (path for path in state.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm")))
    return {str(path.relative_to(state)): path.read_bytes() for path in paths}


def first(project: WholeProject, pattern: str) -> Path:
    """Return the first file that matches a pattern."""
    return min(path for path in (project.root / ".catalog").glob(pattern) if path.stat().st_size)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[min(len(data) - 1, FLIPPED_BYTE)] ^= 1
    path.write_bytes(data)


def edit_unnoticed(path: Path) -> None:
    """Change a byte and leave size and time as they were."""
    status = path.stat()
    flip(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"text": "brought along"}\n')


def replace_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def execute(*statements: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with closing(apsw.Connection(str(path))) as connection:
            for statement in statements:
                connection.execute(statement)

    return run


class Harm(NamedTuple):
    """One way to damage a file."""

    pattern: str
    do: Callable[[Path], None]
    where: str
    """Part of the place that `verify` names."""


def foreign_receipt(path: Path) -> None:
    path.with_name("0" * 62 + ".json").write_bytes(path.read_bytes())


COPIES = {
    "receipt edited": Harm("receipts/*/*.json", edit_unnoticed, "receipts/"),
    "receipt torn": Harm("receipts/*/*.json", cut, "receipts/"),
    "receipt zeroed": Harm("receipts/*/*.json", zero, "receipts/"),
    "receipt deleted": Harm("receipts/*/*.json", Path.unlink, "receipts/"),
    "receipt foreign": Harm("receipts/*/*.json", foreign_receipt, "0" * 62),
    "receipt a link": Harm("receipts/*/*.json", replace_by_link, "receipts/"),
    "episodes edited": Harm("sam/episodes.jsonl", edit_unnoticed, "sam/episodes.jsonl"),
    "episodes cut": Harm("sam/episodes.jsonl", cut, "sam/episodes.jsonl"),
    "episodes longer": Harm("sam/episodes.jsonl", append, "sam/episodes.jsonl"),
    "episodes deleted": Harm("sam/episodes.jsonl", Path.unlink, "sam/episodes.jsonl"),
    "index row": Harm(
        "derived-*/index.db", execute("UPDATE engrams SET confidence = 0.1 WHERE ordinal = 3"), "index.db"
    ),
    "index lists": Harm("derived-*/index.db", execute("DELETE FROM pending", "DELETE FROM posting_blocks"), "index.db"),
    "work row": Harm("derived-*/work.db", execute("UPDATE tuples SET rank = 7"), "work.db, table tuples"),
    "anchors": Harm("derived-*/anchors.db", flip, "anchors.db"),
    "anchors cut": Harm("derived-*/anchors.db", cut, "anchors.db"),
    "alignments": Harm("derived-*/alignments.db", flip, "alignments.db"),
    "vectors": Harm("derived-*/vectors.db", flip, "vectors.db"),
    "memory cache": Harm("derived-*/memory-cache/*/*", flip, "memory-cache/"),
}


def test_a_sound_project_is_sound_and_verify_changes_nothing(project: WholeProject) -> None:
    before = contents(project)
    answer = verify(project)
    assert answer.sound, answer.findings
    assert answer.findings == []
    assert contents(project) == before
    assert verify(project, repair=True).findings == []


@pytest.mark.parametrize("name", COPIES)
def test_a_damaged_copy_is_named_and_healed(project: WholeProject, name: str) -> None:
    harm = COPIES[name]
    harm.do(first(project, harm.pattern))
    before = contents(project)
    found = verify(project)
    assert not found.sound
    assert any(harm.where in finding.where for finding in found.findings), found.findings
    assert all(finding.is_copy and finding.what and not finding.repaired for finding in found.findings)
    assert contents(project) == before
    repaired = verify(project, repair=True)
    assert repaired.sound, repaired.findings
    assert {finding.where for finding in repaired.findings} == {finding.where for finding in found.findings}
    assert all(finding.repaired for finding in repaired.findings)
    assert verify(project).findings == []


@pytest.mark.parametrize("index", ["index.db", "work.db"])
def test_an_index_that_sqlite_cannot_read_is_rebuilt_and_named(project: WholeProject, index: str) -> None:
    path = first(project, f"derived-*/{index}")
    path.write_bytes(path.read_bytes()[:4096] + bytes(path.stat().st_size - 4096))
    with closing(open_project(project.root, project.settings)) as gateway:
        call(gateway, "verify")
        assert call(gateway, "verify").findings == []


def test_a_list_of_an_index_that_misses_a_row_is_found(project: WholeProject) -> None:
    """SQLite answers from such a list without looking at the table."""
    path = first(project, "derived-*/index.db")
    with closing(apsw.Connection(str(path))) as connection:
        sql = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'engrams_twin'").fetchall()[0][0]
        connection.execute("PRAGMA writable_schema = ON; DROP INDEX engrams_twin")
        connection.execute(str(sql).replace("(space, twin)", "(space, twin) WHERE ordinal <> 5"))
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'engrams_twin'", (sql,))
    found = verify(project)
    assert [finding.where for finding in found.findings] == ["index.db, table engrams"]
    assert verify(project, repair=True).sound
    assert verify(project).findings == []


BODIES: dict[str, Callable[[Path], None]] = {
    "damaged": flip,
    "cut": cut,
    "missing": Path.unlink,
    "a link": replace_by_link,
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_reported_with_what_to_do_and_stays_as_it_is(project: WholeProject, name: str) -> None:
    body, receipt = first(project, "cas/*/*"), first(project, "receipts/*/*.json")
    BODIES[name](body)
    before = contents(project)
    for repair in (False, True):
        answer = verify(project, repair=repair)
        assert not answer.sound
        assert {finding.where for finding in answer.findings} == {str(body.relative_to(project.root / ".catalog"))}
        assert all(not finding.is_copy and not finding.repaired for finding in answer.findings)
        assert all("put the tuple again" in finding.hint for finding in answer.findings)
        assert contents(project) == before
    cut(receipt)
    answer = verify(project, repair=True)
    assert not answer.sound
    assert [finding.where for finding in answer.findings if finding.repaired] == [
        str(receipt.relative_to(project.root / ".catalog"))
    ]
    assert contents(project) == before


def test_a_body_that_was_deleted_to_free_space_is_not_missing(project: WholeProject) -> None:  # YT-13
    body = first(project, "cas/*/*")
    sha = f"sha256:{body.parent.name}{body.name}"
    with closing(open_project(project.root, project.settings)) as gateway:
        purged = BodyPurged(sha=sha, size_bytes=body.stat().st_size, reason="room")
        gateway.tuple_space.space.store.commit(lambda view: ([purged], None))
        body.unlink()
        assert call(gateway, "verify").findings == []


@pytest.mark.parametrize("journal", ["memory.jsonl", "tuples.jsonl"])
def test_with_a_damaged_journal_nothing_is_repaired(project: WholeProject, journal: str) -> None:
    path = project.root / ".catalog" / journal
    data = bytearray(path.read_bytes())
    data[data.index(b"\n") + 30] ^= 1
    path.write_bytes(data)
    cut(first(project, "receipts/*/*.json"))
    append(first(project, "sam/episodes.jsonl"))
    execute("UPDATE tallies SET engrams = engrams + 1")(first(project, "derived-*/index.db"))
    before = contents(project)
    with pytest.raises(JournalDamaged) as refusal:
        verify(project, repair=True)
    assert journal in refusal.value.detail
    assert "engrambus recover" in (refusal.value.hint or "")
    assert contents(project) == before


def test_many_findings_of_a_kind_are_counted(project: WholeProject) -> None:
    folder = first(project, "receipts/*/*.json").parent
    for number in range(MAX_FINDINGS + 7):
        (folder / f"{number:062}.json").write_text("{}")
    found = verify(project).findings
    assert len(found) == MAX_FINDINGS + 1
    assert (found[-1].what, found[-1].where) == ("7 more", "receipts")
    assert verify(project, repair=True).sound
    assert verify(project).findings == []


def test_a_project_without_work_gets_no_journal_of_work(project: WholeProject) -> None:
    state = project.root / ".catalog"
    for path in (*state.glob("tuples*"), *state.glob("derived-*/work.db*"), *state.glob("derived-*/receipts.written")):
        path.unlink()
    shutil.rmtree(state / "receipts")
    assert verify(project).findings == []
    assert not (state / "tuples.jsonl").exists()


def test_the_wal_can_be_emptied_while_verify_runs(project: WholeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read transaction for all of the time would let it grow with every commit."""
    monkeypatch.setattr(comparison, "ROWS", 5)
    emptied: list[bool] = []

    def empty(done_bytes: int, total_bytes: int) -> None:
        call(
            gateway, "put_engram", claim=f"Number {len(emptied)} of the ledger", pointers=[{"type": "repo", "ref": AT}]
        )
        with closing(connect(first(project, "derived-*/index.db"))) as connection:
            ((is_busy, *_),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            emptied.append(not is_busy)

    with (
        closing(open_project(project.root, project.settings)) as gateway,
        closing(open_project(project.root, project.settings, progress=empty)) as second,
    ):
        assert call(second, "verify").findings == []
    assert len(emptied) > 20
    assert all(emptied)


@pytest.fixture
def busy(project: WholeProject) -> Iterator[WholeProject]:
    """Return a project into which other threads write engrams, episodes, tuples and receipts all the time."""
    done = threading.Event()
    with closing(open_project(project.root, project.settings)) as gateway:
        threads = [threading.Thread(target=write, args=(gateway, done, number)) for number in range(2)]
        for thread in threads:
            thread.start()
        yield project
        done.set()
        for thread in threads:
            thread.join()


def write(gateway: Gateway, done: threading.Event, writer: int) -> None:
    space = gateway.tuple_space.space
    run = gateway.identify(LOCAL_ADMIN).run.run_id
    count = 0
    while not done.is_set():
        count += 1
        text = f"Writer {writer} has found the matter {count} in the ledger."
        pointers = [{"type": "repo", "ref": f"src/parser.py:{1 + count % 20}"}]
        engram = call(gateway, "put_engram", claim=text, pointers=pointers, ttl="PT1S" if count % 3 == 0 else "P7D")
        if count % 5 == 0:
            call(gateway, "forget_engram", id=engram.id)
        call(gateway, "keep_episode", text=text, kind="decision", slug=f"w{writer}-{count % 7}")
        space.out({"lane": "notes"}, authority=PERSON, run=run, accept=True)
        space.write_receipts(gateway.project_files.receipts)


def test_verify_finds_nothing_while_others_write(busy: WholeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "ROWS", 5)  # many read transactions, with commits in between
    for repair in ROUNDS * (False, True):
        answer = verify(busy, repair=repair)
        assert answer.findings == []
