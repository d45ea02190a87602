"""Pointers convert to the links of other tools and back without loss."""  # EB-03

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import RepoAddress, editor_link, github_link, parse_github_link, parse_swhid, swhid

from .test_pointer_grammar import lines, paths

SHA = "0123456789abcdef0123456789abcdef01234567"
BLOB = SHA[::-1]
ADDRESS = RepoAddress(path="src/a b.py", revision=SHA, lines=(10, 20))


def test_links_have_the_form_their_tools_expect() -> None:
    assert (
        github_link(ADDRESS, "https://github.com/o/r.git") == f"https://github.com/o/r/blob/{SHA}/src/a%20b.py#L10-L20"
    )
    assert swhid(ADDRESS, BLOB, "https://github.com/o/r") == (
        f"swh:1:cnt:{BLOB};origin=https://github.com/o/r;anchor=swh:1:rev:{SHA};path=/src/a%20b.py;lines=10-20"
    )
    assert swhid(RepoAddress(path="a;b", revision=SHA), BLOB) == f"swh:1:cnt:{BLOB};anchor=swh:1:rev:{SHA};path=/a%3Bb"
    assert editor_link(ADDRESS, Path("/home/ada/my repo")) == "vscode://file/home/ada/my%20repo/src/a%20b.py:10"
    assert editor_link(RepoAddress(path="x", revision=SHA), Path("/r")) == "vscode://file/r/x"


@pytest.mark.parametrize(
    "origin",
    [
        "https://github.com/o/r",
        "https://github.com/o/r.git",
        "https://github.com/o/r/",
        "https://user:token@github.com/o/r.git",
        "git@github.com:o/r.git",
        "github.com:o/r",
        "ssh://git@github.com/o/r.git",
        "ssh://git@ssh.github.com:443/o/r.git",
        "git://github.com/o/r.git",
    ],
)
def test_every_form_of_a_github_origin_gives_a_link_without_its_password(origin: str) -> None:
    assert github_link(ADDRESS, origin) == f"https://github.com/o/r/blob/{SHA}/src/a%20b.py#L10-L20"


@pytest.mark.parametrize(
    "origin",
    ["https://gitlab.com/o/r", "https://github.com.evil.example/o/r", "/srv/git/r", "git@example.org:o/r", "",
     "https://github.com/o", "https://github.com/o/r/x", "https://[", "javascript://github.com/o/r"],
)  # fmt: skip
def test_other_origins_have_no_permalink(origin: str) -> None:
    assert github_link(ADDRESS, origin) is None


@given(paths, st.none() | lines)
def test_links_lead_back_to_the_same_address(path: str, span: tuple[int, int] | None) -> None:
    address = RepoAddress(path=path, revision=SHA, lines=span)
    link = github_link(address, "git@github.com:o/r.git")
    assert link is not None
    assert link.isascii()
    assert parse_github_link(link) == address
    name = swhid(address, BLOB, "https://example.org/a;b c")
    assert name.isascii()
    assert parse_swhid(name) == address


def test_links_to_blame_and_single_lines_are_accepted() -> None:
    link = f"https://github.com/o/r/blob/{SHA}/README.md?plain=1#L3"
    assert parse_github_link(link) == RepoAddress(path="README.md", revision=SHA, lines=(3, 3))
    name = f"swh:1:cnt:{BLOB};visit=swh:1:snp:{SHA};anchor=swh:1:rev:{SHA};path=/x;lines=7"
    assert parse_swhid(name) == RepoAddress(path="x", revision=SHA, lines=(7, 7))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("https://gitlab.com/o/r/blob/x/y", "POINTER_SYNTAX"),
        ("https://github.com/o/r", "POINTER_SYNTAX"),
        (f"https://github.com/o/r/tree/{SHA}/x", "POINTER_SYNTAX"),
        ("https://github.com/o/r/blob/main/x", "POINTER_REVISION"),
        (f"https://github.com/o/r/blob/{SHA}/../x", "POINTER_PATH"),
        (f"https://github.com/o/r/blob/{SHA}/%2e%2e/x", "POINTER_PATH"),
        (f"https://github.com/o/r/blob/{SHA}/%FF", "POINTER_SYNTAX"),
        (f"https://github.com/o/r/blob/{SHA}/x#L1C2-L3C4", "POINTER_SPAN"),
        (f"https://github.com/o/r/blob/{SHA}/\ud800", "POINTER_SYNTAX"),
    ],
)
def test_links_without_a_commit_and_a_path_are_refused(text: str, code: str) -> None:
    with pytest.raises(EngramBusError) as caught:
        parse_github_link(text, "at")
    assert (caught.value.code, caught.value.field) == (code, "at")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "POINTER_SYNTAX"),
        (f"swh:1:dir:{SHA}", "POINTER_SYNTAX"),
        (f"swh:1:cnt:{SHA}", "POINTER_SYNTAX"),
        (f"swh:1:cnt:{SHA};path=/x", "POINTER_SYNTAX"),
        (f"swh:1:cnt:{SHA};anchor=swh:1:rev:{SHA};path=/x;path=/y", "POINTER_SYNTAX"),
        (f"swh:1:cnt:{SHA};anchor=swh:1:rev:{SHA};path=/../x", "POINTER_PATH"),
        (f"swh:1:cnt:{SHA};anchor=swh:1:rev:abc;path=/x", "POINTER_REVISION"),
        (f"swh:1:cnt:{SHA};anchor=swh:1:rev:{SHA};path=/x;bytes=1-2", "POINTER_SPAN"),
        (f"swh:1:cnt:{SHA};anchor=swh:1:rev:{SHA};path=/x;lines=9-1", "POINTER_SPAN"),
        (f"swh:1:cnt:{SHA};anchor=swh:1:rev:{SHA};path=/x;lines={'9' * 5000}", "POINTER_SPAN"),
    ],
)
def test_swhids_without_a_commit_and_a_path_are_refused(text: str, code: str) -> None:
    with pytest.raises(EngramBusError) as caught:
        parse_swhid(text)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("origin", "public"),
    [
        ("git@github.com:o/r.git", ";origin=https://github.com/o/r;"),
        ("https://ada:secret@git.example.org/r.git", ";origin=https://git.example.org/r.git;"),
        ("/home/ada/secret", None),
        ("file:///home/ada/secret", None),
        ("ada@example.org:secret", None),
    ],
)
def test_a_swhid_contains_no_password_and_no_local_path(origin: str, public: str | None) -> None:
    name = swhid(ADDRESS, BLOB, origin)
    assert "secret" not in name
    assert public in name if public else "origin" not in name
    assert parse_swhid(name) == ADDRESS


def test_a_swhid_needs_sha1_objects() -> None:
    with pytest.raises(EngramBusError) as caught:
        swhid(RepoAddress(path="x", revision="0" * 64), "0" * 64)
    assert caught.value.code == "POINTER_REVISION"
