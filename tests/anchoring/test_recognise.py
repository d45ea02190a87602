"""File text inside a message is recognised in every shape, and prose is not."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from engrambus.evidence.anchoring import Anchors, Recognised
from engrambus.evidence.pointers import Repositories
from tests.anchoring.conftest import MakeAnchors
from tests.anchoring.test_pasted_forms import SOURCE
from tests.evidence.repos import Repo

LINES = SOURCE.split("\n")
CUT = LINES[5:12]
TEXT = "\n".join(CUT)
INTRODUCTION = "I looked at how refunds are decided, and this is what I found:"
CONCLUSION = "So two people must agree; I would leave it as it is. Nothing else to report."

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
    """Anchors of a repository with a source file and a document."""
    repo.commit({
        "src/refunds.py": SOURCE,
        "README.md": "# Refunds\n\nRefunds over the limit need two approvals from people who did not ask for them.\n",
    })  # fmt: skip
    return make_anchors(repo)


def spans(parts: list[Recognised]) -> list[str]:
    return [part.pointer.ref.removeprefix("repo:").partition("@")[0] for part in parts]


@pytest.mark.parametrize("shape", SHAPES)
def test_pasted_text_is_recognised(anchors: Anchors, shape: str) -> None:
    message = f"{INTRODUCTION}\n\n{SHAPES[shape]}\n\n{CONCLUSION}\n"
    (part,) = anchors.recognise(message)
    assert spans([part]) == ["src/refunds.py#L6-L12"]
    assert message[part.start : part.end] == SHAPES[shape]


def test_text_in_a_json_string_is_recognised(anchors: Anchors) -> None:
    message = f'{INTRODUCTION}\n{{"file": "x", "content": {json.dumps(TEXT)}, "n": 1}}\n{CONCLUSION}'
    (part,) = anchors.recognise(message)
    assert spans([part]) == ["src/refunds.py#L6-L12"]
    assert message[part.start : part.end] == json.dumps(TEXT)[1:-1]


def test_a_line_of_code_that_contains_an_escape(anchors: Anchors) -> None:
    message = f"{INTRODUCTION}\n{LINES[10]}\n{LINES[11]}\n{CONCLUSION}"
    (part,) = anchors.recognise(message)
    assert spans([part]) == ["src/refunds.py#L11-L12"]


def test_several_parts_are_returned_in_order(anchors: Anchors) -> None:
    pieces = ["\n".join(LINES[14:18]), f"{INTRODUCTION}", "\n".join(f"> {line}" for line in CUT)]
    message = "\n".join(pieces)
    parts = anchors.recognise(message)
    assert spans(parts) == ["src/refunds.py#L15-L18", "src/refunds.py#L6-L12"]
    assert [message[part.start : part.end] for part in parts] == [pieces[0], pieces[2]]


def test_one_long_line_is_enough_and_one_short_line_is_not(anchors: Anchors) -> None:
    long = "Refunds over the limit need two approvals from people who did not ask for them."
    assert spans(anchors.recognise(f"See:\n{long}\nok")) == ["README.md#L3-L3"]
    assert anchors.recognise(f"See:\n{LINES[11]}\nok") == []


@pytest.mark.parametrize(
    "message",
    [
        "",
        f"{INTRODUCTION}\n\n{CONCLUSION}",
        "The function refund(order, approvals) in src/refunds.py returns pay_back(order).",
        "- refund checks LIMIT\n- check raises TooFew\n\nreturn None",
        "\ud800\0\n```\n```\n\\n\\n",
    ],
)
def test_prose_is_not_recognised(anchors: Anchors, message: str) -> None:
    assert anchors.recognise(message) == []


def test_without_a_commit_nothing_is_recognised(repo: Repo, make_anchors: MakeAnchors, tmp_path: Path) -> None:
    assert make_anchors(repo).recognise(TEXT) == []
    assert Anchors(Repositories(None), tmp_path / "none.db").recognise(TEXT) == []
