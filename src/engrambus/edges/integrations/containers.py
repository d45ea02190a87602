"""Whether the keys of a project outlive the container that its commands run in, judged from the list of mounts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")
_CGROUP_HINT = re.compile(r"docker|kubepods|containerd|libpod|/lxc[/.]")
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """One mounted file system."""

    point: PurePosixPath
    kind: str


def is_container(exists: Callable[[str], bool], cgroups: str, environment: Mapping[str, str]) -> bool:
    """True if a process runs in a container; `cgroups` is the text of /proc/1/cgroup."""
    return (
        any(exists(path) for path in CONTAINER_FILES)
        or bool(environment.get("container") or environment.get("KUBERNETES_SERVICE_HOST"))
        or _CGROUP_HINT.search(cgroups) is not None
    )


def keys_are_lost_first(mounts: str, keys: Path, state: Path) -> bool:
    """True if a container that is replaced loses its keys and keeps its journals; `mounts` is /proc/self/mountinfo.

    The root file system of a container goes with it; a mounted volume or folder stays.
    """
    listed = _read_mounts(mounts)
    of_keys, of_state = _mount_of(listed, keys), _mount_of(listed, state)
    if of_keys is None or of_state is None:
        return False
    return _goes_with_container(of_keys) and not _goes_with_container(of_state)


def _goes_with_container(mount: Mount) -> bool:
    return mount.point == PurePosixPath("/") or mount.kind in _IN_MEMORY


def _mount_of(mounts: list[Mount], path: Path) -> Mount | None:
    """Return the mount that a path lies on: the longest of those above it, the last of those with the same point."""
    above = [mount for mount in mounts if PurePosixPath(path).is_relative_to(mount.point)]
    return max(reversed(above), key=lambda mount: len(mount.point.parts), default=None)


def _read_mounts(text: str) -> list[Mount]:
    mounts = []
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split(" ")
        if separator and len(fields) >= 5 and right:
            # The kernel writes spaces and other separators of a path as octal escapes.
            point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
            mounts.append(Mount(PurePosixPath(point), right.split(" ")[0]))
    return mounts
