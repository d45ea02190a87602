"""Reading a history: commits, functions and the tests that reach them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from use_cases.commits import History, Hunk, is_source, is_test
from use_cases.functions import broad_catch, changed_functions, find_functions
from use_cases.impacted_tests import CallGraph
from use_cases.review import choose_commit

from tests.projects import commit_files, git

GO = """\
package main

func Handle(w Writer, r Reader) error {
	if r == nil {
		return nil
	}
	return nil
}
"""
BODY = "".join(f"    if (order.part{number}) {{ send(order, {number}); }}\n" for number in range(5))


@pytest.mark.parametrize(
    ("path", "text", "last"),
    [
        ("a.py", "@cached\ndef handle(order, /, *parts, limit=3, **rest):\n    return order\n", 3),
        ("a.ts", f"export const handle = async (order: Order): Promise<void> => {{\n{BODY}}}\nafter();\n", 7),
        ("a.js", f"const handle = function (order) {{\n{BODY}}}\nafter();\n", 7),
        ("a.ts", f"async handle(order: Order): Promise<Receipt[]> {{\n{BODY}}}\nafter();\n", 7),
        ("A.java", f"public static Map<String, Order> handle(final Order order) throws E {{\n{BODY}}}\nafter();\n", 7),
        ("a.cs", f"public async Task<int> handle(Order order)\n{{\n{BODY}}}\nafter();\n", 8),
        ("a.c", f"static struct order *handle(struct order *order)\n{{\n{BODY}}}\nafter();\n", 8),
        ("a.cpp", f"int Office::handle(const Order& order) const {{\n{BODY}}}\nafter();\n", 7),
    ],
)
def test_functions_begin_in_many_ways(path: str, text: str, last: int) -> None:
    (function,) = find_functions(path, text)
    assert (function.name, function.first, function.last) == ("handle", 1, last)


def test_go_functions_end_at_their_brace() -> None:
    (function,) = find_functions("main.go", GO)
    assert (function.name, function.first, function.last) == ("Handle", 3, 8)


def test_methods_have_their_class_and_their_arguments() -> None:
    text = "class Office:\n    def send(self, number, *, fast=False):\n        pass\n\n\nif True:\n    def go(): pass\n"
    assert [(item.name, item.arguments) for item in find_functions("a.py", text)] == [
        ("Office.send", ("number", "fast")),
        ("go", ()),
    ]


def test_of_overloads_the_longest_is_kept() -> None:
    text = "@overload\ndef go(a): ...\n@overload\ndef go(b): ...\ndef go(a, b):\n    x = 1\n    return x\n"
    assert [(item.name, item.first) for item in find_functions("a.py", text)] == [("go", 5)]


@pytest.mark.parametrize("head", ["while (order(1)) {", "else if (order) {", "send(order);", "synchronized (order) {"])
def test_lookalikes_of_functions_are_skipped(head: str) -> None:
    assert find_functions("a.java", f"{head}\n{BODY}}}\n") == []


def test_a_handler_that_re_raises_is_not_reported() -> None:
    head = "def go():\n    try:\n        work()\n    except Exception:\n"
    for tail, line in (("        undo()\n        raise\n", None), ("        pass\n", 4)):
        files = {"a.py": head + tail}
        (function,) = find_functions("a.py", files["a.py"])
        assert broad_catch(function, files) == line


def test_a_source_that_cannot_be_parsed_has_no_functions() -> None:
    assert find_functions("a.py", "def go(:\n") == []
    assert CallGraph({"a.py": "def go(:\n", "b.py": "from a import go\n"}).tests(find_functions("c.js", GO)[0]) == []


@pytest.mark.parametrize("path", ["node_modules/a.js", "vendor/a.py", "a b.py", "src/ä.py", ".hidden/a.py", "x.min.js"])
def test_vendored_files_and_unusual_paths_are_skipped(path: str) -> None:
    assert not is_source(path)


def test_tests_are_told_from_sources() -> None:
    paths = ["src/contest.py", "tests/a.py", "a/test_b.py", "b_test.go", "x.spec.ts", "conftest.py"]
    assert [is_test(path) for path in paths] == [False, True, True, True, True, True]


def test_a_deletion_touches_the_lines_around_it() -> None:
    assert Hunk(5, 4).touches(3, 6)
    assert not Hunk(5, 4).touches(5, 9)
    assert Hunk(5, 5).touches(5, 9)


PROJECT = {
    "src/shop/__init__.py": "from shop.cart import total\n",
    "src/shop/cart.py": (
        "from .prices import price as price_of\n\n\n"
        "def total(items):\n    return sum(price_of(item) for item in items)\n\n\n"
        "class Cart:\n    def add(self, item):\n        return self.weigh(item)\n\n"
        "    def weigh(self, item):\n        return 1\n"
    ),
    "src/shop/prices.py": "def price(item):\n    return 2\n\n\ndef unused(item):\n    return 3\n",
    "tests/test_shop.py": (
        "import shop\nfrom shop.cart import Cart\nimport pytest\n\n\n"
        "@pytest.fixture\ndef cart():\n    return Cart()\n\n\n"
        "def test_total():\n    assert shop.total([1]) == 2\n\n\n"
        "class TestCart:\n    def test_add(self, cart):\n        assert cart.add(1) == 1\n\n\n"
        "def test_other():\n    assert {1}.add is not None\n"
    ),
}


@pytest.mark.parametrize(
    ("name", "tests"),
    [
        ("price", [("test_total", ("total",))]),  # by another name, through a package
        ("total", [("test_total", ())]),
        ("unused", []),
        ("Cart.weigh", [("TestCart.test_add", ("Cart.add",)), ("test_other", ("Cart.add",))]),
    ],
)
def test_tests_are_found_through_imports(name: str, tests: list[tuple[str, tuple[str, ...]]]) -> None:
    graph = CallGraph(PROJECT)
    functions = [item for path, text in PROJECT.items() for item in find_functions(path, text) if item.name == name]
    assert [(test.name, test.through) for test in graph.tests(functions[0])] == tests


def test_only_certain_callers_are_named_in_claims() -> None:
    graph = CallGraph(PROJECT)
    by_name = {item.name: item for path, text in PROJECT.items() for item in find_functions(path, text)}
    assert graph.callers(by_name["Cart.add"], certain=True) == []
    assert [item.name for item in graph.callers(by_name["Cart.weigh"], certain=True)] == ["Cart.add"]


def test_a_moved_file_and_a_changed_function_are_one_change(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    body = "def go(a):\n    b = a\n    return b\n\n\n" + "".join(f"X{n} = {n}\n" for n in range(30))
    commit_files(tmp_path, {"old.py": body})
    commit_files(tmp_path, {"old.py": None, "new.py": body.replace("b = a", "b = a + 1")})
    (commit,) = History(tmp_path).commits(limit=5)
    (change,) = commit.files
    assert (change.path, change.old_path, change.hunks) == ("new.py", "old.py", (Hunk(2, 2),))
    files = History(tmp_path).texts(commit.sha)
    assert [item.name for item in changed_functions(commit, files)] == ["go"]


def test_a_shallow_clone_has_no_commit_to_review(post_office: Path, tmp_path: Path) -> None:
    source = f"file://{post_office}"
    subprocess.run(["git", "clone", "-q", "--depth", "1", source, "shallow"], cwd=tmp_path, check=True)
    assert choose_commit(History(tmp_path / "shallow")) is None
    assert choose_commit(History(tmp_path)) is None
