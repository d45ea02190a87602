"""What tells one start of this machine from another."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path


@cache
def boot_id() -> str:
    """A text that stays the same until the machine is started anew."""
    if sys.platform == "darwin":
        import subprocess

        said = subprocess.run(["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, check=True)
        return said.stdout.decode().strip().lower()
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
