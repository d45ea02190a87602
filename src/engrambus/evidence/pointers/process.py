"""Running git where nothing of the repository's own can make it run something else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from engrambus.errors import GitTrouble

if TYPE_CHECKING:
    from subprocess import CompletedProcess

Done: TypeAlias = "CompletedProcess[bytes]"

# Whatever the repository's own configuration says: no hooks, no helpers, no network, no attributes from elsewhere.
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "protocol.allow": "never",
    "diff.suppressBlankEmpty": "false",
    "gc.auto": "0",
}


def git_command() -> list[str]:
    """How git is called, always."""
    return ["git", *(word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}"))]


def git_environment(git_directory: Path | None = None) -> dict[str, str]:
    """What git is told. With a directory, that repository and nothing of the user's; without, git looks around.

    This reads the process's environment only to hand it on: PATH and the like stay, and everything that could turn
    git elsewhere goes. A search keeps the user's configuration, because only there git accepts `safe.directory`.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
    if git_directory is not None:
        environment |= {
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_DIR": str(git_directory),
        }
    return environment


def run_git(
    args: tuple[str, ...],
    environment: Mapping[str, str],
    timeout: float,
    *,
    given: bytes | None = None,
    folder: Path | None = None,
) -> Done:
    """What git says to a command; on its standard input is nothing but what is given."""
    import subprocess  # many calls need no git, and it takes long to load

    try:
        return subprocess.run(
            [*git_command(), *args],
            env=environment,
            cwd=folder,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitTrouble("Git did not answer in time.", limit=f"{timeout:g} s") from None
    except OSError as problem:
        raise GitTrouble(f"Git cannot be started: {problem.strerror}.") from None
