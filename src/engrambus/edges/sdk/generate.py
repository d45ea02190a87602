"""Writes `methods.py` from the declared operations: `python src/engrambus/edges/sdk/generate.py`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from engrambus.gateway import Operation
from engrambus.operations import OPERATIONS

TARGET = Path(__file__).with_name("methods.py")

_HEAD = '''\
"""Every operation as a typed method. Generated from the declarations; to renew it:

python src/engrambus/edges/sdk/generate.py
"""

# fmt: off
# ruff: noqa: A002, E501, I001, RUF100
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
{imports}


class Methods(ABC):
    """What one can do, one method each."""

    @abstractmethod
    def _do(self, name: str, fields: dict[str, Any], idempotency_key: str | None = None) -> Any:
        """Carry out the operation of that name."""
'''


def generate() -> str:
    """The module's text."""
    named: dict[str, str] = {}
    offered = [operation for operation in OPERATIONS.values() if "client" not in operation.absent_from]
    methods = [_method(operation, named) for operation in offered]
    doors: dict[str, list[str]] = {}
    for name, door in named.items():
        doors.setdefault(door, []).append(name)
    imports = "\n".join(f"    from {door} import {', '.join(sorted(doors[door]))}" for door in sorted(doors))
    return "\n".join([_HEAD.format(imports=imports), "\n".join(methods)])


def _method(operation: Operation[Any, Any], named: dict[str, str]) -> str:
    fields = {field.name: field for field in msgspec.structs.fields(operation.request)}
    hints = get_type_hints(operation.request, include_extras=True)
    required = tuple(name for name, field in fields.items() if field.required)
    about = operation.field_help
    by_position = (operation.command.arguments if operation.command else ()) or required
    order = [*by_position, *(name for name in fields if name not in by_position)]
    parameters = ["self"]
    explained = []
    for name in order:
        if len(parameters) == 1 + len(by_position):
            parameters.append("*")
        parameters.append(f"{name}: {_annotation(hints[name], named)}{_default(fields[name])}")
        explained.append(f"            {name}: {about[name]}")
    if operation.writes:
        if "*" not in parameters:
            parameters.append("*")
        parameters.append("idempotency_key: str | None = None")
        explained.append("            idempotency_key: Repeats under the same key are answered, not done again")
    if parameters[-1] == "*":
        parameters.pop()
    answer = _annotation(operation.response, named)
    values = ", ".join(f'"{name}": {name}' for name in order)
    key = ", idempotency_key" if operation.writes else ""
    lines = [f"    def {operation.name}(", *(f"        {each}," for each in parameters), f"    ) -> {answer}:"]
    if explained:
        lines += [f'        """{operation.summary}', "", "        Args:", *explained, '        """']
    else:
        lines.append(f'        """{operation.summary}"""')
    lines.append(f'        return cast("{answer}", self._do("{operation.name}", {{{values}}}{key}))')
    return "\n".join([*lines, ""])


def _annotation(kind: Any, named: dict[str, str]) -> str:
    """How a type is written in a signature; lists may also be given as tuples."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotation(arguments[0], named)
    if origin in (Union, UnionType):
        return " | ".join(_annotation(each, named) for each in arguments)
    if origin is Literal:
        return f"Literal[{', '.join(map(_quoted, arguments))}]"
    if origin is list:
        item = _annotation(arguments[0], named)
        return f"list[{item}] | tuple[{item}, ...]"
    if origin is dict:
        return f"dict[{', '.join(_annotation(each, named) for each in arguments)}]"
    if kind is Any:
        return "Any"
    if kind is NoneType:
        return "None"
    if kind is UnsetType:
        return "UnsetType"
    if kind.__module__ != "builtins":
        named[kind.__name__] = _door(kind)
    return str(kind.__name__)


def _quoted(text: str) -> str:
    return f'"{text}"'


def _door(kind: type) -> str:
    """The nearest package that offers the type by name; its own module when none does."""
    parts = kind.__module__.split(".")
    for length in range(2, len(parts)):
        package = ".".join(parts[:length])
        if kind.__name__ in getattr(import_module(package), "__all__", ()):
            return package
    return kind.__module__


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return ""
    if field.default is UNSET:
        return " = UNSET"
    if field.default is msgspec.NODEFAULT:
        return " = ()"
    return f" = {_quoted(field.default)}" if isinstance(field.default, str) else f" = {field.default!r}"


if __name__ == "__main__":
    TARGET.write_text(generate(), "utf-8")
