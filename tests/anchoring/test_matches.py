"""One match is the answer, several are candidates; a path narrows them, and each commit is searched by itself."""

from __future__ import annotations

import pytest

from engrambus.evidence.anchoring import Anchor
from tests.anchoring.conftest import MakeAnchors
from tests.evidence.repos import Repo

BODY = "def total(order):\n    lines = order.lines\n    return sum(line.price for line in lines)\n"


def refs(anchor: Anchor) -> list[str]:
    """Return the refs of an answer, without their commit."""
    assert (anchor.pointer is None) or not anchor.candidates
    pointers = [anchor.pointer] if anchor.pointer else list(anchor.candidates)
    return [pointer.ref.removeprefix("repo:").partition("@")[0] for pointer in pointers]


def test_several_matches_are_candidates_in_order(repo: Repo, make_anchors: MakeAnchors) -> None:
    repo.commit({"b/x.py": BODY, "a/x.py": f"# here too\n\n{BODY}", "c.py": BODY + "\n\n" + BODY, "d.py": "x = 1\n"})
    anchor = make_anchors(repo).find(BODY)
    assert anchor.pointer is None
    assert refs(anchor) == ["a/x.py#L3-L5", "b/x.py#L1-L3", "c.py#L1-L3", "c.py#L6-L8"]
    assert anchor.matched_lines == 3


def test_at_most_eight_candidates(repo: Repo, make_anchors: MakeAnchors) -> None:
    repo.commit({f"f{number:02}.py": BODY + f"# {number}\n" for number in range(20)})
    anchor = make_anchors(repo).find(BODY)
    assert refs(anchor) == [f"f{number:02}.py#L1-L3" for number in range(8)]


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("a/x.py", ["a/x.py#L1-L3"]),
        ("./a/x.py", ["a/x.py#L1-L3"]),
        ("a/x.py:1-3", ["a/x.py#L1-L3"]),
        ("/home/ada/project/b/x.py", ["b/x.py#L1-L3"]),
        ("c/y.py", ["b/c/y.py#L1-L3"]),
        ("y.py", ["b/c/y.py#L1-L3"]),
        ("elsewhere/y.py", ["b/c/y.py#L1-L3"]),
        ("x.py", ["a/x.py#L1-L3", "b/x.py#L1-L3"]),
        ("gone.py", ["a/x.py#L1-L3", "b/c/y.py#L1-L3", "b/x.py#L1-L3"]),
        ("", ["a/x.py#L1-L3", "b/c/y.py#L1-L3", "b/x.py#L1-L3"]),
    ],
)
def test_a_path_narrows_the_matches(repo: Repo, make_anchors: MakeAnchors, hint: str, expected: list[str]) -> None:
    repo.commit({"a/x.py": BODY, "b/x.py": BODY, "b/c/y.py": BODY})
    assert refs(make_anchors(repo).find(BODY, path=hint)) == expected


def test_a_wrong_path_does_not_hide_the_only_match(repo: Repo, make_anchors: MakeAnchors) -> None:
    repo.commit({"a/x.py": BODY, "b.py": "nothing = 'of the kind'\n"})
    assert refs(make_anchors(repo).find(BODY, path="b.py")) == ["a/x.py#L1-L3"]


def test_a_short_line_alone_must_be_unique_or_have_a_path(repo: Repo, make_anchors: MakeAnchors) -> None:
    repo.commit({"a.py": "x = 1\nreturn None\n", "b.py": "return None\ny = 2\n", "c.py": "yield it\n"})
    anchors = make_anchors(repo)
    assert anchors.find("return None") == Anchor()
    assert refs(anchors.find("return None", path="b.py")) == ["b.py#L1-L1"]
    assert refs(anchors.find("yield it")) == ["c.py#L1-L1"]
    assert refs(anchors.find("y = 2")) == ["b.py#L2-L2"]
    assert anchors.find("z = 3") == Anchor()


def test_part_of_a_line(repo: Repo, make_anchors: MakeAnchors) -> None:
    repo.commit({"a.py": BODY, "b.py": "def other():\n    return sum(1 for line in ())\n"})
    anchors = make_anchors(repo)
    assert refs(anchors.find("line.price for line")) == ["a.py#L3-L3"]
    assert refs(anchors.find("(line.price for li", path="a.py")) == ["a.py#L3-L3"]
    assert refs(anchors.find("sum(")) == []
    assert refs(anchors.find("order):\n    lines")) == ["a.py#L1-L2"]


def test_brackets_decide_between_matches_that_differ_in_nothing_else(repo: Repo, make_anchors: MakeAnchors) -> None:
    repo.commit({
        "a.js": "while (busy) {\n  wait(1000);\n}\ncontinueWork();\n",
        "b.js": "while (busy) {\n  wait(1000);\n  continueWork();\n}\n",
    })  # fmt: skip
    anchors = make_anchors(repo)
    assert refs(anchors.find("while (busy) {\n  wait(1000);\n}\ncontinueWork();")) == ["a.js#L1-L4"]
    assert refs(anchors.find("while (busy) {\n  wait(1000);\n  continueWork();\n}")) == ["b.js#L1-L4"]
    assert refs(anchors.find("while (busy) {\n  wait(1000);\n  }}\ncontinueWork();")) == ["a.js#L1-L4", "b.js#L1-L3"]


def test_a_literal_ellipsis_matches_itself(repo: Repo, make_anchors: MakeAnchors) -> None:
    stub = "class Port:\n    def read_it(self) -> int:\n        ...\n    def write_it(self) -> None:\n        ...\n"
    repo.commit({"a.py": stub, "b.py": stub.replace("...", "pass")})
    assert refs(make_anchors(repo).find(stub)) == ["a.py#L1-L5"]


def test_of_elided_matches_the_shortest_is_chosen(repo: Repo, make_anchors: MakeAnchors) -> None:
    repo.commit({"a.py": "first line here\nfirst line here\nmiddle\nlast line here\nother\n"})
    assert refs(make_anchors(repo).find("first line here\n...\nlast line here")) == ["a.py#L2-L4"]


def test_moved_lines_are_found_where_each_commit_has_them(repo: Repo, make_anchors: MakeAnchors) -> None:
    first = repo.commit({"old.py": BODY})
    second = repo.commit({"old.py": None, "new.py": f"# moved\n\n{BODY}"})
    third = repo.commit({"new.py": "# gone\n"})
    anchors = make_anchors(repo)
    for revision, expected in ((first, ["old.py#L1-L3"]), (second, ["new.py#L3-L5"]), (third, []), (None, [])):
        assert refs(anchors.find(BODY, revision=revision)) == expected
    assert refs(anchors.find(BODY, revision="HEAD~1")) == ["new.py#L3-L5"]
    repo.git("branch", "earlier", first)
    assert refs(anchors.find(BODY, revision="earlier")) == ["old.py#L1-L3"]


def test_files_that_no_pointer_can_name_are_not_searched(repo: Repo, make_anchors: MakeAnchors) -> None:
    repo.commit({"binary": BODY.encode() + b"\0", "huge.txt": BODY + "x" * 1024 * 1024, "back\\slash.py": BODY})
    (repo.path / "link.py").symlink_to("huge.txt")
    repo.commit({})
    anchors = make_anchors(repo)
    assert anchors.find(BODY) == Anchor()
    assert anchors.find("return sum(line", path="huge.txt") == Anchor()


def test_file_names_that_git_would_quote(repo: Repo, make_anchors: MakeAnchors) -> None:
    sha = repo.commit({"with space/ö#@%.py": BODY})
    anchor = make_anchors(repo).find(BODY)
    assert anchor.pointer is not None
    assert anchor.pointer.ref == f"repo:with%20space/ö%23%40%25.py#L1-L3@{sha}"


def test_many_equal_lines_are_searched_in_bounded_time(repo: Repo, make_anchors: MakeAnchors) -> None:
    repo.commit({"a.txt": "the same line again\n" * 30_000, "b.txt": "the same line again\n" * 30_000})
    anchors = make_anchors(repo)
    assert anchors.find("the same line again\n" * 700 + "and an end") == Anchor()
    assert anchors.find("the same line again\n...\n" * 300 + "and an end") == Anchor()
    assert len(anchors.find("the same line again\n" * 700).candidates) == 8
