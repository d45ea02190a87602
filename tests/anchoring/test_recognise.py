"""File text inside a message is recognised in every shape; prose is let be."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from engrambus.evidence.anchoring import Anchors, Recognised
from engrambus.evidence.pointers import Repositories
from tests.anchoring.conftest import MakeAnchors
from tests.anchoring.test_forgiven import SOURCE
from tests.evidence.repos import Repo

LINES = SOURCE.split("\n")
CUT = LINES[5:12]
TEXT = "\n".join(CUT)
BEFORE = "I looked at how refunds are decided, and this is what I found:"
AFTER = "So two people must agree; I would leave it as it is. Nothing else to report."

SHAPES = {
    "bare": TEXT,
    "indented": textwrap.indent(TEXT, "    "),
    "fenced": f"```python\n{TEXT}\n```",
    "quoted": "\n".join(f"> {line}" for line in CUT),
    "numbered": "\n".join(f"{number}: {line}" for number, line in enumerate(CUT, 6)),
    "grep": "\n".join(f"src/refunds.py:{number}:{line}" for number, line in enumerate(CUT, 6)),
    "cat -n": "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(CUT, 6)),
    "added": "\n".join(f"+{line}" for line in CUT),
    "quoted and numbered": "\n".join(f"> {number} | {line}" for number, line in enumerate(CUT, 6)),
    "CRLF": TEXT.replace("\n", "\r\n"),
}


@pytest.fixture
def anchors(repo: Repo, make_anchors: MakeAnchors) -> Anchors:
    """Of a repository with a source file and a document."""
    repo.commit({
        "src/refunds.py": SOURCE,
        "README.md": "# Refunds\n\nRefunds over the limit need two approvals from people who did not ask for them.\n",
    })  # fmt: skip
    return make_anchors(repo)


def spans(found: list[Recognised]) -> list[str]:
    return [each.pointer.ref.removeprefix("repo:").partition("@")[0] for each in found]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape(anchors: Anchors, shape: str) -> None:
    message = f"{BEFORE}\n\n{SHAPES[shape]}\n\n{AFTER}\n"
    (found,) = anchors.recognise(message)
    assert spans([found]) == ["src/refunds.py#L6-L12"]
    assert message[found.start : found.end] == SHAPES[shape]


def test_a_string_with_escapes(anchors: Anchors) -> None:
    message = f'{BEFORE}\n{{"file": "x", "content": {json.dumps(TEXT)}, "n": 1}}\n{AFTER}'
    (found,) = anchors.recognise(message)
    assert spans([found]) == ["src/refunds.py#L6-L12"]
    assert message[found.start : found.end] == json.dumps(TEXT)[1:-1]


def test_a_line_of_code_with_an_escape_of_its_own(anchors: Anchors) -> None:
    message = f"{BEFORE}\n{LINES[10]}\n{LINES[11]}\n{AFTER}"
    (found,) = anchors.recognise(message)
    assert spans([found]) == ["src/refunds.py#L11-L12"]


def test_several_parts_in_the_order_they_stand(anchors: Anchors) -> None:
    parts = ["\n".join(LINES[14:18]), f"{BEFORE}", "\n".join(f"> {line}" for line in CUT)]
    message = "\n".join(parts)
    found = anchors.recognise(message)
    assert spans(found) == ["src/refunds.py#L15-L18", "src/refunds.py#L6-L12"]
    assert [message[each.start : each.end] for each in found] == [parts[0], parts[2]]


def test_one_long_line_is_enough_and_one_short_line_is_not(anchors: Anchors) -> None:
    long = "Refunds over the limit need two approvals from people who did not ask for them."
    assert spans(anchors.recognise(f"See:\n{long}\nok")) == ["README.md#L3-L3"]
    assert anchors.recognise(f"See:\n{LINES[11]}\nok") == []


@pytest.mark.parametrize(
    "message",
    [
        "",
        f"{BEFORE}\n\n{AFTER}",
        "The function refund(order, approvals) in src/refunds.py returns pay_back(order).",
        "- refund checks LIMIT\n- check raises TooFew\n\nreturn None",
        "\ud800\0\n```\n```\n\\n\\n",
    ],
)
def test_prose_is_let_be(anchors: Anchors, message: str) -> None:
    assert anchors.recognise(message) == []


def test_without_a_commit_nothing_is_recognised(repo: Repo, make_anchors: MakeAnchors, tmp_path: Path) -> None:
    assert make_anchors(repo).recognise(TEXT) == []
    assert Anchors(Repositories(None), tmp_path / "none.db").recognise(TEXT) == []
