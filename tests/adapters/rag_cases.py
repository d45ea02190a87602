"""What LightRAG retrieves becomes pointers. Run by `test_lightrag.py` where the real package is installed."""  # EB-23

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import pytest
from lightrag import QueryParam
from lightrag_shop import insert_files, make_index

from engrambus import Bus, Found, Settings, init_project
from engrambus.adapters.lightrag import MAX_SOURCES, LightRagBridge, RagAnswer
from engrambus.core import estimate_tokens
from engrambus.errors import AgentNotFound, RevisionNotFound
from engrambus.knowledge.engrams import count_sentences
from engrambus.knowledge.messages import count_code

T = TypeVar("T")
LOOP = asyncio.new_event_loop()
"""LightRAG keeps locks that belong to a loop, so all tests share one."""
NAIVE = QueryParam(mode="naive", chunk_top_k=12, enable_rerank=False)
MIXED = QueryParam(mode="mix", top_k=20, chunk_top_k=12, enable_rerank=False)
EVERYTHING = {"max_chunks": 100, "max_entities": 100, "max_relations": 100}
RULES = """\
# Returns

## Window

A purchase can be returned within thirty days.
The day of the purchase does not count for the returned purchase.

## Approval

Every refund is approved by one employee. A large refund is approved by a second employee.

## Ledger

Each refund has an entry in the ledger under the number of its order.
"""
CODE = '''\
"""Refunds."""

LIMIT_CENTS = 50_000


def approvals_needed(cents):
    """Return the number of employees who approve a refund."""
    return 2 if cents > LIMIT_CENTS else 1


def open_window(days):
    """Tell whether a purchase can be returned."""
    return days <= 30


def refund_entry(order):
    """Write the refund of an order into the ledger."""
    return {"order": order, "kind": "refund of an order"}

'''
STAFF = """\
# Staff

## Approval

An employee may not approve the refund of an own order.
"""
ELSEWHERE = """\
# Weather

## Forecast

The forecast promises rain for the employee picnic and a refund of the purchase.

## Window

Through the window we saw the rain.
"""


def _refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and not isinstance(arguments[1], str | bytes):
        raise AssertionError(f"connects to {arguments[1]}")


sys.addaudithook(_refuse_network)


def wait(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end."""
    return LOOP.run_until_complete(work)


class Project(NamedTuple):
    """A repository with a bus, and an index of its files and of a page that is not in it."""

    path: Path
    sha: str
    bus: Bus
    rag: Any

    def query(self, question: str, param: QueryParam = NAIVE, **more: Any) -> RagAnswer:
        """Ask for ada."""
        return wait(LightRagBridge(self.bus, self.rag).query("ada", question, param, **more))

    def lines(self, ref: str) -> str:
        """Return the lines of a pointer, as git has them."""
        path, _, rest = ref.removeprefix("repo:").partition("#L")
        span, _, sha = rest.partition("@")
        first, last = (int(number) for number in span.split("-L"))
        whole = git(self.path, "show", f"{sha}:{path}")
        return "\n".join(whole.split("\n")[first - 1 : last])


def git(path: Path, *args: str) -> str:
    """Run git and return what it prints."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false")
    return subprocess.check_output(["git", *identity, *args], cwd=path, text=True).strip("\n")


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any]]:
    """Return the files of a repository and their index, made once."""
    files = tmp_path_factory.mktemp("files")
    (files / "docs").mkdir()
    (files / "docs" / "returns.md").write_text(RULES, "utf-8")
    (files / "docs" / "staff.md").write_text(STAFF, "utf-8")
    (files / "returns.py").write_text(CODE, "utf-8")
    (files / "weather.md").write_text(ELSEWHERE, "utf-8")
    rag = wait(make_index(tmp_path_factory.mktemp("index"), chunk_chars=300))
    wait(insert_files(rag, files))
    (files / "weather.md").unlink()
    yield files, rag
    wait(rag.finalize_storages())


@pytest.fixture
def project(indexed: tuple[Path, Any], tmp_path: Path) -> Iterator[Project]:
    files, rag = indexed
    path = tmp_path / "shop"
    (path / "docs").mkdir(parents=True)
    for name in ("docs/returns.md", "docs/staff.md", "returns.py"):
        (path / name).write_text((files / name).read_text("utf-8"), "utf-8")
    git(path, "init", "-q", "-b", "main")
    git(path, "add", "-A")
    git(path, "commit", "-qm", "The shop")
    settings = Settings.from_environment({"HOME": str(tmp_path)})
    init_project(path, settings)
    with Bus.open(path, settings=settings) as bus:
        bus.add_agent("ada", role="programmer")
        yield Project(path, git(path, "rev-parse", "HEAD"), bus, rag)


def folded(text: str) -> str:
    """Return a text without its line breaks."""
    return " ".join(text.split())


def test_every_chunk_of_the_repository_points_at_the_lines_that_hold_it(project: Project) -> None:
    data = wait(project.rag.aquery_data("refund purchase employee", NAIVE))["data"]
    chunks = {chunk["chunk_id"]: chunk for chunk in data["chunks"]}
    answer = project.query("refund purchase employee", **EVERYTHING)
    put = {item.name: found for item, found in zip(answer.items, answer.found, strict=True)}
    assert len(put) >= 3
    for chunk_id, found in put.items():
        (pointer,) = found.engram.pointers
        assert pointer.ref.endswith(f"@{project.sha}")
        assert folded(chunks[chunk_id]["content"]) in folded(project.lines(pointer.ref))
        assert pointer.ref.partition("#")[0].endswith(chunks[chunk_id]["file_path"])
    assert {pointer.ref.partition("#")[0] for found in put.values() for pointer in found.engram.pointers} == {
        "repo:docs/returns.md", "repo:docs/staff.md", "repo:returns.py",
    }  # fmt: skip


def test_an_engram_is_a_short_claim_from_rag_in_the_agents_name(project: Project) -> None:
    for found in project.query("refund purchase employee", MIXED, **EVERYTHING).found:
        engram = found.engram
        assert len(engram.claim) <= 500
        assert count_sentences(engram.claim) <= 3
        assert count_code(engram.claim) == 0
        assert engram.provenance.source == "rag"
        assert engram.provenance.created_by.endswith("/ada")
        assert all(pointer.digest is not None for pointer in engram.pointers)
        assert (engram.scope, found.excerpt) == ("run", None)


def test_the_text_of_a_chunk_is_not_stored(project: Project) -> None:
    project.query("refund purchase employee", MIXED, **EVERYTHING)
    stored = (project.path / ".catalog" / "memory.jsonl").read_text("utf-8")
    assert "approvals_needed" in stored
    for line in ("return 2 if cents", "LIMIT_CENTS = 50_000", "return days <= 30"):
        assert line not in stored


def test_a_chunk_is_found_by_what_it_says(project: Project) -> None:
    project.query("refund purchase employee", **EVERYTHING)
    ada = project.bus.speak_as("ada")
    assert "returned within thirty days" in ada.query_engrams("returned within thirty days").engrams[0].claim
    assert "approvals_needed" in ada.query_engrams("approvals_needed").engrams[0].claim


def test_what_is_not_in_the_repository_is_skipped_and_counted(project: Project) -> None:
    answer = project.query("forecast rain picnic", MIXED, **EVERYTHING)
    reasons = {item.sort: item.reason for item in answer.skipped}
    assert reasons["chunk"] == reasons["entity"] == "not in the repository"
    assert answer.skip_counts["not in the repository"] >= 2
    assert all("rain" not in found.engram.claim for found in answer.found)
    assert not answer.refused


def test_entities_and_relations_point_at_the_chunks_they_come_from(project: Project) -> None:
    answer = project.query("approvals needed refund ledger window", MIXED, **EVERYTHING)
    put: dict[tuple[str, str], object] = {(item.sort, item.name): item.outcome for item in answer.items}
    assert {sort for sort, _ in put} == {"chunk", "entity", "relation"}
    for sort, name, said in (
        ("entity", "approvals_needed", "Return the number of employees who approve a refund"),
        ("entity", "Approval", "Every refund is approved by one employee"),
        ("relation", "Approval - Window", "Window and Approval are described together"),
    ):
        found = put[sort, name]
        assert isinstance(found, Found)
        assert said in found.engram.claim
        assert name.partition(" ")[0] in found.engram.claim
        shown = [folded(project.lines(pointer.ref)) for pointer in found.engram.pointers]
        assert any(said in lines or all(part in lines for part in name.split(" - ")) for lines in shown)


def test_an_entity_of_several_chunks_points_at_all_of_them(project: Project) -> None:
    answer = project.query("approval window of a refund", MIXED, **EVERYTHING)
    approval = next(item.outcome for item in answer.items if (item.sort, item.name) == ("entity", "Approval"))
    assert isinstance(approval, Found)
    paths = {pointer.ref.partition("#")[0] for pointer in approval.engram.pointers}
    assert paths == {"repo:docs/returns.md", "repo:docs/staff.md"}
    assert "Every refund is approved" in approval.engram.claim
    assert "may not approve the refund" in approval.engram.claim


def test_an_entity_that_rests_on_a_chunk_from_elsewhere_too_is_skipped(project: Project) -> None:
    answer = project.query("approval window of a refund", MIXED, **EVERYTHING)
    assert ("entity", "Window", "not in the repository") in {
        (item.sort, item.name, item.reason) for item in answer.skipped
    }


def test_excerpts_are_read_only_within_the_budget(project: Project) -> None:
    assert not any(found.excerpt for found in project.query("refund purchase employee").found)
    found = project.query("refund purchase employee", max_tokens=350).found
    spent = [estimate_tokens(msgspec.json.encode(item.excerpt)) for item in found if item.excerpt is not None]
    assert spent
    assert sum(spent) <= 350
    assert {item.withheld.code for item in found if item.withheld} <= {"BUDGET_TOO_SMALL", "DEREF_DENIED"}


def test_an_older_index_is_anchored_at_the_commit_it_was_made_of(project: Project) -> None:
    (project.path / "returns.py").write_text("# rewritten from scratch\n", "utf-8")
    git(project.path, "commit", "-qam", "Rewrite")
    at_head = project.query("approvals needed cents", **EVERYTHING)
    assert at_head.skip_counts["not in the repository"] >= 1
    bridge = LightRagBridge(project.bus, project.rag, revision=project.sha)
    older = wait(bridge.query("ada", "approvals needed cents", NAIVE, max_chunks=100))
    assert len(older.found) > len(at_head.found)
    refs = [found.engram.pointers[0].ref for found in older.found]
    assert {ref.partition("@")[2] for ref in refs if "returns.py" in ref} == {project.sha}


def test_an_agent_gets_nothing_of_files_that_its_role_may_not_see(project: Project) -> None:
    project.bus.apply_policy({"visibility": {"programmer": {"paths": ["!returns.py"]}}})
    answer = project.query("refund approvals_needed purchase", MIXED, **EVERYTHING)
    assert answer.found
    for found in answer.found:
        assert "approvals_needed" not in found.engram.claim
        assert all("returns.py" not in pointer.ref for pointer in found.engram.pointers)
    assert "approvals_needed" in {item.name for item in answer.skipped}


def test_what_cannot_be_searched_for_or_has_too_many_sources_is_skipped(project: Project, tmp_path: Path) -> None:
    files = project.path
    wide = "字" * 40  # LightRAG cuts chunks by what the embedding takes, in characters here
    (files / "long.md").write_text("".join(f"The refund story {n} {wide}\n" for n in range(200)), "utf-8")
    for number in range(MAX_SOURCES + 1):
        text = f"# Page {number}\n\n## Voucher\n\nA voucher for refund {number} is paid in cash.\n"
        (files / f"page{number}.md").write_text(text, "utf-8")
    git(files, "add", "-A")
    git(files, "commit", "-qm", "Pages")
    rag = wait(make_index(tmp_path / "many", chunk_chars=40_000))
    wait(insert_files(rag, files))
    large = QueryParam(mode="mix", top_k=20, chunk_top_k=20, max_total_tokens=200_000, enable_rerank=False)
    answer = wait(LightRagBridge(project.bus, rag).query("ada", "long refund story voucher", large, **EVERYTHING))
    reasons = {(item.sort, item.reason) for item in answer.skipped}
    assert {("chunk", "too long"), ("entity", "too many sources")} <= reasons
    assert any("paid in cash" in found.engram.claim for found in answer.found)
    wait(rag.finalize_storages())


def test_a_secret_in_a_chunk_is_left_out(project: Project, tmp_path: Path) -> None:
    secret = "AKIA" + "Q3EGRVVQ7Y2PXH4M"
    page = f"# Keys\n\nThe robot rotates every key at night.\n\nThe refund key is {secret}.\n"
    (project.path / "keys.md").write_text(page, "utf-8")
    git(project.path, "add", "-A")
    git(project.path, "commit", "-qm", "Keys")
    rag = wait(make_index(tmp_path / "keys"))
    wait(insert_files(rag, project.path))
    answer = wait(LightRagBridge(project.bus, rag).query("ada", "robot rotates the refund key", NAIVE))
    assert any("rotates every key" in found.engram.claim for found in answer.found)
    assert secret not in (project.path / ".catalog" / "memory.jsonl").read_text("utf-8")
    wait(rag.finalize_storages())


def test_more_than_the_limit_is_left_out(project: Project) -> None:
    answer = project.query("refund purchase employee", MIXED, max_chunks=1, max_entities=1, max_relations=0)
    assert sorted(item.sort for item in answer.items) == ["chunk", "entity"]
    assert answer.skip_counts["over the limit"] > 2


def test_the_same_question_again_confirms_and_adds_nothing(project: Project) -> None:
    first = [found.engram.id for found in project.query("refund purchase employee").found]
    assert [found.engram.id for found in project.query("refund purchase employee").found] == first


def test_a_question_without_results_puts_nothing(project: Project, tmp_path: Path) -> None:
    empty = wait(make_index(tmp_path / "empty"))
    answer = wait(LightRagBridge(project.bus, empty).query("ada", "refund purchase", NAIVE))
    assert (answer.items, answer.skipped) == ((), ())
    wait(empty.finalize_storages())
    assert project.bus.query_engrams().engrams == []


def test_an_unknown_agent_or_commit_is_raised(project: Project) -> None:
    with pytest.raises(AgentNotFound):
        wait(LightRagBridge(project.bus, project.rag).query("nobody", "refund purchase", NAIVE))
    with pytest.raises(RevisionNotFound):
        wait(LightRagBridge(project.bus, project.rag, revision="0" * 40).query("ada", "refund purchase", NAIVE))
