"""What a pointer is, as it travels and as it is read."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Pointer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A pointer as it travels (schema v0.1)."""

    type: str
    """The scheme of `ref`: repo, artifact, sam, diff, test or url."""
    ref: str
    """The address."""
    digest: str | None = None
    """The digest of the whole pointed content."""
    span: str | None = None
    """The fragment of `ref`, when written apart from it."""


class RepoAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a file at a commit, or the whole file."""

    path: str
    revision: str
    lines: tuple[int, int] | None = None
    """First and last line, counted from 1."""
    repository: str | None = None
    """The configured name of the repository; the project's own when None."""


class ArtifactAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A document at a commit or a tag, or one section of it."""

    name: str
    """A path, or the last part of one."""
    version: str
    section: tuple[str, ...] | None = None
    """The heading, after the headings it stands under; an empty first part means: from the top of the document."""


class BodyAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A stored body, or lines of it."""

    digest: str
    """The whole body's."""
    lines: tuple[int, int] | None = None
    """First and last line, counted from 1."""


class SamAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the episodic store."""

    kind: str
    slug: str
    version: str


class DiffAddress(msgspec.Struct, frozen=True, kw_only=True):
    """How a file changed between two commits."""

    path: str
    base: str
    head: str


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
