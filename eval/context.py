"""Replaying real commits as tasks of a small team: tokens through the bus against copying what a commit changes.

The team is a lead and three workers, in a new run for each task. The lead asks one question, each worker reads its
brief and the lines of one of the first engrams found, and reports to the lead. Counted is the text that agents read.
Without the bus, the changed files, or only the changed functions, would be copied to all four. Reports put no engrams,
so that no task helps a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from engrambus import Bus
from eval.baselines import Search
from eval.commit_set import CommitHistory, CommitTask, commit_items, definition_items, name_of
from eval.dataset import Item
from eval.git_history import GitHistory
from eval.measurement import MAX_QUESTION_CHARS, baseline_searches
from eval.metrics import DEFAULT_SEED, bootstrap
from eval.report import print_interval
from eval.scratch_project import Filled, filled_bus
from eval.token_count import answer_tokens, count_tokens

WORKERS = ("ada", "ben", "cleo")
LEAD = "lead"
SHOWN = 12
"""Engrams of an answer."""
MAX_READ_TOKENS = 400
"""Most tokens of one read."""
MAX_BRIEF_TOKENS = 400
"""Most tokens of one brief: the newest claims of a store that was filled in bulk say nothing about a task."""

REPORT = """\
ROLE: programmer
TASK_STATUS: done
POINTER_PACK:
  - "{ref}"
OUTPUT:
  summary: "These lines decide the task; what they do and what has to change is clear from them."
"""


class TaskCost(NamedTuple):
    """What one task cost on the bus, and what it found."""

    query_tokens: int
    read_tokens: int
    report_tokens: int
    brief_tokens: int
    file_tokens: int
    """Tokens of the changed files, copied to everybody."""
    function_tokens: int
    """Tokens of the changed functions, copied to everybody."""
    shown: float
    """Share of the changed functions among the engrams shown."""
    read: float
    """Share of the changed functions among those read."""
    hit: float
    """1 if one of the spans read is a changed function, else 0."""

    @property
    def bus_tokens(self) -> int:
        return self.query_tokens + self.read_tokens + self.report_tokens + self.brief_tokens


class Replay(NamedTuple):
    """All tasks of a history, and for each baseline whether one of its first spans is a changed function."""

    title: str
    costs: tuple[TaskCost, ...]
    baseline_hits: dict[str, list[float]]
    notes: tuple[str, ...]


def replay(repository: GitHistory, history: CommitHistory, clone: Path) -> Replay:
    """Put a history's engrams on a new project and work through the later commits."""
    items = commit_items(repository, history) + definition_items(history)
    with filled_bus(clone, items) as filled:
        team = _Team(filled, items, history)
        costs = [team.work_on(task) for task in history.tasks]
    searches, notes = baseline_searches(items)
    hits = {name: [_baseline_hit(search, items, task) for task in history.tasks] for name, search in searches.items()}
    return Replay(f"context, {repository.folder.name}", tuple(costs), hits, tuple(notes))


class _Team:
    """A lead and its workers, in a run of their own for each task."""

    def __init__(self, filled: Filled, items: Sequence[Item], history: CommitHistory) -> None:
        self._filled = filled
        self._items = items
        self._copied = _copied(history)

    def work_on(self, task: CommitTask) -> TaskCost:
        """Do one task and count its tokens."""
        admin = self._filled.bus
        admin.open_run(f"Replay commit {task.commit.sha[:12]}.")
        admin.add_agent(LEAD, role="manager")
        for name in WORKERS:
            admin.add_agent(name, role="programmer", parent=LEAD)
        workers = [admin.speak_as(name) for name in WORKERS]
        found = admin.speak_as(LEAD).query_engrams(task.text[:MAX_QUESTION_CHARS], k=SHOWN)
        shown = [self._items[self._filled.positions[engram.id]] for engram in found.engrams]
        chosen = [item for item in shown if item.kind == "fact"][: len(WORKERS)]
        read_tokens = report_tokens = 0
        for worker, item in zip(workers, chosen, strict=False):
            read, report = _read_and_report(worker, item.refs[0])
            read_tokens += read
            report_tokens += report
        brief_tokens = sum(answer_tokens("brief", worker.brief(max_tokens=MAX_BRIEF_TOKENS)) for worker in workers)
        correct = {name_of(definition) for definition in task.changed}
        files, functions = self._copied(task)
        read_names = {item.name for item in chosen} & correct
        return TaskCost(
            query_tokens=answer_tokens("query_engrams", found),
            read_tokens=read_tokens,
            report_tokens=report_tokens,
            brief_tokens=brief_tokens,
            file_tokens=files,
            function_tokens=functions,
            shown=len({item.name for item in shown} & correct) / len(correct),
            read=len(read_names) / len(correct),
            hit=float(bool(read_names)),
        )


def _read_and_report(worker: Bus, ref: str) -> tuple[int, int]:
    """Read the lines of a pointer and report to the lead; return the tokens of both."""
    answer = worker.deref_pointer(ref, max_tokens=MAX_READ_TOKENS)
    report = REPORT.format(ref=ref)
    worker.send_message(report)
    return answer_tokens("deref_pointer", answer), count_tokens(report)


def _copied(history: CommitHistory) -> Callable[[CommitTask], tuple[int, int]]:
    """Return a function that gives the tokens of a task's changed files and functions, copied to the whole team."""
    members = 1 + len(WORKERS)

    @cache
    def file_tokens(path: str) -> int:
        return count_tokens(history.texts[path])

    def copied(task: CommitTask) -> tuple[int, int]:
        files = sum(file_tokens(path) for path in {definition.path for definition in task.changed})
        functions = 0
        for definition in task.changed:
            lines = history.texts[definition.path].splitlines()[definition.first - 1 : definition.last]
            functions += count_tokens("\n".join(lines))
        return members * files, members * functions

    return copied


def _baseline_hit(search: Search, items: Sequence[Item], task: CommitTask) -> float:
    """Return 1 if one of the first functions that a baseline finds is a changed one, else 0."""
    found = [items[position] for position in search(task.text, SHOWN)]
    chosen = [item.name for item in found if item.kind == "fact"][: len(WORKERS)]
    return float(bool({name_of(definition) for definition in task.changed} & set(chosen)))


def context_report(replayed: Replay, *, seed: int = DEFAULT_SEED) -> str:
    """Return the results as Markdown."""
    costs = replayed.costs
    if not costs:
        return f"### {replayed.title}\n\nNo later commit changes a known function."

    def mean(tokens: Callable[[TaskCost], float]) -> float:
        return sum(map(tokens, costs)) / len(costs)

    bus = mean(lambda cost: cost.bus_tokens)
    rows = [
        ("through the bus", f"{bus:,.0f}"),
        ("of which query / reads / reports / briefs",
         f"{mean(lambda cost: cost.query_tokens):,.0f} / {mean(lambda cost: cost.read_tokens):,.0f} / "
         f"{mean(lambda cost: cost.report_tokens):,.0f} / {mean(lambda cost: cost.brief_tokens):,.0f}"),
        ("changed files copied to the lead and three workers", f"{mean(lambda cost: cost.file_tokens):,.0f}"),
        ("changed functions copied to the lead and three workers", f"{mean(lambda cost: cost.function_tokens):,.0f}"),
        ("bus / files", f"{bus / mean(lambda cost: cost.file_tokens):.1%}"),
        ("bus / functions", f"{bus / mean(lambda cost: cost.function_tokens):.1%}"),
        (f"share of the changed functions among the {SHOWN} shown",
         print_interval(bootstrap([cost.shown for cost in costs], seed=seed))),
        ("share of the changed functions among the three read",
         print_interval(bootstrap([cost.read for cost in costs], seed=seed))),
        ("**tasks in which one of the three spans read is a changed function**",
         print_interval(bootstrap([cost.hit for cost in costs], seed=seed))),
        *((f"the same by {name}", print_interval(bootstrap(hits, seed=seed)))
          for name, hits in replayed.baseline_hits.items()),
    ]  # fmt: skip
    lines = [
        f"### {replayed.title}",
        "",
        "| per task | |",
        "|---|---|",
        *(f"| {what} | {value} |" for what, value in rows),
    ]
    notes = [
        f"{len(costs)} tasks; a read has at most {MAX_READ_TOKENS} tokens, a brief at most {MAX_BRIEF_TOKENS}.",
        *replayed.notes,
    ]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)])
