"""Yools from code: a decorator registers a function, or a command, under a name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from engrambus.errors import YoolArguments, YoolContract, YoolNotFound, YoolTwice
from engrambus.space.catalog.entries import (
    AUTHORITIES,
    CatalogEntry,
    Contract,
    Effect,
    check_contract,
    one_line,
    read_authority,
    read_micros,
    read_terms,
)
from engrambus.space.catalog.names import check_not_reserved, parse_name, read_lane

MAX_ARGUMENT = 32_768
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

Implementation = Callable[..., Any] | list[str] | tuple[str, ...]
Run = Callable[..., Any] | tuple[str, ...]
T = TypeVar("T", bound=Implementation)


class Yool(msgspec.Struct, frozen=True, kw_only=True):
    """A yool with the code that runs it."""

    entry: CatalogEntry
    run: Run
    """A function, sync or async, called with the step's `args` by name; or a command, see `fill_argv`."""

    @property
    def kind(self) -> Literal["function", "async", "command"]:
        """The way it is run."""
        if isinstance(self.run, tuple):
            return "command"
        from inspect import iscoroutinefunction

        return "async" if iscoroutinefunction(self.run) else "function"


class Registry:
    """The yools this process can run, by name and version."""

    def __init__(self, yools: Iterable[Yool] = ()) -> None:
        self._versions: dict[str, dict[int, Yool]] = {}  # as in the catalog, versions below their name (decision 21)
        for yool in yools:
            self.add(yool)

    def add(self, yool: Yool) -> None:
        """Register a yool; refuse a version that other code registered."""
        versions = self._versions.setdefault(yool.entry.name, {})
        registered = versions.setdefault(yool.entry.version, yool)
        same_code = _is_same_code(registered.run, yool.run)
        if not same_code or registered.entry != yool.entry:
            difference = ", with different declarations" if same_code else ""
            sources = f"by {_describe(registered.run)} and by {_describe(yool.run)}"
            raise YoolTwice(
                f"'{yool.entry.full_name}' is registered twice{difference}: {sources}.",
                field="name",
                used=yool.entry.full_name,
                hint=f"Give one of them the next version: {yool.entry.name}.v{max(versions) + 1}.",
            )
        if _is_in_script(registered.run):  # the same code as a module can be imported by any process
            versions[yool.entry.version] = yool

    def get(self, name: str) -> Yool | None:
        """Return the yool of that name, the newest version unless one is named; None if there is none."""
        base, version = parse_name(name)
        versions = self._versions.get(base)
        return versions.get(max(versions) if version is None else version) if versions else None

    def lookup(self, name: str) -> Yool:
        """Return the yool of that name, or refuse with a hint."""
        yool = self.get(name)
        if yool is None:
            versions = ", ".join(f"v{version}" for version in sorted(self._versions.get(parse_name(name).base, ())))
            raise YoolNotFound(
                f"No imported code implements '{name}'{versions and f', only {versions}'}.",
                field="name",
                used=name,
                hint="Name the module that registers it: engrambus worker --import MODULE",
            )
        return yool

    def __iter__(self) -> Iterator[Yool]:
        """Yield every yool, sorted by name and version."""
        for _, versions in sorted(self._versions.items()):
            for _, yool in sorted(versions.items()):
                yield yool

    def yool(
        self,
        name: str,
        *,
        lane: str,
        effect: Effect = "writes",
        authority: Iterable[str] = ("user", "ci"),
        terms: Mapping[str, int | float] | None = None,
        inputs: Iterable[str] | None = None,
        env: Iterable[str] = (),
        cost_usd: int | float | None = None,
        cost_tokens: int | None = None,
        cached: bool | None = None,
        artifacts: Mapping[str, str] | None = None,
        about: str | None = None,
    ) -> Callable[[T], T]:
        """Register the function or list of arguments that follows as a yool.

        Args:
            name: Its name, `agent.lint.ruff`, with or without a version; without one it is version 1
            lane: The lane its tuples wait in
            effect: `pure` (writes no file and uses no network), `reads` (writes nothing in the project), or `writes`
            authority: The authorities it may run on: user, agent, ci
            terms: Default limits of a step, written like `agent_terms`
            inputs: Files the result depends on, as patterns relative to the project; `[]` if it reads no file. Without
                it, every step runs
            env: The environment variables it sees
            cost_usd: Expected cost of one execution
            cost_tokens: Expected number of tokens of one execution
            cached: False if every step runs; by default a result is reused for the same input if `inputs` is given
            artifacts: Kinds of the files it leaves, by pattern of their path: `{"report.xml": "junit"}`
            about: Its purpose; by default the first line of the docstring
        """
        for field, text in (("name", name), ("lane", lane), ("about", "" if about is None else about)):
            if not isinstance(text, str):
                raise YoolContract(f"'{field}' is not a text.", field=field, used=str(text)[:40])
        base, version = parse_name(name)
        check_not_reserved(base)
        contract = Contract(
            effect=effect,
            inputs=None if inputs is None else _texts(inputs, "inputs"),
            env=tuple(sorted(set(_texts(env, "env")))),
            cost_micros=None if cost_usd is None else read_micros(cost_usd, "cost_usd"),
            cost_tokens=cost_tokens,
            cached=_read_cached(cached, inputs),
            artifacts={} if artifacts is None else artifacts,  # type: ignore[arg-type]
        )
        entry = CatalogEntry(
            name=base,
            version=version or 1,
            authority=read_authority(authority if isinstance(authority, str) else _texts(authority, "authority")),
            lane=read_lane(lane),
            terms=read_terms({} if terms is None else terms, "terms"),
            contract=check_contract(contract),
            about=one_line(about),
        )

        def register(implementation: T) -> T:
            run: Run
            if isinstance(implementation, list | tuple):
                run = check_argv(implementation)
            elif callable(implementation):
                run = implementation
            else:
                raise YoolContract("A yool is a function or a list of arguments.", field="run")
            purpose = about if about is not None or isinstance(run, tuple) else run.__doc__
            self.add(Yool(entry=msgspec.structs.replace(entry, about=one_line(purpose)), run=run))
            return implementation

        return register


def _read_cached(cached: bool | None, inputs: Iterable[str] | None) -> bool:
    """Return whether a yool allows that its results are reused; refuse to promise that without declared inputs."""
    if cached and inputs is None:
        raise YoolContract(
            "cached=True needs inputs: without them a result would be reused whatever becomes of the files it was made "
            "from.",
            field="inputs",
            hint="Write inputs=[…] with the files and folders it reads, or inputs=[] if it reads no file.",
        )
    return cached is None or cached


def _texts(values: Iterable[str], field: str) -> tuple[str, ...]:
    """Return a list of texts as a tuple; refuse a single text, which would be a list of its letters."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise YoolContract(f"'{field}' is a list of texts.", field=field, used=str(values)[:40])
    texts = tuple(values)
    if not all(isinstance(text, str) for text in texts):
        raise YoolContract(f"'{field}' is a list of texts.", field=field)
    return texts


def _is_in_script(run: Run) -> bool:
    return getattr(run, "__module__", None) in ("__main__", "__mp_main__")


def _source_of(run: Run) -> tuple[str, int, str] | None:
    """Return file, line and qualified name of a function."""
    from inspect import unwrap

    code = None if isinstance(run, tuple) else getattr(unwrap(run), "__code__", None)
    return code and (os.path.realpath(code.co_filename), code.co_firstlineno, code.co_qualname)


def _is_same_code(first: Run, second: Run) -> bool:
    """True for the same command or function, and for a function of a script that was also imported as a module."""
    if first == second:
        return True
    source = _source_of(first) if _is_in_script(first) or _is_in_script(second) else None
    return source is not None and source == _source_of(second)


def _describe(run: Run) -> str:
    if isinstance(run, tuple):
        return f"the command '{run[0]}'"
    return f"{getattr(run, '__module__', '?')}.{getattr(run, '__qualname__', repr(run))}"


def catalog_yool(name: str, run: Callable[..., Any]) -> Yool:
    """Return a yool of the reserved domain `catalog`, which every authority may run."""
    # decision 21: not cached, because the catalog's file may lie outside the folder that steps run in.
    entry = CatalogEntry(
        name=name,
        version=1,
        authority=AUTHORITIES,
        lane="catalog",
        contract=Contract(effect="reads", cached=False),
        about=one_line(run.__doc__),
    )
    return Yool(entry=entry, run=run)


# Commands: a list of arguments, never a line for a shell


def check_argv(argv: Sequence[Any], field: str = "argv") -> tuple[str, ...]:
    """Return a command, a program and its arguments; `${name}` stands for an argument of the step."""
    if not argv or not all(isinstance(part, str) and "\0" not in part for part in argv) or not argv[0]:
        raise YoolContract("A command is a list of texts: a program and its arguments.", field=field)
    if _PLACEHOLDER.search(argv[0]):
        raise YoolContract("The program itself cannot be an argument.", field=f"{field}[0]", used=argv[0][:200])
    return tuple(argv)


def placeholders(argv: Sequence[str]) -> list[str]:
    """Return the names of the arguments that a command takes, in their order."""
    return list(dict.fromkeys(name for part in argv for name in _PLACEHOLDER.findall(part)))


def fill_argv(argv: Sequence[str], args: Mapping[str, Any]) -> list[str]:
    """Return the command with a step's arguments filled in; each value stays within one argument of the command."""
    names = set(placeholders(argv))
    for name in sorted(names - args.keys()):
        raise YoolArguments(f"The argument '{name}' is missing.", field=f"args.{name}")
    for name in sorted(args.keys() - names):
        raise YoolArguments(
            f"The command takes no argument '{str(name)[:40]}'.",
            field=f"args.{str(name)[:40]}",
            limit=", ".join(sorted(names)) or "none",
        )
    texts = {name: _argument_text(name, args[name]) for name in names}
    return [_fill(part, texts) for part in argv]


def _fill(template: str, texts: Mapping[str, str]) -> str:
    filled = _PLACEHOLDER.sub(lambda match: texts[match[1]], template)
    if filled.startswith("-") and not template.startswith("-"):  # a value must not become an option
        name = _PLACEHOLDER.findall(template)[0]
        raise YoolArguments(
            "An argument may not begin with '-', because the program would read it as an option.",
            field=f"args.{name}",
            used=filled,
        )
    return filled


def _argument_text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise YoolArguments(f"'{name}' is not a text or a number.", field=f"args.{name}")
    text = str(value)
    if "\0" in text or len(text) > MAX_ARGUMENT:
        raise YoolArguments(
            f"'{name}' contains a NUL character or is too long.", field=f"args.{name}", limit=MAX_ARGUMENT
        )
    return text
