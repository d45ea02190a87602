"""The house is as ARCHITECTURE.md says: doors, names, one reader of the environment, one tree of errors."""

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


PACKAGES = ["engrambus", *(found.name for found in pkgutil.walk_packages([str(SOURCE)], "engrambus.") if found.ispkg)]
DOORS = [name for name in PACKAGES if (SOURCE.parent / name.replace(".", "/") / "__init__.py").stat().st_size]
FILES = sorted(SOURCE.rglob("*.py"))
LATE = "engrambus.lazy_imports"
LATE_DOORS = [name for name in DOORS if f"from {LATE} import" in _text(name)]
NO_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "impl", "misc"}
ENVIRONMENT = {
    "settings.py": "the one reader",
    "evidence/pointers/process.py": "what git's own process is given",
    "space/work/pool_process.py": "what a step did to its process is undone",
}


@pytest.mark.parametrize("name", DOORS)
def test_a_door_lists_exactly_what_can_be_had_through_it(name: str) -> None:
    door = importlib.import_module(name)
    listed = getattr(door, "__all__", [])
    assert len(set(listed)) == len(listed)
    for each in listed:
        assert hasattr(door, each), f"{name} lists {each} and does not have it"
    held = {
        each
        for each, value in vars(door).items()
        if not each.startswith("_") and not isinstance(value, types.ModuleType) and each != "annotations"
    }
    assert held - _typing_only(name) <= set(listed), f"{name} has more than its door lists"


def _typing_only(name: str) -> set[str]:
    """Names a door needs for itself: what it takes from outside the product, and what opens it late."""
    tree = ast.parse(_text(name))
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module == LATE or not (node.module or "").startswith("engrambus"))
        for alias in node.names
    }


@pytest.mark.parametrize("name", [name for name in PACKAGES if name.count(".") <= 1])
def test_a_door_can_be_entered_first(name: str) -> None:
    """No room works only because another was imported before it."""
    done = subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", LATE_DOORS)
def test_a_late_door_leads_where_its_types_say(name: str) -> None:
    door = importlib.import_module(name)
    modules = {found.name for found in pkgutil.iter_modules(door.__path__)}
    assert not modules & set(door.__all__), "a module of that name would stand in the door once it is loaded"
    typed = {
        alias.name: node.module or ""
        for node in ast.walk(ast.parse(_text(name)))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{name}.") and node.module != LATE
        for alias in node.names
    }
    assert set(typed) == set(door.__all__)
    for each, home in typed.items():
        assert getattr(door, each) is getattr(importlib.import_module(home), each)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = door.nothing_like_it


ONE_BY_ONE = """
import importlib, sys
for name in sys.argv[1:]:
    for loaded in [each for each in sys.modules if each.partition(".")[0] == "engrambus"]:
        del sys.modules[loaded]
    importlib.import_module(name)
"""


@pytest.mark.parametrize("name", LATE_DOORS)
def test_behind_a_late_door_every_module_can_be_loaded_first(name: str) -> None:
    door = importlib.import_module(name)
    modules = [f"{name}.{found.name}" for found in pkgutil.iter_modules(door.__path__) if found.name != "generate"]
    code = [sys.executable, "-c", ONE_BY_ONE, *modules]
    done = subprocess.run(code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_generated_files_are_up_to_date() -> None:
    command = [sys.executable, str(SOURCE.parents[1] / "tools" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run tools/generate.py: {done.stdout}{done.stderr}"


def test_the_table_of_operations_says_where_each_is_declared() -> None:
    package = importlib.import_module("engrambus.operations")
    declaring = [
        found.name for found in pkgutil.iter_modules(package.__path__, "engrambus.operations.") if not found.ispkg
    ]
    declared = {
        (name, module)
        for module in declaring
        for name in re.findall(r"^@operation\([^@]*?^def (\w+)", Path(_file(module)).read_text("utf-8"), re.M | re.S)
    }
    assert declared == {(name, each.run.__module__) for name, each in OPERATIONS.items()}


def _file(module: str) -> str:
    return str(SOURCE.parent / module.replace(".", "/")) + ".py"


def test_the_testing_room_needs_neither_pytest_nor_hypothesis() -> None:
    code = "import sys, engrambus.testing; sys.exit(bool({'pytest', 'hypothesis'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert not NO_NAMES & set(path.relative_to(SOURCE).with_suffix("").parts)
    text = path.read_text()
    if text.strip():
        first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
        assert first.endswith((".", ":")), f"{path} does not begin with a sentence"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_settings_read_the_environment(path: Path) -> None:
    if str(path.relative_to(SOURCE)) in ENVIRONMENT:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb", "putenv"):
            raise AssertionError(f"{path}:{node.lineno} looks at the environment")
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            assert not {"environ", "getenv"} & {alias.name for alias in node.names}


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.EngramBusError)]
ROW = re.compile(r"(?P<bars>[│├└─ ]*)(?P<name>[A-Z]\w+)\s*(?P<status>\d{3})?\s*(?P<rest>.*)")


def _drawn() -> dict[str, tuple[str | None, int | None, str]]:
    """The tree of errors as its docstring draws it: name → parent, status if said, the rest of the line."""
    rows: dict[str, tuple[str | None, int | None, str]] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = ROW.fullmatch(line)
        if found is None or (not found["bars"] and found["name"] != "EngramBusError"):
            continue
        depth = len(found["bars"])
        above = [entry for entry in above if entry[0] < depth]
        rows[found["name"]] = (
            above[-1][1] if above else None,
            int(found["status"]) if found["status"] else None,
            found["rest"],
        )
        above.append((depth, found["name"]))
    return rows


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_stands_in_the_tree(kind: type[errors.EngramBusError]) -> None:
    drawn = _drawn()
    assert kind.__name__ in drawn, "not in the docstring's tree"
    parent, status, rest = drawn[kind.__name__]
    if kind is errors.EngramBusError:
        return
    assert parent == kind.__bases__[0].__name__
    above = kind.__bases__[0]
    assert issubclass(above, errors.EngramBusError)
    assert (status if status is not None else above.status) == kind.status
    if not kind.__subclasses__():
        assert rest.partition(":")[0] == kind.code
    assert kind.__doc__
    assert kind.__doc__.strip().endswith(".")
    assert kind.__doc__ != above.__doc__


def test_the_tree_draws_nothing_that_is_not_there() -> None:
    assert set(_drawn()) == {kind.__name__ for kind in KINDS}


def test_codes_are_unique_and_shouted() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[A-Z][A-Z_]+", code) for code in codes)
    assert {kind.code: kind for kind in KINDS} == errors.BY_CODE


def test_published_codes_and_statuses_never_change() -> None:
    """`error_codes.txt` only grows: a published code keeps its name and HTTP status when its class is renamed."""
    frozen = (Path(__file__).parent / "error_codes.txt").read_text("utf-8").split("\n")[:-1]
    assert frozen == sorted(f"{kind.code} {kind.status}" for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_survives_the_journey_to_a_client(kind: type[errors.EngramBusError]) -> None:
    sent = kind("A detail.", field="f", limit=3, used="x", hint="Do better.")
    got = errors.EngramBusError.from_problem(sent.problem())
    assert type(got) is kind
    assert got.problem() == sent.problem()
    bare = errors.EngramBusError.from_problem(kind().problem())
    assert bare.problem() == kind().problem()


def test_the_list_of_decisions_is_whole_and_in_order() -> None:
    folder = SOURCE.parents[1] / "docs" / "decisions"
    listed = re.findall(r"^(\d+)\. \[[^]]+\]\((\S+)\)$", (folder / "README.md").read_text("utf-8"), re.M)
    assert [name for _, name in listed] == sorted(path.name for path in folder.glob("0*.md"))
    assert all(name.startswith(f"{int(number):04}-") for number, name in listed)
