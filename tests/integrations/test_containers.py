"""Doctor's warning: the keys go with the container while the journals stay. # EB-29"""

from __future__ import annotations

from pathlib import Path

import pytest

from engrambus.edges.integrations.containers import is_container, keys_are_lost_first

OVERLAY = "1 0 0:30 / / rw,relatime - overlay overlay rw,lowerdir=/a\n"
PROC = "2 1 0:31 / /proc rw - proc proc rw\n"
PROJECT = "3 1 8:1 /home/ada/project /work/project rw,relatime - ext4 /dev/sda1 rw\n"
KEYS = "4 1 8:1 /volumes/keys /root/.local/state rw,relatime master:1 - ext4 /dev/sda1 rw\n"
SPACES = "5 1 8:1 /x /work/my\\040project rw - ext4 /dev/sda1 rw\n"
MEMORY = "6 1 0:40 / /root/.local rw - tmpfs tmpfs rw\n"
AGAIN = "7 1 8:2 / / rw - ext4 /dev/sda2 rw\n"

KEY_FOLDER = Path("/root/.local/state/engrambus/01KDVP9R00STGMERGYTEST0000")


@pytest.mark.parametrize(
    ("mounts", "state", "lost"),
    [
        (OVERLAY + PROC + PROJECT, "/work/project/.catalog", True),
        (OVERLAY + PROC + PROJECT + KEYS, "/work/project/.catalog", False),
        (OVERLAY + PROC + PROJECT + MEMORY, "/work/project/.catalog", True),
        (OVERLAY + PROC + SPACES, "/work/my project/.catalog", True),
        (OVERLAY + PROC, "/work/project/.catalog", False),
        (OVERLAY + PROC + PROJECT, "/work/projects/.catalog", False),
        (OVERLAY + PROJECT + AGAIN, "/work/project/.catalog", True),
        ("", "/work/project/.catalog", False),
        ("not a mount\n - \n1 2 3\n", "/work/project/.catalog", False),
    ],
    ids=["volume", "both", "tmpfs", "spaces", "neither", "other folder", "root twice", "no list", "no mounts"],
)
def test_keys_are_lost_first_where_only_the_journals_lie_on_a_volume(mounts: str, state: str, lost: bool) -> None:
    assert keys_are_lost_first(mounts, KEY_FOLDER, Path(state)) is lost


@pytest.mark.parametrize(
    ("files", "cgroups", "environment", "container"),
    [
        (["/.dockerenv"], "", {}, True),
        (["/run/.containerenv"], "", {}, True),
        ([], "0::/kubepods/besteffort/pod1\n", {}, True),
        ([], "12:pids:/docker/3f\n", {}, True),
        ([], "", {"container": "podman"}, True),
        ([], "0::/init.scope\n", {"HOME": "/root"}, False),
    ],
)
def test_a_container_is_recognised(
    files: list[str], cgroups: str, environment: dict[str, str], container: bool
) -> None:
    assert is_container(files.__contains__, cgroups, environment) is container
