"""Commands: their output for people and for programs, and their exit status."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

from engrambus.backends.sqlite.work import SqliteWork
from engrambus.core import SystemClock
from tests.cli.runner import Shell

CLAIM = "The parser trusts its input."
AT = "src/parser.py:10-12"


def test_init_creates_a_project_once(bare_shell: Shell) -> None:
    result = bare_shell.ok("init").out
    assert f"in {bare_shell.path / '.catalog'}" in result
    for command in ("up", "demo", "install", "put"):
        assert f"  engrambus {command}" in result
    second = bare_shell.run("init", "--json")
    assert second.problem["code"] == "PROJECT_EXISTS"


def test_init_without_git_explains_and_does_not_suggest_put(bare_shell: Shell, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    result = bare_shell.ok("init", folder=plain).out
    assert "git init" in result
    assert "engrambus put" not in result


def test_a_project_from_a_checkout_gets_a_journal_on_this_machine(shell: Shell) -> None:
    project = shell.ok("stats", "--json").json["project"]
    shutil.copy(shell.path / ".catalog" / "project.yaml", shell.path)
    shutil.rmtree(shell.path / ".catalog")
    (shell.path / ".catalog").mkdir()
    shutil.move(shell.path / "project.yaml", shell.path / ".catalog")
    refused = shell.run("query")
    assert refused.code == 1
    assert "engrambus init" in refused.err
    shell.ok("init")
    assert shell.ok("stats", "--json").json["project"] == project


def test_outside_a_project_the_error_names_init(bare_shell: Shell) -> None:
    result = bare_shell.run("query")
    assert result.code == 1
    assert result.err.startswith(f"error PROJECT_NOT_FOUND: No Engram Bus project at {bare_shell.path}")
    assert "engrambus init" in result.err


def test_put_query_show_and_deref(shell: Shell) -> None:
    put = shell.ok("put", CLAIM, "--at", AT, "--kind", "risk", "--tag", "parsing").out.splitlines()
    ref = f"repo:src/parser.py#L10-L12@{shell.repository.sha}"
    assert put[1] == ref
    assert put[2].startswith("sha256:")
    matches = shell.ok("query", "parser", "input").out.splitlines()
    assert matches[0] == f"risk        {CLAIM}"
    assert matches[1].split()[:3] == [f"src/parser.py:10-12@{shell.repository.sha[:7]}", "admin", "now"]
    assert matches[1].split()[3:] == ["not", "read", put[0]]
    output = shell.ok("show", put[0]).out
    assert ref in output
    assert "parsing" in output
    lines = shell.ok("deref", ref).out.splitlines()
    assert lines[:3] == [f"{number}  line {number} of the parser" for number in (10, 11, 12)]
    assert lines[4:] == [ref, put[2]]
    assert shell.ok("query", "parser", "input").out.splitlines()[1].split()[3:] == ["read", "by", "admin", put[0]]


def test_json_prints_the_answer_on_one_line(shell: Shell) -> None:
    put = shell.ok("put", CLAIM, "--at", AT, "--json").json
    (matches,) = shell.ok("query", "parser", "--json").json["engrams"]
    assert (matches["id"], matches["claim"], matches["pointers"]) == (put["id"], CLAIM, put["pointers"])
    assert shell.ok("show", put["id"], "--json").json["engrams"] == [put]
    assert shell.ok("deref", AT, "--json").json["pointer"]["ref"] == put["pointers"][0]["ref"]


def test_an_empty_result_is_not_an_error(shell: Shell) -> None:
    assert shell.ok("query", "zebra").out == "Nothing found.\n"


def test_deref_tells_when_the_text_was_cut(shell: Shell) -> None:
    result = shell.ok("deref", "src/parser.py:1-30", "--max-tokens", "120").out
    assert "30  " not in result
    assert "--max-tokens" in result.splitlines()[-1]
    *lines, ref, digest, _ = shell.ok("deref", "src/parser.py", "--max-tokens", "240", "--tail").out.splitlines()
    numbers = [int(line.split()[0]) for line in lines[: lines.index("─" * 8)]]
    assert ref == f"repo:src/parser.py#L{numbers[0]}-L{numbers[-1]}@{shell.repository.sha}"
    assert digest.endswith("of the lines above")


def test_agents_and_runs(shell: Shell) -> None:
    added = shell.ok("agent", "add", "lead", "--role", "manager").out
    token = added.rpartition("export ENGRAMBUS_TOKEN=")[2].strip()
    assert token.startswith("engrambus1.")
    env = {"ENGRAMBUS_TOKEN": token}
    shell.ok("agent", "add", "coder", env=env)
    listed = shell.ok("agent", "list").out.splitlines()
    assert [line.split() for line in listed[1:]] == [
        ["NAME", "ROLE", "PARENT"], ["lead", "manager", "-"], ["coder", "programmer", "lead"],
    ]  # fmt: skip
    put = shell.ok("put", CLAIM, "--at", AT, "--as", "coder", "--json", env=env).json
    assert put["provenance"]["created_by"].endswith("/coder")
    first = shell.ok("stats", "--json").json["run_id"]
    second = shell.ok("run", "new", "Another goal").out.strip()
    assert shell.ok("stats", "--json").json["run_id"].startswith(second)
    assert shell.ok("stats", "--json", "--run", first).json["run_id"] == first
    assert shell.ok("stats", "--json", env={"ENGRAMBUS_RUN": first}).json["run_id"] == first
    shell.ok("run", "end", first)
    assert shell.run("put", CLAIM, "--at", AT, "--json", env=env).problem["code"] == "RUN_ENDED"


def test_promote_and_forget(shell: Shell) -> None:
    engram = shell.ok("put", CLAIM, "--at", AT, "--scope", "run", "--json").json["id"]
    assert "scope       project" in shell.ok("promote", engram).out
    assert shell.ok("forget", engram).out == f"{engram[:13]} is forgotten.\n"
    assert shell.run("show", engram, "--json").problem["code"] == "ENGRAM_NOT_FOUND"


def test_stats_links_and_policy(shell: Shell) -> None:
    shell.ok("put", CLAIM, "--at", AT)
    assert ["engrams", "1:", "fact", "1"] in [line.split() for line in shell.ok("stats").out.splitlines()]
    assert f"vscode://file{shell.path}/src/parser.py:10" in shell.ok("link", AT).out
    assert "defaults" in shell.ok("policy", "apply").out
    policy = shell.path / ".catalog" / "policy.yaml"
    policy.write_text("token_ttl: P7D\n")
    assert shell.ok("policy", "apply", "--json").json == {"policy": {"token_ttl": "P7D"}}
    policy.write_text("token_ttl: P1M\n")
    assert shell.run("policy", "apply", "--json").problem["code"] == "POLICY_INVALID"
    policy.write_text("a: &x 1\n")
    assert shell.run("policy", "apply", "--json").problem["code"] == "BAD_YAML"
    policy.write_text("scopes: [run, project, org]\n")
    assert '["run","project","org"]' in shell.ok("policy", "apply").out
    policy.unlink()  # as on a branch from previous it was committed
    gone = shell.run("policy", "apply")
    assert gone.err.startswith("error POLICY_INVALID: There is no ")
    assert "stays in force" in gone.err


def test_verify_fails_for_a_damaged_store(shell: Shell) -> None:
    shell.ok("put", CLAIM, "--at", AT)
    assert shell.ok("verify").out.startswith("sound: ")
    _damage(shell)
    assert shell.run("verify").code == 1


def test_recover_sets_the_damage_aside_and_keeps_the_rest(shell: Shell) -> None:
    assert "nothing to recover" in shell.ok("recover").out
    for number in range(3):
        shell.ok("put", f"{CLAIM} {number}", "--at", AT)
    journal_bytes = (shell.path / ".catalog" / "memory.jsonl").read_bytes()
    damaged = _damage(shell)
    question = shell.run("recover", stdin="n\n")
    assert question.code == 1
    assert "is damaged at line 4" in question.err
    assert (shell.path / ".catalog" / "memory.jsonl").read_bytes() == damaged
    (done,) = shell.ok("recover", "--yes", "--json").json["journals"]
    assert (done["line"], done["kept_commits"], done["lost_commits"]) == (4, 3, 1)
    assert Path(done["set_aside"]).read_bytes() == damaged
    assert (shell.path / ".catalog" / "memory.jsonl").read_bytes().startswith(journal_bytes[: done["offset"]])
    claims = [engram["claim"] for engram in shell.ok("query", "parser", "--json").json["engrams"]]
    assert sorted(claims) == [f"{CLAIM} 0", f"{CLAIM} 2"]
    shell.ok("put", CLAIM, "--at", AT)
    assert shell.ok("verify").code == 0


# BX-03: also for the journal of work, in one file or in segments.
@pytest.mark.parametrize("rotated", [False, True])
def test_recover_repairs_the_journal_of_work(shell: Shell, rotated: bool) -> None:
    draft = '{"lane": "notes"}'
    ids = [shell.run("out", "-", "--json", stdin=draft).json["id"] for _ in range(3)]
    catalog = shell.path / ".catalog"
    work = catalog / "tuples.jsonl"
    if rotated:
        store = SqliteWork(catalog, shell.journal_key, SystemClock())
        assert store.rotate(least_bytes=1, before_us=1 << 62)
        store.close()
        assert shell.run("out", "-", stdin=draft).code == 0
        (damaged_file,) = catalog.glob("tuples.*.gz")
        lines = gzip.decompress(damaged_file.read_bytes()).splitlines(keepends=True)
    else:
        damaged_file, lines = work, work.read_bytes().splitlines(keepends=True)
    lines[-2] = lines[-2].replace(b'"at"', b'"At"', 1)
    damaged_file.write_bytes(gzip.compress(b"".join(lines)) if rotated else b"".join(lines))
    damaged = damaged_file.read_bytes()
    refused = shell.run("verify")
    assert refused.code == 1
    assert damaged_file.name in refused.err
    assert "engrambus recover" in refused.err
    (journal_check,) = [check for check in shell.run("doctor", "--json").json["checks"] if check["check"] == "journal"]
    assert damaged_file.name in journal_check["found"]
    (done,) = shell.ok("recover", "--yes", "--json").json["journals"]
    assert (done["journal"], done["line"], done["lost_commits"]) == (str(damaged_file), 3, 1)
    assert done["kept_commits"] == (3 if rotated else 2)
    assert Path(done["set_aside"]).read_bytes() == damaged
    assert [shell.run("observe", tuple_id).code for tuple_id in ids] == [0, 1, 0]
    assert shell.run("out", "-", stdin=draft).code == 0
    assert shell.ok("verify").code == 0
    assert "nothing to recover" in shell.ok("recover").out


def _damage(shell: Shell) -> bytes:
    """Change one byte in the last line but one, and delete the index, which would not notice."""
    journal = shell.path / ".catalog" / "memory.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[-2] = lines[-2].replace(b'"at"', b'"At"', 1)
    journal.write_bytes(b"".join(lines))
    next(shell.path.glob(".catalog/derived-*/index.db")).unlink()
    return journal.read_bytes()


def test_a_deleted_index_changes_no_answer(shell: Shell) -> None:
    shell.ok("put", CLAIM, "--at", AT)
    previous = shell.ok("query", "parser", "--json").json["engrams"]
    next(shell.path.glob(".catalog/derived-*/index.db")).unlink()
    assert shell.ok("query", "parser", "--json").json["engrams"] == previous


def test_an_error_names_code_argument_and_limit(shell: Shell) -> None:
    result = shell.run("put", "x" * 501, "--at", AT)
    assert result.code == 1
    assert result.out == ""
    lines = result.err.splitlines()
    assert lines[0].startswith("error CLAIM_TOO_LONG: ")
    assert "field: CLAIM" in lines[1]
    assert "limit: 500" in lines[1]
    problem = shell.run("put", "x" * 501, "--at", AT, "--json").problem
    assert (problem["code"], problem["field"], problem["limit"]) == ("CLAIM_TOO_LONG", "claim", 500)


HINTS = [
    (["put", CLAIM], "--at"),
    (["put", CLAIM, "--at", "new.py:1"], "--snapshot"),
    (["query", "parser", "--cursor", "1"], "--k"),
    (["query", "--max-tokens", "5"], "--max-tokens"),
    (["anchor", "some text", "--snapshot", "--revision", "HEAD"], "--revision"),
]


@pytest.mark.parametrize(("words", "option"), HINTS, ids=[option for _, option in HINTS])
def test_a_hint_names_options_and_not_fields(shell: Shell, words: list[str], option: str) -> None:
    shell.ok("put", CLAIM, "--at", AT)
    (shell.path / "new.py").write_text("new\n")
    result = shell.run(*words)
    assert result.code == 1
    hint = result.err.splitlines()[-1]
    assert option in hint, result.err
    assert "`" not in hint


def test_an_error_names_the_option_that_is_wrong(shell: Shell) -> None:
    result = shell.run("put", CLAIM, "--at", AT, "--at", "src/parser.py:99")
    assert "field: --at (number 2)" in result.err
    assert shell.run("put", CLAIM, "--at", "src/parser.py:99", "--json").problem["field"] == "at[0]"
    assert "field: --max-tokens" in shell.run("query", "--max-tokens", "5").err
    assert "field: ID  " in shell.run("batch", "compress", "abcd/0.1").err  # its argument is ID[/PATH]


@pytest.mark.parametrize(
    "words", [["out", "--key", "k"], ["out", "--in", "PT5M"], ["batch", "spawn", "--budget-usd", "1"]], ids=" ".join
)
def test_an_option_does_not_replace_a_field_of_the_file_that_is_no_object(shell: Shell, words: list[str]) -> None:
    result = shell.run(*words, "-", stdin='{"lane": "build", "agent_terms": 3}')
    assert result.err.startswith("error FIELD_TYPE: The field is an object")


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
def test_a_wrong_command_line_prints_the_usage(shell: Shell, words: list[str]) -> None:
    result = shell.run(*words)
    assert result.code == 2
    assert "Usage: engrambus" in result.err


def test_a_misspelt_command_gets_a_suggestion(shell: Shell) -> None:
    assert "Did you mean 'query'?" in shell.run("qeury").err


def test_run_cannot_be_combined_with_a_token(shell: Shell) -> None:
    result = shell.run("query", "--run", "x", env={"ENGRAMBUS_TOKEN": "t"})
    assert result.code == 2


def test_a_bad_token_is_refused(shell: Shell) -> None:
    assert shell.run("query", "--json", env={"ENGRAMBUS_TOKEN": "t"}).problem["code"] == "TOKEN_INVALID"


def test_errors_of_the_system_are_one_line(shell: Shell) -> None:
    key = next((shell.home / ".local" / "state" / "engrambus").glob("*/token.key"))
    key.unlink()
    key.mkdir()
    result = shell.run("query")
    assert result.code == 1
    assert result.err.startswith("error INTERNAL: Is a directory")
    assert "Traceback" not in result.err


def test_project_names_another_folder(shell: Shell, tmp_path: Path) -> None:
    shell.ok("put", CLAIM, "--at", AT, "--project", str(shell.path), folder=tmp_path)
    assert CLAIM in shell.ok("query", "--project", str(shell.path / "src"), folder=tmp_path).out


def test_worktrees_share_the_project_and_have_their_own_head(shell: Shell, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    _git(shell.path, "worktree", "add", "-q", "-b", "side", str(linked))
    (linked / "src" / "parser.py").write_text("only here\n")
    _git(linked, "commit", "-q", "-a", "-m", "side")
    put = shell.ok("put", CLAIM, "--at", "parser.py:1", "--json", folder=linked / "src").json
    assert put["pointers"][0]["ref"].endswith(_git(linked, "rev-parse", "HEAD"))
    assert "only here" in shell.ok("deref", "parser.py:1", folder=linked / "src").out
    assert CLAIM in shell.ok("query", "parser").out


def _git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()
