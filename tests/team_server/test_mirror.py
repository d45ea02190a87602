"""The server's mirror: what is pointed at is pushed, and what is not there yet is unresolved."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.projects import commit_files, git
from tests.team_server.machines import Machine, TeamServer, clone_of, run_team_server
from tests.team_server.test_login import stored_login


def mirror_refs(server: TeamServer) -> set[str]:
    """Return the refs of the server's mirror."""
    return set(git(server.operator.folder, "for-each-ref", "--format=%(refname)").split())


def test_lines_that_are_pointed_at_can_be_read_by_others(
    server: TeamServer, anna: Machine, tmp_path: Path
) -> None:  # YT-19, EB-29
    head = commit_files(anna.folder, {"plan.md": "The plan of Anna.\n"})
    anna.ok("put", "There is a plan.", "--at", "plan.md:1")
    assert f"refs/engrambus/keep/{head}" in mirror_refs(server)
    bo = clone_of(anna, tmp_path / "bo", tmp_path / "home-of-bo")
    git(bo.folder, "reset", "-q", "--hard", "HEAD~1")  # a clone that never saw the commit
    git(bo.folder, "remote", "remove", "origin")
    git(bo.folder, "reflog", "expire", "--expire=now", "--all")
    git(bo.folder, "gc", "-q", "--prune=now")
    assert subprocess.run(["git", "cat-file", "-e", head], cwd=bo.folder, capture_output=True).returncode
    assert server.login(bo, server.add_person("bo")).code == 0
    ref = bo.ok("query", "plan", "--json").json["engrams"][0]["pointers"][0]["ref"]
    assert "The plan of Anna." in bo.ok("deref", ref).out


def test_a_commit_is_pushed_once_and_only_by_calls_about_evidence(server: TeamServer, anna: Machine) -> None:
    head = commit_files(anna.folder, {"once.txt": "once\n"})
    anna.ok("task", "list")
    assert f"refs/engrambus/keep/{head}" not in mirror_refs(server)
    anna.ok("query", "anything")
    assert f"refs/engrambus/keep/{head}" in mirror_refs(server)
    pushes = _pushes(server)
    anna.ok("query", "anything")
    anna.ok("put", "Once is written once.", "--at", "once.txt:1")
    assert _pushes(server) == pushes


def _pushes(server: TeamServer) -> int:
    lines = [json.loads(line) for line in server.log.read_text("utf-8").splitlines() if line.startswith("{")]
    return len(list((server.operator.folder / "objects" / "pack").glob("*.pack"))) if lines else 0


def test_the_state_of_evidence_is_that_of_the_named_head(
    server: TeamServer, anna: Machine, tmp_path: Path
) -> None:  # YT-19
    commit_files(anna.folder, {"rule.txt": "first\nsecond\nthird\n"})
    anna.ok("put", "The rule's second line is second.", "--at", "rule.txt:2")
    bo = clone_of(anna, tmp_path / "bo", tmp_path / "home-of-bo")
    assert server.login(bo, server.add_person("bodo")).code == 0
    commit_files(bo.folder, {"rule.txt": "zeroth\nfirst\nsecond\nthird\n"})
    commit_files(anna.folder, {"rule.txt": "first\nthird\n"})

    def state(machine: Machine) -> dict[str, object]:
        answer = machine.ok("query", "rule", "second", "line", "--json").json
        (engram,) = [item for item in answer["engrams"] if item["claim"].startswith("The rule's second")]
        return dict(answer["about"][engram["id"]]["evidence"])

    assert state(anna)["state"] == "gone"
    assert state(bo) == {"state": "moved", "now": "rule.txt:3"}


def test_what_was_not_pushed_is_stored_unresolved_and_found_after_the_push(
    server: TeamServer, anna: Machine
) -> None:  # YT-19
    """A program that names a commit without pushing it, as one over plain HTTP does."""
    head = commit_files(anna.folder, {"late.txt": "late\n"})
    login = json.loads(stored_login(anna).read_bytes())
    program = (
        "from pathlib import Path\nfrom engrambus import Bus\n"
        f"with Bus.connect({login['url']!r}, token={login['token']!r}, ca_file=Path({login['ca_file']!r})) as bus:\n"
        f"    put = bus.put_engram(claim='Late comes late.', at=['repo:late.txt#L1@{head}'])\n"
        "    print(put.id, put.pointers[0].digest)\n"
    )
    engram, stamped = anna.python(program).split()
    assert stamped == "None"
    server.operator.ok("query", "late")
    about = server.operator.ok("query", "late", "--json").json["about"][engram]["evidence"]
    assert about["state"] == "unresolved"
    anna.ok("push")
    ref = f"repo:late.txt#L1@{head}"
    assert "late" in anna.ok("deref", ref).out
    about = anna.ok("query", "late", "--json").json["about"][engram]["evidence"]
    assert about["hint"] == "What it points at is here now: confirm the engram."
    anna.ok("confirm", engram)
    assert "unresolved" not in anna.ok("query", "late").out


def test_git_itself_fetches_and_pushes_with_a_token(server: TeamServer, anna: Machine, tmp_path: Path) -> None:
    head = commit_files(anna.folder, {"by-git.txt": "by git\n"})
    login = json.loads(stored_login(anna).read_bytes())
    options = [
        "-c", f"http.extraHeader=Authorization: Bearer {login['token']}", "-c", f"http.sslCAInfo={login['ca_file']}"
    ]  # fmt: skip
    refspec = f"{head}:refs/engrambus/keep/{head}"
    push = [*anna.prefix, "git", *options, "push", "-q", f"{server.url}/git", refspec]
    done = subprocess.run(push, cwd=anna.folder, env=anna.environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert f"refs/engrambus/keep/{head}" in mirror_refs(server)
    git(tmp_path, "init", "-q", "fetched")
    fetch = [*anna.prefix, "git", *options, "fetch", "-q", f"{server.url}/git", f"refs/engrambus/keep/{head}"]
    subprocess.run(fetch, cwd=tmp_path / "fetched", env=anna.environment, check=True, capture_output=True, timeout=60)
    assert git(tmp_path / "fetched", "show", f"{head}:by-git.txt") == "by git"


def test_processes_that_point_at_the_same_new_commit_do_not_disturb_each_other(
    server: TeamServer, anna: Machine
) -> None:
    head = commit_files(anna.folder, {"shared.txt": "".join(f"line {n}\n" for n in range(1, 7))})
    with ThreadPoolExecutor(6) as pool:
        puts = [
            pool.submit(anna.ok, "put", f"Line {n} of the shared file is {n}.", "--at", f"shared.txt:{n}", "--json")
            for n in range(1, 7)
        ]
    assert all(put.result().json["pointers"][0]["digest"] for put in puts)
    assert f"refs/engrambus/keep/{head}" in mirror_refs(server)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TeamServer, Machine]]:
    """A server that takes pushes of one megabyte, and two in all."""
    with run_team_server(tmp_path_factory.mktemp("small"), "--push-mb", "1", "--mirror-mb", "2") as both:
        yield both


def test_too_large_a_push_is_refused_and_the_put_is_kept(small: tuple[TeamServer, Machine]) -> None:  # YT-19
    server, clone = small
    assert server.login(clone, server.add_person("greta")).code == 0
    clone.ok("push")
    (clone.folder / "large").write_bytes(os.urandom(1_200_000))
    head = commit_files(clone.folder, {"small.txt": "small\n"})
    done = clone.ok("put", "The small file is small.", "--at", "small.txt:1")
    assert "COMMITS_NOT_PUSHED" in done.err
    assert "BODY_TOO_LARGE" in done.err
    assert "unresolved" in done.out
    assert f"refs/engrambus/keep/{head}" not in mirror_refs(server)
    assert clone.run("push", "--json").problem["code"] == "BODY_TOO_LARGE"
    git(clone.folder, "reset", "-q", "--hard", "HEAD~1")
    codes = []
    for number in range(3):
        (clone.folder / f"part-{number}").write_bytes(os.urandom(800_000))
        commit_files(clone.folder, {})
        done = clone.run("push", "--json")
        codes.append(done.problem["code"] if done.code else "ok")
    assert codes == ["ok", "ok", "MIRROR_FULL"]
