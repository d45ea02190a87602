"""Which stacks a project is written in, by the files that stand at its top or one folder below."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path

_FILES = {
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
_NOT_OURS = frozenset({"node_modules", "vendor", "venv", "dist", "build", "target", "third_party"})
MAX_ENTRIES = 10_000
"""How many names are read of one folder."""


def find_stacks(root: Path) -> tuple[str, ...]:
    """The stacks of a project, in order; a folder with a tsconfig.json is TypeScript and not JavaScript besides."""
    found: set[str] = set()
    names, folders = _listed(root)
    found |= _stacks_of(names)
    for folder in folders:
        if not folder.startswith(".") and folder not in _NOT_OURS:
            found |= _stacks_of(_listed(root / folder)[0])
    return tuple(sorted(found))


def _stacks_of(names: set[str]) -> set[str]:
    found = {
        stack
        for stack, patterns in _FILES.items()
        if any(fnmatch(name, pattern) for pattern in patterns for name in names)
    }
    return found - {"javascript"} if "typescript" in found else found


def _listed(folder: Path) -> tuple[set[str], list[str]]:
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
