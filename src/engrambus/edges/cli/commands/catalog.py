"""`engrambus catalog build`, `lint` and `diff`: the files a catalog is made from, read and written where one stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.command import Argument, Values, local_command
from engrambus.edges.cli.imports import import_modules
from engrambus.edges.cli.places import find_worktree
from engrambus.edges.cli.screen import counted, safe
from engrambus.edges.cli.session import Session
from engrambus.errors import AgentsFile, CatalogRefusal, InputNotAFile
from engrambus.policy import Project, find_project

if TYPE_CHECKING:
    from engrambus.space.catalog import AgentsContent, Catalog, CatalogDiff, LintFlaw, Yool

_STACK = click.Option(
    ["--stack", "stacks"], multiple=True, help="What ${stack} stands for; found in the project if not said (repeatable)"
)
_IMPORT = click.Option(
    ["--import", "modules"], multiple=True, metavar="MODULE", help="Take the yools this module registers (repeatable)"
)
_SOURCE = click.Option(["--source", "source"], metavar="FILE", help="The agents file; AGENTS.md unless said.")
_SOURCES = (_STACK, _IMPORT, _SOURCE)


class _Made:
    """What the sources say, read once."""

    def __init__(self, session: Session, values: Values) -> None:
        from engrambus.space.catalog import AGENTS, CAPABILITIES, build_catalog, find_stacks, read_agents

        self.project: Project = find_project(session.folder)
        self.file = self.project.catalog / CAPABILITIES
        # In a linked worktree, what it says is meant, not what the main one says.
        here = find_worktree(session.folder) or self.project.root
        self.source = Path(values["source"]) if values.get("source") else here / AGENTS
        self.stacks = tuple(dict.fromkeys(values.get("stacks", ()))) or find_stacks(here)
        self.read: AgentsContent = read_agents(_text(self.source), self.stacks)
        self.code: list[Yool] = _imported(values.get("modules", ()), here)
        self.catalog: Catalog = build_catalog(self.read.yools, self.code)
        self.lines = {each.entry.full_name: each.line for each in self.read.yools}

    def held(self) -> Catalog:
        """The catalog as it was built last."""
        from engrambus.space.catalog import Catalog, read_catalog

        return read_catalog(self.file) if self.file.exists() else Catalog()

    def flaws(self, held: Catalog) -> list[LintFlaw]:
        """What the linter says of it, names first, then what it breaks for those who know the one that was held."""
        from engrambus.space.catalog import lint_change, lint_name

        named = [flaw for entry in self.catalog for flaw in lint_name(entry.full_name, self.lines.get(entry.full_name))]
        return named + lint_change(held, self.catalog)


@local_command(
    "catalog build",
    *_SOURCES,
    click.Option(["--output", "output"], metavar="FILE", help="Write there; .catalog/capabilities.json unless said."),
    section="work",
    example="engrambus catalog build --stack python",
    rank=60,
)
def build(session: Session, values: Values) -> None:
    """Write the catalog, .catalog/capabilities.json, from AGENTS.md and the code you name."""
    from engrambus.space.catalog import Catalog, write_catalog

    if session.remote:
        raise click.UsageError("A catalog is built where the project's files are; ENGRAMBUS_URL is set.")
    made = _Made(session, values)
    try:
        held = made.held()
    except CatalogRefusal as damage:  # a build is the way out of it
        held = Catalog()
        where = f", line {damage.line}" if damage.line else ""
        session.warn(f"The last build could not be read, so nothing is compared with it: {damage.detail}{where}")
    flaws = made.flaws(held)
    entries = list(made.catalog)
    root = made.catalog.root
    output = Path(values["output"]) if "output" in values else made.file
    size = write_catalog(output, made.catalog)
    for flaw in flaws:
        session.warn(_flaw(flaw))
    if made.read.skipped:
        session.say(f"Without a yool_id, and so not in the catalog: {safe(', '.join(made.read.skipped))}")
    shown, source = _from(made.project.root, output), _from(made.project.root, made.source)
    answer = {
        "source": source,
        "agents": made.read.agent_count,
        "yools": len(entries),
        "stacks": list(made.stacks),
        "file": shown,
        "bytes": size,
        "popcount": made.catalog.popcount,
        "root": root,
        "flaws": flaws,
    }

    def show(_: Any) -> Iterator[str]:
        yield f"[build] parsed {counted(made.read.agent_count, 'agent')} from {safe(source)}"
        if made.code:
            yield f"[build] took {counted(len(made.code), 'yool')} from {safe(', '.join(values['modules']))}"
        yield f"[build] hashing yools ... {len(entries)}/{len(entries)}"
        yield "[build] inserting into HAMT ... done"
        yield f"[build] wrote {safe(shown)} ({size / 1024:.1f} KB)"
        yield f"[build] popcount root: {made.catalog.popcount}/32"

    session.answer(answer, show)


@local_command("catalog lint", *_SOURCES, section="work", example="engrambus catalog lint", rank=66)
def lint(session: Session, values: Values) -> None:
    """Check yool names against the naming rules, and that none was renamed."""
    made = _Made(session, values)
    flaws = made.flaws(made.held())
    session.answer({"flaws": flaws}, lambda _: map(_flaw, flaws) if flaws else ["Nothing to say against any name."])
    if flaws:
        click.get_current_context().exit(1)


@local_command(
    "catalog diff",
    Argument("old", None, "The older file; without one, what a build would change is shown", required=False),
    click.Option(["--new", "new"], metavar="FILE", help="The newer file; the project's own unless said."),
    *_SOURCES,
    section="work",
    example="engrambus catalog diff old.json",
    rank=68,
)
def diff(session: Session, values: Values) -> None:
    """Show what changed between two catalog files, or what a build would change."""
    from engrambus.space.catalog import CAPABILITIES, parse_catalog

    if "old" in values:
        newer = Path(values["new"]) if "new" in values else find_project(session.folder).catalog / CAPABILITIES
        changes = parse_catalog(_text(Path(values["old"]))).diff(parse_catalog(_text(newer)))
    elif "new" in values:
        raise click.UsageError("--new goes with the older file.")
    else:
        made = _Made(session, values)
        changes = made.held().diff(made.catalog)
    answer = {
        "added": [entry.full_name for entry in changes.added],
        "removed": [entry.full_name for entry in changes.removed],
        "changed": [now.full_name for _, now in changes.changed],
    }
    session.answer(answer, lambda _: list(_changes(changes)) or ["They are the same."])


def _changes(changes: CatalogDiff) -> Iterator[str]:
    for mark, colour, entries in (("-", "red", changes.removed), ("+", "green", changes.added)):
        for entry in entries:
            yield click.style(f"{mark} {safe(entry.full_name)}", fg=colour) + f"  {safe(entry.lane)}"
    for was, now in changes.changed:
        old, new = was.to_fields(), now.to_fields()
        names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
        yield click.style(f"~ {safe(now.full_name)}", fg="yellow")
        for name in names:
            yield f"    {name}: {_shown(old.get(name))} → {_shown(new.get(name))}"


def _shown(value: Any) -> str:
    return "-" if value is None else safe(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _flaw(flaw: LintFlaw) -> str:
    where = f"line {flaw.line}: " if flaw.line else ""
    return f"{where}{safe(flaw.yool)}: {safe(flaw.message)} ({flaw.rule})"


def _imported(modules: tuple[str, ...], root: Path) -> list[Yool]:
    """The yools that modules the operator names register; they are found from the project's folder too."""
    from engrambus.space.catalog import INTROSPECTION, REGISTRY

    import_modules(modules, root)
    own = {yool.entry.full_name for yool in INTROSPECTION}
    return [yool for yool in REGISTRY if yool.entry.full_name not in own] if modules else []


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            if path.exists():
                raise InputNotAFile(f"'{path}' is not a regular file.", field="file")
            raise FileNotFoundError
        return path.read_bytes().decode()
    except FileNotFoundError:
        hint = "Declare agents in AGENTS.md." if path.suffix == ".md" else None
        raise AgentsFile(f"There is no '{path}'.", field="file", hint=hint) from None
    except UnicodeDecodeError as problem:
        raise AgentsFile(f"'{path}' is not UTF-8 at byte {problem.start}.", field="file") from None


def _from(root: Path, path: Path) -> str:
    resolved = path.resolve()
    return str(resolved.relative_to(root)) if resolved.is_relative_to(root) else str(path)
