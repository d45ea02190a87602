"""Tests: which module a test file covers, by its name and its imports, and what single tests say of themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from engrambus.knowledge.learning.docstrings import python_items
from engrambus.knowledge.learning.markup import sentences_of
from engrambus.knowledge.learning.scoring import quality
from engrambus.knowledge.learning.values import Draft, FileDrafts, SourceFile

MAX_IMPORTS = 60
MAX_TESTS = 10
"""Names of tests that stand in a claim."""
MAX_TEST_CHARS = 260
MAX_FROM_FILE = 6

_TEST_DIR = re.compile(r"(?:^|/)(?:tests?|testing|spec|__tests__)/", re.IGNORECASE)
_TEST_NAME = re.compile(
    r"(?:^test_(?P<py>.+)|^(?P<py2>.+)_tests?|^(?P<js>.+)\.(?:test|spec)|^(?P<java>.+?)Tests?|^test(?P<c>[A-Z].*))\.\w+$"
)
_PY_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+([\w, ()]+)|import\s+([\w., ]+))")
_OTHER_IMPORT = re.compile(r"""(?:from\s+|require\(|import\s+)['"]([^'"]+)['"]|^use\s+(?:crate::)?([\w:]+)""")
_TEST = re.compile(
    r"^\s*(?:async\s+)?(?:def|fn|func)\s+(test_?\w+|Test\w+)|^\s*(?:it|test)\(\s*['\"]([^'\"]{5,80})['\"]"
)


def is_test_file(path: str) -> bool:
    """True if a path is that of a file with tests."""
    name = path.rpartition("/")[2]
    if name in ("__init__.py", "conftest.py"):
        return False
    if _TEST_NAME.match(name):
        return True
    return _TEST_DIR.search(path) is not None and name.endswith((".py", ".rs", ".go"))


def read_tests(file: SourceFile, blob: str) -> FileDrafts:
    """Return what a test file names: its imports, its tests, and the tests that say what they are for."""
    imports: dict[str, None] = {}
    tests: list[str] = []
    first_test = 0
    for position, line in enumerate(file.lines):
        if len(line) > 300:
            continue
        if match := _PY_IMPORT.match(line):
            imports.update(dict.fromkeys(_imported(match)))
        elif match := _OTHER_IMPORT.search(line):
            imports[(match[1] or match[2]).replace("::", "/").lstrip("./")] = None
        elif match := _TEST.match(line):
            first_test = first_test or position + 1
            tests.append(match[2] or re.sub(r"^[tT]est_?", "", match[1]).replace("_", " "))
    return FileDrafts(
        blob=blob,
        drafts=tuple(_documented_tests(file)),
        imports=tuple(imports)[:MAX_IMPORTS],
        tests=tuple(tests[:MAX_TESTS]),
        test_line=first_test,
    )


def _imported(match: re.Match[str]) -> Iterator[str]:
    if match[1]:
        module = match[1].lstrip(".").replace(".", "/")
        yield module
        yield from (f"{module}/{name.strip(' ()')}" for name in match[2].split(",") if name.strip(" ()"))
    else:
        yield from (name.split(" as ")[0].strip().replace(".", "/") for name in match[3].split(","))


def _documented_tests(file: SourceFile) -> list[Draft]:
    drafts = []
    for item in python_items(file.lines) if file.path.endswith(".py") else ():
        name = item.name.rpartition(".")[2]
        points = quality(item.text)
        if points < 0 or not name.lower().startswith("test"):
            continue
        drafts.append(
            Draft(
                source="test",
                kind="test",
                sentences=sentences_of(item.text, 3),
                max_sentences=1,
                prefix=f"{name}: ",
                path=file.path,
                first=item.first,
                last=item.last,
                points=4 + points,
            )
        )
    return sorted(drafts, key=lambda draft: -draft.points)[:MAX_FROM_FILE]


def coverage_drafts(read: Mapping[str, FileDrafts], paths: Iterable[str]) -> list[Draft]:
    """Return for each test file that has a module which module it covers."""
    modules = _modules(paths)
    drafts = []
    for path, file_drafts in sorted(read.items()):
        if not file_drafts.tests or not file_drafts.test_line:
            continue
        covered = _covered(path, file_drafts, modules)
        if not covered:
            continue
        drafts.append(
            Draft(
                source="test",
                kind="test",
                sentences=(f"{path} covers {' and '.join(covered)}{_listed(file_drafts.tests)}.",),
                max_sentences=1,
                path=path,
                first=file_drafts.test_line,
                last=file_drafts.test_line,
                points=20 + min(6, len(file_drafts.tests)),
            )
        )
    return drafts


def _listed(tests: tuple[str, ...]) -> str:
    names = ""
    for name in tests:
        longer = f"{names}, {name}" if names else name
        if len(longer) > MAX_TEST_CHARS:
            break
        names = longer
    return f": {names}" if names else ""


def _modules(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the source files that are no tests, by the last part of their names without the ending."""
    modules: dict[str, list[str]] = {}
    for path in sorted(paths):
        name, _, ending = path.rpartition("/")[2].partition(".")
        if ending in ("py", "rs", "go", "js", "ts", "tsx", "jsx", "java", "kt") and not is_test_file(path):
            modules.setdefault(name.strip("_").lower(), []).append(path)
    return modules


def _covered(path: str, file_drafts: FileDrafts, modules: Mapping[str, list[str]]) -> list[str]:
    """Return up to two files that a test file covers: the one it is named after, else those it imports from."""
    match = _TEST_NAME.match(path.rpartition("/")[2])
    name = next((value for value in match.groupdict().values() if value), "").strip("_").lower() if match else ""
    named = modules.get(name) or modules.get(name.removesuffix("s"), [])
    if len(named) == 1:
        return [named[0]]
    chosen: dict[str, None] = {}
    for module in sorted(file_drafts.imports, key=lambda text: (-text.count("/"), text)):
        parts = module.split("/")
        for candidate in modules.get(parts[-1].partition(".")[0].strip("_").lower(), []):
            if len(parts) > 1 and parts[-2] in candidate.split("/"):
                chosen[candidate] = None
    best = [item for item in chosen if item in named] or list(chosen)
    return best[:2] if len(best) <= 3 else []
