"""Measures how the package reads: names, docstrings, comments, sizes. `--check` fails when a target is missed.

python tools/reading.py [PACKAGE_FOLDER] [--names] [--check]

`--names` lists the docstrings and identifiers to look at.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import statistics
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "engrambus"

# fmt: off
BARE_WORDS = frozenset({
    "each", "one", "ones", "said", "told", "kept", "held", "own", "whole", "shown", "found", "at", "before",
    "asked", "given", "known", "left", "wanted", "taken", "made", "meant", "put_back", "here", "there", "those",
    "these", "what", "who", "how", "more", "rest", "other", "others", "beside", "under", "over", "along", "again",
    "anew", "once", "so", "such", "thing", "things", "way",
})
# fmt: on
"""Identifiers that name nothing: a reader has to look up what they stand for."""
RIDDLE_OPENING = re.compile(r"(What|Whether|Who|Where|How|Which|That|Those)\b")
ARCHAIC_WORD = re.compile(
    r"\b(whoever|whatever|whichever|nobody|somebody|beside|meanwhile|anew|told|though|unless said)\b", re.I
)
PRAGMA = re.compile(r"#\s*(type|noqa|pragma|fmt)")

MAX_BARE_PERCENT = 1.0
MAX_OPENING_PERCENT = 2.0
MAX_ARCHAIC_PERCENT = 0.5
MIN_COMMENT_PERCENT = 2.0


@dataclass
class Measures:
    """Counts over all modules of a package."""

    module_lines: list[int] = field(default_factory=list)
    function_lines: list[int] = field(default_factory=list)
    bare: Counter[str] = field(default_factory=Counter)
    identifiers: int = 0
    docstrings: int = 0
    openings: list[str] = field(default_factory=list)
    archaic: list[str] = field(default_factory=list)
    comments: int = 0
    code_lines: int = 0
    decisions: set[str] = field(default_factory=set)
    classes: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def duplicate_classes(self) -> dict[str, list[str]]:
        """Public class names defined in more than one module, with those modules."""
        return {name: modules for name, modules in sorted(self.classes.items()) if len(modules) > 1}

    def missed_targets(self) -> list[str]:
        """Describe each target that is missed."""
        rows = (
            ("bare-word identifiers", _percent(self.bare.total(), self.identifiers), "<=", MAX_BARE_PERCENT),
            ("riddle openings", _percent(len(self.openings), self.docstrings), "<=", MAX_OPENING_PERCENT),
            ("archaic words", _percent(len(self.archaic), self.docstrings), "<=", MAX_ARCHAIC_PERCENT),
            ("comments", _percent(self.comments, self.code_lines), ">=", MIN_COMMENT_PERCENT),
            ("class names defined twice", float(len(self.duplicate_classes)), "<=", 0.0),
        )
        return [
            f"{name}: {value:.1f}, target {sign} {target}"
            for name, value, sign, target in rows
            if (value > target if sign == "<=" else value < target)
        ]


def measure(package: Path) -> Measures:
    """Measure every module below a folder."""
    measures = Measures()
    for path in sorted(package.rglob("*.py")):
        _measure_module(measures, path.read_text("utf-8"), str(path.relative_to(package)))
    return measures


def _measure_module(measures: Measures, source: str, module: str) -> None:
    measures.module_lines.append(source.count("\n"))
    measures.code_lines += sum(bool(line.strip()) for line in source.splitlines())
    measures.decisions |= set(re.findall(r"decision (\d+)", source))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        measures.comments += token.type == tokenize.COMMENT and not PRAGMA.match(token.string)
    for node in ast.walk(ast.parse(source)):
        for name in _bound_names(node):
            measures.identifiers += 1
            if name.strip("_").lower() in BARE_WORDS:
                measures.bare[name] += 1
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            measures.function_lines.append((node.end_lineno or node.lineno) - node.lineno + 1)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            measures.classes[node.name].append(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            _measure_docstring(measures, node, module)


def _bound_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
        yield from (argument.arg for argument in (*node.args.args, *node.args.kwonlyargs))
    elif isinstance(node, ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id


def _measure_docstring(
    measures: Measures, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module, module: str
) -> None:
    text = ast.get_docstring(node)
    if not text:
        return
    measures.docstrings += 1
    place = f"{module}:{getattr(node, 'lineno', 1)} {text.splitlines()[0][:90]}"
    if RIDDLE_OPENING.match(text):
        measures.openings.append(place)
    if ARCHAIC_WORD.search(text):
        measures.archaic.append(place)


def _percent(part: int, total: int) -> float:
    return 100 * part / max(1, total)


def report(package: Path, measures: Measures) -> Iterator[str]:
    """Yield the lines of the report."""
    modules, functions = measures.module_lines, sorted(measures.function_lines)
    yield (
        f"{package.name}: {len(modules)} modules, {sum(modules)} lines; "
        f"median module {statistics.median(modules):.0f}, "
        f"longest {max(modules)}, up to 60 lines: {sum(lines <= 60 for lines in modules)}"
    )
    yield (
        f"functions {len(functions)}: mean {statistics.mean(functions):.1f}, "
        f"p95 {functions[int(0.95 * len(functions))]}, longest {functions[-1]}"
    )
    bare = measures.bare.total()
    common = ", ".join(f"{name} {count}" for name, count in measures.bare.most_common(12))
    yield f"bare-word identifiers {bare} ({_percent(bare, measures.identifiers):.1f} %): {common}"
    yield (
        f"docstrings {measures.docstrings}: riddle openings {len(measures.openings)} "
        f"({_percent(len(measures.openings), measures.docstrings):.1f} %), archaic words {len(measures.archaic)} "
        f"({_percent(len(measures.archaic), measures.docstrings):.1f} %)"
    )
    yield (
        f"comments {measures.comments} in {measures.code_lines} lines "
        f"({_percent(measures.comments, measures.code_lines):.1f} %); decisions cited: {len(measures.decisions)}"
    )
    twice = measures.duplicate_classes
    yield f"public class names defined twice: {len(twice)} {', '.join(twice)}".rstrip()


def main() -> int:
    """Print the report; with `--check` return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description="Measure how a package reads.")
    parser.add_argument("package", nargs="?", type=Path, default=PACKAGE)
    parser.add_argument("--names", action="store_true", help="list the docstrings to look at")
    parser.add_argument("--check", action="store_true", help="fail when a target is missed")
    options = parser.parse_args()
    measures = measure(options.package)
    print(*report(options.package, measures), sep="\n")
    if options.names:
        print("\nopenings:", *measures.openings, "\narchaic:", *measures.archaic, sep="\n")
    missed = measures.missed_targets() if options.check else []
    print(*(f"missed: {row}" for row in missed), sep="\n", end="\n" if missed else "")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
