"""Finding functions and classes, and the one that a change is in. BX-08"""

from __future__ import annotations

import pytest
from eval.definitions import Definition, distinct, enclosing, find_definitions

SOURCE = '''\
import typing

if typing.TYPE_CHECKING:
    def early(a): ...

class Session:
    """Hold cookies.

    And more.
    """

    kept = 1

    @typing.overload
    def send(self, request): ...

    @property
    def send(self, request, *, verify=True, **more):
        def inner():
            return request.close()

        return inner(), open("x")


async def outer():
    pass
'''


def names(definitions: list[Definition]) -> list[str]:
    return [definition.name for definition in definitions]


def test_python_definitions_have_their_lines_arguments_and_calls() -> None:
    found = find_definitions("a/sessions.py", SOURCE)
    assert names(found) == ["early", "Session", "Session.send", "Session.send", "outer"]
    session, send = distinct(found)[1:3]
    assert (session.kind, session.first, session.last) == ("class", 6, 22)
    assert session.docstring_lines == (7, 10)
    assert (send.kind, send.first, send.last) == ("method", 17, 22)  # the longer of two, with its decorator
    assert send.arguments == ("request", "verify", "more")
    assert set(send.calls) == {"inner", "open", "close"}


def test_a_change_belongs_to_the_innermost_definition() -> None:
    found = find_definitions("a/sessions.py", SOURCE)
    assert names(enclosing(found, 20, 20)) == ["Session.send"]  # what is nested in a function belongs to it
    assert names(enclosing(found, 12, 12)) == ["Session"]
    assert names(enclosing(found, 12, 26)) == ["Session", "Session.send", "outer"]
    assert names(enclosing(found, 1, 2)) == []


def test_an_insertion_belongs_to_the_definition_around_its_place() -> None:
    found = find_definitions("a/sessions.py", SOURCE)
    assert names(enclosing(found, 13, 12)) == ["Session"]
    assert names(enclosing(found, 22, 21)) == ["Session.send"]
    assert names(enclosing(found, 24, 23)) == []  # after the last line of the class


def test_a_file_that_does_not_parse_has_no_definitions() -> None:
    assert find_definitions("old.py", "print 'hello'\n") == []
    assert find_definitions("notes.txt", "def f(): pass\n") == []


GO = "func (s *Store) Put(key string) {\n\ts.n++\n}\n\ntype Store struct {\n\tn int\n}\n"
JAVASCRIPT = "export async function load(url) {\n  return 1\n}\nconst add = (a) => {\n  a\n}\n"
RUBY = "class A\n  def b?\n    1\n  end\nend\n"
RUST = "pub fn run(x: u8) -> u8 {\n    x\n}\n"
C = "static int add(int a)\n{\n  return a;\n}\n"
JAVA = "public class A {\n  private int add(int a) {\n    return a;\n  }\n}\n"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.go", GO, [("Put", 1, 3), ("Store", 5, 7)]),
        ("a.js", JAVASCRIPT, [("load", 1, 3), ("add", 4, 6)]),
        ("a.rb", RUBY, [("A", 1, 5), ("b?", 2, 4)]),
        ("a.rs", RUST, [("run", 1, 3)]),
        ("a.c", C, [("add", 1, 4)]),
        ("A.java", JAVA, [("A", 1, 5), ("add", 2, 4)]),
    ],
)
def test_other_languages_are_read_by_their_first_lines(
    path: str, text: str, expected: list[tuple[str, int, int]]
) -> None:
    assert [(found.name, found.first, found.last) for found in find_definitions(path, text)] == expected
