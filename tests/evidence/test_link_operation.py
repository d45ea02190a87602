"""Links of every type of pointer: for an editor, a code host and the archive."""  # EB-03

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from engrambus.evidence.pointers import EvidenceState
from engrambus.operations.pointers import LinkAnswer
from tests.limits.team import Team
from tests.projects import commit_files, git

GITHUB = "https://github.com/o/r"


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    team = Team(tmp_path)
    git(team.repository.path, "remote", "add", "origin", "git@github.com:o/r.git")
    yield team
    team.gateway.close()


def link(team: Team, ref: str) -> LinkAnswer:
    answer: LinkAnswer = team.client.call("link_pointer", team.paul, ref=ref)
    return answer


def test_a_section_links_to_its_lines(team: Team) -> None:
    ref = f"artifact:design.md#sec=Design/Parser@{team.sha}"
    answer = link(team, ref)
    file = team.repository.path / "docs" / "design.md"
    assert answer.ref == ref
    assert answer.editor == f"vscode://file{file}:5"
    assert answer.github == f"{GITHUB}/blob/{team.sha}/docs/design.md?plain=1#L5-L7"
    assert (answer.swhid or "").endswith(f";anchor=swh:1:rev:{team.sha};path=/docs/design.md;lines=5-7")
    assert answer.evidence == EvidenceState(state="same")
    lines, section = (team.client.deref(team.paul, target) for target in (answer.github or "", ref))
    assert lines.excerpt == section.excerpt.rstrip() + "\n"


def test_a_document_links_to_the_file(team: Team) -> None:
    answer = link(team, f"artifact:docs/design.md@{team.sha}")
    assert answer.github == f"{GITHUB}/blob/{team.sha}/docs/design.md"
    assert (answer.editor or "").endswith("/docs/design.md")


def test_the_link_of_a_changed_section_says_so(team: Team) -> None:
    text = (team.repository.path / "docs" / "design.md").read_text()
    commit_files(team.repository.path, {"docs/design.md": text.replace("trusts", "checks")})
    answer = link(team, f"artifact:docs/design.md#sec=Parser@{team.sha}")
    assert answer.evidence is not None
    assert answer.evidence.state == "changed"


def test_a_diff_links_to_the_change_of_the_file(team: Team) -> None:
    path = team.repository.path
    git(path, "mv", "src/parser.py", "src/reader.py")
    text = (path / "src" / "reader.py").read_text().replace("line 20 of the parser", "line 20 of the reader")
    head = commit_files(path, {"src/reader.py": text})
    anchor = hashlib.sha256(b"src/reader.py").hexdigest()
    for name in ("src/parser.py", "src/reader.py"):
        answer = link(team, f"diff:{name}@{team.sha}..{head}")
        assert answer.github == f"{GITHUB}/compare/{team.sha}..{head}#diff-{anchor}"
        assert answer.editor == f"vscode://file{path}/src/reader.py:20"
        assert answer.swhid is None


def test_pointers_without_a_file_say_why_they_have_no_link(team: Team) -> None:
    stored = team.client.call("store_artifact", team.paul, text="one line\n", name="note.txt").pointer
    team.client.call("keep_episode", text="We keep the parser.", kind="decision", slug="keep")
    report = '<testsuite><testcase classname="tests.x" name="test_it"/></testsuite>'
    receipt = team.client.call("record_tests", report=report).receipt_id
    for ref in (stored, "sam:decision:keep@1", f"test:tests/x.py::test_it@{receipt}"):
        answer = link(team, ref)
        assert (answer.editor, answer.github, answer.swhid) == (None, None, None)
        assert "less.deref_pointer" in (answer.why_none or "")
    assert link(team, f"url:https://example.org/a@sha256:{'0' * 64}").web == "https://example.org/a"


def test_without_an_origin_on_github_there_is_still_the_editor(team: Team) -> None:
    git(team.repository.path, "remote", "set-url", "origin", "https://gitlab.com/o/r")
    answer = link(team, f"artifact:docs/design.md#sec=Parser@{team.sha}")
    assert answer.github is None
    assert answer.editor
