"""Answers as people read them: for each operation, lines of text. Each room of operations has a module here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

_Lines = Callable[[Any], Iterable[str]]


class _Show(Mapping[str, _Lines]):
    """How each operation's answer is shown; the modules are loaded one after the other until it is found."""

    _ROOMS = ("knowledge", "evidence", "team", "work", "cortex", "figures")

    def __getitem__(self, name: str) -> _Lines:
        for room in self._rooms():
            if name in room:
                return room[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for room in self._rooms() for name in room)

    def __len__(self) -> int:
        return sum(map(len, self._rooms()))

    def _rooms(self) -> Iterator[dict[str, _Lines]]:
        for room in self._ROOMS:
            yield import_module(f"{__name__}.{room}").SHOW


SHOW = _Show()

__all__ = ["SHOW"]
