"""Conversations: turns put in order, and questions whose evidence is known. Two file formats are read.

LoCoMo's: a JSON list of samples, or one of them. `conversation` has the lists `session_1`, `session_2`, … of turns with
`dia_id`, `speaker` and `text`; `qa` has `question`, `evidence` (ids of turns) and `category`. Questions of category 5
have no answer in the conversation and are left out.

Our own: JSON lines, turns before the questions about them, in any number of conversations:

    {"conversation": "c1", "turn": "t1", "speaker": "Ada", "text": "I moved to Turin in May."}
    {"conversation": "c1", "question": "Where does Ada live?", "evidence": ["t1"]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from engrambus.knowledge.engrams.splitting import split_claim
from eval.commit_set import line_ref
from eval.dataset import Dataset, Item, Question

UNANSWERABLE = 5
"""LoCoMo's category of questions without an answer."""

_TURN_ID = re.compile(r"D\d+:\d+")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


class Turn(NamedTuple):
    id: str
    speaker: str
    text: str

    @property
    def line(self) -> str:
        """The turn on one line of a text file."""
        return f"{self.speaker}: {' '.join(self.text.split())}"


class TurnQuestion(NamedTuple):
    text: str
    evidence: frozenset[str]


class Conversation(NamedTuple):
    """Turns in order, and questions about them."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[TurnQuestion, ...]

    @property
    def file_name(self) -> str:
        """Name of the text file with one line for each turn."""
        return f"{_UNSAFE.sub('-', self.name)}.txt"

    @property
    def file_text(self) -> str:
        return "".join(f"{turn.line}\n" for turn in self.turns)


def read_conversations(path: Path) -> list[Conversation]:
    """Read a file in one of the two formats; questions without known evidence are left out."""
    text = path.read_text("utf-8")
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:  # more than one line
        return _own_format([json.loads(line) for line in text.splitlines() if line.strip()])
    samples = whole if isinstance(whole, list) else [whole]
    if samples and "conversation" in samples[0] and "qa" in samples[0]:
        return [_locomo(sample, number) for number, sample in enumerate(samples)]
    return _own_format(samples)


def turn_items(conversation: Conversation, commit: str) -> list[Item]:
    """Return the engrams of a conversation in order: one for each turn, or several for a long one.

    A baseline that searches pointed text has each turn once, whole.
    """
    items = []
    for line, turn in enumerate(conversation.turns, start=1):
        ref = line_ref(conversation.file_name, line, line, commit)
        for number, claim in enumerate(split_claim(turn.line)):
            body = "" if number else turn.line
            items.append(Item(_name(conversation, turn.id), conversation.file_name, claim, (ref,), body))
    return items


def turn_dataset(title: str, conversations: Sequence[Conversation], commit: str) -> Dataset:
    """Return the engrams and questions of conversations that share a project."""
    items = [item for conversation in conversations for item in turn_items(conversation, commit)]
    questions = [
        Question(question.text, frozenset(_name(conversation, turn_id) for turn_id in question.evidence))
        for conversation in conversations
        for question in conversation.questions
    ]
    return Dataset(title, tuple(items), tuple(questions))


def _name(conversation: Conversation, turn_id: str) -> str:
    return f"{conversation.name}/{turn_id}"


def _locomo(sample: dict[str, Any], number: int) -> Conversation:
    sessions: dict[str, Any] = sample["conversation"]
    turns = [Turn(row["dia_id"], row["speaker"], row["text"]) for row in _locomo_rows(sessions) if row["text"].strip()]
    known = {turn.id for turn in turns}
    questions = []
    for row in sample["qa"]:
        # several ids may stand in one text, separated by semicolons
        evidence = {turn_id for text in row.get("evidence", ()) for turn_id in _TURN_ID.findall(text)} & known
        if evidence and row.get("category") != UNANSWERABLE:
            questions.append(TurnQuestion(str(row["question"]), frozenset(evidence)))
    return Conversation(str(sample.get("sample_id", number)), tuple(turns), tuple(questions))


def _locomo_rows(sessions: dict[str, Any]) -> Iterator[dict[str, Any]]:
    numbers = sorted(int(key[8:]) for key in sessions if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        yield from sessions[f"session_{number}"]


def _own_format(rows: Sequence[dict[str, Any]]) -> list[Conversation]:
    turns: dict[str, list[Turn]] = {}
    questions: dict[str, list[TurnQuestion]] = {}
    for row in rows:
        name = str(row.get("conversation", "conversation"))
        found = turns.setdefault(name, [])
        if "question" in row:
            evidence = frozenset(map(str, row["evidence"])) & {turn.id for turn in found}
            if evidence:
                questions.setdefault(name, []).append(TurnQuestion(row["question"], evidence))
        else:
            found.append(Turn(str(row["turn"]), row["speaker"], row["text"]))
    return [Conversation(name, tuple(found), tuple(questions.get(name, ()))) for name, found in turns.items()]
