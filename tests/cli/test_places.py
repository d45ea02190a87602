"""Pointing the way people do."""

from __future__ import annotations

import pytest

from tests.cli.runner import Desk
from tests.projects import commit_files, git

CLAIM = "The parser trusts its input."


def test_paths_are_read_from_where_one_stands(desk: Desk) -> None:
    for place, folder in (
        ("src/parser.py:3", desk.path),
        ("parser.py:3", desk.path / "src"),
        ("../src/parser.py:3", desk.path / "docs"),
    ):
        put = desk.ok("put", CLAIM, "--at", place, "--json", at=folder).json
        assert put["pointers"][0]["ref"] == f"repo:src/parser.py#L3-L3@{desk.repository.sha}"
    whole = desk.ok("put", CLAIM, "--at", str(desk.path / "src" / "parser.py"), "--json").json
    assert whole["pointers"][0]["ref"] == f"repo:src/parser.py@{desk.repository.sha}"


@pytest.mark.parametrize("place", ["../outside.py:1", "/etc/passwd:1", "src/../../x:1", ".."])
def test_paths_that_leave_the_repository_are_refused(desk: Desk, place: str) -> None:
    problem = desk.run("put", CLAIM, "--at", place, "--json").problem
    assert (problem["code"], problem["field"]) == ("POINTER_PATH", "at[0]")


def test_lines_changed_on_disk_are_warned_of(desk: Desk) -> None:
    file = desk.path / "src" / "parser.py"
    file.write_text(file.read_text().replace("line 5 ", "LINE 5 "))
    assert desk.ok("put", CLAIM, "--at", "src/parser.py:1-4").err == ""
    assert desk.ok("put", CLAIM, "--at", "src/parser.py:5@HEAD~0").err == ""
    said = desk.ok("put", CLAIM, "--at", "src/parser.py:4-6")
    assert said.err.startswith("warning: src/parser.py:4-6 differs on disk from HEAD")
    assert "engrambus deref src/parser.py:4-6" in said.err
    assert "line 5 " in desk.ok("deref", "src/parser.py:4-6").out
    file.unlink()
    assert "warning" in desk.ok("put", CLAIM, "--at", "src/parser.py:1").err


def test_line_ends_alone_are_no_change(desk: Desk) -> None:
    file = desk.path / "src" / "parser.py"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert desk.ok("put", CLAIM, "--at", "src/parser.py:1-4").err == ""


def test_a_carriage_return_is_a_line_end_for_people_and_content_for_programs(desk: Desk) -> None:
    commit_files(desk.path, {"dos.txt": "one\r\ntwo\r\n"})
    assert desk.ok("deref", "dos.txt:1-2").out.splitlines()[:2] == ["1  one", "2  two"]
    assert desk.ok("deref", "dos.txt:1-2", "--json").json["excerpt"] == "one\r\ntwo\r\n"


def test_a_file_that_is_not_committed_says_so(desk: Desk) -> None:
    (desk.path / "new.py").write_text("new\n")
    said = desk.run("put", CLAIM, "--at", "new.py:1")
    assert said.err.startswith("error FILE_NOT_FOUND")
    assert "commit it first" in said.err


@pytest.mark.parametrize("words", [("put", CLAIM, "--at"), ("deref",)])
def test_before_the_first_commit_there_is_nothing_to_point_at(bare_desk: Desk, words: tuple[str, ...]) -> None:
    git(bare_desk.path, "checkout", "-q", "--orphan", "empty")
    bare_desk.ok("init")
    said = bare_desk.run(*words, "src/parser.py:1")
    assert said.err.startswith("error REVISION_NOT_FOUND")
    assert "Commit something first" in said.err


@pytest.mark.parametrize("place", ["src/parser.py#L3", "src/parser.py#L3-L4", "src/parser.py:L3-4"])
@pytest.mark.parametrize("words", [("put", CLAIM, "--at"), ("deref",)])
def test_lines_as_a_forge_writes_them_are_told_apart_from_names(desk: Desk, words: tuple[str, ...], place: str) -> None:
    problem = desk.run(*words, place, "--json").problem
    assert (problem["code"], problem["detail"]) == ("POINTER_SPAN", "Write lines as path:10-20.")


def test_a_repository_of_sha_256_has_links_too(bare_desk: Desk) -> None:
    elsewhere = bare_desk.path / "elsewhere"
    elsewhere.mkdir()
    git(elsewhere, "init", "-q", "--object-format=sha256")
    sha = commit_files(elsewhere, {"a.py": "one\n"})
    bare_desk.ok("init", at=elsewhere)
    links = bare_desk.ok("link", "a.py:1", "--json", at=elsewhere).json
    assert (links["ref"], "swhid" in links) == (f"repo:a.py#L1-L1@{sha}", False)
    assert links["editor"].endswith("/a.py:1")


def test_links_from_elsewhere_become_pointers(desk: Desk) -> None:
    sha = desk.repository.sha
    ref = f"repo:src/parser.py#L3-L4@{sha}"
    permalink = f"https://github.com/o/r/blob/{sha}/src/parser.py#L3-L4"
    swhid = f"swh:1:cnt:{'0' * 40};anchor=swh:1:rev:{sha};path=/src/parser.py;lines=3-4"
    for link in (permalink, swhid):
        assert desk.ok("put", CLAIM, "--at", link, "--json").json["pointers"][0]["ref"] == ref
        assert ref in desk.ok("deref", link).out
    branch = permalink.replace(sha, "main")
    assert desk.run("put", CLAIM, "--at", branch, "--json").problem["code"] == "POINTER_REVISION"


def test_pointers_may_be_given_whole_or_with_short_revisions(desk: Desk) -> None:
    sha = desk.repository.sha
    put = desk.ok(
        "put",
        CLAIM,
        "--pointer",
        f"repo:src/parser.py#L1-L2@{sha}",
        "--pointer",
        f"artifact:design.md@{sha[:8]}",
        "--json",
    ).json
    assert [pointer["ref"] for pointer in put["pointers"]] == [
        f"repo:src/parser.py#L1-L2@{sha}",
        f"artifact:design.md@{sha}",
    ]
    assert "+1" in desk.ok("query", "parser").out


@pytest.mark.parametrize(
    "place",
    [
        "src/parser.py:2-3",
        "src/parser.py:2-3@HEAD",
        "src/parser.py:2-3@main",
        "repo:src/parser.py#L2-L3@{short}",
        "repo:src/parser.py#L2-L3@main",
        "src/parser.py:2-3@{short}",
    ],
)
def test_deref_prints_the_full_pointer(desk: Desk, place: str) -> None:
    sha = desk.repository.sha
    said = desk.ok("deref", place.format(short=sha[:7])).out
    assert f"repo:src/parser.py#L2-L3@{sha}" in said.splitlines()


def test_a_section_is_printed_without_line_numbers(desk: Desk) -> None:
    said = desk.ok("deref", f"artifact:design.md#sec=Parser@{desk.repository.sha}").out
    assert said.startswith("## Parser\n")


@pytest.mark.parametrize(
    "place",
    ["repo:src/parser.py#L1@nowhere", "src/absent.py:1", "src/parser.py:99", "src/parser.py:3-1", "nonsense:here@x"],
)
def test_what_leads_nowhere_is_refused(desk: Desk, place: str) -> None:
    said = desk.run("deref", place, "--json")
    assert said.problem["code"].split("_")[-1] in ("FOUND", "SPAN", "SYNTAX", "REVISION", "PATH")
