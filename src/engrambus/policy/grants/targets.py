"""What a grant lets be read: one pointer, or everything beneath a folder at a commit.

| a grant for | covers, at the same commit and in the same repository |
|---|---|
| `repo:src/a.py@<sha>` | the file and any lines of it |
| `repo:src/a.py#L1-L220@<sha>` | those lines and any span inside them; not the file |
| `artifact:SPEC.md@v1` | the document and any section of it |
| `artifact:sha256:<hex>` | the stored body and any lines of it |
| any other pointer | itself |
| prefix `repo:src/auth/*@<sha>` | every file beneath the folder, and any lines of it; not `src/authority.py` |
| prefix `repo:*@<sha>` | every file of the tree |
| prefix `diff:src/*@<base>..<head>` | how any file beneath the folder changed |

Addresses are compared once parsed, never as text, so no spelling of a path reaches outside its folder: the grammar has
refused `..`, empty segments and encoded slashes before. Artifacts have no prefix, because an artifact's name may be the
last part of a path and so could lead anywhere.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from engrambus.errors import FieldValue, PointerTooLong
from engrambus.evidence.pointers import (
    MAX_REF,
    Address,
    ArtifactAddress,
    BodyAddress,
    DiffAddress,
    RepoAddress,
    parse_ref,
    print_address,
)

_QUOTED = {ord('"'): "%22", ord("\\"): "%5C"}


class PointerTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One pointer."""

    address: Address

    def covers(self, asked: Address) -> bool:
        """Whether this may be read by it."""
        own = self.address
        if own == asked:
            return True
        match own, asked:
            case RepoAddress(), RepoAddress() if asked.lines is not None:
                return _inside(asked.lines, own.lines) and own.path == asked.path and _tree(own) == _tree(asked)
            case ArtifactAddress(section=None), ArtifactAddress():
                return own.name == asked.name and own.version == asked.version
            case BodyAddress(), BodyAddress() if asked.lines is not None:
                return _inside(asked.lines, own.lines) and own.digest == asked.digest
        return False

    @property
    def text(self) -> str:
        """The canonical ref."""
        return print_address(self.address)


class PrefixTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Everything beneath a folder."""

    folder: RepoAddress | DiffAddress
    """The folder as if it were a file; its path is empty for the whole tree."""

    def covers(self, asked: Address) -> bool:
        """Whether this may be read by it."""
        if not isinstance(asked, RepoAddress | DiffAddress) or _tree(asked) != _tree(self.folder):
            return False
        return not self.folder.path or asked.path.startswith(f"{self.folder.path}/")

    @property
    def text(self) -> str:
        """The folder's canonical ref with `/*` after its path."""
        head, _, pin = print_address(self.folder).rpartition("@")
        return f"{head}{'/*' if self.folder.path else '*'}@{pin}"


def _inside(asked: tuple[int, int], own: tuple[int, int] | None) -> bool:
    return own is None or own[0] <= asked[0] <= asked[1] <= own[1]


Target: TypeAlias = PointerTarget | PrefixTarget


def read_pointer(ref: str, field: str = "pointer") -> PointerTarget:
    """The target that a ref names, taken literally: a `*` in it is a character of a name."""
    target = PointerTarget(address=parse_ref(ref, field))
    text = _bounded(quoted(target), field)
    if text != ref and parse_ref(text, field) != target.address:
        raise FieldValue("A URL with a quote in it cannot be granted.", field=field)
    return target


def read_prefix(text: str, field: str = "prefix") -> PrefixTarget:
    """The target that a prefix such as `repo:src/auth/*@<sha>` names."""
    head, _, pin = text.rpartition("@")
    scheme, _, path = head.partition(":")
    if path == "*" or path.endswith("/*"):
        # A name stands in for the star, so that the grammar judges everything around it.
        address = parse_ref(f"{scheme}:{path[:-1]}x@{pin}", field)
        if isinstance(address, RepoAddress | DiffAddress):
            folder = msgspec.structs.replace(address, path=address.path.rpartition("/")[0])
            target = PrefixTarget(folder=folder)
            _bounded(quoted(target), field)
            return target
    raise FieldValue(
        "A prefix is a folder of a repository with /* after it, at a commit.",
        field=field,
        hint="repo:src/auth/*@<full commit id>; everything else is granted by its pointer.",
    )


def quoted(target: Target) -> str:
    """The same address in a spelling without quotes and backslashes, as a block carries it."""
    return target.text.translate(_QUOTED)


def _bounded(text: str, field: str) -> str:
    if len(text) > MAX_REF:
        raise PointerTooLong("The pointer is too long to be granted.", field=field, limit=MAX_REF, used=len(text))
    return text


def _tree(address: RepoAddress | DiffAddress) -> tuple[str | None, ...]:
    if isinstance(address, RepoAddress):
        return "repo", address.repository, address.revision
    return "diff", address.base, address.head
