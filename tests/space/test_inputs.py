"""What a step reads is a part of what its result is found by: files, and folders with all that is in them. # YT-09"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from engrambus.errors import LinkRefused
from engrambus.space.work.cache import file_shas
from tests.space.shop import SETTINGS, Shop, open_shop, step, until


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop of the test's own."""
    with open_shop(tmp_path / "project") as shop:
        yield shop


def shas(root: Path, pattern: str, **args: str) -> list[str]:
    """The digests of what a pattern names."""
    return file_shas(pattern, args, root)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with files, a folder in it, and what git and the product keep."""
    for name in ("src/a.py", "src/deep/b.py", ".git/index", ".catalog/tuples.jsonl", "vendor/.git/index"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_a_step_that_reads_a_folder_runs_again_when_a_file_in_it_changed(shop: Shop, tmp_path: Path) -> None:
    folder = tmp_path / "project/src"
    folder.mkdir()
    (folder / "a").write_text("old")
    said = step("agent.show.folder", path="src")
    shop.put(said)
    assert shop.work() == ["miss", "done"]
    shop.put(said)
    assert shop.work() == ["hit", "done"]
    (folder / "a").write_text("new")
    one = shop.put(said)
    assert shop.work() == ["miss", "done"]
    assert shop.printed(one) == "new"


def test_a_step_that_reads_everything_is_a_hit_though_the_product_wrote(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "project/a").write_text("a")
    shop.put(step("agent.read.everything"))
    assert shop.work() == ["miss", "done"]
    shop.put(step("agent.read.everything"))
    assert shop.work() == ["hit", "done"]


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
def test_whatever_changes_in_a_folder_counts(tree: Path, pattern: str, change: Callable[[Path], object]) -> None:
    before = shas(tree, pattern, path="src")
    assert len(before) == 2
    change(tree)
    assert shas(tree, pattern, path="src") != before


@pytest.mark.parametrize("pattern", ["**/*", "**", ".", "*", ".*"])
def test_what_git_and_the_product_keep_is_nobodys_input(tree: Path, pattern: str) -> None:
    before = shas(tree, pattern)
    for name in (".git/index", ".catalog/tuples.jsonl", "vendor/.git/index"):
        (tree / name).write_text("other")
    (tree / ".catalog/more").touch()
    assert shas(tree, pattern) == before


def test_what_a_pattern_names_itself_counts(tree: Path) -> None:
    before = shas(tree, ".catalog/tuples.jsonl")
    assert len(before) == 1
    (tree / ".catalog/tuples.jsonl").write_text("other")
    assert shas(tree, ".catalog/tuples.jsonl") != before


def test_a_folder_that_leads_back_to_itself_has_an_end(tree: Path) -> None:
    (tree / "src/deep/up").symlink_to("..")
    before = shas(tree, "src")
    (tree / "src/a.py").write_text("other")
    assert shas(tree, "src") != before


@pytest.mark.parametrize("pattern", ["packages", "packages/**", "packages/**/*.js", "packages/*/node_modules"])
def test_packages_that_link_to_each_other_are_each_read_once(tmp_path: Path, pattern: str) -> None:
    """However many ways there are to a file: with twenty packages more than there is time to go."""
    for number in range(20):
        inside = tmp_path / f"packages/p{number}/node_modules"
        inside.mkdir(parents=True)
        (inside.parent / "index.js").write_text(str(number))
        for other in range(20):
            if other != number:
                (inside / f"p{other}").symlink_to(f"../../p{other}")
    before = shas(tmp_path, pattern)
    assert len(before) <= 20 + 20 * 19 + 20
    assert shas(tmp_path, pattern) == before
    (tmp_path / "packages/p7/index.js").write_text("other")
    changed = shas(tmp_path, pattern)
    assert len(set(before) - set(changed)) == 1
    if pattern != "packages/**/*.js":
        (tmp_path / "packages/p3/node_modules/p7").unlink()
        (tmp_path / "packages/p3/node_modules/p7").symlink_to("../../p8")
        assert shas(tmp_path, pattern) != changed, "a link leads elsewhere"


def test_files_behind_a_link_count(tree: Path) -> None:
    (tree / "lib").mkdir()
    (tree / "lib/c.py").write_text("c")
    (tree / "src/lib").symlink_to("../lib")
    before = shas(tree, "src")
    (tree / "lib/c.py").write_text("other")
    assert shas(tree, "src") != before


def test_a_folder_may_be_as_deep_as_the_disk_has_it(tree: Path) -> None:
    folder = tree / "src"
    for _ in range(50):  # deeper than calls may be nested, and not so deep that the folder cannot be tidied up
        folder = folder / "/".join("d" * 12)
        folder.mkdir(parents=True)
    (folder / "a").write_text("a")
    before = shas(tree, "src")
    assert len(before) == 3
    (folder / "a").write_text("other")
    assert shas(tree, "src") != before


def test_a_name_that_is_no_unicode_is_a_name(shop: Shop, tmp_path: Path) -> None:
    folder = tmp_path / "project/src"
    folder.mkdir()
    for number, name in enumerate((b"\xff", b"\xfe", b"\\xff")):
        (Path(os.fsdecode(os.fsencode(folder) + b"/" + name))).write_text(str(number))
    shop.put(step("agent.show.folder", path="src"))
    assert shop.work() == ["miss", "done"]
    assert len(set(shas(tmp_path / "project", "src"))) == 3


def test_a_folder_that_leads_out_is_refused(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (tree / "src/out").symlink_to(outside)
    for pattern in ("src", "src/out", "**/*"):
        with pytest.raises(LinkRefused, match="outside"):
            shas(tree, pattern)


def test_files_that_swap_places_are_another_input(shop: Shop, tmp_path: Path) -> None:
    folder = tmp_path / "project/src"
    folder.mkdir()
    (folder / "a").write_text("one")
    (folder / "b").write_text("two")
    said = step("agent.show.folder", path="src")
    shop.put(said)
    assert shop.work() == ["miss", "done"]
    (folder / "a").write_text("two")
    (folder / "b").write_text("one")
    one = shop.put(said)
    assert shop.work() == ["miss", "done"]
    assert shop.printed(one) == "twoone"


def test_results_made_under_another_salt_are_no_hits(tmp_path: Path) -> None:
    for salt, told in (("", "miss"), ("", "hit"), ("new", "miss"), ("new", "hit"), ("", "hit")):
        with open_shop(tmp_path / "project", msgspec.structs.replace(SETTINGS, cache_salt=salt)) as shop:
            shop.put(step("agent.sum.numbers", a=1, b=2))
            assert shop.work() == [told, "done"], salt


def test_a_file_that_leads_out_is_no_input(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "project/link").symlink_to(tmp_path / "secret")
    (tmp_path / "project/own").write_text("own")
    (tmp_path / "project/within").symlink_to("own")
    one = shop.put(step("agent.show.file", path="link"))
    assert shop.work() == ["refused", "dead"]
    assert (shop.receipts(one)[-1].error or "").startswith("LINK_REFUSED: ")
    one = shop.put(step("agent.show.file", path="within"))
    assert shop.work() == ["miss", "done"]
    assert shop.printed(one) == "own"


@pytest.mark.parametrize("path", ["../secret", "src/../../secret", "/etc/passwd", ".."])
def test_a_path_that_leads_out_is_no_argument(shop: Shop, tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "project/src").mkdir()
    one = shop.put(step("agent.show.file", path=path))
    assert shop.work() == ["refused", "dead"]
    assert (shop.receipts(one)[-1].error or "").startswith("YOOL_ARGUMENTS: ")


@pytest.mark.parametrize("name", ["a*", "[ab]", "a?", "**"])
def test_a_path_that_looks_like_a_pattern_is_a_file(tmp_path: Path, name: str) -> None:
    for each in (name, "a", "ab", "b"):
        (tmp_path / each).write_text(each)
    before = shas(tmp_path, "${path}", path=name)
    assert len(before) == 1
    (tmp_path / "a").write_text("other")
    (tmp_path / "ab").unlink()
    assert shas(tmp_path, "${path}", path=name) == before
    (tmp_path / name).write_text("other")
    assert shas(tmp_path, "${path}", path=name) != before


@pytest.mark.parametrize("pattern", ["*", "**/*"])
def test_hidden_files_count(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "seen").touch()
    before = shas(tmp_path, pattern)
    (tmp_path / ".env").write_text("A=1")
    one = shas(tmp_path, pattern)
    (tmp_path / ".env").write_text("A=2")
    assert [len(before), len(one)] == [1, 2]
    assert shas(tmp_path, pattern) != one


def test_what_is_in_the_cache_waits_for_no_slot(shop: Shop, tmp_path: Path) -> None:
    """With one slot, and a step in it that does not end."""
    shop.put(step("agent.sum.numbers", a=1, b=2))
    shop.work()
    calls, go = tmp_path / "calls", tmp_path / "go"
    slow = shop.put(step("agent.think.once", calls=str(calls), go=str(go)))
    pool = shop.pool(concurrency=1)
    working = threading.Thread(target=pool.run, daemon=True)
    working.start()
    try:
        until(calls.exists)
        hit = shop.put(step("agent.sum.numbers", a=1, b=2))
        ended = shop.space.rd({"id": hit, "state": "done"}, timeout=20)
        assert ended is not None
        assert shop.space.get(slow).state == "claimed"
    finally:
        go.touch()
        pool.stop()
        working.join(30)
    assert shop.space.get(slow).state == "done"
