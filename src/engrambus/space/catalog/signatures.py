"""Signatures: which arguments a yool takes, read from its code when the catalog is built, and checked at `out`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from engrambus.errors import YoolArguments
from engrambus.space.catalog.names import nearest_names

if TYPE_CHECKING:
    from engrambus.space.catalog.registry import Run

JsonType = Literal["string", "integer", "number", "boolean", "array", "object", "null"]

MAX_PARAMETERS = 256
MAX_NAME_CHARS = 40
"""Characters of a name that errors quote."""
_JSON_TYPES: dict[Any, JsonType] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    tuple: "array",
    dict: "object",
    NoneType: "null",
    None: "null",
}
_COMMAND_TYPES: tuple[JsonType, ...] = ("string", "number")
"""Types of values that fit into an argument of a command."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One argument that a yool takes by name."""

    name: str
    types: tuple[JsonType, ...] = ()
    """JSON types it may have; empty if any, or if the code does not say it."""
    required: bool = True


class Signature(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The arguments a yool takes."""

    parameters: tuple[Parameter, ...] = ()
    takes_more: bool = False
    """True if it takes arguments of any other name, too."""

    def to_fields(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults."""
        fields: dict[str, Any] = msgspec.to_builtins(self, order="deterministic")
        return fields


def read_signature(run: Run) -> Signature | None:
    """Return the arguments that a function or a command takes; None for a function that does not say it."""
    if isinstance(run, tuple):
        from engrambus.space.catalog.registry import placeholders

        return Signature(parameters=tuple(Parameter(name=name, types=_COMMAND_TYPES) for name in placeholders(run)))
    return _signature_of_function(run)


def _signature_of_function(function: Callable[..., Any]) -> Signature | None:
    import inspect

    try:
        # The function that is called, not the one it wraps: a decorator may add arguments, or take any.
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):  # some functions of C have none
        return None
    if any(item.kind is item.POSITIONAL_ONLY for item in parameters):
        return None  # steps pass every argument by name
    try:
        hints = get_type_hints(function, include_extras=False)
    except Exception:  # annotations may name what exists only for type checkers
        hints = {}
    return Signature(
        parameters=tuple(
            Parameter(
                name=item.name,
                types=_with_default(_json_types(hints.get(item.name, Any)), item.default),
                required=item.default is item.empty,
            )
            for item in parameters
            if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)
        ),
        takes_more=any(item.kind is item.VAR_KEYWORD for item in parameters),
    )


def _with_default(types: tuple[JsonType, ...], default: Any) -> tuple[JsonType, ...]:
    """Return the types with that of a default None, which an annotation often leaves out: `path: str = None`."""
    return (*types, "null") if types and default is None and "null" not in types else types


def _json_types(hint: Any) -> tuple[JsonType, ...]:
    """Return the JSON types of a type hint; empty where one of its values could be of another type."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _json_types(get_args(hint)[0])
    if origin in (Union, UnionType):
        parts = [_json_types(part) for part in get_args(hint)]
        return tuple(dict.fromkeys(name for part in parts for name in part)) if all(parts) else ()
    if origin is Literal:
        return tuple(dict.fromkeys(_JSON_TYPES[type(value)] for value in get_args(hint) if type(value) in _JSON_TYPES))
    kind = _JSON_TYPES.get(hint if origin is None else origin)
    return () if kind is None else (kind,)


def check_arguments(yool: str, signature: Signature, args: Mapping[str, Any], position: int) -> None:
    """Refuse arguments that the yool of a step cannot be called with."""
    known = {parameter.name: parameter for parameter in signature.parameters}
    for name in args:
        if name not in known and not signature.takes_more:
            near = nearest_names(name[:MAX_NAME_CHARS], list(known))
            raise _refusal(
                yool, signature, position, name, "takes no argument", f"Did you mean '{near[0]}'?" if near else None
            )
    for parameter in signature.parameters:
        if parameter.required and parameter.name not in args:
            raise _refusal(yool, signature, position, parameter.name, "needs the argument")
        if parameter.name in args and not _fits(args[parameter.name], parameter.types):
            refusal = _refusal(yool, signature, position, parameter.name, "takes another type for the argument")
            refusal.used = str(msgspec.json.encode(args[parameter.name]).decode())[:80]
            raise refusal


def _refusal(
    yool: str, signature: Signature, position: int, name: str, problem: str, suggestion: str | None = None
) -> YoolArguments:
    outdated = "If its code has changed since, run: engrambus catalog build"
    return YoolArguments(
        f"'{yool}' {problem} '{name[:MAX_NAME_CHARS]}'.",
        field=f"payload[{position}].args.{name[:MAX_NAME_CHARS]}",
        limit=describe_signature(signature),
        hint=f"{suggestion} {outdated}" if suggestion else outdated,
    )


def describe_signature(signature: Signature) -> str:
    """Describe the arguments in one line: `path (string), fix (boolean, optional)`."""
    listed = [_describe(parameter) for parameter in signature.parameters]
    return ", ".join([*listed, *(["any other"] if signature.takes_more else [])]) or "none"


def _describe(parameter: Parameter) -> str:
    notes = [" or ".join(parameter.types), "" if parameter.required else "optional"]
    listed = ", ".join(filter(None, notes))
    return f"{parameter.name} ({listed})" if listed else parameter.name


def _fits(value: Any, types: tuple[JsonType, ...]) -> bool:
    return not types or any(_is_of(value, name) for name in types)


def _is_of(value: Any, name: JsonType) -> bool:
    match name:
        case "boolean":
            return isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            # As in JSON Schema: 1.0 is the integer 1.
            return not isinstance(value, bool) and (
                isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            )
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list | tuple)
        case "object":
            return isinstance(value, Mapping)
        case "null":
            return value is None
