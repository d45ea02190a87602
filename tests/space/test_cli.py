"""Tuples and workers on the command line, with the output the specification shows. # YT-05 # YT-09 # YT-10 # YT-18"""

from __future__ import annotations

import json
import re
import signal
import time
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from engrambus.app import open_project
from engrambus.core import short_id
from engrambus.settings import Settings
from engrambus.space.tuples import INTERNAL_AUTHORITY, INTERNAL_RUN, gc_draft
from tests.projects import Repository
from tests.space.terminal import WORK, Terminal, open_terminal


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """Open a project with a catalog of the tests' yools."""
    return open_terminal(repository, settings, tmp_path, "tests.space.yools")


# BX-03
def test_verify_names_a_damaged_index(terminal: Terminal) -> None:
    """Once the named file is removed, the index is rebuilt and sound."""
    terminal.run("out", "--lane", "notes")
    index = next(terminal.path.rglob("work.db"))
    with closing(apsw.Connection(str(index))) as connection:
        connection.execute("UPDATE tuples SET rank = 7")
    printed, _ = terminal.start("verify").communicate(timeout=120)
    assert "work.db" in printed
    assert "index.db" not in printed
    assert "engrambus verify --repair" in printed
    index.unlink()
    assert terminal.run("verify").startswith("sound")


# BX-03, YT-08
def test_verify_repairs_copies_and_fails_for_a_damaged_output(terminal: Terminal) -> None:
    terminal.run("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=2")
    terminal.run(*WORK)
    catalog = terminal.path / ".catalog"
    receipt, body = next(catalog.glob("receipts/*/*.json")), next(catalog.glob("cas/*/*"))
    content = receipt.read_bytes()
    receipt.write_bytes(content.replace(b'"exit": 0', b'"exit": 1'))
    process = terminal.start("verify")
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert f"a receipt differs from the journal  receipts/{receipt.parent.name}/{receipt.name}" in printed
    assert "engrambus verify --repair" in printed
    assert terminal.run("verify", "--repair").startswith("repaired")
    assert receipt.read_bytes() == content
    assert terminal.json("verify", "--repair") == {**terminal.json("verify"), "sound": True, "findings": []}
    receipt.unlink()
    body.write_bytes(b"something else")
    process = terminal.start("verify", "--repair")
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert printed.startswith("not sound\n")
    assert f"cas/{body.parent.name}/{body.name}" in printed
    assert "put the tuple again" in printed
    assert receipt.read_bytes() == content


def test_the_second_run_of_a_step_is_a_cache_hit(terminal: Terminal) -> None:
    (terminal.path / "t.yaml").write_text(
        "lane: build\npayload:\n"
        "  - {yool: agent.sum.numbers, args: {a: 1, b: 2}}\n"
        "  - {yool: agent.spend.money, args: {usd: 0.12, times: 1}}\n"
    )
    tuple_id = terminal.json("dispatch", "t.yaml")["id"]
    first = terminal.run(*WORK)
    assert re.search(r"\[t=\d+s\] agent\.sum\.numbers +MISS exec cost=\$0$", first, re.M)
    assert re.search(r"\[t=\d+s\] agent\.spend\.money +MISS exec cost=\$0\.12$", first, re.M)
    assert first.endswith("TOTAL: $0.12\n")
    terminal.run("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=2")
    second = terminal.run(*WORK)
    assert re.search(r"agent\.sum\.numbers +HIT skip cost=\$0$", second, re.M)
    assert second.endswith("TOTAL: $0\n")
    status = terminal.json("observe", tuple_id)
    assert (status["state"], status["usd"]) == ("done", 0.12)
    check = terminal.json("receipt", "verify", status["steps"][0]["receipt"])
    assert check["sound"]
    (run,) = terminal.json("runs")["runs"]
    assert (run["states"], run["executed"], run["hits"]) == ({"done": 2}, 2, 1)
    assert terminal.json("verify")["sound"]
    (sha,) = (body["sha"] for body in check["bodies"] if body["name"] == "stdout")
    (terminal.path / ".catalog/cas" / sha[7:9] / sha[9:]).unlink()
    damaged, _ = (process := terminal.start("receipt", "verify", check["id"])).communicate(timeout=120)
    assert process.returncode == 1
    assert damaged.startswith(f"{check['id'][7:19]} is NOT sound\n")


def test_resume_continues_after_the_last_finished_step(terminal: Terminal, tmp_path: Path) -> None:
    calls, started = tmp_path / "calls", tmp_path / "started"
    steps = [
        {"yool": "agent.count.calls", "args": {"path": str(calls)}},
        {"yool": "agent.wait.long", "args": {"started": str(started)}},
    ]
    (terminal.path / "t.json").write_text(json.dumps({"lane": "build", "payload": steps}))
    tuple_id = terminal.json("dispatch", "t.json")["id"]
    worker = terminal.start(*WORK)
    deadline = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < deadline
        assert worker.poll() is None, worker.communicate()
        time.sleep(0.02)
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    started.unlink()
    resumed = terminal.start("resume", "--import", "tests.space.yools")
    while not started.exists():
        assert time.monotonic() < deadline
        assert resumed.poll() is None, resumed.communicate()
        time.sleep(0.02)
    resumed.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    resumed.send_signal(signal.SIGTERM)
    _, printed = resumed.communicate(timeout=60)
    assert "has receipts for [agent.count.calls]" in printed
    assert f"[resume] re-emitting {short_id(tuple_id)} from step 2 (agent.wait.long)" in printed
    assert calls.read_text() == "called\n"
    assert terminal.json("observe", tuple_id)["state"] == "waiting"


def test_resume_runs_requested_collections_and_leaves_alarms(terminal: Terminal) -> None:  # YT-10
    with closing(open_project(terminal.path, Settings.from_environment(terminal.environment))) as gateway:
        space = gateway.tuple_space.space
        run = terminal.json("run", "list")["runs"][0]["run_id"]
        alarm = {"lane": "alarm", "payload": [{"yool": "op.budget.alarm", "args": {}}]}
        ids = [
            space.out(draft, authority=INTERNAL_AUTHORITY, run=run, trusted=True)[0].id for draft in (gc_draft(), alarm)
        ]
        internal = space.out(gc_draft(), authority=INTERNAL_AUTHORITY, run=INTERNAL_RUN, trusted=True)[0].id
    terminal.run("resume", "--import", "tests.space.yools")
    assert [terminal.json("observe", id)["state"] for id in (*ids, internal)] == ["done", "waiting", "waiting"]


def test_the_spending_of_a_child_is_charged_to_its_parent(terminal: Terminal) -> None:  # YT-11
    (terminal.path / "t.yaml").write_text("lane: notes\nagent_terms: {budget_usd: 0.1}\n")
    parent = terminal.run("out", "t.yaml").strip()
    spend = ("--yool", "agent.spend.money", "--arg", "usd=0.04", "--arg", "times=2")
    child = terminal.run("out", "--lane", "build", *spend, "--parent", parent).strip()
    terminal.run(*WORK)
    assert terminal.json("observe", child)["state"] == "done"
    assert terminal.json("observe", parent)["usd"] == 0.08
    assert "TUPLE_NOT_FOUND" in terminal.run("out", "--lane", "build", "--parent", f"sha256:{'0' * 64}", code=1)


def test_nan_and_infinity_are_texts(terminal: Terminal) -> None:
    terminal.run("out", "--lane", "notes", "--yool", "agent.tell.much", "--arg", "count=1", "--arg", "says=NaN")
    (step,) = terminal.json("rd", "--lane", "notes")["tuple"]["payload"]
    assert step["args"] == {"count": 1, "says": "NaN"}


# YT-06
def test_arguments_that_the_yool_does_not_take_are_refused(terminal: Terminal) -> None:
    refused = terminal.run("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", code=1)
    assert "YOOL_ARGUMENTS" in refused
    assert "payload[0].args.b" in refused
    assert "a (integer), b (integer)" in refused
    assert terminal.json("runs")["runs"] == []
    looked_up = terminal.run("catalog", "lookup", "agent.sum.numbers")
    assert "a (integer), b (integer)" in looked_up


# YT-05
def test_patterns_on_the_command_line(terminal: Terminal) -> None:
    for stack, priority in (("python", 1), ("dotnet", 5)):
        (terminal.path / "t.json").write_text(
            json.dumps(
                {"lane": "notes", "map_pos": {"stack": stack}, "priority": priority, "src_ptr": [f"wiki://{stack}"]}
            )
        )
        terminal.run("out", "t.json")
    for condition, stack in (
        ("map_pos.stack=dotnet", "dotnet"),
        ("map_pos.stack^=py", "python"),
        ("priority>=5", "dotnet"),
        ("priority<5", "python"),
        ("flags!", "python"),
        ("map_pos.stack!=python", "dotnet"),
        ('src_ptr=["wiki://dotnet"]', "dotnet"),
        ("src_ptr[0]=wiki://python", "python"),
    ):
        answer = terminal.json("rd", "--where", condition)
        assert answer["tuple"]["map_pos"]["stack"] == stack, condition
    assert "PATTERN_VALUE" in terminal.run("rd", "--where", "lane^=3", code=1)
    misspelt = terminal.run("rd", "--where", "payload[0].yol=agent.a.b", code=1)
    assert "PATTERN_PATH" in misspelt
    assert "--where" in misspelt
    refused = terminal.run("rd", "--state", "nope", code=1)
    assert "PATTERN_VALUE" in refused
    assert "waiting, blocked, claimed, done, dead, cancelled, open" in refused
    for condition in ("priority=>5", "lane~=n", "lane=~n", "priority <> 3", "lane==notes", "lane=^n"):
        assert "is not a condition" in terminal.run("rd", "--where", condition, code=2), condition
    assert "TUPLE_NOT_FOUND" in terminal.run("rd", "--where", 'lane="~n"', code=1)
    both = ("--lane", "notes", "--where", "lane^=zzz")
    assert "TUPLE_NOT_FOUND" in terminal.run("in", *both, code=1), "both conditions on the lane must hold"
    assert "is not a condition" in terminal.run("rd", "--where", "flags?no", code=2)
    assert "Say what to take" in terminal.run("in", "--timeout", "0.1", code=2)
    twice = ("--where", "priority=1", "--where", "priority=5")
    assert "another condition of this kind" in terminal.run("rd", *twice, code=2)
    answer = terminal.json("in", "--lane", "notes")
    assert answer["tuple"]["map_pos"]["stack"] == "dotnet"
    assert terminal.json("cancel", terminal.json("rd", "--lane", "notes")["tuple"]["id"])["receipt_id"]
    assert "TUPLE_NOT_FOUND" in terminal.run("in", "--lane", "notes", "--timeout", "0.1", code=1)


def test_a_catalog_is_only_built_on_the_project_machine(terminal: Terminal) -> None:  # YT-08
    file = terminal.path / ".catalog" / "capabilities.json"
    content = file.read_bytes()
    terminal.environment["ENGRAMBUS_URL"] = "http://127.0.0.1:9"
    assert "unset ENGRAMBUS_URL" in terminal.run("catalog", "build", code=2)
    assert file.read_bytes() == content


def test_a_receipt_shows_the_command_that_reads_its_output(terminal: Terminal) -> None:  # YT-08
    draft = {"lane": "build", "payload": [{"yool": "agent.print.much"}], "agent_terms": {"max_retries": 0}}
    (terminal.path / "t.json").write_text(json.dumps(draft))
    tuple_id = terminal.json("out", "t.json")["id"]
    terminal.run(*WORK, code=1)
    printed = terminal.run("receipt", "get", terminal.json("observe", tuple_id)["steps"][0]["receipt"])
    assert re.search(r", 0\.\d MB written$", printed, re.M)
    (command,) = re.findall(r"stdout +engrambus (deref .*)$", printed, re.M)
    end = terminal.json(*command.split())
    assert (end["truncated"], end["tail"]) == (True, True)
    assert end["excerpt"].endswith("\nline 39999\nline 40000\n")
    words = command.split()
    lines = terminal.run("deref", f"{words[1]}#L20000-L20001")
    assert "20000  line 20000\n20001  line 20001\n" in lines
    assert "SPAN_NOT_FOUND" in terminal.run("deref", f"{words[1]}#L40001", code=1)
    assert "--tail shows the end" in terminal.run("deref", words[1])
    last = terminal.run("deref", f"{words[1]}#L1-L40000", "--tail", "--max-tokens", "160")
    assert "39999  line 39999\n40000  line 40000\n" in last


def test_the_board_fits_a_narrow_terminal(terminal: Terminal) -> None:  # YT-15
    terms = {"budget_usd": 1, "max_retries": 0}
    paid = {"yool": "agent.spend.money", "args": {"usd": 0.12, "times": 1}}
    for payload in ([paid], [{"yool": "agent.fail.always"}], [{"yool": "agent.fail.always"}]):
        (terminal.path / "t.json").write_text(json.dumps({"lane": "build", "payload": payload, "agent_terms": terms}))
        tuple_id = terminal.json("out", "t.json")["id"]
        terminal.run(*WORK, code=0 if payload == [paid] else 1)
    board = terminal.run("board", "--limit", "1")
    assert board.startswith("2 dead, 1 done; ")
    assert re.search(r"^[0-9a-f]{12}  done +\$0\.12 of \$1  build\n  agent.spend.money done$", board, re.M)
    assert re.search(rf"^{tuple_id[7:19]}  dead +\$0 of \$1  build\n  agent.fail.always FAIL\n  exit 1$", board, re.M)
    assert board.endswith("The last 1 of 2 given up; engrambus dead lists them all.\n")
    assert max(map(len, board.splitlines())) <= 80
    two_budgets = {"lane": "build", "payload": [paid], "agent_terms": terms | {"budget_tokens": 1_000}}
    (terminal.path / "t.json").write_text(json.dumps(two_budgets))
    terminal.run("out", "t.json")
    terminal.run(*WORK)
    assert re.search(r"^[0-9a-f]{12}  done +\$0\.12 of \$1, 11 of 1,000 tokens  build$", terminal.run("board"), re.M)
    terminal.run("again", tuple_id)
    terminal.run("cancel", terminal.json("observe", tuple_id)["again"])
    assert terminal.run("board").startswith("1 cancelled, 1 dead, 2 done; ")


def test_the_board_shows_all_runs_or_the_chosen_one(terminal: Terminal) -> None:  # YT-15
    first = terminal.json("run", "list")["runs"][0]["run_id"]
    draft = {"lane": "build", "payload": [{"yool": "agent.fail.always"}], "agent_terms": {"max_retries": 0}}
    (terminal.path / "t.json").write_text(json.dumps(draft))
    dead = terminal.json("out", "t.json")["id"]
    terminal.run(*WORK, code=1)
    terminal.run("out", "--lane", "later", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=2")
    second = terminal.json("run", "new", "another")["run_id"]
    assert terminal.run("board").splitlines()[:3] == [
        "1 dead, 1 waiting; 1 executed, 0 from the cache, $0",
        "LANE   WAITING  RUNNING",
        "later  1        0",
    ]
    all_runs = terminal.json("board")
    assert "run_id" not in all_runs
    assert [row["id"] for row in all_runs["dead"]] == [dead]
    of_first = terminal.json("board", "--run", first)
    assert of_first == all_runs | {"run_id": first, "as_of": of_first["as_of"]}
    of_second = terminal.json("board", "--run", second)
    assert (of_second["run_id"], of_second["totals"]["states"], of_second["dead"]) == (second, {}, [])
    assert terminal.run("board", "--run", second).splitlines() == [
        "no work in this run yet; 0 executed, 0 from the cache, $0",
        "LANE (EVERY RUN'S)  WAITING  RUNNING",
        "later               1        0",
    ]
    terminal.run("out", "--run", second, "--lane", "notes")
    totals = terminal.json("board")["totals"]
    assert (totals["states"], totals["given_up"], totals["executed"]) == ({"dead": 1, "waiting": 2}, 1, 1)


def test_options_that_contradict_the_file_are_refused(terminal: Terminal) -> None:  # YT-05
    runs = terminal.json("runs")
    for flags in ("", "[no_cache]", "no_cache"):
        (terminal.path / "t.yaml").write_text(f"lane: notes\nflags: {flags}\n")
        assert "FIELD_TYPE" in terminal.run("out", "t.yaml", "--no-cache", code=1)
    twice = ("--arg", "a=1", "--arg", "a=2")
    printed = terminal.run("out", "--lane", "notes", "--yool", "agent.sum.numbers", *twice, code=2)
    assert "the argument 'a' is given twice" in printed
    assert terminal.json("runs") == runs


def test_a_chosen_run_restricts_lists_and_patterns(terminal: Terminal) -> None:  # YT-05
    draft = {"lane": "build", "payload": [{"yool": "agent.fail.always"}], "agent_terms": {"max_retries": 0}}
    (terminal.path / "t.json").write_text(json.dumps(draft))
    ids = {}
    for goal in ("first", "second"):
        run = terminal.json("run", "new", goal)["run_id"]
        ids[run] = terminal.json("out", "t.json")["id"]
    terminal.run(*WORK, code=1)
    dead = [row["id"] for row in terminal.json("dead")["dead"]]  # newest first; which one that is may vary
    assert sorted(dead) == sorted(ids.values())
    for run, tuple_id in ids.items():
        assert [row["id"] for row in terminal.json("dead", "--run", run)["dead"]] == [tuple_id]
        assert terminal.json("rd", "--lane", "build", "--run", run)["tuple"]["id"] == tuple_id
        assert [row["run_id"] for row in terminal.json("runs", "--run", run)["runs"]] == [run]
    first = terminal.json("dead", "--limit", "1")
    assert first["dead"][0]["id"] == dead[0]
    (last,) = terminal.json("dead", "--limit", "1", "--cursor", first["cursor"])["dead"]
    assert last["id"] == dead[1]
    assert f"More: --cursor {first['cursor']}" in terminal.run("dead", "--limit", "1")


def test_dead_letters_are_listed_and_put_again(terminal: Terminal) -> None:
    (terminal.path / "t.json").write_text(
        json.dumps({"lane": "build", "payload": [{"yool": "agent.fail.always"}], "agent_terms": {"max_retries": 0}})
    )
    tuple_id = terminal.json("out", "t.json")["id"]
    assert "is a dead letter (exit 1)" in terminal.start(*WORK).communicate(timeout=120)[0]
    (dead,) = terminal.json("dead")["dead"]
    assert (dead["id"], dead["error"]) == (tuple_id, "exit 1")
    replacement = terminal.json("again", tuple_id)["id"]
    assert terminal.json("dead")["dead"] == []
    assert terminal.json("dead", "--all")["dead"][0]["again"] == replacement
    assert terminal.json("observe", replacement)["state"] == "waiting"
