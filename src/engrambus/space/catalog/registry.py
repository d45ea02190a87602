"""Yools from code: a decorator registers a function, or a command, as what a name stands for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from engrambus.errors import YoolContract, YoolNotFound, YoolTwice
from engrambus.space.catalog.commands import check_argv
from engrambus.space.catalog.names import check_lane, check_not_reserved, parse_name
from engrambus.space.catalog.values import (
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

Implementation = Callable[..., Any] | list[str] | tuple[str, ...]
Run = Callable[..., Any] | tuple[str, ...]
T = TypeVar("T", bound=Implementation)


class Yool(msgspec.Struct, frozen=True, kw_only=True):
    """A yool that code on this machine can carry out."""

    entry: CatalogEntry
    run: Run
    """A function, sync or async, called with the step's `args` by name; or a command, see `fill_argv`."""

    @property
    def kind(self) -> Literal["function", "async", "command"]:
        """How it is carried out."""
        if isinstance(self.run, tuple):
            return "command"
        from inspect import iscoroutinefunction

        return "async" if iscoroutinefunction(self.run) else "function"


class Registry:
    """The yools this process can carry out, by name and version."""

    def __init__(self, own: Iterable[Yool] = ()) -> None:
        self._versions: dict[str, dict[int, Yool]] = {}
        for each in own:
            self.add(each)

    def add(self, yool: Yool) -> None:
        """Take a yool in; each version is somebody's once."""
        versions = self._versions.setdefault(yool.entry.name, {})
        known = versions.setdefault(yool.entry.version, yool)
        same = _is_same(known.run, yool.run)
        if not same or known.entry != yool.entry:
            how = ", not in the same way" if same else ""
            raise YoolTwice(
                f"'{yool.entry.full_name}' is registered twice{how}: by {_where(known.run)} and by {_where(yool.run)}.",
                field="name",
                used=yool.entry.full_name,
                hint=f"Give one of them the next version: {yool.entry.name}.v{max(versions) + 1}.",
            )
        if _is_of_script(known.run):  # what a module has, any process can import
            versions[yool.entry.version] = yool

    def get(self, name: str) -> Yool | None:
        """The yool of that name; the newest version when none is named."""
        base, version = parse_name(name)
        versions = self._versions.get(base)
        return versions.get(max(versions) if version is None else version) if versions else None

    def lookup(self, name: str) -> Yool:
        """The yool of that name, or a refusal that tells what to do."""
        found = self.get(name)
        if found is None:
            known = ", ".join(f"v{version}" for version in sorted(self._versions.get(parse_name(name).base, ())))
            raise YoolNotFound(
                f"No code here carries out '{name}'{known and f', only {known}'}.",
                field="name",
                used=name,
                hint="Name the module that registers it: engrambus worker --import MODULE.",
            )
        return found

    def __iter__(self) -> Iterator[Yool]:
        """Every yool, by name and version."""
        for _, versions in sorted(self._versions.items()):
            for _, each in sorted(versions.items()):
                yield each

    def yool(
        self,
        name: str,
        *,
        lane: str,
        effect: Effect = "writes",
        authority: Iterable[str] = ("user", "ci"),
        terms: Mapping[str, int | float] | None = None,
        inputs: Iterable[str] = (),
        env: Iterable[str] = (),
        cost_usd: int | float | None = None,
        cost_tokens: int | None = None,
        cached: bool = True,
        about: str | None = None,
    ) -> Callable[[T], T]:
        """Register what follows, a function or a list of arguments, as a yool; a name without a version is its v1.

        Args:
            name: Its name, `agent.lint.ruff`, with or without a version
            lane: Where its work waits
            effect: Whether it computes (`pure`), reads the world or writes to it
            authority: On whose authority it may run: user, agent, ci
            terms: What a step may spend unless its tuple says otherwise, as `agent_terms` are written
            inputs: Files whose content decides the result, as patterns beneath the project
            env: The variables of the environment it sees
            cost_usd: What one run costs, as far as can be said
            cost_tokens: How many tokens one run takes, as far as can be said
            cached: Whether a result may stand for the next run on the same input
            about: What it is for; the first line of the docstring unless said
        """
        for field, text in (("name", name), ("lane", lane), ("about", "" if about is None else about)):
            if not isinstance(text, str):
                raise YoolContract(f"'{field}' is not a text.", field=field, used=str(text)[:40])
        base, version = parse_name(name)
        check_not_reserved(base)
        contract = Contract(
            effect=effect,
            inputs=_texts(inputs, "inputs"),
            env=tuple(sorted(set(_texts(env, "env")))),
            cost_micros=None if cost_usd is None else read_micros(cost_usd, "cost_usd"),
            cost_tokens=cost_tokens,
            cached=cached,
        )
        entry = CatalogEntry(
            name=base,
            version=version or 1,
            authority=read_authority(authority if isinstance(authority, str) else _texts(authority, "authority")),
            lane=check_lane(lane),
            terms=read_terms({} if terms is None else terms, "terms"),
            contract=check_contract(contract),
            about=one_line(about),
        )

        def register(what: T) -> T:
            run: Run
            if isinstance(what, list | tuple):
                run = check_argv(what)
            elif callable(what):
                run = what
            else:
                raise YoolContract("A yool is a function or a list of arguments.", field="run")
            said = about if about is not None or isinstance(run, tuple) else run.__doc__
            self.add(Yool(entry=msgspec.structs.replace(entry, about=one_line(said)), run=run))
            return what

        return register


def _texts(listed: Iterable[str], field: str) -> tuple[str, ...]:
    """The texts of a list; one text is not a list of its letters."""
    if isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
        raise YoolContract(f"'{field}' is a list of texts.", field=field, used=str(listed)[:40])
    texts = tuple(listed)
    if not all(isinstance(each, str) for each in texts):
        raise YoolContract(f"'{field}' is a list of texts.", field=field)
    return texts


def _is_of_script(run: Run) -> bool:
    return getattr(run, "__module__", None) in ("__main__", "__mp_main__")


def _lines_of(run: Run) -> tuple[str, int, str] | None:
    """Where a function is written."""
    from inspect import unwrap

    code = None if isinstance(run, tuple) else getattr(unwrap(run), "__code__", None)
    return code and (os.path.realpath(code.co_filename), code.co_firstlineno, code.co_qualname)


def _is_same(one: Run, other: Run) -> bool:
    """Whether these are one command or function, or the same lines of a script that is imported as a module too."""
    if one == other:
        return True
    lines = _lines_of(one) if _is_of_script(one) or _is_of_script(other) else None
    return lines is not None and lines == _lines_of(other)


def _where(run: Run) -> str:
    if isinstance(run, tuple):
        return f"the command '{run[0]}'"
    return f"{getattr(run, '__module__', '?')}.{getattr(run, '__qualname__', repr(run))}"


def catalog_yool(name: str, run: Callable[..., Any]) -> Yool:
    """A yool of the catalog's own: it reads what there is now, and anyone may have it run."""
    entry = CatalogEntry(
        name=name,
        version=1,
        authority=AUTHORITIES,
        lane="catalog",
        contract=Contract(effect="reads", cached=False),
        about=one_line(run.__doc__),
    )
    return Yool(entry=entry, run=run)
