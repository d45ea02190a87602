"""The index is a projection: deleted, damaged or swapped, the answers stay the same. # BX-03"""

from __future__ import annotations

import random
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest

from engrambus.backends.sql.knowledge.postings import MAX_PENDING
from engrambus.backends.sqlite import SqliteStore
from engrambus.backends.sqlite.knowledge_index import KnowledgeIndex
from engrambus.backends.sqlite.store import over_journals
from engrambus.core import Stamp
from engrambus.core.journal import encode_line, set_damage_aside
from engrambus.errors import FormatUnknown, JournalDamaged
from engrambus.gateway import Credential, Gateway
from engrambus.policy import RunOpened
from engrambus.testing import GatewayClient, SeededRandomness, open_gateway
from engrambus.testing.harness import KEY, PROJECT
from tests.harness.stores import SqliteHarness

PAGE = 4096


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SqliteHarness]:
    harness = SqliteHarness(tmp_path / "catalog")
    client = GatewayClient(harness)
    mia = client.add_agent("mia", "manager")
    client.call("apply_policy", policy={"engrams_per_minute": 1000})
    ids = client.put_many([f"The common matter {number} of the gateway" for number in range(120)], mia, scope="run")
    for number in (1, 50, 119):
        client.call("promote_engram", id=ids[number])
    client.call("forget_engram", id=ids[7])
    client.put("The newest matter waits to be posted")
    yield harness
    harness.close()


def answers(harness: SqliteHarness) -> list[tuple[str, bytes]]:
    """Return the answers that the tests compare."""
    client = GatewayClient(harness)
    return [
        client.try_call("query_engrams", q="common matter", k=100),
        client.try_call("query_engrams", q="gateway 17"),
        client.try_call("query_engrams", k=100),
        client.try_call("query_engrams", keys=["newest"], scope="project"),
        client.try_call("list_agents"),
        client.try_call("stats"),
    ]


def index(harness: SqliteHarness) -> Path:
    return harness.folder / KEY.derived_folder / "index.db"


def _missing(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _not_a_database(path: Path) -> None:
    path.write_text("This was an index once.\n" * 1000)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100])


def _one_page(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:PAGE])


def _scribbled(path: Path) -> None:
    noise = random.Random(1)
    path.write_bytes(path.read_bytes()[:PAGE] + noise.randbytes(path.stat().st_size - PAGE))


def _bad_header(path: Path) -> None:
    path.write_bytes(random.Random(2).randbytes(100) + path.read_bytes()[100:])


def _another_layout(path: Path) -> None:
    _execute(path, "UPDATE applied SET layout = layout + 1")


def _another_project(path: Path) -> None:
    _execute(path, "UPDATE applied SET project = '01KDVP9R000000000000000000'")


def _no_row(path: Path) -> None:
    _execute(path, "DELETE FROM applied")


def _other_tables(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE applied (something_else)")
    connection.commit()
    connection.close()


def _far_ahead(path: Path) -> None:
    _execute(path, "UPDATE applied SET position = position + 1000")


def _another_line(path: Path) -> None:
    _execute(path, "UPDATE applied SET checksum = '0123456789abcdef0123456789abcdef'")


def _execute(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()


SPOILED = [
    _missing, _empty, _zeros, _not_a_database, _cut, _one_page, _scribbled, _bad_header, _another_layout,
    _another_project, _no_row, _other_tables, _far_ahead, _another_line,
]  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__.strip("_"))
@pytest.mark.parametrize("first", ["read", "write"])
def test_a_spoiled_index_is_built_again(harness: SqliteHarness, spoil: Callable[[Path], None], first: str) -> None:
    expected = answers(harness)
    journal = harness.journal_bytes()
    harness.close()
    spoil(index(harness))
    harness._open()
    if first == "write":
        GatewayClient(harness).put("Zebra")
        GatewayClient(harness).call("forget_engram", id=GatewayClient(harness).query("zebra").engrams[0].id)
        assert [answer[1] for answer in answers(harness)[:5]] == [answer[1] for answer in expected[:5]]
        assert harness.journal_bytes().startswith(journal)
    else:
        assert answers(harness) == expected
        assert harness.journal_bytes() == journal
    assert harness.gateway.store.verify() == []


def test_every_overwritten_page_is_noticed_or_harmless(harness: SqliteHarness, tmp_path: Path) -> None:
    """SQLite has no checksums: damage that reads do not show must show in `verify`, and a rebuild repairs it."""
    expected = answers(harness)
    harness.close()
    intact = index(harness).read_bytes()
    noise = random.Random(3)
    pages = len(intact) // PAGE
    silent = 0
    for page in noise.sample(range(pages), min(pages, 24)):
        spoiled = intact[: page * PAGE] + noise.randbytes(PAGE) + intact[(page + 1) * PAGE :]
        index(harness).write_bytes(spoiled)
        harness._open()
        if answers(harness) != expected:
            silent += 1
            assert harness.gateway.store.verify() != []
            harness.gateway.store.rebuild()
            assert answers(harness) == expected
        harness.gateway.store.rebuild()
        assert harness.gateway.store.verify() == []
        harness.close()
    harness._open()
    assert silent <= 2


def test_damage_under_an_open_store_is_repaired(harness: SqliteHarness) -> None:
    expected = answers(harness)
    with index(harness).open("r+b") as file:
        file.write(b"\x00" * PAGE)
        file.truncate(PAGE)
    (harness.folder / KEY.derived_folder / "index.db-wal").write_bytes(b"")
    harness.reopen()
    assert answers(harness) == expected
    assert harness.gateway.store.verify() == []


def test_a_journal_restored_from_an_older_copy_is_reindexed(harness: SqliteHarness) -> None:
    copy = harness.folder / "copy"
    shutil.copy(harness.folder / "memory.jsonl", copy)
    expected = answers(harness)
    GatewayClient(harness).put("A matter that the copy does not have")
    harness.close()
    shutil.copy(copy, harness.folder / "memory.jsonl")
    harness._open()
    assert answers(harness) == expected
    assert harness.gateway.store.verify() == []


def test_an_older_copy_that_has_grown_past_the_index_is_reindexed(harness: SqliteHarness) -> None:
    """The index is shorter than the journal, but of other lines."""
    copy = harness.folder / "copy"
    saved = harness.folder / "kept.db"
    shutil.copy(harness.folder / "memory.jsonl", copy)
    GatewayClient(harness).put("A matter that the copy does not have")
    harness.close()
    shutil.copy(index(harness), saved)
    shutil.copy(copy, harness.folder / "memory.jsonl")
    harness._open()
    for number in range(5):
        GatewayClient(harness).put(f"Another matter {number}, much longer than the one that is gone")
    expected = answers(harness)
    harness.close()
    shutil.copy(saved, index(harness))
    harness._open()
    assert answers(harness) == expected
    assert harness.gateway.store.verify() == []


def test_a_wal_left_by_a_deleted_index_does_no_harm(harness: SqliteHarness) -> None:
    client = GatewayClient(harness)
    client.put("Something in the write-ahead log")
    expected = answers(harness)
    assert (harness.folder / KEY.derived_folder / "index.db-wal").stat().st_size > 0
    index(harness).unlink()
    assert answers(harness) == expected
    index(harness).unlink()
    client.put("Zebra")
    assert client.query_claims("zebra") == ["Zebra"]
    harness.reopen()
    assert client.query_claims("zebra") == ["Zebra"]
    assert harness.gateway.store.verify() == []


@pytest.mark.parametrize("first", [MAX_PENDING - 1, MAX_PENDING - 2, MAX_PENDING - 3])
def test_cached_reads_of_one_index_are_not_used_with_another(tmp_path: Path, first: int) -> None:
    """An engram that is pending in one index may be posted in a rebuild of the same journal."""
    harness = SqliteHarness(tmp_path / "another")
    client = GatewayClient(harness)
    ids = client.put_many([f"First {number}" for number in range(first)], scope="run")
    for step in range(12):
        client.call("promote_engram", id=ids[step])
        for number in range(5):
            engram = client.put(f"Extra {step} {number}", scope="run")
        client.call("promote_engram", id=engram.id)
        client.put(f"Last {step}", scope="run")
        expected = client.try_call("query_engrams", k=100), client.try_call("query_engrams", q="extra", k=100)
        harness.delete_index()
        assert (client.try_call("query_engrams", k=100), client.try_call("query_engrams", q="extra", k=100)) == expected
    harness.close()


def test_queries_for_unknown_names_do_not_fill_the_cache(harness: SqliteHarness) -> None:
    client = GatewayClient(harness)
    for number in range(50):
        assert (
            client.try_call("query_engrams", Credential(local_admin=True, speak_as=f"x{number}"))[0]
            == "AGENT_NOT_FOUND"
        )
    store = harness.gateway.store
    assert isinstance(store, SqliteStore)
    assert isinstance(store.schema, KnowledgeIndex)
    assert len(store.schema._cache[1].identity[1]) < 10


@pytest.fixture
def second(harness: SqliteHarness) -> Iterator[Gateway]:
    """The same project, opened a second time."""
    store = SqliteStore(harness.folder, KEY, harness.clock)
    yield open_gateway(store, harness.folder, SeededRandomness(99))
    store.close()


class SecondProcess:
    """The same project as another process has opened it."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway


def test_two_stores_see_each_others_writes_at_once(harness: SqliteHarness, second: Gateway) -> None:
    first_client, second_client = GatewayClient(harness), GatewayClient(SecondProcess(second))
    for number in range(80):
        writer, reader = (first_client, second_client) if number % 2 else (second_client, first_client)
        engram = writer.put(f"Turn {number}", scope="run")
        assert reader.call("get_engram", id=engram.id) == engram
        assert reader.query_claims(k=1) == [f"Turn {number}"]
        if number % 10 == 5:
            reader.call("promote_engram", id=engram.id)
            assert writer.call("get_engram", id=engram.id).scope == "project"
        if number % 10 == 7:
            reader.call("forget_engram", id=engram.id)
            assert writer.query_claims(k=1) != [f"Turn {number}"]
    one_run = first_client.open_run()
    assert second_client.call("list_agents").run_id == one_run
    assert second.store.verify() == []
    assert harness.gateway.store.verify() == []


def test_two_open_stores_survive_a_deleted_index(harness: SqliteHarness, second: Gateway) -> None:
    first_client, second_client = GatewayClient(harness), GatewayClient(SecondProcess(second))
    for number in range(12):
        index(harness).unlink()
        writer, reader = (first_client, second_client) if number % 2 else (second_client, first_client)
        writer.put(f"Turn {number}")
        assert reader.query_claims(k=1) == [f"Turn {number}"]
        assert writer.query_claims(k=1) == [f"Turn {number}"]
    assert second.store.verify() == []


def test_reads_continue_while_others_write_and_the_index_is_deleted(harness: SqliteHarness, second: Gateway) -> None:
    first_client, second_client = GatewayClient(harness), GatewayClient(SecondProcess(second))
    stop = threading.Event()
    wrong: list[BaseException] = []

    def read() -> None:
        last = -1
        try:
            while not stop.is_set():
                (newest,) = first_client.query_claims("turn", k=1, scope="project") or ["Turn -1"]
                assert int(newest.split()[1]) >= last
                last = int(newest.split()[1])
        except BaseException as problem:
            wrong.append(problem)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(60):
        harness.clock.advance(seconds=1)
        second_client.put(f"Turn {number}")
        if number % 15 == 7:
            index(harness).unlink()
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert second.store.verify() == []


def test_a_fact_from_a_later_version_is_named(harness: SqliteHarness) -> None:
    journal = harness.folder / "memory.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    last = msgspec.json.decode(lines[-1])
    line, _ = encode_line(
        KEY.line_key(kind="memory", project=PROJECT),
        last["sum"],
        stamp=Stamp(0),
        facts=b'[{"fact":"tuple.out"}]',
        mark=journal.stat().st_size,
        seq=last["seq"] + 1,
    )
    with journal.open("ab") as file:
        file.write(line)
    harness.close()
    index(harness).unlink()
    with pytest.raises(FormatUnknown, match=r"tuple\.out"):
        SqliteStore(harness.folder, KEY, harness.clock)
    assert journal.read_bytes().endswith(line)
    journal.write_bytes(b"".join(lines))
    harness._open()


def test_damage_to_the_last_line_is_not_taken_for_a_torn_tail(harness: SqliteHarness) -> None:
    """Only the index knows that the last line was synced, so nothing is cut."""
    journal = harness.folder / "memory.jsonl"
    intact = journal.read_bytes()
    start = intact.rindex(b"\n", 0, -1) + 1
    seq = intact.count(b"\n")
    for offset in range(start + 1, len(intact), 37):
        damaged = intact[:offset] + bytes([intact[offset] ^ 1]) + intact[offset + 1 :]
        journal.write_bytes(damaged)
        for ask in (harness.gateway.store.verify, harness.gateway.store.rebuild):
            with pytest.raises(JournalDamaged) as caught:
                ask()
            assert f"line {seq}, byte {start}" in caught.value.detail
        assert journal.read_bytes() == damaged
    journal.write_bytes(intact)
    assert harness.gateway.store.verify() == []


# BX-03
def test_verify_finds_what_was_changed_behind_our_back(harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engrambus.backends.sql.knowledge.postings.MIN_BULK", MAX_PENDING)  # a rebuild fills the blocks
    for statement in (
        "DELETE FROM pending",
        "UPDATE engrams SET confidence = 0.123 WHERE ordinal = 3",
        "DELETE FROM engrams WHERE ordinal = 3",
        "DELETE FROM posting_blocks WHERE token = (SELECT max(token) FROM posting_blocks)",
        "UPDATE posting_blocks SET token = token || 'x' WHERE token = (SELECT max(token) FROM posting_blocks)",
        "DELETE FROM agents",
        "UPDATE runs SET goal = 'another'",
        "UPDATE live SET engrams = engrams + 1",
        "UPDATE tallies SET engrams = engrams + 1",
        "UPDATE kinds_put SET engrams = engrams + 1",
        "DELETE FROM history WHERE bucket = 'PT1M'",
        "INSERT INTO postings (rowid, tokens) VALUES (77, 'p:*')",
    ):
        _execute(index(harness), statement)
        assert harness.gateway.store.verify() != [], statement
        harness.gateway.store.rebuild()
        assert harness.gateway.store.verify() == []


def test_verify_blocks_no_caller(harness: SqliteHarness) -> None:
    """A put during `verify` succeeds and is not reported as a difference."""
    done: list[str] = []

    def on_progress(done_bytes: int, total_bytes: int) -> None:
        if not done:
            done.append("begun")
            putting = threading.Thread(
                target=lambda: done.append(GatewayClient(harness).put("Put during verify").claim)
            )
            putting.start()
            putting.join(timeout=30)

    with closing(SqliteStore(harness.folder, KEY, harness.clock)) as store:
        store.index._on_progress = on_progress
        assert store.verify() == []
        assert len(done) == 2
    assert harness.gateway.store.verify() == []


def test_two_concurrent_open_run_calls_open_two_runs(harness: SqliteHarness, second: Gateway) -> None:
    stores = (harness.gateway.store, second.store)
    threads = [
        threading.Thread(
            target=lambda store=store, number=number: store.commit(
                lambda view: ([RunOpened(run=f"01KDVP9R00000000000000000{number}", goal="g", by="x")], None)
            )
        )
        for number, store in enumerate(stores)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert GatewayClient(harness).counts()["runs"] == 3
    assert harness.gateway.store.verify() == []


@pytest.mark.parametrize("first", ["reads", "writes"])
def test_a_process_goes_on_when_the_damage_behind_what_it_knew_was_set_aside(
    harness: SqliteHarness, first: str
) -> None:
    """A gap stands in the place of the damaged line, but the index already holds that line (decision 97)."""
    journal = harness.folder / "memory.jsonl"
    client, length = GatewayClient(harness), journal.stat().st_size
    with closing(SqliteStore(harness.folder, KEY, harness.clock)) as second:
        second.commit(lambda view: ([RunOpened(run="01KDVP9R00STGMERGYTEST0009", goal="gone", by="x")], None))
    data = bytearray(journal.read_bytes())
    data[length + 30] ^= 1
    journal.write_bytes(data)
    over_journals(harness.folder, KEY, lambda damaged: set_damage_aside(damaged, harness.clock.now()))
    if first == "writes":
        client.put("One more matter")
    assert len(client.call("list_runs").runs) == 1
    assert harness.gateway.store.verify() == []
