"""From an operation's declaration to a command: words, arguments and options, all read off its request."""

from __future__ import annotations

from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click
import msgspec

from engrambus.edges.cli.command import Argument, Command
from engrambus.edges.cli.hooks import HOOKS, PLAIN, Hook
from engrambus.edges.cli.session import Session
from engrambus.edges.cli.table import Entry
from engrambus.evidence.pointers import Pointer
from engrambus.gateway import Operation
from engrambus.operations import OPERATIONS

_TYPES: dict[Any, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, str: click.STRING}

SPELT = {"for_agent": "--for", "proposed_categories": "--category", "categories": "--category"}
"""Fields whose option is not their name."""


def build(words: str, entry: Entry) -> click.Command:
    """The command those words call."""
    module, _, name = entry.made_of.rpartition(":")
    if module:
        command: click.Command = getattr(import_module(f"engrambus.edges.cli.{module}"), name)(entry)
        return command
    operation = OPERATIONS[name]
    hook = HOOKS.get(words, PLAIN)

    def act(session: Session, given: dict[str, Any]) -> None:
        hook.act(session, operation, {name: value for name, value in given.items() if value not in (None, ())})

    return Command(words.rpartition(" ")[2], entry, [*parameters(operation, hook), *hook.parameters], act)


def parameters(operation: Operation[Any, Any], hook: Hook = PLAIN) -> list[click.Parameter]:
    """What a command takes: some fields by position, every other that fits on a command line as an option."""
    fields = {field.name: field for field in msgspec.structs.fields(operation.request)}
    hints = get_type_hints(operation.request, include_extras=True)
    by_position = operation.command.arguments if operation.command else ()
    about = operation.explained
    options = (_option(field, hints[name], about[name]) for name, field in fields.items() if name not in by_position)
    return [
        *(
            Argument(name, *(hook.called or (None, about[name])), required=fields[name].required and not hook.optional)
            for name in by_position
        ),
        *(option for option in options if option is not None),
    ]


def _option(field: msgspec.structs.FieldInfo, hint: Any, text: str) -> click.Option | None:
    """A field as an option: a list's is in the singular and may be repeated, an object has none."""
    kind = _plain(hint)
    if kind is bool:
        return click.Option([f"--{field.name.replace('_', '-')}", field.name], is_flag=True, help=text)
    many = get_origin(kind) is list
    shown = _type(_plain(get_args(kind)[0]) if many else kind)
    if shown is None:
        return None
    flag = SPELT.get(field.name) or "--" + (field.name.removesuffix("s") if many else field.name).replace("_", "-")
    if many:
        text += " (repeatable)"
    elif isinstance(field.default, str | int) and field.default != "":
        text += f" [default: {field.default}]"
    return click.Option([flag, field.name], type=shown, multiple=many, required=field.required, help=text)


def _plain(hint: Any) -> Any:
    """The type without its description and without its ways of being absent."""
    if get_origin(hint) is Annotated:
        return _plain(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return _plain(next(each for each in get_args(hint) if each not in (NoneType, msgspec.UnsetType)))
    return hint


def _type(kind: Any) -> click.ParamType[Any] | None:
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if kind is Pointer:  # given by its ref
        return click.STRING
    return _TYPES.get(kind)
