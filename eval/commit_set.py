"""Commit subjects as questions: which functions, known at a middle commit, do later commits change?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from eval.claims import commit_claim, definition_claim
from eval.dataset import Dataset, Item, Question
from eval.definitions import SUFFIXES, Definition, distinct, enclosing, find_definitions
from eval.git_history import EMPTY_TREE, ChangedLines, Commit, GitHistory

MIN_WORDS = 3
"""Fewest words of a subject that is asked."""
MAX_CHANGED = 10
"""Most known functions of a commit that is asked: a subject does not describe a reformatting."""
DEFAULT_COMMITS = 1000

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]+")
_TRIVIAL = re.compile(
    r"(?i)\s*(?:merge\b|bump\b|revert\b|release\b|prepare\b|version\b|start(?:ing)? version|v?\d+\.\d+|"
    r"(?:fix(?:e[sd])?|correct)? ?(?:an? )?(?:docs? |docstring )?"
    r"(?:typos?|spelling|whitespace|formatting|lint\w*|flake8|pep ?8|black|isort)\b|"
    r"(?:update|upgrade|pin) (?:\w+ )?"
    r"(?:dependenc\w*|requirements|changelog|changes|authors|license|readme|copyright)|update \S+\.\w+$|"
    r"\[pre-commit|pre-commit|wip\b|fixup!|squash!|(?:apply|run|use) (?:black|isort|ruff|pyupgrade))"
)
_PULL_NUMBER = re.compile(r"\s*\(#\d+\)\s*$")


class CommitHistory(NamedTuple):
    """A history cut at a middle commit."""

    middle: str
    definitions: tuple[Definition, ...]
    """Functions and classes at the middle commit."""
    texts: dict[str, str]
    """Source files at the middle commit."""
    earlier: tuple[Commit, ...]
    tasks: tuple[CommitTask, ...]
    """Later commits with a usable subject, oldest first."""


class CommitTask(NamedTuple):
    """A later commit, and the definitions of the middle commit that it changes."""

    commit: Commit
    changed: tuple[Definition, ...]

    @property
    def text(self) -> str:
        """The subject without the number of its pull request."""
        return _PULL_NUMBER.sub("", self.commit.subject)


def read_history(repository: GitHistory, *, split: float, limit: int | None) -> CommitHistory:
    """Cut a history in two, and find what each later commit changes."""
    middle = repository.middle_commit(split, limit)
    total = len(repository.commits("HEAD", limit=limit))
    later = repository.commits("HEAD", f"^{middle}")
    earlier = repository.commits(middle, limit=max(total - len(later), 0))
    texts = dict(repository.files(middle, SUFFIXES))
    definitions = [definition for path, text in texts.items() for definition in distinct(find_definitions(path, text))]
    known = {definition.key: definition for definition in definitions}
    tasks = []
    for commit in later:
        if not is_usable(commit.subject) or commit.parent == EMPTY_TREE:
            continue
        changed = _changed_definitions(repository, commit, known, middle)
        if 0 < len(changed) <= MAX_CHANGED:
            tasks.append(CommitTask(commit, changed))
    return CommitHistory(middle, tuple(definitions), texts, tuple(earlier), tuple(tasks))


def is_usable(subject: str) -> bool:
    """True if a subject says what a commit does, in at least `MIN_WORDS` words."""
    return not _TRIVIAL.match(subject) and len(_WORD.findall(_PULL_NUMBER.sub("", subject))) >= MIN_WORDS


def commit_dataset(repository: GitHistory, history: CommitHistory) -> Dataset:
    """Return an engram for each definition and each earlier commit, and a question for each later commit."""
    items = commit_items(repository, history) + definition_items(history)
    questions = tuple(
        Question(
            task.text,
            frozenset(name_of(definition) for definition in task.changed),
            frozenset(definition.path for definition in task.changed),
        )
        for task in history.tasks
    )
    functions = sum(item.kind == "fact" for item in items)
    return Dataset(
        f"commit subject → changed function, {repository.folder.name}",
        tuple(items),
        questions,
        (
            f"Middle commit {history.middle[:12]}; {functions} functions and classes, {len(items) - functions} earlier "
            f"commits, {len(questions)} later commits asked.",
        ),
    )


def name_of(definition: Definition) -> str:
    """Return the name an item of this definition has in a data set."""
    return f"{definition.path}::{definition.name}"


def definition_items(history: CommitHistory) -> list[Item]:
    """Return an item for each definition, which points at its lines."""
    items = []
    for definition in history.definitions:
        lines = history.texts[definition.path].splitlines()[definition.first - 1 : definition.last]
        ref = line_ref(definition.path, definition.first, definition.last, history.middle)
        claim = definition_claim(definition)
        items.append(Item(name_of(definition), definition.path, claim, (ref,), "\n".join(lines)))
    return items


def commit_items(repository: GitHistory, history: CommitHistory) -> list[Item]:
    """Return an item for each earlier commit, which points at how it changed its first file."""
    items = []
    for commit in history.earlier:
        claim = commit_claim(commit.subject)
        paths = repository.changed_paths(commit) if claim and commit.parent != EMPTY_TREE else []
        if paths:
            path = next((path for path in paths if path.endswith(SUFFIXES)), paths[0])
            ref = f"diff:{quote(path, safe='/')}@{commit.parent}..{commit.sha}"
            items.append(Item(f"commit {commit.sha}", path, claim, (ref,), "", "diff"))
    return items


def line_ref(path: str, first: int, last: int, commit: str) -> str:
    """Return the ref of lines of a file at a commit."""
    span = f"L{first}-L{last}" if last > first else f"L{first}"
    return f"repo:{quote(path, safe='/')}#{span}@{commit}"


def _changed_definitions(
    repository: GitHistory, commit: Commit, known: dict[tuple[str, str], Definition], middle: str
) -> tuple[Definition, ...]:
    """Return the definitions of the middle commit whose lines a commit changes, by path and qualified name."""
    changes = [change for change in repository.changed_lines(commit) if change.path.endswith(SUFFIXES)]
    paths = {change.path for change in changes}
    known_paths = {path for path, _ in known}
    renamed = repository.renamed(middle, commit.parent) if paths - known_paths else {}
    found: dict[tuple[str, str], Definition] = {}
    for path in sorted(paths):
        then = renamed.get(path, path)
        if then not in known_paths:
            continue
        for name in _changed_names(repository, commit, path, changes):
            definition = known.get((then, name))
            if definition is not None:
                found[definition.key] = definition
    return tuple(found.values())


def _changed_names(repository: GitHistory, commit: Commit, path: str, changes: Sequence[ChangedLines]) -> list[str]:
    """Return the qualified names of the definitions that a commit changes in a file, in the order of their lines."""
    definitions = find_definitions(path, repository.file(commit.parent, path))
    names: dict[str, None] = {}
    for change in changes:
        if change.path == path:
            names |= dict.fromkeys(definition.name for definition in enclosing(definitions, change.first, change.last))
    return list(names)
