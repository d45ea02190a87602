"""Bodies in a folder and in an object store: the same behaviour. # YT-19 # EB-28 # EB-29"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import obstore
import pytest
from obstore.store import S3Store

from engrambus.backends.object_bodies import ObjectBodies
from engrambus.core import digest
from engrambus.errors import EngramBusError
from engrambus.evidence.receipts import BodyFolder, BodyStore
from engrambus.settings import Settings
from tests.evidence.test_cas import code_of
from tests.harness.object_store import BUCKET, ObjectServer, object_server
from tests.projects import Repository, make_gateway
from tests.space.terminal import WORK, open_terminal

PROJECT = "01KDVP9R00STGMERGYTEST0000"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    with object_server(tmp_path_factory.mktemp("objects")) as server:
        yield server


class Place(NamedTuple):
    """A body store, and the folder in which its bodies are files."""

    store: BodyStore
    folder: Path

    def file(self, name: str) -> Path:
        return self.folder / name[7:9] / name[9:]


@pytest.fixture(params=["folder", "object store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return Place(BodyFolder(tmp_path / "cas"), tmp_path / "cas")
    server: ObjectServer = request.getfixturevalue("server")
    prefix = tmp_path.name
    store = ObjectBodies(f"s3://{BUCKET}/{prefix}", PROJECT, server.environment)
    return Place(store, server.folder / BUCKET / prefix / PROJECT / "bodies")


@pytest.mark.parametrize("body", [b"", b"x", os.urandom(12_000_000)], ids=["empty", "short", "long"])
def test_a_body_is_read_by_its_digest(place: Place, body: bytes) -> None:
    name = place.store.put(body)
    assert name == digest(body)
    assert place.store.get(name) == body
    assert place.store.put(io.BytesIO(body)) == name
    assert place.store.get(name) == body
    assert place.store.is_intact(name)
    assert [(sha, size) for sha, size, _ in place.store.stored() if size] == [(name, len(body))] * bool(body)


def test_lines_and_ends_are_read(place: Place) -> None:
    body = b"".join(b"line %d\n" % number for number in range(1, 400_001))
    name = place.store.put(body)
    assert place.store.get_lines(name, 200_000, 200_001, 100) == b"line 200000\nline 200001\n"
    assert place.store.get_ends(name, 7) == (b"line 1\n", b"400000\n", 400_000)
    assert code_of(lambda: place.store.get_lines(name, 400_000, 400_001, 100)) == "SPAN_NOT_FOUND"
    assert code_of(lambda: place.store.get(name, 10)) == "CONTENT_TOO_LARGE"


def test_what_is_absent_or_no_digest_is_refused(place: Place) -> None:
    absent = digest(b"absent")
    for read in (place.store.get, place.store.touch):
        assert code_of(lambda read=read: read(absent)) == "BODY_NOT_FOUND"  # type: ignore[misc]
    assert not place.store.exists(absent)
    assert not place.store.is_intact(absent)
    assert place.store.remove(absent, untouched_since=time.time()) == 0
    for name in ("", "sha256:..", "../../etc/passwd", absent.upper(), absent[7:]):
        assert code_of(lambda name=name: place.store.get(name)) == "POINTER_SYNTAX"  # type: ignore[misc]


def test_a_damaged_body_is_refused_until_it_is_put_again(place: Place) -> None:
    name = place.store.put(b"true")
    place.file(name).chmod(0o600)
    place.file(name).write_bytes(b"fake")
    assert code_of(lambda: place.store.get(name)) == "OBJECT_DAMAGED"
    assert not place.store.is_intact(name)
    ((damaged, _),) = place.store.find_damaged(lambda done, total: None)
    assert damaged == name
    assert name[9:] in place.store.place_of(name)
    assert place.store.put(b"true") == name
    assert place.store.get(name) == b"true"
    assert list(place.store.find_damaged(lambda done, total: None)) == []


def test_a_body_that_was_read_lately_is_not_removed(place: Place) -> None:
    """Neither one that was written, read or touched since the time."""
    read, touched, old = (place.store.put(body) for body in (b"read", b"touched", b"old"))
    before = time.time() - 3600
    for name in (read, touched, old):
        os.utime(place.file(name), (before - 60, before - 60))
    place.store.get(read)
    place.store.touch(touched)
    assert place.store.get(old, renew=False) == b"old"
    times = {sha: touched_us / 1_000_000 for sha, _, touched_us in place.store.stored()}
    assert times[read] > before
    assert times[touched] > before
    assert times[old] < before
    assert [place.store.remove(name, untouched_since=before) for name in (read, touched, old)] == [0, 0, 3]
    assert {sha for sha, *_ in place.store.stored()} == {read, touched}
    assert not place.store.exists(old)
    assert place.store.put(b"old") == old
    assert place.store.get(old) == b"old"


def test_an_interrupted_removal_is_finished_or_taken_back(server: ObjectServer, tmp_path: Path) -> None:
    """A body that a reader asked for after it was moved aside comes back."""
    url = f"s3://{BUCKET}/{tmp_path.name}"
    store = ObjectBodies(url, PROJECT, server.environment)
    config = {name.lower(): value for name, value in server.environment.items()}
    raw = S3Store.from_url(f"{url}/{PROJECT}", config=config, client_options={"allow_http": True})  # type: ignore[arg-type]
    unread, read = store.put(b"unread"), store.put(b"read")
    for name in (unread, read):
        obstore.copy(raw, f"bodies/{name[7:9]}/{name[9:]}", f"removing/{name[7:]}")
        obstore.delete(raw, f"bodies/{name[7:9]}/{name[9:]}")
    assert code_of(lambda: store.get(read)) == "BODY_NOT_FOUND"
    assert list(store.leftovers(untouched_since=time.time() - 60)) == []
    left = list(store.leftovers(untouched_since=time.time() + 60))
    assert sorted(size for _, size in left) == [4, 6]
    for name, _ in left:
        store.remove_leftover(name)
    assert store.get(read) == b"read"
    assert not store.exists(unread)
    assert list(store.leftovers(untouched_since=time.time() + 60)) == []


@pytest.mark.parametrize("ahead_seconds", [0, 7200, -7200])
def test_clocks_of_host_and_store_may_differ(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_seconds: int
) -> None:
    """What counts is how long ago something was by the store's own clock."""
    store = ObjectBodies(f"s3://{BUCKET}/{tmp_path.name}", PROJECT, server.environment)
    real_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + ahead_seconds * 1_000_000_000)
    name, now = store.put(b"x"), time.time_ns() / 1_000_000_000
    ((_, _, touched_us),) = store.stored()
    assert abs(touched_us / 1_000_000 - now) < 30
    assert store.remove(name, untouched_since=now - 30) == 0
    assert store.remove(name, untouched_since=now + 30) == 1


@pytest.mark.parametrize(
    ("url", "changed", "said"),
    [
        ("s3://team/x", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "127.0.0.1:9"),
        ("s3://team/x", {"AWS_SECRET_ACCESS_KEY": "other-secret"}, "privileges"),
        ("s3://nobody/x", {}, "nobody"),
    ],
)
def test_a_store_that_refuses_or_is_gone_is_named(
    server: ObjectServer, url: str, changed: dict[str, str], said: str
) -> None:
    store = ObjectBodies(url, PROJECT, {**server.environment, **changed})
    with pytest.raises(EngramBusError) as caught:
        store.put(b"x")
    problem = caught.value
    assert problem.code == "BODIES_UNAVAILABLE"
    assert problem.field == "ENGRAMBUS_BODIES"
    assert said in problem.detail
    assert "secret" not in f"{problem.detail} {problem.used} {problem.hint}"


def test_a_store_that_dies_while_it_is_used_loses_nothing(tmp_path: Path) -> None:
    with object_server(tmp_path / "objects") as server:
        store = ObjectBodies(f"s3://{BUCKET}", PROJECT, server.environment)
        name = store.put(b"kept")
        server.process.kill()
        server.process.wait()
        assert code_of(lambda: store.get(name)) == "BODIES_UNAVAILABLE"
        assert code_of(lambda: store.put(b"new")) == "BODIES_UNAVAILABLE"
    kept = tmp_path / "objects" / BUCKET / PROJECT / "bodies" / name[7:9] / name[9:]
    assert kept.read_bytes() == b"kept"


@pytest.mark.parametrize("url", ["s3://", "ftp://team/x", "team", "s3:/team"])
def test_a_wrong_setting_is_refused(url: str) -> None:
    with pytest.raises(EngramBusError) as caught:
        ObjectBodies(url, PROJECT, {})
    assert (caught.value.code, caught.value.field) == ("FIELD_VALUE", "ENGRAMBUS_BODIES")


@pytest.mark.parametrize("shared", ["s3", "folder"])
def test_projects_on_two_hosts_share_bodies_and_no_other_project_sees_them(
    repository: Repository, server: ObjectServer, tmp_path: Path, shared: str
) -> None:
    """An artifact that one process stores is read by another, by its pointer, at a budget."""
    bodies = f"s3://{BUCKET}/{tmp_path.name}" if shared == "s3" else str(tmp_path / "shared")
    environment = {"HOME": str(tmp_path / "home"), "ENGRAMBUS_BODIES": bodies, **server.environment}
    gateway = make_gateway(repository.path, Settings.from_environment(environment))
    try:
        name = gateway.tuple_space.bodies.put(b"one\ntwo\n")
        assert not (repository.path / ".catalog" / "cas").exists()
        assert digest(b"one\ntwo\n") == name
        assert gateway.tuple_space.bodies.get(name) == b"one\ntwo\n"
    finally:
        gateway.close()
    other = ObjectBodies(f"s3://{BUCKET}/{tmp_path.name}", "01KDVP9R00STGMERGYOTHER000", server.environment)
    assert not other.exists(name)


def test_workers_of_two_hosts_share_results(
    repository: Repository, settings: Settings, server: ObjectServer, tmp_path: Path
) -> None:
    """A step's output is in the object store; another process answers from it; damage is found and healed."""
    terminal = open_terminal(repository, settings, tmp_path, "tests.space.yools")
    terminal.environment |= {"ENGRAMBUS_BODIES": f"s3://{BUCKET}/{tmp_path.name}", **server.environment}
    put = ("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=2")
    terminal.run(*put)
    assert "MISS" in terminal.run(*WORK)
    assert not (terminal.path / ".catalog" / "cas").exists()
    terminal.run(*put)
    assert "HIT" in terminal.run(*WORK)
    assert terminal.run("verify").startswith("sound")
    (body,) = (server.folder / BUCKET / tmp_path.name).glob("*/bodies/*/*")
    body.write_bytes(b"4\n")
    printed, _ = terminal.start("verify").communicate(timeout=120)
    assert f"s3://{BUCKET}/{tmp_path.name}/" in printed
    terminal.run(*put)
    assert "MISS damaged body" in terminal.run(*WORK)
    assert terminal.run("verify").startswith("sound")
