"""A process that dereferences as one agent until it is denied or killed, and logs each read it was given.

    python reader.py FOLDER LOG

The log is a file of lines: `read` for each dereference that was answered, `denied` once the turn has no more.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from engrambus.backends.sqlite import SqliteStore
from engrambus.core import SystemClock
from engrambus.gateway import Credential
from engrambus.testing import GatewayClient, open_gateway
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import KEY


class ReaderProject:
    """The store in a folder, with the system clock."""

    def __init__(self, folder: Path) -> None:
        self.gateway = open_gateway(SqliteStore(folder, KEY, SystemClock()), folder, os.urandom)


def main(folder: Path, log: Path) -> None:
    """Read until denied."""
    notes = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    client, ada = GatewayClient(ReaderProject(folder)), Credential(local_admin=True, speak_as="ada")
    while client.try_call("deref_pointer", ada, pointer=repo_ref("src/a.py"))[0] == "ok":
        os.write(notes, b"read\n")
    os.write(notes, b"denied\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
