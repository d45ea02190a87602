"""`engrambus export`: signed text that a person reviews, the same each time, without what must stay here."""  # BX-13

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from tests.projects import git
from tests.sharing.conftest import Pair
from tests.sharing.team import Colleague

RANDOM = "q7Zp2Lx9Vb4Nc8Kd1Wf6Rt3Yh5Jm0Gs2Qa7"
SECRET_CLAIM = "Only this run knows the blue lantern."


def everything_in(folder: Path) -> bytes:
    """Return the content of every file below a folder."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def objects_of(folder: Path) -> bytes:
    """Return the content of every object of a repository."""
    names = git(folder, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)").splitlines()
    kinds = (name.split() for name in names)
    return "\n".join(git(folder, "cat-file", "-p", name) for name, kind in kinds if kind != "tree").encode()


def test_an_engram_is_one_file_of_signed_lines(pair: Pair) -> None:
    ada = pair.ada
    engram_id = ada.put("The parser trusts its input.", "--kind", "constraint", "--tag", "parser")
    ada.ok("pin", engram_id)
    answer = ada.json("export")
    assert (answer["new"], answer.get("longer", []), answer["folder"]) == ([engram_id], [], str(ada.path / "engrams"))
    (put, pinned) = ada.files[f"{engram_id}.jsonl"]
    assert (put["event"], pinned["event"]) == ("put", "pinned")
    assert put["claim"] == "The parser trusts its input."
    assert (put["kind"], put["confidence"], put["ttl"], put["tags"]) == ("constraint", 0.9, "P180D", ["parser"])
    assert put["pointers"][0]["ref"].endswith(git(ada.path, "rev-parse", "HEAD"))
    assert put["by"].endswith("/admin")
    assert put["key"] == pinned["key"] == ada.key
    assert list(put)[-2:] == ["key", "signature"]
    assert "merge=union" in (ada.path / "engrams" / ".gitattributes").read_text()


def test_a_second_export_changes_nothing_and_a_later_one_only_adds_lines(pair: Pair) -> None:
    ada = pair.ada
    older = ada.put("The lexer is small.")
    ada.ok("export")
    before = {path: path.read_bytes() for path in sorted((ada.path / "engrams").iterdir())}
    assert ada.json("export")["unchanged"] == 1
    assert {path: path.read_bytes() for path in sorted((ada.path / "engrams").iterdir())} == before
    newer = ada.put("The lexer has grown.", "--replaces", older)
    ada.ok("pin", newer)
    ada.ok("unpin", newer)
    ada.ok("forget", newer)
    answer = ada.json("export")
    assert (answer.get("new", []), answer["longer"]) == ([], [older]), (
        "what was withdrawn before it was shared stays here"
    )
    path = ada.path / "engrams" / f"{older}.jsonl"
    assert path.read_bytes().startswith(before[path])
    assert [(event["event"], event.get("other")) for event in ada.files[path.name]] == [
        ("put", None),
        ("replaced", newer),
    ]


def test_the_same_export_is_made_anywhere(pair: Pair) -> None:
    ada = pair.ada
    ada.put("The lexer is small.")
    ada.put("The parser is large.")
    ada.ok("export")
    (ada.path / "elsewhere").mkdir()
    ada.ok("export", "--to", "elsewhere/again")
    assert everything_in(ada.path / "engrams") == everything_in(ada.path / "elsewhere" / "again")


def test_nothing_of_a_run_of_a_message_or_unconfirmed_leaves(pair: Pair) -> None:
    """Neither the folder nor any object of git holds a byte of what is not for the team."""
    ada = pair.ada
    ada.put("The parser is large.")
    run_only = ada.put(SECRET_CLAIM, "--scope", "run")
    token = ada.json("agent", "add", "carl", "--role", "architect")["token"]
    assert token
    ada.ok("memory", "keep", "The green anchor is a memory.")
    ada.ok("contribute", "The yellow bell is a contribution.", "--as", "carl")
    message = pair.folder / "message.yaml"
    message.write_text("ROLE: architect\nSHARED_BRIEF_MICRO:\n- The red kettle is a message.\nINSTRUCTIONS: []\n")
    sent = ada.run("broadcast", str(message))
    assert sent.code == 0, sent
    ada.ok("sync")
    ada.ok("export")
    for leaked in (SECRET_CLAIM, run_only, "green anchor", "yellow bell", "red kettle", token):
        assert leaked.encode() not in everything_in(ada.path / "engrams")
        assert leaked.encode() not in objects_of(ada.path)
        assert leaked.encode() not in objects_of(pair.folder / "hub.git")
    ada.ok("promote", run_only)
    ada.ok("export")
    assert SECRET_CLAIM.encode() in everything_in(ada.path / "engrams"), "promoted by a person, it is the project's"


def test_untrusted_and_learned_engrams_are_not_exported(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    ada.put("The parser is large.")
    ada.ok("export")
    bob.ok("import", "--from", str(ada.path / "engrams"))
    bob.ok("learn")
    assert bob.json("export").get("new", []) == []
    engram_id = bob.untrusted()["The parser is large."]["id"]
    bob.ok("confirm", engram_id)
    bob.ok("sync")
    (lines,) = bob.shared().values()
    assert [json.loads(line)["event"] for line in lines] == ["confirmed"]


def test_a_rule_against_secrets_that_came_later_keeps_them_here(pair: Pair) -> None:
    ada = pair.ada
    policy = ada.path / ".catalog" / "policy.yaml"
    policy.write_text("secrets:\n  random_strings: false\n")
    ada.ok("policy", "apply")
    ada.put(f"The badge of the lab is {RANDOM}.")
    policy.write_text("secrets:\n  random_strings: true\n")
    ada.ok("policy", "apply")
    answer = ada.json("export")
    assert (answer["skipped"], answer.get("new", [])) == ({"SECRET_FOUND": 1}, [])
    assert not (ada.path / "engrams").exists()


def test_the_signing_key_is_private_and_outside_the_repository(pair: Pair) -> None:
    ada = pair.ada
    ada.put("The lexer is small.")
    ada.ok("export")
    (file,) = ada.home.rglob("signing.key")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not file.is_relative_to(ada.path)
    assert file.read_bytes() not in everything_in(ada.path)


def test_a_link_in_the_place_of_the_folder_is_not_followed(pair: Pair) -> None:
    ada = pair.ada
    ada.put("The lexer is small.")
    (pair.folder / "outside").mkdir()
    (ada.path / "engrams").symlink_to(pair.folder / "outside")
    assert ada.refusal("export")["code"] == "LINK_IN_CATALOG"
    assert ada.refusal("import")["code"] == "LINK_IN_CATALOG"
    assert os.listdir(pair.folder / "outside") == []


def test_only_a_person_at_the_machine_shares(pair: Pair) -> None:
    ada = pair.ada
    ada.ok("agent", "add", "carl", "--role", "architect")
    for words in (("export",), ("import",), ("sync",), ("keys", "show")):
        assert ada.run(*words, "--as", "carl").code == 2


def test_git_merges_two_exports_line_by_line(pair: Pair) -> None:
    """Both branches add a line to the same file; git's own merge leaves a file that is read whole."""
    ada: Colleague = pair.ada
    engram_id = ada.put("The lexer is small.")
    ada.ok("export")
    path = ada.path / "engrams" / f"{engram_id}.jsonl"
    base = path.read_bytes()
    git(ada.path, "add", "engrams")
    git(ada.path, "commit", "-q", "-m", "Engrams")
    git(ada.path, "checkout", "-q", "-b", "one")
    ada.ok("pin", engram_id)
    ada.ok("export")
    one = path.read_bytes()
    git(ada.path, "commit", "-q", "-a", "-m", "One")
    git(ada.path, "checkout", "-q", "-b", "other", "main")
    ada.ok("unpin", engram_id)
    path.write_bytes(base + ada_lines(ada, engram_id, "unpinned"))
    git(ada.path, "commit", "-q", "-a", "-m", "Other")
    git(ada.path, "merge", "-q", "one", "-m", "Both")
    merged = path.read_bytes().splitlines()
    assert set(merged) == {*one.splitlines(), *ada_lines(ada, engram_id, "unpinned").splitlines()}
    assert pair.bob.json("import", "--from", str(path.parent)).get("refused", []) == []


def ada_lines(colleague: Colleague, engram_id: str, event: str) -> bytes:
    """Return the lines of one kind of event of an engram, as an export elsewhere writes them."""
    folder = colleague.path.parent / "scratch"
    colleague.ok("export", "--to", str(folder))
    lines = (folder / f"{engram_id}.jsonl").read_bytes().splitlines(keepends=True)
    found: list[Any] = [line for line in lines if json.loads(line)["event"] == event]
    return b"".join(found)


def test_a_contradiction_is_an_event_and_its_risk_stays_here(pair: Pair) -> None:
    ada = pair.ada
    older = ada.put("The cache keeps 10 rows.", "--kind", "decision")
    newer = ada.put("The cache keeps 20 rows.", "--kind", "decision")
    (risk,) = [row["engram"] for row in ada.json("feed")["rows"] if row["engram"]["kind"] == "risk"]
    ada.ok("export")
    assert set(ada.files) == {f"{older}.jsonl", f"{newer}.jsonl"}
    (event,) = [event for event in ada.files[f"{newer}.jsonl"] if event["event"] == "contradicted"]
    assert event["other"] == older
    assert risk["id"].encode() not in everything_in(ada.path / "engrams")
