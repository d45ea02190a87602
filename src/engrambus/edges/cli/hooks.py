"""What some commands do beyond calling their operation and showing its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import click

from engrambus.edges.cli.ask import Given, ask, ask_and_show
from engrambus.edges.cli.session import Session
from engrambus.edges.cli.show import SHOW
from engrambus.gateway import Operation


class Hook(NamedTuple):
    """How a command differs from its operation."""

    act: Callable[[Session, Operation[Any, Any], Given], None] = ask_and_show
    parameters: tuple[click.Parameter, ...] = ()
    """What it takes besides the operation's fields."""
    optional: bool = False
    """Whether what is given by position may be left out."""
    called: tuple[str, str] | None = None
    """What is given by position, and what that is, where it is not the operation's field itself."""


PLAIN = Hook()


def _put(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    file, from_line = given.pop("file", None), given.pop("from_line", 1)
    if file is not None:
        if given:
            raise click.UsageError("--file brings whole engrams; give nothing beside it but --from-line.")
        from engrambus.edges.cli.bulk import put_file

        put_file(session, file, from_line)
        return
    if "claim" not in given:
        raise click.UsageError("Missing argument 'CLAIM'.")
    if from_line != 1:
        raise click.UsageError("--from-line goes with --file.")
    from engrambus.edges.cli.put import put_one

    put_one(session, operation, given)


def _followed(field: str) -> Callable[[Session, Operation[Any, Any], Given], None]:
    def act(session: Session, operation: Operation[Any, Any], given: Given) -> None:
        from engrambus.edges.cli.places import full_ref

        given[field] = full_ref(given[field], session.folder, field)
        ask_and_show(session, operation, given)

    return act


def _granted(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    folder = given["pointer"].rstrip("/")
    if (session.folder / folder).is_dir():
        raise click.UsageError(f"'{folder}' is a folder; '{folder}/*' stands for every file in it.")
    _followed("pointer")(session, operation, given)


def _from_file(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    """A message is given as a file; - reads stdin."""
    ask_and_show(session, operation, _with_text(given))


def _with_text(given: Given) -> Given:
    from engrambus.edges.cli.bulk import read_text_file

    return {**given, "text": read_text_file(given["text"], "FILE")}


def _judged(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    """What would be refused is told as if it were: by the exit status too."""
    if "text" in given:
        given = _with_text(given)
    else:
        from engrambus.edges.cli.places import full_ref

        given = {**given, "pointer": full_ref(given["pointer"], session.folder, "pointer")}
    answer = ask(session, operation, given)
    session.answer(answer, SHOW[operation.name])
    if not answer.ok:
        click.get_current_context().exit(1)


def _anchor(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    from engrambus.edges.cli.anchor import complete

    ask_and_show(session, operation, complete(session, given))


def _verify(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    answer = ask(session, operation, given, "Reading the journal")
    session.answer(answer, SHOW[operation.name])
    if not answer.sound:
        click.get_current_context().exit(1)


def _record_tests(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    from pathlib import PurePath

    from engrambus.edges.cli.bulk import read_text_file
    from engrambus.operations.reports import MAX_TEXT

    file = given["report"]
    if "name" not in given and file != "-":
        given["name"] = PurePath(file).name
    ask_and_show(session, operation, {**given, "report": read_text_file(file, "FILE", MAX_TEXT)})


def _collect(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    session.answer(ask(session, operation, given, "Making room"), SHOW[operation.name])


def _verify_receipt(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    answer = ask(session, operation, given)
    session.answer(answer, SHOW[operation.name])
    if not answer.sound:
        click.get_current_context().exit(1)


def _apply_policy(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    from engrambus.core import read_yaml
    from engrambus.errors import BadText, PolicyInvalid
    from engrambus.policy import POLICY_FILE, find_project

    path = find_project(session.folder).catalog / POLICY_FILE
    try:
        said = read_yaml(path.read_text("utf-8"))
    except UnicodeDecodeError:
        raise BadText(f"{path} is not UTF-8.", field=POLICY_FILE) from None
    except FileNotFoundError:
        hint = "What was applied last stays in force. An empty file has the defaults."
        raise PolicyInvalid(f"There is no {path}.", field=POLICY_FILE, hint=hint) from None
    ask_and_show(session, operation, {"policy": {} if said is None else said})


def _contribute(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    """Evidence is given as kind=value."""
    parts = [(kind, mark, value) for kind, mark, value in (each.partition("=") for each in given.get("evidence", ()))]
    if not all(mark for _, mark, _ in parts):
        raise click.UsageError("--evidence takes kind=value: path=src/parser.py:10-20, or url, command_output, note.")
    given["evidence"] = [{"kind": kind, "value": value} for kind, _, value in parts]
    ask_and_show(session, operation, given)


_SCOPE = ("categories", "min_importance", "recency_window", "include_atoms", "visibility")


def _inherit(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    """The scope is given as options of its own."""
    scope = {name: given.pop(name) for name in _SCOPE if name in given}
    scope["include_working_memory"] = not given.pop("no_pins", False)
    ask_and_show(session, operation, {**given, "scope": scope})


MESSAGE_FILE = ("FILE", "The message in its form, as YAML or JSON; - reads stdin")

HOOKS: dict[str, Hook] = {
    "put": Hook(
        _put,
        (
            click.Option(
                ["--file", "file"],
                metavar="FILE",
                help="Put every engram of a JSONL file, one to a line; - reads stdin.",
            ),
            click.Option(["--from-line", "from_line"], type=click.IntRange(1), help="Where in the file to go on."),
        ),
        optional=True,
    ),
    "deref": Hook(_followed("pointer")),
    "anchor": Hook(
        _anchor,
        (click.Option(["--file", "file"], metavar="FILE", help="Read the text from a file; - reads stdin."),),
        optional=True,
    ),
    "link": Hook(_followed("ref")),
    "contribute": Hook(
        _contribute,
        (
            click.Option(
                ["--evidence"],
                multiple=True,
                metavar="KIND=VALUE",
                help="path=src/parser.py:10-20, or url, command_output, note (repeatable).",
            ),
        ),
    ),
    "inherit": Hook(
        _inherit,
        (
            click.Option(["--category", "categories"], multiple=True, help="Only these, and pins (repeatable)."),
            click.Option(["--min-importance"], type=float, help="From here on a memory is important [default: 0.7]"),
            click.Option(["--recency-window"], help="How far back is recent [default: P7D]"),
            click.Option(["--no-pins"], is_flag=True, help="Leave working memory out."),
            click.Option(["--atoms", "include_atoms"], is_flag=True, help="Engrams too."),
            click.Option(["--visibility"], multiple=True, help="A scope they may come from (repeatable)."),
        ),
    ),
    "grant issue": Hook(_granted),
    "grant ask": Hook(_followed("pointer")),
    "grant check": Hook(_judged),
    "message": Hook(_from_file, called=MESSAGE_FILE),
    "broadcast": Hook(_from_file, called=MESSAGE_FILE),
    "check": Hook(_judged, called=MESSAGE_FILE),
    "answer": Hook(_from_file, called=MESSAGE_FILE),
    "verify": Hook(_verify),
    "gc": Hook(_collect),
    "receipt junit": Hook(_record_tests, called=("FILE", "A test report in JUnit's XML; - reads stdin")),
    "receipt verify": Hook(_verify_receipt),
    "policy apply": Hook(_apply_policy),
}
