"""Snippets of one to twelve lines, cut from real files at positions chosen by a hash of the content."""

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
MAX_LINE_CHARS = 300
HASH_COMMENTS = {"toml", "ini", "powershell", "fish", "csh", "shell", "make", "cython"}
COMMENT_PREFIXES: dict[str, tuple[str, ...]] = {"sql": ("--",), "batch": ("rem", "::", "@rem")}
SLASH_COMMENTS = {"c", "c headers", "javascript", "css"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A piece of text with its kind and origin."""

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
    """Return for each line if it is code, and not blank, a comment or prose."""
    lines = text.split("\n")
    if language in {"python", "python stubs"}:
        return _python_lines(text, len(lines))
    flags, comment = [], False
    for line in lines:
        stripped = line.strip()
        flag = bool(stripped) and not comment
        if language in SLASH_COMMENTS:
            if not comment and stripped.startswith(("//", "/*")):
                flag = False
            opened, closed = line.rfind("/*"), line.rfind("*/")
            comment = opened > closed or (comment and closed < 0)
        elif language in {"html", "xml"}:
            opened, closed = line.rfind("<!--"), line.rfind("-->")
            flag = flag and stripped.startswith("<") and not stripped.startswith("<!--")
            comment = opened > closed or (comment and closed < 0)
        elif language in HASH_COMMENTS and stripped.startswith("#"):
            flag = False
        elif language == "yaml":
            flag = flag and bool(re.match(r"(- )?[\w.-]+:( |$)", stripped)) and len(stripped.split()) < 5
        elif language in COMMENT_PREFIXES and stripped.lower().startswith(COMMENT_PREFIXES[language]):
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


def _is_usable(lines: list[str], flags: list[bool]) -> bool:
    """True if most lines are code, and there is enough code to recognise it."""
    code = [line for line, flag in zip(lines, flags, strict=True) if flag]
    filled = sum(bool(line.strip()) for line in lines)
    if not code or len(code) * 10 < filled * 6 or max(map(len, lines)) > MAX_LINE_CHARS:
        return False
    joined = " ".join(code)
    return len(re.findall(r"\w+|[^\w\s]", joined)) >= 5 and len(re.sub(r"\s", "", joined)) >= 12


def cut(text: str, language: str, origin: str, max_snippets: int = PER_FILE) -> list[Sample]:
    """Return snippets of one file that do not overlap, some of them dedented."""
    lines = text.split("\n")
    flags = code_lines(text, language)
    samples: list[Sample] = []
    start = number(text) % 17 if max_snippets == PER_FILE else 0
    while start < len(lines) and len(samples) < max_snippets:
        seed = number(f"{start} {lines[start]}")
        size = 1 if seed % 6 == 0 else 2 + seed // 6 % 11
        while start < len(lines) and not flags[start]:
            start += 1
        end = min(start + size, len(lines))
        while end > start and not flags[end - 1]:
            end -= 1
        if end > start and _is_usable(lines[start:end], flags[start:end]):
            piece = "\n".join(line.rstrip("\r") for line in lines[start:end])
            if seed // 66 % 2:
                piece = textwrap.dedent(piece)
            samples.append(Sample(kind=language, text=piece, origin=origin))
        start += size + (seed // 132 % 60 if max_snippets == PER_FILE else 0)
    return samples


def diff_samples(text: str, origin: str) -> list[Sample]:
    """Return parts of a unified diff between a file and itself with some lines removed or doubled."""
    old = text.split("\n")[:400]
    new: list[str] = []
    for index, line in enumerate(old):
        choice = number(f"{index} {line}") % 40
        new.extend([] if choice == 0 else [line, line.replace("e", "o")] if choice == 1 else [line])
    diff = list(difflib.unified_diff(old, new, f"a/{origin}", f"b/{origin}", lineterm="", n=2))
    heads = [index for index, line in enumerate(diff) if line.startswith("@@")]
    samples = []
    for index in heads[:2]:
        first = 0 if index < 3 else index
        piece = diff[first : index + 4 + number(diff[index]) % 6]
        samples.append(Sample(kind="diff", text="\n".join(piece), origin=origin))
    return samples


def _choose(samples: Iterable[Sample], max_samples: int) -> list[Sample]:
    unique = {sample.text: sample for sample in samples}
    return sorted(unique.values(), key=lambda sample: sample.number)[:max_samples]


def snippets() -> list[Sample]:
    samples: list[Sample] = []
    for language, paths in sources().items():
        ordered = sorted(paths, key=lambda path: number(path.name + str(path.stat().st_size)))
        max_snippets = PER_FILE if len(paths) > 60 else 40
        cuts: list[Sample] = []
        for path in ordered:
            cuts.extend(cut(read(path), language, _short(path), max_snippets))
            if len(cuts) > 3 * PER_LANGUAGE:
                break
        samples.extend(_choose(cuts, PER_LANGUAGE))
    diffs: list[Sample] = []
    for language in ("python", "c", "javascript", "json"):
        for path in sorted(sources().get(language, ()), key=lambda path: number(path.name))[:40]:
            diffs.extend(diff_samples(read(path), _short(path)))
    samples.extend(_choose(diffs, PER_LANGUAGE // 2))
    return samples


def _short(path: Path) -> str:
    return "/".join(path.parts[-2:])
