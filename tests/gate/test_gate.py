"""The merge gate: open risks and stale decisions on the lines that a branch changes."""  # EB-24 UC2

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import COMMAND, Shell
from tests.projects import FILES, commit_files, git

LINES = FILES["src/parser.py"].splitlines(keepends=True)
RISK = "The parser trusts lengths that a client sends."
DECISION = "Words are split at line ends only."
REASON = "Lengths are checked by the caller since last week."


def branch(shell: Shell, files: dict[str, str | None]) -> str:
    """Commit files on a branch and return its head."""
    commit_files(shell.path, {})  # the files of the project itself
    git(shell.path, "checkout", "-q", "-b", "feature")
    return commit_files(shell.path, files)


def edited(*numbers: int) -> str:
    """Return the parser with these lines changed."""
    return "".join(f"changed {line}" if number in numbers else line for number, line in enumerate(LINES, 1))


def put(shell: Shell, claim: str, kind: str, at: str = "src/parser.py:10-12") -> str:
    """Put an engram and return its id."""
    return str(shell.ok("put", claim, "--kind", kind, "--at", at, "--json").json["id"])


def gate(shell: Shell, *options: str) -> dict[str, Any]:
    """Run the gate and return its report; its status must agree with it."""
    result = shell.run("gate", "--base", "main", "--json", *options)
    assert result.code == (0 if result.json["passed"] else 1)
    return dict(result.json)


def test_a_branch_that_changes_other_lines_passes(shell: Shell) -> None:
    put(shell, RISK, "risk")
    put(shell, DECISION, "decision")
    branch(shell, {"src/parser.py": edited(9, 13), "docs/design.md": None})
    report = gate(shell)
    assert report["passed"]
    assert (report["findings"], report["files"], report["checked"]) == ([], 2, 2)
    assert "passed" in shell.ok("gate").out


def test_a_changed_line_under_a_risk_fails_the_gate(shell: Shell) -> None:
    risk = put(shell, RISK, "risk")
    head = branch(shell, {"src/parser.py": edited(11)})
    report = gate(shell)
    (finding,) = report["findings"]
    assert (finding["rule"], finding["engram"], finding["claim"]) == ("open-risk", risk, RISK)
    assert (finding["path"], finding["first"], finding["last"]) == ("src/parser.py", 11, 11)
    assert (report["head"], report["open"]) == (head, 1)
    text = shell.run("gate").out
    for part in ("open risk", "src/parser.py:11", RISK, risk[:13], "--override ID --reason"):
        assert part in text


@pytest.mark.parametrize("kind", ["decision", "constraint", "policy"])
def test_a_decision_whose_lines_the_branch_changes_fails_the_gate(shell: Shell, kind: str) -> None:
    put(shell, DECISION, kind)
    branch(shell, {"src/parser.py": edited(10, 11, 12)})
    (finding,) = gate(shell)["findings"]
    assert (finding["rule"], finding["kind"]) == ("stale-decision", kind)
    assert finding["evidence"]["state"] in ("changed", "gone")


@pytest.mark.parametrize("kind", ["fact", "todo", "test", "perf"])
def test_other_kinds_do_not_fail_it(shell: Shell, kind: str) -> None:
    put(shell, RISK, kind)
    branch(shell, {"src/parser.py": edited(11)})
    assert gate(shell)["checked"] == 0


def test_lines_added_above_move_a_decision_and_leave_it_true(shell: Shell) -> None:
    put(shell, DECISION, "decision")
    branch(shell, {"src/parser.py": "a new line\n" + "".join(LINES)})
    assert gate(shell)["passed"]


@pytest.mark.parametrize(("before", "fails"), [(10, False), (11, True), (12, True), (13, False)])
def test_lines_added_between_the_lines_of_a_risk_touch_it(shell: Shell, before: int, fails: bool) -> None:
    put(shell, RISK, "risk")
    branch(shell, {"src/parser.py": "".join([*LINES[: before - 1], "added\n", *LINES[before - 1 :]])})
    assert gate(shell)["passed"] is not fails


def test_a_deleted_file_and_a_whole_file(shell: Shell) -> None:
    put(shell, RISK, "risk")
    put(shell, "Design notes are binding.", "policy", "docs/design.md")
    branch(shell, {"src/parser.py": None, "docs/design.md": "# Other\n"})
    findings = {finding["path"]: finding for finding in gate(shell)["findings"]}
    assert findings["src/parser.py"]["deleted"]
    assert findings["docs/design.md"]["rule"] == "stale-decision"


def test_a_risk_recorded_on_the_branch_itself(shell: Shell) -> None:
    branch(shell, {"src/new.py": "".join(f"new {number}\n" for number in range(1, 9))})
    put(shell, RISK, "risk", "src/new.py:3-4")
    assert [finding["path"] for finding in gate(shell)["findings"]] == ["src/new.py"]
    git(shell.path, "checkout", "-q", "main")
    assert gate(shell)["passed"]  # the branch main changes nothing
    assert not gate(shell, "--head", "feature")["passed"]


def test_only_changes_since_the_branch_left_its_base_count(shell: Shell) -> None:
    put(shell, RISK, "risk")
    branch(shell, {"src/other.py": "x\n"})
    git(shell.path, "checkout", "-q", "main")
    commit_files(shell.path, {"src/parser.py": edited(11)})  # main itself moves on
    git(shell.path, "checkout", "-q", "feature")
    assert gate(shell)["passed"]


def test_what_was_learned_from_the_repository_does_not_fail_it(shell: Shell) -> None:
    commit_files(
        shell.path, {"docs/adr/0001-words.md": "# Words\n\n## Decision\n\nWe split words at line ends only.\n"}
    )
    shell.ok("learn")
    assert "split words" in shell.ok("query", "split words", "--kind", "decision").out
    branch(shell, {"docs/adr/0001-words.md": "# Words\n\n## Decision\n\nAnything goes.\n"})
    assert (gate(shell)["passed"], gate(shell)["checked"]) == (True, 0)


def test_master_is_the_base_where_there_is_no_main(shell: Shell) -> None:
    put(shell, RISK, "risk")
    branch(shell, {"src/parser.py": edited(11)})
    git(shell.path, "branch", "-m", "main", "master")
    assert shell.run("gate").code == 1


def test_a_forgotten_risk_is_settled(shell: Shell) -> None:
    risk = put(shell, RISK, "risk")
    branch(shell, {"src/parser.py": edited(11)})
    assert not gate(shell)["passed"]
    shell.ok("forget", risk)
    assert gate(shell)["passed"]


def test_an_override_is_recorded_with_reason_and_identity(shell: Shell) -> None:
    risk = put(shell, RISK, "risk")
    branch(shell, {"src/parser.py": edited(11)})
    report = gate(shell, "--override", risk, "--reason", REASON, "--identity", "Ada <ada@example.org>")
    (finding,) = report["findings"]
    assert (report["passed"], report["open"], report["overridden"]) == (True, 0, 1)
    assert (finding["override"]["reason"], finding["override"]["identity"]) == (REASON, "Ada <ada@example.org>")
    assert finding["override"]["by"].endswith("/admin")
    (recorded,) = shell.ok("overrides", "--json").json["overrides"]
    assert recorded == finding["override"]
    assert REASON in shell.ok("overrides").out
    assert shell.ok("verify")
    # Another change of the same lines is another finding; a commit elsewhere is not.
    commit_files(shell.path, {"src/other.py": "x\n"})
    assert gate(shell)["passed"]
    commit_files(shell.path, {"src/parser.py": edited(10, 11)})
    assert not gate(shell)["passed"]


def test_git_names_who_overrides(shell: Shell) -> None:
    risk = put(shell, RISK, "risk")
    git(shell.path, "config", "user.name", "Grace")
    git(shell.path, "config", "user.email", "grace@example.org")
    branch(shell, {"src/parser.py": edited(11)})
    (finding,) = gate(shell, "--override", risk[:20], "--reason", REASON)["findings"]
    assert finding["override"]["identity"] == "Grace <grace@example.org>"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--override", "01K7Z3V5QX0000000000000000", "--reason", REASON), "GATE_FINDING_NOT_FOUND"),
        (("--override", "RISK", "--reason", "ok"), "FIELD_VALUE"),
        (("--override", "RISK", "--reason", REASON, "--identity", " "), "FIELD_VALUE"),
        (("--base", "no-such-branch"), "REVISION_NOT_FOUND"),
        (("--head", "no-such-branch"), "REVISION_NOT_FOUND"),
    ],
)
def test_what_cannot_be_checked_or_overridden_is_refused(shell: Shell, options: tuple[str, ...], code: str) -> None:
    risk = put(shell, RISK, "risk")
    branch(shell, {"src/parser.py": edited(11)})
    given = [risk if option == "RISK" else option for option in options]
    result = shell.run("gate", "--json", *given)
    assert result.problem["code"] == code
    assert not gate(shell)["passed"]
    assert shell.ok("overrides", "--json").json["overrides"] == []


def test_unrelated_histories_are_refused(shell: Shell) -> None:
    git(shell.path, "checkout", "-q", "--orphan", "feature")
    commit_files(shell.path, {"src/parser.py": edited(11)})
    problem = shell.run("gate", "--json").problem
    assert problem["code"] == "MERGE_BASE_NOT_FOUND"
    assert "fetch" in problem["hint"]


def test_only_parents_and_people_override(shell: Shell) -> None:
    risk = put(shell, RISK, "risk")
    branch(shell, {"src/parser.py": edited(11)})
    shell.ok("agent", "add", "mia", "--role", "manager")
    shell.ok("agent", "add", "paul", "--role", "programmer")
    refused = shell.run("gate", "--json", "--override", risk, "--reason", REASON, "--as", "paul")
    assert refused.problem["code"] == "ROLE_FORBIDDEN"
    (finding,) = gate(shell, "--override", risk, "--reason", REASON, "--as", "mia")["findings"]
    assert finding["override"]["identity"].endswith("/mia")


def test_the_report_as_sarif(shell: Shell, tmp_path: Path) -> None:
    put(shell, RISK, "risk")
    decision = put(shell, DECISION, "decision", "docs/design.md:1-3")
    branch(shell, {"src/parser.py": edited(11), "docs/design.md": "# Other\n"})
    file = tmp_path / "gate.sarif"
    gate(shell, "--override", decision, "--reason", REASON, "--identity", "Ada", "--sarif", str(file))
    log = json.loads(file.read_text())
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    results = {result["ruleId"]: result for result in run["results"]}
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    risk = results["open-risk"]
    assert RISK in risk["message"]["text"]
    assert "suppressions" not in risk
    physical = risk["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "src/parser.py"
    assert physical["region"] == {"startLine": 11, "endLine": 11}
    (suppression,) = results["stale-decision"]["suppressions"]
    assert REASON in suppression["justification"]


def test_what_is_staged_is_checked_before_a_commit(shell: Shell) -> None:
    put(shell, RISK, "risk")
    commit_files(shell.path, {})
    (shell.path / "src/parser.py").write_text(edited(11))
    assert gate_staged(shell)["passed"]  # not staged yet
    git(shell.path, "add", "-A")
    report = gate_staged(shell)
    assert [finding["rule"] for finding in report["findings"]] == ["open-risk"]
    assert git(shell.path, "for-each-ref", "--contains", report["head"]) == ""  # nothing keeps the trial commit


def gate_staged(shell: Shell) -> dict[str, Any]:
    """Check what is staged and return the report."""
    return dict(shell.run("gate", "--staged", "--json").json)


def test_the_hook_stops_a_commit_until_it_is_overridden(shell: Shell) -> None:
    risk = put(shell, RISK, "risk")
    commit_files(shell.path, {})
    hook = shell.ok("gate", "--setup", "pre-commit").err.split(": ", 1)[1].strip()
    assert Path(hook).is_file()
    shell.ok("gate", "--setup", "pre-commit")  # a second time changes nothing
    (shell.path / "src/parser.py").write_text(edited(11))
    # `commit -a` stages in an index of its own, which git names to the hook.
    stopped = _commit_all(shell)
    assert stopped.returncode == 1
    assert RISK in stopped.stdout + stopped.stderr
    git(shell.path, "add", "-A")
    shell.ok("gate", "--staged", "--override", risk, "--reason", REASON, "--identity", "Ada")
    assert _commit_all(shell).returncode == 0


def _commit_all(shell: Shell) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{Path(COMMAND).parent}{os.pathsep}{os.environ['PATH']}"}
    words = ["git", "-c", "user.name=Ada", "-c", "user.email=a@example.org", "commit", "-q", "-a", "-m", "A change"]
    return subprocess.run(words, cwd=shell.path, env=environment, capture_output=True, text=True, check=False)


def test_another_hook_is_not_replaced(shell: Shell) -> None:
    hook = shell.path / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    problem = shell.run("gate", "--setup", "pre-commit", "--json").problem
    assert problem["code"] == "FILE_EXISTS"
    assert "engrambus gate --staged" in problem["hint"]
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"


@pytest.mark.parametrize("forge", ["github", "gitlab"])
def test_workflows_run_options_that_exist(shell: Shell, forge: str) -> None:
    path = Path(shell.ok("gate", "--setup", forge).err.split(": ", 1)[1].strip())
    workflow = yaml.safe_load(path.read_text())
    steps = (
        workflow["jobs"]["gate"]["steps"]
        if forge == "github"
        else [{"run": "\n".join(workflow["engrambus-gate"]["script"])}]
    )
    (command,) = [line for step in steps for line in step.get("run", "").splitlines() if line.startswith("engrambus ")]
    known = shell.ok("gate", "--help").out
    options = [word for word in command.split() if word.startswith("--")]
    assert options == ["--project", "--base", "--head", "--sarif"]
    assert all(option in known for option in options)


def test_a_first_commit_has_nothing_to_compare_with(bare_shell: Shell, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q", "-b", "main")
    bare_shell.ok("init", folder=empty)
    (empty / "a.py").write_text("x\n")
    git(empty, "add", "-A")
    assert "no commit yet" in bare_shell.ok("gate", "--staged", folder=empty).err
    assert bare_shell.run("gate", "--json", folder=empty).problem["code"] == "REVISION_NOT_FOUND"
