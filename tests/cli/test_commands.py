"""Every command: what it prints for people, what it prints for programs, and how it ends."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

from engrambus.backends.sqlite.work import SqliteWork
from engrambus.core import SystemClock
from tests.cli.runner import Desk

CLAIM = "The parser trusts its input."
AT = "src/parser.py:10-12"


def test_init_makes_a_project_once(bare_desk: Desk) -> None:
    said = bare_desk.ok("init").out
    assert f"in {bare_desk.path / '.catalog'}" in said
    for command in ("up", "demo", "install", "put"):
        assert f"  engrambus {command}" in said
    again = bare_desk.run("init", "--json")
    assert again.problem["code"] == "PROJECT_EXISTS"


def test_without_git_it_says_what_is_missing_and_not_what_cannot_work(bare_desk: Desk, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    said = bare_desk.ok("init", at=plain).out
    assert "git init" in said
    assert "engrambus put" not in said


def test_a_project_that_came_with_a_checkout_gets_its_journal_here(desk: Desk) -> None:
    project = desk.ok("stats", "--json").json["project"]
    (desk.path / ".catalog" / "memory.jsonl").unlink()
    refused = desk.run("query")
    assert refused.code == 1
    assert "engrambus init" in refused.err
    desk.ok("init")
    assert desk.ok("stats", "--json").json["project"] == project


def test_outside_a_project_it_says_what_to_do(bare_desk: Desk) -> None:
    said = bare_desk.run("query")
    assert said.code == 1
    assert said.err.startswith(f"error PROJECT_NOT_FOUND: No Engram Bus project at {bare_desk.path}")
    assert "engrambus init" in said.err


def test_put_query_show_and_deref(desk: Desk) -> None:
    put = desk.ok("put", CLAIM, "--at", AT, "--kind", "risk", "--tag", "parsing").out.splitlines()
    ref = f"repo:src/parser.py#L10-L12@{desk.repository.sha}"
    assert put[1] == ref
    assert put[2].startswith("sha256:")
    found = desk.ok("query", "parser", "input").out.splitlines()
    assert found[0] == f"risk        {CLAIM}"
    assert found[1].split()[:3] == [f"src/parser.py:10-12@{desk.repository.sha[:7]}", "admin", "now"]
    assert found[1].split()[3] == put[0]
    shown = desk.ok("show", put[0]).out
    assert ref in shown
    assert "parsing" in shown
    lines = desk.ok("deref", ref).out.splitlines()
    assert lines[:3] == [f"{number}  line {number} of the parser" for number in (10, 11, 12)]
    assert lines[4:] == [ref, put[2]]


def test_json_is_the_answer_on_one_line(desk: Desk) -> None:
    put = desk.ok("put", CLAIM, "--at", AT, "--json").json
    (found,) = desk.ok("query", "parser", "--json").json["engrams"]
    assert (found["id"], found["claim"], found["pointers"]) == (put["id"], CLAIM, put["pointers"])
    assert desk.ok("show", put["id"], "--json").json == put
    assert desk.ok("deref", AT, "--json").json["pointer"]["ref"] == put["pointers"][0]["ref"]


def test_nothing_found_is_not_an_error(desk: Desk) -> None:
    assert desk.ok("query", "zebra").out == "Nothing found.\n"


def test_deref_says_when_it_cut(desk: Desk) -> None:
    said = desk.ok("deref", "src/parser.py:1-30", "--max-tokens", "120").out
    assert "30  " not in said
    assert "--max-tokens" in said.splitlines()[-1]


def test_agents_and_runs(desk: Desk) -> None:
    added = desk.ok("agent", "add", "lead", "--role", "manager").out
    token = added.rpartition("export ENGRAMBUS_TOKEN=")[2].strip()
    assert token.startswith("engrambus1.")
    env = {"ENGRAMBUS_TOKEN": token}
    desk.ok("agent", "add", "coder", env=env)
    listed = desk.ok("agent", "list").out.splitlines()
    assert [line.split() for line in listed[1:]] == [
        ["NAME", "ROLE", "PARENT"], ["lead", "manager", "-"], ["coder", "programmer", "lead"],
    ]  # fmt: skip
    put = desk.ok("put", CLAIM, "--at", AT, "--as", "coder", "--json", env=env).json
    assert put["provenance"]["created_by"].endswith("/coder")
    first = desk.ok("stats", "--json").json["run_id"]
    second = desk.ok("run", "new", "Another goal").out.strip()
    assert desk.ok("stats", "--json").json["run_id"] == second
    assert desk.ok("stats", "--json", "--run", first).json["run_id"] == first
    assert desk.ok("stats", "--json", env={"ENGRAMBUS_RUN": first}).json["run_id"] == first
    desk.ok("run", "end", first)
    assert desk.run("put", CLAIM, "--at", AT, "--json", env=env).problem["code"] == "RUN_ENDED"


def test_promote_and_forget(desk: Desk) -> None:
    engram = desk.ok("put", CLAIM, "--at", AT, "--scope", "run", "--json").json["id"]
    assert "scope       project" in desk.ok("promote", engram).out
    assert desk.ok("forget", engram).out == f"{engram} is forgotten.\n"
    assert desk.run("show", engram, "--json").problem["code"] == "ENGRAM_NOT_FOUND"


def test_stats_links_and_policy(desk: Desk) -> None:
    desk.ok("put", CLAIM, "--at", AT)
    assert ["engrams", "1:", "fact", "1"] in [line.split() for line in desk.ok("stats").out.splitlines()]
    assert f"vscode://file{desk.path}/src/parser.py:10" in desk.ok("link", AT).out
    assert "defaults" in desk.ok("policy", "apply").out
    policy = desk.path / ".catalog" / "policy.yaml"
    policy.write_text("token_ttl: P7D\n")
    assert desk.ok("policy", "apply", "--json").json == {"policy": {"token_ttl": "P7D"}}
    policy.write_text("token_ttl: P1M\n")
    assert desk.run("policy", "apply", "--json").problem["code"] == "POLICY_INVALID"
    policy.write_text("a: &x 1\n")
    assert desk.run("policy", "apply", "--json").problem["code"] == "BAD_YAML"
    policy.write_text("scopes: [run, project, org]\n")
    assert '["run","project","org"]' in desk.ok("policy", "apply").out
    policy.unlink()  # as on a branch from before it was committed
    gone = desk.run("policy", "apply")
    assert gone.err.startswith("error POLICY_INVALID: There is no ")
    assert "stays in force" in gone.err


def test_verify_tells_a_sound_store_from_one_that_is_not(desk: Desk) -> None:
    desk.ok("put", CLAIM, "--at", AT)
    assert desk.ok("verify").out.startswith("sound: ")
    _damage(desk)
    assert desk.run("verify").code == 1


def test_recover_sets_the_damage_aside_and_goes_on(desk: Desk) -> None:
    assert "nothing to recover" in desk.ok("recover").out
    for number in range(3):
        desk.ok("put", f"{CLAIM} {number}", "--at", AT)
    whole = (desk.path / ".catalog" / "memory.jsonl").read_bytes()
    damaged = _damage(desk)
    asked = desk.run("recover", given="n\n")
    assert asked.code == 1
    assert "is damaged at line 4" in asked.err
    assert (desk.path / ".catalog" / "memory.jsonl").read_bytes() == damaged
    (done,) = desk.ok("recover", "--yes", "--json").json["journals"]
    assert (done["line"], done["kept_commits"]) == (4, 2)
    assert Path(done["set_aside"]).read_bytes() == damaged
    assert whole.startswith((desk.path / ".catalog" / "memory.jsonl").read_bytes())
    assert desk.ok("query", "parser", "--json").json["engrams"][0]["claim"] == f"{CLAIM} 0"
    desk.ok("put", CLAIM, "--at", AT)
    assert desk.ok("verify").code == 0


# BX-03: the journal of work is looked at, too, whole or in segments.
@pytest.mark.parametrize("rotated", [False, True])
def test_recover_looks_at_the_journal_of_work(desk: Desk, rotated: bool) -> None:
    draft = '{"lane": "notes"}'
    ids = [desk.run("out", "-", "--json", given=draft).json["id"] for _ in range(3)]
    catalog = desk.path / ".catalog"
    work = catalog / "tuples.jsonl"
    if rotated:
        store = SqliteWork(catalog, SystemClock())
        assert store.rotate(least_bytes=1, before_us=1 << 62)
        store.close()
        assert desk.run("out", "-", given=draft).code == 0
        (harmed,) = catalog.glob("tuples.*.gz")
        lines = gzip.decompress(harmed.read_bytes()).splitlines(keepends=True)
    else:
        harmed, lines = work, work.read_bytes().splitlines(keepends=True)
    lines[-2] = lines[-2].replace(b'"at"', b'"At"', 1)
    harmed.write_bytes(gzip.compress(b"".join(lines)) if rotated else b"".join(lines))
    damaged = harmed.read_bytes()
    refused = desk.run("verify")
    assert refused.code == 1
    assert harmed.name in refused.err
    assert "engrambus recover" in refused.err
    (found,) = [each for each in desk.run("doctor", "--json").json["checks"] if each["check"] == "journal"]
    assert harmed.name in found["found"]
    (done,) = desk.ok("recover", "--yes", "--json").json["journals"]
    assert (done["journal"], done["line"], done["kept_commits"]) == (str(harmed), 3, 1)
    assert Path(done["set_aside"]).read_bytes() == damaged
    assert [desk.run("observe", each).code for each in ids] == [0, 1, 1]
    assert desk.run("out", "-", given=draft).code == 0
    assert desk.ok("verify").code == 0
    assert "nothing to recover" in desk.ok("recover").out


def _damage(desk: Desk) -> bytes:
    """Change one byte in the last line but one, and lose the index that would not have noticed."""
    journal = desk.path / ".catalog" / "memory.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[-2] = lines[-2].replace(b'"at"', b'"At"', 1)
    journal.write_bytes(b"".join(lines))
    (desk.path / ".catalog" / "index.db").unlink()
    return journal.read_bytes()


def test_a_lost_index_changes_no_byte_of_an_answer(desk: Desk) -> None:
    desk.ok("put", CLAIM, "--at", AT)
    before = desk.ok("query", "parser", "--json").json["engrams"]
    (desk.path / ".catalog" / "index.db").unlink()
    assert desk.ok("query", "parser", "--json").json["engrams"] == before


def test_a_refusal_names_code_field_limit_and_what_to_do(desk: Desk) -> None:
    said = desk.run("put", "x" * 501, "--at", AT)
    assert said.code == 1
    assert said.out == ""
    lines = said.err.splitlines()
    assert lines[0].startswith("error CLAIM_TOO_LONG: ")
    assert "field: CLAIM" in lines[1]
    assert "limit: 500" in lines[1]
    problem = desk.run("put", "x" * 501, "--at", AT, "--json").problem
    assert (problem["code"], problem["field"], problem["limit"]) == ("CLAIM_TOO_LONG", "claim", 500)


HINTS = [
    (["put", CLAIM], "--at"),
    (["put", CLAIM, "--at", "new.py:1"], "engrambus anchor --snapshot"),
    (["query", "parser", "--cursor", "1"], "--k"),
    (["query", "--max-tokens", "5"], "--max-tokens"),
    (["anchor", "some text", "--snapshot", "--revision", "HEAD"], "--revision"),
]


@pytest.mark.parametrize(("words", "option"), HINTS, ids=[option for _, option in HINTS])
def test_a_hint_names_options_and_not_fields(desk: Desk, words: list[str], option: str) -> None:
    desk.ok("put", CLAIM, "--at", AT)
    (desk.path / "new.py").write_text("new\n")
    said = desk.run(*words)
    assert said.code == 1
    hint = said.err.splitlines()[-1]
    assert option in hint, said.err
    assert "`" not in hint


def test_a_refusal_names_the_option_that_is_wrong(desk: Desk) -> None:
    said = desk.run("put", CLAIM, "--at", AT, "--at", "src/parser.py:99")
    assert "field: --at (number 2)" in said.err
    assert desk.run("put", CLAIM, "--at", "src/parser.py:99", "--json").problem["field"] == "at[0]"
    assert "field: --max-tokens" in desk.run("query", "--max-tokens", "5").err


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["agent"],
        ["run", "nonsense"],
        ["put"],
        ["put", CLAIM, "--kind", "guess"],
        ["put", CLAIM, "--from-line", "2"],
        ["put", CLAIM, "--file", "x"],
        ["put", "--file", "absent.jsonl"],
        ["query", "--k", "many"],
        ["query", "--project", "/nowhere/at/all"],
        ["show"],
        ["up", "--port", "99999"],
    ],
)
def test_what_is_no_command_is_usage(desk: Desk, words: list[str]) -> None:
    said = desk.run(*words)
    assert said.code == 2
    assert "Usage: engrambus" in said.err


def test_a_near_miss_is_named(desk: Desk) -> None:
    assert "Did you mean 'query'?" in desk.run("qeury").err


def test_a_run_cannot_be_chosen_with_a_token(desk: Desk) -> None:
    said = desk.run("query", "--run", "x", env={"ENGRAMBUS_TOKEN": "t"})
    assert said.code == 2


def test_a_bad_token_is_refused(desk: Desk) -> None:
    assert desk.run("query", "--json", env={"ENGRAMBUS_TOKEN": "t"}).problem["code"] == "TOKEN_INVALID"


def test_faults_of_the_machine_are_one_line(desk: Desk) -> None:
    key = next((desk.home / ".local" / "state" / "engrambus").glob("*/token.key"))
    key.unlink()
    key.mkdir()
    said = desk.run("query")
    assert said.code == 1
    assert said.err.startswith("error INTERNAL: Is a directory")
    assert "Traceback" not in said.err


def test_a_project_elsewhere(desk: Desk, tmp_path: Path) -> None:
    desk.ok("put", CLAIM, "--at", AT, "--project", str(desk.path), at=tmp_path)
    assert CLAIM in desk.ok("query", "--project", str(desk.path / "src"), at=tmp_path).out


def test_every_checkout_of_a_repository_shares_the_project_and_has_its_own_head(desk: Desk, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    _git(desk.path, "worktree", "add", "-q", "-b", "side", str(linked))
    (linked / "src" / "parser.py").write_text("only here\n")
    _git(linked, "commit", "-q", "-a", "-m", "side")
    put = desk.ok("put", CLAIM, "--at", "parser.py:1", "--json", at=linked / "src").json
    assert put["pointers"][0]["ref"].endswith(_git(linked, "rev-parse", "HEAD"))
    assert "only here" in desk.ok("deref", "parser.py:1", at=linked / "src").out
    assert CLAIM in desk.ok("query", "parser").out


def _git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()
