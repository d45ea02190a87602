"""Engrams that were used, at the command line."""  # EB-35

from __future__ import annotations

from tests.cli.runner import Shell


def put(shell: Shell, claim: str, *options: str) -> str:
    engram: str = shell.ok("put", claim, "--at", "src/parser.py:10-12", "--json", *options).json["id"]
    return engram


def test_a_decision_shows_what_it_used_and_the_facts_what_used_them(shell: Shell) -> None:
    first, second = put(shell, "The parser trusts its input."), put(shell, "The lexer is small.")
    decision = put(shell, "We keep the parser.", "--kind", "decision", "--used", first, "--used", second[:13])
    lines = shell.ok("show", decision).out.splitlines()
    assert [line.split() for line in lines if line.startswith("used")] == [["used", first[:13]], ["used", second[:13]]]
    assert f"used by     engram {decision[:13]} by admin, now" in shell.ok("show", first).out.splitlines()
    assert "used 1 time" in shell.ok("feed", "trusts").out
    shown = shell.ok("show", second, "--json").json["about"][second]["used_by"]
    assert (shown["count"], shown["newest"][0]["id"]) == (1, decision)


def test_an_absent_engram_is_refused_by_its_place_in_the_list(shell: Shell) -> None:
    first = put(shell, "The parser trusts its input.")
    absent = "01K7Z3V5QX0000000000000000"
    refused = shell.run(
        *("put", "We keep it.", "--at", "src/parser.py:1", "--used", first, "--used", absent, "--json")
    ).problem
    assert (refused["code"], refused["field"], refused["used"]) == ("ENGRAM_NOT_FOUND", "used[1]", absent)
    assert shell.ok("query", "keep").out == "Nothing found.\n"


def test_a_message_and_a_review_show_what_they_used(shell: Shell) -> None:
    fact = put(shell, "The parser trusts its input.")
    shell.ok("agent", "add", "kim", "--role", "programmer")
    report = f"ROLE: programmer\nTASK_STATUS: done\nOUTPUT: It is decided.\nUSED: [{fact[:13]}]\n"
    (shell.path / "report.yaml").write_text(report)
    shell.ok("message", "report.yaml", "--as", "kim")
    assert f"    used: {fact[:13]}" in shell.ok("inbox").out.splitlines()
    made = shell.ok("contribute", "Parsers want care.", "--as", "kim", "--used", fact, "--json").json
    out = shell.ok("review", "accept", made["contribution_id"], "--used", fact).out
    assert f"used           {fact[:13]}" in out.splitlines()
    assert f"decided with   {fact[:13]}" in out.splitlines()
    assert "3 more" not in shell.ok("show", fact).out
    assert len([line for line in shell.ok("show", fact).out.splitlines() if line.startswith("used by")]) == 3
