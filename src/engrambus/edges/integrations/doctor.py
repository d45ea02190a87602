"""`engrambus doctor`: checks the project, the machine and the clients, and says what to do about each problem."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import msgspec

from engrambus.app import (
    active_hooks,
    check_semantic,
    describe_store,
    find_failed_syncs,
    find_project_damage,
    open_project,
)
from engrambus.core import SystemClock, files, print_time
from engrambus.core.project_clock import ACCEPT_HINT
from engrambus.edges.cli.commands.up import HOST, SERVER_RECORD, read_record
from engrambus.edges.integrations import jsonc, toml_edit
from engrambus.edges.integrations.client_config import (
    CLIENTS,
    PROGRAM,
    SERVER,
    ClientFile,
    installed_command,
    setup_for,
)
from engrambus.edges.integrations.config_files import is_installed
from engrambus.edges.integrations.containers import is_container, keys_are_lost_first
from engrambus.edges.integrations.file_modes import close_to_others, find_open, private_places
from engrambus.edges.integrations.install import has_skill, project_root
from engrambus.errors import EngramBusError, HookInvalid, JournalForeign, ProjectNotFound, Trouble
from engrambus.gateway import Gateway
from engrambus.policy import JOURNAL, Project, find_project
from engrambus.settings import Settings
from engrambus.space.tuples.primitive_hooks import PRIMITIVES

SLOW_HOOK_MS = 1_000
"""A slower hook is felt at every turn; clients give up after five seconds."""
FSYNC_COUNT = 5
MAX_AHEAD_US = 60_000_000
"""A journal whose last time is further ahead of the clock than this is reported."""

MAX_LISTED = 3
"""Paths that a check names before it counts the others."""

State = Literal["ok", "note", "broken"]


class CheckResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one check."""

    check: str
    state: State
    message: str = msgspec.field(name="found")
    next_step: str = msgspec.field(name="next", default="")
    """How to fix it."""


def examine(folder: Path, settings: Settings, *, fix: bool = False) -> list[CheckResult]:
    """Run every check; later ones depend on earlier ones. With `fix`, close private files to other accounts."""
    return [
        *_project(folder, settings, fix),
        *_machine(folder, settings),
        *_semantic(settings),
        *_clients(folder, settings),
        *_hook(folder, settings),
    ]


def _project(folder: Path, settings: Settings, fix: bool) -> Iterator[CheckResult]:
    if settings.url is not None:
        yield _gateway(settings)
        return
    try:
        project = find_project(folder, settings.private_home)
    except EngramBusError as problem:
        yield _refused("project", problem)
        return
    yield _ok("project", f"{project.project_id} in {project.catalog}")
    yield _files(project, settings, fix)
    if settings.store_url is not None:
        try:
            yield _ok("store", describe_store(settings))
        except EngramBusError as problem:
            yield _refused("store", problem)
            return
    try:
        failed = find_failed_syncs(folder, settings)
        damaged = find_project_damage(folder, settings)
    except EngramBusError as problem:
        yield _refused("journal", problem)
        if isinstance(problem, JournalForeign) and problem.field != str(project.state / JOURNAL):
            yield from _opened(folder, project, settings)  # only the work is foreign: knowledge goes on
        return
    if damaged:
        message = "; ".join(
            f"JOURNAL_FOREIGN: {place.journal.name} has lines of another machine from line {place.line} on"
            if place.foreign
            else f"{place.journal.name} is damaged at line {place.line}, byte {place.offset}"
            for place in damaged
        )
        yield _broken("journal", message, "engrambus recover keeps every undamaged line.")
        return
    if failed:
        message = "; ".join(
            f"STORE_READ_ONLY: a sync of {path.name} failed at {note.at}" for path, note in failed.items()
        )
        yield _broken("journal", message, "Check the disk, then run engrambus recover.")
        return
    yield _ok("journal", "every line's checksum is right")
    yield from _opened(folder, project, settings)


def _opened(folder: Path, project: Project, settings: Settings) -> Iterator[CheckResult]:
    try:
        gateway = open_project(folder, settings)
    except EngramBusError as problem:
        yield _refused("index", problem)
        return
    with closing(gateway):
        differences = [difference.what for difference in gateway.store.verify()]
        if differences:
            yield _broken("index", "; ".join(differences)[:200], "engrambus verify --repair makes it again.")
        else:
            yield _ok("index", "agrees with the journal")
        yield _catalog(gateway)
        yield from _primitive_hooks(gateway, settings)
        yield from _unclaimed(gateway)
        yield _clock(gateway)
        yield _token(gateway, settings)
    yield from _keys(settings.key_folder(project.project_id), project.state, settings)
    yield _server(project.state)
    if project.git_folder is None:
        yield _note(
            "git",
            "no repository here",
            "Without git, claims cannot point at files.",
        )
    else:
        yield _ok("git", str(project.git_folder))


def _gateway(settings: Settings) -> CheckResult:
    from engrambus.edges.sdk import Bus

    try:
        with Bus.connect(settings.url or "", token=settings.token, timeout_seconds=5) as bus:
            stats = bus.stats()
    except EngramBusError as problem:
        return _refused("gateway", problem)
    return _ok("gateway", f"{settings.url} serves {stats.project}")


def _catalog(gateway: Gateway) -> CheckResult:
    try:
        yools = len(list(gateway.project_files.catalog()))
    except EngramBusError as problem:
        line = f" at line {problem.line}" if problem.line else ""
        message = f"capabilities.json cannot be read{line}: {problem.detail}"
        return _broken("catalog", message, "Rebuild it: engrambus catalog build.")
    return _ok("catalog", f"{yools} yools declared")


def _primitive_hooks(gateway: Gateway, settings: Settings) -> Iterator[CheckResult]:
    """Yield the hooks that the project's work passes in a process like this one; nothing if there are none."""
    try:
        states = active_hooks(gateway)
    except HookInvalid as problem:
        yield _refused("primitive hooks", problem)
    except EngramBusError:  # reported by the checks of catalog and clock
        return
    else:
        for state in states:
            primitives = "every primitive" if len(state.primitives) == len(PRIMITIVES) else ", ".join(state.primitives)
            limit = f"{settings.hook_seconds:g} s"
            yield _ok("primitive hooks", f"{state.name} ({state.source}): {primitives}; at most {limit} each")


def _unclaimed(gateway: Gateway) -> Iterator[CheckResult]:
    """Yield what waits for code that no running worker has."""
    try:
        space = gateway.tuple_space.space
        found = space.unclaimed_work(gateway.project_files.catalog())
        with space.store.read() as view:
            long_ago_us = view.as_of - space.settings.alarm_wait_us
    except EngramBusError:  # reported by the checks of catalog and clock
        return
    for work in found:
        report = _broken if work.since_us <= long_ago_us else _note
        yield report("workers", work.summary, work.next_step)
    if not found:
        yield _ok("workers", "no task waits for code that no worker has")


def _clock(gateway: Gateway) -> CheckResult:
    try:
        with gateway.store.read() as view, gateway.tuple_space.space.store.read() as work:
            ahead_us = max(view.as_of, work.as_of) - SystemClock().now()
        state = gateway.store.clock_state()
    except EngramBusError as problem:
        return _refused("clock", problem)
    if state.is_ahead:
        times = f"it says {print_time(state.machine_us)}, the journal's last time is {print_time(state.last_us)}"
        message = f"CLOCK_AHEAD: {times}"
        return _broken("clock", message, ACCEPT_HINT)
    if ahead_us > MAX_AHEAD_US:
        seconds = ahead_us // 1_000_000
        return _note(
            "clock",
            f"a journal is {seconds} s ahead of it; nothing expires until the clock catches up",
            "Set the machine's clock if it is wrong. If it is right: engrambus recover --clock.",
        )
    return _ok("clock", "not behind the journals")


def _token(gateway: Gateway, settings: Settings) -> CheckResult:
    if settings.token is None:
        return _ok("token", "none: you act as the admin of these files")
    from engrambus.gateway import Credential

    try:
        caller = gateway.identify(Credential(token=settings.token))
    except EngramBusError as problem:
        return _refused("token", problem)
    return _ok("token", f"{caller.full_name}, {caller.role}")


def _keys(folder: Path, state: Path, settings: Settings) -> Iterator[CheckResult]:
    if _in_container(settings) and keys_are_lost_first(_text("/proc/self/mountinfo"), folder, state.resolve()):
        yield _note(
            "keys",
            f"{folder} goes with this container, and the journals stay: without their keys they are refused",
            f"Mount a volume at {folder.parent}, or keep a copy: engrambus keys export FILE.",
        )
    else:
        yield _ok("keys", f"in {folder}")


def _files(project: Project, settings: Settings, fix: bool) -> CheckResult:
    if not project.state.is_dir():
        return _note("files", "none that are private yet", "Create the project's journal: engrambus init.")
    places = private_places(project, settings)
    found = find_open(places, project.catalog)
    if not found:
        return _ok("files", f"journals, keys and other private files are yours alone, in {_list(places)}")
    if not fix:
        return _broken("files", f"other accounts can open {_list(found)}", "Close them: engrambus doctor --fix.")
    failed = close_to_others(found)
    if failed:
        return _broken("files", f"{failed} of {len(found)} belong to another account", "Give them to yours: chown.")
    return _ok("files", f"closed to other accounts now: {_list(found)}")


def _list(paths: list[Path]) -> str:
    shown = ", ".join(str(path) for path in paths[:MAX_LISTED])
    return shown + (f" and {len(paths) - MAX_LISTED} more" if len(paths) > MAX_LISTED else "")


def _in_container(settings: Settings) -> bool:
    return is_container(os.path.exists, _text("/proc/1/cgroup"), settings.environment)


def _text(path: str) -> str:
    """Return the text of a file of the kernel; empty where there is none."""
    try:
        return Path(path).read_text("utf-8", "surrogateescape")
    except OSError:
        return ""


def _server(folder: Path) -> CheckResult:
    try:
        running = read_record(files.read_file(folder / SERVER_RECORD))
        if running is not None:
            os.kill(running["pid"], 0)
    except (OSError, Trouble):
        running = None
    if running is None:
        return _note("server", "not running", "Start it and see the page: engrambus up.")
    return _ok("server", f"http://{HOST}:{running['port']}, process {running['pid']}")


def _machine(folder: Path, settings: Settings) -> Iterator[CheckResult]:
    try:
        state = find_project(folder, settings.private_home).state
    except EngramBusError:
        return
    # The journal's folder may be on another disk than the temporary folder, so the sync is measured there.
    probe = state / f".doctor.{os.getpid()}"
    try:
        with files.open_writer(probe, "xb") as out:
            start = time.perf_counter()
            for _ in range(FSYNC_COUNT):
                out.write(b"x")
                out.flush()
                os.fsync(out.fileno())
            sync_ms = (time.perf_counter() - start) / FSYNC_COUNT * 1000
    except OSError as problem:
        yield _broken("disk", f"cannot write and sync: {problem.strerror}")
        return
    finally:
        files.remove(probe)
    yield _ok("disk", f"a synced write takes {sync_ms:.1f} ms")
    from engrambus.space.work import can_hold_effects, describe_effects

    how = f"declared effects of steps are held by {describe_effects()}"
    yield _ok("effects", how) if can_hold_effects() else _note("effects", how, "Landlock needs Linux 5.13 or later.")


def _semantic(settings: Settings) -> Iterator[CheckResult]:
    try:
        if check_semantic(settings):
            yield _ok("semantic", "questions are answered by words and by meaning")
    except EngramBusError as problem:
        yield _refused("semantic", problem)


def _clients(folder: Path, settings: Settings) -> Iterator[CheckResult]:
    root = project_root(folder)
    # Both spellings are valid in a file: the bare name may have been installed when PATH was different.
    commands = [[PROGRAM]]  # valid even if PATH finds another installation
    try:
        commands.insert(0, installed_command(settings))
    except EngramBusError as problem:
        yield _refused("command", problem)
    for client in CLIENTS:
        states: dict[str, list[bool | None]] = {}
        try:
            for scope, folder_or_home in (("project", root), ("home", None)):
                setups = [setup_for(client, folder_or_home, settings, command) for command in commands]
                files = [
                    state
                    for variants in zip(*(setup.files for setup in setups), strict=True)
                    if (state := _file_state(variants)) is not None or variants[0].entries
                ]
                states[scope] = [*files, has_skill(setups[0].skill)]
        except EngramBusError as problem:
            yield _refused(client, problem)
        except OSError as problem:
            message = f"{problem.filename} cannot be read: {problem.strerror}"
            yield _broken(client, message, "Make the file readable.")
        else:
            yield _client(client, states, trusted=is_trusted(client, root, settings.home))


def _file_state(variants: tuple[ClientFile, ...]) -> bool | None:
    """Return True if a file is right for one of the valid commands, False if not, None if it has no entry of ours."""
    states = [is_installed(file) for file in variants]
    return True if True in states else False if False in states else None


def _client(client: str, states: dict[str, list[bool | None]], *, trusted: bool) -> CheckResult:
    scopes = [scope for scope, files in states.items() if any(state is not None for state in files)]
    if not scopes:
        return _note(client, "not installed", f"engrambus install {client}")
    wrong = [scope for scope in scopes if not all(states[scope])]
    if wrong:
        flag = " --user" if wrong[0] == "home" else ""
        return _broken(
            client,
            f"the entries differ from what install writes ({wrong[0]})",
            f"engrambus install {client}{flag}",
        )
    message = f"installed ({', '.join(scopes)})"
    if "project" in scopes and not trusted:
        return _note(
            client,
            f"{message}, in a folder that {client} does not trust yet",
            f"Start {client} here once and let it trust the folder.",
        )
    return _ok(client, message)


def _hook(folder: Path, settings: Settings) -> Iterator[CheckResult]:
    try:
        command = installed_command(settings)
    except EngramBusError:
        return
    # A call of one of our tools: clients wait for this hook most often, and it changes nothing.
    event = json.dumps(
        {
            "hook_event_name": "PreToolUse",
            "tool_name": f"mcp__{SERVER}__less_brief",
            "tool_input": {},
            "session_id": "doctor",
            "cwd": str(folder),
        }
    )
    times_ms = []
    try:
        for _ in range(3):
            start = time.perf_counter()
            done = subprocess.run([*command, "hook"], input=event.encode(), capture_output=True, timeout=30)
            times_ms.append((time.perf_counter() - start) * 1000)
    except (OSError, subprocess.TimeoutExpired) as problem:
        yield _broken("hook", str(problem)[:200], "Install Engram Bus again.")
        return
    named = b'"as": "~' in done.stdout
    if done.returncode or not (named or (done.stdout.strip() == b"{}" and not _names_callers(folder, settings))):
        error = done.stderr.decode("utf-8", "replace").strip()[:200]
        yield _broken("hook", error or "it does not say which agent calls a tool", "Install Engram Bus again.")
        return
    # The first start may compile modules; the fastest shows what a client waits for.
    fastest_ms = min(times_ms)
    slow = fastest_ms > SLOW_HOOK_MS
    message = f"answers in {fastest_ms:.0f} ms"
    yield _note("hook", message, "Clients wait for it at every turn.") if slow else _ok("hook", message)


def _names_callers(folder: Path, settings: Settings) -> bool:
    """True if the hook has a key to mark calls with: a token, or that of the project."""
    try:
        return settings.token is not None or bool(find_project(folder))
    except EngramBusError:
        return False


def _ok(check: str, message: str) -> CheckResult:
    return CheckResult(check=check, state="ok", message=message)


def _note(check: str, message: str, next_step: str) -> CheckResult:
    return CheckResult(check=check, state="note", message=message, next_step=next_step)


def _broken(check: str, message: str, next_step: str = "") -> CheckResult:
    return CheckResult(check=check, state="broken", message=message, next_step=next_step)


def _refused(check: str, problem: EngramBusError) -> CheckResult:
    hint = "Create one: engrambus init." if isinstance(problem, ProjectNotFound) else problem.hint or ""
    return _broken(check, f"{problem.code}: {problem.detail}", hint)


def is_trusted(client: str, root: Path, home: Path) -> bool:
    """True unless the client's own settings show that it ignores files in this folder until a person trusts it."""
    check = _TRUST_CHECKS.get(client)
    try:
        return check is None or check(root.resolve(), home)
    except (OSError, ValueError):
        return True


def _codex_trusts(root: Path, home: Path) -> bool:
    """Codex trusts exactly one folder, the top of the checkout."""
    projects = _settings(home / ".codex" / "config.toml", toml_edit.read).get("projects")
    entry = projects.get(str(root)) if isinstance(projects, dict) else None
    return isinstance(entry, dict) and entry.get("trust_level") == "trusted"


def _gemini_trusts(root: Path, home: Path) -> bool:
    """Gemini trusts a folder and everything below it, or every folder if folder trust is disabled."""
    security = _settings(home / ".gemini" / "settings.json", _read_jsonc).get("security")
    folder_trust = security.get("folderTrust") if isinstance(security, dict) else None
    if isinstance(folder_trust, dict) and folder_trust.get("enabled") is False:
        return True
    trusted = _settings(home / ".gemini" / "trustedFolders.json", _read_jsonc)
    return any(trusted.get(str(folder)) == "TRUST_FOLDER" for folder in (root, *root.parents))


def _settings(path: Path, read: Callable[[str], Any]) -> dict[str, Any]:
    try:
        content = read(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    return content if isinstance(content, dict) else {}


def _read_jsonc(text: str) -> Any:
    node = jsonc.read(text)
    return node.value if node else {}


_TRUST_CHECKS = {"codex": _codex_trusts, "gemini": _gemini_trusts}
