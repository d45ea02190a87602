"""State of evidence in unusual repositories: each has a clear outcome."""  # BX-01

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from engrambus.evidence.pointers import (
    CompareTarget,
    GitRepository,
    Pointer,
    RepoAddress,
    Repositories,
    StalenessChecker,
    print_address,
)
from engrambus.gateway import ProjectFiles
from tests.evidence.test_staleness import LINES, describe, pointer
from tests.projects import Repository, commit_files, git


def commit_bytes(folder: Path, files: dict[str | bytes, bytes]) -> str:
    """Write files, commit them and return the commit's id."""
    for name, data in files.items():
        file = os.path.join(os.fsencode(folder), os.fsencode(name))
        os.makedirs(os.path.dirname(file), exist_ok=True)
        Path(os.fsdecode(file)).write_bytes(data)
    return commit_files(folder, {})


def state(folder: Path, path: str, lines: tuple[int, int] | None, old: str, new: str = "HEAD") -> str:
    """Return the state of lines of a file, worked out by a checker of its own."""
    checker = StalenessChecker(Repositories(GitRepository(folder)))
    ref = print_address(RepoAddress(path=path, lines=lines, revision=old))
    answer = describe(checker.check(Pointer(type="repo", ref=ref), git(folder, "rev-parse", new)))
    checker.close()
    return answer


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"\0\1\n\2\xff\n\3\n", b"new\n\0\1\n\2\xff\n\3\n", "moved data:2-4"),  # a binary file
        (b"gr\xfc\xdfe\nan\xe4 l\xf6\n", b"neu\ngr\xfc\xdfe\nan\xe4 l\xf6\n", "changed 0.667 data:2-3"),  # not UTF-8
        (b"a\r\nb\r\nc\r\n", b"0\r\na\r\nb\r\nc\r\n", "moved data:2-4"),
        (b"a\r\nb\r\nc\r\n", b"a\nb\nc\n", "gone"),
        (b"a\nb\nc", b"a\nb\nc\n", "changed 0.667 data:1-2"),
        (b"a\nb\nc\n", b"a\nb\nc", "changed 0.667 data:1-2"),
        (b"a\nb\nc", b"0\na\nb\nc", "moved data:2-4"),
        (b"a\nb\nc\n", b"", "gone"),
        (b"a\rb\rc\n\n\n", b"x\na\rb\rc\n\n\n", "moved data:2-4"),  # a return alone ends no line
    ],
)
def test_lines_are_compared_byte_for_byte(repository: Repository, old: bytes, new: bytes, expected: str) -> None:
    first = commit_bytes(repository.path, {"data": old})
    commit_bytes(repository.path, {"data": new})
    assert state(repository.path, "data", (1, 3), first) == expected


def test_a_file_of_many_lines_is_compared(repository: Repository) -> None:
    lines = [b"%d: some text in a long file\n" % number for number in range(200_000)]
    first = commit_bytes(repository.path, {"data": b"".join(lines)})
    commit_bytes(repository.path, {"data": b"new\n" + b"".join(lines)})
    assert state(repository.path, "data", (100_000, 100_009), first) == "moved data:100001-100010"


def test_a_file_larger_than_any_that_is_read_is_compared_by_git(repository: Repository, tmp_path: Path) -> None:
    lines = b"".join(b"%d: %s\n" % (number, b"x" * 1000) for number in range(9000))
    first = commit_bytes(repository.path, {"data": lines})
    commit_bytes(repository.path, {"data": b"new\n" + lines})
    assert state(repository.path, "data", (10, 12), first) == "moved data:11-13"
    # On disk it counts as it was staged.
    (repository.path / "data").write_bytes(b"newer\nnew\n" + lines)
    files = ProjectFiles(repository.path, Repositories(GitRepository(repository.path)))
    assert describe(files.staleness_of([pointer(repository, "data#L10-L12", first)])[0]) == "moved data:11-13"


NAMES = ["a b.txt", 'quo"te.txt', "ä/ö.txt", "ä/o\u0308.txt", ":(glob)*", "-L1,2", "*", "x:1-2", "a@b#c%41"]


@pytest.mark.parametrize("path", NAMES)
def test_unusual_names_are_followed(repository: Repository, path: str) -> None:
    text = "".join(LINES)
    first = commit_bytes(repository.path, {path: text.encode(), "old name": text.upper().encode()})
    (repository.path / "old name").unlink()
    commit_bytes(repository.path, {path: b"new\n" + text.encode(), f"new {path}": text.upper().encode()})
    assert state(repository.path, path, (2, 3), first) == f"moved {path}:3-4"
    assert state(repository.path, "old name", (2, 3), first) == f"moved new {path}:2-3"


@pytest.mark.parametrize("name", [b"\xff.py", b"line\nbreak", b"\nfirst", b"tab\t", b"back\\slash", b"\x1b[1m"])
def test_new_names_that_no_pointer_can_have_are_followed_and_not_told(repository: Repository, name: bytes) -> None:
    (repository.path / "src/parser.py").unlink()
    head = commit_bytes(repository.path, {b"src/" + name: "".join(LINES).encode()})
    assert state(repository.path, "src/parser.py", (10, 12), repository.sha) == "moved"
    assert state(repository.path, "src/parser.py", None, repository.sha) == "moved"
    checker = StalenessChecker(Repositories(GitRepository(repository.path)))
    lines = checker.lines_now(pointer(repository), CompareTarget(head))
    assert lines is not None
    assert [os.fsencode(file.path) for file in lines.files] == [b"src/" + name]


def test_names_that_look_like_patterns_are_taken_literally(repository: Repository) -> None:
    names = ("*", "[a]", ":(top)x", "?")
    first = commit_bytes(repository.path, {name: f"{name}\n".encode() for name in names})
    commit_files(repository.path, {"a": "touched\n", "x": "touched\n"})
    checker = StalenessChecker(Repositories(GitRepository(repository.path)))
    refs = [print_address(RepoAddress(path=name, lines=(1, 1), revision=first)) for name in names]
    head = git(repository.path, "rev-parse", "HEAD")
    assert [describe(checker.check(Pointer(type="repo", ref=ref), head)) for ref in refs] == ["same"] * 4


@pytest.mark.parametrize("replacement", ["folder", "link", "submodule", "executable"])
def test_a_file_that_became_something_else(repository: Repository, replacement: str, tmp_path: Path) -> None:
    file = repository.path / "src/parser.py"
    if replacement == "executable":
        file.chmod(0o755)
    else:
        file.unlink()
    if replacement == "folder":
        commit_bytes(repository.path, {"src/parser.py/inner.py": b"x\n"})
    elif replacement == "link":
        file.symlink_to("wörter.py")
    elif replacement == "submodule":
        git(repository.path, "update-index", "--force-remove", "src/parser.py")
        git(repository.path, "update-index", "--add", "--cacheinfo", f"160000,{repository.sha},src/parser.py")
        git(repository.path, "commit", "-q", "-m", "A submodule")
    if replacement != "submodule":
        commit_files(repository.path, {})
    expected = "same" if replacement == "executable" else "gone"
    assert state(repository.path, "src/parser.py", (10, 12), repository.sha) == expected


def test_lines_behind_a_link_or_in_a_submodule_are_not_compared(repository: Repository) -> None:
    (repository.path / "link.py").symlink_to("src/parser.py")
    git(repository.path, "update-index", "--add", "--cacheinfo", f"160000,{repository.sha},module")
    git(repository.path, "add", "link.py")
    git(repository.path, "commit", "-q", "-m", "A link and a submodule")
    head = git(repository.path, "rev-parse", "HEAD")
    states = [state(repository.path, path, (1, 1), head) for path in ("link.py", "module", "module/x.py", "src")]
    assert states == ["none"] * 4


def test_a_file_that_moved_into_a_folder_of_its_own_name(repository: Repository) -> None:
    git(repository.path, "mv", "src/parser.py", "src/moved")
    (repository.path / "src/parser.py").mkdir()
    git(repository.path, "mv", "src/moved", "src/parser.py/__init__.py")
    commit_files(repository.path, {})
    assert state(repository.path, "src/parser.py", (10, 12), repository.sha) == "moved src/parser.py/__init__.py:10-12"


def test_a_shallow_clone_compares_what_it_has(repository: Repository, tmp_path: Path) -> None:
    second = commit_files(repository.path, {"src/parser.py": "".join(["# one\n", *LINES])})
    head = commit_files(repository.path, {"src/parser.py": "".join(["# one\n", "# two\n", *LINES])})
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{repository.path}", str(shallow))
    assert state(shallow, "src/parser.py", (10, 12), repository.sha, head) == "none"
    assert state(shallow, "src/parser.py", (11, 13), second, head) == "moved src/parser.py:12-14"
    # The first commit is fetched without what leads from it to HEAD.
    git(shallow, "fetch", "-q", "--depth=1", "origin", repository.sha)
    git(shallow, "update-ref", "refs/heads/old", "FETCH_HEAD")
    assert state(shallow, "src/parser.py", (10, 12), repository.sha, head) == "moved src/parser.py:12-14"


def test_missing_objects_leave_the_state_open(repository: Repository) -> None:
    commit_files(repository.path, {"src/parser.py": "".join(["# one\n", *LINES]), "other.py": "x\n"})
    blob = git(repository.path, "rev-parse", "HEAD:src/parser.py")
    (repository.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    assert state(repository.path, "src/parser.py", (10, 12), repository.sha) == "none"
    assert state(repository.path, "docs/design.md", (1, 2), repository.sha) == "same"
    # Pointers whose objects are here are not hurt by one whose objects are not.
    files = ProjectFiles(repository.path, Repositories(GitRepository(repository.path)))
    spans = [pointer(repository), pointer(repository, "docs/design.md#L1-L2")]
    assert [describe(answer) for answer in files.staleness_of(spans)] == ["none", "same"]


def test_an_empty_repository_has_no_states(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    files = ProjectFiles(tmp_path, Repositories(GitRepository(tmp_path)))
    assert files.staleness_of([Pointer(type="repo", ref=f"repo:a.py#L1-L2@{'0' * 40}")]) == [None]
    files = ProjectFiles(tmp_path, Repositories(None))
    assert files.staleness_of([Pointer(type="repo", ref=f"repo:a.py#L1-L2@{'0' * 40}")]) == [None]
    assert files.staleness_of([]) == []


def test_a_bare_repository_is_compared_with_its_head(repository: Repository, tmp_path: Path) -> None:
    commit_files(repository.path, {"src/parser.py": "".join(["# one\n", *LINES])})
    git(tmp_path, "clone", "-q", "--bare", str(repository.path), "bare.git")
    files = ProjectFiles(tmp_path / "bare.git", Repositories(GitRepository(tmp_path / "bare.git")))
    assert describe(files.staleness_of([pointer(repository)])[0]) == "moved src/parser.py:11-13"


def test_repositories_with_sha256(tmp_path: Path) -> None:
    made = subprocess.run(
        ["git", "init", "-q", "--object-format=sha256", str(tmp_path)], check=False, capture_output=True
    )
    if made.returncode:
        pytest.skip("this git has no SHA-256")
    first = commit_files(tmp_path, {"a.py": "".join(LINES)})
    assert len(first) == 64
    side = commit_files(tmp_path, {"a.py": "".join(["# one\n", *LINES])})
    assert state(tmp_path, "a.py", (10, 12), first) == "moved a.py:11-13"
    assert state(tmp_path, "a.py", (11, 13), side, first) == "moved a.py:10-12"
    (tmp_path / "a.py").write_text("".join(LINES[:10]))
    files = ProjectFiles(tmp_path, Repositories(GitRepository(tmp_path)))
    ref = print_address(RepoAddress(path="a.py", lines=(10, 12), revision=first))
    assert describe(files.staleness_of([Pointer(type="repo", ref=ref)])[0]) == "changed 0.333 a.py:10"


def test_configuration_changes_no_answer(repository: Repository) -> None:
    git(repository.path, "mv", "src/parser.py", "src/reader.py")
    second = commit_files(repository.path, {"src/reader.py": "".join(["# one\n", *LINES])})
    commit_files(repository.path, {"src/reader.py": "".join(["# one\n", *LINES[:10], *LINES[11:]])})
    ignored = repository.path / "ignored"
    ignored.write_text(f"{second}\n")
    expected = "changed 0.667 src/reader.py:11-12"
    assert state(repository.path, "src/parser.py", (10, 12), repository.sha) == expected
    settings = {
        "blame.ignoreRevsFile": str(ignored),
        "diff.renames": "false",
        "diff.renameLimit": "1",
        "diff.algorithm": "histogram",
        "diff.orderFile": str(ignored),
        "diff.noprefix": "true",
        "core.quotePath": "true",
        "log.follow": "true",
        "i18n.logOutputEncoding": "UTF-16",
        "core.attributesFile": str(ignored),
    }
    for name, value in settings.items():
        git(repository.path, "config", name, value)
    (repository.path / ".git/info").mkdir(exist_ok=True)
    (repository.path / ".git/info/attributes").write_text("*.py -diff -text\n")
    (repository.path / ".git/info/grafts").write_text(f"{second}\n")
    git(repository.path, "replace", "--graft", second)
    assert state(repository.path, "src/parser.py", (10, 12), repository.sha) == expected


def test_hostile_commit_messages_and_authors_are_not_read_as_lines(repository: Repository) -> None:
    head = commit_files(repository.path, {"src/parser.py": "".join(["# one\n", *LINES])})
    message = f"filename src/wrong.py\n\n{head} 1 10 3\nfilename src/wrong.py\n"
    tree = git(repository.path, "rev-parse", "HEAD^{tree}")
    hostile = git(repository.path, "commit-tree", tree, "-p", repository.sha, "-m", message)
    assert state(repository.path, "src/parser.py", (10, 12), repository.sha, hostile) == "moved src/parser.py:11-13"


def test_a_deleted_and_restored_file_has_lost_its_lines(repository: Repository) -> None:
    commit_files(repository.path, {"src/parser.py": None})
    commit_files(repository.path, {"src/parser.py": "".join(LINES)})
    assert state(repository.path, "src/parser.py", (10, 12), repository.sha) == "gone"
    assert state(repository.path, "docs/design.md", (1, 2), repository.sha) == "same"


def test_many_files_of_one_commit_are_looked_up_together(repository: Repository) -> None:
    names = [f"file{number}.py" for number in range(6)]
    first = commit_files(repository.path, {name: f"# {name}\n" + "".join(LINES) for name in names})
    commit_files(repository.path, {"file0.py": None, "file1.py": "x\n"})
    head = commit_files(repository.path, {"file0.py": "# file0.py\n" + "".join(LINES)})
    checker = StalenessChecker(Repositories(GitRepository(repository.path)))
    spans = [pointer(repository, f"{name}#L3-L4", first) for name in names]
    answers = checker.check_many(spans, CompareTarget(head), timeout_s=60)
    assert [describe(lines.state) for lines in answers if lines] == ["gone", "gone", "same", "same", "same", "same"]
