"""Building a catalog from what AGENTS.md declares and code registers, and finding a project's stacks for it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

import msgspec

from engrambus.errors import AuthorityInvalid
from engrambus.space.catalog.agents_file import DeclaredYool
from engrambus.space.catalog.catalog import Catalog
from engrambus.space.catalog.entries import CatalogEntry, Terms
from engrambus.space.catalog.names import RESERVED
from engrambus.space.catalog.registry import Yool
from engrambus.space.catalog.signatures import read_signature

_STACK_FILES = {
    "dart": ("pubspec.yaml",),
    "dotnet": ("*.csproj", "*.fsproj", "*.vbproj", "*.sln", "*.slnx"),
    "elixir": ("mix.exs",),
    "go": ("go.mod",),
    "java": ("pom.xml", "build.gradle"),
    "javascript": ("package.json",),
    "kotlin": ("build.gradle.kts",),
    "php": ("composer.json",),
    "python": ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"),
    "ruby": ("Gemfile",),
    "rust": ("Cargo.toml",),
    "swift": ("Package.swift",),
    "typescript": ("tsconfig.json",),
}
_FOREIGN_FOLDERS = frozenset({"node_modules", "vendor", "venv", "dist", "build", "target", "third_party"})
"""Folders that usually contain code of other projects, or no source."""
MAX_ENTRIES = 10_000
"""Number of names that are read of one folder."""


def build_catalog(declared: Iterable[DeclaredYool], code: Iterable[Yool] = ()) -> Catalog:
    """Build the catalog of declared and registered yools; one that is both is combined by `combine_entries`."""
    # Yools of the reserved domain are in every catalog without being declared.
    registered_entries = (_with_arguments(yool) for yool in code if yool.entry.name.partition(".")[0] != RESERVED)
    entries = {entry.full_name: entry for entry in registered_entries}
    for yool in declared:
        registered = entries.get(yool.entry.full_name)
        entries[yool.entry.full_name] = yool.entry if registered is None else _combine(yool, registered)
    return Catalog(entries.values())


def _with_arguments(yool: Yool) -> CatalogEntry:
    return msgspec.structs.replace(yool.entry, arguments=read_signature(yool.run))


def _combine(declared: DeclaredYool, code: CatalogEntry) -> CatalogEntry:
    entry = combine_entries(declared.entry, code)
    if not entry.authority:
        declared_for, admitted = ", ".join(declared.entry.authority), ", ".join(code.authority)
        raise AuthorityInvalid(
            f"'{entry.full_name}' is declared for {declared_for}, but its code only admits {admitted}.",
            field="authority",
            limit=admitted,
            line=declared.line,
        )
    return entry


def combine_entries(declared: CatalogEntry, code: CatalogEntry) -> CatalogEntry:
    """Return a yool with the declared lane and terms, the code's contract, and the authorities both admit."""
    # decision 21: a file in the repository must not widen what an operator's code allows.
    return msgspec.structs.replace(
        declared,
        authority=tuple(authority for authority in declared.authority if authority in code.authority),
        terms=_override(code.terms, declared.terms),
        contract=code.contract,
        arguments=code.arguments,
        about=declared.about or code.about,
    )


def _override(default: Terms, declared: Terms) -> Terms:
    values = {name: value for name, value in msgspec.structs.asdict(declared).items() if value is not None}
    return msgspec.structs.replace(default, **values)


def find_stacks(root: Path) -> tuple[str, ...]:
    """Return the stacks of a project, by the files in its top folder and one level below."""
    names, folders = _list_folder(root)
    stacks = _stacks_of(names)
    for folder in folders:
        if not folder.startswith(".") and folder not in _FOREIGN_FOLDERS:
            stacks |= _stacks_of(_list_folder(root / folder)[0])
    return tuple(sorted(stacks))


def _stacks_of(names: set[str]) -> set[str]:
    stacks = {
        stack
        for stack, patterns in _STACK_FILES.items()
        if any(fnmatch(name, pattern) for pattern in patterns for name in names)
    }
    # A TypeScript folder has a package.json too.
    return stacks - {"javascript"} if "typescript" in stacks else stacks


def _list_folder(folder: Path) -> tuple[set[str], list[str]]:
    """Return the names of files and of folders in a folder."""
    names: set[str] = set()
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number == MAX_ENTRIES:
                    break
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    names.add(entry.name)
    except PermissionError:
        return set(), []
    return names, sorted(folders)
