"""From an operation's declaration to a command: its arguments and options are the fields of its request."""

from __future__ import annotations

from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click
import msgspec

from engrambus.edges.cli.command import Argument, CliCommand, Override, Values
from engrambus.edges.cli.session import Session, shared_options
from engrambus.evidence.pointers import Pointer
from engrambus.gateway import Operation
from engrambus.operations import OPERATIONS

_TYPES: dict[Any, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, str: click.STRING}
_PLAIN = Override(Session.call_and_print)


def build_command(name: str) -> CliCommand:
    """Return the command of the operation with that name."""
    operation = OPERATIONS[name]
    declared = operation.command
    if declared is None:
        raise ValueError(f"{name} has no command")
    override = find_override(operation)

    def run(session: Session, values: Values) -> None:
        override.run(session, operation, values)

    fields = parameters(operation, override) if override.with_fields else []
    word = declared.words.rpartition(" ")[2]
    text = f"{operation.summary}\n\n{operation.details}"
    return CliCommand(word, text, declared.example, [*fields, *override.parameters], run)


def find_override(operation: Operation[Any, Any]) -> Override:
    """Return the override an operation's command names, or the plain call of the operation."""
    if operation.command is None or operation.command.override is None:
        return _PLAIN
    module, _, name = operation.command.override.partition(":")
    override: Override = getattr(import_module(f"engrambus.edges.cli.commands.{module}"), name)
    return override


def parameters(operation: Operation[Any, Any], override: Override = _PLAIN) -> list[click.Parameter]:
    """Return what a command takes: some fields by position, every other that fits on a command line as an option."""
    fields = {field.name: field for field in msgspec.structs.fields(operation.request)}
    hints = get_type_hints(operation.request, include_extras=True)
    by_position = operation.command.arguments if operation.command else ()
    names = operation.command.option_names if operation.command else {}
    texts = operation.field_help
    # An option that every command takes chooses the same for the whole call: `--run`.
    shared = {flag for option in shared_options() for flag in option.opts}
    arguments = [
        Argument(
            name,
            *override.argument_help.get(name, (names.get(name), texts[name])),
            required=fields[name].required and not override.optional_arguments,
            many=get_origin(_without_annotations(hints[name])) is list,
        )
        for name in by_position
    ]
    options = (
        _option(field, hints[name], texts[name], names.get(name))
        for name, field in fields.items()
        if name not in by_position and f"--{name}" not in shared
    )
    return [*arguments, *(option for option in options if option is not None)]


def _option(field: msgspec.structs.FieldInfo, hint: Any, text: str, flag: str | None) -> click.Option | None:
    """Return a field as an option: a list's is in the singular and may be repeated, an object has none."""
    kind = _without_annotations(hint)
    if kind is bool:
        return click.Option([f"--{field.name.replace('_', '-')}", field.name], is_flag=True, help=text)
    many = get_origin(kind) is list  # `tags` becomes --tag, given once for each
    click_type = _click_type(_without_annotations(get_args(kind)[0]) if many else kind)
    if click_type is None:
        return None  # an object does not fit on a command line; its command has an override that reads it
    flag = flag or "--" + (field.name.removesuffix("s") if many else field.name).replace("_", "-")
    if many:
        text += " (repeatable)"
    elif isinstance(field.default, str | int) and field.default != "":  # the gateway applies it; here it is only shown
        text += f" [default: {field.default}]"
    return click.Option([flag, field.name], type=click_type, multiple=many, required=field.required, help=text)


def _without_annotations(hint: Any) -> Any:
    """Return the type without its description and without `None` or `UNSET`."""
    if get_origin(hint) is Annotated:
        return _without_annotations(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return _without_annotations(next(part for part in get_args(hint) if part not in (NoneType, msgspec.UnsetType)))
    return hint


def _click_type(kind: Any) -> click.ParamType[Any] | None:
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if kind is Pointer:  # given by its ref
        return click.STRING
    return _TYPES.get(kind)
