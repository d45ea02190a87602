"""The declaration of an operation: given once, with everything that every edge needs to offer it.

decision 3: HTTP routes with their OpenAPI, MCP tools, commands and SDK methods are all made from these declarations.
`tools/generate.py` writes the tables that must be readable without loading the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from inspect import getdoc
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args, get_type_hints

import msgspec

if TYPE_CHECKING:
    from engrambus.gateway.context import Context

Request = TypeVar("Request", bound=msgspec.Struct)
Response = TypeVar("Response", bound=msgspec.Struct)
Method = Literal["GET", "POST", "DELETE"]
Edge = Literal["http", "mcp", "cli", "client"]
Section = Literal["start", "knowledge", "work", "team", "maintenance"]
Span = Literal["create_memory", "search_memory", "update_memory", "delete_memory", "execute_tool"]

ANYONE = frozenset({"architect", "director", "manager", "programmer", "tool", "admin"})
PARENTS = frozenset({"architect", "director", "manager", "admin"})
TOOLS_AND_ADMINS = frozenset({"tool", "admin"})
ADMINS = frozenset({"admin"})
PEOPLE = frozenset({"admin", "person"})
"""Everybody who is no agent; a person who works over a server and does not administer the project may not call what is
declared for ADMINS."""


class Route(msgspec.Struct, frozen=True):
    """An operation's HTTP method and path; `{name}` in the path is a field of the request."""

    method: Method
    path: str
    body_limit: int = 64 * 1024
    """Bytes a request body may have."""
    conditional: bool = False
    """True if answers carry an ETag, so that a caller can ask whether anything changed."""


class Command(msgspec.Struct, frozen=True):
    """An operation's command at the command line, with everything its help says beyond the request's fields."""

    words: str
    """`agent add`"""
    section: Section
    """The part of `engrambus --help` that lists it."""
    example: str
    """One complete command line, shown below its help."""
    renderer: str
    """The function that prints the answer for people: `module:function` in `engrambus.edges.cli.show`."""
    arguments: tuple[str, ...] = ()
    """The fields given by position; all others are options."""
    option_names: dict[str, str] = {}
    """Fields whose option or argument is not called like the field: `{"for_agent": "--for", "q": "WORDS"}`."""
    override: str | None = None
    """A function that runs instead of the plain call: `module:function` in `engrambus.edges.cli.commands`."""
    rank: int = 50
    """Position in its help section, lowest first; equal ranks keep the order of declaration."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """The form of an operation as an MCP tool. Decision 15: an agent pays for every word of a tool's schema."""

    hidden: tuple[str, ...] = ()
    """Fields that are accepted but not shown."""
    explained: tuple[str, ...] = ()
    """Fields that keep their description, because the name alone does not say enough."""
    listed: tuple[str, ...] = ()
    """Fields that keep the list of their allowed values."""
    defaults: dict[str, Any] = {}
    """Values used where the agent sends none, when they differ from the request's own defaults."""
    writes_files: bool = False
    """True if it can write files although it leaves the store as it is."""
    needs_yools: bool = False
    """True if it is of no use, and not listed, before the project's catalog has a yool."""
    asks_permission: bool = False
    """True if no hook may skip the user's permission prompt.

    Such a call is refused in a session with sub-agents if no hook has marked it (decision 44)."""
    action: str | None = None
    """Its action in a tool of several operations: the value of the argument `action` that calls it (decision 58)."""
    part_of: str | None = None
    """The name of that tool; None for the operation that the tool is named after, whose action is the default."""
    about: str | None = None
    """What the tool is for, where the summary of its only or first operation does not say it in few words."""


class Resource(msgspec.Struct, frozen=True):
    """An MCP resource that returns an operation's answer; `{name}` in its address is a field of the request."""

    uri: str
    title: str
    media_type: str
    ttl_ms: int
    """How long a client may keep the answer without asking again."""


class Operation(msgspec.Struct, Generic[Request, Response], frozen=True, kw_only=True):
    """One thing a caller can do: a function from a frozen request to a frozen response."""

    name: str
    """The name of the SDK's method and the id in OpenAPI."""
    title: str
    """The dotted name of the specifications: `less.put_engram`. Errors and hints use it, too."""
    summary: str
    """One sentence for users: the first paragraph of the function's docstring."""
    request: type[Request]
    response: type[Response]
    roles: frozenset[str]
    """The roles that may call it."""
    run: Callable[[Context, Request], Response]
    writes: bool
    """True if it can change the store."""
    route: Route | None
    command: Command | None
    tool: Tool | None
    """Set if agents get it as an MCP tool."""
    absent_from: dict[str, str]
    """The edges that do not offer it, each with the reason."""
    details: str = ""
    """Further help for the command line: the rest of the docstring."""
    redacts: bool = False
    """True if the operation removes secrets from the request; otherwise the gateway refuses them."""
    resource: Resource | None = None
    """Set if MCP clients can read its answer at an address."""
    span: Span = "execute_tool"
    """Its name in OpenTelemetry's conventions for generative AI."""
    text_field: str | None = None
    """The field that takes a whole HTTP body as text, for operations that parse YAML or JSON themselves."""
    agent_fields: tuple[str, ...] = ()
    """Fields that name agents; the gateway resolves them to bare names, and moves an admin into the run of these."""
    role_fields: tuple[str, ...] = ()
    """Those of `agent_fields` that also take roles."""
    prose: tuple[str, ...] = ()
    """Fields in which people and agents write words; the gateway refuses code in them. `engrams.claim` is nested."""
    raw_fields: tuple[str, ...] = ()
    """Fields that take the content of a file: invisible characters in them are stored, and shown as escapes."""
    is_hashed: bool = False
    """True if readers hash the answer again, so that programs get its texts unchanged (decision 72)."""

    @property
    def tool_name(self) -> str:
        """The name of the MCP tool that calls it: its own without dots, which clients refuse, or one it is part of."""
        return (self.tool and self.tool.part_of) or self.title.replace(".", "_")

    @property
    def is_guarded(self) -> bool:
        """`Tool.asks_permission`; an operation that deletes something always asks."""
        if self.tool is None:
            return False
        return (self.route is not None and self.route.method == "DELETE") or self.tool.asks_permission

    @property
    def field_help(self) -> dict[str, str]:
        """The description of each field of the request."""
        hints = get_type_hints(self.request, include_extras=True)
        return {name: next(_descriptions(hint), "") for name, hint in hints.items()}


def _descriptions(hint: Any) -> Iterator[str]:
    """Yield the descriptions in a type hint, the outermost first."""
    for annotation in getattr(hint, "__metadata__", ()):
        if isinstance(annotation, msgspec.Meta) and annotation.description:
            yield annotation.description
    for part in get_args(hint):
        yield from _descriptions(part)


def prose_texts(request: msgspec.Struct, fields: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield field and text of everything that the named fields of a request hold."""
    for field in fields:
        yield from _texts(request, field.split("."), "")


def _texts(value: Any, names: list[str], location: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield location, value
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from _texts(item, names, f"{location}[{position}]")
    elif names and isinstance(value, msgspec.Struct):
        name = names[0]
        yield from _texts(getattr(value, name), names[1:], f"{location}.{name}" if location else name)


class Operations(Mapping[str, Operation[Any, Any]]):
    """Operations by name. Decision 39: the module that declares one is imported when it is first looked up."""

    def __init__(self, package: str, modules: Mapping[str, str]) -> None:
        """`modules` maps each module of the package to the names of its operations, separated by spaces."""
        self._package = package
        self._modules = {name: module for module, names in modules.items() for name in names.split()}

    def __getitem__(self, name: str) -> Operation[Any, Any]:
        module = self._modules[name]
        if name not in _DECLARED:
            import_module(f"{self._package}.{module}")
        return _DECLARED[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


def declared_in(module: str) -> list[Operation[Any, Any]]:
    """Import a module and return the operations it declares, in the order of declaration."""
    import_module(module)
    return [declared for declared in _DECLARED.values() if declared.run.__module__ == module]


_DECLARED: dict[str, Operation[Any, Any]] = {}
"""The operations of the modules that have been imported."""


def split_help(function: Callable[..., Any]) -> tuple[str, str]:
    """Return a docstring's first paragraph as one line, and the paragraphs after it."""
    summary, _, details = (getdoc(function) or "").partition("\n\n")
    return summary.replace("\n", " "), details


def operation(
    title: str,
    *,
    roles: frozenset[str] = ANYONE,
    writes: bool = False,
    route: Route | None = None,
    command: Command | None = None,
    tool: Tool | None = None,
    resource: Resource | None = None,
    span: Span = "execute_tool",
    absent_from: dict[str, str] | None = None,
    redacts: bool = False,
    text_field: str | None = None,
    agent_fields: tuple[str, ...] = (),
    role_fields: tuple[str, ...] = (),
    prose: tuple[str, ...] = (),
    raw_fields: tuple[str, ...] = (),
    is_hashed: bool = False,
) -> Callable[[Callable[[Context, Request], Response]], Callable[[Context, Request], Response]]:
    """Declare a function as an operation. Its types are those of request and response, its docstring is the help."""

    def declare(run: Callable[[Context, Request], Response]) -> Callable[[Context, Request], Response]:
        hints = get_type_hints(run, localns={"Context": Any})
        parameters = [hint for name, hint in hints.items() if name != "return"]
        name = run.__name__
        summary, details = split_help(run)
        if name in _DECLARED:
            raise ValueError(f"operation {name} is declared twice")
        _DECLARED[name] = Operation(
            name=name,
            title=title,
            summary=summary,
            details=details,
            request=parameters[-1],
            response=hints["return"],
            roles=roles,
            run=run,
            writes=writes,
            route=route,
            command=command,
            tool=tool,
            resource=resource,
            span=span,
            absent_from=absent_from or {},
            redacts=redacts,
            text_field=text_field,
            agent_fields=agent_fields,
            role_fields=role_fields,
            prose=prose,
            raw_fields=raw_fields,
            is_hashed=is_hashed,
        )
        return run

    return declare
