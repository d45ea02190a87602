"""`engrambus import`: others' engrams as untrusted, each line checked by itself, nothing twice."""  # BX-13

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engrambus.core import SECOND_US, print_time
from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.sharing.events import MAX_LINE_BYTES, SharedEvent
from engrambus.policy import SigningKey
from tests.projects import git
from tests.sharing.conftest import Pair
from tests.sharing.team import Colleague, clone_again

STRANGER = SigningKey(b"s" * 32)
NOW_US = 1_795_000_000 * SECOND_US
PROJECT = "01KDVP9R00SQMEBQDYE1SE0000"
ID = "01KDVP9R00FQREJGN000000001"


def event(name: str = "put", engram_id: str = ID, key: SigningKey = STRANGER, **fields: Any) -> SharedEvent:
    """Return a signed event of a stranger's project."""
    put: dict[str, Any] = {
        "kind": "constraint",
        "claim": "The mirror signs each release.",
        "pointers": (Pointer(type="repo", ref=f"repo:src/parser.py#L1-L3@{'a' * 40}"),),
        "confidence": 0.9,
        "ttl": "P30D",
        "expires": "2099-01-01T00:00:00Z",
    }
    base = {"event": name, "id": engram_id, "at": print_time(NOW_US), "by": f"{PROJECT}/mallory", "project": PROJECT}
    return SharedEvent(**{**base, **(put if name == "put" else {}), **fields}).sign(key)


def write(folder: Path, *events: SharedEvent, name: str | None = None) -> Path:
    """Write events to a folder, each to the file of its engram."""
    folder.mkdir(exist_ok=True)
    for shared in events:
        with (folder / (name or f"{shared.id}.jsonl")).open("ab") as file:
            file.write(shared.line() + b"\n")
    return folder


def refused(answer: dict[str, Any]) -> list[tuple[str, int, str]]:
    """Return where what was refused stands, and the code."""
    return [(item.get("file", ""), item.get("line", 0), item["code"]) for item in answer.get("refused", [])]


def taken(colleague: Colleague, folder: Path) -> dict[str, Any]:
    """Import a folder and return the answer."""
    answer: dict[str, Any] = colleague.json("import", "--from", str(folder))
    return answer


def test_what_others_export_is_untrusted_and_counted_by_key(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    engram_id = ada.put("The parser is large.", "--kind", "constraint")
    ada.ok("pin", engram_id)
    ada.ok("export")
    folder = ada.path / "engrams"
    answer = taken(bob, folder)
    assert (answer["new"], answer["pins"], answer.get("known", 0)) == ([engram_id], [engram_id], 0)
    assert [(row["key"], row.get("name"), row["new"]) for row in answer["signers"]] == [(ada.key, None, 1)]
    about = bob.untrusted()["The parser is large."]
    assert about["signer"] == {"key": ada.key}
    assert about["untrusted"]["key"] == ada.key
    assert "an unknown key" in bob.ok("feed", "--untrusted").out
    assert "The parser is large." not in bob.ok("brief").out
    again = taken(bob, folder)
    assert (again.get("new", []), again["known"]) == ([], 1)
    assert len(bob.untrusted()) == 1


def test_a_pin_takes_effect_when_a_person_confirms(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    engram_id = ada.put("The parser is large.", "--kind", "constraint")
    ada.ok("pin", engram_id)
    ada.ok("export")
    taken(bob, ada.path / "engrams")
    assert "signed by   an unknown key" in bob.ok("show", engram_id).out
    bob.ok("confirm", engram_id)
    assert "[pinned constraint] The parser is large." in bob.ok("brief").out


def test_a_known_key_is_shown_by_its_name(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    ada.put("The parser is large.")
    ada.ok("export")
    taken(bob, ada.path / "engrams")
    bob.ok("keys", "trust", ada.key, "Ada")
    assert f'keys:\n  "Ada": {ada.key}\n' in (bob.path / ".catalog" / "project.yaml").read_text()
    assert bob.untrusted()["The parser is large."]["signer"] == {"key": ada.key, "name": "Ada"}
    assert "untrusted, from Ada" in bob.ok("query", "parser").out
    assert bob.json("keys", "list")["keys"] == [{"name": "Ada", "key": ada.key, "own": False}]
    assert taken(bob, ada.path / "engrams")["signers"][0]["name"] == "Ada"
    assert bob.json("keys", "trust", ada.key, "Ada")["added"] is False
    assert bob.refusal("keys", "trust", ada.key, "Eve")["code"] == "PUBLIC_KEY_EXISTS"
    assert bob.refusal("keys", "trust", bob.key, "Ada")["code"] == "PUBLIC_KEY_EXISTS"
    assert bob.refusal("keys", "trust", "ed25519:short", "Eve")["code"] == "PUBLIC_KEY_INVALID"
    assert bob.refusal("keys", "trust", bob.key, "two\nlines")["code"] == "PUBLIC_KEY_INVALID"
    bob.ok("keys", "trust", bob.key, "Bob (laptop)")
    assert [row["name"] for row in bob.json("keys", "list")["keys"]] == ["Bob (laptop)", "Ada"]


def test_a_key_list_that_is_none_is_refused(pair: Pair) -> None:
    file = pair.bob.path / ".catalog" / "project.yaml"
    file.write_text(file.read_text() + "keys:\n  Ada: nothing\n")
    assert pair.bob.refusal("keys", "list")["code"] == "FORMAT_UNKNOWN"


def test_an_export_that_was_edited_by_hand_loses_only_the_edited_lines(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    good = ada.put("The lexer is small.")
    edited = ada.put("The parser is large.")
    ada.ok("export")
    folder = ada.path / "engrams"
    path = folder / f"{edited}.jsonl"
    path.write_text(path.read_text().replace("is large", "is tiny") + "<<<<<<< HEAD\n")
    answer = taken(bob, folder)
    assert answer["new"] == [good]
    assert refused(answer) == [(path.name, 1, "EVENT_SIGNATURE"), (path.name, 2, "EVENT_INVALID")]
    assert f"refused {path.name}:1" in bob.ok("import", "--from", str(folder)).out
    ada.ok("export")
    assert len(path.read_text().splitlines()) == 3, "the right line is added, the edited one stays to be reviewed"
    assert taken(bob, folder)["new"] == [edited]


def test_lines_in_any_order_and_twice_say_the_same(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    engram_id = ada.put("The lexer is small.")
    ada.ok("pin", engram_id)
    ada.ok("export")
    path = ada.path / "engrams" / f"{engram_id}.jsonl"
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\r\n".join([lines[1], lines[0], lines[1], b"", lines[0]]))
    answer = taken(bob, path.parent)
    assert (answer["new"], answer["pins"], refused(answer)) == ([engram_id], [engram_id], [])


OUTSIDE = Pointer(type="repo", ref=f"repo:../../etc/passwd#L1@{'a' * 40}")
HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "invisible text": ({"claim": "The mirror \u202esigns."}, "INVISIBLE_TEXT"),
    "a secret": ({"claim": "Use ghp_q7Zp2Lx9Vb4Nc8Kd1Wf6Rt3Yh5Jm0Gs2Qa7B to deploy."}, "SECRET_FOUND"),
    "a long claim": ({"claim": "long " * 200}, "CLAIM_TOO_LONG"),
    "no claim": ({"claim": ""}, "CLAIM_EMPTY"),
    "confidence beyond 1": ({"confidence": 7.5}, "CONFIDENCE_RANGE"),
    "no confidence and an odd kind": ({"kind": "gospel"}, "FIELD_VALUE"),
    "a ttl that is none": ({"ttl": "forever"}, "TTL_INVALID"),
    "no pointer": ({"pointers": ()}, "NO_POINTER"),
    "a path out of the repository": ({"pointers": (OUTSIDE,)}, "POINTER_PATH"),
    "a time in the future": ({"at": "2099-01-01T00:00:00Z"}, "TIME_INVALID"),
    "a time that is none": ({"at": "yesterday"}, "TIME_INVALID"),
    "an end that is none": ({"expires": "never"}, "TIME_INVALID"),
    "a project that is none": ({"project": "../x"}, "EVENT_INVALID"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_what_a_stranger_wrote_is_refused_with_its_code(pair: Pair, tmp_path: Path, case: str) -> None:
    fields, code = HOSTILE[case]
    other = "01KDVP9R00FQREJGN000000002"
    folder = write(tmp_path / "strange", event(**fields), event(engram_id=other, claim="The mirror is fast."))
    answer = taken(pair.bob, folder)
    assert [item["code"] for item in answer["refused"]] == [code]
    assert answer["refused"][0]["file"] == f"{ID}.jsonl"
    assert answer["new"] == [other]


def test_a_huge_ttl_is_cut_to_the_longest_of_this_project(pair: Pair, tmp_path: Path) -> None:
    assert taken(pair.bob, write(tmp_path / "strange", event(ttl="P9000D")))["new"] == [ID]
    assert pair.bob.json("show", ID)["engrams"][0]["ttl"] == "P365D"


def test_files_that_are_none_are_refused_by_name(pair: Pair, tmp_path: Path) -> None:
    folder = write(tmp_path / "strange", event())
    (folder / "01KDVP9R00FQREJGN000000002.jsonl").symlink_to("/etc/passwd")
    (folder / "01KDVP9R00FQREJGN000000003.jsonl").mkdir()
    (folder / "notes.jsonl").write_text("{}\n")
    (folder / "README").write_text("for people")
    (folder / "01KDVP9R00FQREJGN000000004.jsonl").write_bytes(b"x" * ((1 << 20) + 1))
    (folder / "01KDVP9R00FQREJGN000000005.jsonl").write_bytes(b"x" * (MAX_LINE_BYTES + 1) + b"\n\xff\n[]\n{\n")
    answer = taken(pair.bob, folder)
    assert answer["new"] == [ID]
    assert sorted(set(refused(answer))) == [
        ("01KDVP9R00FQREJGN000000002.jsonl", 0, "LINK_IN_CATALOG"),
        ("01KDVP9R00FQREJGN000000003.jsonl", 0, "FILE_NOT_OURS"),
        ("01KDVP9R00FQREJGN000000004.jsonl", 0, "EXPORT_TOO_LARGE"),
        *[("01KDVP9R00FQREJGN000000005.jsonl", line, "EVENT_INVALID") for line in (1, 2, 3, 4)],
        ("notes.jsonl", 0, "EVENT_INVALID"),
    ]


def test_an_event_in_another_engrams_file_and_a_second_spelling_are_refused(pair: Pair, tmp_path: Path) -> None:
    other = "01KDVP9R00FQREJGN000000002"
    folder = write(tmp_path / "strange", event(), name=f"{other}.jsonl")
    spelled = json.dumps(json.loads(event().line()), separators=(", ", ": ")).encode()
    (folder / f"{ID}.jsonl").write_bytes(spelled + b"\n")
    answer = taken(pair.bob, folder)
    assert refused(answer) == [(f"{ID}.jsonl", 1, "EVENT_INVALID"), (f"{other}.jsonl", 1, "EVENT_INVALID")]
    assert answer["new"] == []


def test_a_stranger_cannot_speak_for_another_key(pair: Pair, tmp_path: Path) -> None:
    """The stranger withdraws, replaces and pins what Ada said, and says something else under its id."""
    ada, bob = pair.ada, pair.bob
    engram_id = ada.put("The lexer is small.")
    ada.ok("export")
    folder = ada.path / "engrams"
    changes = [event(name, engram_id, other=ID * (name == "replaced")) for name in ("withdrawn", "replaced", "pinned")]
    other = SigningKey(b"t" * 32)
    write(folder, *changes, event(engram_id=engram_id, claim="The lexer leaks.", key=other))
    answer = taken(bob, folder)
    assert (len(answer["new"]), answer.get("pins", []), engram_id in answer["new"]) == (2, [], True)
    found = bob.untrusted()
    assert {claim: about["signer"]["key"] for claim, about in found.items()} == {
        "The lexer is small.": ada.key,
        "The lexer leaks.": other.public,
    }
    assert sorted(answer["new"]) == sorted(about["id"] for about in found.values())
    again = taken(bob, folder)
    assert (again.get("new", []), again["known"]) == ([], 2)


def test_the_id_of_an_own_engram_is_not_given_away(pair: Pair, tmp_path: Path) -> None:
    bob = pair.bob
    own = bob.put("The lexer is small.")
    answer = taken(bob, write(tmp_path / "strange", event(engram_id=own)))
    assert refused(answer) == [(f"{own}.jsonl", 0, "ID_TAKEN")]
    assert bob.json("show", own)["engrams"][0]["claim"] == "The lexer is small."


def test_claims_that_replace_each_other_in_a_circle_all_stay(pair: Pair, tmp_path: Path) -> None:
    names = [f"01KDVP9R00FQREJGN00000000{number}" for number in range(1, 4)]
    folder = tmp_path / "strange"
    for number, engram_id in enumerate(names):
        newer = names[(number + 1) % 3]
        write(
            folder,
            event(engram_id=engram_id, claim=f"The mirror is number {number}."),
            event("replaced", engram_id, other=newer),
        )
    answer = taken(pair.bob, folder)
    assert sorted(answer["new"]) == names
    assert refused(answer) == [(f"{engram_id}.jsonl", 0, "REPLACES_CYCLE") for engram_id in names]


def test_what_its_author_withdraws_or_replaces_leaves_the_untrusted(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    withdrawn, older = ada.put("The lexer is small."), ada.put("The parser is large.")
    ada.ok("export")
    folder = ada.path / "engrams"
    assert len(taken(bob, folder)["new"]) == 2
    newer = ada.put("The parser has shrunk.", "--replaces", older)
    ada.ok("forget", withdrawn)
    ada.ok("export")
    answer = taken(bob, folder)
    assert (answer["new"], answer["withdrawn"], answer["replaced"]) == ([newer], [withdrawn], [older])
    assert set(bob.untrusted()) == {"The parser has shrunk."}
    assert bob.json("show", older)["about"][older]["replaced_by"] == newer
    assert taken(bob, folder)["known"] == 3


def test_what_a_person_trusts_or_forgets_stays_so(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    trusted, forgotten = ada.put("The lexer is small."), ada.put("The parser is large.")
    ada.ok("export")
    folder = ada.path / "engrams"
    taken(bob, folder)
    bob.ok("confirm", trusted)
    bob.ok("forget", forgotten)
    ada.ok("forget", trusted)
    ada.ok("export")
    answer = taken(bob, folder)
    assert (answer.get("new", []), answer.get("withdrawn", []), answer["known"]) == ([], [], 2)
    assert "The lexer is small." in bob.ok("query", "lexer").out


def test_two_claims_that_replace_one_are_both_shown_and_marked(pair: Pair) -> None:
    """Ada's claim is trusted by Bob and by Carl; both replace it, and Dora takes both on."""
    ada, bob = pair.ada, pair.bob
    carl, dora = clone_again(ada, pair.folder, "carl"), clone_again(ada, pair.folder, "dora")
    older = ada.put("The cache holds ten rows.")
    ada.ok("sync")
    ids = []
    for colleague, claim in ((bob, "The cache holds twenty rows."), (carl, "The cache holds thirty rows.")):
        colleague.ok("sync")
        colleague.ok("confirm", older)
        ids.append(colleague.put(claim, "--replaces", older))
        colleague.ok("sync")
    dora.ok("sync")
    found = dora.untrusted()
    assert {"The cache holds twenty rows.", "The cache holds thirty rows."} <= set(found)
    for claim, rival in (("The cache holds twenty rows.", ids[1]), ("The cache holds thirty rows.", ids[0])):
        assert found[claim]["conflicts"] == [rival]
        assert found[claim]["untrusted"]["replaces"] == [older]
        assert f"conflicts with {rival[:13]}" in dora.ok("query", claim).out
        assert f"{rival[:13]} replaces the same claim" in dora.ok("show", found[claim]["id"]).out
    bob.ok("sync")
    assert bob.json("show", ids[0])["about"][ids[0]]["conflicts"] == [ids[1]], (
        "its own claim replaced the older one here"
    )
    about = ada.json("sync") and ada.json("show", older)["about"][older]
    assert sorted(about["replaced_elsewhere"]) == sorted(ids)
    assert "The cache holds ten rows." in ada.ok("query", "cache").out
    assert ada.json("confirm", ids[0])["replaced"] == [older]
    assert ada.json("show", older)["about"][older]["replaced_by"] == ids[0]


def test_an_import_reads_a_branch_without_touching_the_worktree(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    engram_id = ada.put("The lexer is small.")
    ada.ok("export")
    git(ada.path, "checkout", "-q", "-b", "shared")
    (ada.path / "engrams" / "01KDVP9R00FQREJGN000000002.jsonl").symlink_to("/etc/passwd")
    git(ada.path, "add", "engrams")
    git(ada.path, "commit", "-q", "-m", "Engrams")
    git(ada.path, "push", "-q", "origin", "shared")
    git(bob.path, "fetch", "-q", "origin")
    status = git(bob.path, "status", "--porcelain")
    answer = bob.json("import", "--from", "origin/shared")
    assert answer["new"] == [engram_id]
    assert refused(answer) == [("01KDVP9R00FQREJGN000000002.jsonl", 0, "LINK_REFUSED")]
    assert git(bob.path, "status", "--porcelain") == status
    assert bob.refusal("import", "--from", "origin/main")["code"] == "EXPORT_NOT_FOUND"
    assert bob.refusal("import", "--from", "nowhere")["code"] == "REVISION_NOT_FOUND"
    assert bob.refusal("import")["code"] == "EXPORT_NOT_FOUND"


def test_an_agent_reads_the_mark_over_mcp_and_cannot_confirm(pair: Pair) -> None:
    ada, bob = pair.ada, pair.bob
    engram_id = ada.put("The lexer is small.")
    ada.ok("export")
    taken(bob, ada.path / "engrams")
    bob.ok("agent", "add", "carl", "--role", "architect")
    assert bob.json("query", "lexer", "--as", "carl")["about"][engram_id]["signer"]["key"] == ada.key
    assert bob.refusal("confirm", engram_id, "--as", "carl")["code"] == "ENGRAM_UNTRUSTED"
