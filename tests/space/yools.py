"""Yools for the tests, imported as an operator would: `--import tests.space.yools`."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import shutil
import stat
import sys
import threading
import time
from pathlib import Path

from engrambus.space.catalog import yool
from engrambus.space.work import step_context

EVERYONE = ("user", "agent", "ci")


@yool("agent.sum.numbers", lane="build", effect="pure", authority=EVERYONE, inputs=[])
def add(a: int, b: int) -> int:
    """Add two numbers."""
    print("adding")
    return a + b


@yool("agent.count.calls", lane="build", cached=False, authority=EVERYONE)
def count(path: str) -> None:
    """Append a line for every call."""
    with open(path, "a") as file:
        file.write("called\n")


@yool("agent.think.once", lane="build", authority=EVERYONE, inputs=[])
def think(calls: str, go: str, n: int = 0, fails: bool = False, status: int = 4) -> None:
    """Append a line, then wait until a file is there."""
    with open(calls, "a") as file:
        file.write("called\n")
    while not Path(go).exists():
        time.sleep(0.01)
    if fails:
        sys.exit(status)


@yool("agent.wait.long", lane="build", authority=EVERYONE, cached=False)
async def wait_long(started: str) -> None:
    """Create a file, then wait for ever."""
    Path(started).touch()
    await asyncio.sleep(3600)


@yool("agent.spend.money", lane="build", authority=EVERYONE, cached=False)
def spend(usd: float, times: int) -> None:
    """Spend some money, several times."""
    for _ in range(times):
        step_context.spend(usd=usd, tokens_in=10, tokens_out=1)
        time.sleep(0.15)


@yool("agent.spend.each", lane="build", authority=EVERYONE, cached=False)
def spend_each(amounts: list[float], notes: str = "") -> None:
    """Spend these amounts; with `notes`, note each before and after it is reported."""
    for usd in amounts:
        _note(notes, f"about {usd}")
        step_context.spend(usd=usd)
        _note(notes, f"reported {usd}")


def _note(path: str, line: str) -> None:
    if path:
        with open(path, "a") as file:
            file.write(line + "\n")


@yool("agent.spend.again", lane="build", authority=EVERYONE, cached=False)
def spend_again(mark: str) -> None:
    """Spend, and fail the first time."""
    step_context.spend(usd=0.02, tokens_in=7)
    if not Path(mark).exists():
        Path(mark).touch()
        sys.exit(1)


@yool("agent.spend.unread", lane="build", authority=EVERYONE, cached=False)
def spend_unread(folder: str) -> None:
    """Spend; the first time only when told to, by which time the worker is stopped, and again later."""
    started, go, spent = (Path(folder, name) for name in ("started", "go", "spent"))
    if started.exists():
        step_context.spend(usd=0.05, tokens_in=7)
        return
    started.touch()
    while not go.exists():
        time.sleep(0.01)
    step_context.spend(usd=0.05, tokens_in=7)
    spent.touch()
    for _ in range(3):
        time.sleep(0.6)
        step_context.spend(usd=0.01, tokens_out=1)


@yool("agent.hold.memory", lane="build", authority=EVERYONE, cached=False)
def hold_memory(megabytes: int, folder: str) -> None:
    """Hold RAM for two seconds, from when another step has begun to."""
    Path(folder, f"holding-{megabytes}").touch()
    held = b"x" * (megabytes * 1_000_000)
    while held and len(list(Path(folder).glob("holding-*"))) < 2:
        time.sleep(0.01)
    time.sleep(2)


yool("agent.spend.last", lane="build", authority=EVERYONE, cached=False)(
    [
        "sh",
        "-c",
        'trap \'echo "{\\"usd\\":0.04}" >> "$ENGRAMBUS_COST"; exit 1\' TERM; '
        'echo "{\\"usd\\":0.02}" >> "$ENGRAMBUS_COST"; touch ${started}; while :; do sleep 0.05; done',
    ]
)


@yool("agent.count.slowly", lane="build", inputs=["${path}"], authority=EVERYONE)
def count_slowly(path: str, addition: str = "") -> int:
    """Count the bytes of a file after adding to it."""
    with open(path, "a") as file:
        file.write(addition)
    return Path(path).stat().st_size


@yool("agent.leave.report", lane="build", authority=EVERYONE, inputs=[])
def leave(text: str) -> None:
    """Leave a file."""
    (step_context.artifacts() / "junit.xml").write_text(text)


@yool("agent.leave.link", lane="build", authority=EVERYONE, inputs=[])
def leave_link() -> None:
    """Leave a link to a file outside."""
    (step_context.artifacts() / "passwd").symlink_to("/etc/passwd")


@yool("agent.do.oddly", lane="build", authority=EVERYONE, cached=False)
def do_oddly(action: str) -> None:
    """Do something that no step should do."""
    match action:
        case "name":
            (step_context.artifacts() / os.fsdecode(b"\xff")).touch()
        case "exit":
            sys.exit(2**70)
        case "wrapped":
            sys.exit(256)
        case "says":
            sys.exit("this is why")
        case "removes":
            shutil.rmtree(step_context.artifacts().parent)
            time.sleep(0.3)


@yool("agent.tell.tuple", lane="build", authority=EVERYONE, cached=False)
def tell_tuple() -> str:
    """Return the tuple this step belongs to."""
    return step_context.tuple_id()


yool("agent.show.tuple", lane="build", authority=EVERYONE, cached=False)(["printenv", "ENGRAMBUS_TUPLE"])


@yool("agent.give.back", lane="build", authority=EVERYONE, cached=False)
def give_back(kind: str) -> object:
    """Return a value that is not JSON."""
    circle: list[object] = []
    circle.append(circle)
    odd = {"path": Path("x"), "set": {1}, "key": {(1, 2): 3}, "circle": circle, "text": "\ud800"}
    return [odd[kind]]


@yool("agent.fail.always", lane="build", authority=EVERYONE, inputs=[])
def fail() -> None:
    """Fail."""
    print("this is why", file=sys.stderr)
    raise RuntimeError("no")


yool("agent.show.file", lane="build", effect="reads", inputs=["${path}"], authority=EVERYONE)(["cat", "${path}"])
yool("agent.show.env", lane="build", effect="reads", env=["COLOUR"], authority=EVERYONE, inputs=[])(
    ["sh", "-c", "env | sort"]
)
yool("agent.run.children", lane="build", authority=EVERYONE, cached=False)(
    ["sh", "-c", "sleep 3600 & echo $! > ${path}; wait"]
)
yool("agent.deploy.prod", lane="build", authority=["user"], inputs=[])(["true"])
yool("agent.print.much", lane="build", authority=EVERYONE, cached=False)(
    ["sh", "-c", "seq -f 'line %.0f' 40000; exit 2"]
)


@yool("agent.tell.much", lane="build", effect="pure", authority=EVERYONE, inputs=[])
def tell_much(count: int, says: str = "") -> list[int]:
    """Return many numbers, in one line."""
    print(says, end="")
    return list(range(count))


yool("agent.show.folder", lane="build", effect="reads", inputs=["${path}"], authority=EVERYONE)(
    ["sh", "-c", 'cat "$0"/*', "${path}"]
)
yool("agent.lead.out", lane="build", inputs=["${path}"], authority=EVERYONE)(["ln", "-s", "/etc", "${path}/out"])
yool("agent.read.everything", lane="build", effect="reads", inputs=["**/*"], authority=EVERYONE)(["true"])


@yool("agent.mess.up", lane="build", authority=EVERYONE, cached=False)
def mess_up(folder: str) -> int:
    """Change folder, environment, umask, import path and streams of this process."""
    os.chdir(folder)
    os.environ["LEAKED"] = "yes"
    del os.environ["PATH"]
    os.umask(0o777)
    sys.path.insert(0, folder)
    sys.stdout = sys.stderr = io.StringIO()
    return os.getpid()


@yool("agent.tell.place", lane="build", env=["COLOUR"], authority=EVERYONE, inputs=[])
def tell_place() -> list[object]:
    """Return process id, folder, environment, umask and import path."""
    mask = os.umask(0)
    os.umask(mask)
    print("here")
    return [os.getpid(), os.getcwd(), sorted(set(os.environ)), mask, sys.path]


@yool("agent.go.deaf", lane="build", authority=EVERYONE, cached=False)
def go_deaf() -> int:
    """Close the pipe on which this process receives steps, and keep running."""
    pipes = [fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}") and _is_read_pipe(fd)]
    for descriptor in pipes:
        os.close(descriptor)
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return os.getpid()


def _is_read_pipe(descriptor: int) -> bool:
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    return stat.S_ISFIFO(os.fstat(descriptor).st_mode) and flags & os.O_ACCMODE == os.O_RDONLY


yool("agent.end.slowly", lane="build", authority=EVERYONE, cached=False)(
    ["sh", "-c", "trap 'sleep 0.5; touch ${ended}; exit 1' TERM; touch ${started}; while :; do sleep 0.05; done"]
)
