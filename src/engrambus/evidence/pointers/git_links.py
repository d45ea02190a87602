"""Links inside a git directory: one could have git read another repository's objects.

decision 73: refused like alternates. A folder is searched when it is first needed, and again when it has changed.
"""

from __future__ import annotations

import os
from pathlib import Path

from engrambus.errors import RepositoryRefused

_FILES = ("objects", "refs", "config", "packed-refs", "shallow", "info", "info/grafts")
_HINT = "Git makes no links there. Remove the link, or clone the repository anew."

_Signature = tuple[int, int, int]


class LinkCheck:
    """Refuses a git directory that has links among its objects, its refs or the files that say what history is."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._objects = f"{self._directory}/objects"
        self._pack = f"{self._objects}/pack"
        self._searched: dict[str, _Signature] = {}

    def check_object(self, object_id: str) -> bool:
        """Refuse links in the folders where git looks for an object; return True if there may be other packs by now.

        It takes three stats if nothing has changed.
        """
        self._check_folder(self._objects)
        self._check_folder(f"{self._objects}/{object_id[:2]}")
        return self._check_folder(self._pack)

    def check_all(self) -> None:
        """Refuse links wherever git looks for objects, refs and history."""
        if os.path.lexists(f"{self._directory}/commondir"):
            # A linked worktree has this file; the directory that worktrees share has none.
            raise RepositoryRefused("Its file commondir leads to another repository.", hint="Remove the file.")
        for name in _FILES:
            if os.path.islink(f"{self._directory}/{name}"):
                self._refuse(f"{self._directory}/{name}")
        # Git once wrote HEAD as a link to a branch.
        head = f"{self._directory}/HEAD"
        if os.path.islink(head) and not os.path.realpath(head).startswith(f"{self._directory}/refs/"):
            self._refuse(head)
        self.check_tree(self._objects)
        self.check_tree(f"{self._directory}/refs")

    def check_tree(self, folder: str) -> None:
        """Refuse links in a folder and below it."""
        self._check_folder(folder)
        for inner in [name for name in self._searched if name.startswith(f"{folder}/")]:
            self._check_folder(inner)

    def _check_folder(self, folder: str) -> bool:
        """Refuse links in a folder that has changed since it was searched; return True if it has.

        Folders that are new in it are searched, too.
        """
        try:
            status = os.lstat(folder)
        except FileNotFoundError:
            return self._searched.pop(folder, None) is not None
        except OSError:
            raise RepositoryRefused from None
        # The time of the last change, because unlike that of the last writing it cannot be set back.
        signature = (status.st_dev, status.st_ino, status.st_ctime_ns)
        if self._searched.get(folder) == signature:
            return False
        if os.path.islink(folder):
            self._refuse(folder)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        self._refuse(entry.path)
                    if entry.is_dir() and entry.path not in self._searched:
                        self._check_folder(entry.path)
        except FileNotFoundError:
            return True
        except OSError:
            raise RepositoryRefused from None
        self._searched[folder] = signature
        return True

    def _refuse(self, path: str) -> None:
        link = os.path.relpath(path, self._directory)
        raise RepositoryRefused(f"Its {link} is a link, which may lead to another repository.", hint=_HINT)
