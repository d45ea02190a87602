"""The package follows ARCHITECTURE.md: public names, lazy imports, one reader of the environment, one error tree."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import engrambus
from engrambus import errors
from engrambus.operations import OPERATIONS

SOURCE = Path(engrambus.__file__).parent


def _text(package: str) -> str:
    return (SOURCE.parent / package.replace(".", "/") / "__init__.py").read_text("utf-8")


PACKAGES = [
    "engrambus",
    *(module.name for module in pkgutil.walk_packages([str(SOURCE)], "engrambus.") if module.ispkg),
]
PACKAGES_WITH_EXPORTS = [
    name for name in PACKAGES if (SOURCE.parent / name.replace(".", "/") / "__init__.py").stat().st_size
]
FILES = sorted(SOURCE.rglob("*.py"))
LAZY_IMPORTS = "engrambus.lazy_imports"
LAZY_PACKAGES = [name for name in PACKAGES_WITH_EXPORTS if f"from {LAZY_IMPORTS} import" in _text(name)]
FORBIDDEN_MODULE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "impl", "misc"}
ENVIRONMENT = {
    "settings.py": "the only reader",
    "edges/integrations/hook_process.py": "clients wait for it at every tool call, so it loads no settings",
    "evidence/pointers/git_process.py": "the environment handed on to git",
    "space/work/warm_process.py": "restores the environment after a step",
}


@pytest.mark.parametrize("name", PACKAGES_WITH_EXPORTS)
def test_a_package_exports_exactly_the_names_it_lists(name: str) -> None:
    package = importlib.import_module(name)
    listed = getattr(package, "__all__", [])
    assert len(set(listed)) == len(listed)
    for export in listed:
        assert hasattr(package, export), f"{name} lists {export} and does not have it"
    public = {
        attribute
        for attribute, value in vars(package).items()
        if not attribute.startswith("_") and not isinstance(value, types.ModuleType) and attribute != "annotations"
    }
    assert public - _imported_for_itself(name) <= set(listed), f"{name} has public names that __all__ does not list"


def _imported_for_itself(name: str) -> set[str]:
    """Return the names a package imports for its own use: from outside the product, and for lazy imports."""
    tree = ast.parse(_text(name))
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module == LAZY_IMPORTS or not (node.module or "").startswith("engrambus"))
        for alias in node.names
    }


@pytest.mark.parametrize("name", [name for name in PACKAGES if name.count(".") <= 1])
def test_a_package_can_be_imported_first(name: str) -> None:
    """No package works only because another was imported before it."""
    done = subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", LAZY_PACKAGES)
def test_a_lazy_package_loads_what_its_typed_imports_say(name: str) -> None:
    package = importlib.import_module(name)
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert not modules & set(package.__all__), "once imported, a module of that name would replace the export"
    typed = {
        alias.name: node.module or ""
        for node in ast.walk(ast.parse(_text(name)))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(f"{name}.")
        and node.module != LAZY_IMPORTS
        for alias in node.names
    }
    assert set(typed) == set(package.__all__)
    for export, module in typed.items():
        assert getattr(package, export) is getattr(importlib.import_module(module), export)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = package.nothing_like_it


IMPORT_EACH_FIRST = """
import importlib, sys
for name in sys.argv[1:]:
    for loaded in [module for module in sys.modules if module.partition(".")[0] == "engrambus"]:
        del sys.modules[loaded]
    importlib.import_module(name)
"""


@pytest.mark.parametrize("name", LAZY_PACKAGES)
def test_every_module_of_a_lazy_package_can_be_imported_first(name: str) -> None:
    package = importlib.import_module(name)
    modules = [
        f"{name}.{module.name}" for module in pkgutil.iter_modules(package.__path__) if module.name != "generate"
    ]
    code = [sys.executable, "-c", IMPORT_EACH_FIRST, *modules]
    done = subprocess.run(code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_generated_files_are_up_to_date() -> None:
    command = [sys.executable, str(SOURCE.parents[1] / "tools" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run tools/generate.py: {done.stdout}{done.stderr}"


def test_the_operation_table_names_the_declaring_module() -> None:
    package = importlib.import_module("engrambus.operations")
    declaring = [
        module.name for module in pkgutil.iter_modules(package.__path__, "engrambus.operations.") if not module.ispkg
    ]
    declared = {
        (name, module)
        for module in declaring
        for name in re.findall(r"^@operation\([^@]*?^def (\w+)", Path(_file(module)).read_text("utf-8"), re.M | re.S)
    }
    assert declared == {(name, operation.run.__module__) for name, operation in OPERATIONS.items()}


def _file(module: str) -> str:
    return str(SOURCE.parent / module.replace(".", "/")) + ".py"


def test_the_testing_package_needs_neither_pytest_nor_hypothesis() -> None:
    code = "import sys, engrambus.testing; sys.exit(bool({'pytest', 'hypothesis'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_begins_with_a_sentence(path: Path) -> None:
    assert not FORBIDDEN_MODULE_NAMES & set(path.relative_to(SOURCE).with_suffix("").parts)
    text = path.read_text()
    if text.strip():
        first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
        assert first.endswith((".", ":")), f"{path} does not begin with a sentence"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_settings_read_the_environment(path: Path) -> None:
    if str(path.relative_to(SOURCE)) in ENVIRONMENT:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb", "putenv"):
            raise AssertionError(f"{path}:{node.lineno} reads the environment")
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            assert not {"environ", "getenv"} & {alias.name for alias in node.names}


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.EngramBusError)]
ROW = re.compile(r"(?P<bars>[│├└─ ]*)(?P<name>[A-Z]\w+)\s*(?P<status>\d{3})?\s*(?P<description>.*)")


def _drawn() -> dict[str, tuple[str | None, int | None, str]]:
    """Return the error tree as its docstring draws it: name → parent, status if given, the code or description."""
    rows: dict[str, tuple[str | None, int | None, str]] = {}
    ancestors: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        row = ROW.fullmatch(line)
        if row is None or (not row["bars"] and row["name"] != "EngramBusError"):
            continue
        depth = len(row["bars"])
        ancestors = [entry for entry in ancestors if entry[0] < depth]
        rows[row["name"]] = (
            ancestors[-1][1] if ancestors else None,
            int(row["status"]) if row["status"] else None,
            row["description"],
        )
        ancestors.append((depth, row["name"]))
    return rows


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_is_drawn_in_the_tree(kind: type[errors.EngramBusError]) -> None:
    drawn = _drawn()
    assert kind.__name__ in drawn, "not in the docstring's tree"
    parent, status, description = drawn[kind.__name__]
    if kind is errors.EngramBusError:
        return
    assert parent == kind.__bases__[0].__name__
    base = kind.__bases__[0]
    assert issubclass(base, errors.EngramBusError)
    assert (status if status is not None else base.status) == kind.status
    if not kind.__subclasses__():
        assert description.partition(":")[0] == kind.code
    assert kind.__doc__
    assert kind.__doc__.strip().endswith(".")
    assert kind.__doc__ != base.__doc__


def test_the_tree_draws_only_existing_errors() -> None:
    assert set(_drawn()) == {kind.__name__ for kind in KINDS}


def test_codes_are_unique_and_in_capitals() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[A-Z][A-Z_]+", code) for code in codes)
    assert {kind.code: kind for kind in KINDS} == errors.BY_CODE


def test_published_codes_and_statuses_never_change() -> None:
    """`error_codes.txt` only grows: a published code keeps its name and HTTP status when its class is renamed."""
    frozen = (Path(__file__).parent / "error_codes.txt").read_text("utf-8").split("\n")[:-1]
    assert frozen == sorted(f"{kind.code} {kind.status}" for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_can_be_rebuilt_from_its_problem_object(kind: type[errors.EngramBusError]) -> None:
    sent = kind("A detail.", field="f", limit=3, used="x", hint="Try again.")
    rebuilt = errors.EngramBusError.from_problem(sent.problem())
    assert type(rebuilt) is kind
    assert rebuilt.problem() == sent.problem()
    bare = errors.EngramBusError.from_problem(kind().problem())
    assert bare.problem() == kind().problem()


def test_every_decision_record_is_listed_in_order() -> None:
    folder = SOURCE.parents[1] / "docs" / "decisions"
    listed = re.findall(r"^(\d+)\. \[[^]]+\]\((\S+)\)$", (folder / "README.md").read_text("utf-8"), re.M)
    assert [name for _, name in listed] == sorted(path.name for path in folder.glob("0*.md"))
    assert all(name.startswith(f"{int(number):04}-") for number, name in listed)


def test_every_path_in_the_architecture_page_exists() -> None:
    """A bare file name stands in the folder of the last path before it on the line, or at the top of the package."""
    for line in (SOURCE.parents[1] / "ARCHITECTURE.md").read_text("utf-8").splitlines():
        folder = SOURCE
        for path in re.findall(r"`([\w/]+(?:\.py|/))`", line):
            base = SOURCE if "/" in path else folder
            candidates = (base / path, SOURCE / path, SOURCE.parents[1] / path)
            assert any(candidate.exists() for candidate in candidates), f"{path}: {line}"
            folder = (base / path).parent if path.endswith(".py") else base / path


def test_the_package_reads_within_its_targets() -> None:
    """Names, docstrings and comments: `make reading` prints the figures."""
    done = subprocess.run(
        [sys.executable, str(SOURCE.parents[1] / "tools" / "reading.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_every_export_is_used_outside_its_package() -> None:
    """Exempt are the public names of the whole product and the conformance suite, which other back ends use."""
    root = SOURCE.parents[1]
    folders = ("src", "tests", "bench", "eval", "examples", "skills", "tools")
    words = {
        path: set(re.findall(r"\w+", path.read_text("utf-8")))
        for folder in folders
        for path in (root / folder).rglob("*.py")
    }
    for name in PACKAGES_WITH_EXPORTS:
        folder = SOURCE.parent / name.replace(".", "/")
        if name.count(".") == 0 or name.startswith(("engrambus.testing", "engrambus.edges.cli.show")):
            continue
        outside = set[str]().union(*(used for path, used in words.items() if folder not in path.parents))
        unused = set(getattr(importlib.import_module(name), "__all__", ())) - outside
        assert not unused, f"{name} exports {sorted(unused)}, which only its own modules use"
