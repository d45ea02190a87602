"""Work commands with code of their own: tuples and their steps given as files or options, conditions, receipts."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.command import Argument, Values, override
from engrambus.edges.cli.commands.put_file import read_text_file
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.gateway import Operation

_SIGNS = "=<>^?!~"
_CONDITION = re.compile(rf"\s*(?P<path>[^{_SIGNS}]+?)\s*(?P<sign>\^=|<=|>=|!=|=|<|>|\?|!)\s*(?P<value>.*)", re.DOTALL)
TUPLE_FILE = "The tuple, as JSON or YAML; - reads stdin"
MAX_FILE = 2 * 1024 * 1024
_OPERATORS = {"^=": "prefix", "<=": "le", ">=": "ge", "!=": "ne", "=": "eq", "<": "lt", ">": "gt"}
_PATTERN_OPTIONS = (
    click.Option(["--lane", "lane"], help="Only this lane's."),
    click.Option(["--state", "state"], help="Only in this state: waiting, claimed, done, dead, cancelled."),
    click.Option(
        ["--where", "where"],
        multiple=True,
        metavar="CONDITION",
        help="A field by its path: map_pos.stack=python, state!=done, lane^=bu, priority>=5, parent_id? (there), "
        "flags! (not there); repeatable",
    ),
    click.Option(["--timeout", "timeout"], type=float, default=0.0, help="Seconds to wait for one."),
)


@override(Argument("file", None, TUPLE_FILE, required=True), with_fields=False)
def dispatch(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Dispatch a tuple read from a file."""
    session.call_and_print(operation, _read_tuple(values["file"]))


@override(
    Argument("file", None, TUPLE_FILE, required=False),
    click.Option(["--lane", "lane"], help="Where it waits for a worker."),
    click.Option(["--yool", "yool"], help="The one step it has."),
    click.Option(["--arg", "args"], multiple=True, metavar="NAME=VALUE", help="An argument of the step (repeatable)"),
    click.Option(["--priority", "priority"], type=int, help="Higher goes first."),
    click.Option(["--parent", "parent_id"], metavar="ID", help="The tuple it is a part of."),
    click.Option(["--no-cache", "no_cache"], is_flag=True, help="Do everything anew."),
    click.Option(["--block", "block"], type=float, help="Seconds to wait while the lane is full."),
    with_fields=False,
)
def out(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Put a tuple read from a file, or made from options."""
    if "file" not in values and "lane" not in values:
        raise click.UsageError("Give a FILE that holds the tuple, or --lane.")
    fields: Values = _read_tuple(values["file"]) if "file" in values else {}
    if "yool" in values:
        fields["payload"] = [{"yool": values["yool"], "args": _arguments(values.get("args", ()))}]
    elif "args" in values:
        raise click.UsageError("--arg goes with --yool.")
    fields |= {name: values[name] for name in ("lane", "priority", "parent_id", "block") if name in values}
    if values["no_cache"]:
        from engrambus.errors import FieldType

        flags = fields.get("flags", {})
        if not isinstance(flags, dict):
            raise FieldType("Flags are names with true or false.", field="flags", limit="object")
        fields["flags"] = {**flags, "no_cache": True}
    session.call_and_print(operation, fields)


@override(*_PATTERN_OPTIONS, with_fields=False)
def rd(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Read the oldest tuple that matches."""
    _match(session, operation, values)


@override(*_PATTERN_OPTIONS, with_fields=False)
def in_(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Take a tuple that matches."""
    if "lane" not in values and "where" not in values:  # taking is final, so an empty pattern is surely a mistake
        raise click.UsageError("Say what to take: --lane or --where.")
    _match(session, operation, values)


@override(argument_help=("FILE", "A test report in JUnit's XML; - reads stdin"))
def receipt_junit(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Record a test report read from a file."""
    from engrambus.operations.receipts import MAX_REPORT_BYTES

    file = values["report"]
    if "name" not in values and file != "-":
        values["name"] = PurePath(file).name
    session.call_and_print(operation, {**values, "report": read_text_file(file, "FILE", MAX_REPORT_BYTES)})


@override()
def receipt_verify(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Verify a receipt; exit with status 1 if anything is missing or damaged."""
    answer = session.call(operation, values)
    session.print_answer(operation, answer)
    if not answer.sound:
        click.get_current_context().exit(1)


def _match(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    pattern: dict[str, dict[str, Any]] = {}
    for text in values.get("where", ()):
        path, operator, value = read_condition(text)
        if operator in pattern.setdefault(path, {}):
            raise click.UsageError(f"{text!r}: '{path}' is compared like that already.")
        pattern[path][operator] = value
    fields: Values = {key: values[key] for key in ("lane", "state", "timeout") if key in values}
    session.call_and_print(operation, {**fields, "pattern": pattern})


def read_condition(text: str) -> tuple[str, str, Any]:
    """A condition as it is typed: `map_pos.stack=python`."""
    found = _CONDITION.fullmatch(text)
    if found is None or (found["value"] and (found["sign"] in ("?", "!") or found["value"][0] in _SIGNS)):
        raise click.UsageError(
            f"{text!r} is not a condition; write it like map_pos.stack=python or priority>=5, "
            'and a text that begins with a sign in quotes: map_pos.range=">5".'
        )
    if found["sign"] in ("?", "!"):
        return found["path"], "exists", found["sign"] == "?"
    return found["path"], _OPERATORS[found["sign"]], _value(found["value"])


def _arguments(given: tuple[str, ...]) -> dict[str, Any]:
    args: dict[str, Any] = {}
    for text in given:
        name, value = _pair(text)
        if name in args:
            raise click.UsageError(f"{text!r}: the argument '{name}' is given already.")
        args[name] = value
    return args


def _pair(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.UsageError(f"{text!r} is not NAME=VALUE.")
    return name, _value(value)


def _value(text: str) -> Any:
    """What was typed, as JSON if it is a number, true, false, null, or quoted; else as text."""
    try:
        value = json.loads(text, parse_constant=_not_json)
    except ValueError:
        return text
    return text if isinstance(value, dict | list) else value


def _not_json(name: str) -> None:
    """Python reads NaN and Infinity as numbers; here they are words."""
    raise ValueError(name)


def _read_tuple(file: str) -> dict[str, Any]:
    from engrambus.core import read_json, read_yaml
    from engrambus.errors import FieldType

    text = read_text_file(file, "FILE", MAX_FILE)
    value = read_json(text.encode()) if text.lstrip().startswith("{") else read_yaml(text)
    if not isinstance(value, dict):
        raise FieldType("The file does not hold a tuple.", limit="object")
    return value
