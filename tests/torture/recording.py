"""Operations on files as they were recorded from a run of the writer: what was written where, synced and renamed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tests.torture.tracer import Call, Tracer
from tests.torture.workload import Actions, TortureProject, run_actions

SHARED_MEMORY = "-shm"
"""SQLite maps this file into memory and makes it anew after a restart; its content is neither seen nor needed."""


class Node:
    """A file or a folder, whatever it is called; a recording's nodes are numbered in the order they appeared."""

    def __init__(self, number: int, content: bytes | None) -> None:
        self.number = number
        self.content = content
        """What was in a file when the recording began; None for a folder."""


class Write(NamedTuple):
    node: Node
    offset: int
    data: bytes


class Truncate(NamedTuple):
    node: Node
    size: int


class Rename(NamedTuple):
    """A change of folders that happens as a whole: each place gets a node, or none."""

    places: tuple[tuple[Node, str, Node | None], ...]


class Sync(NamedTuple):
    node: Node


class Note(NamedTuple):
    """A line that the writer wrote to its notes: from here on it counts."""

    text: str


Operation = Write | Truncate | Rename | Sync | Note


class Recording:
    """The folder as it was, and every operation on it since, in order."""

    def __init__(self, root: Path, log: Path) -> None:
        self._root = str(root)
        self._log = str(log)
        self._nodes: dict[int, Node] = {}
        """By inode number. A number may be used again once its file is gone: then it gets a new node."""
        self._names: dict[str, Node] = {}
        """What each path is at this moment."""
        self._sizes: dict[Node, int] = {}
        self._offsets: dict[int, tuple[int, int]] = {}
        self.operations: list[Operation] = []
        self.initial: dict[str, Node] = {}
        """Every path before the first operation, the folder itself included."""
        self._take(root)
        self.root = self._names[self._root]
        self.initial = dict(self._names)

    def _take(self, path: Path) -> None:
        content = None if path.is_dir() else path.read_bytes()
        node = Node(len(self._nodes), content)
        self._nodes[path.stat().st_ino] = self._names[str(path)] = node
        self._sizes[node] = len(content or b"")
        if content is None:
            for child in path.iterdir():
                self._take(child)

    def enter(self, call: Call) -> int:
        """Look at a call before it happens: where it will write."""
        if call.name == "write" and call.paths[0] != self._log:
            info = dict(
                line.split(":\t", 1)
                for line in Path(f"/proc/{call.thread}/fdinfo/{call.arguments[0]}").read_text().splitlines()[:2]
            )
            appends = int(info["flags"].strip(), 8) & os.O_APPEND
            size = os.stat(call.file(call.arguments[0])).st_size
            self._offsets[call.thread] = (size if appends else int(info["pos"]), 0)
        return 0

    def leave(self, call: Call, result: int) -> None:
        """Take down a call that happened."""
        if result < 0 or any(path.endswith(SHARED_MEMORY) for path in call.paths):
            return
        arguments = call.arguments
        match call.name:
            case "write" if call.paths[0] == self._log:
                self.operations.append(Note(call.memory(arguments[1], result).decode().rstrip("\n")))
            case "write":
                self._write(call, self._offsets.pop(call.thread)[0], result)
            case "pwrite64":
                self._write(call, arguments[3], result)
            case "ftruncate":
                self._truncate(self._node(call), arguments[1])
            case "fsync" | "fdatasync":
                self.operations.append(Sync(self._node(call)))
            case "open" | "openat" | "creat":
                self._open(call, result)
            case "mkdir" | "mkdirat":
                self._link(call.paths[0], self._new(os.stat(call.paths[0]).st_ino, None))
            case "link" | "linkat":
                self._link(call.paths[1], self._names[call.paths[0]])
            case "unlink" | "unlinkat" | "rmdir":
                self._link(call.paths[0], None)
            case "rename" | "renameat" | "renameat2":
                self._rename(*call.paths)
            case name if call.changes:
                raise NotImplementedError(f"the recording does not know {name}")

    def _node(self, call: Call) -> Node:
        return self._nodes[os.stat(call.file(call.arguments[0])).st_ino]

    def _new(self, inode: int, content: bytes | None) -> Node:
        node = self._nodes[inode] = Node(len(self._nodes), content)
        self._sizes[node] = 0
        return node

    def _write(self, call: Call, offset: int, length: int) -> None:
        node = self._node(call)
        self.operations.append(Write(node, offset, call.memory(call.arguments[1], length)))
        self._sizes[node] = max(self._sizes[node], offset + length)

    def _truncate(self, node: Node, size: int) -> None:
        self.operations.append(Truncate(node, size))
        self._sizes[node] = size

    def _open(self, call: Call, descriptor: int) -> None:
        if not call.changes:
            return
        path = call.paths[0]
        known = self._names.get(path)
        if known is None:
            self._link(path, self._new(os.stat(call.file(descriptor)).st_ino, b""))
        elif self._sizes[known] and call.arguments[1 if call.name == "open" else 2] & os.O_TRUNC:
            self._truncate(known, 0)

    def _link(self, path: str, node: Node | None) -> None:
        self._change({path: node})

    def _rename(self, source: str, target: str) -> None:
        self._change({source: None, target: self._names[source]})

    def _change(self, names: dict[str, Node | None]) -> None:
        places = []
        for path, node in names.items():
            folder, _, name = path.rpartition("/")
            places.append((self._names[folder], name, node))
            if node is None:
                self._names.pop(path)
            else:
                self._names[path] = node
        self.operations.append(Rename(tuple(places)))


def record(project: TortureProject, actions: Actions) -> Recording:
    """Run the writer and record its operations."""
    log = project.folder / "notes"
    notes = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    recording = Recording(project.catalog, log)
    tracer = Tracer(project.catalog, recording.enter, recording.leave, also=lambda path: path == str(log))
    try:
        status = tracer.run(lambda: run_actions(project, actions, notes))
    finally:
        os.close(notes)
    assert status == 0, f"the writer ended with status {status}"
    return recording
