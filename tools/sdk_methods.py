"""The text of `edges/sdk/methods.py`: a typed method for every declared operation."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from engrambus.gateway import Operation
from engrambus.operations import OPERATIONS

TARGET = Path(__file__).parents[1] / "src" / "engrambus" / "edges" / "sdk" / "methods.py"

_HEAD = '''\
"""Every operation as a typed method. Generated from the `@operation` declarations by tools/generate.py."""

# fmt: off
# ruff: noqa: A002, E501, I001, RUF100
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from collections.abc import Sequence

{imports}


class Methods(ABC):
    """One method for each operation."""

    @abstractmethod
    def _do(self, name: str, fields: dict[str, Any], idempotency_key: str | None = None) -> Any:
        """Call the operation of that name."""
'''


def generate() -> str:
    """Return the module's text."""
    packages: dict[str, str] = {}
    offered = [operation for operation in OPERATIONS.values() if "client" not in operation.absent_from]
    methods = [_method(operation, packages) for operation in offered]
    names: dict[str, list[str]] = {}
    for name, package in packages.items():
        names.setdefault(package, []).append(name)
    imports = "\n".join(f"    from {package} import {', '.join(sorted(names[package]))}" for package in sorted(names))
    return "\n".join([_HEAD.format(imports=imports), "\n".join(methods)])


def _method(operation: Operation[Any, Any], packages: dict[str, str]) -> str:
    fields = {field.name: field for field in msgspec.structs.fields(operation.request)}
    hints = get_type_hints(operation.request, include_extras=True)
    required = tuple(name for name, field in fields.items() if field.required)
    descriptions = operation.field_help
    by_position = (operation.command.arguments if operation.command else ()) or required
    order = [*by_position, *(name for name in fields if name not in by_position)]
    parameters = ["self"]
    explained = []
    for name in order:
        if len(parameters) == 1 + len(by_position):
            parameters.append("*")
        parameters.append(f"{name}: {_annotation(hints[name], packages)}{_default(fields[name])}")
        explained.append(f"            {name}: {descriptions[name]}")
    if operation.writes:
        if "*" not in parameters:
            parameters.append("*")
        parameters.append("idempotency_key: str | None = None")
        explained.append("            idempotency_key: A repeated call with the same key returns the first answer")
    if parameters[-1] == "*":
        parameters.pop()
    answer = _annotation(operation.response, packages)
    values = ", ".join(f'"{name}": {name}' for name in order)
    key = ", idempotency_key" if operation.writes else ""
    lines = [
        f"    def {operation.name}(",
        *(f"        {parameter}," for parameter in parameters),
        f"    ) -> {answer}:",
    ]
    if explained:
        lines += [f'        """{operation.summary}', "", "        Args:", *explained, '        """']
    else:
        lines.append(f'        """{operation.summary}"""')
    lines.append(f'        return cast("{answer}", self._do("{operation.name}", {{{values}}}{key}))')
    return "\n".join([*lines, ""])


def _annotation(kind: Any, packages: dict[str, str]) -> str:
    """Return a type as it is written in a signature; a list parameter also takes a tuple."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotation(arguments[0], packages)
    if origin in (Union, UnionType):
        return " | ".join(_annotation(argument, packages) for argument in arguments)
    if origin is Literal:
        return f"Literal[{', '.join(map(_quoted, arguments))}]"
    if origin is list:
        item = _annotation(arguments[0], packages)
        # A list of one of several types is no list of all of them, but it is such a sequence.
        return f"Sequence[{item}]" if " | " in item else f"list[{item}] | tuple[{item}, ...]"
    if origin is dict:
        return f"dict[{', '.join(_annotation(argument, packages) for argument in arguments)}]"
    if kind is Any:
        return "Any"
    if kind is NoneType:
        return "None"
    if kind is UnsetType:
        return "UnsetType"
    if kind.__module__ != "builtins":
        packages[kind.__name__] = _exporting_package(kind)
    return str(kind.__name__)


def _quoted(text: str) -> str:
    return f'"{text}"'


def _exporting_package(kind: type) -> str:
    """Return the outermost package that exports the type, or its own module if none does."""
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
