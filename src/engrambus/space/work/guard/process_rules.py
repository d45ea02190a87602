"""Rules that a process of a step takes on before its program starts, and that all it starts inherit. Linux only.

The supervisor of a step imports this without the package, so it imports nothing of it either.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
# The numbers of Landlock's calls are the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _RULE_PATH_BENEATH = 1, 1
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
TCP_ABI = 4
"""First version of Landlock that knows rules for TCP."""


def landlock_abi() -> int:
    """Return the version of Landlock that this kernel offers; 0 if it offers none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)))


def restrict(writable: Sequence[bytes], *, refuse_tcp: bool) -> None:
    """Let this process write only to these files and beneath these folders, and perhaps use no TCP; for good.

    A path that does not exist, or is a link, is left out.
    """
    abi = landlock_abi()
    rights = _WRITE_FILE | _REMOVE_AND_MAKE | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    tcp = _BIND_TCP | _CONNECT_TCP if refuse_tcp and abi >= TCP_ABI else 0
    attributes = struct.pack("=QQ", rights, tcp) if abi >= TCP_ABI else struct.pack("=Q", rights)
    ruleset = _syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    for path in writable:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        mode = os.fstat(descriptor).st_mode
        allowed = rights if stat.S_ISDIR(mode) else rights & (_WRITE_FILE | _TRUNCATE)
        if not stat.S_ISLNK(mode):
            _syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", allowed, descriptor), 0)
        os.close(descriptor)
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def refuse_allocation() -> None:
    """Have `fallocate` fail as on a file system without it: what it allocates is in no counter of written bytes.

    Libraries then write the bytes instead, which counts. Without the right to set a filter, nothing changes.
    """
    numbers = {"x86_64": (0xC000003E, 285), "aarch64": (0xC00000B7, 47)}.get(os.uname().machine)
    if numbers is None or sys.maxsize < 2**32:
        return
    architecture, call = numbers
    load, equal, any_bits, give = 0x20, 0x15, 0x45, 0x06
    allow, unsupported = 0x7FFF0000, 0x00050000 | 95  # EOPNOTSUPP
    frees_space = 0x02 | 0x08  # FALLOC_FL_PUNCH_HOLE, FALLOC_FL_COLLAPSE_RANGE
    program = b"".join(
        struct.pack("HBBI", *line)
        for line in (
            (load, 0, 0, 4),  # the architecture of the call
            (equal, 0, 4, architecture),
            (load, 0, 0, 0),  # the number of the call
            (equal, 0, 2, call),
            (load, 0, 0, 24),  # its second argument, the mode
            (any_bits, 0, 1, frees_space),
            (give, 0, 0, allow),
            (give, 0, 0, unsupported),
        )
    )
    code = ctypes.create_string_buffer(program, len(program))
    filter_program = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    try:
        _call("prctl", _PR_SET_SECCOMP, 2, ctypes.create_string_buffer(filter_program, len(filter_program)), 0, 0)
    except OSError:
        return


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        _refuse(name)


def _syscall(*arguments: object) -> int:
    words = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result = int(ctypes.CDLL(None, use_errno=True).syscall(*words))
    if result < 0:
        _refuse("syscall")
    return result


def _refuse(name: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{name}: {os.strerror(number)}")
