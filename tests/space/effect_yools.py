"""Yools that declare an effect, and try more."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path

from engrambus.space.catalog import yool
from engrambus.space.work import step_context

WRITE = """
echo x > "$TMPDIR/a" && mv "$TMPDIR/a" "$ENGRAMBUS_ARTIFACTS/a" && echo x > /dev/null || exit 9
if [ -n "$0" ]; then echo x > "$0"; fi
"""
CONNECT = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])))"


def write(path: str) -> None:
    """Write into the step's own folders, and to a path."""
    (step_context.artifacts() / "a").write_text("x")
    with tempfile.TemporaryFile() as file, open(os.devnull, "w") as null:
        file.write(b"x")
        null.write("x")
    if path:
        Path(path).write_text("x")


yool("agent.pure.command", lane="build", effect="pure", inputs=[])(["sh", "-c", WRITE, "${path}"])
yool("agent.reads.command", lane="build", effect="reads", inputs=[])(["sh", "-c", WRITE, "${path}"])
yool("agent.writes.command", lane="build", effect="writes", inputs=[])(["sh", "-c", WRITE, "${path}"])
yool("agent.pure.function", lane="build", effect="pure", inputs=[])(write)
yool("agent.reads.function", lane="build", effect="reads", inputs=[])(write)
yool("agent.writes.function", lane="build", effect="writes", inputs=[])(write)
yool("agent.connect.command", lane="build", effect="pure", inputs=[])([sys.executable, "-c", CONNECT, "${port}"])
yool("agent.fail.saying", lane="build", effect="pure", inputs=[])(["sh", "-c", 'echo "$0" >&2; exit 3', "${text}"])
yool("agent.run.script", lane="build", effect="pure", inputs=[])(["sh", "-c", '"$0"', "${path}"])


@yool("agent.connect.function", lane="build", effect="pure", inputs=[])
def connect(port: str) -> None:
    """Connect to a port of this machine."""
    socket.create_connection(("127.0.0.1", int(port)))


@yool("agent.change.file", lane="build", effect="reads", inputs=[])
def change_file(change: str, path: str) -> None:
    """Change a file, or what is in its folder."""
    other = path + ".other"
    match change:
        case "unlink":
            os.unlink(path)
        case "rename":
            os.rename(path, other)
        case "truncate":
            os.truncate(path, 0)
        case "link":
            os.link(path, other)
        case "symlink":
            os.symlink(path, other)
        case "mkdir":
            os.mkdir(other)
