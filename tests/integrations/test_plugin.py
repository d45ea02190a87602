"""The plugin folders say what `engrambus install` writes, and are made, never edited."""  # BX-05

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from integration_files import plugin_files_made, skill_files_made

from engrambus.edges.integrations.client_config import hook_groups
from engrambus.edges.integrations.install import skill_files
from engrambus.version import __version__

ROOT = Path(__file__).parents[2]


def _json(path: str) -> Any:
    return json.loads((ROOT / path).read_text("utf-8"))


def test_the_generated_files_in_the_checkout_are_current() -> None:
    generated = plugin_files_made()
    for name, content in generated.items():
        assert (ROOT / name).read_bytes() == content, f"{name}: run tools/generate.py"
    lying = {str(path.relative_to(ROOT)) for path in (ROOT / "plugin").rglob("*") if path.is_file()}
    assert {name for name in lying if "__pycache__" not in name} == {
        name for name in generated if name.startswith("plugin/")
    }


def test_the_skill_in_the_plugin_is_the_skill() -> None:
    prefix = "plugin/skills/less/"
    copied = {
        name.removeprefix(prefix): content for name, content in plugin_files_made().items() if name.startswith(prefix)
    }
    assert copied == skill_files(with_tests=True)
    for name, content in skill_files_made().items():
        assert copied[name] == content, f"{name}: run tools/generate.py"


def test_the_marketplace_names_the_plugin() -> None:
    market = _json(".claude-plugin/marketplace.json")
    (entry,) = market["plugins"]
    assert {name: bool(value) for name, value in market.items()} == dict.fromkeys(
        ("name", "description", "owner", "plugins"), True
    )
    assert market["owner"]["name"]
    assert entry["source"].startswith("./"), "a path from the top of the market"
    folder = (ROOT / entry["source"]).resolve()
    for kind in (".claude-plugin", ".codex-plugin"):
        plugin = json.loads((folder / kind / "plugin.json").read_text("utf-8"))
        assert (plugin["name"], plugin["version"]) == (entry["name"], __version__)
    assert entry["version"] == __version__


def test_hooks_and_server_are_those_of_install() -> None:
    assert _json("plugin/hooks/hooks.json") == {"hooks": hook_groups("engrambus hook")}
    assert _json("plugin/.mcp.json")["mcpServers"]["engrambus"] == {"command": "engrambus", "args": ["mcp"]}
