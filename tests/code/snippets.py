"""Snippets of one to twelve lines, cut from real files at places a hash of the content chooses."""

from __future__ import annotations

import difflib
import hashlib
import io
import re
import textwrap
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.code.files import read, sources

PER_LANGUAGE = 400
PER_FILE = 6
LONGEST_LINE = 300
HASHED = {"toml", "ini", "powershell", "fish", "csh", "shell", "make", "cython"}
REMARKS: dict[str, tuple[str, ...]] = {"sql": ("--",), "batch": ("rem", "::", "@rem")}
SLASHED = {"c", "c headers", "javascript", "css"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One piece of text and what it is."""

    kind: str
    text: str
    origin: str

    @property
    def number(self) -> int:
        return number(self.text)

    @property
    def held_out(self) -> bool:
        return self.number % 2 == 1


def number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8])


def code_lines(text: str, language: str) -> list[bool]:
    """For each line: is it code, and not blank, comment or running text?"""
    lines = text.split("\n")
    if language in {"python", "python stubs"}:
        return _python_lines(text, len(lines))
    flags, comment = [], False
    for line in lines:
        stripped = line.strip()
        flag = bool(stripped) and not comment
        if language in SLASHED:
            if not comment and stripped.startswith(("//", "/*")):
                flag = False
            opened, closed = line.rfind("/*"), line.rfind("*/")
            comment = opened > closed or (comment and closed < 0)
        elif language in {"html", "xml"}:
            opened, closed = line.rfind("<!--"), line.rfind("-->")
            flag = flag and stripped.startswith("<") and not stripped.startswith("<!--")
            comment = opened > closed or (comment and closed < 0)
        elif language in HASHED and stripped.startswith("#"):
            flag = False
        elif language == "yaml":
            flag = flag and bool(re.match(r"(- )?[\w.-]+:( |$)", stripped)) and len(stripped.split()) < 5
        elif language in REMARKS and stripped.lower().startswith(REMARKS[language]):
            flag = False
        if language == "cython" and '"""' in stripped:
            return [False] * len(lines)
        if language == "powershell":
            opened, closed = line.rfind("<#"), line.rfind("#>")
            flag = flag and opened < 0 and closed < 0
            comment = opened > closed or (comment and closed < 0)
        flags.append(flag)
    return flags


def _python_lines(text: str, count: int) -> list[bool]:
    flags = [False] * (count + 2)
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    start_of_line = True
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in skipped:
                start_of_line = start_of_line or token.type == tokenize.NEWLINE
                continue
            if token.type == tokenize.STRING and (start_of_line or token.start[0] != token.end[0]):
                continue  # a docstring, or text inside a long string
            start_of_line = False
            for line in range(token.start[0], token.end[0] + 1):
                flags[line - 1] = True
    except (tokenize.TokenError, SyntaxError):
        return [False] * count
    return flags[:count]


def _worth(lines: list[str], flags: list[bool]) -> bool:
    """Enough of it is code, and enough code is there for anyone to tell."""
    code = [line for line, flag in zip(lines, flags, strict=True) if flag]
    filled = sum(bool(line.strip()) for line in lines)
    if not code or len(code) * 10 < filled * 6 or max(map(len, lines)) > LONGEST_LINE:
        return False
    joined = " ".join(code)
    return len(re.findall(r"\w+|[^\w\s]", joined)) >= 5 and len(re.sub(r"\s", "", joined)) >= 12


def cut(text: str, language: str, origin: str, most: int = PER_FILE) -> list[Sample]:
    """At most so many snippets of one file, never overlapping, as they stand or dedented."""
    lines = text.split("\n")
    flags = code_lines(text, language)
    found: list[Sample] = []
    at = number(text) % 17 if most == PER_FILE else 0
    while at < len(lines) and len(found) < most:
        seed = number(f"{at} {lines[at]}")
        size = 1 if seed % 6 == 0 else 2 + seed // 6 % 11
        while at < len(lines) and not flags[at]:
            at += 1
        end = min(at + size, len(lines))
        while end > at and not flags[end - 1]:
            end -= 1
        if end > at and _worth(lines[at:end], flags[at:end]):
            piece = "\n".join(line.rstrip("\r") for line in lines[at:end])
            if seed // 66 % 2:
                piece = textwrap.dedent(piece)
            found.append(Sample(kind=language, text=piece, origin=origin))
        at += size + (seed // 132 % 60 if most == PER_FILE else 0)
    return found


def changed(text: str, origin: str) -> list[Sample]:
    """Cuts of a unified diff: the file against itself with lines a hash chooses taken out or doubled."""
    before = text.split("\n")[:400]
    after: list[str] = []
    for place, line in enumerate(before):
        fate = number(f"{place} {line}") % 40
        after.extend([] if fate == 0 else [line, line.replace("e", "o")] if fate == 1 else [line])
    diff = list(difflib.unified_diff(before, after, f"a/{origin}", f"b/{origin}", lineterm="", n=2))
    heads = [place for place, line in enumerate(diff) if line.startswith("@@")]
    samples = []
    for place in heads[:2]:
        first = 0 if place < 3 else place
        piece = diff[first : place + 4 + number(diff[place]) % 6]
        samples.append(Sample(kind="diff", text="\n".join(piece), origin=origin))
    return samples


def _chosen(samples: Iterable[Sample], most: int) -> list[Sample]:
    unique = {sample.text: sample for sample in samples}
    return sorted(unique.values(), key=lambda sample: sample.number)[:most]


def snippets() -> list[Sample]:
    found: list[Sample] = []
    for language, paths in sources().items():
        ordered = sorted(paths, key=lambda path: number(path.name + str(path.stat().st_size)))
        most = PER_FILE if len(paths) > 60 else 40
        cuts: list[Sample] = []
        for path in ordered:
            cuts.extend(cut(read(path), language, _short(path), most))
            if len(cuts) > 3 * PER_LANGUAGE:
                break
        found.extend(_chosen(cuts, PER_LANGUAGE))
    diffs: list[Sample] = []
    for language in ("python", "c", "javascript", "json"):
        for path in sorted(sources().get(language, ()), key=lambda path: number(path.name))[:40]:
            diffs.extend(changed(read(path), _short(path)))
    found.extend(_chosen(diffs, PER_LANGUAGE // 2))
    return found


def _short(path: Path) -> str:
    return "/".join(path.parts[-2:])
