"""What a reviewer would point at in a repository, chosen by rule: the same commit gives the same places."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

SUFFIXES = (".py", ".js", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".rb", ".php", ".c", ".cc", ".cpp", ".h", ".cs")
SHORTEST, LONGEST = 6, 70
"""Lines a block must have to be worth a word, and may have to be read at once."""
HANDLER = 8
"""Lines after a catch in which it could hand the error on."""
AROUND = 3
"""Lines shown on either side of one that is pointed at."""

_SIMPLE_PATH = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_SET_ASIDE = re.compile(r"(^|/)(node_modules|vendor|third_party|dist|build|\.[^/]+)/|\.min\.|_pb2|generated", re.I)
_OPENS = re.compile(
    r"^(?P<indent>[ \t]*)"
    r"(?:(?:export|default|public|private|protected|static|final|pub|async|virtual|inline|override)\s+)*"
    r"(?:def|fn|func|function|fun)\s+(?:\([^)]*\)\s*)?(?P<name>[A-Za-z_]\w{1,40})"
)
_ARROW = re.compile(
    r"^(?P<indent>[ \t]*)(?:export\s+)?(?:const|let|var)\s+(?P<name>[A-Za-z_]\w{1,40})\s*(?::[^=]+)?="
    r"\s*(?:async\s*)?(?:function\b|\([^()]*\)\s*(?::[^=]+)?=>|\w+\s*=>)"
)
_TYPED = re.compile(
    r"^(?P<indent>[ \t]*)(?!(?:if|else|for|foreach|while|switch|catch|return|do|try|new|case|throw|with|using|lock|"
    r"synchronized|unless|until)\b)(?:[A-Za-z_][\w<>\[\],.:*&?]*\s+)*[*&]*(?:\w+::)*(?P<name>[A-Za-z_]\w{1,40})"
    r"\s*\([^;{}]*\)\s*(?:const|noexcept|throws\s[\w., ]+|:\s*[\w<>\[\]|. ]+)?\s*(?P<brace>\{)?\s*$"
)
"""A function of a language that begins it with its type, or of one that begins a method with its name."""
_BRANCH = re.compile(r"^\s*(?:\}?\s*else\b|if|elif|for|while|switch|match|case|when|unless)\b")
_SWALLOWS = re.compile(r"^\s*(?:except\s*:|except\s+(?:Base)?Exception\b|\}?\s*catch\s*[({]|rescue\b)")
_HANDS_ON = re.compile(r"\b(raise|throw|throws|panic|rethrow|exit)\b")
_LEFT_OPEN = re.compile(r"(?:#|//|/\*|\*|--|;)\s*.*\b(TODO|FIXME|XXX|HACK)\b")
_TEST = re.compile(r"(^|/)(tests?|spec|__tests__)(/|$)|(^|/)test_|_test\.|\.spec\.|\.test\.", re.I)


class Place(NamedTuple):
    """Some lines of a file."""

    path: str
    first: int
    last: int

    def ref(self, sha: str) -> str:
        """The pointer to them at a commit."""
        return f"repo:{self.path}#L{self.first}-L{self.last}@{sha}"

    def __str__(self) -> str:
        return f"{self.path}:{self.first}-{self.last}"


class Finding(NamedTuple):
    """Something to say about a place."""

    kind: str
    claim: str
    place: Place


class Block(NamedTuple):
    """A function, and the stretch of it that branches."""

    name: str
    place: Place
    branches: int
    branching: Place


class Survey(NamedTuple):
    """What the review is about."""

    block: Block
    """The longest function that can be read at once; the team will disagree about it."""
    caught: Finding
    """How errors are handled somewhere, or else the next longest function."""
    left_open: Finding
    """Something somebody meant to do, or else the longest line."""
    untested: Finding
    """A file no test names, or else the largest."""

    @property
    def places(self) -> list[Place]:
        """Everything that will be pointed at."""
        findings = (self.caught, self.left_open, self.untested)
        return [self.block.place, self.block.branching, *(each.place for each in findings)]


def reviewable(path: str) -> bool:
    """Whether a path is that of source code somebody wrote here."""
    return bool(path.endswith(SUFFIXES) and _SIMPLE_PATH.fullmatch(path) and not _SET_ASIDE.search(path))


def survey(files: Mapping[str, str], sayable: Callable[[str], bool] = lambda text: True) -> Survey | None:
    """The places of a review among files by path; none when there is no function to speak of.

    `sayable` tells whether a text may be quoted; a function that holds a secret is passed over.
    """
    chosen = {path: files[path].splitlines() for path in sorted(files) if reviewable(path)}
    source = {path: lines for path, lines in chosen.items() if not _TEST.search(path)} or chosen
    blocks = sorted(
        (block for path, lines in source.items() for block in _blocks(path, lines)),
        key=lambda block: (block.place.first - block.place.last, block.place),
    )
    wanted = [*(each for each in blocks if each.branches >= 2), *(each for each in blocks if each.branches < 2)]
    quoted = (each for each in wanted if sayable("\n".join(_at(source, each.place))))
    block = next(quoted, None)
    if block is None:
        return None
    others = [each for each in blocks if each != block] or [block]
    return Survey(
        block=block,
        caught=_caught(source) or _next_longest(others[0]),
        left_open=_left_open(source) or _longest_line(source),
        untested=_untested(source, chosen) or _largest(source),
    )


def _opened(lines: list[str], number: int) -> re.Match[str] | None:
    """How a function begins in a line, if one does."""
    found = _OPENS.match(lines[number]) or _ARROW.match(lines[number])
    if found is not None:
        return found
    typed = _TYPED.match(lines[number])
    braced = typed is not None and (typed["brace"] or "".join(lines[number + 1 : number + 2]).strip() == "{")
    return typed if braced else None


def _blocks(path: str, lines: list[str]) -> Iterator[Block]:
    """Every function whose end can be told by its indentation."""
    for start in range(len(lines)):
        opened = _opened(lines, start)
        if opened is None:
            continue
        indent = len(opened["indent"].expandtabs())
        end = start
        for number in range(start + 1, min(len(lines), start + LONGEST + 40)):
            text = lines[number]
            if not text.strip():
                continue
            deep = len(text.expandtabs()) - len(text.expandtabs().lstrip())
            if deep <= indent and not text.lstrip().startswith((")", "{")):
                end = number if text.lstrip().startswith("}") else end
                break
            end = number
        if SHORTEST <= end - start + 1 <= LONGEST:
            within = [number for number in range(start + 1, end + 1) if _BRANCH.match(lines[number])]
            middle = (within[0] + 1, within[-1] + 1) if within else (start + 2, end + 1)
            first, last = middle if middle != (start + 1, end + 1) else (start + 2, end + 1)
            place = Place(path, start + 1, end + 1)
            yield Block(opened["name"], place, len(within), Place(path, first, last))


def _at(source: Mapping[str, list[str]], place: Place) -> list[str]:
    return source[place.path][place.first - 1 : place.last]


def _around(path: str, lines: list[str], number: int) -> Place:
    return Place(path, max(1, number + 1 - AROUND), min(len(lines), number + 1 + AROUND))


def _caught(source: Mapping[str, list[str]]) -> Finding | None:
    for path, lines in source.items():
        for number, line in enumerate(lines):
            if _SWALLOWS.match(line) and not _HANDS_ON.search(" ".join(lines[number : number + HANDLER])):
                claim = (
                    f"Line {number + 1} of {path} catches every error alike, so a fault of ours looks like bad luck."
                )
                return Finding("risk", claim, _around(path, lines, number))
    return None


def _next_longest(block: Block) -> Finding:
    size = block.place.last - block.place.first + 1
    claim = f"{block.name} is {size} lines long and has {block.branches} branches."
    return Finding("fact", claim, block.place)


def _left_open(source: Mapping[str, list[str]]) -> Finding | None:
    for path, lines in source.items():
        for number, line in enumerate(lines):
            found = _LEFT_OPEN.search(line)
            if found is not None:
                claim = f"Line {number + 1} of {path} still has a {found[1]}."
                return Finding("todo", claim, _around(path, lines, number))
    return None


def _longest_line(source: Mapping[str, list[str]]) -> Finding:
    path, number, line = max(
        ((path, number, line) for path, lines in source.items() for number, line in enumerate(lines)),
        key=lambda row: (len(row[2]), row[0]),
    )
    claim = f"Line {number + 1} of {path} is the longest there is, with {len(line)} characters."
    return Finding("todo", claim, _around(path, source[path], number))


def _untested(source: Mapping[str, list[str]], chosen: Mapping[str, list[str]]) -> Finding | None:
    """The largest file whose name stands in no test."""
    tests = "\n".join(line for path, lines in chosen.items() if _TEST.search(path) for line in lines)
    unnamed = [path for path in source if path.rpartition("/")[2].partition(".")[0] not in tests]
    path = max(unnamed, key=lambda each: (len(source[each]), each), default=None)
    if path is None or not tests:
        return None
    claim = f"No test names {path}, which has {len(source[path])} lines."
    return Finding("test", claim, Place(path, 1, min(len(source[path]), 12)))


def _largest(source: Mapping[str, list[str]]) -> Finding:
    path = max(source, key=lambda each: (len(source[each]), each))
    claim = f"{path} is the largest file, with {len(source[path])} lines."
    return Finding("fact", claim, Place(path, 1, min(len(source[path]), 12)))
