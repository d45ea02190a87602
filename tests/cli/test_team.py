"""A parent agent and its child: reports, budgets, requests, grants, broadcasts and briefs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engrambus.core import estimate_tokens
from tests.cli.runner import CommandResult, Shell

REPORT = """\
ROLE: programmer
TASK_STATUS: in_progress
ENGRAMS:
  - kind: risk
    claim: "The parser trusts its input."
    pointers: ["repo:src/parser.py#L10-L12@{sha}"]
DEREF_REQUESTS:
  - pointer: "repo:src/parser.py#L1-L30@{sha}"
    reason: "To see who calls it."
OUTPUT:
  summary: "One risk."
"""
PASTED = """\
ROLE: programmer
TASK_STATUS: done
OUTPUT:
  summary: |
    It says
    line 10 of the parser
    line 11 of the parser
    line 12 of the parser
"""
BROADCAST = """\
ROLE: manager
SHARED_BRIEF_MICRO: ["Goal: a parser that trusts nobody."]
BUDGETS: {max_repo_spans: 1, max_engrams: 2}
"""


@pytest.fixture
def team(shell: Shell, tmp_path: Path) -> Shell:
    """A project with lead, a manager, and its child ada; their messages are files in the repository."""
    shell.ok("agent", "add", "lead", "--role", "manager")
    shell.ok("agent", "add", "ada", "--parent", "lead")
    for name, text in (("report", REPORT), ("pasted", PASTED), ("broadcast", BROADCAST)):
        (shell.path / f"{name}.yaml").write_text(text.replace("{sha}", shell.repository.sha), "utf-8")
    return shell


def read(team: Shell, lines: str) -> CommandResult:
    return team.run("deref", f"src/parser.py:{lines}", "--as", "ada")


def test_a_report_reaches_the_parent_with_its_requests(team: Shell) -> None:  # EB-16
    assert team.ok("message", "report.yaml", "--dry-run", "--as", "ada").out.startswith("It would be accepted.")
    sent = team.ok("message", "report.yaml", "--as", "ada").out
    assert "to lead; turn 2 is open." in sent
    mail = team.ok("inbox", "--as", "lead").out
    assert "request from ada" in mail
    assert 'claim: "The parser trusts its input."' in mail
    assert "To see who calls it." in team.ok("grant", "requests", "--as", "lead").out
    assert team.ok("inbox").out == "Nothing new.\n"


def test_a_person_writes_to_an_agent_and_reads_what_agents_write(team: Shell) -> None:  # EB-34
    assert "to ada;" in team.ok("message", "--to", "ada", "Please wait with the parser.").out
    mail = team.ok("inbox", "--as", "ada").out
    assert re.match(r"note from admin, [0-9 :-]{16}  [0-9A-Z]{13}\n    Please wait with the parser\.\n", mail)
    assert "1 not shown before: engrambus inbox --unseen" in mail
    short = team.ok("inbox", "--as", "ada", "--unseen", "--short").out
    assert re.fullmatch(r"[0-9A-Z]{13} note from admin, just now: Please wait with the parser\.\n", short)
    assert team.ok("inbox", "--as", "ada", "--unseen").out == "Nothing new.\n"
    assert "Please wait" in team.ok("mail", short.split()[0], "--as", "ada").out
    team.ok("message", "--to", "admin", "Which branch?", "--as", "lead")
    team.ok("message", "--to", "lead", "report.yaml", "--as", "ada")  # a file, as without --to
    assert "note from lead" in team.ok("inbox", "--unseen").out
    assert "message from ada" in team.ok("inbox", "--as", "lead").out


def test_words_without_a_receiver_and_receivers_that_are_not_there_are_refused(team: Shell) -> None:  # EB-34
    assert "There is no file 'Hello there.'" in team.run("message", "Hello there.", "--as", "ada").err
    assert "There is no file 'reprot.yaml'" in team.run("message", "--to", "lead", "reprot.yaml", "--as", "ada").err
    unknown = team.run("message", "--to", "adda", "Hello.")
    assert (unknown.code, "Did you mean ada?" in unknown.err) == (1, True)
    foreign = team.run("message", "--to", "stranger", "Hello.", "--as", "ada")
    assert "writes to its parent 'lead'" in foreign.err
    assert team.ok("inbox", "--as", "ada").out == "Nothing new.\n"


def test_a_message_is_read_from_a_pipe(team: Shell) -> None:
    sent = team.run("message", "-", "--as", "ada", "--json", stdin=(team.path / "report.yaml").read_text("utf-8"))
    assert sent.json["to"] == "lead"
    assert len(sent.json["engrams"]) == 1


def test_a_message_with_pasted_lines_is_refused_with_a_pointer_to_them(team: Shell) -> None:  # EB-07, EB-10
    checked = team.run("message", "pasted.yaml", "--dry-run", "--as", "ada")
    assert checked.code == 1
    assert "field: OUTPUT.summary   line: 4" in checked.out
    refused = team.run("message", "pasted.yaml", "--as", "ada")
    assert refused.code == 1
    assert refused.err.startswith("error BUDGET_EXCEEDED: ")
    assert f"repo:src/parser.py#L10-L12@{team.repository.sha}" in refused.err
    problem = team.run("message", "pasted.yaml", "--as", "ada", "--json").problem
    resend = problem["resend"].replace('"..."', '"The parser trusts its input."')
    assert "in place of" in team.run("message", "-", "--as", "ada", stdin=resend).out


def test_new_code_is_refused_in_a_claim_and_stored_as_an_artifact(team: Shell) -> None:  # EB-07
    code = "def login(user, password): token = make_token(user); return token"
    refused = team.run("--as", "ada", "put", code, "--at", "src/parser.py:1-2")
    assert refused.code == 1
    (team.path / "proposal.py").write_text(f"{code}\n")
    pointer = team.ok("--as", "ada", "artifact", "add", "proposal.py", "--json").json["pointer"]
    assert f"Store new code with engrambus artifact add; its pointer will be {pointer}." in refused.err
    team.ok("--as", "ada", "put", "Login returns a token for each user.", "--at", pointer)
    assert code in team.ok("deref", pointer).out


def test_a_used_up_turn_is_extended_by_a_grant(team: Shell) -> None:  # EB-08, EB-11
    for lines in ("1-2", "3-4", "5-6"):
        assert read(team, lines).code == 0
    denied = read(team, "7-8")
    assert denied.err.startswith("error DEREF_DENIED: This turn's 3 repo dereferences are used.")
    assert "engrambus grant ask" in denied.err
    checked = team.run("grant", "check", "src/parser.py:7-8", "--as", "ada")
    assert (checked.code, "engrambus grant ask" in checked.out, "less." in checked.out) == (1, True, False)
    request = team.ok("grant", "ask", "src/parser.py:7-12", "--reason", "It is short", "--as", "ada").out
    assert request.endswith("waits for lead to answer.\n")
    approved = team.ok("grant", "approve", request.split()[0], "--as", "lead").out
    assert approved.startswith("Grant ")
    assert ": 400 tokens, 1 use." in team.ok("inbox", "--as", "ada").out
    assert "allowed by a grant" in team.ok("grant", "check", "src/parser.py:7-8", "--as", "ada").out
    assert read(team, "7-8").code == 0
    assert read(team, "9-10").code == 1  # it was good for one use


def test_a_parent_grants_lines_or_a_folder_and_revokes_the_grant(team: Shell) -> None:  # EB-11
    sha = team.repository.sha
    span = team.ok("grant", "issue", "ada", "src/parser.py:1-5", "--as", "lead", "--json").json
    folder = team.ok("grant", "issue", "ada", "src/*", "--uses", "3", "--as", "lead", "--json").json
    brief = team.ok("brief", "--as", "ada").out
    assert f"Granted: src/parser.py:1-5@{sha[:7]}, 400 tokens, 1 use." in brief
    assert f"Granted: src/*@{sha[:7]}, 400 tokens, 3 uses." in brief
    for grant in (span, folder):
        assert "is revoked" in team.ok("grant", "revoke", grant["grant_id"], "--as", "lead").out
    assert "Granted" not in team.ok("brief", "--as", "ada").out
    refused = team.run("grant", "issue", "ada", "src", "--as", "lead")
    assert (refused.code, "'src/*' stands for every file in it" in refused.err) == (2, True)
    assert team.run("grant", "issue", "lead", "src/parser.py", "--as", "ada", "--json").problem["code"] == (
        "ROLE_FORBIDDEN"
    )


def test_a_request_is_denied(team: Shell) -> None:
    request = team.ok("grant", "ask", "src/parser.py", "--reason", "All of it", "--as", "ada", "--json").json
    assert "is denied" in team.ok("grant", "deny", request["request_id"]).out
    assert team.ok("grant", "requests", "--as", "lead").out == "No request waits for an answer.\n"


def test_a_broadcast_lowers_what_a_child_may_spend(team: Shell) -> None:  # EB-06, EB-16
    wrong_kind = team.run("message", "broadcast.yaml", "--dry-run", "--as", "lead")
    assert wrong_kind.code == 1
    assert "BUDGETS is a section of a parent's message." in wrong_kind.out
    team.ok("broadcast", "broadcast.yaml", "--dry-run", "--as", "lead")
    assert team.ok("broadcast", "broadcast.yaml", "--as", "lead").out.endswith(" to ada.\n")
    assert "trusts nobody" in team.ok("inbox", "--as", "ada").out
    assert "1 of 2 engrams" in team.ok("message", "report.yaml", "--dry-run", "--as", "ada").out
    assert read(team, "1-2").code == 0
    assert "limit: 1" in read(team, "3-4").err


def test_a_brief_shows_what_changed_since_a_version(team: Shell) -> None:  # EB-17
    first = team.ok("brief", "--as", "ada", "--json").json
    team.ok("message", "report.yaml", "--as", "ada")
    changes = team.ok("brief", "--as", "ada", "--since", str(first["version"])).out.splitlines()
    assert any(line.startswith("+ [risk] The parser trusts its input.") for line in changes)
    assert not any(line.startswith("Goal") for line in changes)


def test_an_engram_is_confirmed_promoted_and_forgotten(team: Shell) -> None:  # EB-20, EB-21
    result = team.ok(
        "put", "The lexer is small.", "--at", "docs/design.md", "--scope", "run", "--as", "ada", "--json"
    ).json
    assert "confirmed by 1 line of agents." in team.ok("confirm", result["id"], "--as", "lead").out
    assert team.ok("promote", result["id"], "--as", "lead", "--json").json["scope"] == "project"
    assert team.run("promote", result["id"], "--scope", "org", "--json").problem["code"] == "SCOPE_FORBIDDEN"
    assert team.run("forget", result["id"], "--as", "ada", "--json").problem["code"] == "ROLE_FORBIDDEN"
    team.ok("forget", result["id"])


def test_uncommitted_lines_are_found_with_a_snapshot(team: Shell) -> None:
    with (team.path / "src/parser.py").open("a", encoding="utf-8") as file:
        file.write("a line that nobody committed\n")
    missing = team.ok("anchor", "a line that nobody committed").out
    assert "--snapshot" in missing
    ref = team.ok("anchor", "a line that nobody committed", "--snapshot").out.splitlines()[0]
    assert ref.startswith("repo:src/parser.py#L31-L31@")
    assert "a line that nobody committed" in team.ok("deref", ref).out
    (team.path / "new.txt").write_text("a line of a new file\n")
    missing = team.ok("anchor", "a line of a new file", "--snapshot").out
    assert "--snapshot" not in missing
    assert "--path" in missing
    assert team.ok("anchor", "a line of a new file", "--snapshot", "--path", "new.txt").out.startswith("repo:new.txt#")


def test_shared_options_may_precede_the_command(team: Shell) -> None:
    team.ok("message", "report.yaml", "--as", "ada")
    usual = team.ok("inbox", "--as", "lead", "--json")
    assert team.ok("--as", "lead", "--json", "inbox") == team.ok("--json", "--as=lead", "inbox") == usual
    assert "ada" in team.ok("--as", "lead", "grant", "requests").out
    assert "ada" in team.ok("grant", "--as", "lead", "requests").out
    assert team.ok("--json", "query", "--", "--parser").json["engrams"]
    assert team.ok("--as", "lead", "review", "--help") == team.ok("review", "--help")
    assert team.ok("--json", "--run", "x", "grant", "--as=lead", "--help") == team.ok("grant", "--help")
    assert team.ok("--as", "lead", "--help") == team.ok("--help")
    alone = team.run("--as", "ada")
    assert (alone.code, "--as goes with a command" in alone.err) == (2, True)


def test_agents_of_other_runs_are_named_and_near_misses_corrected(shell: Shell) -> None:  # EB-31
    shell.ok("agent", "add", "boss", "--role", "manager")
    made = shell.ok("agent", "add", "--parent", "boss", "--session-turns", "2", "--json").json["agent_id"]
    assert len(made.split("-")) == 2
    shell.ok("run", "new", "Another goal")
    assert shell.ok("agent", "add", "kid", "--parent", "boss").out.startswith("kid is a programmer")
    assert {row["agent_id"] for row in shell.ok("agent", "list", "--as", "kid", "--json").json["agents"]} == {
        "boss",
        "kid",
        made,
    }
    missed = shell.run("agent", "token", made[:-1])
    assert missed.code == 1
    assert f"Did you mean {made}?" in missed.err
    shell.ok("agent", "add", "kid")
    shell.ok("run", "new", "A third goal")
    several = shell.run("query", "--as", "kid")
    assert (several.code, "error AGENT_AMBIGUOUS" in several.err, several.err.count("/kid")) == (1, True, 2)
    assert "agent add" in shell.ok("agent", "list").out


def test_a_missing_message_file_is_named(team: Shell) -> None:
    result = team.run("message", "nothing.yaml", "--as", "ada")
    assert (result.code, "'FILE': There is no file 'nothing.yaml'" in result.err) == (2, True)


def test_an_agent_sees_what_its_turn_has_left(shell: Shell) -> None:  # EB-08, EB-21
    shell.ok("agent", "add", "ed", "--role", "architect", "--session-turns", "4")
    shell.ok("--as", "ed", "put", "The parser trusts its input.", "--at", "src/parser.py:10-12")
    shell.ok("--as", "ed", "deref", "src/parser.py:10-12")
    lines = shell.ok("--as", "ed", "agent", "budget").out.splitlines()
    assert lines[1] == "Your turn 1, worth 4 turns:"
    assert lines[2].startswith("  read  1 of 12 repo, 0 of 8 artifact, 0 of 8 sam; ")
    assert lines[3] == f"  put   {estimate_tokens('The parser trusts its input.')} of 9,600 tokens"
    assert lines[4].endswith(" of 24,000 tokens read")
    assert "ed (x4)" in shell.ok("stats").out
    assert len(shell.ok("agent", "budget").out.splitlines()) == 1  # a person has no turn
    allowed = shell.ok("grant", "check", "--type", "repo", "--agent", "ed").out
    assert allowed.startswith("It would be allowed by turn 1: 11 reads and ")
    assert "a person reads" in shell.ok("grant", "check", "src/parser.py:1").out


def test_a_put_below_the_promotion_floor_says_where_it_was_stored(shell: Shell) -> None:  # EB-20
    result = shell.ok("put", "The parser may trust its input.", "--at", "src/parser.py:10-12", "--confidence", "0.3")
    assert "stored at 'run'" in result.err
    assert "only warns" not in result.err


def test_stats_print_the_trend_and_the_refused_tokens(shell: Shell) -> None:  # EB-34
    shell.ok("agent", "add", "kim", "--role", "programmer")
    for number, text in enumerate(
        ("It went on and said very little of use to its readers. " * 80, "Short.", "Short again.", "Short once more.")
    ):
        path = shell.path / f"{number}.yaml"
        path.write_text(f"ROLE: programmer\nTASK_STATUS: done\nOUTPUT: {text}\n")
        shell.run("message", path.name, "--as", "kim")
    lines = shell.ok("stats").out.splitlines()
    assert any(line.startswith("rejected") and line.endswith("tokens of refused texts") for line in lines)
    assert ["kim", "4", "50%", "0%", "0%", "0%", "falling"] in [line.split() for line in lines]
