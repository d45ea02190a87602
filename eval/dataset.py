"""What is put on the bus and what is asked: the same values for every kind of measurement."""

from __future__ import annotations

from typing import NamedTuple


class Item(NamedTuple):
    """One engram, and what a baseline reads instead of it."""

    name: str
    """What a correct answer is compared with; several items may share it."""
    file: str
    """Path of the file it leads to."""
    claim: str
    refs: tuple[str, ...]
    """Refs of its pointers."""
    body: str
    """The text its pointers lead to; empty if a baseline should not search it."""
    kind: str = "fact"


class Question(NamedTuple):
    """A text to search for, and what should be found."""

    text: str
    names: frozenset[str]
    files: frozenset[str] = frozenset()


class Dataset(NamedTuple):
    """Items in the order in which they are put, and questions about them."""

    title: str
    items: tuple[Item, ...]
    questions: tuple[Question, ...]
    notes: tuple[str, ...] = ()
    """How it was made, for the report."""
