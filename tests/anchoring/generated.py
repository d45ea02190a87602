"""A large repository, made with git's own importer."""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.evidence.repos import Repo

FILES = 10_000
HEADER = "# Licensed to the people who use it.\n# See the file LICENSE for what that means.\n"
_WORDS = ("order", "refund", "ledger", "invoice", "total", "parser", "token", "queue", "retry", "batch", "limit")


class Large(NamedTuple):
    """The repository and its only commit."""

    repo: Repo
    commit: str

    @staticmethod
    def path(number: int) -> str:
        """Return the path of a file."""
        return f"pkg{number % 97:02}/module_{number:05}.py"


def source(number: int) -> str:
    """Return a file's text: lines that all files have, and lines only this one has."""
    generator = random.Random(number)
    lines = [HEADER + "import os\nimport sys\n"]
    for part in range(4):
        first, second = generator.choices(_WORDS, k=2)
        lines.append(
            f"\ndef {first}_{second}_{number}_{part}({first}, limit):\n"
            f"    if {first}.{second} > {generator.randrange(10**6)}:\n"
            f"        raise ValueError({first})\n"
            f"    return {second}({first}, {generator.randrange(10**6)})\n"
        )
    return "\n".join(lines)


def make_large(repo: Repo, files: int = FILES) -> Large:
    """Make a repository with this number of files in one commit."""
    stream = ["commit refs/heads/main\ncommitter Ada <ada@example.org> 1700000000 +0000\ndata 5\nfirst\n"]
    for number in range(files):
        text = source(number)
        stream.append(f"M 100644 inline {Large.path(number)}\ndata {len(text.encode())}\n{text}\n")
    repo.git("fast-import", "--quiet", stdin="".join(stream).encode())
    return Large(repo, repo.git("rev-parse", "refs/heads/main"))
