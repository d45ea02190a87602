"""Whether all is well on this machine: each check says what it found, and what to do when it is not as it should be."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import msgspec

from engrambus.app import find_project_damage, open_project
from engrambus.core import SystemClock
from engrambus.edges.cli.commands.up import HOST, RUNNING, said_in
from engrambus.edges.integrations.client_config import CLIENTS, PROGRAM, File, installed_command, setup_for
from engrambus.edges.integrations.files import is_installed
from engrambus.edges.integrations.install import project_root
from engrambus.edges.integrations.skill import has_skill
from engrambus.edges.integrations.trust import is_read
from engrambus.errors import EngramBusError, ProjectNotFound
from engrambus.gateway import Gateway
from engrambus.policy import Project, find_project
from engrambus.settings import Settings

HOOK_MILLISECONDS = 1_000
"""Slower than this is felt at every turn; clients give up after five seconds."""
FSYNCS = 5
AHEAD = 60_000_000
"""A journal's last time further ahead of the clock than this, in microseconds, is worth a word."""

State = Literal["ok", "note", "broken"]


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one check found."""

    check: str
    state: State
    found: str
    next: str = ""
    """What to do about it."""


def examine(folder: Path, settings: Settings) -> list[Finding]:
    """Every check, in the order in which one depends on another."""
    return [
        *_project(folder, settings),
        *_machine(folder, settings),
        *_clients(folder, settings),
        *_hook(folder, settings),
    ]


def _project(folder: Path, settings: Settings) -> Iterator[Finding]:
    if settings.url is not None:
        yield _gateway(settings)
        return
    try:
        project = find_project(folder)
    except EngramBusError as problem:
        yield _broken("project", problem)
        return
    yield Finding(check="project", state="ok", found=f"{project.project_id} in {project.catalog}")
    try:
        damaged = find_project_damage(folder)
    except EngramBusError as problem:
        yield _broken("journal", problem)
        return
    if damaged:
        found = "; ".join(f"{each.journal.name} is damaged at line {each.line}, byte {each.offset}" for each in damaged)
        yield Finding(check="journal", state="broken", found=found, next="engrambus recover keeps all that is sound.")
        return
    yield Finding(check="journal", state="ok", found="every line checks")
    yield from _opened(folder, project, settings)


def _opened(folder: Path, project: Project, settings: Settings) -> Iterator[Finding]:
    try:
        gateway = open_project(folder, settings)
    except EngramBusError as problem:
        yield _broken("index", problem)
        return
    with closing(gateway):
        differing = [each.what for each in gateway.store.verify()]
        if differing:
            removing = f"Remove {project.catalog / 'index.db'}: it is built again."
            yield Finding(check="index", state="broken", found="; ".join(differing)[:200], next=removing)
        else:
            yield Finding(check="index", state="ok", found="agrees with the journal")
        yield _declared(gateway)
        yield _clock(gateway)
        yield _token(gateway, settings)
    yield from _keys(settings.key_folder(project.project_id))
    yield _server(project.catalog)
    if project.git_folder is None:
        yield Finding(check="git", state="note", found="no repository here", next="Claims cannot point at its files.")
    else:
        yield Finding(check="git", state="ok", found=str(project.git_folder))


def _gateway(settings: Settings) -> Finding:
    from engrambus.edges.sdk import Bus

    try:
        with Bus.connect(settings.url or "", token=settings.token, timeout_seconds=5) as bus:
            stats = bus.stats()
    except EngramBusError as problem:
        return _broken("gateway", problem)
    return Finding(check="gateway", state="ok", found=f"{settings.url} serves {stats.project}")


def _declared(gateway: Gateway) -> Finding:
    try:
        yools = len(list(gateway.project_files.catalog()))
    except EngramBusError as problem:
        where = f" at line {problem.line}" if problem.line else ""
        found = f"capabilities.json cannot be read{where}: {problem.detail}"
        return Finding(check="catalog", state="broken", found=found, next="engrambus catalog build writes it anew.")
    return Finding(check="catalog", state="ok", found=f"{yools} yools can be asked for")


def _clock(gateway: Gateway) -> Finding:
    try:
        with gateway.store.read() as view, gateway.tuple_space.space.store.read() as work:
            ahead = max(view.as_of, work.as_of) - SystemClock().now()
    except EngramBusError as problem:
        return _broken("clock", problem)
    if ahead > AHEAD:
        seconds = ahead // 1_000_000
        return Finding(
            check="clock",
            state="note",
            found=f"a journal is {seconds} s ahead of it: time goes on at half its pace until it has caught up",
            next="Set the machine's clock, if it is the one that is wrong.",
        )
    return Finding(check="clock", state="ok", found="at or past the journals' last time")


def _token(gateway: Gateway, settings: Settings) -> Finding:
    if settings.token is None:
        return Finding(check="token", state="ok", found="none: you are the admin of these files")
    from engrambus.gateway import Credential

    try:
        caller = gateway.identify(Credential(token=settings.token))
    except EngramBusError as problem:
        return _broken("token", problem)
    return Finding(check="token", state="ok", found=f"{caller.full_name}, {caller.role}")


def _keys(folder: Path) -> Iterator[Finding]:
    loose = [
        path.name
        for path in (folder, *sorted(folder.glob("*.key")))
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    if loose:
        found, mend = f"others can read {', '.join(loose)}", f"chmod -R go= {folder}"
        yield Finding(check="keys", state="broken", found=found, next=mend)
    else:
        yield Finding(check="keys", state="ok", found=f"yours alone, in {folder}")


def _server(folder: Path) -> Finding:
    try:
        running = said_in((folder / RUNNING).read_bytes())
        if running is not None:
            os.kill(running["pid"], 0)
    except OSError:
        running = None
    if running is None:
        return Finding(check="server", state="note", found="not running", next="engrambus up shows the page.")
    return Finding(check="server", state="ok", found=f"http://{HOST}:{running['port']}, process {running['pid']}")


def _machine(folder: Path, settings: Settings) -> Iterator[Finding]:
    try:
        catalog = find_project(folder).catalog
    except EngramBusError:
        return
    probe = catalog / f".doctor.{os.getpid()}"
    try:
        with probe.open("wb") as out:
            start = time.perf_counter()
            for _ in range(FSYNCS):
                out.write(b"x")
                out.flush()
                os.fsync(out.fileno())
            took = (time.perf_counter() - start) / FSYNCS * 1000
    except OSError as problem:
        yield Finding(check="disk", state="broken", found=f"cannot write and sync: {problem.strerror}")
        return
    finally:
        probe.unlink(missing_ok=True)
    yield Finding(check="disk", state="ok", found=f"a synced write takes {took:.1f} ms")


def _clients(folder: Path, settings: Settings) -> Iterator[Finding]:
    root = project_root(folder)
    commands = [[PROGRAM]]  # right when PATH finds another installation, too
    try:
        commands.insert(0, installed_command(settings))
    except EngramBusError as problem:
        yield _broken("command", problem)
    for client in CLIENTS:
        states: dict[str, list[bool | None]] = {}
        try:
            for scope, place in (("project", root), ("home", None)):
                setups = [setup_for(client, place, settings, command) for command in commands]
                held = [_best(each) for each in zip(*(setup.files for setup in setups), strict=True)]
                states[scope] = [*held, has_skill(setups[0].skill)]
        except EngramBusError as problem:
            yield _broken(client, problem)
        except OSError as problem:
            found = f"{problem.filename} cannot be read: {problem.strerror}"
            yield Finding(check=client, state="broken", found=found, next="Its files should be yours to read.")
        else:
            yield _client(client, states, heeded=is_read(client, root, settings.home))


def _best(same_file: tuple[File, ...]) -> bool | None:
    """How a file stands: right for one of the commands it may hold, else not, else without us."""
    held = [is_installed(file) for file in same_file]
    return True if True in held else False if False in held else None


def _client(client: str, states: dict[str, list[bool | None]], *, heeded: bool) -> Finding:
    places = [scope for scope, held in states.items() if any(each is not None for each in held)]
    if not places:
        return Finding(check=client, state="note", found="not installed", next=f"engrambus install {client}")
    partly = [scope for scope in places if not all(states[scope])]
    if partly:
        flag = " --user" if partly[0] == "home" else ""
        return Finding(
            check=client,
            state="broken",
            found=f"not as it should be ({partly[0]})",
            next=f"engrambus install {client}{flag}",
        )
    found = f"installed ({', '.join(places)})"
    if "project" in places and not heeded:
        found, then = (
            f"{found}, in a folder it does not trust yet",
            f"Start {client} here once and let it trust the folder.",
        )
        return Finding(check=client, state="note", found=found, next=then)
    return Finding(check=client, state="ok", found=found)


def _hook(folder: Path, settings: Settings) -> Iterator[Finding]:
    try:
        command = installed_command(settings)
    except EngramBusError:
        return
    event = json.dumps(
        {"hook_event_name": "PreToolUse", "tool_name": "Read", "session_id": "doctor", "cwd": str(folder)}
    )
    took = []
    try:
        for _ in range(3):
            start = time.perf_counter()
            done = subprocess.run([*command, "hook"], input=event.encode(), capture_output=True, timeout=30)
            took.append((time.perf_counter() - start) * 1000)
    except (OSError, subprocess.TimeoutExpired) as problem:
        yield Finding(check="hook", state="broken", found=str(problem)[:200], next="Install Engram Bus again.")
        return
    if done.returncode or done.stdout.strip() != b"{}":
        said = done.stderr.decode("utf-8", "replace").strip()[:200]
        yield Finding(
            check="hook", state="broken", found=said or "it answers nothing", next="Install Engram Bus again."
        )
        return
    best = min(took)
    slow = best > HOOK_MILLISECONDS
    found = f"answers in {best:.0f} ms"
    yield Finding(
        check="hook", state="note" if slow else "ok", found=found, next="Clients wait for it." if slow else ""
    )


def _broken(check: str, problem: EngramBusError) -> Finding:
    hint = problem.hint or ""
    if isinstance(problem, ProjectNotFound):
        hint = "engrambus init makes one."
    return Finding(check=check, state="broken", found=f"{problem.code}: {problem.detail}", next=hint)
