"""What a parent points a child at is read before the child asks, and changes nothing but the time it takes."""  # EB-28

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import NamedTuple

import pytest

from engrambus import Bus, EngramBusError, Pointer
from engrambus.edges.http.app import create_app
from engrambus.evidence.pointers.resolve import AHEAD_CACHE_BYTES, MAX_AHEAD_BYTES
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.gateway.read_ahead import MAX_WAITING, ReadAhead
from tests.projects import Repository, commit_files, make_gateway, make_repository, make_settings

WAIT_S = 60.0


class Team(NamedTuple):
    """A lead and its child in a gateway that goes on running."""

    gateway: Gateway
    admin: Bus
    repository: Repository

    @property
    def ahead(self) -> ReadAhead:
        assert self.gateway.read_ahead is not None
        return self.gateway.read_ahead

    def ref(self, path: str = "src/parser.py", lines: str = "L10-L20") -> str:
        return f"repo:{path}#{lines}@{self.repository.sha}"

    def broadcast(self, *refs: str) -> None:
        """Point the child at something, and wait until it was read."""
        pack = "".join(f'  - "{ref}"\n' for ref in refs)
        text = f"ROLE: architect\nINSTRUCTIONS: [ Go on. ]\nTARGET_POINTER_PACK:\n{pack}"
        self.admin.speak_as("lead").broadcast(text)
        if self.gateway.read_ahead is not None:
            assert self.ahead.wait(WAIT_S)

    def lose_objects(self) -> None:
        """Take git's objects away, so that nothing more can be read from the repository."""
        self.gateway.project_files.repositories.close()
        objects = self.repository.path / ".git" / "objects"
        objects.rename(objects.with_name("objects.gone"))
        objects.mkdir()

    def journal(self) -> bytes:
        return (self.repository.path / ".catalog" / "memory.jsonl").read_bytes()


@pytest.fixture
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("team")
    repository = make_repository(folder / "repository")
    with closing(make_gateway(repository.path, make_settings(folder / "home"))) as gateway:
        admin = Bus(gateway, LOCAL_ADMIN, owns_transport=False)
        admin.add_agent("lead", role="architect")
        admin.add_agent("kid", role="programmer", parent="lead")
        yield Team(gateway, admin, repository)


def test_the_first_dereference_of_a_pack_needs_nothing_more_from_git(team: Team) -> None:
    team.gateway.start_read_ahead()
    team.broadcast(team.ref(), team.ref("docs/design.md", "L5-L7"))
    team.lose_objects()
    kid = team.admin.speak_as("kid")
    assert kid.deref_pointer(team.ref()).excerpt.startswith("line 10 of the parser\n")
    assert "trusts its input" in kid.deref_pointer(team.ref("docs/design.md", "L5-L7")).excerpt
    with pytest.raises(EngramBusError):
        kid.deref_pointer(team.ref(lines="L1-L2"))  # nobody was pointed at these


def test_a_process_that_ends_with_its_call_reads_nothing_ahead(team: Team) -> None:
    assert team.gateway.read_ahead is None
    team.broadcast(team.ref())
    team.lose_objects()
    with pytest.raises(EngramBusError):
        team.admin.speak_as("kid").deref_pointer(team.ref())


def test_a_server_reads_ahead(team: Team) -> None:
    create_app(team.gateway, port=1)
    assert team.gateway.read_ahead is not None


def test_what_a_brief_points_at_is_read_ahead_for_its_reader(team: Team) -> None:
    team.gateway.start_read_ahead()
    team.admin.put_engram(
        "The parser trusts its input.", kind="constraint", pointers=[Pointer(type="repo", ref=team.ref())]
    )
    kid = team.admin.speak_as("kid")
    assert any("trusts its input" in line for line in kid.brief().lines)
    assert team.ahead.wait(WAIT_S)
    team.lose_objects()
    assert kid.deref_pointer(team.ref()).excerpt.startswith("line 10 of the parser\n")


def test_the_answer_is_the_same_as_without_reading_ahead(team: Team) -> None:
    kid = team.admin.speak_as("kid")
    plain = kid.deref_pointer(team.ref())
    team.gateway.start_read_ahead()
    team.broadcast(team.ref())
    assert kid.deref_pointer(team.ref()) == plain


def test_nothing_is_charged_and_nothing_is_recorded(team: Team) -> None:
    team.gateway.start_read_ahead()
    kid = team.admin.speak_as("kid")
    before = kid.brief().lines[-1]
    team.broadcast(team.ref(), team.ref("docs/design.md", "L5-L7"))
    journal = team.journal()
    team.ahead.add([Pointer(type="repo", ref=team.ref(lines="L3-L4"))])
    assert team.ahead.wait(WAIT_S)
    assert team.journal() == journal
    assert kid.brief().lines[-1] == before
    for number in range(3):
        kid.deref_pointer(team.ref(lines=f"L{10 + number}-L20"))
    with pytest.raises(EngramBusError) as refusal:
        kid.deref_pointer(team.ref())  # read ahead, and still one more than a turn has
    assert refusal.value.code == "DEREF_DENIED"


def test_a_child_reads_no_more_than_its_role_may_see(team: Team) -> None:
    team.gateway.start_read_ahead()
    team.admin.apply_policy({"visibility": {"programmer": {"paths": ["!src/*"]}}})
    team.broadcast(team.ref())
    with pytest.raises(EngramBusError) as hidden:
        team.admin.speak_as("kid").deref_pointer(team.ref())
    with pytest.raises(EngramBusError) as absent:
        team.admin.speak_as("kid").deref_pointer(team.ref("src/nowhere.py"))
    assert hidden.value.code == absent.value.code == "FILE_NOT_FOUND"


def test_a_digest_of_other_content_is_refused_as_ever(team: Team) -> None:
    team.gateway.start_read_ahead()
    team.broadcast(team.ref())
    wrong = Pointer(type="repo", ref=team.ref(), digest="sha256:" + "0" * 64)
    with pytest.raises(EngramBusError) as refusal:
        team.admin.speak_as("kid").deref_pointer(wrong)
    assert refusal.value.code == "DIGEST_MISMATCH"


def test_what_cannot_be_read_ahead_bothers_nobody(team: Team) -> None:
    team.gateway.start_read_ahead()
    lost = [
        Pointer(type="repo", ref=f"repo:src/parser.py#L10-L20@{'0' * 40}"),
        Pointer(type="repo", ref="no pointer at all"),
        Pointer(type="url", ref="url:https://example.invalid/page"),
        Pointer(type="sam", ref="sam:decision:theirs@2026-01-01"),
    ]
    team.ahead.add([*lost, Pointer(type="repo", ref=team.ref())])
    assert team.ahead.wait(WAIT_S)
    team.lose_objects()
    assert team.admin.speak_as("kid").deref_pointer(team.ref()).excerpt  # the one after them was read


def test_large_content_is_not_kept(team: Team) -> None:
    team.gateway.start_read_ahead()
    line = "x" * 1023 + "\n"
    large = line * (MAX_AHEAD_BYTES // len(line) + 1)
    sha = commit_files(team.repository.path, {"large.txt": large, "small.txt": line})
    for name in ("large", "small"):
        team.ahead.add([Pointer(type="repo", ref=f"repo:{name}.txt@{sha}")])
    assert team.ahead.wait(WAIT_S)
    team.lose_objects()
    assert team.gateway.evidence.read(Pointer(type="repo", ref=f"repo:small.txt@{sha}")).data == line.encode()
    with pytest.raises(EngramBusError):
        team.gateway.evidence.read(Pointer(type="repo", ref=f"repo:large.txt@{sha}"))


def test_everything_kept_stays_within_its_bytes(team: Team) -> None:
    team.gateway.start_read_ahead()
    size = MAX_AHEAD_BYTES - 1024
    count = AHEAD_CACHE_BYTES // size + 4
    sha = commit_files(
        team.repository.path, {f"f{number}.txt": f"{number:09}\n" * (size // 10) for number in range(count)}
    )
    pointers = [Pointer(type="repo", ref=f"repo:f{number}.txt@{sha}") for number in range(count)]
    team.ahead.add(pointers)
    assert team.ahead.wait(WAIT_S)
    team.lose_objects()
    kept = 0
    for pointer in pointers:
        with suppress(EngramBusError):
            kept += len(team.gateway.evidence.read(pointer).data)
    assert 0 < kept <= AHEAD_CACHE_BYTES


def test_more_pointers_than_may_wait_drop_the_oldest(team: Team) -> None:
    team.gateway.start_read_ahead()
    text = "".join(f"line {number}\n" for number in range(1, 501))
    sha = commit_files(team.repository.path, {"lines.txt": text})
    pointers = [Pointer(type="repo", ref=f"repo:lines.txt#L{n}-L{n}@{sha}") for n in range(1, 401)]
    team.ahead.add(pointers)
    assert team.ahead.wait(WAIT_S)
    team.lose_objects()
    read = []
    for number, pointer in enumerate(pointers, 1):
        with suppress(EngramBusError):
            read.append((number, team.gateway.evidence.read(pointer).data.decode()))
    assert [number for number, _ in read] == list(range(401 - MAX_WAITING, 401))
    assert all(data == f"line {number}\n" for number, data in read)


def test_a_closed_gateway_reads_nothing_more(team: Team) -> None:
    team.gateway.start_read_ahead()
    ahead = team.ahead
    ahead.close()
    ahead.add([Pointer(type="repo", ref=team.ref())])
    assert ahead.wait(WAIT_S)
    team.lose_objects()
    with pytest.raises(EngramBusError):
        team.gateway.evidence.read(Pointer(type="repo", ref=team.ref()))
