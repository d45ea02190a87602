"""The statuses of many files of a folder, without following symbolic links."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class FileStatuses:
    """The statuses of many files, none of them reached through a symbolic link; each folder is looked at once."""

    def __init__(self, top: Path) -> None:
        self._top = os.fsencode(top)
        self._are_folders: dict[bytes, bool] = {b"": True}

    def get(self, path: bytes) -> os.stat_result | None:
        """Return the status of a file; None if it is absent."""
        if not self._is_folder(path.rpartition(b"/")[0]):
            return None
        try:
            return os.lstat(b"%s/%s" % (self._top, path))
        except OSError:
            return None

    def _is_folder(self, path: bytes) -> bool:
        is_folder = self._are_folders.get(path)
        if is_folder is None:
            is_folder = self._is_folder(path.rpartition(b"/")[0])
            if is_folder:
                try:
                    is_folder = stat.S_ISDIR(os.lstat(b"%s/%s" % (self._top, path)).st_mode)
                except OSError:
                    is_folder = False
            self._are_folders[path] = is_folder
        return is_folder
