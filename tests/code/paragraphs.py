"""Paragraphs of real prose: docstrings, READMEs, change logs, licences, reference pages, commit messages.

A paragraph is prose if it starts at the margin, or is a list item or a field, and has function words. A paragraph with
an expression in backticks is left out, because it does contain code.
"""

from __future__ import annotations

import ast
import inspect
import re
import sysconfig
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from pydoc_data.topics import topics

from tests.code.files import ROOT, commit_messages, distributions, our_files, package_files, read, sources
from tests.code.snippets import Sample, number

PER_KIND = {"docstring": 4000, "readme": 1000, "changelog": 500, "licence": 200, "reference": 1000}
FUNCTION_WORDS = re.compile(
    r"(?<![^\s(])(the|a|an|of|to|is|are|be|that|this|it|by|was|were|can|will|which|should|when|has|have|and|on|now)"
    r"(?=[\s,.)])",
    re.IGNORECASE,
)
QUOTED = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]+)\1(?!`)")
NAME_ONLY = re.compile(r"[\w./:@#~<>*+$%!?,\\ -]*(\(\))?")
MARKUP = re.compile(r"\s*(>>>|\.\. |\||\+[-=]|[=~^\"'`#*-]{3,}|\[!|!\[|<|```|\[[^\]]+\]: |\.\. _)")
ITEM = re.compile(r"\s*([-*+•]|\d+[.)]|:\w[^:]*:|[a-z_*]\w* ?(\([^)]*\))?:) +\S")
FENCED = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
LOG = re.compile(r"change|release|news|history|what's new|v?\d+\.\d+", re.IGNORECASE)


def is_prose(paragraph: str) -> bool:
    lines = paragraph.split("\n")
    if any(MARKUP.match(line) for line in lines) or "::\n" in paragraph + "\n":
        return False
    if any(not NAME_ONLY.fullmatch(quoted.group(2)) for quoted in QUOTED.finditer(paragraph)):
        return False
    if paragraph.count("`") % 2 or ">>>" in paragraph or not 25 <= len(paragraph) <= 2000:
        return False
    if any(_introduces_example(first, second) for first, second in pairwise(lines)):
        return False
    words = re.findall(r"[A-Za-z]+", paragraph)
    common = len(FUNCTION_WORDS.findall(paragraph))
    return len(words) >= 5 and common >= 2 and common * 12 >= len(words)


def _introduces_example(first: str, second: str) -> bool:
    """True if a line ends with a colon, and the next one is indented and not a sentence."""
    is_indented = len(second) - len(second.lstrip()) > len(first) - len(first.lstrip())
    return first.endswith(":") and is_indented and not FUNCTION_WORDS.search(second) and not ITEM.match(second)


def paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs at the margin, list items with their continuation, and indented descriptions of fields."""
    literal = False
    for block in re.split(r"\n[ \t]*\n", FENCED.sub("", text)):
        lines = [line.rstrip() for line in block.strip("\n").split("\n")]
        first = lines[0]
        indented = first.startswith((" ", "\t"))
        if (indented and literal) or (indented and not ITEM.match(first)):
            continue
        literal = lines[-1].endswith(":") or first.startswith("..")
        yield "\n".join(lines)


def _from(kind: str, text: str, origin: str) -> Iterator[Sample]:
    for paragraph in paragraphs(text):
        if is_prose(paragraph):
            yield Sample(kind=kind, text=paragraph, origin=origin)


def docstrings() -> Iterator[Sample]:
    paths = sorted(sources()["python"], key=lambda path: number(path.name + str(path.stat().st_size)))
    for path in paths[:1600]:
        try:
            tree = ast.parse(read(path))
        except SyntaxError:
            continue
        for node in _documented(tree):
            text = ast.get_docstring(node, clean=False)
            if text:
                yield from _from("docstring", inspect.cleandoc(text), path.name)


def _documented(tree: ast.Module) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield what can have a docstring, by level; expressions are not looked into, which are most of a tree."""
    level: list[ast.AST] = [tree]
    while level:
        for node in level:
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield node
        level = [
            inner
            for node in level
            for field in ("body", "handlers", "cases", "orelse", "finalbody")
            for inner in _statements(getattr(node, field, None))
        ]


def _statements(part: object) -> list[ast.AST]:
    return part if isinstance(part, list) else []  # the body of a lambda or a conditional expression is none


def descriptions() -> Iterator[Sample]:
    """Yield paragraphs of package descriptions; below a heading about releases they belong to a change log."""
    for distribution in distributions():
        name = distribution.metadata["Name"]
        text = FENCED.sub("", distribution.read_text("METADATA") or "")
        kind = "readme"
        for block in re.split(r"\n(?=#{1,4} |[^\n]+\n[-=~^]{3,}\n)", text.partition("\n\n")[2]):
            title = block.partition("\n")[0]
            kind = "changelog" if LOG.search(title) else "readme"
            yield from _from(kind, block, name)
    for path in our_files():
        if path.suffix == ".md":
            kind = "changelog" if path.name == "CHANGELOG.md" else "readme"
            yield from _from(kind, read(path), path.name)
    for path in (Path(sysconfig.get_paths()["stdlib"]) / "idlelib").glob("*.txt"):
        text = path.read_text(encoding="utf-8", errors="replace")
        yield from _from("changelog" if "ews" in path.name else "readme", text, path.name)


def licences() -> Iterator[Sample]:
    for path in [*package_files(), ROOT / "LICENSE"]:
        if re.search(r"licen[cs]e|copying|notice", path.name, re.IGNORECASE) and path.suffix not in {".py", ".pyc"}:
            yield from _from("licence", inspect.cleandoc(read(path)), path.name)


def references() -> Iterator[Sample]:
    for name, text in sorted(topics.items()):
        for sample in _from("reference", inspect.cleandoc(text), name):
            # These pages write code in double quotes where others use backticks.
            if all(NAME_ONLY.fullmatch(quoted) for quoted in re.findall(r'"([^"]*)"', sample.text)):
                yield sample


def commits() -> Iterator[Sample]:
    for message in commit_messages():
        for paragraph in re.split(r"\n\s*\n", message):
            if not re.match(r"[\w-]+: .*<.*@", paragraph):
                yield Sample(kind="commit", text=paragraph.strip(), origin=message.partition("\n")[0])


def prose() -> list[Sample]:
    unique: dict[str, Sample] = {}
    for source in (docstrings, descriptions, licences, references, commits):
        for sample in source():
            unique.setdefault(sample.text, sample)
    counts: dict[str, int] = {}
    samples = []
    for sample in sorted(unique.values(), key=lambda sample: sample.number):
        counts[sample.kind] = counts.get(sample.kind, 0) + 1
        if counts[sample.kind] <= PER_KIND.get(sample.kind, 500):
            samples.append(sample)
    return samples
