"""Pointers of engrams that other projects see name their repository."""  # EB-03 EB-04 EB-20

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engrambus import Bus, LimitWarning
from engrambus.app import init_project, open_project
from engrambus.evidence.pointers import GitRepository, Pointer, Repositories
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway
from engrambus.knowledge.engrams import Engram
from engrambus.settings import Settings
from engrambus.testing.client import expect_refusal
from tests.projects import Repository, commit_files, git, make_repository

OPEN = {"scopes": ["run", "project", "org", "global"], "write_scopes": {"admin": ["run", "project", "org"]}}


class Projects:
    """Two projects of one account, each in a repository of its own, that share the org's engrams."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.settings = settings
        self.repositories = {name: make_repository(folder / name) for name in ("billing", "shop")}
        commit = commit_files(self.repositories["billing"].path, {"src/refunds.py": "LIMIT = 500\n" * 9})
        self.repositories["billing"] = self.repositories["billing"]._replace(sha=commit)
        self._open: list[Gateway] = []
        for repository in self.repositories.values():
            init_project(repository.path, settings)
        for name in self.repositories:
            self.bus(name).apply_policy(OPEN)

    def bus(self, name: str, credential: Credential = LOCAL_ADMIN) -> Bus:
        """Open a project, with its file as it is now."""
        self._open.append(open_project(self.repositories[name].path, self.settings))
        return Bus(self._open[-1], credential, owns_transport=False)

    def configure(self, project: str, **keys: Any) -> None:
        file = self.repositories[project].path / ".catalog/project.yaml"
        lines = [file.read_text().splitlines()[0], *(f"{key}: {json.dumps(value)}" for key, value in keys.items())]
        file.write_text("\n".join(lines) + "\n")

    def close(self) -> None:
        for gateway in self._open:
            gateway.close()


@pytest.fixture
def projects(tmp_path: Path, settings: Settings) -> Iterator[Projects]:
    projects = Projects(tmp_path, settings)
    yield projects
    projects.close()


def refs(engram: Engram) -> list[str]:
    return [pointer.ref for pointer in engram.pointers]


def test_a_promoted_engram_names_its_repository_and_keeps_its_id(projects: Projects) -> None:
    bus, sha = projects.bus("billing"), projects.repositories["billing"].sha
    kept = bus.keep_episode("The limit was agreed.", kind="decision", slug="limit")
    own = (
        f"repo:src/refunds.py#L1-L2@{sha}",
        f"artifact:docs/design.md#sec=Parser@{sha}",
        f"diff:src/refunds.py@{sha}..{sha}",
        kept.ref,
    )
    engram = bus.put_engram("Refunds are limited.", pointers=list(own))
    promoted = bus.promote_engram(engram.id, scope="org")
    assert promoted.id == engram.id
    assert refs(promoted) == [
        f"repo:billing//src/refunds.py#L1-L2@{sha}",
        f"artifact:billing//docs/design.md#sec=Parser@{sha}",
        f"diff:billing//src/refunds.py@{sha}..{sha}",
        kept.ref,
    ]
    assert [pointer.digest for pointer in promoted.pointers] == [pointer.digest for pointer in engram.pointers]
    for name in projects.repositories:
        assert projects.bus(name).get_engram(engram.id).pointers == promoted.pointers
    about = bus.query_engrams("refunds").about[engram.id].evidence
    assert about is not None
    assert (about.state, about.unresolved) == ("same", [])  # here it is the project's own
    for pointer in promoted.pointers:
        assert bus.deref_pointer(pointer.ref).content_digest == pointer.digest


def test_in_another_project_it_is_unresolved_until_the_repository_is_configured(projects: Projects) -> None:
    billing = projects.bus("billing")
    engram = billing.put_engram("Refunds are limited.", at=["src/refunds.py:1-2"])
    promoted = billing.promote_engram(engram.id, scope="org")
    shop = projects.bus("shop")
    about = shop.query_engrams("refunds").about[engram.id].evidence
    assert about is not None
    assert (about.state, about.unresolved) == ("unresolved", refs(promoted))
    assert about.hint is not None
    assert ".catalog/project.yaml" in about.hint
    assert "billing: ../billing" in about.hint
    with expect_refusal("REPOSITORY_NOT_FOUND"):
        shop.deref_pointer(promoted.pointers[0].ref)
    projects.configure("shop", repositories={"billing": "../billing"})
    shop = projects.bus("shop")
    about = shop.query_engrams("refunds").about[engram.id].evidence
    assert about is None or not about.unresolved
    assert shop.deref_pointer(promoted.pointers[0].ref).excerpt == "LIMIT = 500\n" * 2
    file = (projects.repositories["billing"].path / "src/refunds.py").resolve()
    link = shop.link_pointer(promoted.pointers[0].ref).editor or ""
    assert Path(link.removeprefix("vscode://file").rpartition(":")[0]).resolve() == file


def test_a_clone_of_the_repository_knows_it_by_its_origin(projects: Projects, tmp_path: Path) -> None:
    billing = projects.bus("billing")
    engram = billing.put_engram("Refunds are limited.", at=["src/refunds.py:1-2"], scope="org")
    assert refs(engram) == [f"repo:billing//src/refunds.py#L1-L2@{projects.repositories['billing'].sha}"]
    clone = tmp_path / "another-name"
    git(tmp_path, "clone", "-q", str(projects.repositories["billing"].path), str(clone))
    init_project(clone, projects.settings)
    projects.repositories["clone"] = Repository(clone, projects.repositories["billing"].sha)
    bus = projects.bus("clone")
    bus.apply_policy(OPEN)
    about = bus.query_engrams("refunds").about[engram.id].evidence
    assert about is not None
    assert (about.state, about.unresolved) == ("same", [])


def test_an_approved_promotion_names_the_repository_too(projects: Projects) -> None:
    admin = projects.bus("billing")
    lead = admin.add_agent("ada", role="architect").token
    projects.bus("billing", Credential(token=lead)).add_agent("paul", role="programmer")
    engram = admin.speak_as("paul").put_engram("Refunds are limited.", at=["src/refunds.py:1-2"])
    with pytest.warns(LimitWarning, match="APPROVAL_PENDING"):
        admin.speak_as("ada").promote_engram(engram.id, scope="org")
    assert admin.get_engram(engram.id).pointers == engram.pointers
    (request,) = admin.list_promotions().promotions
    admin.approve_promotion(request.request_id)
    (ref,) = refs(admin.get_engram(engram.id))
    assert ref.startswith("repo:billing//src/refunds.py#L1-L2@")


def test_the_configured_name_is_used(projects: Projects) -> None:
    projects.configure("billing", name="money")
    bus = projects.bus("billing")
    engram = bus.put_engram("Refunds are limited.", at=["src/refunds.py:1-2"])
    assert refs(bus.promote_engram(engram.id, scope="org"))[0].startswith("repo:money//src/refunds.py")


def test_a_name_that_another_repository_has_is_refused(projects: Projects) -> None:
    projects.configure("billing", repositories={"billing": "../shop"})
    bus = projects.bus("billing")
    engram = bus.put_engram("Refunds are limited.", at=["src/refunds.py:1-2"])
    with expect_refusal("REPOSITORY_NOT_FOUND"):
        bus.promote_engram(engram.id, scope="org")
    assert bus.get_engram(engram.id).scope == "project"


def test_only_evidence_leaves_the_project(projects: Projects) -> None:
    projects.configure("billing", repositories={"lib": "../not-cloned"})
    bus = projects.bus("billing")
    pointer = Pointer(type="repo", ref=f"repo:lib//a.py@{'1' * 40}")
    with expect_refusal("EVIDENCE_UNRESOLVED", "scope"):
        bus.put_engram("The library is small.", pointers=[pointer], scope="org")
    engram = bus.put_engram("The library is small.", pointers=[pointer])
    with expect_refusal("EVIDENCE_UNRESOLVED"):
        bus.promote_engram(engram.id, scope="org")


@pytest.mark.parametrize("name", ["a/b", "", "..", 7, "a\nb"])
def test_a_name_that_no_pointer_can_carry_is_refused(projects: Projects, name: object) -> None:
    projects.configure("billing", name=name)
    with expect_refusal("FORMAT_UNKNOWN", "name"):
        projects.bus("billing")


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ("https://example.org/team/billing.git", "billing"),
        ("git@example.org:team/billing.git", "billing"),
        ("ssh://git@example.org:22/team/billing/", "billing"),
        ("/srv/git/billing.git", "billing"),
        ("https://example.org", "folder"),
        (None, "folder"),
    ],
)
def test_the_name_comes_from_the_origin_else_from_the_folder(tmp_path: Path, origin: str | None, name: str) -> None:
    made = make_repository(tmp_path / "folder")
    if origin:
        git(made.path, "remote", "add", "origin", origin)
    repository = GitRepository(made.path)
    assert Repositories(repository, root=made.path).own_name() == name
    assert Repositories(None).own_name() is None
