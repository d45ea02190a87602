"""The address of a view: everything it shows can be read off its URL, so every view is a permalink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec


class Address(msgspec.Struct, frozen=True):
    """A path of the page and its parameters."""

    path: str = "/"
    params: dict[str, str] = {}

    @classmethod
    def read(cls, text: str) -> Address:
        """The address a link of ours names; anything else is the start page."""
        path, _, query = text.partition("?")
        panel = path.removeprefix("/page/")
        if path != "/" and not (path != panel and panel.isascii() and panel.isalpha()):
            return cls()
        return cls(path, dict(parse_qsl(query, max_num_fields=100)))

    def __str__(self) -> str:
        return self.path + ("?" + urlencode(self.params) if self.params else "")

    def to(self, path: str | None = None, /, **changes: Any) -> str:
        """The link to the same view with some parameters changed; None leaves one out."""
        if path is None:
            return str(Address(self.path, _merged(self.params, changes)))
        kept = {name: value for name, value in self.params.items() if name == "run"}
        return str(Address(path, _merged(kept, changes)))


def _merged(params: Mapping[str, str], changes: Mapping[str, Any]) -> dict[str, str]:
    names = {name.rstrip("_"): value for name, value in changes.items()}
    kept = {name: value for name, value in params.items() if name not in names}
    return kept | {name: str(value) for name, value in names.items() if value is not None}
