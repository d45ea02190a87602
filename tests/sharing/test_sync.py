"""`engrambus sync`: everybody's engrams through one ref, with git's plumbing, and nothing lost on the way."""  # BX-13

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.attacks.cloned_knowledge import Machine
from tests.projects import git
from tests.sharing.conftest import Pair
from tests.sharing.team import SETTINGS, Colleague, clone_again
from tests.sharing.test_import import event


def state_of(colleague: Colleague) -> tuple[str, ...]:
    """Return what a sync must leave alone: HEAD, the index, the worktree."""
    return (
        git(colleague.path, "rev-parse", "HEAD"),
        git(colleague.path, "ls-files", "--stage", "--debug"),
        git(colleague.path, "status", "--porcelain"),
        (colleague.path / ".git" / "HEAD").read_text(),
    )


def hub_tip(pair: Pair, ref: str = "refs/heads/shared-engrams") -> str:
    """Return the commit of the shared ref at the hub."""
    return git(pair.folder / "hub.git", "rev-parse", ref)


def test_both_have_what_both_said(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    one, two = ada.put("The lexer is small."), bob.put("The parser is large.")
    first = ada.json("sync")
    assert (first["new"], first["pushed"]) == (1, True)
    second = bob.json("sync")
    assert (second["new"], second["pushed"], second["imported"]["new"]) == (1, True, [one])
    assert ada.json("sync")["imported"]["new"] == [two]
    assert ada.shared() == bob.shared()
    assert set(ada.shared()) == {f"engrams/{one}.jsonl", f"engrams/{two}.jsonl"}
    assert (
        git(ada.path, "log", "--format=%s", "shared-engrams").splitlines() == ["engrams: 1 new, 0 with more events"] * 2
    )
    assert git(ada.path, "log", "-1", "--format=%an <%ae>", "shared-engrams") != ""


def test_a_second_sync_changes_nothing(pair: Pair) -> None:
    pair.ada.put("The lexer is small.")
    pair.ada.ok("sync")
    tip = hub_tip(pair)
    answer = pair.ada.json("sync")
    assert (answer["new"], answer["longer"], answer["pushed"]) == (0, 0, True)
    assert hub_tip(pair) == tip


def test_the_worktree_and_the_index_stay_as_they_are(pair: Pair) -> None:
    """There are staged, changed and untracked files, and no branch is checked out."""
    ada, bob = pair.ada, pair.bob
    ada.put("The lexer is small.")
    bob.put("The parser is large.")
    ada.ok("sync")
    (bob.path / "staged.txt").write_text("staged")
    git(bob.path, "add", "staged.txt")
    (bob.path / "src" / "parser.py").write_text("changed\n")
    (bob.path / "untracked.txt").write_text("untracked")
    git(bob.path, "checkout", "-q", "--detach")
    before = state_of(bob)
    bob.ok("sync")
    assert state_of(bob) == before
    assert len(bob.shared()) == 2


def test_nothing_to_share_makes_no_ref(pair: Pair) -> None:
    assert "nothing to share" in pair.ada.ok("sync").out
    assert git(pair.folder / "hub.git", "for-each-ref", "refs/heads/shared-engrams") == ""


def test_another_ref_and_another_remote(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    one = ada.put("The lexer is small.")
    git(bob.path, "remote", "rename", "origin", "upstream")
    ada.ok("sync", "--ref", "refs/engrambus/shared")
    answer = bob.json("sync", "--ref", "refs/engrambus/shared", "--remote", "upstream")
    assert answer["imported"]["new"] == [one]
    assert bob.refusal("sync")["code"] == "REMOTE_NOT_FOUND"
    for ref in ("refs/tags/x", "-x", "a..b", "refs/heads/"):
        assert ada.refusal("sync", "--ref", ref)["code"] == "SYNC_REF_INVALID"
    assert ada.refusal("sync", "--ref", "main")["code"] == "SYNC_REF_IN_USE"


def test_other_files_of_the_branch_stay(pair: Pair) -> None:
    """The team shares through a branch that has files of its own."""
    ada, bob = pair.ada, pair.bob
    ada.put("The lexer is small.")
    git(ada.path, "push", "-q", "origin", "main:notes")
    ada.ok("sync", "--ref", "notes")
    bob.put("The parser is large.")
    bob.ok("sync", "--ref", "notes")
    names = git(bob.path, "ls-tree", "-r", "--name-only", "notes").splitlines()
    assert {"src/parser.py", "docs/design.md", "engrams/.gitattributes"} < set(names)
    assert git(bob.path, "diff", "main", "notes", "--", "src", "docs") == ""


def test_without_the_remote_all_is_done_but_the_push(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    hub = pair.folder / "hub.git"
    one = ada.put("The lexer is small.")
    hub.rename(pair.folder / "away.git")
    problem = ada.refusal("sync")
    assert problem["code"] == "REMOTE_UNREACHABLE"
    assert "Nothing is lost" in problem["hint"]
    assert set(ada.shared()) == {f"engrams/{one}.jsonl"}
    (pair.folder / "away.git").rename(hub)
    bob.put("The parser is large.")
    bob.ok("sync")
    assert ada.json("sync")["pushed"] is True
    assert set(ada.shared()) == bob_after_sync(bob)


def bob_after_sync(bob: Colleague) -> set[str]:
    """Return the files that a colleague has after another sync."""
    bob.ok("sync")
    return set(bob.shared())


@pytest.mark.parametrize("side", ["remote", "local"])
def test_a_push_that_a_hook_refuses_loses_nothing(pair: Pair, side: str) -> None:
    ada = pair.ada
    one = ada.put("The lexer is small.")
    folder = pair.folder / "hub.git" / "hooks" if side == "remote" else ada.path / ".git" / "hooks"
    hook = folder / ("pre-receive" if side == "remote" else "pre-push")
    folder.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'the hook says: not today' >&2\nexit 1\n")
    hook.chmod(0o755)
    problem = ada.refusal("sync")
    assert problem["code"] == "REMOTE_REFUSED"
    assert "not today" in problem["detail"]
    assert set(ada.shared()) == {f"engrams/{one}.jsonl"}
    hook.unlink()
    assert ada.json("sync")["pushed"] is True
    assert pair.bob.json("sync")["imported"]["new"] == [one]


def test_concurrent_syncs_all_arrive(pair: Pair) -> None:
    """Four machines put and sync at the same time, two of them from the same clone."""
    colleagues = [pair.ada, pair.bob, clone_again(pair.ada, pair.folder, "carl")]
    machines = [Machine(colleague.path, colleague.home) for colleague in colleagues]
    machines.append(machines[0])
    ids = [machine.put(f"The cache holds {number} rows.") for number, machine in enumerate(machines)]
    with ThreadPoolExecutor(len(machines)) as pool:
        results = list(pool.map(lambda machine: machine.run("sync", **SETTINGS), machines))
    assert [result.code for result in results] == [0] * len(machines), results
    names = git(pair.folder / "hub.git", "ls-tree", "-r", "--name-only", "shared-engrams").splitlines()
    assert sorted(name for name in names if name.endswith(".jsonl")) == sorted(f"engrams/{name}.jsonl" for name in ids)
    for colleague in colleagues:
        colleague.ok("sync")
    assert pair.ada.shared() == pair.bob.shared() == colleagues[2].shared()


def test_a_local_branch_that_went_apart_is_merged_or_refused(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    ada.put("The lexer is small.")
    ada.ok("sync")
    bob.put("The parser is large.")
    bob.ok("sync")
    # A commit on Ada's branch that only has a further event.
    strange = event()
    tree = pair.folder / "tree"
    git(ada.path, "worktree", "add", "-q", str(tree), "shared-engrams")
    (tree / "engrams" / f"{strange.id}.jsonl").write_bytes(strange.line() + b"\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "By hand")
    assert ada.refusal("sync")["code"] == "SYNC_REF_IN_USE"
    git(ada.path, "worktree", "remove", str(tree))
    ada.ok("sync")
    assert f"engrams/{strange.id}.jsonl" in ada.shared()
    assert len(ada.shared()) == 3
    bob.put("The reader is fast.")
    bob.ok("sync")
    git(ada.path, "worktree", "add", "-q", str(tree), "shared-engrams")
    (tree / "README").write_text("by hand")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "By hand")
    git(ada.path, "worktree", "remove", str(tree))
    assert ada.refusal("sync")["code"] == "SYNC_REF_INVALID"


def test_hostile_entries_at_the_hub_are_named_and_carried_unchanged(pair: Pair) -> None:
    """A stranger with write access to the hub pushes a link, a folder, a forged line and a claim of its own."""
    ada, bob = pair.ada, pair.bob
    one = ada.put("The lexer is small.")
    ada.ok("sync")
    tree = pair.folder / "tree"
    git(pair.folder, "clone", "-q", "-b", "shared-engrams", str(pair.folder / "hub.git"), str(tree))
    strange = event()
    (tree / "engrams" / f"{strange.id}.jsonl").write_bytes(strange.line() + b"\n")
    (tree / "engrams" / "01KDVP9R00FQREJGN000000002.jsonl").symlink_to("../../.catalog/memory.jsonl")
    (tree / "engrams" / "folder").mkdir()
    (tree / "engrams" / "folder" / "x.jsonl").write_text("{}\n")
    forged = json.loads((tree / "engrams" / f"{one}.jsonl").read_text())
    forged["claim"] = "The lexer is a liar."
    with (tree / "engrams" / f"{one}.jsonl").open("a") as file:
        file.write(json.dumps(forged, separators=(",", ":"), ensure_ascii=False) + "\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "Hostile")
    git(tree, "push", "-q")
    bob.put("The parser is large.")
    answer = bob.json("sync")["imported"]
    assert sorted(answer["new"]) == sorted([one, strange.id])
    assert sorted((item["file"], item["code"]) for item in answer["refused"]) == [
        ("01KDVP9R00FQREJGN000000002.jsonl", "LINK_REFUSED"),
        (f"{one}.jsonl", "EVENT_SIGNATURE"),
        ("folder", "FILE_NOT_OURS"),
    ]
    assert "The lexer is a liar." not in bob.ok("query", "lexer").out
    for path in ("engrams/01KDVP9R00FQREJGN000000002.jsonl", "engrams/folder", f"engrams/{one}.jsonl"):
        assert git(bob.path, "rev-parse", f"shared-engrams:{path}") == git(tree, "rev-parse", f"HEAD:{path}")
    assert git(bob.path, "log", "--format=%s", "-1", "shared-engrams~1") == "Hostile"


def test_a_project_without_git_has_nothing_to_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain").mkdir()
    plain = Colleague(tmp_path / "plain", tmp_path / "home", monkeypatch)
    plain.ok("init")
    assert plain.refusal("sync")["code"] == "NO_REPOSITORY"
    assert "nothing to share" in plain.ok("export").out


def test_a_linked_worktree_exports_to_itself_and_syncs(pair: Pair) -> None:
    ada = pair.ada
    linked = pair.folder / "linked"
    git(ada.path, "worktree", "add", "-q", str(linked), "-b", "side")
    one = ada.put("The lexer is small.")
    ada.ok("export", folder=linked)
    assert (linked / "engrams" / f"{one}.jsonl").is_file()
    assert not (ada.path / "engrams").exists()
    ada.ok("sync", folder=linked)
    assert set(ada.shared()) == {f"engrams/{one}.jsonl"}
    assert pair.bob.json("sync")["imported"]["new"] == [one]
