"""What the bus is compared with: BM25 over claims and over bodies, and grep, ranked by how many words match."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import apsw

from engrambus.knowledge.engrams.words import STOP_WORDS
from eval.dataset import Item

MIN_GREP_CHARS = 3

_WORD = re.compile(r"\w+")

Search = Callable[[str, int], list[int]]
"""Return the positions of the best items for a question, best first: at most as many as asked for."""


def bm25_search(texts: Sequence[str]) -> Search:
    """Return a search by SQLite's FTS5: Porter stems, its BM25 ranking, any word of the question."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = 'porter unicode61')")
    with connection:
        connection.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", list(enumerate(texts)))

    def search(question: str, k: int) -> list[int]:
        words = dict.fromkeys(word.lower() for word in _WORD.findall(question.replace("_", " ")))
        asked = " OR ".join(f'"{word}"' for word in words if word not in STOP_WORDS) or " OR ".join(
            f'"{word}"' for word in words
        )
        if not asked:
            return []
        rows = connection.execute(
            "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts), rowid LIMIT ?", (asked, k)
        )
        return [int(rowid) for (rowid,) in rows]

    return search


def grep_search(texts: Sequence[str]) -> Search:
    """Return a search that counts how many different words of the question a text contains, ignoring case.

    A word matches inside longer ones, as grep matches it. Ties are in the order of the texts.
    """
    lowered = [text.lower() for text in texts]

    def search(question: str, k: int) -> list[int]:
        words = {word.lower() for word in _WORD.findall(question)} - STOP_WORDS
        words = {word for word in words if len(word) >= MIN_GREP_CHARS}
        counts = [sum(word in text for word in words) for text in lowered]
        best = sorted(range(len(texts)), key=lambda index: (-counts[index], index))
        return [index for index in best[:k] if counts[index]]

    return search


def item_search(
    items: Sequence[Item], search: Callable[[Sequence[str]], Search], text_of: Callable[[Item], str]
) -> Search:
    """Return a search over one text of each item; items without it are left out."""
    positions = [index for index, item in enumerate(items) if text_of(item)]
    found = search([text_of(items[index]) for index in positions])

    def search_items(question: str, k: int) -> list[int]:
        return [positions[index] for index in found(question, k)]

    return search_items
