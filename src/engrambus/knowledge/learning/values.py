"""What learning works with: the text of a file, a commit, and drafts of claims with the place each one quotes."""

from __future__ import annotations

import hashlib
from typing import Literal, get_args

import msgspec

from engrambus.knowledge.engrams import Kind

SourceName = Literal[
    "instructions",
    "contributing",
    "decision",
    "owners",
    "ci",
    "changelog",
    "commit",
    "docs",
    "todo",
    "test",
    "docstring",
    "claude-memory",
]
"""Where in a repository something was said; `claude-memory` lies outside of it, in the user's own folder."""
CLAUDE_MEMORY: SourceName = "claude-memory"
SOURCES: tuple[SourceName, ...] = get_args(SourceName)

MAX_LEARNED = 500
"""Engrams that learning keeps in a store."""
SOURCE_SHARE = 0.4
"""Part of them that one source may fill."""
LEARNED_TTL = "P180D"
LEARNED_CONFIDENCE: dict[SourceName, float] = {"instructions": 0.8, "contributing": 0.8, "decision": 0.8, "owners": 0.8}
"""Confidence by source, 0.7 for the others: it quotes the repository, and it was not checked whether it still holds."""
DEFAULT_CONFIDENCE = 0.7


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the commit that is learned from."""

    path: str
    lines: tuple[str, ...]
    """Without line ends; numbered from 1 as pointers number them."""


class SourceCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that is not a merge."""

    id: str
    parent: str
    """Empty for a first commit."""
    time_s: int
    author: str
    message: str
    paths: tuple[str, ...]
    """Files it changed or added."""


class Draft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A claim that could be learned, before it is checked: sentences of the repository and where they stand."""

    source: SourceName
    kind: Kind
    sentences: tuple[str, ...]
    """Quoted, in the order in which they are tried; the first that may stand in a claim begins it."""
    max_sentences: int = 2
    prefix: str = ""
    """Fixed words of ours before the quotation."""
    path: str
    """The file it points at; of a commit, the file that changed."""
    first: int = 0
    """First line of the file; 0 if a commit is quoted."""
    last: int = 0
    commit: str = ""
    parent: str = ""
    points: int
    """Quality as far as the text alone shows it."""
    time_s: int = 0
    """When it was committed, as far as that is known."""

    @property
    def key(self) -> str:
        """A name of what is quoted and where; it stays the same while lines only move inside their file."""
        parts = (self.source, self.commit, self.path, *self.sentences)
        return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=12).hexdigest()


class FileDrafts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one version of a file says."""

    blob: str
    drafts: tuple[Draft, ...] = ()
    imports: tuple[str, ...] = ()
    """Of a test file: modules it names, for the search of what it covers."""
    tests: tuple[str, ...] = ()
    """Of a test file: the names of its first tests."""
    test_line: int = 0
    """Line of its first test."""
    problem: str = ""
    """Why nothing could be read of it."""


class LearnedClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A claim that was chosen: it passed the checks of texts, and can be put."""

    key: str
    source: SourceName
    kind: Kind
    claim: str
    ref: str
    """Pointer to what it quotes."""
    since_s: int = 0
    """When what it quotes was written; 0 if unknown."""
    place: str = ""
    """The name of the file, where the pointer does not tell it."""


class MemoryFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the memory that Claude keeps of a project, as it is stored: claims point at its lines."""

    name: str
    text: str
