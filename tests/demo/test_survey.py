"""What a reviewer would point at, chosen by rule."""

from __future__ import annotations

import pytest
from demo.post_office import FILES
from demo.run import survey_without_secrets
from demo.survey import survey
from hypothesis import given
from hypothesis import strategies as st

LONG = "def long(values):\n" + "".join(f"    if values[{n}]:\n        print({n})\n" for n in range(6))

GO = """\
package main

func Handle(w Writer, r Reader) error {
	if r == nil {
		return nil
	}
	for {
		if done {
			break
		}
	}
	return nil
}
"""


def test_the_post_office_has_one_of_each() -> None:
    matches = survey(FILES)
    assert matches is not None
    assert (matches.function.name, str(matches.function.span)) == ("take_in", "post/office.py:67-96")
    assert matches.error_handling.kind == "risk"
    assert matches.error_handling.span.path == "post/office.py"
    assert (matches.todo.kind, matches.todo.span.path) == ("todo", "post/routes.py")
    assert (matches.untested.kind, matches.untested.span.path) == ("test", "post/office.py")


def test_other_languages_have_functions_too() -> None:
    matches = survey({"main.go": GO})
    assert matches is not None
    assert (matches.function.name, matches.function.span.first, matches.function.span.last) == ("Handle", 3, 13)
    assert (matches.function.branches, matches.function.branching.first, matches.function.branching.last) == (3, 4, 8)


BODY = "".join(f"    if (order.part{number}) {{ send(order, {number}); }}\n" for number in range(5))


@pytest.mark.parametrize(
    ("path", "head", "last"),
    [
        ("a.ts", "export const handle = async (order: Order): Promise<void> => {\n", 7),
        ("a.js", "const handle = function (order) {\n", 7),
        ("a.ts", "async handle(order: Order): Promise<Receipt[]> {\n", 7),
        ("A.java", "public static Map<String, Order> handle(final Order order) throws IOException {\n", 7),
        ("a.cs", "public async Task<int> handle(Order order)\n{\n", 8),
        ("a.c", "static struct order *handle(struct order *order)\n{\n", 8),
        ("a.cpp", "int Office::handle(const Order& order) const {\n", 7),
    ],
)
def test_functions_begin_in_many_ways(path: str, head: str, last: int) -> None:
    matches = survey({path: head + BODY + "}\nafter();\n"})
    assert matches is not None
    assert (matches.function.name, matches.function.span.first, matches.function.span.last) == ("handle", 1, last)
    assert matches.function.branches == 5


@pytest.mark.parametrize("head", ["while (order(1)) {", "else if (order) {", "send(order);", "synchronized (order) {"])
def test_lookalikes_of_functions_are_skipped(head: str) -> None:
    assert survey({"a.java": f"{head}\n{BODY}}}\n"}) is None


def test_a_handler_that_re_raises_is_not_reported() -> None:
    unchanged = LONG + "    try:\n        go()\n    except Exception:\n        undo()\n        raise\n"
    matches = survey({"a.py": unchanged})
    assert matches is not None
    assert matches.error_handling.kind == "fact"
    swallowed = LONG + "    try:\n        go()\n    except Exception:\n        pass\n"
    matches = survey({"a.py": swallowed})
    assert matches is not None
    assert matches.error_handling.kind == "risk"


def test_nothing_missing_is_claimed() -> None:
    matches = survey({"a.py": LONG})
    assert matches is not None
    assert "longest" in matches.todo.claim
    assert "largest" in matches.untested.claim
    assert survey({}) is survey({"a.py": "x = 1\n"}) is survey({"notes.md": LONG}) is None


def test_vendored_files_and_unusual_paths_are_skipped() -> None:
    for path in ("node_modules/a.js", "vendor/a.py", "a b.py", "src/ä.py", ".hidden/a.py", "x.min.js"):
        assert survey({path: LONG}) is None, path


def test_a_function_with_a_secret_is_not_quoted() -> None:
    key = "AKIA" + "Z7Q4M2X9B6W8N3R5"
    secret = LONG.replace("    if values[0]:", f'    key = "{key}"\n    if values[0]:')
    assert survey_without_secrets({"a.py": secret}) is None
    matches = survey_without_secrets({"a.py": secret, "b.py": LONG})
    assert matches is not None
    assert matches.function.span.path == "b.py"


names = st.sampled_from(["a.py", "src/b.py", "tests/test_b.py", "c.js", "d.md"])
lines = st.lists(
    st.sampled_from(
        ["def f(x):", "    if x:", "        y()", "    except Exception:", "# TODO", "", "}", "function g() {", "x"]
    )
    | st.text(st.characters(codec="utf-8"), max_size=12),
    max_size=40,
)


@given(st.dictionaries(names, lines.map("\n".join), max_size=4))
def test_spans_lie_inside_their_files_and_the_survey_is_deterministic(files: dict[str, str]) -> None:
    matches = survey(files)
    assert matches == survey(dict(reversed(files.items())))
    if matches is not None:
        for place in matches.spans:
            assert 1 <= place.first <= place.last <= len(files[place.path].splitlines())
        assert matches.function.span != matches.function.branching
