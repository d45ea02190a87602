"""Pointers as they are sent, and the addresses they are parsed into."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Pointer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A pointer as it is sent and stored (schema v0.1)."""

    type: str
    """The scheme of `ref`: repo, artifact, sam, diff, test or url."""
    ref: str
    """The address."""
    digest: str | None = None
    """Digest of all the pointed content."""
    span: str | None = None
    """The fragment of `ref`, if it is sent separately."""


class RepoAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a file at a commit, or the whole file."""

    path: str
    revision: str
    lines: tuple[int, int] | None = None
    """First and last line, counted from 1."""
    repository: str | None = None
    """The name of the repository; None is the project's own."""


class ArtifactAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A document at a commit or a tag, or one section of it."""

    name: str
    """A path, or the last part of one."""
    version: str
    section: tuple[str, ...] | None = None
    """The headings that contain it, and its own; an empty first part means the path starts at the document's top."""
    repository: str | None = None
    """The name of the repository; None is the project's own."""
    numbers: tuple[int, ...] = ()
    """For each heading its number among equal ones under the same parent, 0 if not given; empty if none is."""


class BodyAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A stored body, or lines of it."""

    digest: str
    """Digest of the whole body, even where `lines` names a part of it."""
    lines: tuple[int, int] | None = None
    """First and last line, counted from 1."""


class SamAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the episodic store."""

    kind: str
    slug: str
    version: str


class DiffAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The change of a file between two commits."""

    path: str
    base: str
    head: str
    repository: str | None = None
    """The name of the repository; None is the project's own."""


class TestAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A case in a test receipt."""

    __test__ = False

    node: str
    receipt: str


class UrlAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A page, pinned by its digest."""

    url: str
    digest: str


Address: TypeAlias = RepoAddress | ArtifactAddress | BodyAddress | SamAddress | DiffAddress | TestAddress | UrlAddress
