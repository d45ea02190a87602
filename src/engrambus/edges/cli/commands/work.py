"""Work commands with code of their own: tasks given as files or options, conditions on tuples, receipts."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.command import Argument, Values, override
from engrambus.edges.cli.inputs import STDIN, read_text_file
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.gateway import Operation

MAX_TUPLE_BYTES = 2 * 1024 * 1024
_SIGNS = "=<>^?!~"
_CONDITION = re.compile(rf"\s*(?P<path>[^{_SIGNS}]+?)\s*(?P<sign>\^=|<=|>=|!=|=|<|>|\?|!)\s*(?P<value>.*)", re.DOTALL)
_OPERATORS = {"^=": "prefix", "<=": "le", ">=": "ge", "!=": "ne", "=": "eq", "<": "lt", ">": "gt"}
_TUPLE_FILE = "The task (tuple) as JSON or YAML; - reads stdin"
_PATTERN_OPTIONS = (
    click.Option(["--lane", "lane"], help="Only tuples of this lane (queue)."),
    click.Option(["--state", "state"], help="Only tuples in this state: waiting, blocked, claimed, done, …."),
    click.Option(
        ["--where", "where"],
        multiple=True,
        metavar="CONDITION",
        help="Only tuples with a field like this: map_pos.stack=python, state!=done, lane^=bu (begins with), "
        "priority>=5, payload[0].yool=agent.lint.ruff, parent_id? (is set), flags! (is not set) (repeatable).",
    ),
    click.Option(["--timeout", "timeout"], type=float, default=0.0, help="Seconds to wait for a tuple that matches."),
)


@override(Argument("file", None, _TUPLE_FILE, required=True), with_fields=False)
def dispatch(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Submit a tuple read from a file."""
    session.call_and_print(operation, read_tuple_file(values["file"]))


@override(
    Argument("file", None, _TUPLE_FILE, required=False),
    click.Option(["--lane", "lane"], help="The lane (queue) to put it into."),
    click.Option(["--yool", "yool"], help="The function to run, by its name in the catalog: a task of one step."),
    click.Option(
        ["--arg", "args"],
        multiple=True,
        metavar="NAME=VALUE",
        help="With --yool: an argument of the step (repeatable).",
    ),
    click.Option(["--priority", "priority"], type=int, help="Tasks with a higher number run first."),
    click.Option(["--key", "key"], help="Its concurrency key: `engrambus limit set --key` says how many run."),
    click.Option(["--parent", "parent_id"], metavar="ID", help="The task it is a part of."),
    click.Option(
        ["--after", "after"],
        multiple=True,
        metavar="ID",
        help="A task that must be done first: until then this one is blocked (repeatable).",
    ),
    click.Option(["--no-cache", "no_cache"], is_flag=True, help="Run every step, even if its result is known."),
    click.Option(
        ["--in", "delay"], metavar="DURATION", help="How long it waits before a worker may claim it: PT10M, P1D."
    ),
    click.Option(
        ["--at", "not_before"],
        metavar="TIME",
        help="When a worker may first claim it: 2026-12-01T09:00+01:00.",
    ),
    click.Option(["--block", "block"], type=float, help="Seconds to wait while the lane is full."),
    with_fields=False,
)
def out(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Put a tuple read from a file, or made from options."""
    if "file" not in values and "lane" not in values:
        raise click.UsageError("Give a FILE that holds the tuple, or --lane.")
    fields: Values = read_tuple_file(values["file"]) if "file" in values else {}
    if "yool" in values:
        fields["payload"] = [{"yool": values["yool"], "args": step_arguments(values.get("args", ()))}]
    elif "args" in values:
        raise click.UsageError("--arg goes with --yool.")
    # Options win over the file: one file can be put into several lanes.
    fields |= {name: values[name] for name in ("lane", "priority", "parent_id", "block") if name in values}
    if values.get("after"):
        fields["after"] = list(values["after"])
    if "key" in values:
        from engrambus.errors import FieldType

        terms = fields.get("agent_terms", {})
        if not isinstance(terms, dict):
            raise FieldType("Terms are names with values.", field="agent_terms", limit="object")
        fields["agent_terms"] = {**terms, "concurrency_key": values["key"]}
    if values["no_cache"]:
        from engrambus.errors import FieldType

        flags = fields.get("flags", {})
        if not isinstance(flags, dict):
            raise FieldType("Flags are names with true or false.", field="flags", limit="object")
        fields["flags"] = {**flags, "no_cache": True}
    if "delay" in values or "not_before" in values:
        fields = _delayed(fields, values)
    session.call_and_print(operation, fields)


@override(
    Argument("file", None, "The tuple of each leaf as JSON or YAML; - reads stdin", required=False),
    click.Option(["--lane", "lane"], help="The lane (queue) of its leaves."),
    click.Option(["--yool", "yool"], help="The function each leaf runs, by its name in the catalog."),
    click.Option(
        ["--arg", "args"],
        multiple=True,
        metavar="NAME=VALUE",
        help="With --yool: an argument (repeatable); ${agent.path} and ${agent.number} in it are filled in.",
    ),
    click.Option(["--depth", "depth"], type=int, help="Levels below the root."),
    click.Option(["--branching", "branching"], type=int, help="Children of each node above the leaves."),
    click.Option(
        ["--threshold", "compression_threshold"],
        type=int,
        help="Leaves from which the batch is put folded; YOOL_TUPLE_COMPRESSION_THRESHOLD by default.",
    ),
    click.Option(["--budget-usd", "budget_usd"], type=float, help="What all agents of the batch may spend together."),
    click.Option(["--priority", "priority"], type=int, help="Tasks with a higher number run first."),
    click.Option(["--parent", "parent_id"], metavar="ID", help="The task it is a part of."),
    with_fields=False,
)
def batch_spawn(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Spawn a batch from a file, or from options."""
    if "file" not in values and "lane" not in values:
        raise click.UsageError("Give a FILE that holds the tuple of a leaf, or --lane.")
    fields: Values = read_tuple_file(values["file"]) if "file" in values else {}
    if "yool" in values:
        fields["payload"] = [{"yool": values["yool"], "args": step_arguments(values.get("args", ()))}]
    elif "args" in values:
        raise click.UsageError("--arg goes with --yool.")
    names = ("lane", "priority", "parent_id", "depth", "branching", "compression_threshold")
    fields |= {name: values[name] for name in names if name in values}
    session.option_names["compression_threshold"] = "--threshold"
    if "budget_usd" in values:
        fields["agent_terms"] = {**fields.get("agent_terms", {}), "budget_usd": values["budget_usd"]}
    session.call_and_print(operation, fields)


@override(argument_help={"id": ("ID[/PATH]", "The batch's id, or its first digits, and a node of it like /0.3")})
def batch_compress(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Fold what is idle below a node."""
    batch_id, slash, path = values["id"].partition("/")
    session.call_and_print(operation, {**values, "id": batch_id, **({"path": path} if slash else {})})


def _delayed(fields: Values, values: Values) -> Values:
    """Return the fields with the delay that the options ask for, instead of any in the file."""
    from engrambus.errors import FieldType

    if "delay" in values and "not_before" in values:
        raise click.UsageError("Give --in or --at, not both.")
    terms = fields.get("agent_terms", {})
    if not isinstance(terms, dict):
        raise FieldType("Terms are names with values.", field="agent_terms", limit="object")
    terms = {name: value for name, value in terms.items() if name != "not_before_iso"}
    fields = {name: value for name, value in fields.items() if name != "delay"}
    if "delay" in values:
        return {**fields, "agent_terms": terms, "delay": values["delay"]}
    return {**fields, "agent_terms": {**terms, "not_before_iso": values["not_before"]}}


@override(*_PATTERN_OPTIONS, with_fields=False)
def rd(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Show the oldest tuple that matches."""
    _match(session, operation, values)


@override(*_PATTERN_OPTIONS, with_fields=False)
def in_(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Take the oldest waiting tuple that matches."""
    if "lane" not in values and "where" not in values:  # taking is final, so an empty pattern is surely a mistake
        raise click.UsageError("Say what to take: --lane or --where.")
    _match(session, operation, values)


def _match(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    session.option_names["pattern"] = "--where"
    pattern: dict[str, dict[str, Any]] = {}
    for text in values.get("where", ()):
        path, operator, value = read_condition(text)
        if operator in pattern.setdefault(path, {}):
            raise click.UsageError(f"{text!r}: there is another condition of this kind on '{path}'.")
        pattern[path][operator] = value
    fields: Values = {name: values[name] for name in ("lane", "state", "timeout") if name in values}
    session.call_and_print(operation, {**fields, "pattern": pattern})


def read_condition(text: str) -> tuple[str, str, Any]:
    """Return path, operator and value of a condition as it is typed: `map_pos.stack=python`."""
    match = _CONDITION.fullmatch(text)
    if match is None or (match["value"] and (match["sign"] in ("?", "!") or match["value"][0] in _SIGNS)):
        raise click.UsageError(
            f"{text!r} is not a condition. Write it like map_pos.stack=python or priority>=5; "
            'put a text that begins with a sign in quotes: map_pos.range=">5".'
        )
    if match["sign"] in ("?", "!"):
        return match["path"], "exists", match["sign"] == "?"
    return match["path"], _OPERATORS[match["sign"]], _value(match["value"])


def step_arguments(texts: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments of a step, as they are typed: NAME=VALUE."""
    arguments: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise click.UsageError(f"{text!r} is not NAME=VALUE.")
        if name in arguments:
            raise click.UsageError(f"{text!r}: the argument '{name}' is given twice.")
        arguments[name] = _value(value)
    return arguments


def _value(text: str) -> Any:
    """Return a typed value: as JSON if it is a number, true, false, null, quoted or a list; else as text."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return text
    return text if isinstance(value, dict) else value


def _refuse_constant(name: str) -> None:
    """Python's reader takes NaN and Infinity for numbers; here they are words."""
    raise ValueError(name)


def read_tuple_file(file: str) -> Values:
    """Return the fields of a tuple from a file, JSON or YAML."""
    from engrambus.core import read_json, read_yaml
    from engrambus.errors import FieldType

    text = read_text_file(file, "FILE", MAX_TUPLE_BYTES)
    # JSON is also YAML, but its own reader refuses duplicate keys and names the line of a mistake.
    value = read_json(text.encode()) if text.lstrip().startswith("{") else read_yaml(text)
    if not isinstance(value, dict):
        raise FieldType("The file does not hold a tuple.", limit="object")
    return value


@override(
    argument_help={
        "report": ("FILE", "A test report in JUnit's XML, as pytest and most test runners write it; - reads stdin")
    }
)
def receipt_junit(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Record a test report read from a file."""
    from engrambus.operations.receipts import MAX_REPORT_BYTES

    file = values["report"]
    if "name" not in values and file != STDIN:
        values["name"] = PurePath(file).name
    session.call_and_print(operation, {**values, "report": read_text_file(file, "FILE", MAX_REPORT_BYTES)})


@override()
def receipt_verify(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Check a receipt; exit with status 1 if anything is missing or damaged."""
    answer = session.call(operation, values)
    session.print_answer(operation, answer)
    if not answer.sound:
        click.get_current_context().exit(1)
