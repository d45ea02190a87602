"""The program between a worker and one step: when the step ends, or the worker dies, nothing of the step stays.

Started as `python -I -S step_supervisor.py WORKER CONTAINMENT CONTROL SHARED_MEMORY_BYTES REFUSE_ALLOCATION`. It starts
with every command, so it imports nothing of this package and little else: no JSON and no `typing`, which would double
its start. Linux only (decision 95).

With a PID namespace there are two supervisors. The outer one waits outside; the inner one is the first process of the
namespace, and when it ends the kernel kills every process in it. Without one, the outer supervisor is a child
subreaper: orphans of the step become its children, and it kills them until it has none left.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

PID_NAMESPACE, SUBREAPER = "pid namespace", "subreaper"
SHARED_MEMORY = "/dev/shm"  # noqa: S108
PROBE = "probe"
REFUSE_TCP = b"refuse tcp"
_SIZE_BYTES = 8
"""Bytes of the number before a command that say how long it is."""
KILLED_EXIT, NOT_STARTED_EXIT = 137, 127
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_SLAVE = 2, 4, 8, 1 << 14, 1 << 19
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_POLL_SECONDS = 0.2
"""Interval at which a kernel without process descriptors is asked whether the worker is alive."""
_RESET_SIGNALS = ("SIGPIPE", "SIGXFSZ", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCHLD")


def _call(name: str, *arguments: Any) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _die_with_parent() -> None:
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def enter_namespaces() -> None:
    """Have the next child be the first process of a PID namespace; identities of users stay what they are."""
    user, group = os.geteuid(), os.getegid()
    as_root = user == 0
    _call("unshare", _CLONE_NEWPID | _CLONE_NEWNS | (0 if as_root else _CLONE_NEWUSER))
    if not as_root:
        # The same number inside: files keep the user's own id. A group may be mapped only without setgroups.
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)


def mount_private_folders(shared_memory_bytes: int | None) -> None:
    """Mount a /proc that shows this namespace, and a /dev/shm that ends with it; both are seen only inside."""
    _call("mount", None, b"/", None, _MS_REC | _MS_SLAVE, None)
    _call("mount", b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None)
    if os.path.isdir(SHARED_MEMORY):
        size = "" if shared_memory_bytes is None else f",size={shared_memory_bytes}"
        _call("mount", b"tmpfs", SHARED_MEMORY.encode(), b"tmpfs", _MS_NOSUID | _MS_NODEV, f"mode=1777{size}".encode())


def used_bytes(folder: str) -> int:
    """Return the bytes used of the file system that holds `folder`; 0 if that is unknown."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return 0
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def probe() -> str:
    """Return which containment works for this account on this machine, and on the next line why not a better one."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            enter_namespaces()
            inner = os.fork()
            if inner == 0:
                try:
                    mount_private_folders(None)
                    os._exit(0)
                except OSError as problem:
                    os.write(writable, (problem.strerror or str(problem)).encode())
                    os._exit(1)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) and 1)
        except OSError as problem:
            os.write(writable, (problem.strerror or str(problem)).encode())
        os._exit(1)
    os.close(writable)
    _, status = os.waitpid(child, 0)
    reason = os.read(readable, 1000).decode()
    os.close(readable)
    return f"{PID_NAMESPACE if status == 0 else SUBREAPER}\n{reason}"


class Supervisor:
    """Starts the step's first process, waits for its end, and ends what it left."""

    def __init__(
        self, worker: str, containment: str, control: str, shared_memory_bytes: str, refuse_allocation: str
    ) -> None:
        """`control` is the descriptor of a socket to the worker, which reads `_send` and writes `_receive`."""
        self._worker = int(worker)
        self._in_namespace = containment == PID_NAMESPACE
        self._shared_memory_bytes = int(shared_memory_bytes) if shared_memory_bytes else None
        self._refuse_allocation = bool(refuse_allocation)
        self._control = int(control)
        os.set_inheritable(self._control, False)
        self._woken, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        self._must_end = False

    def run(self) -> NoReturn:
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGUSR2, self._end_on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        if not self._in_namespace:
            _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            os._exit(self._supervise(self._start_step(), os.getpid()))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # for the inner supervisor, which is in the same group
        readable, writable = os.pipe()
        enter_namespaces()
        inner = os.fork()
        if inner == 0:
            os.close(writable)
            os._exit(self._run_inner(readable))
        os.close(readable)
        os.close(self._control)
        _close_streams()
        os._exit(self._wait_for_inner(inner))

    def _end_on_signal(self, *_: Any) -> None:
        self._must_end = True

    def _wait_for_inner(self, inner: int) -> int:
        """Wait until the namespace has ended; end it if the worker dies."""
        worker = _process_descriptor(self._worker)
        while True:
            ended, status = os.waitpid(inner, os.WNOHANG)
            if ended:
                return max(0, os.waitstatus_to_exitcode(status)) or (KILLED_EXIT if os.WIFSIGNALED(status) else 0)
            if self._must_end or self._worker_is_gone():
                os.kill(inner, signal.SIGKILL)
                os.waitpid(inner, 0)
                return KILLED_EXIT
            self._wait(worker)

    def _run_inner(self, outer: int) -> int:
        _die_with_parent()
        self._woken, wakeup = os.pipe()  # not the pipe of the outer supervisor
        os.set_blocking(wakeup, False)
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        mount_private_folders(self._shared_memory_bytes)
        return self._supervise(self._start_step(), None, outer)

    def _supervise(self, step: int, subreaper: int | None, outer: int | None = None) -> int:
        """Wait for the end of the step's first process, report it, and return its exit status."""

        def terminate(*_: Any) -> None:
            for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process gets the first when it is continued
                try:
                    os.killpg(step, number)
                except (ProcessLookupError, PermissionError):
                    return

        signal.signal(signal.SIGTERM, terminate)
        _close_streams()
        watched = _process_descriptor(self._worker) if subreaper is not None else outer
        step_status: int | None = None
        while step_status is None:
            step_status = _reap(step)
            if step_status is not None:
                break
            if self._must_end or (subreaper is not None and self._worker_is_gone()):
                break
            if self._wait(watched) and subreaper is None:
                break  # the outer supervisor is gone
        if subreaper is not None:
            step_status = _kill_descendants(subreaper, step, step_status)
        if subreaper is None:
            self._send("shared_memory_bytes", used_bytes(SHARED_MEMORY))
        if step_status is not None:
            self._send("status", os.waitstatus_to_exitcode(step_status))
        code = KILLED_EXIT if step_status is None else os.waitstatus_to_exitcode(step_status)
        return code if code >= 0 else 128 - code

    def _start_step(self) -> int:
        supervisor = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            if not self._in_namespace:
                _die_with_parent()
                if os.getppid() != supervisor:
                    os._exit(KILLED_EXIT)
            self._execute()
        except BaseException as problem:
            number = problem.errno if isinstance(problem, OSError) else None
            self._send("not_started", number or 0)
        os._exit(NOT_STARTED_EXIT)

    def _execute(self) -> None:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for name in _RESET_SIGNALS:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        try:
            with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                file.write("1000")  # the kernel kills the step rather than the worker if the machine runs out of RAM
        except OSError:
            pass
        self._send("ready", 1)
        command = self._receive()
        if command is None:  # the worker died before the step was watched
            os._exit(KILLED_EXIT)
        argv, env, rules = command
        if self._refuse_allocation or rules:
            apply = _load_process_rules()
            if rules:
                apply.restrict(rules[1:], refuse_tcp=rules[0] == REFUSE_TCP)
            if self._refuse_allocation:
                apply.refuse_allocation()
        _exec(argv, env)

    def _receive(self) -> tuple[list[bytes], dict[bytes, bytes], list[bytes]] | None:
        """Return the command's arguments, its environment and its rules; None if the worker is gone."""
        data = b""
        while len(data) < _SIZE_BYTES or len(data) - _SIZE_BYTES < int.from_bytes(data[:_SIZE_BYTES], "little"):
            part = os.read(self._control, 1 << 16)
            if not part:
                return None
            data += part
        argv_count, rule_count, *words = data[_SIZE_BYTES:].split(b"\0")
        env_start = int(argv_count) + int(rule_count)
        variables = (word.partition(b"=") for word in words[env_start:])
        env = {name: value for name, _, value in variables}
        return words[: int(argv_count)], env, words[int(argv_count) : env_start]

    def _send(self, name: str, value: int) -> None:
        try:
            os.write(self._control, f"{name} {value}\n".encode())
        except OSError:  # the worker is gone
            return

    def _worker_is_gone(self) -> bool:
        return os.getppid() != self._worker

    def _wait(self, descriptor: int | None) -> bool:
        """Wait for a signal or for `descriptor`; return True if the latter is ready."""
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        ready = [number for number, _ in poll.poll(None if descriptor is not None else _POLL_SECONDS * 1000)]
        if self._woken in ready:
            os.read(self._woken, 4096)
        if descriptor is not None and descriptor in ready:
            # A worker is a zombie until its parent waits for it, and this process its child until then.
            self._must_end = True
            return True
        return False


def _process_descriptor(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _close_streams() -> None:
    """Let go of the step's input and output, so that their other ends notice when the step closes them."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _reap(step: int) -> int | None:
    """Reap what has ended; return the wait status of the step's first process if it was among them."""
    first_status = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return first_status
        if pid == 0:
            return first_status
        if pid == step:
            first_status = status


def _kill_descendants(root: int, step: int, step_status: int | None) -> int | None:
    """Kill and reap every descendant, also those that keep starting others; return the status of the first."""
    delay_seconds = 0.0002
    while True:
        for pid in _descendants(root):
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return step_status
            if pid == 0:
                break
            if pid == step:
                step_status = status
        time.sleep(delay_seconds)
        delay_seconds = min(delay_seconds * 1.1, 0.05)  # one of another account cannot be killed


def _descendants(root: int) -> list[int]:
    descendants: list[int] = []
    queue = [root]
    for pid in queue:  # grows while it is walked
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                    children = [int(child) for child in file.read().split()]
                descendants += children
                queue += children
        except OSError:  # it has ended
            continue
    return descendants


def command_message(argv: Sequence[str], env: Mapping[str, str], rules: Sequence[str] = ()) -> bytes:
    """Return the message that lets a supervisor start a command; arguments, variables and rules have no NUL.

    Rules are REFUSE_TCP or an empty text, and the paths beneath which it may write; without rules it is not restricted.
    """
    words = [str(len(argv)), str(len(rules)), *argv, *rules, *(f"{name}={value}" for name, value in env.items())]
    data = b"\0".join(os.fsencode(word) for word in words)
    return len(data).to_bytes(_SIZE_BYTES, "little") + data


def _load_process_rules() -> Any:
    """Import the module next to this file, which isolated mode keeps off the path; few steps need it."""
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    return __import__("process_rules")


def _exec(argv: list[bytes], env: dict[bytes, bytes]) -> NoReturn:
    program = argv[0]
    search_path = env.get(b"PATH", os.defpath.encode())
    folders = [b""] if b"/" in program else search_path.split(b":")
    problem: OSError = FileNotFoundError(2, os.strerror(2), program)
    for folder in folders:
        try:
            os.execve(os.path.join(folder, program), argv, env)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as refused:
            problem = refused
    raise problem


def main() -> None:
    if sys.argv[1:] == [PROBE]:
        print(probe())
        return
    Supervisor(*sys.argv[1:]).run()


if __name__ == "__main__":
    main()
