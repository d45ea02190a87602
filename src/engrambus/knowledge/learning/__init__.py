"""Learning: what a repository already says, as drafts of claims with the place of each. No model, nothing guessed."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.learning.commits import commit_draft
    from engrambus.knowledge.learning.covered_modules import coverage_drafts
    from engrambus.knowledge.learning.documents import memory_notes
    from engrambus.knowledge.learning.quoting import text_problem
    from engrambus.knowledge.learning.selection import Chosen, ClaimSelection, best_of_each, select
    from engrambus.knowledge.learning.sources import MAX_FILES, plan_of, read_file
    from engrambus.knowledge.learning.values import (
        CLAUDE_MEMORY,
        DEFAULT_CONFIDENCE,
        LEARNED_CONFIDENCE,
        LEARNED_TTL,
        MAX_LEARNED,
        SOURCES,
        Draft,
        FileDrafts,
        LearnedClaim,
        MemoryFile,
        SourceCommit,
        SourceFile,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "commits": "commit_draft",
        "covered_modules": "coverage_drafts",
        "documents": "memory_notes",
        "quoting": "text_problem",
        "selection": "Chosen ClaimSelection best_of_each select",
        "sources": "MAX_FILES plan_of read_file",
        "values": (
            "CLAUDE_MEMORY DEFAULT_CONFIDENCE LEARNED_CONFIDENCE LEARNED_TTL MAX_LEARNED SOURCES Draft FileDrafts "
            "LearnedClaim MemoryFile SourceCommit SourceFile "
        ),
    })

__all__ = [
    "CLAUDE_MEMORY", "DEFAULT_CONFIDENCE", "LEARNED_CONFIDENCE", "LEARNED_TTL", "MAX_FILES", "MAX_LEARNED", "SOURCES",
    "Chosen", "ClaimSelection", "Draft", "FileDrafts", "LearnedClaim", "MemoryFile", "SourceCommit", "SourceFile",
    "best_of_each", "commit_draft", "coverage_drafts", "memory_notes", "plan_of", "read_file", "select", "text_problem",
]
