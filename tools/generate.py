"""Write every generated file of the repository: `python tools/generate.py`; `--check` only reports what is out of date.

Generated are the lazy-import tables in the packages' `__init__.py`, the client's methods, the skill and the plugin.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
MARKER = "# Below this line: generated from the imports above by tools/generate.py."


def main() -> int:
    """Write what is out of date, or only report it with `--check`; return the exit status."""
    check = "--check" in sys.argv[1:]
    stale = False
    for path, content in generated_files():
        if not path.exists() or path.read_bytes() != content:
            stale = True
            print(f"{'out of date' if check else 'written'}: {path.relative_to(ROOT)}")
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
    return 1 if check and stale else 0


def generated_files() -> Iterator[tuple[Path, bytes]]:
    """Yield each generated file with the content it should have."""
    for path in lazy_packages():
        yield path, lazy_init(path).encode()
    sys.path.insert(0, str(SOURCE))
    from engrambus.edges.integrations import generate as integrations
    from engrambus.edges.sdk import generate as sdk

    yield sdk.TARGET, sdk.generate().encode()
    for name, content in integrations.skill_made().items():
        yield ROOT / "skills" / "less" / name, content
    for name, content in integrations.plugin_made().items():
        yield ROOT / name, content


def lazy_packages() -> list[Path]:
    """Return the `__init__.py` of every package that loads its modules on first use."""
    return sorted(path for path in SOURCE.rglob("__init__.py") if MARKER in path.read_text("utf-8"))


def lazy_init(path: Path) -> str:
    """Return a lazy package's `__init__.py`: its imports for type checkers, then the tables made from them."""
    head = path.read_text("utf-8").partition(MARKER)[0].rstrip()
    tree = ast.parse(head)
    package = ".".join(path.parent.relative_to(SOURCE).parts)
    by_module: dict[str, list[str]] = {}
    for name, module in _typed_imports(tree, package):
        by_module.setdefault(module, []).append(name)
    exported = sorted([*(name for names in by_module.values() for name in names), *_eager_exports(tree)], key=_sort_key)
    rows = "".join(_table_row(module, sorted(by_module[module], key=_sort_key)) for module in sorted(by_module))
    listed = textwrap.fill(", ".join(f'"{name}"' for name in exported) + ",", 116)
    return (
        f"{head}\n\n{MARKER}\n# fmt: off\n"
        f"if not TYPE_CHECKING:\n    __getattr__ = lazy_exports(__name__, {{\n{rows}    }})\n\n"
        f"__all__ = [\n{textwrap.indent(listed, '    ')}\n]\n"
    )


def _table_row(module: str, names: list[str]) -> str:
    """Return the row of one module; its names are one string, wrapped where it is long."""
    lines = textwrap.wrap(" ".join(names), 100)
    if len(lines) == 1:
        return f'        "{module}": "{lines[0]}",\n'
    quoted = "".join(f'            "{line} "\n' for line in lines)
    return f'        "{module}": (\n{quoted}        ),\n'


def _typed_imports(tree: ast.Module, package: str) -> Iterator[tuple[str, str]]:
    """Yield each name imported under `if TYPE_CHECKING:` with its module, relative to the package."""
    for block in tree.body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.ImportFrom) and node.module:
                    for alias in node.names:
                        yield alias.name, node.module.removeprefix(f"{package}.")


def _eager_exports(tree: ast.Module) -> Iterator[str]:
    """Yield the names that are imported eagerly from this product and exported as well."""
    for node in tree.body:
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if isinstance(node, ast.ImportFrom) and module.startswith("engrambus.") and module != "engrambus.lazy_imports":
            yield from (alias.name for alias in node.names)


def _sort_key(name: str) -> tuple[int, str]:
    """Order names as ruff's RUF022 does: constants, classes, then the rest."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


if __name__ == "__main__":
    sys.exit(main())
