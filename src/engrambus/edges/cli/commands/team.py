"""Team commands with code of their own: messages read from files, grants, `contribute` and `inherit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engrambus.core import is_ulid
from engrambus.edges.cli.command import Override, Values, override
from engrambus.edges.cli.commands.knowledge import POINTER_HELP
from engrambus.edges.cli.inputs import pattern_from_top, place_from_top
from engrambus.edges.cli.session import Session
from engrambus.gateway import Operation

_MESSAGE_FILE = {"text": ("FILE", "The message, as YAML or JSON; - reads stdin")}
_ANSWER_FILE = {"text": ("FILE", "The answer, as text; - reads stdin")}
_SCOPE = ("categories", "min_importance", "recency_window", "include_atoms", "about", "visibility")
"""The options of `inherit` that are fields of its scope."""


_DRY_RUN = click.Option(
    ["--dry-run", "dry_run"], is_flag=True, help="Check it without sending it; exit with 1 if it would be refused."
)


@override(
    _DRY_RUN,
    argument_help={"text": ("FILE", "The message, as YAML or JSON; - reads stdin. With --to, also plain words")},
)
def message(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Send a message that is given as a file or, with `--to`, as plain words; with `--dry-run`, only check it."""
    if values.pop("dry_run", False):
        _check_message(session, values, "child")
        return
    is_words = values.get("to") is not None and not _names_file(values["text"])
    session.call_and_print(operation, values if is_words else _with_text(values))


def _names_file(text: str) -> bool:
    """True for `-` and for the name of a file; words with a space are one only if there is such a file."""
    try:
        return (
            text == "-"
            or Path(text).exists()
            or (" " not in text.strip() and text.endswith((".yaml", ".yml", ".json")))
        )
    except (OSError, ValueError):  # too long for a name, or with a null byte
        return False


@override(_DRY_RUN, argument_help=_MESSAGE_FILE)
def broadcast_file(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Send a broadcast that is given as a file; with `--dry-run`, only check it."""
    if values.pop("dry_run", False):
        _check_message(session, values, "parent")
        return
    session.call_and_print(operation, _with_text(values))


@override(argument_help=_ANSWER_FILE)
def answer_file(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Submit an answer that is given as a file."""
    session.call_and_print(operation, _with_text(values))


def _check_message(session: Session, values: Values, kind: str) -> None:
    """Check a message; exit with status 1 if it would be refused."""
    from engrambus.edges.cli.show.team import message_check
    from engrambus.operations import OPERATIONS

    answer = session.call(OPERATIONS["validate_message"], {"text": _with_text(values)["text"], "kind": kind})
    session.print(answer, message_check)
    _exit_if_refused(answer)


def _with_text(values: Values) -> Values:
    from engrambus.edges.cli.inputs import read_text_file

    return {**values, "text": read_text_file(values["text"], "FILE")}


def _print_verdict(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    answer = session.call(operation, values)
    session.print_answer(operation, answer)
    _exit_if_refused(answer)


def _exit_if_refused(answer: Any) -> None:
    if not answer.ok:  # so that a script can test a message before it sends it
        click.get_current_context().exit(1)


@override(argument_help={"pointer": ("POINTER", "What it may read: path:10-20, a file, or folder/* for a folder")})
def grant_issue(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Issue a grant for a file, some lines of it, or `folder/*`."""
    _check_not_a_folder(session, values["pointer"])
    session.call_and_print(operation, values)


@override(argument_help={"budget_token": ("GRANT", "The grant's budget token: g_ and its id, or a Biscuit of it")})
def grant_narrow(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Pass on a part of a grant; `--pointer` takes a path as other commands do."""
    if values.get("pointer") is not None:
        _check_not_a_folder(session, values["pointer"])
    session.call_and_print(operation, values)


def _check_not_a_folder(session: Session, pointer: str) -> None:
    # A grant covers what its pointer names, and a folder by itself names nothing that can be read.
    folder = pointer.rstrip("/")
    if (session.folder / folder).is_dir():
        raise click.UsageError(f"'{folder}' is a folder; '{folder}/*' stands for every file in it.")


@override()
def reserve(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Reserve or check paths, given from the current folder."""
    session.call_and_print(operation, {**values, "paths": _paths_from_top(session, values)})


@override()
def release(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Release reservations by id, or by path from the current folder."""
    session.call_and_print(operation, {**values, "paths": _paths_from_top(session, values)})


def _paths_from_top(session: Session, values: Values) -> list[str]:
    top = session.worktree
    paths = values.get("paths", ())
    if top is None:
        return list(paths)
    return [
        path if is_ulid(path) else pattern_from_top(path, session.folder, top, f"paths[{index}]")
        for index, path in enumerate(paths)
    ]


grant_ask = Override(Session.call_and_print, argument_help={"pointer": POINTER_HELP})


@override(argument_help={"pointer": POINTER_HELP})
def grant_check(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Check a dereference; exit with status 1 if it would be refused."""
    _print_verdict(session, operation, values)


@override(
    click.Option(
        ["--evidence"],
        multiple=True,
        metavar="KIND=VALUE",
        help="What shows it: path=src/parser.py:10-20, or url=, command_output=, note= (repeatable).",
    ),
)
def contribute(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Contribute a learning, its evidence given as kind=value."""
    parts = [(kind, mark, value) for kind, mark, value in (text.partition("=") for text in values.get("evidence", ()))]
    if not all(mark for _, mark, _ in parts):
        raise click.UsageError("--evidence takes kind=value: path=src/parser.py:10-20, or url, command_output, note.")
    top = session.worktree
    if top is not None:
        parts = [
            (kind, mark, place_from_top(value, session.folder, top, f"evidence[{index}]") if kind == "path" else value)
            for index, (kind, mark, value) in enumerate(parts)
        ]
    values["evidence"] = [{"kind": kind, "value": value} for kind, _, value in parts]
    session.call_and_print(operation, values)


@override(
    click.Option(
        ["--category", "categories"],
        multiple=True,
        help="Only memories of this category, besides pinned ones (repeatable).",
    ),
    click.Option(
        ["--min-importance"], type=float, help="Importance from which a memory is included, 0 to 1 [default: 0.7]"
    ),
    click.Option(
        ["--recency-window"],
        help="Include memories of this period, whatever their importance: P7D is seven days [default: P7D]",
    ),
    click.Option(["--no-pins"], is_flag=True, help="Leave out pinned memories."),
    click.Option(["--atoms", "include_atoms"], is_flag=True, help="Include engrams (short claims with evidence), too."),
    click.Option(
        ["--about"], metavar="TEXT", help="Include what is about this, too; needs search by meaning (docs/semantic.md)."
    ),
    click.Option(
        ["--visibility"], multiple=True, help="Only engrams of this scope: run, project, org or global (repeatable)."
    ),
)
def inherit(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Inherit the team's memory, the parts of its scope given as options."""
    scope = {name: values.pop(name) for name in _SCOPE if name in values}
    scope["include_working_memory"] = not values.pop("no_pins", False)
    session.call_and_print(operation, {**values, "scope": scope})
