"""What the scripts have in common: their arguments, and the repository whose history they take."""

from __future__ import annotations

import argparse
from pathlib import Path

from .commits import History
from .output import Output
from .post_office import make_repository


def script_parser(description: str, *, commit: str) -> argparse.ArgumentParser:
    """Return a parser of the arguments that every script takes; `commit` is the help of --commit."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("repository", nargs="?", default=".", type=Path, help="a git repository; this one by default")
    parser.add_argument("--small", action="store_true", help="use a small repository, made for this")
    parser.add_argument("--commit", help=commit)
    return parser


def chosen_history(parser: argparse.ArgumentParser, chosen: argparse.Namespace, output: Output) -> History:
    """Return the history that the arguments name; say why there is none, and end if it was named."""
    history = History(chosen.repository, chosen.commit or "HEAD")
    if (problem := history.explain_missing()) and not chosen.small:
        if chosen.commit or not chosen.repository.is_dir():
            parser.error(problem)
        output.note(problem)
    return history


def small_history(scratch: str, output: Output) -> History:
    """Make the small repository in a folder, and return its history."""
    small = Path(scratch) / "post-office"
    make_repository(small)
    output.note("The repository is a small post office, made for this.")
    return History(small)
