"""`engrambus promotion`: what other projects see is decided by a person.  # EB-37"""

from __future__ import annotations

from tests.cli.runner import Shell


def test_a_promotion_is_asked_for_listed_and_approved(shell: Shell) -> None:
    (shell.path / ".catalog" / "policy.yaml").write_text("scopes: [run, project, org]\n")
    shell.ok("policy", "apply")
    shell.ok("agent", "add", "mia", "--role", "manager")
    shell.ok("agent", "add", "paul", "--role", "programmer", "--parent", "mia")
    options = ("--at", "src/parser.py:1-2", "--confidence", "0.9", "--as", "paul", "--json")
    put = shell.ok("put", "The parser trusts its input.", *options)
    asked = shell.ok("promote", put.json["id"], "--scope", "org", "--as", "mia")
    assert "warning: APPROVAL_PENDING: " in asked.err
    assert "waiting for approval" in asked.err
    listed = shell.ok("promotion", "list").out
    assert "waiting for org: The parser trusts its input." in listed
    (row,) = shell.ok("promotion", "list", "--json").json["promotions"]
    assert shell.run("promotion", "approve", row["request_id"], "--as", "mia").code == 1
    assert "approved for org" in shell.ok("promotion", "approve", row["request_id"]).out
    assert shell.ok("query", "parser", "--scope", "org", "--json").json["engrams"][0]["id"] == put.json["id"]
    assert "/admin" in shell.ok("promotion", "list", "--all").out
    assert shell.ok("promotion", "list").out == "No request waits for approval.\n"
