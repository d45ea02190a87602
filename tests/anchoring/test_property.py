"""Three or more lines of any file lead back to exactly those lines, in every form people and programs paste them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engrambus
from engrambus.evidence.anchoring import Anchors
from engrambus.evidence.anchoring.pasted_text import fold_all, is_fence, is_solid
from engrambus.evidence.pointers import GitRepository, RepoAddress, Repositories, cut_lines, parse_ref
from tests.evidence.repos import Repo

PROJECT = Path(engrambus.__file__).parents[2]
FILES = {
    str(path.relative_to(PROJECT)): path.read_bytes()
    for folder in ("src", "tests", "docs")
    for path in sorted((PROJECT / folder).rglob("*"))
    if path.suffix in (".py", ".md", ".sql", ".json", ".html", ".css", ".js") and path.stat().st_size < 100_000
}
FILES["data/rows.csv"] = "".join(f"{n},{n * n},{n % 7}\n" for n in range(400)).encode()
FILES["data/numbers.txt"] = "".join(f"{n * 37 % 1009}\n" for n in range(400)).encode()
FILES["web/app.js"] = "".join(f"  }}\n\n  function f{n}(a) {{\n    return [a, {n}];\n" for n in range(60)).encode()
FILES["dos.txt"] = "".join(f"row {n} of the file\r\n" for n in range(90)).encode()
FILES["ünï.md"] = "".join(f"* Größe {n}: 合計 „{n}“ – naïve\n\n" for n in range(60)).encode()

Mangle = Callable[[list[str], int], list[str]]
MANGLES: dict[str, Mangle] = {
    "indent": lambda lines, n: [" " * (n % 9) + line for line in lines],
    "dedent": lambda lines, _: [line.strip() for line in lines],
    "tabs": lambda lines, _: [line.replace("    ", "\t") for line in lines],
    "trailing": lambda lines, n: [line + " " * (n % 4) for line in lines],
    "blank lines": lambda lines, _: [part for line in lines for part in (line, "")],
    "no blank lines": lambda lines, _: [line for line in lines if line.strip()],
    "CRLF": lambda lines, _: [line + "\r" for line in lines],
    "quote": lambda lines, _: [f"> {line}" for line in lines],
    "bar": lambda lines, _: [f"| {line}" for line in lines],
    "grep": lambda lines, n: [f"{number}:{line}" for number, line in enumerate(lines, n)],
    "cat": lambda lines, n: [f"{number:6d}\t{line}" for number, line in enumerate(lines, n)],
    "deref": lambda lines, n: [f"{number:>5}  {line}" for number, line in enumerate(lines, n)],
    "added": lambda lines, _: [f"+{line}" for line in lines],
    "removed": lambda lines, _: ["@@ -1,2 +3,4 @@", *(f"-{line}" for line in lines)],
    "context": lambda lines, _: ["@@ -1,2 +3,4 @@ def f", *(f" {line}" for line in lines), "+more than there was"],
    "fence": lambda lines, _: ["```", *lines, "```"],
}
ESCAPES: dict[str, Callable[[str], str]] = {
    "not at all": str,
    "JSON": json.dumps,
    "JSON without quotes": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
}


@pytest.fixture(scope="module")
def anchors() -> Iterator[tuple[Anchors, GitRepository]]:
    """Anchors of a repository with every file of this project, and files of other formats."""
    with tempfile.TemporaryDirectory() as folder:
        repo = Repo(Path(folder) / "repo")
        repo.commit(dict(FILES))
        with (
            closing(GitRepository(repo.path)) as repository,
            closing(Anchors(Repositories(repository), Path(folder) / "anchors.db")) as opened,
        ):
            yield opened, repository


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mangled_lines_are_found(anchors: tuple[Anchors, GitRepository], data: st.DataObject) -> None:
    finder, repository = anchors
    path = data.draw(st.sampled_from(sorted(FILES)))
    all_lines = FILES[path].decode().split("\n")
    start = data.draw(st.integers(0, max(0, len(all_lines) - 3)))
    lines = all_lines[start : start + data.draw(st.integers(3, 30))]
    if sum(map(is_solid, fold_all("\n".join(lines)))) < 3:
        return
    expected = _without_blank_lines(fold_all("\n".join(lines)))
    text = lines
    for name in data.draw(st.lists(st.sampled_from(sorted(MANGLES)), max_size=2)):
        text = MANGLES[name](text, data.draw(st.integers(1, 300)))
    pasted = ESCAPES[data.draw(st.sampled_from(sorted(ESCAPES)))]("\n".join(text))
    if len(pasted.encode()) > 16_384:
        return
    anchor = finder.find(pasted, path=path)
    pointers = [anchor.pointer] if anchor.pointer else list(anchor.candidates)
    contents = []
    for pointer in pointers:
        address = parse_ref(pointer.ref)
        assert isinstance(address, RepoAddress)
        assert address.lines is not None
        content = cut_lines(repository.read(address.revision, address.path).data, *address.lines).decode()
        contents.append(_without_blank_lines(fold_all(content)))
        assert address.path == path
    assert contents, pasted
    assert all(content == expected for content in contents), (pasted, pointers)


def _without_blank_lines(lines: list[str]) -> list[str]:
    """Return the lines without blank ones and fences."""
    return [line for line in lines if line and not is_fence(line)]
