"""The sources of a repository: which files are read for what. One row, one source of knowledge."""

from __future__ import annotations

import re
from typing import NamedTuple

from engrambus.knowledge.learning import comments, docstrings, documents, project_rules
from engrambus.knowledge.learning.covered_modules import is_test_file, read_tests
from engrambus.knowledge.learning.project_rules import REQUIRING_FILES, FileReader
from engrambus.knowledge.learning.values import Draft, FileDrafts, SourceFile, SourceName

MAX_SOURCE_BYTES = 262_144
MAX_DOCUMENT_BYTES = 1_048_576
MAX_FILES = 20_000
"""Files of a commit that are read, in the order of the table and by path."""


class FileSource(NamedTuple):
    """One kind of file that something is learned from."""

    name: SourceName
    path: re.Pattern[str]
    """Matches the paths of these files."""
    read: FileReader
    max_bytes: int = MAX_DOCUMENT_BYTES


def _paths(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


FILE_SOURCES: tuple[FileSource, ...] = (
    FileSource(
        "instructions",
        _paths(
            r"(?:.*/)?(?:CLAUDE|AGENTS|GEMINI)(?:\.local)?\.md|(?:.*/)?\.claude/(?:rules|agents|commands)/.*\.md"
            r"|(?:.*/)?\.claude/(?:CLAUDE|memory/.*)\.md|(?:.*/)?\.cursor/rules/.*\.mdc?|\.cursorrules|\.windsurfrules"
            r"|\.github/(?:copilot-)?instructions(?:/.*)?\.md"
        ),
        documents.instructions,
    ),
    FileSource(
        "decision",
        _paths(
            r"(?:.*/)?(?:adrs?|decisions|decision-records|rfcs?|architecture-decisions|design-decisions)/(?!(?:readme|index|template)\b)"
            r"[^/]*\.(?:md|rst|txt)|(?:.*/)?(?:adr|rfc|pep)-?\d+[^/]*\.(?:md|rst|txt)"
        ),
        documents.decisions,
    ),
    FileSource("owners", _paths(r"(?:\.github/|docs/|\.gitlab/)?CODEOWNERS"), project_rules.owners),
    FileSource(
        "contributing",
        _paths(
            r"(?:.*/)?(?:CONTRIBUTING|HACKING|DEVELOPMENT|DEVELOPING|STYLE(?:_?GUIDE)?|CODING[-_]?STYLE|MAINTAIN(?:ERS|ING)"
            r"|RELEAS(?:E|ING)(?:[-_]?(?:PROCESS|CHECKLIST))?|SECURITY|GOVERNANCE|PULL_REQUEST_TEMPLATE)(?:\.(?:md|rst|txt))?"
            r"|(?:docs?|\.github)/(?:.*/)?(?:contributing|development|release[-_]process)(?:/[^/]*)?\.(?:md|rst|txt)"
        ),
        documents.contributing,
    ),
    FileSource(
        "changelog",
        _paths(r"(?:docs?/)?(?:CHANGE(?:LOG|S)|HISTORY|NEWS|RELEASE[-_]?NOTES)(?:\.(?:md|rst|txt))?"),
        documents.changelog,
    ),
    FileSource("ci", _paths(r"\.github/workflows/[^/]*\.ya?ml|\.gitlab-ci\.yml"), project_rules.workflows),
    FileSource("ci", _paths(r"\.pre-commit-config\.ya?ml"), project_rules.hooks),
    FileSource(
        "ci",
        re.compile(r"(?:[^/]+/)?(?:" + "|".join(map(re.escape, sorted(REQUIRING_FILES))) + ")"),
        project_rules.required_versions,
    ),
    FileSource(
        "docs",
        _paths(r"README(?:\.(?:md|rst|txt))?|(?:.*/)?(?:docs?|documentation|guide)/.*\.(?:md|rst)"),
        documents.pages,
    ),
)
"""Documents, the first row that matches a path; source files and tests follow by their endings."""

_SKIPPED = _paths(
    r"(?:.*/)?(?:node_modules|vendor|vendored|_vendor|third_party|site-packages|dist|build|\.venv|venv|\.git|\.catalog"
    r"|__pycache__|fixtures|testdata|snapshots|locales?|migrations)/.*|.*\.(?:min\.js|lock|snap)|(?:.*/)?package-lock\.json"
)
_CODE_SUFFIXES = docstrings.DOCUMENTED_SUFFIXES | frozenset(
    re.findall(
        r"\w+",
        "c cc cpp cxx h hh hpp m mm rb swift sh bash zsh lua pl pm r jl ex exs erl hs ml sql vue svelte dart zig nim",
    )
)


class FilePlan(NamedTuple):
    """How a file is read."""

    rank: int
    """Position of its source; files are read in this order."""
    max_bytes: int
    source: FileSource | None = None
    """None for a source file."""


def plan_of(path: str) -> FilePlan | None:
    """Return how a path is read; None if nothing is learned from it."""
    if _SKIPPED.fullmatch(path):
        return None
    for rank, source in enumerate(FILE_SOURCES):
        if source.path.fullmatch(path):
            return FilePlan(rank, source.max_bytes, source)
    if path.rpartition(".")[2].lower() in _CODE_SUFFIXES and "." in path.rpartition("/")[2]:
        return FilePlan(len(FILE_SOURCES) + (1 if is_test_file(path) else 0), MAX_SOURCE_BYTES)
    return None


def read_file(path: str, blob: str, data: bytes) -> FileDrafts:
    """Return what a file says; a file that is no text says nothing, and why."""
    plan = plan_of(path)
    if plan is None:
        return FileDrafts(blob=blob)
    if b"\0" in data[:8192]:
        return FileDrafts(blob=blob, problem="binary")
    text = data.decode("utf-8-sig", "replace")
    # Only a newline ends a line, as pointers count them.
    file = SourceFile(path=path, lines=tuple(line.removesuffix("\r") for line in text.split("\n")))
    if plan.source is not None:
        return FileDrafts(blob=blob, drafts=tuple(plan.source.read(file)))
    marked: list[Draft] = comments.todos(file)
    if is_test_file(path):
        tests_read = read_tests(file, blob)
        return FileDrafts(
            blob=blob,
            drafts=(*tests_read.drafts, *marked),
            imports=tests_read.imports,
            tests=tests_read.tests,
            test_line=tests_read.test_line,
        )
    return FileDrafts(blob=blob, drafts=(*docstrings.docstrings(file), *marked))
