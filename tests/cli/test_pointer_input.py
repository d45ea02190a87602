"""Pointers as people write them: paths, short revisions and links."""

from __future__ import annotations

import pytest

from tests.cli.runner import Shell
from tests.projects import commit_files, git

CLAIM = "The parser trusts its input."


def test_paths_start_at_the_current_folder(shell: Shell) -> None:
    for text, folder in (
        ("src/parser.py:3", shell.path),
        ("parser.py:3", shell.path / "src"),
        ("../src/parser.py:3", shell.path / "docs"),
    ):
        put = shell.ok("put", CLAIM, "--at", text, "--json", folder=folder).json
        assert put["pointers"][0]["ref"] == f"repo:src/parser.py#L3-L3@{shell.repository.sha}"
    whole_file = shell.ok(
        "put", "The parser is one file.", "--at", str(shell.path / "src" / "parser.py"), "--json"
    ).json
    assert whole_file["pointers"][0]["ref"] == f"repo:src/parser.py@{shell.repository.sha}"


@pytest.mark.parametrize("text", ["../outside.py:1", "/etc/passwd:1", "src/../../x:1", ".."])
def test_paths_that_leave_the_repository_are_refused(shell: Shell, text: str) -> None:
    problem = shell.run("put", CLAIM, "--at", text, "--json").problem
    assert (problem["code"], problem["field"]) == ("POINTER_PATH", "at[0]")


def test_lines_changed_on_disk_give_a_warning(shell: Shell) -> None:
    file = shell.path / "src" / "parser.py"
    file.write_text(file.read_text().replace("line 5 ", "LINE 5 "))
    assert shell.ok("put", CLAIM, "--at", "src/parser.py:1-4").err == ""
    assert shell.ok("put", CLAIM, "--at", "src/parser.py:5@HEAD~0").err == ""
    result = shell.ok("put", "The parser is slow.", "--at", "src/parser.py:4-6")
    assert result.err.startswith("warning: src/parser.py:4-6 differs on disk from HEAD")
    assert "engrambus deref src/parser.py:4-6" in result.err
    assert "line 5 " in shell.ok("deref", "src/parser.py:4-6").out
    file.unlink()
    assert "differs on disk" in shell.ok("put", "The parser is old.", "--at", "src/parser.py:1").err


def test_different_line_ends_give_no_warning(shell: Shell) -> None:
    file = shell.path / "src" / "parser.py"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert shell.ok("put", CLAIM, "--at", "src/parser.py:1-4").err == ""


def test_carriage_returns_are_hidden_from_people_and_kept_in_json(shell: Shell) -> None:
    commit_files(shell.path, {"dos.txt": "one\r\ntwo\r\n"})
    assert shell.ok("deref", "dos.txt:1-2").out.splitlines()[:2] == ["1  one", "2  two"]
    assert shell.ok("deref", "dos.txt:1-2", "--json").json["excerpt"] == "one\r\ntwo\r\n"


def test_a_file_that_is_not_committed_gets_a_hint(shell: Shell) -> None:
    (shell.path / "new.py").write_text("new\n")
    result = shell.run("put", CLAIM, "--at", "new.py:1")
    assert result.err.startswith("error FILE_NOT_FOUND")
    assert "commit it first" in result.err


@pytest.mark.parametrize("words", [("put", CLAIM, "--at"), ("deref",)])
def test_before_the_first_commit_the_error_asks_for_one(bare_shell: Shell, words: tuple[str, ...]) -> None:
    git(bare_shell.path, "checkout", "-q", "--orphan", "empty")
    bare_shell.ok("init")
    result = bare_shell.run(*words, "src/parser.py:1")
    assert result.err.startswith("error REVISION_NOT_FOUND")
    assert "Commit something first" in result.err


@pytest.mark.parametrize("text", ["src/parser.py#L3", "src/parser.py#L3-L4", "src/parser.py:L3-4"])
@pytest.mark.parametrize("words", [("put", CLAIM, "--at"), ("deref",)])
def test_line_numbers_in_the_form_of_a_link_are_refused(shell: Shell, words: tuple[str, ...], text: str) -> None:
    problem = shell.run(*words, text, "--json").problem
    assert (problem["code"], problem["detail"]) == ("POINTER_SPAN", "Write lines as path:10-20.")


def test_a_sha256_repository_has_links(bare_shell: Shell) -> None:
    other_repository = bare_shell.path / "other_repository"
    other_repository.mkdir()
    git(other_repository, "init", "-q", "--object-format=sha256")
    sha = commit_files(other_repository, {"a.py": "one\n"})
    bare_shell.ok("init", folder=other_repository)
    links = bare_shell.ok("link", "a.py:1", "--json", folder=other_repository).json
    assert (links["ref"], "swhid" in links) == (f"repo:a.py#L1-L1@{sha}", False)
    assert links["editor"].endswith("/a.py:1")


def test_links_from_github_and_software_heritage_become_pointers(shell: Shell) -> None:
    sha = shell.repository.sha
    ref = f"repo:src/parser.py#L3-L4@{sha}"
    permalink = f"https://github.com/o/r/blob/{sha}/src/parser.py#L3-L4"
    swhid = f"swh:1:cnt:{'0' * 40};anchor=swh:1:rev:{sha};path=/src/parser.py;lines=3-4"
    for link in (permalink, swhid):
        assert shell.ok("put", CLAIM, "--at", link, "--json").json["pointers"][0]["ref"] == ref
        assert ref in shell.ok("deref", link).out
    branch = permalink.replace(sha, "main")
    assert shell.run("put", CLAIM, "--at", branch, "--json").problem["code"] == "POINTER_REVISION"


def test_pointers_may_have_full_or_short_revisions(shell: Shell) -> None:
    sha = shell.repository.sha
    put = shell.ok(
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
    assert "+1" in shell.ok("query", "parser").out


@pytest.mark.parametrize(
    "text",
    [
        "src/parser.py:2-3",
        "src/parser.py:2-3@HEAD",
        "src/parser.py:2-3@main",
        "repo:src/parser.py#L2-L3@{short}",
        "repo:src/parser.py#L2-L3@main",
        "src/parser.py:2-3@{short}",
    ],
)
def test_deref_prints_the_full_pointer(shell: Shell, text: str) -> None:
    sha = shell.repository.sha
    result = shell.ok("deref", text.format(short=sha[:7])).out
    assert f"repo:src/parser.py#L2-L3@{sha}" in result.splitlines()


def test_a_section_is_printed_without_line_numbers(shell: Shell) -> None:
    result = shell.ok("deref", f"artifact:design.md#sec=Parser@{shell.repository.sha}").out
    assert result.startswith("## Parser\n")


@pytest.mark.parametrize(
    "text",
    ["repo:src/parser.py#L1@nowhere", "src/absent.py:1", "src/parser.py:99", "src/parser.py:3-1", "nonsense:here@x"],
)
def test_a_pointer_that_leads_nowhere_is_refused(shell: Shell, text: str) -> None:
    result = shell.run("deref", text, "--json")
    assert result.problem["code"].split("_")[-1] in ("FOUND", "SPAN", "SYNTAX", "REVISION", "PATH")


def test_paths_in_evidence_start_at_the_current_folder(shell: Shell) -> None:
    sha = git(shell.path, "rev-parse", "HEAD")
    for value in ("parser.py:1-2", f"parser.py:1-2@{sha[:8]}", f"repo:src/parser.py#L1-L2@{sha}"):
        words = ("contribute", f"Learned from {value}.", "--evidence", f"path={value}", "--json")
        (evidence,) = shell.ok(*words, folder=shell.path / "src").json["evidence"]
        assert evidence["pointer"]["ref"] == f"repo:src/parser.py#L1-L2@{sha}"


def test_a_put_with_snapshot_points_at_the_lines_on_disk(shell: Shell) -> None:
    (shell.path / "src" / "new.py").write_text("fresh\n")
    result = shell.ok("put", CLAIM, "--at", "new.py:1", "--snapshot", "--json", folder=shell.path / "src")
    assert result.err == ""
    ref = result.json["pointers"][0]["ref"]
    assert ref.startswith("repo:src/new.py#L1-L1@")
    assert "fresh" in shell.ok("deref", ref).out
    (shell.path / "src" / "parser.py").write_text("changed\n")
    warned = shell.ok("put", "The parser changes.", "--at", "src/parser.py:1")
    assert "--snapshot" in warned.err
    assert shell.ok("put", "The parser changed.", "--at", "src/parser.py:1", "--snapshot").err == ""
