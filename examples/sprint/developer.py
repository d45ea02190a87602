"""Stands in for a model that writes code: it writes what an item says, always the same for the same item."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any


def develop(item: dict[str, Any]) -> list[str]:
    """Write the function of an item into its module, and a test for each of its examples; return the paths."""
    module, name = _identifier(item["module"]), _identifier(item["function"])
    paths = [Path(f"src/{module}.py"), Path(f"tests/test_{module}.py")]
    texts = [_function(item, name), _tests(item, module, name)]
    names = [name, f"test_{name}"]
    heads = [f'"""{item["about"]}"""\n', f"from {module} import {name}\n"]
    for path, head, text, defined in zip(paths, heads, texts, names, strict=True):
        path.parent.mkdir(exist_ok=True)
        old = path.read_text("utf-8") if path.is_file() else head
        path.write_text(_with_function(old, defined, text), "utf-8")
    return [str(path) for path in paths]


def _function(item: dict[str, Any], name: str) -> str:
    parameters = ", ".join(f"{_identifier(parameter)}: int" for parameter in item["parameters"])
    return f'def {name}({parameters}) -> int:\n    """{item["title"]}."""\n    return {_expression(item["returns"])}\n'


def _tests(item: dict[str, Any], module: str, name: str) -> str:
    calls = [(", ".join(str(int(value)) for value in values), int(result)) for values, result in item["examples"]]
    lines = "".join(f"    assert {name}({arguments}) == {result}\n" for arguments, result in calls)
    return f"def test_{name}() -> None:\n{lines}"


def _with_function(text: str, name: str, function: str) -> str:
    """Return a module with a function, in the place of one of that name."""
    lines = text.splitlines(keepends=True)
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return "".join([*lines[: node.lineno - 1], function, *lines[node.end_lineno :]])
    return text.rstrip("\n") + f"\n\n\n{function}"


def _expression(text: str) -> str:
    """Return an expression of Python as Python writes it; anything else is not written into a file."""
    try:
        return ast.unparse(ast.parse(text, mode="eval"))
    except SyntaxError as problem:
        sys.exit(f"The item does not say what to return: {problem}")


def _identifier(text: str) -> str:
    return text if text.isidentifier() else sys.exit(f"{text!r} is not a name of Python.")
