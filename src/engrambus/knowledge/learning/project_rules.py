"""Owners and the rules that machines enforce: CODEOWNERS, workflows, hooks before a commit, required versions."""

from __future__ import annotations

import re
from collections.abc import Callable

from engrambus.knowledge.learning.values import Draft, SourceFile

MAX_NAMES = 12

_OWNER = re.compile(r"^(\S+)\s+((?:@[\w./-]+|\S+@\S+\.\w+)(?:\s+(?:@[\w./-]+|\S+@\S+\.\w+))*)\s*(?:#.*)?$")
_STEP = re.compile(r"^\s*-\s+name:\s*['\"]?([^'\"#{}$]{3,60})['\"]?\s*$")
_WORKFLOW = re.compile(r"^name:\s*['\"]?([^'\"#]{2,60})['\"]?\s*$")
_PYTHONS = re.compile(r"^\s*(?:-\s+)?python(?:-version)?s?:\s*\[([^\]]{3,200})\]")
_HOOK = re.compile(r"^\s*-\s+id:\s*([\w.-]{2,40})")
_JOB = re.compile(r"^([a-z][\w-]{1,40}):\s*$")
_REQUIRED: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("pyproject.toml", re.compile(r"^\s*requires-python\s*=\s*['\"]([^'\"]{1,40})['\"]"), "Python {}"),
    ("setup.cfg", re.compile(r"^\s*python_requires\s*=\s*(\S.{0,40})"), "Python {}"),
    ("setup.py", re.compile(r"^\s*python_requires\s*=\s*['\"]([^'\"]{1,40})['\"]"), "Python {}"),
    ("Cargo.toml", re.compile(r"^\s*rust-version\s*=\s*['\"]([^'\"]{1,40})['\"]"), "Rust {}"),
    ("go.mod", re.compile(r"^go\s+(\d[\w.]*)"), "Go {}"),
    ("package.json", re.compile(r"^\s*\"node\"\s*:\s*\"([^\"]{1,40})\""), "Node {}"),
    (".python-version", re.compile(r"^(\d[\w.]*)\s*$"), "Python {}"),
)
"""Where a project says which version it needs: file name, the line, and how the claim names it."""


def owners(file: SourceFile) -> list[Draft]:
    """Return who owns what, by CODEOWNERS."""
    drafts = []
    for position, line in enumerate(file.lines):
        if match := _OWNER.match(line.strip()):
            names = " ".join(match[2].split()[:6])
            owned = "everything" if match[1] == "*" else match[1]
            drafts.append(_line_draft("owners", f"Owner of {owned}: {names}.", file, position, position, 34))
    return drafts[:40]


def workflows(file: SourceFile) -> list[Draft]:
    """Return what a workflow runs and which versions it tests."""
    drafts = []
    named = next((match[1].strip() for line in file.lines if (match := _WORKFLOW.match(line))), "")
    steps = [(position, match[1].strip()) for position, line in enumerate(file.lines) if (match := _STEP.match(line))]
    jobs = [(position, match[1]) for position, line in enumerate(file.lines) if (match := _JOB.match(line))]
    if not steps and file.path.endswith(".gitlab-ci.yml"):
        steps = [job for job in jobs if job[1] not in ("stages", "variables", "default", "include", "image", "cache")]
    if steps:
        names = ", ".join(dict.fromkeys(name for _, name in steps[:MAX_NAMES]))
        claim = f"The workflow {named or file.path} runs: {names}."
        drafts.append(_line_draft("ci", claim, file, steps[0][0], steps[-1][0], 26))
    for position, line in enumerate(file.lines):
        if match := _PYTHONS.match(line):
            versions = ", ".join(part.strip(" '\"") for part in match[1].split(","))
            claim = f"The workflow {named or file.path} tests Python {versions}."
            drafts.append(_line_draft("ci", claim, file, position, position, 28))
    return drafts[:6]


def hooks(file: SourceFile) -> list[Draft]:
    """Return the checks that run before a commit."""
    hook_ids = [(position, match[1]) for position, line in enumerate(file.lines) if (match := _HOOK.match(line))]
    if not hook_ids:
        return []
    names = ", ".join(dict.fromkeys(name for _, name in hook_ids[: 2 * MAX_NAMES]))
    return [_line_draft("ci", f"Before a commit, pre-commit runs: {names}.", file, hook_ids[0][0], hook_ids[-1][0], 30)]


def required_versions(file: SourceFile) -> list[Draft]:
    """Return the version of the language that a project needs."""
    name = file.path.rpartition("/")[2]
    for required, pattern, words in _REQUIRED:
        if name != required:
            continue
        for position, line in enumerate(file.lines[:2000]):
            if match := pattern.match(line):
                claim = f"{file.path} requires {words.format(match[1].strip())}."
                return [_line_draft("ci", claim, file, position, position, 36 if "/" not in file.path else 18)]
    return []


REQUIRING_FILES = frozenset(name for name, _, _ in _REQUIRED)


def _line_draft(source: str, claim: str, file: SourceFile, first: int, last: int, points: int) -> Draft:
    return Draft(
        source="owners" if source == "owners" else "ci",
        kind="policy",
        sentences=(claim,),
        max_sentences=1,
        path=file.path,
        first=first + 1,
        last=min(last, first + 400) + 1,
        points=points,
    )


FileReader = Callable[[SourceFile], list[Draft]]
