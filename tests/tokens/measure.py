"""Answers of every form in many languages and of code, and what the estimate makes of them beside real tokenizers.

The weights were fitted to other repositories and other texts; these come from installed packages and from `claims.py`.
"""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import files
from typing import NamedTuple

from engrambus.core import estimate_tokens
from tests.tokens.claims import CLAIMS

PACKAGES = ("anyio", "click", "hypothesis", "jinja2", "markdown-it-py", "mcp", "mypy", "pygments", "pytest", "rich")
FILES_PER_PACKAGE = 20
ANSWERS = 6
"""Answers of each form that are made of each source of claims."""
EXCERPTS = 12
"""Excerpts from the code of each package."""
BASE32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Case(NamedTuple):
    form: str
    source: str
    text: str


class Measure(NamedTuple):
    """An estimate divided by the greater count of the two tokenizers."""

    case: Case
    ratio: float


@cache
def tokenizers() -> tuple[Callable[[str], list[int]], ...]:
    """Return the encoding functions of o200k and cl100k."""
    from splintr import Tokenizer

    return tuple(Tokenizer.from_pretrained(name).encode_ordinary for name in ("o200k_base", "cl100k_base"))


def count_tokens(text: str) -> int:
    """Return the greater of the two real counts."""
    return max(len(encode(text)) for encode in tokenizers())


@cache
def measures() -> tuple[Measure, ...]:
    return tuple(Measure(case, estimate_tokens(case.text) / count_tokens(case.text)) for case in cases())


def cases() -> Iterator[Case]:
    answers = _Answers(random.Random(53))
    for language, claims in CLAIMS.items():
        yield from answers.all_forms(language, claims)
    for package in PACKAGES:
        modules = _modules(package)
        claims = tuple(claim for _, text in modules for claim in _docstrings(text))
        if len(claims) >= 4:
            yield from answers.all_forms(package, claims)
        yield from answers.excerpts(package, modules)


def _modules(package: str) -> list[tuple[str, str]]:
    paths = [path for path in files(package) or () if path.suffix == ".py" and 2_000 < (path.size or 0) < 200_000]
    return [(str(path), path.read_text("utf-8")) for path in sorted(paths)[:FILES_PER_PACKAGE]]


def _docstrings(text: str) -> Iterator[str]:
    """Yield first paragraphs of docstrings that are as long as claims are."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            claim = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
            if 40 <= len(claim) <= 300:
                yield claim


class _Answers:
    """Makes answers with the bus's own vocabulary: ids, shas, digests, names and times."""

    def __init__(self, choices: random.Random) -> None:
        self._random = choices

    def all_forms(self, source: str, claims: tuple[str, ...]) -> Iterator[Case]:
        forms = (self._query, self._lines, self._brief, self._message, self._inbox, self._problem)
        for form in forms:
            for _ in range(ANSWERS):
                chosen = [self._random.choice(claims) for _ in range(self._random.randint(2, 12))]
                yield Case(form.__name__.removeprefix("_"), source, form(chosen))

    def excerpts(self, package: str, modules: list[tuple[str, str]]) -> Iterator[Case]:
        for _ in range(EXCERPTS):
            path, text = self._random.choice(modules)
            lines = text.split("\n")
            count = self._random.choice((8, 20, 40, 80))
            start = self._random.randrange(max(1, len(lines) - count))
            excerpt = "\n".join(lines[start : start + count])
            ref = f"repo:{path}#L{start + 1}-L{start + count}@{self._hex(40)}"
            answer = {"excerpt": excerpt, "pointer": {"type": "repo", "ref": ref}, "content_digest": self._digest()}
            yield Case("deref", package, _json({**answer, "truncated": False}))
            head = f"{path}:{start + 1}-{start + count}@{self._hex(7)} {self._digest()}"
            yield Case("excerpt", package, f"{head}\n{excerpt}")

    def _query(self, claims: list[str]) -> str:
        return _json({"engrams": [self._engram(claim) for claim in claims], "as_of": self._time()})

    def _engram(self, claim: str) -> dict[str, object]:
        return {
            "id": self._ulid(),
            "kind": self._random.choice(("fact", "decision", "risk", "todo", "constraint")),
            "claim": claim,
            "pointers": [{"type": "repo", "ref": f"repo:{self._path()}#{self._span()}@{self._hex(40)}"}],
            "confidence": round(self._random.random(), 2),
            "ttl": "P30D",
            "scope": "project",
            "provenance": {"created_by": f"{self._ulid()}/amber-fox", "created_at": self._time(), "source": "agent"},
        }

    def _lines(self, claims: list[str]) -> str:
        states = ("", " changed", " gone")
        rows = (
            f"{claim} {self._path()}:{self._number()}@{self._hex(7)}{self._random.choice(states)} {self._ulid()[-6:]}"
            for claim in claims
        )
        return "\n".join((*rows, f"+{self._number()} more"))

    def _brief(self, claims: list[str]) -> str:
        rows = (f"- {claim} [{self._path()}#{self._span()}@{self._hex(40)}]" for claim in claims)
        return "\n".join((f"Brief {self._number()} (manager); call with since=7 to get only what is new.", *rows))

    def _message(self, claims: list[str]) -> str:
        rows = (
            f'  - claim: "{claim}"\n    kind: fact\n    pointers: [repo:{self._path()}#{self._span()}@{self._hex(40)}]'
            for claim in claims
        )
        return "\n".join(("ROLE: programmer", "TASK_STATUS: done", "ENGRAMS:", *rows, "OUTPUT:", "  summary: Done.\n"))

    def _inbox(self, claims: list[str]) -> str:
        rows = [
            {"kind": "report", "item": self._ulid(), "sender": "amber-fox", "at": self._time(), "text": claim}
            for claim in claims
        ]
        return _json({"mail": rows, "cursor": self._number()})

    def _problem(self, claims: list[str]) -> str:
        members = {"code": "LESS_BUDGET_EXCEEDED", "field": "OUTPUT.summary", "limit": 800, "used": 900}
        return _json({"type": "urn:engrambus:error:BUDGET_EXCEEDED", "status": 413, **members, "detail": claims[0]})

    def _path(self) -> str:
        return self._random.choice(("src/ledger.py", "internal/http/server.go", "docs/adr/0007-refunds.md", "Makefile"))

    def _span(self) -> str:
        return f"L{self._number()}-L{900 + self._number()}"

    def _number(self) -> int:
        return self._random.randint(1, 900)

    def _hex(self, length: int) -> str:
        return "".join(self._random.choices("0123456789abcdef", k=length))

    def _digest(self) -> str:
        return f"sha256:{self._hex(64)}"

    def _ulid(self) -> str:
        return "01" + "".join(self._random.choices(BASE32, k=24))

    def _time(self) -> str:
        return f"2026-11-{self._random.randint(10, 28)}T11:22:33.{self._random.randint(100_000, 999_999)}Z"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
