"""Anchoring on every edge: the operation, the route, the tool and the command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from engrambus.core import digest
from engrambus.errors import FieldValue, NoRepository, RevisionNotFound
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.operations import OPERATIONS
from engrambus.operations.pointers import MAX_ANCHOR_TEXT, AnchorAnswer, AnchorText
from engrambus.settings import Settings
from engrambus.testing import GatewayClient
from tests.cli.runner import Shell
from tests.http.running_server import run_server
from tests.projects import Repository, make_gateway, make_repository

ANCHOR = OPERATIONS["anchor_text"]
QUOTED_LINES = "> line 10 of the parser\n> line 11 of the parser\n> line 12 of the parser"
LINES = b"line 10 of the parser\nline 11 of the parser\nline 12 of the parser\n"


def anchor(gateway: Gateway, text: str, **fields: object) -> AnchorAnswer:
    answer = gateway.call(ANCHOR, AnchorText(text=text, **fields), LOCAL_ADMIN)  # type: ignore[arg-type]
    assert isinstance(answer, AnchorAnswer)
    return answer


def test_an_anchor_is_the_pointer_to_its_lines(gateway: Gateway, repository: Repository) -> None:
    answer = anchor(gateway, QUOTED_LINES)
    assert answer.found
    assert answer.pointer is not None
    assert answer.pointer.ref == f"repo:src/parser.py#L10-L12@{repository.sha}"
    assert gateway.evidence.read(answer.pointer).data == LINES
    assert (answer.candidates, answer.matched_lines) == ([], 3)
    assert [*repository.path.glob(".catalog/derived-*/anchors.db")]


def test_an_agent_can_put_an_anchored_pointer_as_it_is(gateway: Gateway) -> None:  # EB-22
    client = GatewayClient(SimpleNamespace(gateway=gateway))
    ada = client.add_agent("ada", "architect")
    pointer = client.call("anchor_text", ada, text=QUOTED_LINES).pointer
    assert pointer.digest is None  # the agent would claim to have read the lines
    engram = client.call("put_engram", ada, claim="It is so.", pointers=[msgspec.to_builtins(pointer)])
    assert engram.pointers[0].digest == digest(LINES)


def test_text_that_is_not_found_is_no_error(gateway: Gateway) -> None:
    assert anchor(gateway, "nothing of the kind").found is False
    assert anchor(gateway, "line 10 of the parser", revision="HEAD", path="docs/design.md").found


def test_a_snapshot_finds_uncommitted_lines(gateway: Gateway, repository: Repository) -> None:
    (repository.path / "src" / "parser.py").write_text("not committed yet\nand not staged either\n")
    (repository.path / "src" / "new.py").write_text("not even tracked by git\nso it must be named\n")
    text = "not committed yet\nand not staged either"
    assert not anchor(gateway, text).found
    answer = anchor(gateway, text, snapshot=True)
    assert answer.pointer is not None
    assert gateway.evidence.read(answer.pointer).data == f"{text}\n".encode()
    assert repository.sha not in answer.pointer.ref
    untracked = "not even tracked by git\nso it must be named"
    assert not anchor(gateway, untracked, snapshot=True).found
    named = anchor(gateway, untracked, snapshot=True, path="src/new.py")
    assert named.pointer is not None
    assert gateway.evidence.read(named.pointer).data == f"{untracked}\n".encode()


def test_invalid_requests_are_refused(gateway: Gateway, tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(FieldValue) as refused:
        anchor(gateway, "ö" * (MAX_ANCHOR_TEXT // 2 + 1))
    assert (refused.value.field, refused.value.limit, refused.value.used) == (
        "text",
        MAX_ANCHOR_TEXT,
        MAX_ANCHOR_TEXT + 2,
    )
    with pytest.raises(FieldValue):
        anchor(gateway, "x", snapshot=True, revision="HEAD")
    with pytest.raises(RevisionNotFound):
        anchor(gateway, "x", revision="no-such-branch")
    (tmp_path / "plain").mkdir()
    without_git = make_gateway(tmp_path / "plain", settings)
    with pytest.raises(NoRepository):
        anchor(without_git, "x")
    without_git.close()


def test_anchoring_over_http(gateway: Gateway, repository: Repository) -> None:
    with run_server(gateway, repository) as bus:
        response = bus.call("POST", "/pointer/anchor", {"text": QUOTED_LINES})
        assert response.status == 200
        assert response.json == {
            "found": True,
            "pointer": {"type": "repo", "ref": f"repo:src/parser.py#L10-L12@{repository.sha}"},
            "candidates": [],
            "matched_lines": 3,
        }
        assert bus.call("POST", "/pointer/anchor", {"text": "x" * (MAX_ANCHOR_TEXT + 1)}).status == 422


def test_agents_can_anchor_with_a_tool() -> None:
    assert ANCHOR.tool
    assert ANCHOR.tool_name == "less_anchor"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A repository with a fresh project."""
    shell = Shell(make_repository(tmp_path / "repository"), tmp_path / "home", monkeypatch)
    shell.ok("init")
    return shell


def test_anchoring_on_the_command_line(shell: Shell) -> None:
    ref = f"repo:src/parser.py#L10-L12@{shell.repository.sha}"
    assert shell.ok("anchor", QUOTED_LINES.replace("> ", "")).out.splitlines() == [ref]
    assert shell.run("anchor", "-", stdin=QUOTED_LINES).out.splitlines()[0] == ref
    (shell.path / "paste.txt").write_text(QUOTED_LINES)
    assert shell.ok("anchor", "--file", "paste.txt", "--json").json["pointer"]["ref"] == ref
    assert shell.ok("anchor", "Nothing", "of", "the", "kind").out.startswith("Not found")
    assert shell.run("anchor").code == 2
    assert shell.run("anchor", "x", "--file", "paste.txt").code == 2
    assert shell.run("anchor", "--file", "absent.txt").code == 2
    assert shell.run("anchor", "--json", "--file", "src").problem["code"] == "INPUT_NOT_A_FILE"
    assert shell.run("anchor", "-", "--json", stdin=b"\xff\xfe").problem["code"] == "BAD_TEXT"
    assert shell.run("anchor", "-", "--json", stdin=b"x" * (MAX_ANCHOR_TEXT + 1)).problem["field"] == "text"


def test_the_command_lists_candidates_and_takes_a_relative_path(shell: Shell) -> None:
    for name in ("a.py", "b.py"):
        (shell.path / "src" / name).write_text("the very same line twice\nand another one\n")
    output = shell.ok("anchor", "the very same line twice", "--snapshot").out
    assert output.startswith("Not found")
    subprocess.run(["git", "add", "-A"], cwd=shell.path, check=True)
    output = shell.ok("anchor", "the very same line twice", "--snapshot").out
    assert "src/a.py#L1-L1@" in output
    assert "src/b.py#L1-L1@" in output
    assert "--path" in output.splitlines()[0]
    narrowed = shell.ok(
        "anchor", "the very same line twice", "--snapshot", "--path", "b.py", "--json", folder=shell.path / "src"
    )
    assert "src/b.py#L1-L1@" in narrowed.json["pointer"]["ref"]


def test_the_command_in_a_linked_worktree(shell: Shell, tmp_path: Path) -> None:
    subprocess.run(["git", "worktree", "add", "-q", "-b", "side", str(tmp_path / "side")], cwd=shell.path, check=True)
    side = tmp_path / "side"
    (side / "src" / "parser.py").write_text("only in the linked checkout\nand nowhere else\n")
    text = "only in the linked checkout\nand nowhere else"
    assert shell.ok("anchor", text, folder=side).out.startswith("Not found")
    answer = json.loads(shell.ok("anchor", text, "--snapshot", "--json", folder=side).out)
    read = json.loads(shell.ok("deref", answer["pointer"]["ref"], "--json", folder=side).out)
    assert read["content_digest"] == digest(f"{text}\n".encode())
    assert shell.ok("anchor", text, "--snapshot").out.startswith("Not found")
