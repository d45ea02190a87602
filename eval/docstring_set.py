"""Docstrings as questions: which function does the first sentence describe, when nothing shows the sentence?"""

from __future__ import annotations

import re
from collections import defaultdict

from eval.claims import definition_claim, first_sentence
from eval.commit_set import line_ref, name_of
from eval.dataset import Dataset, Item, Question
from eval.definitions import SUFFIXES, Definition, distinct, find_definitions
from eval.git_history import GitHistory

MIN_WORDS = 3

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]+")


def docstring_dataset(repository: GitHistory, commit: str) -> Dataset:
    """Return an engram for each function, without its docstring, and a question for each docstring.

    The engram of a function points at the lines before and after its docstring. Classes are left out, because their
    lines contain the docstrings of their methods.
    """
    items: list[Item] = []
    described: defaultdict[str, set[str]] = defaultdict(set)
    for path, text in repository.files(commit, SUFFIXES):
        lines = text.splitlines()
        for definition in distinct(find_definitions(path, text)):
            if definition.kind == "class":
                continue
            items.append(_item(definition, lines, commit))
            sentence = first_sentence(definition.docstring)
            if len(_WORD.findall(sentence)) >= MIN_WORDS:
                described[sentence].add(name_of(definition))
    questions = tuple(Question(sentence, frozenset(names)) for sentence, names in described.items())
    return Dataset(
        f"docstring → function, {repository.folder.name}",
        tuple(items),
        questions,
        (f"Commit {commit[:12]}; equal first sentences are one question, and each of their functions is correct.",),
    )


def _item(definition: Definition, lines: list[str], commit: str) -> Item:
    spans = [(definition.first, definition.last)]
    if definition.docstring_lines is not None:
        first, last = definition.docstring_lines
        spans = [(definition.first, first - 1), (last + 1, definition.last)]
    spans = [(first, last) for first, last in spans if last >= first] or [(definition.first, definition.first)]
    body = "\n".join(line for first, last in spans for line in lines[first - 1 : last])
    refs = tuple(line_ref(definition.path, first, last, commit) for first, last in spans)
    return Item(name_of(definition), definition.path, definition_claim(definition, with_docstring=False), refs, body)
