"""Short pointers and the full ones they stand for."""  # EB-03

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import (
    Pointer,
    PointerCompleter,
    RepoAddress,
    check_pointer,
    checked_out_commit,
    compact_ref,
    find_worktree,
    print_address,
    worktree_head,
)

from .repos import Repo
from .test_pointer_grammar import addresses, fragments, lines, paths, shas

SHA = "0123456789abcdef0123456789abcdef01234567"
OTHER = SHA[::-1]


def completer(short_revisions: bool = False) -> PointerCompleter:
    known = {SHA[:7]: SHA, f"{SHA}~1": OTHER, "main": OTHER}

    def expand(revision: str) -> str:
        if revision not in known:
            raise AssertionError(revision)
        return known[revision]

    return PointerCompleter(expand, lambda: SHA, short_revisions=short_revisions)


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("src/a.py", f"repo:src/a.py@{SHA}"),
        ("src/a.py:7", f"repo:src/a.py#L7-L7@{SHA}"),
        (" src/a.py:7-9\n", f"repo:src/a.py#L7-L9@{SHA}"),
        ("src/a.py:7-9@HEAD", f"repo:src/a.py#L7-L9@{SHA}"),
        ("src/a.py:7-9@HEAD~1", f"repo:src/a.py#L7-L9@{OTHER}"),
        (f"src/a.py:7-9@{SHA[:7]}", f"repo:src/a.py#L7-L9@{SHA}"),
        (f"src/a.py:7-9@{OTHER}", f"repo:src/a.py#L7-L9@{OTHER}"),
        ("src/a.py@main", f"repo:src/a.py@{OTHER}"),
        ("src/*", f"repo:src/*@{SHA}"),
        ("test:10", f"repo:test#L10-L10@{SHA}"),
        (f"test:10@{OTHER}", f"repo:test#L10-L10@{OTHER}"),
        (f"repo:10@{OTHER}", f"repo:10@{OTHER}"),
        ("a b/ü#x@y/z.md:3", f"repo:a%20b/ü%23x%40y/z.md#L3-L3@{SHA}"),
        ("artifact:a.md#sec=B@v1", "artifact:a.md#sec=B@v1"),
        (f"https://github.com/o/r/blob/{OTHER}/a.py?plain=1#L1-L2", f"repo:a.py#L1-L2@{OTHER}"),
        (f"swh:1:cnt:{SHA};anchor=swh:1:rev:{OTHER};path=/a.py;lines=1-2", f"repo:a.py#L1-L2@{OTHER}"),
    ],
)
def test_a_text_is_completed(text: str, ref: str) -> None:
    assert completer().complete(text, "at[0]") == Pointer(type=ref.partition(":")[0], ref=ref)


def test_an_object_is_completed_and_keeps_its_other_fields() -> None:
    full = Pointer(type="repo", ref=f"repo:a.py@{SHA}", span="L1-L2")
    assert completer().complete(Pointer(type="repo", ref="a.py", span="L1-L2"), "pointer") == full
    assert completer().complete(Pointer(type="", ref=full.ref, span="L1-L2"), "pointer") == full
    other = Pointer(type="sam", ref="a.py")
    assert completer().complete(other, "pointer") is other


@pytest.mark.parametrize("ref", [f"repo:a.py@{SHA[:7]}", f"artifact:a.md@{SHA[:7]}", f"diff:a.py@{SHA[:7]}..main"])
def test_a_ref_may_have_short_revisions_where_people_type_it(ref: str) -> None:
    assert completer().complete(ref, "pointer").ref == ref
    full = ref.replace(SHA[:7], SHA).replace("main", OTHER)
    assert completer(short_revisions=True).complete(ref, "pointer").ref == full


@given(st.builds(RepoAddress, path=paths, revision=shas, lines=st.none() | lines))
def test_a_compact_ref_stands_for_the_ref(address: RepoAddress) -> None:
    ref = print_address(address)
    if len(ref) <= 300:
        known = PointerCompleter(lambda revision: address.revision, lambda: address.revision)
        assert known.complete(compact_ref(ref), "pointer").ref == ref


@given(addresses.map(print_address).filter(lambda ref: len(ref) <= 300))
def test_a_full_ref_stays_as_it_is(ref: str) -> None:
    assert PointerCompleter().complete(ref, "pointer").ref == ref


@given(st.lists(st.one_of(fragments, st.sampled_from(["src/", ":10", "-20", "@HEAD", "@", "https://github.com/"]))))
def test_any_text_is_completed_or_refused(parts: list[str]) -> None:
    with suppress(EngramBusError):
        pointer = PointerCompleter(lambda revision: SHA, lambda: SHA).complete("".join(parts), "at[0]")
        with suppress(EngramBusError):
            check_pointer(pointer)


def test_a_worktree_has_the_head_that_git_says(tmp_path: Path, repo: Repo) -> None:
    first = repo.commit({"a.py": "1\n"})
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    second = repo.commit({"a.py": "2\n"})
    linked = tmp_path / "linked"
    for prepare in ((), ("pack-refs", "--all"), ("checkout", "-q", "--detach")):
        if prepare:
            repo.git(*prepare)
        assert checked_out_commit(repo.path) == worktree_head(repo.path) == second
        assert checked_out_commit(linked) == worktree_head(linked) == first
    (linked / "deep").mkdir()
    assert find_worktree(linked / "deep") == linked.resolve()


def test_before_the_first_commit_there_is_no_head(repo: Repo) -> None:
    assert checked_out_commit(repo.path) is None
    assert worktree_head(repo.path) is None
