"""Unresolved pointers: where they may exist, how they are shown, and how they become evidence."""  # EB-04

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus import Bus, Hooks, Refused, Retrieved
from engrambus.app import init_project, open_project
from engrambus.edges.mcp.answers import engram_line
from engrambus.errors import EngramBusError, EpisodeNotFound, RepositoryAbsent, RepositoryNotFound, RevisionNotFetched
from engrambus.evidence.pointers import Pointer
from engrambus.evidence.pointers.resolve import Origin, may_stay_unresolved
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.knowledge.cortex import SnapshotScope
from engrambus.knowledge.engrams import Engram, EngramPinned, EngramPut, has_evidence
from engrambus.policy import PROJECT_SPACE
from engrambus.settings import Settings
from engrambus.testing.client import expect_refusal
from tests.cli.runner import Shell
from tests.projects import Repository, commit_files, git, make_repository

CLAIM = "The lexer is small."


@pytest.fixture
def library(tmp_path: Path) -> Repository:
    """A second repository, which no project has yet."""
    made = make_repository(tmp_path / "library")
    return made._replace(sha=commit_files(made.path, {"lexer.py": "def lex(): ...\n"}))


@pytest.fixture
def open_bus(repository: Repository, settings: Settings) -> Iterator[Callable[[], Bus]]:
    """Opens the project; a project file that was changed is read again."""
    init_project(repository.path, settings)
    opened: list[Gateway] = []

    def open_it() -> Bus:
        opened.append(open_project(repository.path, settings))
        return Bus(opened[-1], LOCAL_ADMIN, owns_transport=False)

    yield open_it
    for gateway in opened:
        gateway.close()


def configure(repository: Repository, **repositories: str) -> None:
    """Name further repositories in the project's file."""
    file = repository.path / ".catalog/project.yaml"
    text = file.read_text().splitlines()[0]
    file.write_text(f"{text}\nrepositories: {json.dumps(repositories)}\n")


def put_absent(bus: Bus, library: Repository, *more: str, **fields: Any) -> Engram:
    """Put an engram about a file of the library."""
    refs = (f"repo:lib//lexer.py@{library.sha}", *more)
    pointers = [Pointer(type=ref.partition(":")[0], ref=ref) for ref in refs]
    return bus.put_engram(CLAIM, pointers=pointers, kind="constraint", **fields)


def test_a_pointer_into_a_configured_repository_that_is_not_here_is_unresolved(
    repository: Repository, library: Repository, open_bus: Callable[[], Bus]
) -> None:
    bus = open_bus()
    with expect_refusal("REPOSITORY_NOT_FOUND", "pointers[0].ref"):  # not configured
        put_absent(bus, library)
    configure(repository, lib="../not-cloned")
    bus = open_bus()  # an absent repository does not keep the project from being opened
    engram = put_absent(bus, library)
    assert engram.pointers[0].digest is None
    assert not has_evidence(engram)
    about = bus.query_engrams("lexer").about[engram.id].evidence
    assert about is not None
    assert (about.state, about.unresolved) == ("unresolved", [engram.pointers[0].ref])
    assert about.hint is not None
    assert "project.yaml" in about.hint
    with expect_refusal("REPOSITORY_ABSENT"):  # what is not here cannot be read, asked for or granted
        bus.deref_pointer(engram.pointers[0].ref)


def test_an_unresolved_engram_is_shown_as_such_and_is_never_evidence(
    repository: Repository, library: Repository, open_bus: Callable[[], Bus]
) -> None:
    configure(repository, lib="../not-cloned")
    bus = open_bus()
    engram = put_absent(bus, library, scope="run")
    with expect_refusal("EVIDENCE_UNRESOLVED", "id"):
        bus.pin_engram(engram.id)
    with expect_refusal("EVIDENCE_UNRESOLVED", "id"):
        bus.promote_engram(engram.id)
    assert not any(CLAIM in line for line in bus.brief().lines)
    assert bus.inherit(scope=SnapshotScope(include_atoms=True)).items == ()
    (row,) = bus.feed(id=engram.id).rows
    assert ([state and state.state for state in row.states], row.stale) == (["unresolved"], False)
    about = bus.query_engrams("lexer").about[engram.id]
    assert " unresolved, " in engram_line(engram, about)


def test_of_several_pointers_the_unresolved_ones_are_named(
    repository: Repository, library: Repository, open_bus: Callable[[], Bus]
) -> None:
    configure(repository, lib="../not-cloned")
    bus = open_bus()
    engram = put_absent(bus, library, f"repo:src/parser.py#L1-L2@{repository.sha}")
    assert has_evidence(engram)
    about = bus.query_engrams("lexer").about[engram.id]
    assert about.evidence is not None
    assert (about.evidence.state, about.evidence.unresolved) == ("same", [engram.pointers[0].ref])
    assert f"@{library.sha}(unresolved) " in engram_line(engram, about)
    assert any(CLAIM in line for line in bus.brief().lines)
    assert [item.content for item in bus.inherit(scope=SnapshotScope(include_atoms=True)).items] == [CLAIM]
    assert bus.pin_engram(engram.id).pinned


def test_confirming_resolves_what_has_become_available(
    repository: Repository, library: Repository, open_bus: Callable[[], Bus]
) -> None:
    configure(repository, lib="../not-cloned")
    engram = put_absent(open_bus(), library)
    configure(repository, lib=str(library.path))
    bus = open_bus()
    about = bus.query_engrams("lexer").about[engram.id].evidence
    assert about is not None
    assert (about.state, about.hint) == ("unresolved", "What it points at is here now: confirm the engram.")
    answer = bus.confirm_engram(engram.id)
    assert (answer.resolved, answer.unresolved) == ([engram.pointers[0].ref], [])
    confirmed = bus.get_engram(engram.id)
    assert has_evidence(confirmed)
    assert confirmed.pointers[0].digest == bus.deref_pointer(engram.pointers[0].ref).content_digest
    assert any(CLAIM in line for line in bus.brief().lines)
    assert bus.pin_engram(engram.id).pinned
    journal = (repository.path / ".catalog/memory.jsonl").read_text()
    assert journal.count('"resolved"') == 1
    next(repository.path.glob(".catalog/derived-*/index.db")).unlink()
    assert open_bus().get_engram(engram.id) == confirmed
    assert bus.confirm_engram(engram.id).resolved == []


def test_repeating_the_claim_resolves_it_too(
    repository: Repository, library: Repository, open_bus: Callable[[], Bus]
) -> None:
    configure(repository, lib="../not-cloned")
    first = put_absent(open_bus(), library)
    configure(repository, lib=str(library.path))
    again = put_absent(open_bus(), library)
    assert again.id == first.id
    assert has_evidence(again)


def test_in_a_shallow_clone_a_commit_that_was_not_fetched_is_unresolved(
    library: Repository, settings: Settings, tmp_path: Path
) -> None:
    old = git(library.path, "rev-parse", "HEAD~1")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{library.path}", str(clone))
    init_project(clone, settings)
    with closing(open_project(clone, settings)) as gateway:
        bus = Bus(gateway, LOCAL_ADMIN, owns_transport=False)
        here = bus.put_engram("The parser is here.", at=["src/parser.py:1"])
        assert has_evidence(here)
        pointer = Pointer(type="repo", ref=f"repo:src/parser.py#L1-L2@{old}")
        absent = bus.put_engram("The parser was like this.", pointers=[pointer])
        assert not has_evidence(absent)
        with expect_refusal("REVISION_NOT_FETCHED", "pointer.ref"):
            bus.request_deref(pointer, reason="To see it.")
        with expect_refusal("FILE_NOT_FOUND"):  # a commit that is here has no such file
            bus.put_engram("It is not.", at=["src/nowhere.py:1"])
        git(clone, "fetch", "-q", "--unshallow")
        assert bus.confirm_engram(absent.id).resolved == [pointer.ref]
        assert has_evidence(bus.get_engram(absent.id))
        with expect_refusal("REVISION_NOT_FOUND"):
            bus.put_engram("It never was.", pointers=[Pointer(type="repo", ref=f"repo:src/parser.py@{'0' * 40}")])


def test_retrieved_knowledge_may_name_a_commit_that_is_not_here(
    library: Repository, open_bus: Callable[[], Bus]
) -> None:
    bus = open_bus()
    bus.add_agent("ada", role="architect")
    hooks = Hooks(bus)
    text = "The lexer splits the text at spaces."
    (found,) = hooks.on_rag_result("ada", [Retrieved(text=text, path="lexer.py", sha=library.sha)])
    assert not isinstance(found, Refused)
    assert not has_evidence(found.engram)
    (refused,) = hooks.on_rag_result("ada", [Retrieved(text=text, path="nowhere.py")])
    assert isinstance(refused, Refused)
    assert refused.code == "FILE_NOT_FOUND"
    pointer = Pointer(type="repo", ref=f"repo:lexer.py@{library.sha}")
    with expect_refusal("REVISION_NOT_FOUND"):  # an agent that states it must have it
        bus.put_engram(text, pointers=[pointer])


@pytest.mark.parametrize(
    ("problem", "origin", "may"),
    [
        (RepositoryAbsent(), "stated", True),
        (RevisionNotFetched(), "stated", True),
        (RepositoryNotFound(), "stated", False),
        (RepositoryNotFound(), "retrieved", True),
        (RevisionNotFetched(), "imported", True),
        (RepositoryNotFound(), "imported", True),
        (RepositoryNotFound(), "adopted", True),
        (EpisodeNotFound(), "imported", False),
        (EpisodeNotFound(), "stated", False),
    ],
)
def test_the_reasons_why_a_pointer_may_stay_unresolved(problem: EngramBusError, origin: Origin, may: bool) -> None:
    assert may_stay_unresolved(problem, origin) is may


def test_a_digest_of_what_is_not_here_is_refused(
    repository: Repository, library: Repository, open_bus: Callable[[], Bus]
) -> None:
    configure(repository, lib="../not-cloned")
    pointer = Pointer(type="repo", ref=f"repo:lib//lexer.py@{library.sha}", digest="sha256:" + "1" * 64)
    with expect_refusal("REPOSITORY_ABSENT", "pointers[0].ref"):
        open_bus().put_engram(CLAIM, pointers=[pointer])


@pytest.mark.parametrize(
    "ref",
    [
        f"test:t.py::x@sha256:{'c' * 64}",
        "sam:decision:never-made@7",
        f"url:https://example.org/@sha256:{'c' * 64}",
    ],
)
def test_a_journal_with_unread_pointers_of_an_older_version_opens(
    repository: Repository, settings: Settings, open_bus: Callable[[], Bus], ref: str
) -> None:
    put = open_bus().put_engram("The parser holds.", at=["src/parser.py:1"], kind="constraint")
    older = msgspec.structs.replace(
        put,
        id="01KDVP9R000000000000000009",
        claim="It passed once.",
        pointers=(Pointer(type=ref.partition(":")[0], ref=ref),),
    )
    with closing(open_project(repository.path, settings)) as gateway:
        # Earlier versions stored these pointers unread, and let them be pinned.
        facts = [
            EngramPut(engram=older, run=put.provenance.created_by.partition("/")[0], expires_at=1 << 52),
            EngramPinned(id=older.id, space=PROJECT_SPACE, by=put.provenance.created_by),
        ]
        gateway.store.commit(lambda view: (facts, None))
    next(repository.path.glob(".catalog/derived-*/index.db")).unlink()
    bus = open_bus()
    about = bus.query_engrams(kind="constraint").about[older.id].evidence
    assert about is not None
    assert (about.state, about.unresolved) == ("unresolved", [ref])
    assert about.hint
    assert any("The parser holds." in line for line in bus.brief().lines)
    assert not any("It passed once" in line for line in bus.brief().lines)
    bus.apply_policy({"scopes": ["run", "project", "org"]})
    with expect_refusal("EVIDENCE_UNRESOLVED"):
        bus.promote_engram(older.id, scope="org")
    assert bus.confirm_engram(older.id).unresolved == [ref]
    assert not bus.unpin_engram(older.id).pinned


def test_people_see_what_is_unresolved(
    repository: Repository,
    library: Repository,
    open_bus: Callable[[], Bus],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configure(repository, lib="../not-cloned")
    bus = open_bus()
    shell = Shell(repository, tmp_path / "home", monkeypatch)
    printed = shell.run("put", CLAIM, "--pointer", f"repo:lib//lexer.py@{library.sha}").out
    assert "unresolved: what it names is not here" in printed
    engram_id = printed.split()[0]
    assert "  unresolved  " in shell.run("query", "lexer").out
    assert "  unresolved  " in shell.run("feed").out
    shown = shell.run("show", engram_id).out
    assert f"unresolved  repo:lib//lexer.py@{library.sha}" in shown
    assert ".catalog/project.yaml" in shown
    refused = shell.run("pin", engram_id)
    assert refused.err.startswith("error EVIDENCE_UNRESOLVED: No pointer of this engram leads to content that is here")
    assert "engrambus confirm" in refused.err
    assert f"unresolved  repo:lib//lexer.py@{library.sha}" in shell.run("confirm", engram_id).out
    assert bus.query_engrams("lexer").engrams[0].id.startswith(engram_id)
