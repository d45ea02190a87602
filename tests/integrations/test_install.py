"""`engrambus install` and `engrambus uninstall` on what clients' files really look like."""  # BX-06

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from engrambus.edges.integrations import client_config, jsonc
from engrambus.edges.integrations.client_config import (
    CLIENTS,
    EDITING_TOOLS,
    ClientSetup,
    ConfigEntry,
    runs_engrambus,
    setup_for,
)
from engrambus.edges.integrations.config_files import plan_install, write
from engrambus.edges.integrations.install import skill_files
from engrambus.edges.integrations.tool_call_hook import OUR_TOOLS
from engrambus.errors import ClientFileChanged
from engrambus.settings import Settings
from mcp import Client, StdioServerParameters
from tests.cli.runner import COMMAND, Shell
from tests.integrations.told import RECORDED, recorded_event
from tests.projects import git, make_settings

PLACES: dict[tuple[str, str], dict[str, str]] = {
    ("claude-code", "project"): {".mcp.json": "mcp.json", ".claude/settings.json": "settings.json"},
    ("claude-code", "user"): {".claude.json": "claude.json", ".claude/settings.json": "settings.json"},
    ("codex", "project"): {".codex/config.toml": "config.toml", ".codex/hooks.json": "hooks.json"},
    ("codex", "user"): {".codex/config.toml": "config.toml", ".codex/hooks.json": "hooks.json"},
    ("cursor", "project"): {".cursor/mcp.json": "mcp.json"},
    ("cursor", "user"): {".cursor/mcp.json": "mcp.json"},
    ("vscode", "project"): {".vscode/mcp.json": "mcp.json"},
    ("vscode", "user"): {".config/Code/User/mcp.json": "mcp.json"},
    ("gemini", "project"): {".gemini/settings.json": "settings.json"},
    ("gemini", "user"): {".gemini/settings.json": "settings.json"},
}
SKILLS = {
    "claude-code": (".claude/skills/less", ".claude/skills/less"),
    "codex": (".agents/skills/less", ".agents/skills/less"),
    "cursor": (".cursor/skills/less", ".cursor/skills/less"),
    "vscode": (".github/skills/less", ".copilot/skills/less"),
    "gemini": (".gemini/skills/less", ".gemini/skills/less"),
}
"""Where a client looks for skills: in a project, and in the home folder."""
SERVERS = {"claude-code": "mcpServers", "codex": "mcp_servers", "cursor": "mcpServers", "vscode": "servers"}
SETUPS = dict(client_config._SETUPS)
EVERYWHERE = pytest.mark.parametrize(("client", "scope"), list(PLACES))


class Place:
    """One client's files at a shell."""

    def __init__(self, shell: Shell, client: str, scope: str) -> None:
        self.shell, self.client, self.scope = shell, client, scope
        self.root = shell.home if scope == "user" else shell.path
        self.root.mkdir(exist_ok=True)
        self.files = {self.root / place: RECORDED / client / name for place, name in PLACES[client, scope].items()}

    def fill(self) -> None:
        for path, recorded in self.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(recorded, path)
            path.chmod(0o640)

    def run(self, command: str, *more: str) -> Any:
        return self.shell.run(command, self.client, *(["--user"] if self.scope == "user" else []), *more)

    def tree(self) -> dict[str, tuple[int, bytes]]:
        """Everything below the root but what Engram Bus keeps for itself."""
        return {
            str(path.relative_to(self.root)): (
                stat.S_IMODE(path.lstat().st_mode),
                path.read_bytes() if path.is_file() else b"",
            )
            for path in self.root.rglob("*")
            if not {".git", ".catalog", ".local"} & set(path.relative_to(self.root).parts)
        }

    def servers(self) -> dict[str, Any]:
        path = next(iter(self.files))
        content = _read(path)
        servers: dict[str, Any] = content[SERVERS.get(self.client, "mcpServers")]
        return servers


def _read(path: Path) -> Any:
    text = path.read_bytes().decode()
    if path.suffix == ".toml":
        return tomllib.loads(text)
    node = jsonc.read(text)
    assert node is not None
    return node.value


def _without_ours(value: Any) -> Any:
    if isinstance(value, dict):
        inner = {name: _without_ours(item) for name, item in value.items() if not runs_engrambus(item)}
        return {name: item for name, item in inner.items() if item not in ({}, [])}
    if isinstance(value, list):
        return [_without_ours(item) for item in value if not runs_engrambus(item)]
    return value


@EVERYWHERE
def test_a_recorded_file_gets_our_entries_and_is_restored_byte_for_byte(shell: Shell, client: str, scope: str) -> None:
    place = Place(shell, client, scope)
    place.fill()
    original = place.tree()
    assert place.run("install").code == 0
    server = place.servers()["engrambus"]
    assert (server["command"], server["args"][0]) == (COMMAND, "mcp")
    for path, recorded in place.files.items():
        assert _without_ours(_read(path)) == _without_ours(_read(recorded))
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    repeated = place.run("install")
    assert (repeated.code, repeated.out) == (0, "Nothing to change: everything is as it should be.\n")
    assert place.run("uninstall").code == 0
    assert place.tree() == original
    assert list((shell.home / ".local/state/engrambus/clients").iterdir()) == []


@EVERYWHERE
def test_new_files_and_folders_are_removed_again(shell: Shell, client: str, scope: str) -> None:
    place = Place(shell, client, scope)
    original = place.tree()
    place.run("install")
    skill = place.root / SKILLS[client][scope == "user"]
    assert {name: (skill / name).read_bytes() for name in skill_files()} == skill_files()
    for path in place.files:
        assert path.read_bytes().endswith(b"\n")
    place.run("uninstall")
    assert place.tree() == original


@EVERYWHERE
def test_a_dry_run_shows_and_writes_nothing(shell: Shell, client: str, scope: str) -> None:
    place = Place(shell, client, scope)
    place.fill()
    original = place.tree()
    result = place.run("install", "--dry-run")
    assert result.code == 0
    for path in place.files:
        assert f"--- {path}" in result.out
        assert f"+++ {path}" in result.out
    assert COMMAND in result.out
    assert place.tree() == original
    output = json.loads(place.run("install", "--dry-run", "--json").out)
    assert {row["action"] for row in output["files"]} == {"changed", "created"}
    assert place.tree() == original


@EVERYWHERE
def test_edits_made_after_install_stay(shell: Shell, client: str, scope: str) -> None:
    place = Place(shell, client, scope)
    place.fill()
    place.run("install")
    for path in place.files:
        text = path.read_bytes().decode()
        text = text.replace("example.invalid", "example.org").replace("npx", "bunx").replace("audit.sh", "review.sh")
        path.write_bytes((text + ("# mine\n" if path.suffix == ".toml" else "// mine\n")).encode())
    place.run("uninstall")
    for path, recorded in place.files.items():
        text = recorded.read_bytes().decode()
        text = text.replace("example.invalid", "example.org").replace("npx", "bunx").replace("audit.sh", "review.sh")
        assert path.read_bytes().decode() == text + ("# mine\n" if path.suffix == ".toml" else "// mine\n")


ON_PATH = {"PATH": f"{Path(COMMAND).parent}:/usr/bin:/bin"}


@pytest.mark.parametrize("client", CLIENTS)
def test_the_bare_command_is_written_where_path_finds_this_installation(shell: Shell, client: str) -> None:  # BX-15
    place = Place(shell, client, "project")
    place.fill()
    original = place.tree()
    assert shell.run("install", client, env=ON_PATH).code == 0
    server = place.servers()["engrambus"]
    assert (server["command"], server["args"][0]) == ("engrambus", "mcp")
    assert all(str(Path(COMMAND).parent) not in path.read_text() for path in place.files)
    first = {path: path.read_bytes() for path in place.files}
    place.run("install")
    assert place.servers()["engrambus"]["command"] == COMMAND
    shell.run("install", client, env=ON_PATH)
    assert {path: path.read_bytes() for path in place.files} == first
    place.run("uninstall")
    assert place.tree() == original


def test_another_installation_on_path_is_not_ours(shell: Shell, tmp_path: Path) -> None:  # BX-15
    foreign = tmp_path / "bin" / "engrambus"
    foreign.parent.mkdir()
    foreign.write_text("#!/bin/sh\n")
    foreign.chmod(0o755)
    shell.run("install", "claude-code", env={"PATH": f"{foreign.parent}:{ON_PATH['PATH']}"})
    assert Place(shell, "claude-code", "project").servers()["engrambus"]["command"] == COMMAND


@pytest.mark.parametrize("client", CLIENTS)
def test_files_with_a_path_of_this_machine_are_kept_out_of_commits(shell: Shell, client: str) -> None:  # BX-15
    place = Place(shell, client, "project")
    exclude = shell.path / ".git" / "info" / "exclude"
    for original in (exclude.read_bytes(), b"*.swp", b""):
        exclude.write_bytes(original)
        shell.ok("install", client)
        shell.ok("install", "gemini")
        untracked = git(shell.path, "status", "--porcelain", "--untracked-files=all")
        assert not [path for path in place.files if str(path.relative_to(shell.path)) in untracked]
        shell.ok("uninstall", client)
        shell.ok("uninstall", "gemini")
        assert (exclude.read_bytes() if exclude.exists() else b"") == original


def test_a_path_of_this_machine_goes_into_no_committed_file(shell: Shell) -> None:  # BX-15
    (shell.path / ".mcp.json").write_text("{}\n")
    git(shell.path, "add", ".mcp.json")
    original = Place(shell, "claude-code", "project").tree()
    problem = shell.run("install", "claude-code", "--json").problem
    assert (problem["code"], problem["field"]) == ("CLIENT_FILE_COMMITTED", ".mcp.json")
    assert "--user" in problem["hint"]
    assert Place(shell, "claude-code", "project").tree() == original
    assert shell.run("install", "claude-code", env=ON_PATH).code == 0
    assert json.loads((shell.path / ".mcp.json").read_text())["mcpServers"]["engrambus"]["command"] == "engrambus"


def test_nothing_is_run_by_its_name_on_a_package_index(shell: Shell) -> None:  # BX-15
    original = Place(shell, "claude-code", "project").tree()
    problem = shell.run("install", "claude-code", "--uvx", "--json").problem
    assert (problem["code"], problem["field"]) == ("NOT_PUBLISHED", "--uvx")
    assert Place(shell, "claude-code", "project").tree() == original


@pytest.mark.parametrize("client", CLIENTS)
def test_one_unparsable_file_prevents_every_change(shell: Shell, client: str) -> None:
    place = Place(shell, client, "project")
    place.fill()
    path = list(place.files)[-1]
    for content, line in (
        (b'{\n  "a": 1\n  "b": 2\n}' if path.suffix == ".json" else b"a = 1\nb = \n", 3),
        (b'{"a": \xff}', None),
        (b"[1]" if path.suffix == ".json" else b"[", 1),
    ):
        path.write_bytes(content)
        original = place.tree()
        for command in ("install", "uninstall"):
            problem = place.run(command, "--json").problem
            assert problem["code"] == "CLIENT_FILE_BROKEN"
            assert (problem["field"], problem.get("line")) == (path.name, line)
            assert place.tree() == original


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"mcpServers": []}', "'mcpServers' is not an object"),
        ('{"hooks": {"SessionStart": {}}}', "'hooks.SessionStart' is not a list"),
        ('{"hooks": 1}', "'hooks' is not an object"),
    ],
)
def test_a_file_of_another_shape_is_not_changed(shell: Shell, text: str, what: str) -> None:
    path = shell.path / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(text)
    problem = shell.run("install", "gemini", "--json").problem
    assert problem["code"] == "CLIENT_FILE_BROKEN"
    assert what in problem["detail"]
    assert path.read_text() == text


@pytest.mark.parametrize("client", CLIENTS)
def test_a_foreign_server_with_our_name_is_not_replaced(shell: Shell, client: str) -> None:
    place = Place(shell, client, "project")
    path = next(iter(place.files))
    path.parent.mkdir(exist_ok=True)
    foreign = {"command": "ants", "args": ["walk"]}
    servers = SERVERS.get(client, "mcpServers")
    text = json.dumps({servers: {"engrambus": foreign}})
    path.write_text('[mcp_servers.engrambus]\ncommand = "ants"\n' if path.suffix == ".toml" else text)
    original = place.tree()
    problem = place.run("install", "--json").problem
    assert (problem["code"], problem["field"]) == ("CLIENT_ENTRY_TAKEN", f"{servers}.engrambus")
    assert place.run("uninstall").code == 0
    assert place.tree() == original


def test_a_file_we_created_stays_while_other_entries_need_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    _install_as_before(shell, "cursor", monkeypatch)
    path = shell.path / ".cursor" / "hooks.json"
    content = json.loads(path.read_text())
    content["hooks"]["afterFileEdit"] = [{"command": "./format.sh"}]
    path.write_text(json.dumps(content, indent=4))
    shell.ok("uninstall", "cursor")
    assert json.loads(path.read_text()) == {"version": 1, "hooks": {"afterFileEdit": [{"command": "./format.sh"}]}}
    assert [item.name for item in path.parent.iterdir()] == ["hooks.json"]
    content = json.loads(path.read_text())
    shell.ok("install", "cursor")
    path.write_text(json.dumps(json.loads(path.read_text())))
    shell.ok("uninstall", "cursor")
    assert json.loads(path.read_text()) == content


def test_a_file_changed_since_planning_is_not_overwritten(shell: Shell) -> None:
    (shell.path / ".mcp.json").write_text("{}")
    change = plan_install(setup_for("claude-code", shell.path, make_settings(shell.home), ["engrambus"]).files[0], None)
    (shell.path / ".mcp.json").write_text('{"newer": true}')
    with pytest.raises(ClientFileChanged):
        write(change)
    assert (shell.path / ".mcp.json").read_text() == '{"newer": true}'


def test_symbolic_links_and_edited_skills_are_kept(shell: Shell) -> None:
    real = shell.home / "dotfiles" / "settings.json"
    real.parent.mkdir(parents=True)
    shutil.copy(RECORDED / "claude-code" / "settings.json", real)
    link = shell.home / ".claude" / "settings.json"
    link.parent.mkdir()
    link.symlink_to(real)
    shell.ok("install", "claude-code", "--user")
    assert link.is_symlink()
    assert "SubagentStop" in real.read_text()
    skill = shell.home / ".claude" / "skills" / "less" / "SKILL.md"
    skill.write_text(skill.read_text() + "\nOur own addition.\n")
    shell.ok("uninstall", "claude-code", "--user")
    assert link.is_symlink()
    assert real.read_bytes() == (RECORDED / "claude-code" / "settings.json").read_bytes()
    assert [path.name for path in skill.parent.iterdir()] == ["SKILL.md"]
    skill.write_text("---\nname: less\n---\nHow to use the pager.\n")
    assert shell.run("install", "claude-code", "--user", "--json").problem["code"] == "CLIENT_ENTRY_TAKEN"


def _install_as_before(shell: Shell, client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install what the version before wrote: no hook on our tools, no turns of a session, hooks of turns everywhere."""
    run = {"type": "command", "command": shlex.join([COMMAND, "hook"]), "timeout": 5}

    def before(name: str, base: Path, *more: Any) -> ClientSetup:
        setup = SETUPS[name](base, *more)
        files = []
        for file in setup.files:
            entries = []
            for entry in file.entries:
                if entry.value.get("matcher") == OUR_TOOLS:
                    continue
                arguments = [word for word in entry.value.get("args", []) if word not in ("--session-turns", "4")]
                value = {**entry.value, "args": arguments} if arguments else entry.value
                entries.append(entry._replace(value=value))
            for path in file.former:
                item = {"command": run["command"]} if name == "cursor" else {"hooks": [run]}
                entries.append(ConfigEntry(path, item, is_item=True))
            if name == "cursor" and file.former:
                entries.insert(0, ConfigEntry(("version",), 1))
            files.append(file._replace(entries=tuple(entries), former=()))
        return setup._replace(files=tuple(files))

    with monkeypatch.context() as patch:
        patch.setattr(client_config, "_SETUPS", {name: partial(before, name) for name in SETUPS})
        shell.ok("install", client)


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini"])
def test_an_installation_without_the_hooks_of_recall_is_reported_and_completed(
    shell: Shell, client: str
) -> None:  # BX-10
    place = Place(shell, client, "project")
    place.fill()
    original = place.tree()
    shell.ok("install", client)
    complete = place.tree()
    file = list(place.files)[-1]
    document = _read(file)
    if client == "gemini":
        del document["hooks"]["BeforeAgent"], document["hooks"]["BeforeTool"]
    else:
        groups = document["hooks"]["PreToolUse"]
        document["hooks"]["PreToolUse"] = [group for group in groups if group["matcher"] != EDITING_TOOLS]
    file.write_text(json.dumps(document, indent=2))
    (row,) = [row for row in shell.run("doctor", "--json").json["checks"] if row["check"] == client]
    assert (row["state"], row["next"]) == ("broken", f"engrambus install {client}")
    shell.ok("install", client)
    (row,) = [row for row in shell.run("doctor", "--json").json["checks"] if row["check"] == client]
    assert row["state"] != "broken"
    shell.ok("uninstall", client)
    place.fill()
    shell.ok("install", client)
    assert place.tree() == complete
    shell.ok("uninstall", client)
    assert place.tree() == original


@pytest.mark.parametrize("filled", [False, True], ids=["new", "existing"])
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "unrecorded"])
@pytest.mark.parametrize("client", CLIENTS)
def test_an_earlier_installation_is_recognised_updated_and_removed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, client: str, recorded: bool, filled: bool
) -> None:  # EB-31
    place = Place(shell, client, "project")
    if client == "cursor":  # earlier versions wrote a hook there
        place.files[shell.path / ".cursor" / "hooks.json"] = RECORDED / "cursor" / "hooks.json"
    if filled:
        place.fill()
    original = place.tree()
    _install_as_before(shell, client, monkeypatch)
    if not recorded:
        shutil.rmtree(shell.home / ".local" / "state" / "engrambus" / "clients")
    (row,) = [row for row in shell.run("doctor", "--json").json["checks"] if row["check"] == client]
    assert (row["state"], row["next"]) == ("broken", f"engrambus install {client}")
    shell.ok("install", client)
    (row,) = [row for row in shell.run("doctor", "--json").json["checks"] if row["check"] == client]
    assert row["state"] != "broken"
    updated = place.tree()
    shell.ok("uninstall", client)
    if recorded:
        assert place.tree() == original
    shell.ok("install", client)
    if recorded:
        assert place.tree() == updated
    shell.ok("uninstall", client)
    _install_as_before(shell, client, monkeypatch)
    shell.ok("uninstall", client)
    if recorded:
        assert place.tree() == original
    assert not any(runs_engrambus(value) for path in place.files if path.exists() for value in _values(_read(path)))


def _values(value: Any) -> Iterator[Any]:
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _values(inner)


@pytest.mark.parametrize("client", CLIENTS)
def test_only_clients_whose_hooks_name_the_caller_have_one_turns_worth(shell: Shell, client: str) -> None:
    place = Place(shell, client, "project")
    shell.ok("install", client)
    arguments = place.servers()["engrambus"]["args"]
    named = client in ("claude-code", "codex")
    assert (arguments[:3] == ["mcp", "--session-turns", "4"], "--session-turns" in arguments) == (not named, not named)
    if named:
        matchers = [group["matcher"] for group in _read(list(place.files)[1])["hooks"]["PreToolUse"]]
        assert matchers == ["Agent", OUR_TOOLS, EDITING_TOOLS]


def test_install_says_where_the_permission_prompt_is_skipped(shell: Shell) -> None:  # BX-06
    says = {client: "does not ask before it calls our tools" in shell.ok("install", client).out for client in CLIENTS}
    assert [client for client, said in says.items() if said] == ["codex"]


def test_a_linked_checkout_has_files_of_its_own(shell: Shell, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    subprocess.run(["git", "worktree", "add", "-q", str(linked)], cwd=shell.path, check=True, capture_output=True)
    (linked / "src").mkdir(exist_ok=True)
    shell.ok("install", "claude-code", folder=linked / "src")
    assert (linked / ".mcp.json").exists()
    assert not (shell.path / ".mcp.json").exists()


def test_the_written_commands_work_in_a_bare_shell(shell: Shell) -> None:
    shell.ok("install", "claude-code")
    bare = {"HOME": str(shell.home), "PATH": "/usr/bin:/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    server = json.loads((shell.path / ".mcp.json").read_text())["mcpServers"]["engrambus"]

    async def talk() -> None:
        command = StdioServerParameters(
            command=server["command"], args=[*server["args"], "--project", str(shell.path)], env=bare
        )
        async with Client(command) as client:
            with anyio.fail_after(30):
                assert "less_query_engrams" in {tool.name for tool in (await client.list_tools()).tools}

    anyio.run(talk)
    settings = json.loads((shell.path / ".claude" / "settings.json").read_text())
    (group,) = settings["hooks"]["SubagentStart"]
    event = recorded_event("claude-code", "SubagentStart", shell.path)
    done = subprocess.run(group["hooks"][0]["command"], shell=True, env=bare, input=event, capture_output=True, cwd="/")
    assert done.returncode == 0, done.stderr
    assert "Shared Brief" in json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_that_cannot_be_written_leaves_every_file_unchanged(shell: Shell, client: str) -> None:
    place = Place(shell, client, "project")
    place.fill()
    skills = (place.root / SKILLS[client][0]).parent
    skills.parent.mkdir(exist_ok=True)
    skills.symlink_to("/proc/nobody-makes-folders-here")
    original = place.tree()
    problem = place.run("install", "--json").problem
    assert (problem["code"], problem["field"]) == ("CLIENT_FILE_UNWRITABLE", "SKILL.md")
    assert place.tree() == original
    skills.unlink()
    skills.write_text("a file where the folder should be\n")
    original = place.tree()
    assert place.run("install", "--json").problem["code"] == "CLIENT_FILE_BROKEN"
    assert place.tree() == original
    assert list((shell.home / ".local/state/engrambus/clients").iterdir()) == []


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_folder_or_a_link_loop_in_place_of_a_file_is_reported(shell: Shell, command: str) -> None:
    path = shell.path / ".mcp.json"
    path.mkdir()
    problem = shell.run(command, "claude-code", "--json").problem
    assert (problem["code"], problem["field"]) == ("CLIENT_FILE_BROKEN", ".mcp.json")
    path.rmdir()
    path.symlink_to(path)
    problem = shell.run(command, "claude-code", "--json").problem
    assert (problem["code"], problem["field"]) == ("CLIENT_FILE_BROKEN", ".mcp.json")
    assert [item.name for item in shell.path.glob(".claude*")] == []


def test_a_dangling_link_is_followed_and_its_new_folder_removed_again(shell: Shell, tmp_path: Path) -> None:
    link = shell.path / ".mcp.json"
    link.symlink_to(tmp_path / "dotfiles" / "mcp.json")
    shell.ok("install", "claude-code")
    assert "engrambus" in (tmp_path / "dotfiles" / "mcp.json").read_text()
    shell.ok("uninstall", "claude-code")
    assert link.is_symlink()
    assert not (tmp_path / "dotfiles").exists()


def test_an_unreadable_change_record_is_ignored(shell: Shell) -> None:
    place = Place(shell, "gemini", "project")
    place.fill()
    place.run("install")
    for note in (shell.home / ".local/state/engrambus/clients").iterdir():
        note.write_bytes(b"{")
    assert place.run("uninstall").code == 0
    ((path, recorded),) = place.files.items()
    assert _without_ours(_read(path)) == _without_ours(_read(recorded))
    assert "engrambus" not in path.read_text()


def test_installing_before_init_mentions_init(bare_shell: Shell) -> None:
    assert "engrambus init" in bare_shell.ok("install", "cursor").out
    assert bare_shell.ok("uninstall", "cursor").out.count("removed") == len(skill_files())
    result = bare_shell.ok("uninstall", "cursor").out
    assert result == "Nothing to remove: nothing of Engram Bus was found.\n"
    bare_shell.ok("init")
    assert "engrambus init" not in bare_shell.ok("install", "cursor").out


def test_without_home_in_the_environment_the_accounts_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    assert Settings.from_environment({}).home == Path("~").expanduser() != Path("/")
