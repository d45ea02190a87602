"""The target of a grant: one pointer, or everything below a folder at a commit.

| a grant for | covers, at the same commit and in the same repository |
|---|---|
| `repo:src/a.py@<sha>` | the file and any lines of it |
| `repo:src/a.py#L1-L220@<sha>` | those lines and any span inside them; not the file |
| `artifact:SPEC.md@v1` | the document and any section of it |
| `artifact:sha256:<hex>` | the stored body and any lines of it |
| any other pointer | itself |
| prefix `repo:src/auth/*@<sha>` | every file below the folder, and any lines of it; not `src/authority.py` |
| prefix `repo:*@<sha>` | every file of the tree |
| prefix `diff:src/*@<base>..<head>` | the changes of any file below the folder |

Addresses are compared after parsing, never as text, so no spelling of a path reaches outside its folder: the grammar
refuses `..`, empty segments and encoded slashes. Artifacts have no prefix, because an artifact's name may be the last
part of a path and could match a file anywhere.
"""

from __future__ import annotations

from typing import TypeAlias, TypedDict

import msgspec

from engrambus.core import nfc
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
    """A single pointer."""

    address: Address

    def covers(self, address: Address) -> bool:
        """True if the grant allows reading `address`."""
        granted, address = _composed(self.address), _composed(address)
        if granted == address:
            return True
        match granted, address:
            case RepoAddress(), RepoAddress() if address.lines is not None:
                return (
                    _is_inside(address.lines, granted.lines)
                    and granted.path == address.path
                    and _tree(granted) == _tree(address)
                )
            case ArtifactAddress(section=None), ArtifactAddress():
                document = (granted.repository, granted.name, granted.version)
                return document == (address.repository, address.name, address.version)
            case BodyAddress(), BodyAddress() if address.lines is not None:
                return _is_inside(address.lines, granted.lines) and granted.digest == address.digest
        return False

    def contains(self, target: Target) -> bool:
        """True if everything that `target` covers is covered by this one, too."""
        return isinstance(target, PointerTarget) and self.covers(target.address)

    @property
    def text(self) -> str:
        """The canonical ref."""
        return print_address(self.address)


class PrefixTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Everything below a folder."""

    folder: RepoAddress | DiffAddress
    """The address of the folder as if it were a file; the path is empty for the whole tree."""

    def covers(self, address: Address) -> bool:
        """True if the grant allows reading `address`."""
        if not isinstance(address, RepoAddress | DiffAddress) or _tree(address) != _tree(self.folder):
            return False
        # With the slash: `src/auth/*` must not cover `src/authority.py`.
        return not self.folder.path or nfc(address.path).startswith(f"{nfc(self.folder.path)}/")

    def contains(self, target: Target) -> bool:
        """True if everything that `target` covers is covered by this one, too."""
        if isinstance(target, PointerTarget):
            return self.covers(target.address)
        return _composed(target.folder) == _composed(self.folder) or self.covers(target.folder)

    def folders(self) -> list[RepoAddress]:
        """Return the address of the folder in each commit that the target names."""
        if isinstance(self.folder, RepoAddress):
            return [self.folder]
        path, repository = self.folder.path, self.folder.repository
        return [
            RepoAddress(path=path, revision=revision, repository=repository)
            for revision in (self.folder.base, self.folder.head)
        ]

    @property
    def text(self) -> str:
        """The folder's canonical ref with `/*` after its path."""
        head, _, pin = print_address(self.folder).rpartition("@")
        return f"{head}{'/*' if self.folder.path else '*'}@{pin}"


def _composed(address: Address) -> Address:
    """Return the address with its path in composed form: two spellings are one path (decision 73)."""
    match address:
        case RepoAddress() | DiffAddress() if not address.path.isascii():
            return msgspec.structs.replace(address, path=nfc(address.path))
        case ArtifactAddress() if not address.name.isascii():
            return msgspec.structs.replace(address, name=nfc(address.name))
    return address


def _is_inside(lines: tuple[int, int], granted: tuple[int, int] | None) -> bool:
    return granted is None or granted[0] <= lines[0] <= lines[1] <= granted[1]


Target: TypeAlias = PointerTarget | PrefixTarget


class TargetFields(TypedDict, total=False):
    """A target in a journal fact: one of the two is set."""

    pointer: str
    prefix: str


def is_prefix(ref: str) -> bool:
    """True if a ref has the form of a prefix, such as `repo:src/auth/*@<sha>`."""
    return ref.rpartition("@")[0].endswith(("/*", ":*"))


def read_pointer(ref: str, field: str = "pointer") -> PointerTarget:
    """Return the target for the ref of a pointer; a `*` in it is part of a name."""
    target = PointerTarget(address=parse_ref(ref, field))
    text = _bounded(quoted(target), field)
    if text != ref and parse_ref(text, field) != target.address:
        raise FieldValue("A URL with a quote in it cannot be granted.", field=field)
    return target


def read_prefix(text: str, field: str = "prefix") -> PrefixTarget:
    """Return the target for a prefix such as `repo:src/auth/*@<sha>`."""
    head, _, pin = text.rpartition("@")
    scheme, _, path = head.partition(":")
    if path == "*" or path.endswith("/*"):
        # A file name replaces the star, so that the grammar checks everything around it.
        address = parse_ref(f"{scheme}:{path[:-1]}x@{pin}", field)
        if isinstance(address, RepoAddress | DiffAddress):
            folder = msgspec.structs.replace(address, path=address.path.rpartition("/")[0])
            target = PrefixTarget(folder=folder)
            _bounded(quoted(target), field)
            return target
    raise FieldValue(
        "A prefix is a folder of a repository with /* after it, at a commit.",
        field=field,
        hint="Write repo:src/auth/*@<full commit id>, repo:*@<full commit id> for the whole tree, or "
        "diff:src/*@<base>..<head>; everything else is granted by its pointer.",
    )


def read_target(ref: str, field: str) -> Target:
    """Return the target for the ref of a pointer, or for a prefix."""
    return read_prefix(ref, field) if is_prefix(ref) else read_pointer(ref, field)


def target_fields(target: Target) -> TargetFields:
    """Return the target as the field of a journal fact."""
    return {"pointer": target.text} if isinstance(target, PointerTarget) else {"prefix": target.text}


def quoted(target: Target) -> str:
    """Return the target's text with quotes and backslashes percent-encoded, as a block contains it."""
    return target.text.translate(_QUOTED)


def _bounded(text: str, field: str) -> str:
    if len(text) > MAX_REF:
        raise PointerTooLong("The pointer is too long to be granted.", field=field, limit=MAX_REF, used=len(text))
    return text


def _tree(address: RepoAddress | DiffAddress) -> tuple[str | None, ...]:
    if isinstance(address, RepoAddress):
        return "repo", address.repository, address.revision
    return "diff", address.repository, address.base, address.head
