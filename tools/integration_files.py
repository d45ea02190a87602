"""The generated files for editors and agents: the skill's manifest and schemas, and the plugin folders."""

from __future__ import annotations

import json
from typing import Any

from engrambus.edges.integrations.client_config import PROGRAM, SERVER, hook_groups
from engrambus.edges.integrations.install import skill_files
from engrambus.knowledge.engrams.schemas import schema_bytes
from engrambus.operations import OPERATIONS
from engrambus.version import __version__

ABOUT = "Shared memory for a team of agents: small claims anchored to pointers, content only by dereferencing them."
OWNER = {"name": "Engram Bus"}


def skill_files_made() -> dict[str, bytes]:
    """Return the generated files of the skill, by path inside its folder."""
    tools = [
        {
            "name": operation.title,
            "tool": operation.tool_name,
            **({"action": operation.tool.action} if operation.tool.action else {}),
            "operation": operation.name,
            "summary": operation.summary,
            "http": f"{operation.route.method} {operation.route.path}" if operation.route else None,
            "command": f"engrambus {operation.command.words}" if operation.command else None,
            "roles": sorted(operation.roles),
            "writes": operation.writes,
        }
        for operation in OPERATIONS.values()
        if operation.tool
    ]
    manifest = {
        "name": "less",
        "version": __version__,
        "description": ABOUT,
        "server": {"name": SERVER, "command": PROGRAM, "args": ["mcp"]},
        "runtime": "runtime/less.py",
        "schemas": ["schemas/engram.v0.1.json", "schemas/pointer.v0.1.json"],
        "hooks": ["on_child_response", "on_parent_broadcast", "on_rag_result", "on_sam_read"],
        "tools": tools,
    }
    return {
        "manifest.json": _json(manifest),
        "schemas/engram.v0.1.json": schema_bytes("less/engram.v0.1.json"),
        "schemas/pointer.v0.1.json": schema_bytes("less/pointer.v0.1.json"),
    }


def plugin_files_made() -> dict[str, bytes]:
    """Return the plugin folders and marketplace entries, by path inside the checkout, with a copy of the skill."""
    hooks = hook_groups(f"{PROGRAM} hook")
    plugin: dict[str, Any] = {"name": SERVER, "version": __version__, "description": ABOUT, "license": "Apache-2.0"}
    entry = {"name": SERVER, "source": "./plugin", "version": __version__, "description": ABOUT}
    files = {
        ".claude-plugin/marketplace.json": _json(
            {"name": SERVER, "description": ABOUT, "owner": OWNER, "plugins": [entry]}
        ),
        "plugin/.claude-plugin/plugin.json": _json({**plugin, "author": OWNER}),
        "plugin/.codex-plugin/plugin.json": _json({**plugin, "skills": "./skills/", "mcpServers": "./.mcp.json"}),
        "plugin/.mcp.json": _json({"mcpServers": {SERVER: {"command": PROGRAM, "args": ["mcp"]}}}),
        "plugin/hooks/hooks.json": _json({"hooks": hooks}),
    }
    skill = skill_files(with_tests=True) | skill_files_made()
    return files | {f"plugin/skills/less/{name}": content for name, content in skill.items()}


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
