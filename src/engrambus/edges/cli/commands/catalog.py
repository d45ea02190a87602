"""`engrambus catalog build`, `lint` and `diff`: the files that the catalog is made from, and the catalog file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.command import Argument, Values, local_command
from engrambus.edges.cli.inputs import import_modules
from engrambus.edges.cli.screen import counted, safe
from engrambus.edges.cli.session import Session
from engrambus.errors import AgentsFile, CatalogRefusal, InputNotAFile
from engrambus.policy import Project, find_project

if TYPE_CHECKING:
    from engrambus.space.catalog import AgentsContent, Catalog, CatalogDiff, LintFlaw, Yool

_SOURCES = (
    click.Option(
        ["--stack", "stacks"],
        multiple=True,
        help="A value of ${stack} in AGENTS.md [default: the agent's Stack, else what the project's files show] "
        "(repeatable)",
    ),
    click.Option(
        ["--import", "modules"],
        multiple=True,
        metavar="MODULE",
        help="Add the yools that this Python module defines (repeatable).",
    ),
    click.Option(["--source", "source"], metavar="FILE", help="The file that declares agents [default: AGENTS.md]"),
)


class _Build:
    """A catalog made from its sources, and the project it belongs to."""

    def __init__(self, session: Session, values: Values) -> None:
        from engrambus.space.catalog import AGENTS, CAPABILITIES, build_catalog, find_stacks, read_agents

        self.project: Project = find_project(session.folder)
        self.file = self.project.catalog / CAPABILITIES
        # A linked worktree has an AGENTS.md of its own; the catalog file belongs to the project.
        folder = session.worktree or self.project.root
        self.source = Path(values["source"]) if "source" in values else folder / AGENTS
        chosen = tuple(dict.fromkeys(values.get("stacks", ())))
        self.stacks = chosen or find_stacks(folder)
        self.agents: AgentsContent = read_agents(_read(self.source), self.stacks, found=not chosen)
        self.sources: list[str] = []
        """The modules and entry points that yools were taken from."""
        self.imported: list[Yool] = self._imported_yools(session, values.get("modules", ()), folder)
        self.catalog: Catalog = build_catalog(self.agents.yools, self.imported)
        self._lines = {declared.entry.full_name: declared.line for declared in self.agents.yools}

    def _imported_yools(self, session: Session, modules: tuple[str, ...], root: Path) -> list[Yool]:
        """Import the modules and the entry points, and return the yools they define."""
        from engrambus.space.catalog import INTROSPECTION, REGISTRY, load_entry_points

        import_modules(modules, root)
        self.sources = [*modules, *(f"entry point {name}" for name in load_entry_points(session.warn))]
        builtin = {yool.entry.full_name for yool in INTROSPECTION}
        return [yool for yool in REGISTRY if yool.entry.full_name not in builtin] if self.sources else []

    def previous(self, file: Path | None = None) -> Catalog:
        """Return the catalog as it was last written to a file, by default the project's."""
        from engrambus.space.catalog import Catalog, read_catalog

        file = file or self.file
        return read_catalog(file) if file.exists() else Catalog()

    def flaws(self, previous: Catalog) -> list[LintFlaw]:
        """Return lint messages: names, then contracts, then changes that break callers of the previous catalog."""
        from engrambus.space.catalog import lint_change, lint_contract, lint_name

        lines = self._lines
        names = [entry.full_name for entry in self.catalog]
        # Only code says which files a yool reads; one that is merely declared in AGENTS.md is judged with its code.
        coded = [yool.entry for yool in self.imported if yool.entry.full_name in names]
        return [
            *(flaw for name in names for flaw in lint_name(name, lines.get(name))),
            *(flaw for entry in coded for flaw in lint_contract(entry, lines.get(entry.full_name))),
            *lint_change(previous, self.catalog),
        ]


@local_command(
    "catalog build",
    *_SOURCES,
    click.Option(
        ["--output", "output"], metavar="FILE", help="The file to write [default: .catalog/capabilities.json]"
    ),
    section="work",
    example="engrambus catalog build --stack python",
    rank=60,
)
def build(session: Session, values: Values) -> None:
    """Write the catalog, .catalog/capabilities.json, from AGENTS.md and the code you name.

    The catalog lists the yools: named functions that the steps of tasks run, with who may run them and their limits.
    """
    from engrambus.space.catalog import Catalog, write_catalog

    if session.remote:
        raise click.UsageError(
            "A catalog is built where the project's files are; engrambus logout, or unset ENGRAMBUS_URL."
        )
    made = _Build(session, values)
    output = Path(values["output"]).resolve() if "output" in values else made.file
    try:
        previous = made.previous(output)
    except CatalogRefusal as damage:  # building again is how a damaged catalog is repaired
        previous = Catalog()
        where = f", line {damage.line}" if damage.line else ""
        session.warn(f"The last build could not be read, so nothing is compared with it: {damage.detail}{where}")
    flaws = made.flaws(previous)
    count = len(list(made.catalog))
    size_bytes = write_catalog(output, made.catalog)
    for flaw in flaws:
        session.warn(_flaw_line(flaw))
    if made.agents.skipped:
        session.note(f"Without a yool_id, and so not in the catalog: {safe(', '.join(made.agents.skipped))}")
    file, source = _relative(made.project.root, output), _relative(made.project.root, made.source)
    answer = {
        "source": source,
        "agents": made.agents.agent_count,
        "yools": count,
        "stacks": list(made.stacks),
        "file": file,
        "bytes": size_bytes,
        "popcount": made.catalog.popcount,
        "root": made.catalog.root,
        "flaws": flaws,
    }

    def render(_: Any) -> Iterator[str]:
        yield f"[build] parsed {counted(made.agents.agent_count, 'agent')} from {safe(source)}"
        if made.imported:
            yield f"[build] took {counted(len(made.imported), 'yool')} from {safe(', '.join(made.sources))}"
        yield f"[build] hashing yools ... {count}/{count}"
        yield "[build] inserting into HAMT ... done"
        yield f"[build] wrote {safe(file)} ({size_bytes / 1024:.1f} KB)"
        yield f"[build] popcount root: {made.catalog.popcount}/32"

    session.print(answer, render)


@local_command("catalog lint", *_SOURCES, section="work", example="engrambus catalog lint", rank=66)
def lint(session: Session, values: Values) -> None:
    """Check yool names against the naming rules, that inputs are declared, and that no promise was broken."""
    made = _Build(session, values)
    flaws = made.flaws(made.previous())
    session.print({"flaws": flaws}, lambda _: map(_flaw_line, flaws) if flaws else ["All yools follow the rules."])
    if flaws:  # so that a build can fail on them
        click.get_current_context().exit(1)


@local_command(
    "catalog diff",
    Argument("old", None, "The older catalog file; without one, show what a build would change", required=False),
    click.Option(["--new", "new"], metavar="FILE", help="The newer catalog file [default: the project's]"),
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
        changes = parse_catalog(_read(Path(values["old"]))).diff(parse_catalog(_read(newer)))
    elif "new" in values:
        raise click.UsageError("--new goes with the older file.")
    else:
        made = _Build(session, values)
        changes = made.previous().diff(made.catalog)
    answer = {
        "added": [entry.full_name for entry in changes.added],
        "removed": [entry.full_name for entry in changes.removed],
        "changed": [after.full_name for _, after in changes.changed],
    }
    session.print(answer, lambda _: list(_change_lines(changes)) or ["They are the same."])


def _change_lines(changes: CatalogDiff) -> Iterator[str]:
    for mark, colour, entries in (("-", "red", changes.removed), ("+", "green", changes.added)):
        for entry in entries:
            yield click.style(f"{mark} {safe(entry.full_name)}", fg=colour) + f"  {safe(entry.lane)}"
    for before, after in changes.changed:
        old, new = before.to_fields(), after.to_fields()
        names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
        yield click.style(f"~ {safe(after.full_name)}", fg="yellow")
        for name in names:
            yield f"    {name}: {_value_text(old.get(name))} → {_value_text(new.get(name))}"


def _value_text(value: Any) -> str:
    return "-" if value is None else safe(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _flaw_line(flaw: LintFlaw) -> str:
    where = f"line {flaw.line}: " if flaw.line else ""
    return f"{where}{safe(flaw.yool)}: {safe(flaw.message)} ({flaw.rule})"


def _read(path: Path) -> str:
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


def _relative(root: Path, path: Path) -> str:
    resolved = path.resolve()
    return str(resolved.relative_to(root)) if resolved.is_relative_to(root) else str(path)
