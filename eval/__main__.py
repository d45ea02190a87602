"""`python -m eval`: how well the bus finds things, beside baselines, on what you supply.

python -m eval commits REPOSITORY       a commit's subject finds the functions it changes
python -m eval docstrings REPOSITORY    a docstring's first sentence finds its function
python -m eval turns FILE               a question finds the turns of a conversation that answer it
python -m eval context REPOSITORY       tokens through the bus against copying what a commit changes
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eval.commit_set import DEFAULT_COMMITS, commit_dataset, read_history
from eval.context import context_report, replay
from eval.docstring_set import docstring_dataset
from eval.git_history import GitHistory
from eval.measurement import Measured, join, measure
from eval.metrics import DEFAULT_SEED
from eval.report import HOW_TO_READ, table
from eval.scratch_project import clone_at, commit_text, scratch_folder
from eval.turn_set import Conversation, read_conversations, turn_dataset
from eval.vectors import find_model

if TYPE_CHECKING:
    from engrambus.adapters.semantic import MiniLm

TURN_DEPTHS = (5, 10, 20)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one measurement and print its table."""
    chosen = _options().parse_args(arguments)
    run: Callable[[argparse.Namespace], str] = chosen.run
    print(run(chosen))
    if run is not run_context:
        print(f"\n{HOW_TO_READ}")


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="eval", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seed", type=int, default=DEFAULT_SEED, help="seed of the bootstrap intervals")
    options.add_argument(
        "--model", action="store_true", help="ask by meaning, too: needs the extra engrambus[semantic]"
    )
    commands = options.add_subparsers(required=True, metavar="MEASUREMENT")
    for name, run, what in (
        ("commits", run_commits, "a commit's subject finds the functions it changes"),
        ("docstrings", run_docstrings, "a docstring's first sentence finds its function"),
        ("context", run_context, "tokens through the bus against copying what a commit changes"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument("repository", type=Path, help="a git repository, bare or not")
        command.set_defaults(run=run)
        if name != "docstrings":
            command.add_argument("--limit", type=int, default=DEFAULT_COMMITS, help="look at the newest commits only")
            command.add_argument("--split", type=float, default=0.5, help="share of them before the middle commit")
    command = commands.add_parser("turns", help="a question finds the turns of a conversation that answer it")
    command.add_argument("file", type=Path, help="conversations: LoCoMo's JSON, or JSON lines (see eval/turn_set.py)")
    command.set_defaults(run=run_turns)
    return options


def _model(chosen: argparse.Namespace) -> MiniLm | str:
    return find_model(requested=chosen.model)


def run_commits(chosen: argparse.Namespace) -> str:
    """Measure commit subjects as questions."""
    repository = GitHistory(chosen.repository)
    history = read_history(repository, split=chosen.split, limit=chosen.limit)
    dataset = commit_dataset(repository, history)
    with scratch_folder() as folder:
        measured = measure(
            dataset, clone_at(chosen.repository, history.middle, folder), by_kind="fact", model=_model(chosen)
        )
    return table(measured, seed=chosen.seed)


def run_docstrings(chosen: argparse.Namespace) -> str:
    """Measure docstrings as questions."""
    repository = GitHistory(chosen.repository)
    head = repository.run("rev-parse", "HEAD").strip()
    dataset = docstring_dataset(repository, head)
    with scratch_folder() as folder:
        measured = measure(dataset, clone_at(chosen.repository, head, folder), model=_model(chosen))
    return table(measured, seed=chosen.seed)


def run_turns(chosen: argparse.Namespace) -> str:
    """Measure questions about conversations, in a project for each of them and in one for all."""
    conversations = read_conversations(chosen.file)
    model = _model(chosen)
    separate = [_measure_turns(conversation.name, [conversation], model) for conversation in conversations]
    tables = [table(join("turns, a project for each conversation", separate), depths=TURN_DEPTHS, seed=chosen.seed)]
    if len(conversations) > 1:
        pooled = _measure_turns("turns, all conversations in one project", conversations, model)
        tables.append(table(pooled, depths=TURN_DEPTHS, seed=chosen.seed))
    return "\n\n".join(tables)


def _measure_turns(title: str, conversations: Sequence[Conversation], model: MiniLm | str) -> Measured:
    with scratch_folder() as folder:
        files = {conversation.file_name: conversation.file_text for conversation in conversations}
        repository, commit = commit_text(folder, files)
        return measure(turn_dataset(title, conversations, commit), repository, model=model)


def run_context(chosen: argparse.Namespace) -> str:
    """Replay commits as tasks."""
    repository = GitHistory(chosen.repository)
    history = read_history(repository, split=chosen.split, limit=chosen.limit)
    with scratch_folder() as folder:
        replayed = replay(repository, history, clone_at(chosen.repository, history.middle, folder))
    return context_report(replayed, seed=chosen.seed)


if __name__ == "__main__":
    main()
