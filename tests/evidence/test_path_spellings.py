"""Paths in several spellings: composed or not, percent-encoded or not, they are one path; case tells files apart."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Literal, get_args

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from engrambus.errors import PathTwins
from engrambus.evidence.pointers import PointerCompleter, Repositories, check_pointer, parse_ref
from engrambus.evidence.pointers.git import GitRepository
from engrambus.evidence.pointers.git_trees import Tree
from engrambus.policy import RoleVisibility
from engrambus.policy.grants.targets import read_pointer, read_prefix
from engrambus.testing import expect_refusal
from tests.evidence.repos import Repo

SHA = "a" * 40
Form = Literal["NFC", "NFD"]
FORMS: tuple[Form, ...] = get_args(Form)
letters = st.sampled_from("aKzéüåÅöñǖΩйギ가がสि") | st.characters(
    categories=("Ll", "Lu", "Lo", "Mn"), max_codepoint=0x2FFF
)
names = st.text(letters, min_size=1, max_size=8)


@st.composite
def spellings(draw: st.DrawFn, name: str) -> str:
    """Return the name with each of its characters composed or not, as chance has it."""
    return "".join(unicodedata.normalize(draw(st.sampled_from(FORMS)), char) for char in name)


def entry(letter: str) -> tuple[bytes, bytes]:
    return b"100644", letter.encode() * 20


@given(names, st.data())
def test_a_tree_is_asked_in_any_spelling_and_answers_in_its_own(name: str, data: st.DataObject) -> None:
    stored, asked = (data.draw(spellings(name)) for _ in range(2))
    assume(unicodedata.normalize("NFC", stored) == unicodedata.normalize("NFC", asked))
    assume(not asked.isascii() or asked == stored)
    tree = Tree({stored.encode(): entry("x"), b"other": entry("y")})
    assert tree.find(asked.encode()) == (stored.encode(), entry("x"))


@given(names)
@example("K")
@example("\u212a")
def test_a_tree_with_both_spellings_answers_in_neither(name: str) -> None:
    forms = {unicodedata.normalize(form, name) for form in FORMS} | {name}
    assume(len(forms) > 1)
    tree = Tree({form.encode(): entry("x") for form in forms})
    for form in forms:
        with pytest.raises(PathTwins):
            tree.find(form.encode())


@given(names, st.data())
def test_grants_and_hidden_paths_know_every_spelling(name: str, data: st.DataObject) -> None:
    granted, asked = (data.draw(spellings(name)) for _ in range(2))
    assume(unicodedata.normalize("NFC", granted) == unicodedata.normalize("NFC", asked))
    assert read_prefix(f"repo:{granted}/*@{SHA}").covers(parse_ref(f"repo:{asked}/x@{SHA}"))
    assert read_pointer(f"repo:{granted}/x@{SHA}").covers(parse_ref(f"repo:{asked}/x#L1-L2@{SHA}"))
    assert not RoleVisibility(paths=(f"!{granted}/*",)).sees_path(f"{asked}/x")
    assert RoleVisibility(paths=(f"{granted}/*",)).sees_path(f"{asked}/x")


@given(st.text("abcXYZéÜ", min_size=1, max_size=8), st.data())
def test_a_hidden_path_is_hidden_in_any_case_and_a_shown_one_only_in_its_own(name: str, data: st.DataObject) -> None:
    other = "".join(char.swapcase() if data.draw(st.booleans()) else char for char in name)
    assert not RoleVisibility(paths=(f"!{name}/*",)).sees_path(f"{other}/x")
    assert RoleVisibility(paths=(f"{name}/*",)).sees_path(f"{other}/x") == (name == other)
    covers = read_prefix(f"repo:{name}/*@{SHA}").covers(parse_ref(f"repo:{other}/x@{SHA}"))
    assert covers == (name == other)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


@pytest.mark.parametrize("stored", FORMS)
@pytest.mark.parametrize("scheme", ["repo:{path}#L1-L1@{sha}", "artifact:{path}@{sha}", "diff:{path}@{sha}..{sha}"])
def test_a_pointer_is_completed_to_the_spelling_of_its_tree(repo: Repo, stored: Form, scheme: str) -> None:
    path = "Dokumente/Übersicht größer.md"
    sha = repo.commit({unicodedata.normalize(stored, path): "One line.\n"})
    repositories = Repositories(GitRepository(repo.path))
    completer = PointerCompleter(spell=repositories.spell)
    refs = set()
    for form in FORMS:
        spelled = unicodedata.normalize(form, path)
        encoded = "".join(f"%{byte:02x}" if byte > 127 or byte == 32 else chr(byte) for byte in spelled.encode())
        for text in (spelled.replace(" ", "%20"), encoded):
            refs.add(check_pointer(completer.complete(scheme.format(path=text, sha=sha), "pointer"))[0].ref)
    assert refs == {scheme.format(path=unicodedata.normalize(stored, path).replace(" ", "%20"), sha=sha)}
    repositories.close()


def test_files_that_differ_in_case_are_two_files(repo: Repo) -> None:
    """As in the sources of Linux: xt_TCPMSS.h and xt_tcpmss.h."""
    repo.git("config", "core.ignorecase", "false")
    blobs = {name: repo.git("hash-object", "-w", "--stdin", stdin=name.encode()) for name in ("xt_DSCP.h", "xt_dscp.h")}
    tree = repo.git("mktree", stdin="".join(f"100644 blob {blob}\t{name}\n" for name, blob in blobs.items()).encode())
    sha = repo.git("commit-tree", tree, "-m", "Both")
    git = GitRepository(repo.path)
    assert [git.read(sha, name).data.decode() for name in blobs] == list(blobs)
    with expect_refusal("FILE_NOT_FOUND"):
        git.read(sha, "XT_DSCP.h")
    git.close()


def test_folders_in_two_spellings_are_refused_and_other_files_beside_them_are_read(repo: Repo) -> None:
    folders = [unicodedata.normalize(form, "für") for form in FORMS]
    sha = repo.commit({**{f"{folder}/a.txt": "x\n" for folder in folders}, "b.txt": "y\n", "größe.txt": "z\n"})
    git = GitRepository(repo.path)
    for folder in folders:
        with expect_refusal("PATH_TWINS"):
            git.read(sha, f"{folder}/a.txt")
    assert (git.read(sha, "b.txt").data, git.read(sha, "größe.txt").data) == (b"y\n", b"z\n")
    git.close()
