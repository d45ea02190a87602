"""The clients themselves: where they lie, what each needs to be at home, and how each is asked."""

from __future__ import annotations

import json
import os
import re
import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

import pytest

from tests.integrations.live.dialects import Contents, Messages, Responses
from tests.integrations.live.model import Call, Dialect, ModelRequest

ROOT = Path(__file__).parents[3]
INSTALLED = ROOT / ".venv" / "clients" / "node_modules" / ".bin"
"""Where `make clients` puts them."""


class Program(ABC):
    """One client."""

    name: ClassVar[str]
    """What `engrambus install` calls it."""
    command: ClassVar[str]
    """What its package calls it."""
    dialect: ClassVar[Dialect]
    own: ClassVar[dict[str, str]]
    """What the project has told this client before we came: path → content."""
    lively: ClassVar[str]
    """What `mcp list` calls a server that is well."""

    @abstractmethod
    def settle(self, home: Path, project: Path, model: str) -> dict[str, str]:
        """Make a home where the model is at this address and nothing is sent or fetched; gives what the environment
        has to say."""

    @abstractmethod
    def ask(self, prompt: str) -> list[str]:
        """The words that ask it without a person at hand."""

    @abstractmethod
    def lists(self, output: str) -> str | None:
        """The line about our server in what `mcp list` printed."""


class Leader(Program):
    """A client that tells us of its sub-agents."""

    @abstractmethod
    def delegate(self, request: ModelRequest, task: str) -> Call | None:
        """The next call on the way to have a sub-agent do something; none when there is no more to do for it."""


def find_program(program: Program) -> str:
    """Where a client lies; without it, tests are skipped on a laptop and fail in CI."""
    matches = INSTALLED / program.command
    if matches.exists() and shutil.which("node"):
        return str(matches)
    missing = "npm" if shutil.which("npm") is None else "node" if shutil.which("node") is None else program.command
    reason = f"no {missing} here: `make clients` needs npm and node, and installs the clients"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class ClaudeCode(Leader):
    """Claude Code: a sub-agent answers in the tool's result, or in a message when it is done."""

    name = "claude-code"
    command = "claude"
    dialect = Messages()
    lively = "Connected"
    own: ClassVar[dict[str, str]] = {".claude/settings.json": '{\n    "includeCoAuthoredBy": false\n}\n'}

    def settle(self, home: Path, project: Path, model: str) -> dict[str, str]:
        """A project's servers are approved beforehand: nobody is there to ask."""
        _write(home / ".claude" / "settings.json", json.dumps({"enableAllProjectMcpServers": True}))
        return {
            "ANTHROPIC_BASE_URL": model,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",  # the model shall see every tool at once
            "MCP_CONNECTION_NONBLOCKING": "0",  # and not before our server is there
            "MCP_TIMEOUT": "60000",
        }

    def ask(self, prompt: str) -> list[str]:
        """Our tools and sub-agents are allowed, nothing else."""
        return ["-p", prompt, "--allowedTools", "mcp__engrambus Agent", "--output-format", "json"]

    def lists(self, output: str) -> str | None:
        """`engrambus: … - ✔ Connected`."""
        return _line(r"engrambus: .*", output)

    def delegate(self, request: ModelRequest, task: str) -> Call | None:
        """One call does it all."""
        if request.results:
            return None
        more = {"description": "Look at the parser", "subagent_type": "general-purpose"}
        return Call(request.tool("Agent"), {"prompt": task, **more})


class Codex(Leader):
    """Codex: sub-agents are started and waited for with tools of their own."""

    name = "codex"
    command = "codex"
    dialect = Responses()
    lively = "enabled"
    own: ClassVar[dict[str, str]] = {
        ".codex/config.toml": "# What the project says of itself.\nhide_agent_reasoning = true\n"
    }

    def settle(self, home: Path, project: Path, model: str) -> dict[str, str]:
        """A project's servers and hooks count where the project is trusted."""
        lines = [
            'model = "scripted"',
            'model_provider = "scripted"',
            "check_for_update_on_startup = false",
            "[analytics]",
            "enabled = false",
            "[features]",
            "plugins = false",  # they are fetched
            "[model_providers.scripted]",
            'name = "scripted"',
            f'base_url = "{model}/v1"',
            'wire_api = "responses"',
            f"[projects.{json.dumps(str(project))}]",
            'trust_level = "trusted"',
        ]
        _write(home / ".codex" / "config.toml", "\n".join(lines) + "\n")
        return {"CODEX_HOME": str(home / ".codex")}

    def ask(self, prompt: str) -> list[str]:
        """Hooks are trusted beforehand, and the session begins when our server has."""
        return [
            "exec",
            "--dangerously-bypass-hook-trust",
            "--dangerously-bypass-approvals-and-sandbox",
            "-c",
            "mcp_servers.engrambus.required=true",
            prompt,
        ]

    def lists(self, output: str) -> str | None:
        """`engrambus  …/engrambus  mcp  …  enabled`."""
        return _line(r"engrambus\s.*", output)

    def delegate(self, request: ModelRequest, task: str) -> Call | None:
        """It is started, then waited for."""
        if not request.results:
            return Call(request.tool("spawn_agent"), {"message": task})
        try:
            last = json.loads(request.results[-1])
        except ValueError:
            return None  # a refusal
        if "agent_id" in last or last.get("timed_out"):
            agent = json.loads(request.results[0])["agent_id"]
            return Call(request.tool("wait_agent"), {"targets": [agent], "timeout_ms": 60_000})
        return None


class Gemini(Program):
    """Gemini CLI: it has no hook for its sub-agents."""

    name = "gemini"
    command = "gemini"
    dialect = Contents()
    lively = "Connected"
    own: ClassVar[dict[str, str]] = {
        ".gemini/settings.json": '{\n  // What the project says of itself.\n  "ui": {"hideTips": true}\n}\n'
    }

    def settle(self, home: Path, project: Path, model: str) -> dict[str, str]:
        """Every folder is trusted in this home."""
        settings = {
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "privacy": {"usageStatisticsEnabled": False},
            "security": {"folderTrust": {"enabled": False}, "auth": {"selectedType": "gemini-api-key"}},
        }
        _write(home / ".gemini" / "settings.json", json.dumps(settings))
        return {"GOOGLE_GEMINI_BASE_URL": model, "GEMINI_API_KEY": "scripted"}

    def ask(self, prompt: str) -> list[str]:
        """Every tool is allowed."""
        return ["--approval-mode", "yolo", "-p", prompt]

    def lists(self, output: str) -> str | None:
        """`✓ engrambus: … (stdio) - Connected`."""
        return _line(r".*engrambus: .*", output)


PROGRAMS: dict[str, Program] = {program.name: program for program in (ClaudeCode(), Codex(), Gemini())}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _line(pattern: str, output: str) -> str | None:
    matches = re.search(rf"^\s*({pattern})$", re.sub(r"\x1b\[[\d;]*m", "", output), re.MULTILINE)
    return matches[1] if matches else None
