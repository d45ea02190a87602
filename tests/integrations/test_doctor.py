"""`engrambus doctor` finds what is wrong and says what to do."""  # BX-06

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engrambus.backends.sqlite.work import SqliteWork
from engrambus.core import SECOND_US, SystemClock
from engrambus.edges.integrations.client_config import CLIENTS
from engrambus.space.tuples import EpochBegun
from engrambus.testing import ManualClock
from tests.cli.runner import Shell


def _checks(shell: Shell, **env: str) -> tuple[int, dict[str, dict[str, Any]]]:
    result = shell.run("doctor", "--json", env=env)
    return result.code, {item["check"]: item for item in result.json["checks"]}


def test_a_fresh_project_passes_every_check(shell: Shell) -> None:
    code, checks = _checks(shell)
    assert code == 0
    well = {"project", "journal", "index", "catalog", "workers", "clock", "token", "files", "keys", "git", "disk"}
    assert {name for name, item in checks.items() if item["state"] == "ok"} - {"hook", "effects"} == well
    # YT-22: which of the two it is depends on the kernel.
    assert checks["effects"]["found"].startswith(
        ("declared effects of steps are held by Landlock", "declared effects of steps are held by compared files")
    )
    for client in CLIENTS:
        assert (checks[client]["state"], checks[client]["next"]) == ("note", f"engrambus install {client}")
    assert "answers in" in checks["hook"]["found"]
    output = shell.ok("doctor").out
    assert "see the page: engrambus up." in output


def test_an_unreadable_catalog_is_reported(shell: Shell) -> None:  # YT-03
    (shell.path / ".catalog/capabilities.json").write_text("<<<<<<< ours\n")
    code, checks = _checks(shell)
    assert (code, checks["catalog"]["state"]) == (1, "broken")
    assert "cannot be read at line 1" in checks["catalog"]["found"]
    assert checks["catalog"]["next"] == "Rebuild it: engrambus catalog build."


@pytest.mark.parametrize("client", CLIENTS)
def test_an_installed_client_passes_until_its_files_are_edited(shell: Shell, client: str) -> None:
    _trust(shell, shell.path)
    shell.ok("install", client)
    assert _checks(shell)[1][client]["found"] == "installed (project)"
    shell.ok("install", client, "--user")
    assert _checks(shell)[1][client]["found"] == "installed (project, home)"
    (skill,) = shell.path.glob(".*/skills/less/SKILL.md")
    skill.write_text("engrambus, shortened")
    code, checks = _checks(shell)
    assert (code, checks[client]["state"], checks[client]["next"]) == (1, "broken", f"engrambus install {client}")
    shell.ok("install", client)
    assert _checks(shell)[0] == 0


def _trust(shell: Shell, folder: Path) -> None:
    """What Codex and Gemini keep once a person has trusted a folder."""
    for name in (".codex", ".gemini"):
        (shell.home / name).mkdir(exist_ok=True)
    (shell.home / ".codex/config.toml").write_text(f'[projects."{folder}"]\ntrust_level = "trusted"\n')
    (shell.home / ".gemini/trustedFolders.json").write_text(json.dumps({str(folder): "TRUST_FOLDER"}))


@pytest.mark.parametrize("client", ["codex", "gemini"])
def test_files_in_an_untrusted_folder_are_reported(shell: Shell, client: str) -> None:
    shell.ok("install", client)
    code, checks = _checks(shell)
    assert (code, checks[client]["state"]) == (0, "note")
    assert checks[client]["found"] == f"installed (project), in a folder that {client} does not trust yet"
    assert checks[client]["next"] == f"Start {client} here once and let it trust the folder."
    _trust(shell, shell.path.parent)
    assert _checks(shell)[1][client]["state"] == ("note" if client == "codex" else "ok"), "Codex trusts one folder only"
    _trust(shell, shell.path)
    assert _checks(shell)[1][client]["state"] == "ok"


def test_gemini_with_folder_trust_disabled_passes(shell: Shell) -> None:
    shell.ok("install", "gemini")
    _trust(shell, shell.path / "elsewhere")
    assert _checks(shell)[1]["gemini"]["state"] == "note"
    settings, folders = shell.home / ".gemini/settings.json", shell.home / ".gemini/trustedFolders.json"
    settings.write_text('{"security": {"folderTrust": {"enabled": false}}}  // a person\'s own')
    assert _checks(shell)[1]["gemini"]["state"] == "ok"
    settings.unlink()
    folders.write_text("[")
    assert _checks(shell)[1]["gemini"]["state"] == "ok", "what cannot be read says nothing against it"


def test_every_broken_part_is_reported(shell: Shell) -> None:
    (key,) = (shell.home / ".local/state/engrambus").glob("*/token.key")
    key.chmod(0o644)
    (shell.path / ".mcp.json").write_text("{")
    code, checks = _checks(shell, ENGRAMBUS_TOKEN="engrambus1.not.one")
    assert code == 1
    broken = {name for name, item in checks.items() if item["state"] == "broken"}
    assert broken == {"files", "token", "claude-code"}
    assert checks["files"]["next"] == "Close them: engrambus doctor --fix."
    assert "CLIENT_FILE_BROKEN" in checks["claude-code"]["found"]


def test_a_work_journal_ahead_of_the_clock_is_reported(shell: Shell) -> None:  # YT-06
    shell.ok("out", "--lane", "notes")
    clock = ManualClock(SystemClock().now() + 7200 * SECOND_US)
    with closing(SqliteWork(shell.path / ".catalog", shell.journal_key, clock)) as store:
        store.commit(lambda view: ([EpochBegun(epoch=1, boot="ahead")], None))
    code, checks = _checks(shell)
    assert (code, checks["clock"]["state"]) == (0, "note")
    assert "ahead" in checks["clock"]["found"]


def test_a_damaged_journal_is_reported_with_the_recover_command(shell: Shell) -> None:
    journal = shell.path / ".catalog" / "memory.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + lines[1].replace(b"first run", b"other run") + b"".join(lines[2:]))
    code, checks = _checks(shell)
    assert (code, checks["journal"]["state"]) == (1, "broken")
    assert "engrambus recover" in checks["journal"]["next"]


def test_without_a_project_the_other_checks_still_run(bare_shell: Shell) -> None:
    code, checks = _checks(bare_shell)
    assert (code, checks["project"]["state"], checks["project"]["next"]) == (1, "broken", "Create one: engrambus init.")
    assert "claude-code" in checks


def test_a_remote_gateway_is_checked(shell: Shell) -> None:
    token = shell.ok("agent", "add", "ada", "--role", "architect", "--json").json["token"]
    code, checks = _checks(shell, ENGRAMBUS_URL="http://127.0.0.1:9", ENGRAMBUS_TOKEN=token)
    assert code == 1
    assert "UNREACHABLE" in checks["gateway"]["found"]
    code, checks = _checks(shell, ENGRAMBUS_URL="http://127.0.0.1:9", ENGRAMBUS_TOKEN="x")
    assert code == 1
    assert "TOKEN_INVALID" in checks["gateway"]["found"]


def test_a_hook_that_cannot_name_the_caller_is_reported(shell: Shell) -> None:  # EB-31
    (folder,) = [path for path in (shell.home / ".local/state/engrambus").iterdir() if path.name != "clients"]
    (folder / "token.key").write_bytes(b"too short")
    (row,) = [row for row in shell.run("doctor", "--json").json["checks"] if row["check"] == "hook"]
    assert (row["state"], row["found"]) == ("broken", "engrambus hook: FORMAT_UNKNOWN")


def test_one_file_that_cannot_be_read_hides_nothing_else(shell: Shell) -> None:
    (shell.path / ".mcp.json").mkdir()
    (shell.path / ".gemini").symlink_to(".gemini")
    code, checks = _checks(shell)
    assert code == 1
    assert {name for name, item in checks.items() if item["state"] == "broken"} == {"claude-code", "gemini"}
    assert "CLIENT_FILE_BROKEN" in checks["claude-code"]["found"]
    assert shell.run("doctor").out.endswith("\nTo fix: claude-code, gemini.\n")
    (shell.path / ".mcp.json").rmdir()
    (shell.path / ".gemini").unlink()
    assert shell.ok("doctor").out.endswith("\nEverything is in order.\n")
