"""Reading conversations. BX-08"""

from __future__ import annotations

import json
from pathlib import Path

from eval.turn_set import read_conversations, turn_dataset

LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ada",
            "session_2_date_time": "9 May",
            "session_2": [{"dia_id": "D2:1", "speaker": "Ben", "text": "A cat? Great! Which one? I like cats."}],
            "session_1": [{"dia_id": "D1:1", "speaker": "Ada", "text": "I adopted\na cat."}],
            "session_10": [{"dia_id": "D10:1", "speaker": "Ada", "text": "Bye."}],
        },
        "qa": [
            {"question": "What did Ada adopt?", "evidence": ["D1:1; D2:1"], "category": 1},
            {"question": "What did Ben adopt?", "evidence": ["D1:1"], "category": 5},
            {"question": "Who knows?", "evidence": [], "category": 1},
            {"question": "Where?", "evidence": ["D7:7"], "category": 1},
        ],
    }
]
LINES = [
    {"conversation": "conv-1", "turn": "D1:1", "speaker": "Ada", "text": "I adopted\na cat."},
    {"conversation": "conv-1", "turn": "D2:1", "speaker": "Ben", "text": "A cat? Great! Which one? I like cats."},
    {"conversation": "conv-1", "turn": "D10:1", "speaker": "Ada", "text": "Bye."},
    {"conversation": "conv-1", "question": "What did Ada adopt?", "evidence": ["D1:1", "D2:1"]},
    {"conversation": "conv-1", "question": "Where?", "evidence": ["D7:7"]},
]


def test_both_formats_give_the_same_conversation(tmp_path: Path) -> None:
    locomo, own = tmp_path / "locomo.json", tmp_path / "own.jsonl"
    locomo.write_text(json.dumps(LOCOMO), "utf-8")
    own.write_text("".join(f"{json.dumps(line)}\n" for line in LINES), "utf-8")
    (conversation,) = read_conversations(locomo)
    assert read_conversations(own) == [conversation]
    assert [turn.id for turn in conversation.turns] == ["D1:1", "D2:1", "D10:1"]  # sessions in the order of numbers
    assert [question.text for question in conversation.questions] == ["What did Ada adopt?"]
    assert conversation.file_text.splitlines()[0] == "Ada: I adopted a cat."


def test_a_long_turn_becomes_several_engrams_with_one_name(tmp_path: Path) -> None:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps(LOCOMO), "utf-8")
    dataset = turn_dataset("turns", read_conversations(file), "0" * 40)
    second = [item for item in dataset.items if item.name == "conv-1/D2:1"]
    assert [item.claim for item in second] == ["Ben: A cat? Great! Which one?", "Ben: I like cats."]
    assert {item.refs for item in second} == {(f"repo:conv-1.txt#L2@{'0' * 40}",)}
    assert [bool(item.body) for item in second] == [True, False]  # a baseline searches the turn once
    assert dataset.questions[0].names == {"conv-1/D1:1", "conv-1/D2:1"}
