"""Yools for the tests, as an operator would name them: `--import tests.space.yools`."""

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


@yool("agent.sum.numbers", lane="build", effect="pure", authority=EVERYONE)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    print("adding")
    return a + b


@yool("agent.count.calls", lane="build", cached=False, authority=EVERYONE)
def count(path: str) -> None:
    """Append a line for every call."""
    with open(path, "a") as file:
        file.write("called\n")


@yool("agent.think.once", lane="build", effect="pure", authority=EVERYONE)
def think(calls: str, go: str, n: int = 0, fails: bool = False) -> None:
    """Append a line, then wait until a file is there."""
    with open(calls, "a") as file:
        file.write("called\n")
    while not Path(go).exists():
        time.sleep(0.01)
    if fails:
        sys.exit(4)


@yool("agent.wait.long", lane="build", authority=EVERYONE, cached=False)
async def wait_long(started: str) -> None:
    """Wait for ever, having said so."""
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
    """Spend these amounts; if asked, note each before it is said and after."""
    for usd in amounts:
        _note(notes, f"about {usd}")
        step_context.spend(usd=usd)
        _note(notes, f"said {usd}")


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


@yool("agent.spend.signal", lane="build", authority=EVERYONE, cached=False)
def spend_and_signal(worker: str, number: int, mark: str) -> None:
    """Spend; and the first time send the worker a signal before it could read that, and spend more later."""
    step_context.spend(usd=0.05, tokens_in=7)
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(int(Path(worker).read_text()), number)
        for _ in range(3):
            time.sleep(0.6)
            step_context.spend(usd=0.01, tokens_out=1)


yool("agent.spend.last", lane="build", authority=EVERYONE, cached=False)(
    [
        "sh",
        "-c",
        'trap \'echo "{\\"usd\\":0.04}" >> "$ENGRAMBUS_COST"; exit 1\' TERM; '
        'echo "{\\"usd\\":0.02}" >> "$ENGRAMBUS_COST"; touch ${started}; while :; do sleep 0.05; done',
    ]
)


@yool("agent.count.slowly", lane="build", effect="reads", inputs=["${path}"], authority=EVERYONE)
def count_slowly(path: str, more: str = "") -> int:
    """Count the bytes of a file that somebody adds to meanwhile."""
    with open(path, "a") as file:
        file.write(more)
    return Path(path).stat().st_size


@yool("agent.leave.report", lane="build", authority=EVERYONE)
def leave(text: str) -> None:
    """Leave a file."""
    (step_context.artifacts() / "junit.xml").write_text(text)


@yool("agent.leave.link", lane="build", authority=EVERYONE)
def leave_link() -> None:
    """Leave a link that leads out."""
    (step_context.artifacts() / "passwd").symlink_to("/etc/passwd")


@yool("agent.do.oddly", lane="build", authority=EVERYONE, cached=False)
def do_oddly(how: str) -> None:
    """What no step should do."""
    match how:
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
    """Say which tuple this is a step of."""
    return step_context.tuple_id()


yool("agent.show.tuple", lane="build", authority=EVERYONE, cached=False)(["printenv", "ENGRAMBUS_TUPLE"])


@yool("agent.give.back", lane="build", authority=EVERYONE, cached=False)
def give_back(what: str) -> object:
    """Give back what is not JSON."""
    circle: list[object] = []
    circle.append(circle)
    odd = {"path": Path("x"), "set": {1}, "key": {(1, 2): 3}, "circle": circle, "text": "\ud800"}
    return [odd[what]]


@yool("agent.fail.always", lane="build", authority=EVERYONE)
def fail() -> None:
    """Fail."""
    print("this is why", file=sys.stderr)
    raise RuntimeError("no")


yool("agent.show.file", lane="build", effect="reads", inputs=["${path}"], authority=EVERYONE)(["cat", "${path}"])
yool("agent.show.env", lane="build", effect="reads", env=["COLOUR"], authority=EVERYONE)(["sh", "-c", "env | sort"])
yool("agent.run.children", lane="build", authority=EVERYONE, cached=False)(
    ["sh", "-c", "sleep 3600 & echo $! > ${path}; wait"]
)
yool("agent.deploy.prod", lane="build", authority=["user"])(["true"])
yool("agent.print.much", lane="build", authority=EVERYONE, cached=False)(
    ["sh", "-c", "seq -f 'line %.0f' 40000; exit 2"]
)


@yool("agent.tell.much", lane="build", effect="pure", authority=EVERYONE)
def tell_much(count: int, says: str = "") -> list[int]:
    """Many numbers, in one line."""
    print(says, end="")
    return list(range(count))


yool("agent.show.folder", lane="build", effect="reads", inputs=["${path}"], authority=EVERYONE)(
    ["sh", "-c", 'cat "$0"/*', "${path}"]
)
yool("agent.lead.out", lane="build", inputs=["${path}"], authority=EVERYONE)(["ln", "-s", "/etc", "${path}/out"])
yool("agent.read.everything", lane="build", effect="reads", inputs=["**/*"], authority=EVERYONE)(["true"])


@yool("agent.mess.up", lane="build", authority=EVERYONE, cached=False)
def mess_up(folder: str) -> int:
    """Change everything about this process that one can."""
    os.chdir(folder)
    os.environ["LEAKED"] = "yes"
    del os.environ["PATH"]
    os.umask(0o777)
    sys.path.insert(0, folder)
    sys.stdout = sys.stderr = io.StringIO()
    return os.getpid()


@yool("agent.tell.place", lane="build", effect="pure", env=["COLOUR"], authority=EVERYONE)
def tell_place() -> list[object]:
    """Say where this is, and in which process."""
    mask = os.umask(0)
    os.umask(mask)
    print("here")
    return [os.getpid(), os.getcwd(), sorted(set(os.environ)), mask, sys.path]


@yool("agent.go.deaf", lane="build", authority=EVERYONE, cached=False)
def go_deaf() -> int:
    """Close what this process is told steps by, and do not end with it."""
    theirs = [fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}") and _is_read_pipe(fd)]
    for each in theirs:
        os.close(each)
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return os.getpid()


def _is_read_pipe(descriptor: int) -> bool:
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    return stat.S_ISFIFO(os.fstat(descriptor).st_mode) and flags & os.O_ACCMODE == os.O_RDONLY


yool("agent.end.slowly", lane="build", authority=EVERYONE, cached=False)(
    ["sh", "-c", "trap 'sleep 0.5; touch ${ended}; exit 1' TERM; touch ${started}; while :; do sleep 0.05; done"]
)
