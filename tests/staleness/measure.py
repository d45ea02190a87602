"""Spans drawn from a repository's history, their true states, and those that the product gives.

The truth is worked out here by other code than the product's: plain `git blame --reverse -M -C --porcelain`.
"""

from __future__ import annotations

import random
import resource
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engrambus.evidence.pointers import (
    CompareTarget,
    GitRepository,
    Pointer,
    RepoAddress,
    Repositories,
    StalenessChecker,
    open_worktree,
    print_address,
)
from tests.projects import git

CLASSES = ("same", "moved", "changed", "gone")
LENGTHS = (1, 2, 3, 5, 8, 12, 20, 40)
SPANS_PER_FILE = 3
RECENT_SHARE = 0.15
BATCH = 50
"""Pointers compared at once, as many as a query compares."""


@dataclass(frozen=True)
class Span:
    """Lines of a file at a commit."""

    commit: str
    path: str
    first: int
    last: int

    @property
    def pointer(self) -> Pointer:
        address = RepoAddress(path=self.path, revision=self.commit, lines=(self.first, self.last))
        return Pointer(type="repo", ref=print_address(address))


@dataclass
class Table:
    """Counts of spans by their true state and the one the product gives, and processor time for each batch."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[tuple[Span, str, str]] = field(default_factory=list)
    cold_s: list[float] = field(default_factory=list)
    warm_s: list[float] = field(default_factory=list)

    def precision(self, state: str) -> float:
        return self._share(state, [(true, state) for true in (*CLASSES, "none")])

    def recall(self, state: str) -> float:
        return self._share(state, [(state, given) for given in (*CLASSES, "none")])

    def members(self, state: str) -> int:
        return sum(count for (true, _), count in self.counts.items() if true == state)

    def _share(self, state: str, pairs: Iterable[tuple[str, str]]) -> float:
        count = sum(self.counts[pair] for pair in pairs)
        return self.counts[state, state] / count if count else 1.0


def draw(folder: Path, target: str, count: int, randomness: random.Random) -> list[Span]:
    """Draw spans from files of ancestors of a commit, half of them from the last part of the history."""
    commits = git(folder, "rev-list", target).split()[1:]
    recent = commits[: max(1, int(len(commits) * RECENT_SHARE))]
    spans: list[Span] = []
    while len(spans) < count:
        commit = randomness.choice(recent if randomness.random() < 0.5 else commits)
        listing = _git(folder, "ls-tree", "-r", "-z", commit).split(b"\0")
        files = [row.split(b"\t", 1) for row in listing if row.startswith(b"100")]
        if not files:
            continue
        entry, name = randomness.choice(files)
        data = _git(folder, "cat-file", "blob", entry.split()[2].decode())
        try:
            path = name.decode()
        except UnicodeDecodeError:
            continue
        lines = data.count(b"\n")
        for _ in range(SPANS_PER_FILE if lines else 0):
            first = randomness.randint(1, lines)
            spans.append(Span(commit, path, first, min(lines, first + randomness.choice(LENGTHS) - 1)))
    return spans[:count]


def true_states(folder: Path, spans: Sequence[Span], target: str) -> dict[Span, str]:
    """Return the state of each span as plain git has it."""
    by_file: dict[tuple[str, str], list[Span]] = {}
    for span in spans:
        by_file.setdefault((span.commit, span.path), []).append(span)
    states: dict[Span, str] = {}
    for (commit, path), group in by_file.items():
        lines = _blame(folder, commit, path, target)
        for span in group:
            states[span] = _true_state(lines, span)
    return states


def _blame(folder: Path, commit: str, path: str, target: str) -> dict[int, tuple[bytes, int]]:
    """Return the file and the line of each line that survives, by its number in the old file."""
    output = _git(folder, "blame", "--reverse", "-M", "-C", "--line-porcelain", f"{commit}..{target}", "--", path)
    places: dict[int, tuple[bytes, int]] = {}
    header: list[bytes] = []
    name = b""
    for row in output.split(b"\n"):
        if row.startswith(b"\t"):
            if header[0] == target.encode():
                places[int(header[2])] = (name, int(header[1]))
            header = []
        elif not header:
            header = row.split(b" ")
        elif row.startswith(b"filename "):
            name = row.removeprefix(b"filename ")
    return places


def _true_state(places: dict[int, tuple[bytes, int]], span: Span) -> str:
    numbers = range(span.first, span.last + 1)
    found = [places[number] for number in numbers if number in places]
    if not found:
        return "gone"
    if len(found) < len(numbers):
        return "changed"
    path, start = found[0]
    if any(place != (path, start + offset) for offset, place in enumerate(found)):
        return "changed"
    # A name that git quotes is not that of the span, unless git quotes that one, too.
    is_here = path == span.path.encode() or (path.startswith(b'"') and not span.path.isascii())
    return "same" if is_here and start == span.first else "moved"


def compare(
    checker: StalenessChecker, spans: Sequence[Span], target: CompareTarget, truth: dict[Span, str], table: Table
) -> None:
    """Compare the states that a checker gives with the true ones, in batches; each batch is asked for twice."""
    for start in range(0, len(spans), BATCH):
        batch = spans[start : start + BATCH]
        pointers = [span.pointer for span in batch]
        before = _processor_s()
        answers = checker.check_many(pointers, target, timeout_s=600)
        table.cold_s.append(_processor_s() - before)
        before = _processor_s()
        again = checker.check_many(pointers, target, timeout_s=600)
        table.warm_s.append(_processor_s() - before)
        assert again == answers
        for span, answer in zip(batch, answers, strict=True):
            given = answer.state.state if answer is not None else "none"
            table.counts[truth[span], given] += 1
            if given != truth[span]:
                table.wrong.append((span, truth[span], given))


def measure(source: Path, scratch: Path, count: int, seed: int = 17) -> dict[str, Table]:
    """Measure one repository: against HEAD, against HEAD continued from earlier commits, and against files on disk."""
    randomness = random.Random(seed)
    folder = scratch / "clone"
    git(scratch, "clone", "-q", "--no-hardlinks", "--no-checkout", str(source), str(folder))
    head = git(folder, "rev-parse", "HEAD")
    history = git(folder, "rev-list", "--first-parent", "HEAD").split()
    tables = {"HEAD": Table(), "HEAD, continued": Table(), "files on disk": Table()}
    repositories = Repositories(GitRepository(folder))

    spans = draw(folder, head, count, randomness)
    truth = true_states(folder, spans, head)
    compare(StalenessChecker(repositories), spans, CompareTarget(head), truth, tables["HEAD"])

    checker = StalenessChecker(repositories, scratch / "alignments.db")
    for back in (40, 15, 4):
        if back < len(history):
            earlier = [span for span in spans if _is_ancestor(folder, span.commit, history[back])]
            checker.check_many([span.pointer for span in earlier], CompareTarget(history[back]), timeout_s=600)
    compare(checker, spans, CompareTarget(head), truth, tables["HEAD, continued"])

    base = history[min(30, len(history) - 1)]
    target = put_on_disk(folder, base, head)
    spans = draw(folder, base, count, randomness)
    truth = true_states(folder, spans, target)
    worktree = open_worktree(folder / ".git", folder)
    compare(StalenessChecker(repositories), spans, CompareTarget(base, worktree), truth, tables["files on disk"])
    repositories.close()
    return tables


def put_on_disk(folder: Path, base: str, head: str) -> str:
    """Check out `base` with the files of `head`, uncommitted; return a commit of them on top of `base`."""
    git(folder, "checkout", "-q", "--detach", head)
    git(folder, "reset", "-q", "--mixed", base)
    return git(folder, "commit-tree", f"{head}^{{tree}}", "-p", base, "-m", "The files on disk")


def _is_ancestor(folder: Path, commit: str, target: str) -> bool:
    done = subprocess.run(["git", "merge-base", "--is-ancestor", commit, target], cwd=folder, check=False)
    return done.returncode == 0


def _processor_s() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _git(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-c", "core.quotePath=false", *arguments], cwd=folder, capture_output=True, check=True
    ).stdout
