"""Input files are part of a step's cache key, and so are folders with everything in them. # YT-09"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from engrambus.errors import LinkRefused
from engrambus.space.work.input_files import InputFiles
from tests.space.worker_harness import SETTINGS, WorkerHarness, open_worker_harness, step, wait_until


def shas(root: Path, pattern: str, **args: str) -> list[str]:
    """Return the digests of the files a pattern names."""
    return sorted(InputFiles().digests(root, [pattern], args).values())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder with files, a subfolder, and the folders of git and of the product."""
    for name in ("src/a.py", "src/deep/b.py", ".git/index", ".catalog/tuples.jsonl", "vendor/.git/index"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_a_step_that_reads_a_folder_runs_again_after_a_file_in_it_changed(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    folder = tmp_path / "project/src"
    folder.mkdir()
    (folder / "a").write_text("old")
    reading_step = step("agent.show.folder", path="src")
    harness.put(reading_step)
    assert harness.work() == ["miss", "done"]
    harness.put(reading_step)
    assert harness.work() == ["hit", "done"]
    (folder / "a").write_text("new")
    tuple_id = harness.put(reading_step)
    assert harness.work() == ["miss", "done"]
    assert harness.printed(tuple_id) == "new"


def test_a_step_that_reads_everything_is_a_hit_after_the_product_wrote_its_own_files(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    (tmp_path / "project/a").write_text("a")
    harness.put(step("agent.read.everything"))
    assert harness.work() == ["miss", "done"]
    harness.put(step("agent.read.everything"))
    assert harness.work() == ["hit", "done"]


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "src/deep/b.py").write_text("other"),
        lambda root: (root / "src/deep/new.py").write_text("new"),
        lambda root: (root / "src/.hidden").write_text("new"),
        lambda root: (root / "src/a.py").unlink(),
        lambda root: (root / "src/a.py").rename(root / "src/c.py"),
    ],
    ids=["content", "new", "hidden", "gone", "renamed"],
)
@pytest.mark.parametrize("pattern", ["src", "src/", "${path}", "s*", "**/*", "**", "."])
def test_any_change_in_a_folder_changes_the_digests(tree: Path, pattern: str, change: Callable[[Path], object]) -> None:
    original = shas(tree, pattern, path="src")
    assert len(original) == 2
    change(tree)
    assert shas(tree, pattern, path="src") != original


@pytest.mark.parametrize("pattern", ["**/*", "**", ".", "*", ".*"])
def test_folders_of_git_and_the_product_are_no_input(tree: Path, pattern: str) -> None:
    original = shas(tree, pattern)
    for name in (".git/index", ".catalog/tuples.jsonl", "vendor/.git/index"):
        (tree / name).write_text("other")
    (tree / ".catalog/more").touch()
    assert shas(tree, pattern) == original


def test_a_file_of_the_product_is_an_input_if_the_pattern_names_it(tree: Path) -> None:
    original = shas(tree, ".catalog/tuples.jsonl")
    assert len(original) == 1
    (tree / ".catalog/tuples.jsonl").write_text("other")
    assert shas(tree, ".catalog/tuples.jsonl") != original


def test_a_folder_that_links_to_itself_is_read_once(tree: Path) -> None:
    (tree / "src/deep/up").symlink_to("..")
    original = shas(tree, "src")
    (tree / "src/a.py").write_text("other")
    assert shas(tree, "src") != original


@pytest.mark.parametrize("pattern", ["packages", "packages/**", "packages/**/*.js", "packages/*/src"])
def test_packages_that_link_to_each_other_are_read_once(tmp_path: Path, pattern: str) -> None:
    """With twenty packages there are too many paths to a file to follow them all."""
    for number in range(20):
        inside = tmp_path / f"packages/p{number}/src"
        inside.mkdir(parents=True)
        (inside.parent / "index.js").write_text(str(number))
        for target in range(20):
            if target != number:
                (inside / f"p{target}").symlink_to(f"../../p{target}")
    original = shas(tmp_path, pattern)
    assert len(original) <= 20 + 20 * 19
    assert shas(tmp_path, pattern) == original
    (tmp_path / "packages/p7/index.js").write_text("other")
    assert len(set(original) - set(shas(tmp_path, pattern))) == (pattern != "packages/*/src")
    if pattern != "packages/**/*.js":
        changed = shas(tmp_path, pattern)
        (tmp_path / "packages/p3/src/p7").unlink()
        (tmp_path / "packages/p3/src/p7").symlink_to("../../p8")
        assert shas(tmp_path, pattern) != changed, "a link has another target"


def test_a_link_inside_a_folder_counts_as_its_target_and_not_as_what_it_leads_to(tree: Path) -> None:
    (tree / "lib").mkdir()
    (tree / "lib/c.py").write_text("c")
    (tree / "src/lib").symlink_to("../lib")
    original = shas(tree, "src")
    assert len(original) == 3
    (tree / "lib/c.py").write_text("other")
    assert shas(tree, "src") == original
    (tree / "src/lib").unlink()
    (tree / "src/lib").symlink_to("../vendor")
    assert shas(tree, "src") != original


@pytest.mark.parametrize("pattern", ["link", "link/*.py", "${path}"])
def test_what_a_named_link_leads_to_is_an_input(tree: Path, pattern: str) -> None:
    (tree / "link").symlink_to("src/deep")
    original = shas(tree, pattern, path="link/b.py")
    (tree / "src/deep/b.py").write_text("other")
    changed = shas(tree, pattern, path="link/b.py")
    assert changed != original
    (tree / "other").mkdir()
    (tree / "src/deep/b.py").rename(tree / "other/b.py")
    (tree / "link").unlink()
    (tree / "link").symlink_to("other")
    assert shas(tree, pattern, path="link/b.py") != changed


def test_a_folder_may_be_very_deep(tree: Path) -> None:
    folder = tree / "src"
    for _ in range(50):  # deeper than Python's recursion limit, but not too deep for pytest to delete
        folder = folder / "/".join("d" * 12)
        folder.mkdir(parents=True)
    (folder / "a").write_text("a")
    original = shas(tree, "src")
    assert len(original) == 3
    (folder / "a").write_text("other")
    assert shas(tree, "src") != original


def test_a_file_name_need_not_be_unicode(harness: WorkerHarness, tmp_path: Path) -> None:
    folder = tmp_path / "project/src"
    folder.mkdir()
    for number, name in enumerate((b"\xff", b"\xfe", b"\\xff")):
        (Path(os.fsdecode(os.fsencode(folder) + b"/" + name))).write_text(str(number))
    harness.put(step("agent.show.folder", path="src"))
    assert harness.work() == ["miss", "done"]
    assert len(set(shas(tmp_path / "project", "src"))) == 3


def test_a_link_to_a_folder_outside_does_no_harm_unless_it_is_named(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (tree / "src/out").symlink_to(outside)
    for pattern in ("src", "**/*", "."):
        original = shas(tree, pattern)
        (outside / pattern.strip("*/.")).with_suffix(".txt").write_text("more")
        assert shas(tree, pattern) == original
    for pattern in ("src/out", "src/out/*", "src/out/a.txt"):
        with pytest.raises(LinkRefused, match="outside"):
            shas(tree, pattern)


def test_files_that_swap_places_are_another_input(harness: WorkerHarness, tmp_path: Path) -> None:
    folder = tmp_path / "project/src"
    folder.mkdir()
    (folder / "a").write_text("one")
    (folder / "b").write_text("two")
    reading_step = step("agent.show.folder", path="src")
    harness.put(reading_step)
    assert harness.work() == ["miss", "done"]
    (folder / "a").write_text("two")
    (folder / "b").write_text("one")
    tuple_id = harness.put(reading_step)
    assert harness.work() == ["miss", "done"]
    assert harness.printed(tuple_id) == "twoone"


def test_a_result_under_another_salt_is_no_hit(tmp_path: Path) -> None:
    for salt, kind in (("", "miss"), ("", "hit"), ("new", "miss"), ("new", "hit"), ("", "hit")):
        with open_worker_harness(tmp_path / "project", msgspec.structs.replace(SETTINGS, cache_salt=salt)) as harness:
            harness.put(step("agent.sum.numbers", a=1, b=2))
            assert harness.work() == [kind, "done"], salt


def test_a_link_to_a_file_outside_is_refused(harness: WorkerHarness, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "project/link").symlink_to(tmp_path / "secret")
    (tmp_path / "project/own").write_text("own")
    (tmp_path / "project/within").symlink_to("own")
    tuple_id = harness.put(step("agent.show.file", path="link"))
    assert harness.work() == ["refused", "dead"]
    assert (harness.receipts(tuple_id)[-1].error or "").startswith("LINK_REFUSED: ")
    tuple_id = harness.put(step("agent.show.file", path="within"))
    assert harness.work() == ["miss", "done"]
    assert harness.printed(tuple_id) == "own"


@pytest.mark.parametrize("path", ["../secret", "src/../../secret", "/etc/passwd", ".."])
def test_a_path_outside_is_refused_as_an_argument(harness: WorkerHarness, tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "project/src").mkdir()
    tuple_id = harness.put(step("agent.show.file", path=path))
    assert harness.work() == ["refused", "dead"]
    assert (harness.receipts(tuple_id)[-1].error or "").startswith("YOOL_ARGUMENTS: ")


@pytest.mark.parametrize("name", ["a*", "[ab]", "a?", "**"])
def test_a_path_that_looks_like_a_pattern_is_a_file(tmp_path: Path, name: str) -> None:
    for file_name in (name, "a", "ab", "b"):
        (tmp_path / file_name).write_text(file_name)
    original = shas(tmp_path, "${path}", path=name)
    assert len(original) == 1
    (tmp_path / "a").write_text("other")
    (tmp_path / "ab").unlink()
    assert shas(tmp_path, "${path}", path=name) == original
    (tmp_path / name).write_text("other")
    assert shas(tmp_path, "${path}", path=name) != original


@pytest.mark.parametrize("pattern", ["*", "**/*"])
def test_hidden_files_are_inputs(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "seen").touch()
    original = shas(tmp_path, pattern)
    (tmp_path / ".env").write_text("A=1")
    with_hidden = shas(tmp_path, pattern)
    (tmp_path / ".env").write_text("A=2")
    assert [len(original), len(with_hidden)] == [1, 2]
    assert shas(tmp_path, pattern) != with_hidden


def test_a_cached_step_waits_for_no_slot(harness: WorkerHarness, tmp_path: Path) -> None:
    """The only slot is taken by a step that does not end."""
    harness.put(step("agent.sum.numbers", a=1, b=2))
    harness.work()
    calls, go = tmp_path / "calls", tmp_path / "go"
    slow = harness.put(step("agent.think.once", calls=str(calls), go=str(go)))
    pool = harness.pool(concurrency=1)
    thread = threading.Thread(target=pool.run, daemon=True)
    thread.start()
    try:
        wait_until(calls.exists)
        hit = harness.put(step("agent.sum.numbers", a=1, b=2))
        ended = harness.space.rd({"id": hit, "state": "done"}, timeout=20)
        assert ended is not None
        assert harness.space.get(slow).state == "claimed"
    finally:
        go.touch()
        pool.stop()
        thread.join(30)
    assert harness.space.get(slow).state == "done"
