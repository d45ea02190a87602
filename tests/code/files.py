"""The real files that the code detector is measured on.

Only packages pinned in `requirements/`, the standard library and this repository are read, so that two machines with
the same requirements measure nearly the same text.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_FILE_BYTES = 400_000

LANGUAGES = {
    ".py": "python",
    ".pyi": "python stubs",
    ".pyx": "cython",
    ".pxd": "cython",
    ".pxi": "cython",
    ".c": "c",
    ".h": "c headers",
    ".js": "javascript",
    ".css": "css",
    ".html": "html",
    ".svg": "xml",
    ".xml": "xml",
    ".xsd": "xml",
    ".xslt": "xml",
    ".json": "json",
    ".toml": "toml",
    ".cfg": "ini",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".sql": "sql",
    ".ps1": "powershell",
    ".fish": "fish",
    ".csh": "csh",
    ".bat": "batch",
    "activate": "shell",
    "config.guess": "shell",
    "makesetup": "shell",
    "Makefile": "make",
}


def read(path: Path) -> str:
    if path.stat().st_size > MAX_FILE_BYTES:
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def language_of(path: Path) -> str | None:
    return LANGUAGES.get(path.suffix or path.name) or LANGUAGES.get(path.name)


@cache
def distributions() -> tuple[importlib.metadata.Distribution, ...]:
    """Return the installed packages among those pinned for running, building and testing."""
    names: set[str] = set()
    for group in ("run", "build", "dev"):
        pinned = (ROOT / "requirements" / f"{group}.txt").read_text(encoding="utf-8")
        names.update(re.findall(r"^([A-Za-z0-9_.-]+)==", pinned, re.MULTILINE))
    installed = []
    for name in sorted(names):
        try:
            installed.append(importlib.metadata.distribution(name))
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform
    return tuple(installed)


def package_files() -> Iterator[Path]:
    for distribution in distributions():
        for name in distribution.files or ():
            path = Path(str(distribution.locate_file(name)))
            if path.is_file():
                yield path


def library_files() -> Iterator[Path]:
    """Yield the standard library's sources, scripts and headers, without its tests."""
    for name in ("stdlib", "include"):
        folder = Path(sysconfig.get_paths()[name])
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            if {"test", "tests", "idle_test", "site-packages", "dist-packages", "lib2to3"} & set(parts):
                if not (path.suffix == ".toml" or path.suffix == ".xml"):
                    continue
                if {"site-packages", "dist-packages"} & set(parts):
                    continue
            if path.is_file():
                yield path
    scripts = Path(venv.__file__).parent / "scripts"
    yield from (path for path in sorted(scripts.rglob("*")) if path.is_file())


def our_files() -> Iterator[Path]:
    skipped = {".venv", ".git", "node_modules", ".hypothesis", ".catalog", "dist", "build"}
    for path in sorted(ROOT.rglob("*")):
        if path.is_file() and not skipped & set(path.relative_to(ROOT).parts):
            yield path


@cache
def sources() -> dict[str, tuple[Path, ...]]:
    """Return the files of each language."""
    by_language: dict[str, dict[Path, None]] = {}
    for origin in (package_files, library_files, our_files):
        for path in origin():
            language = language_of(path)
            if language is not None:
                by_language.setdefault(language, {})[path] = None
    return {language: tuple(paths) for language, paths in sorted(by_language.items())}


def commit_messages() -> list[str]:
    """Return the commit messages of this repository, or none if there is no history."""
    try:
        result = subprocess.run(
            ["git", "-C", str(ROOT), "log", "--format=%B%x00"], capture_output=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [message.strip() for message in result.stdout.decode("utf-8", "replace").split("\0") if message.strip()]
