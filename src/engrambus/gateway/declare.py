"""How an operation is declared: once, with everything an edge needs to offer it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args, get_type_hints

import msgspec

if TYPE_CHECKING:
    from engrambus.gateway.gateway import Context

Request = TypeVar("Request", bound=msgspec.Struct)
Response = TypeVar("Response", bound=msgspec.Struct)
Method = Literal["GET", "POST", "DELETE"]
Edge = Literal["http", "mcp", "cli", "client"]

ANYONE = frozenset({"architect", "director", "manager", "programmer", "tool", "admin"})
PARENTS = frozenset({"architect", "director", "manager", "admin"})
KEEPERS = frozenset({"tool", "admin"})
ADMINS = frozenset({"admin"})


class Route(msgspec.Struct, frozen=True):
    """Where an operation stands on HTTP; `{name}` in the path is a field of the request."""

    method: Method
    path: str


class Command(msgspec.Struct, frozen=True):
    """What an operation is called on the command line."""

    words: str
    """`agent add`"""
    arguments: tuple[str, ...] = ()
    """The fields given by position; all others are options."""


class Operation(msgspec.Struct, Generic[Request, Response], frozen=True, kw_only=True):
    """One thing one can do."""

    name: str
    """The client's method, the MCP tool (with `less_` where the title says so) and the OpenAPI id."""
    title: str
    """The dotted name that specifications and people use."""
    summary: str
    """One sentence a user could read."""
    request: type[Request]
    response: type[Response]
    roles: frozenset[str]
    """Who may call it."""
    run: Callable[[Context, Request], Response]
    writes: bool
    """Whether it can change anything."""
    route: Route | None
    command: Command | None
    tool: bool
    """Whether agents get it as an MCP tool."""
    kept_off: dict[str, str]
    """Edges it does not appear on, each with the reason."""
    redacts: bool = False
    """Whether secrets in the request are taken out by the operation instead of being refused."""
    tool_defaults: dict[str, Any] = {}
    """What the tool asks for where an agent says nothing, when that differs from the other edges."""
    text_field: str | None = None
    """The field that takes a whole body as text, for operations that read YAML or JSON of a form of their own."""

    @property
    def tool_name(self) -> str:
        """Its name as an MCP tool: no dots, since clients refuse them."""
        return self.title.replace(".", "_")

    @property
    def explained(self) -> dict[str, str]:
        """What each field of the request is."""
        hints = get_type_hints(self.request, include_extras=True)
        return {name: next(_descriptions(hint), "") for name, hint in hints.items()}


def _descriptions(hint: Any) -> Iterator[str]:
    """What is said of a type, outside first."""
    for each in getattr(hint, "__metadata__", ()):
        if isinstance(each, msgspec.Meta) and each.description:
            yield each.description
    for part in get_args(hint):
        yield from _descriptions(part)


class Operations(Mapping[str, Operation[Any, Any]]):
    """Operations by name; the module that declares one is loaded when it is asked for."""

    def __init__(self, package: str, rooms: Mapping[str, str]) -> None:
        self._package = package
        self._homes = {name: module for module, names in rooms.items() for name in names.split()}

    def __getitem__(self, name: str) -> Operation[Any, Any]:
        home = self._homes[name]
        if name not in _DECLARED:
            import_module(f"{self._package}.{home}")
        return _DECLARED[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


_DECLARED: dict[str, Operation[Any, Any]] = {}
"""The operations of the modules that are loaded."""


def operation(
    title: str,
    *,
    roles: frozenset[str] = ANYONE,
    writes: bool = False,
    route: Route | None = None,
    command: Command | None = None,
    tool: bool = False,
    kept_off: dict[str, str] | None = None,
    redacts: bool = False,
    tool_defaults: dict[str, Any] | None = None,
    text_field: str | None = None,
) -> Callable[[Callable[[Context, Request], Response]], Callable[[Context, Request], Response]]:
    """Declare a function as an operation. Its types are the request and the response, its docstring the summary."""

    def declared(run: Callable[[Context, Request], Response]) -> Callable[[Context, Request], Response]:
        hints = get_type_hints(run, localns={"Context": Any})
        parameters = [hint for name, hint in hints.items() if name != "return"]
        name = run.__name__
        if name in _DECLARED:
            raise ValueError(f"operation {name} is declared twice")
        _DECLARED[name] = Operation(
            name=name,
            title=title,
            summary=(run.__doc__ or "").strip().partition("\n")[0],
            request=parameters[-1],
            response=hints["return"],
            roles=roles,
            run=run,
            writes=writes,
            route=route,
            command=command,
            tool=tool,
            kept_off=kept_off or {},
            redacts=redacts,
            tool_defaults=tool_defaults or {},
            text_field=text_field,
        )
        return run

    return declared
