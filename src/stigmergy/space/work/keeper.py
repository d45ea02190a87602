"""Ends what a worker started when the worker itself is killed.

A process group of its own outlives whoever started it. So each worker has a keeper: a shell that is told which groups
run, and that ends those left when the pipe from the worker closes, which the system does however the worker ends.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SCRIPT = """
while read -r sign group; do
  case $sign in
    +) set -- "$@" "$group" ;;
    -) left=; for each in "$@"; do [ "$each" = "$group" ] || left="$left $each"; done; set -- $left ;;
  esac
done
for each in "$@"; do kill -s KILL -- "-$each"; done
"""


class Keeper:
    """Knows which process groups run. Safe under threads."""

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    @contextmanager
    def watching(self, group: int) -> Iterator[None]:
        """See to it that a process group does not outlive this process."""
        self.watch(group)
        try:
            yield
        finally:
            self.forget(group)

    def watch(self, group: int) -> None:
        """A process group runs."""
        self._tell(b"+ %d\n" % group)

    def forget(self, group: int) -> None:
        """A process group has ended."""
        self._tell(b"- %d\n" % group)

    def close(self) -> None:
        """End the keeper, and with it whatever still runs."""
        with self._lock:
            if self._shell is not None and self._shell.stdin is not None:
                self._shell.stdin.close()
                self._shell.wait()
                self._shell = None

    def _tell(self, line: bytes) -> None:
        with self._lock:
            if self._shell is None:
                self._shell = subprocess.Popen(
                    ["/bin/sh", "-c", _SCRIPT],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            if self._shell.stdin is not None:
                with suppress(BrokenPipeError):
                    self._shell.stdin.write(line)
                    self._shell.stdin.flush()
