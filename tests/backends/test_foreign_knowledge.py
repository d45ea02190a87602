"""Journals of other projects as hostile input: bounded, read as far as their checksums hold, never an exception."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.backends import foreign_knowledge
from engrambus.backends.foreign_files import finish, set_aside, unfinished
from engrambus.backends.foreign_knowledge import ForeignKnowledge
from engrambus.core import Stamp
from engrambus.core.journal import JournalKey, encode_header, encode_line, unkeyed
from engrambus.errors import FormatUnknown, LinkInCatalog
from engrambus.knowledge.cortex import ForeignMemory
from engrambus.knowledge.engrams import ForeignEngram

PROJECT = "01KDVP9R00SQMEBQDYE1SE0000"
NOW_US = 1_800_000_000_000_000
LATER_US = NOW_US + 1_000_000
KEY = JournalKey(b"a key of another machine, unknown")


def journal(commits: Sequence[Any], kind: str = "memory") -> bytes:
    """Return a journal whose checksums are right; a commit is its facts, or the bytes that stand in their place."""
    line_key = KEY.line_key(kind=kind, project=PROJECT)
    text, checksum = encode_header(line_key, kind=kind, project=PROJECT, now_us=NOW_US)
    lines = [text]
    for seq, facts in enumerate(commits, 1):
        body = facts if isinstance(facts, bytes) else json.dumps(facts).encode()
        line, checksum = encode_line(line_key, checksum, stamp=Stamp(NOW_US + seq), facts=body, mark=0, seq=seq)
        lines.append(line)
    return b"".join(lines)


def written(folder: Path, commits: Sequence[Any]) -> ForeignKnowledge:
    """Write a journal of knowledge into a folder and read it."""
    (folder / "memory.jsonl").write_bytes(journal(commits))
    return ForeignKnowledge(folder, NOW_US)


def put(engram_id: str = "A", scope: str = "project", expires_us: Any = LATER_US, **fields: Any) -> dict[str, Any]:
    """Return the fact that an engram was put."""
    engram = {"id": engram_id, "scope": scope, "claim": f"Claim {engram_id}.", **fields}
    return {"fact": "engram.put", "engram": engram, "run": "r", "expires_at": expires_us}


def change(name: str, engram_id: str = "A", space: str = "p", **fields: Any) -> dict[str, Any]:
    """Return a fact about an engram."""
    return {"fact": f"engram.{name}", "id": engram_id, "space": space, "by": "x", **fields}


def kept(slug: str = "deploys", text: Any = "We deploy.", **fields: Any) -> dict[str, Any]:
    """Return the fact that a memory was kept."""
    episode = {"kind": "fact", "slug": slug, "text": text, "at": 5, "importance": 0.4, "by": "r/eve", **fields}
    return {"fact": "sam.kept", "run": "r", "by": "r/eve", "episode": episode}


def claims(knowledge: ForeignKnowledge) -> list[str]:
    """Return the claims and texts that would be taken on."""
    return [item.fields["claim"] if isinstance(item, ForeignEngram) else item.text for item in knowledge.items()]


def test_live_engrams_of_the_project_are_found_with_their_pins(tmp_path: Path) -> None:
    knowledge = written(
        tmp_path,
        [
            [put("A"), put("B"), put("C", scope="run"), put("D", expires_us=NOW_US), put("E", scope="org")],
            [change("pinned"), change("pinned", "B"), change("unpinned", "B"), put("F"), put("G", scope="run")],
            [change("forgotten", "F"), change("promoted", "G", space="r1", scope="project")],
        ],
    )
    summary = knowledge.summary
    assert (summary.project, summary.commits, summary.engrams, summary.pins) == (PROJECT, 3, 3, 1)
    assert (summary.run_engrams, summary.shared_engrams, summary.expired) == (1, 1, 1)
    assert (summary.first_us, summary.last_us, summary.problem) == (NOW_US + 1, NOW_US + 3, None)
    found = [item for item in knowledge.items() if isinstance(item, ForeignEngram)]
    assert [(item.fields["id"], item.pinned, item.fields["scope"]) for item in found] == [
        ("A", True, "project"),
        ("B", False, "project"),
        ("G", False, "project"),
    ]


def test_a_confirmation_extends_an_engram_and_adds_what_the_repeat_brought(tmp_path: Path) -> None:
    confirmed = change("confirmed", expires_at=LATER_US, confidence=0.7, tags=["b", "a"])
    (item,) = written(tmp_path, [[put(expires_us=NOW_US, tags=["a"], confidence=0.5)], [confirmed]]).items()
    assert isinstance(item, ForeignEngram)
    assert (item.expires_us, item.fields["confidence"], item.fields["tags"]) == (LATER_US, 0.7, ["a", "b"])


def test_memories_come_in_their_last_version_and_contributions_without_one(tmp_path: Path) -> None:
    def contributed(name: str, **fields: Any) -> dict[str, Any]:
        contribution = {"contribution_id": name, "content": f"Learned {name}.", **fields}
        return {"fact": "contribution.submitted", "run": "r", "agent": "eve", "contribution": contribution}

    def accepted(name: str, memory_id: str) -> dict[str, Any]:
        return {"fact": "contribution.moved", "contribution_id": name, "status": "accepted", "memory_id": memory_id}

    knowledge = written(
        tmp_path,
        [
            [kept(), kept("old", expires_at=NOW_US), kept(text="We deploy on Fridays.", pinned=True)],
            [contributed("one"), contributed("two"), contributed("three")],
            [accepted("one", "fact:deploys@2"), accepted("two", "fact:absent@1")],
        ],
    )
    assert (knowledge.summary.memories, knowledge.summary.contributions) == (2, 3)
    items = [item for item in knowledge.items() if isinstance(item, ForeignMemory)]
    assert [(item.text, item.pinned) for item in items] == [("We deploy on Fridays.", True), ("Learned two.", False)]


def test_what_follows_a_broken_line_is_left_out(tmp_path: Path) -> None:
    content = journal([[put("A")], [put("B")], [put("C")]])
    lines = content.splitlines(keepends=True)
    for broken in (
        [*lines[:2], lines[2].replace(b"Claim B", b"Claim X"), lines[3]],
        [*lines[:2], lines[3]],
        [*lines[:2], b"\xff\xfe\n", lines[3]],
        [*lines[:2], b"\n", lines[3]],
    ):
        (tmp_path / "memory.jsonl").write_bytes(b"".join(broken))
        knowledge = ForeignKnowledge(tmp_path, NOW_US)
        assert claims(knowledge) == ["Claim A."]
        assert knowledge.summary.problem is not None
    (tmp_path / "memory.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:-5])
    assert ForeignKnowledge(tmp_path, NOW_US).summary.problem is None, "a torn tail never happened"


def test_a_line_that_is_nested_too_deeply_ends_the_reading(tmp_path: Path) -> None:
    knowledge = written(tmp_path, [[put("A")], b"[" * 100_000 + b"]" * 100_000, [put("C")]])
    assert claims(knowledge) == ["Claim A."]
    assert knowledge.summary.problem == "The line after number 1 cannot be read."


@pytest.mark.parametrize(
    "facts",
    [
        b'{"a":1}',
        b'["text", 7, null, {"fact": 7}, {"fact": "engram.put"}, {"fact": "engram.unheard", "id": 1}]',
        b'[{"fact":"engram.put","engram":{"id":"B","scope":[1]},"expires_at":"soon"}]',
        b'[{"fact":"engram.put","engram":[],"expires_at":1e999}]',
        b'[{"fact":"engram.put","engram":{"id":"' + b"x" * 200_000 + b'","scope":"project"},"expires_at":9}]',
        b'[{"fact":"engram.promoted","id":"A","space":7},{"fact":"engram.confirmed","id":"A","space":"p"}]',
        b'[{"fact":"sam.kept","episode":{"kind":{},"slug":[]}},{"fact":"contribution.moved","status":"accepted"}]',
    ],
    ids=["object", "types", "scope", "number", "long id", "changes", "memories"],
)
def test_facts_of_no_known_form_are_passed_over(tmp_path: Path, facts: bytes) -> None:
    knowledge = written(tmp_path, [[put("A")], facts, [put("C")]])
    assert claims(knowledge) == ["Claim A.", "Claim C."]


def test_lines_segments_and_engrams_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unkeyed, "MAX_LINE_BYTES", 2_000)
    knowledge = written(tmp_path, [[put("A")], [put("B", claim="x" * 3_000)], [put("C")]])
    assert claims(knowledge) == ["Claim A."]
    assert knowledge.summary.problem == "memory.jsonl has a line of more than 2,000 bytes."
    monkeypatch.setattr(foreign_knowledge, "MAX_ENGRAMS", 1)
    knowledge = written(tmp_path, [[put("A")], [put("B")], [put("C")]])
    assert claims(knowledge) == ["Claim A.", "Claim B."]
    assert "too many engrams" in (knowledge.summary.problem or "")


def test_a_damaged_or_missing_segment_ends_the_reading(tmp_path: Path) -> None:
    content = journal([[put("A")]])
    (tmp_path / "memory.000000000000000.jsonl.gz").write_bytes(gzip.compress(content)[:-12])
    (tmp_path / "memory.jsonl").write_bytes(journal([[put("B")]]))
    knowledge = ForeignKnowledge(tmp_path, NOW_US)
    assert knowledge.summary.problem is not None
    assert claims(knowledge) in ([], ["Claim A."])


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b"\x00" * 5_000, b'{"at":1}\n', journal([], kind="tuples")])
def test_what_is_no_journal_of_knowledge_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "memory.jsonl").write_bytes(content)
    with pytest.raises(FormatUnknown):
        ForeignKnowledge(tmp_path, NOW_US)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(journal([[put("A")]]))
    (tmp_path / "memory.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LinkInCatalog):
        ForeignKnowledge(tmp_path, NOW_US)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
tags = st.sampled_from(["put", "adopted", "confirmed", "promoted", "forgotten", "pinned", "trusted"])
members = st.fixed_dictionaries(
    {"fact": tags.map(lambda name: f"engram.{name}")},
    optional={
        "id": st.just("A") | json_values,
        "space": st.sampled_from(["p", "r1", "u"]) | json_values,
        "scope": st.just("project") | json_values,
        "engram": st.fixed_dictionaries({"id": st.just("A")}, optional={"scope": json_values}) | json_values,
        "expires_at": st.just(LATER_US) | json_values,
        "tags": json_values,
        "confidence": json_values,
    },
)


@given(facts=st.lists(members | json_values, max_size=6))
def test_no_facts_raise(tmp_path_factory: pytest.TempPathFactory, facts: list[Any]) -> None:
    knowledge = written(tmp_path_factory.mktemp("any"), [facts])
    assert len([*knowledge.items()]) <= len(facts)


def test_files_are_set_aside_in_a_folder_that_is_marked_until_they_are_done_with(tmp_path: Path) -> None:
    names = ("memory.jsonl", "memory.000000000000000.jsonl.gz", "tuples.jsonl", "index.db", "project.yaml")
    for name in names:
        (tmp_path / name).write_text(name)
    (tmp_path / "receipts").mkdir()
    folder = set_aside(tmp_path, [tmp_path / "tuples.jsonl"], whole=False, name="one")
    assert os.listdir(folder) == ["tuples.jsonl"]
    assert unfinished(tmp_path) == [], "there is no knowledge in it"
    folder = set_aside(tmp_path, [tmp_path / "memory.jsonl"], whole=True, name="two")
    assert sorted(os.listdir(tmp_path)) == ["foreign", "project.yaml"]
    assert unfinished(tmp_path) == [folder]
    assert finish(folder) == tmp_path / "foreign" / "two"
    assert unfinished(tmp_path) == []
    assert (tmp_path / "foreign" / "two").stat().st_mode & 0o777 == 0o700
