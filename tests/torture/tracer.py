"""A system-call tracer: runs a function in a forked process and decides over each of its calls that touches a folder.

It uses ptrace as strace does, so it sees the calls of Python and of SQLite alike, each exactly where it enters the
kernel. Forking a process that has imported everything makes a case take a fraction of a second (decision 99). Processes
that the function starts are not traced; its threads are.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

_TRACEME, _SYSCALL, _SET_OPTIONS, _GET_SYSCALL_INFO = 0, 24, 0x4200, 0x420E
_GET_REGISTERS, _SET_REGISTERS = 12, 13
_OPTIONS: Final = 0x1 | 0x8 | 0x100000
"""Stops at system calls are marked, threads are traced as well, and the process dies with its tracer."""
_WAIT_FOR_THREADS: Final = 0x40000000
_SYSCALL_STOP: Final = signal.SIGTRAP | 0x80
_INFO_BYTES: Final = 88
_ENTRY, _EXIT = 1, 2
_RAX, _ORIG_RAX, _REGISTERS = 10, 15, 27

# fmt: off
_X86_64: Final = {
    0: "read", 1: "write", 2: "open", 17: "pread64", 18: "pwrite64", 20: "writev", 74: "fsync", 75: "fdatasync",
    76: "truncate", 77: "ftruncate", 82: "rename", 83: "mkdir", 84: "rmdir", 85: "creat", 86: "link", 87: "unlink",
    257: "openat", 258: "mkdirat", 263: "unlinkat", 264: "renameat", 265: "linkat", 285: "fallocate",
    295: "preadv", 296: "pwritev", 316: "renameat2", 326: "copy_file_range",
}
# fmt: on
CHANGES: Final = frozenset(_X86_64.values()) - {"read", "pread64", "preadv", "open", "openat"}
"""Calls that change a file or a folder; `openat` does so only if it creates or empties a file."""
READS: Final = frozenset({"read", "pread64", "preadv", "open", "openat"})
_DESCRIPTOR_CALLS: Final = frozenset(
    {"read", "write", "pread64", "pwrite64", "writev", "preadv", "pwritev", "fsync", "fdatasync", "ftruncate"}
    | {"fallocate"}
)
_MAKES: Final = os.O_CREAT | os.O_TRUNC

KILL: Final = -1
"""A decision: kill the process before the call happens. A positive number is the errno that the call fails with."""


def unsupported() -> str | None:
    """Return why nothing can be traced on this machine; None if it can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "system calls are traced on Linux x86-64 only"

    def nothing() -> None:
        return None

    try:
        traced = Tracer(Path("/nowhere"), lambda call: 0).run(nothing)
    except OSError as problem:
        return f"ptrace is not permitted here: {problem.strerror}"
    return None if traced == 0 else "ptrace does not work here"


class Call(NamedTuple):
    """A system call as it enters the kernel."""

    name: str
    arguments: tuple[int, ...]
    paths: tuple[str, ...]
    """Absolute paths it concerns: of its descriptor, or of its arguments."""
    thread: int

    @property
    def changes(self) -> bool:
        """True if it changes a file or a folder, or forces one to the disk."""
        if self.name in ("open", "openat"):
            return bool(self.arguments[1 if self.name == "open" else 2] & _MAKES)
        return self.name in CHANGES

    def memory(self, address: int, length: int) -> bytes:
        """Return some of the process's memory."""
        with open(f"/proc/{self.thread}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(length)

    def file(self, descriptor: int) -> str:
        """Return the path by which the kernel can be asked about a descriptor."""
        return f"/proc/{self.thread}/fd/{descriptor}"


class Tracer:
    """Runs functions in forked processes, and asks `decide` about each call that concerns `root`.

    `decide` returns 0 to let the call happen, KILL, or an errno. `on_exit` gets every call that was let through, and
    its result.
    """

    def __init__(
        self,
        root: Path,
        decide: Callable[[Call], int],
        on_exit: Callable[[Call, int], None] | None = None,
        also: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self._root = str(root)
        self._decide = decide
        self._on_exit = on_exit
        self._also = also
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self._libc.ptrace.restype = ctypes.c_long
        self._info = ctypes.create_string_buffer(_INFO_BYTES)

    def run(self, function: Callable[[], None]) -> int:
        """Run a function in a forked process; return its exit status, negative if a signal ended it."""
        pid = os.fork()
        if pid == 0:
            self._become_traced(function)
        os.waitpid(pid, _WAIT_FOR_THREADS)
        self._ptrace(_SET_OPTIONS, pid, 0, _OPTIONS)
        self._ptrace(_SYSCALL, pid, 0, 0)
        try:
            return self._follow(pid)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            raise

    def _become_traced(self, function: Callable[[], None]) -> None:
        """Run the function in this process, and end it without the parent's handlers."""
        status = 1
        try:
            self._ptrace(_TRACEME, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            function()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _follow(self, pid: int) -> int:
        inside: dict[int, tuple[Call, int]] = {}
        """Calls that a thread is in, and the errno that they fail with."""
        while True:
            thread, status = os.waitpid(-1, _WAIT_FOR_THREADS)
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                inside.pop(thread, None)
                if thread == pid:
                    return os.waitstatus_to_exitcode(status)
                continue
            if not os.WIFSTOPPED(status):
                continue
            passed_on = 0
            if os.WSTOPSIG(status) == _SYSCALL_STOP:
                self._at_call(pid, thread, inside)
            elif status >> 16 == 0 and os.WSTOPSIG(status) not in (signal.SIGSTOP, signal.SIGTRAP):
                passed_on = os.WSTOPSIG(status)
            self._ptrace(_SYSCALL, thread, 0, passed_on, may_be_gone=True)

    def _at_call(self, pid: int, thread: int, inside: dict[int, tuple[Call, int]]) -> None:
        if self._ptrace(_GET_SYSCALL_INFO, thread, _INFO_BYTES, ctypes.addressof(self._info), may_be_gone=True) < 0:
            return
        if self._info.raw[0] == _ENTRY:
            call = self._read_call(thread)
            if call is None:
                return
            decision = self._decide(call)
            if decision == KILL:
                os.kill(pid, signal.SIGKILL)
            else:
                if decision:
                    self._set_register(thread, _ORIG_RAX, -1)  # no such call: the kernel does nothing
                inside[thread] = call, decision
        elif thread in inside:
            call, error = inside.pop(thread)
            if error:
                self._set_register(thread, _RAX, -error)
            elif self._on_exit is not None:
                self._on_exit(call, struct.unpack_from("<q", self._info.raw, 24)[0])

    def _read_call(self, thread: int) -> Call | None:
        """Return the call that a thread enters, if it concerns the folder."""
        number, *arguments = struct.unpack_from("<7Q", self._info.raw, 24)
        name = _X86_64.get(number)
        if name is None:
            return None
        call = Call(name, tuple(arguments), (), thread)
        try:
            paths = _paths(call)
        except OSError:
            return None
        if not any(path.startswith(self._root) or self._also(path) for path in paths):
            return None
        return call._replace(paths=paths)

    def _set_register(self, thread: int, register: int, value: int) -> None:
        registers = (ctypes.c_ulonglong * _REGISTERS)()
        self._ptrace(_GET_REGISTERS, thread, 0, ctypes.addressof(registers))
        registers[register] = value & 0xFFFFFFFFFFFFFFFF
        self._ptrace(_SET_REGISTERS, thread, 0, ctypes.addressof(registers))

    def _ptrace(self, request: int, thread: int, address: int, data: int, *, may_be_gone: bool = False) -> int:
        result = int(self._libc.ptrace(request, thread, address, data))
        if result < 0 and not may_be_gone:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def _paths(call: Call) -> tuple[str, ...]:
    """Return the absolute paths that a call concerns."""
    first, second, third, fourth = call.arguments[:4]
    match call.name:
        case name if name in _DESCRIPTOR_CALLS:
            return (os.readlink(call.file(first)),)
        case "openat" | "mkdirat" | "unlinkat":
            return (_path(call, first, second),)
        case "renameat" | "renameat2" | "linkat":
            return _path(call, first, second), _path(call, third, fourth)
        case "rename" | "link":
            return _path(call, None, first), _path(call, None, second)
        case "copy_file_range":
            return (os.readlink(call.file(third)),)
        case _:
            return (_path(call, None, first),)


def _path(call: Call, folder: int | None, address: int) -> str:
    text = b""
    while b"\0" not in text:  # page by page, because the page behind the text may not be readable
        text += call.memory(address + len(text), 4096 - (address + len(text)) % 4096)
    name = os.fsdecode(text.partition(b"\0")[0])
    if name.startswith("/"):
        return os.path.normpath(name)
    from_working_folder = folder is None or ctypes.c_int(folder & 0xFFFFFFFF).value == -100
    base = os.readlink(f"/proc/{call.thread}/cwd" if from_working_folder else call.file(folder or 0))
    return os.path.normpath(os.path.join(base, name))
