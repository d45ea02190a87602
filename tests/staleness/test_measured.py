"""The states of evidence are those of plain git, on a small history with renames, splits and merges."""  # BX-01

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.projects import commit_files, git
from tests.staleness.measure import CLASSES, measure

STEPS = 70
MIN_SHARE = 0.99
MIN_MEMBERS = 8


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose files were edited, renamed, split, reverted and merged at random."""
    folder = tmp_path_factory.mktemp("history")
    git(folder, "init", "-q", "-b", "main")
    randomness = random.Random(5)
    files = {f"src/module{number}.py": _lines(randomness, f"module {number}", 40) for number in range(3)}
    commit_files(folder, {path: "".join(lines) for path, lines in files.items()})
    commit_files(folder, {"LICENSE": "".join(_lines(randomness, "license", 40))})
    for step in range(STEPS):
        before = dict(files)
        branch = step % 10 == 9
        if branch:
            git(folder, "checkout", "-q", "-b", f"side{step}", "HEAD~3")
            commit_files(folder, {"notes.md": f"Notes of step {step}.\n"})
            git(folder, "checkout", "-q", "main")
        _change(files, randomness, step)
        changed = {path: "".join(lines) for path, lines in files.items() if before.get(path) != lines}
        commit_files(folder, {**changed, **dict.fromkeys(before.keys() - files.keys())})
        if branch:
            git(folder, "merge", "-q", "--no-edit", "-X", "theirs", f"side{step}")
    return folder


def _lines(randomness: random.Random, topic: str, count: int) -> list[str]:
    return [f"{topic}: {randomness.getrandbits(64):x} of {randomness.getrandbits(32):x}\n" for _ in range(count)]


def _change(files: dict[str, list[str]], randomness: random.Random, step: int) -> None:
    """Change the files as a commit does."""
    path = randomness.choice(sorted(files))
    lines = list(files[path])
    place = randomness.randrange(len(lines))
    kind = randomness.choice(("insert", "insert", "replace", "replace", "delete", "rename", "split", "swap"))
    if kind == "rename":
        del files[path]
        path = f"src/renamed{step}.py"
    elif kind == "split" and len(lines) > 25:
        files[f"src/part{step}.py"] = ["import parts\n", *lines[5:20]]
        del lines[5:20]
    elif kind == "swap":
        lines = lines[place:] + lines[:place]
    elif kind == "delete":
        del lines[place : place + 12]
    elif kind == "replace":
        lines[place : place + 6] = _lines(randomness, f"step {step}", 6)
    else:
        lines[place:place] = _lines(randomness, f"step {step}", 4)
    files[path] = lines or _lines(randomness, f"step {step}", 5)


def test_each_state_is_found_where_git_finds_it(history: Path, tmp_path: Path) -> None:
    for name, table in measure(history, tmp_path, 120).items():
        assert all(table.members(state) >= MIN_MEMBERS for state in CLASSES), (name, table.counts)
        assert all(table.precision(state) >= MIN_SHARE for state in CLASSES), (name, table.wrong)
        assert all(table.recall(state) >= MIN_SHARE for state in CLASSES), (name, table.wrong)
