"""Commands about tuples that take more than the fields of an operation: files, steps and conditions."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from engrambus.edges.cli.ask import ask
from engrambus.edges.cli.command import Argument, Command
from engrambus.edges.cli.session import Session
from engrambus.edges.cli.show import SHOW
from engrambus.edges.cli.table import Entry
from engrambus.operations import OPERATIONS

_SIGNS = "=<>^?!~"
_CONDITION = re.compile(rf"\s*(?P<path>[^{_SIGNS}]+?)\s*(?P<sign>\^=|<=|>=|!=|=|<|>|\?|!)\s*(?P<value>.*)", re.DOTALL)
TUPLE_FILE = "The tuple, as JSON or YAML; - reads stdin"
MAX_FILE = 2 * 1024 * 1024
_OPERATORS = {"^=": "prefix", "<=": "le", ">=": "ge", "!=": "ne", "=": "eq", "<": "lt", ">": "gt"}


def dispatch(entry: Entry) -> Command:
    """`engrambus dispatch`"""
    file = Argument("file", None, TUPLE_FILE, required=True)

    def act(session: Session, given: dict[str, Any]) -> None:
        _send(session, "tuple_dispatch", _read_tuple(given["file"]))

    return Command("dispatch", entry, [file], act)


def out(entry: Entry) -> Command:
    """`engrambus out`"""
    parameters: list[click.Parameter] = [
        Argument("file", None, TUPLE_FILE, required=False),
        click.Option(["--lane", "lane"], help="Where it waits for a worker."),
        click.Option(["--yool", "yool"], help="The one step it has."),
        click.Option(
            ["--arg", "args"], multiple=True, metavar="NAME=VALUE", help="An argument of the step (repeatable)"
        ),
        click.Option(["--priority", "priority"], type=int, help="Higher goes first."),
        click.Option(["--parent", "parent_id"], metavar="ID", help="The tuple it is a part of."),
        click.Option(["--no-cache", "no_cache"], is_flag=True, help="Do everything anew."),
        click.Option(["--block", "block"], type=float, help="Seconds to wait while the lane is full."),
    ]
    return Command("out", entry, parameters, _out)


def _out(session: Session, given: dict[str, Any]) -> None:
    fields: dict[str, Any] = _read_tuple(given["file"]) if given["file"] else {}
    if not given["file"] and not given["lane"]:
        raise click.UsageError("Give a FILE that holds the tuple, or --lane.")
    if given["lane"]:
        fields["lane"] = given["lane"]
    if given["yool"]:
        fields["payload"] = [{"yool": given["yool"], "args": _arguments(given["args"])}]
    elif given["args"]:
        raise click.UsageError("--arg goes with --yool.")
    fields |= {name: given[name] for name in ("priority", "parent_id", "block") if given[name] is not None}
    if given["no_cache"]:
        from engrambus.errors import FieldType

        flags = fields.get("flags", {})
        if not isinstance(flags, dict):
            raise FieldType("Flags are names with true or false.", field="flags", limit="object")
        fields["flags"] = {**flags, "no_cache": True}
    _send(session, "tuple_out", fields)


def rd(entry: Entry) -> Command:
    """`engrambus rd`"""
    return Command("rd", entry, _pattern_parameters(), lambda session, given: _match(session, "tuple_rd", given))


def in_(entry: Entry) -> Command:
    """`engrambus in`"""
    return Command("in", entry, _pattern_parameters(), _take)


def _take(session: Session, given: dict[str, Any]) -> None:
    if given["lane"] is None and not given["where"]:  # it is for good
        raise click.UsageError("Say what to take: --lane or --where.")
    _match(session, "tuple_in", given)


def _pattern_parameters() -> list[click.Parameter]:
    return [
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
    ]


def _match(session: Session, name: str, given: dict[str, Any]) -> None:
    pattern: dict[str, dict[str, Any]] = {}
    for text in given["where"]:
        path, operator, value = read_condition(text)
        if operator in pattern.setdefault(path, {}):
            raise click.UsageError(f"{text!r}: '{path}' is compared like that already.")
        pattern[path][operator] = value
    fields = {key: given[key] for key in ("lane", "state", "timeout") if given[key] is not None}
    _send(session, name, {**fields, "pattern": pattern})


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
    from engrambus.edges.cli.bulk import read_text_file
    from engrambus.errors import FieldType

    text = read_text_file(file, "FILE", MAX_FILE)
    value = read_json(text.encode()) if text.lstrip().startswith("{") else read_yaml(text)
    if not isinstance(value, dict):
        raise FieldType("The file does not hold a tuple.", limit="object")
    return value


def _send(session: Session, name: str, fields: dict[str, Any]) -> None:
    operation = OPERATIONS[name]
    session.answer(ask(session, operation, fields), SHOW[name])
