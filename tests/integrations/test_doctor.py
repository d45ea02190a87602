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
from tests.cli.runner import Desk


def _checks(desk: Desk, **env: str) -> tuple[int, dict[str, dict[str, Any]]]:
    result = desk.run("doctor", "--json", env=env)
    return result.code, {item["check"]: item for item in result.json["checks"]}


def test_a_fresh_project_passes_every_check(desk: Desk) -> None:
    code, checks = _checks(desk)
    assert code == 0
    well = {"project", "journal", "index", "catalog", "clock", "token", "keys", "git", "disk"}
    assert {name for name, item in checks.items() if item["state"] == "ok"} - {"hook"} == well
    for client in CLIENTS:
        assert (checks[client]["state"], checks[client]["next"]) == ("note", f"engrambus install {client}")
    assert "answers in" in checks["hook"]["found"]
    output = desk.ok("doctor").out
    assert "see the page: engrambus up." in output


def test_an_unreadable_catalog_is_reported(desk: Desk) -> None:  # YT-03
    (desk.path / ".catalog/capabilities.json").write_text("<<<<<<< ours\n")
    code, checks = _checks(desk)
    assert (code, checks["catalog"]["state"]) == (1, "broken")
    assert "cannot be read at line 1" in checks["catalog"]["found"]
    assert checks["catalog"]["next"] == "Rebuild it: engrambus catalog build."


@pytest.mark.parametrize("client", CLIENTS)
def test_an_installed_client_passes_until_its_files_are_edited(desk: Desk, client: str) -> None:
    _trust(desk, desk.path)
    desk.ok("install", client)
    assert _checks(desk)[1][client]["found"] == "installed (project)"
    desk.ok("install", client, "--user")
    assert _checks(desk)[1][client]["found"] == "installed (project, home)"
    (skill,) = desk.path.glob(".*/skills/less/SKILL.md")
    skill.write_text("engrambus, shortened")
    code, checks = _checks(desk)
    assert (code, checks[client]["state"], checks[client]["next"]) == (1, "broken", f"engrambus install {client}")
    desk.ok("install", client)
    assert _checks(desk)[0] == 0


def _trust(desk: Desk, folder: Path) -> None:
    """What Codex and Gemini keep once a person has trusted a folder."""
    for name in (".codex", ".gemini"):
        (desk.home / name).mkdir(exist_ok=True)
    (desk.home / ".codex/config.toml").write_text(f'[projects."{folder}"]\ntrust_level = "trusted"\n')
    (desk.home / ".gemini/trustedFolders.json").write_text(json.dumps({str(folder): "TRUST_FOLDER"}))


@pytest.mark.parametrize("client", ["codex", "gemini"])
def test_files_in_an_untrusted_folder_are_reported(desk: Desk, client: str) -> None:
    desk.ok("install", client)
    code, checks = _checks(desk)
    assert (code, checks[client]["state"]) == (0, "note")
    assert checks[client]["found"] == f"installed (project), in a folder that {client} does not trust yet"
    assert checks[client]["next"] == f"Start {client} here once and let it trust the folder."
    _trust(desk, desk.path.parent)
    assert _checks(desk)[1][client]["state"] == ("note" if client == "codex" else "ok"), "Codex trusts one folder only"
    _trust(desk, desk.path)
    assert _checks(desk)[1][client]["state"] == "ok"


def test_gemini_with_folder_trust_disabled_passes(desk: Desk) -> None:
    desk.ok("install", "gemini")
    _trust(desk, desk.path / "elsewhere")
    assert _checks(desk)[1]["gemini"]["state"] == "note"
    settings, folders = desk.home / ".gemini/settings.json", desk.home / ".gemini/trustedFolders.json"
    settings.write_text('{"security": {"folderTrust": {"enabled": false}}}  // a person\'s own')
    assert _checks(desk)[1]["gemini"]["state"] == "ok"
    settings.unlink()
    folders.write_text("[")
    assert _checks(desk)[1]["gemini"]["state"] == "ok", "what cannot be read says nothing against it"


def test_every_broken_part_is_reported(desk: Desk) -> None:
    (key,) = (desk.home / ".local/state/engrambus").glob("*/token.key")
    key.chmod(0o644)
    (desk.path / ".mcp.json").write_text("{")
    code, checks = _checks(desk, ENGRAMBUS_TOKEN="engrambus1.not.one")
    assert code == 1
    broken = {name for name, item in checks.items() if item["state"] == "broken"}
    assert broken == {"keys", "token", "claude-code"}
    assert checks["keys"]["next"].startswith("chmod ")
    assert "CLIENT_FILE_BROKEN" in checks["claude-code"]["found"]


def test_a_work_journal_ahead_of_the_clock_is_reported(desk: Desk) -> None:  # YT-06
    desk.ok("out", "--lane", "notes")
    with closing(SqliteWork(desk.path / ".catalog", ManualClock(SystemClock().now() + 7200 * SECOND_US))) as store:
        store.commit(lambda view: ([EpochBegun(epoch=1, boot="ahead")], None))
    code, checks = _checks(desk)
    assert (code, checks["clock"]["state"]) == (0, "note")
    assert "ahead" in checks["clock"]["found"]


def test_a_damaged_journal_is_reported_with_the_recover_command(desk: Desk) -> None:
    journal = desk.path / ".catalog" / "memory.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + lines[1].replace(b"first run", b"other run") + b"".join(lines[2:]))
    code, checks = _checks(desk)
    assert (code, checks["journal"]["state"]) == (1, "broken")
    assert "engrambus recover" in checks["journal"]["next"]


def test_without_a_project_the_other_checks_still_run(bare_desk: Desk) -> None:
    code, checks = _checks(bare_desk)
    assert (code, checks["project"]["state"], checks["project"]["next"]) == (1, "broken", "Create one: engrambus init.")
    assert "claude-code" in checks


def test_a_remote_gateway_is_checked(desk: Desk) -> None:
    code, checks = _checks(desk, ENGRAMBUS_URL="http://127.0.0.1:9", ENGRAMBUS_TOKEN="x")
    assert code == 1
    assert "UNREACHABLE" in checks["gateway"]["found"]


def test_one_file_that_cannot_be_read_hides_nothing_else(desk: Desk) -> None:
    (desk.path / ".mcp.json").mkdir()
    (desk.path / ".gemini").symlink_to(".gemini")
    code, checks = _checks(desk)
    assert code == 1
    assert {name for name, item in checks.items() if item["state"] == "broken"} == {"claude-code", "gemini"}
    assert "CLIENT_FILE_BROKEN" in checks["claude-code"]["found"]
    assert desk.run("doctor").out.endswith("\nTo fix: claude-code, gemini.\n")
    (desk.path / ".mcp.json").rmdir()
    (desk.path / ".gemini").unlink()
    assert desk.ok("doctor").out.endswith("\nEverything is in order.\n")
