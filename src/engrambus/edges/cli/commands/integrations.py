"""`engrambus install`, `uninstall` and `doctor`: connect coding agents on this machine, and check the set-up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.command import Argument, Values, local_command
from engrambus.edges.cli.screen import dim, safe, safe_line, table
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.edges.integrations.config_files import FileChange
    from engrambus.edges.integrations.doctor import CheckResult

CLIENTS = ("claude-code", "codex", "cursor", "vscode", "gemini")
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_MARKS = {"ok": ("ok", "green"), "note": ("--", "yellow"), "broken": ("!!", "red")}
_NEXT = {
    "claude-code": "Claude Code asks once whether to trust the server; /hooks and /mcp show both.",
    "codex": "Codex reads these in folders you trust, and runs hooks after you trust them: /hooks. It does not ask "
    "before it calls our tools: Codex lets a hook say which agent calls only if the hook also allows the call.",
    "cursor": "Cursor shows the server under Settings, MCP.",
    "vscode": "VS Code asks once whether to trust the server; MCP: List Servers shows it.",
    "gemini": "Gemini reads these in folders you trust; /mcp and /hooks show both.",
}


_PARAMETERS = (
    Argument("client", None, f"The coding agent: {', '.join(CLIENTS)}", required=True, type=click.Choice(CLIENTS)),
    click.Option(["--user", "user"], is_flag=True, help="In your home folder, for all projects."),
    click.Option(["--dry-run", "dry_run"], is_flag=True, help="Show what would change, and change nothing."),
)


@local_command(
    "install",
    *_PARAMETERS,
    click.Option(["--uvx", "uvx"], is_flag=True, help="Refused until Engram Bus is on the package index."),
    section="start",
    example="engrambus install claude-code --dry-run",
    rank=40,
)
def install(session: Session, values: Values) -> None:
    """Connect a coding agent: write the MCP server, the hooks and the skill into its configuration.

    The MCP server gives the agent tools to read and record claims. The hooks tell it what matters when a session
    starts, and check its final answer. The skill explains both to it.
    """
    from engrambus.edges.integrations.client_config import installed_command
    from engrambus.edges.integrations.install import install as write_configuration
    from engrambus.errors import NotPublished

    if values["uvx"]:
        raise NotPublished(
            field="--uvx",
            hint="Leave --uvx out. Files get `engrambus` where PATH finds this installation, else its absolute path.",
        )
    command = installed_command(session.settings)
    root = _root(session, values)
    changes = write_configuration(values["client"], root, session.settings, command, dry_run=values["dry_run"])
    next_steps = [_NEXT[values["client"]]]
    if root is not None and not _is_project(session):
        next_steps.append(
            "There is no project here yet, and without one the hooks do nothing: engrambus init makes one."
        )
    _print_changes(session, values, changes, "Nothing to change: everything is as it should be.", next_steps)


def _is_project(session: Session) -> bool:
    from engrambus.errors import ProjectNotFound
    from engrambus.policy import find_project

    try:
        return session.remote or bool(find_project(session.folder))
    except ProjectNotFound:
        return False


@local_command("uninstall", *_PARAMETERS, section="start", example="engrambus uninstall claude-code", rank=42)
def uninstall(session: Session, values: Values) -> None:
    """Remove what install wrote into a coding agent's configuration."""
    from engrambus.edges.integrations.install import uninstall as remove_configuration

    root = _root(session, values)
    changes = remove_configuration(values["client"], root, session.settings, dry_run=values["dry_run"])
    _print_changes(session, values, changes, "Nothing to remove: nothing of Engram Bus was found.", [])


def _root(session: Session, values: Values) -> Path | None:
    from engrambus.edges.integrations.install import project_root

    return None if values["user"] else project_root(session.folder)


def _print_changes(
    session: Session, values: Values, changes: list[FileChange], unchanged: str, next_steps: list[str]
) -> None:
    rows = [{"path": str(change.path), "action": _action(change), "diff": "".join(_diff(change))} for change in changes]
    changed = any(row["action"] != "unchanged" for row in rows)

    def render(_: Any) -> Iterator[str]:
        for change in changes:
            yield from _change_lines(change)
        if not changed:
            yield unchanged
        elif values["dry_run"]:
            yield dim("Nothing was written: this was a dry run.")
        else:
            yield from map(dim, next_steps)

    session.print({"client": values["client"], "dry_run": values["dry_run"], "files": rows}, render)


def _action(change: FileChange) -> str:
    if change.old_content == change.new_content:
        return "unchanged"
    return "created" if change.old_content is None else "removed" if change.new_content is None else "changed"


def _change_lines(change: FileChange) -> Iterator[str]:
    action = _action(change)
    if action == "unchanged":
        return
    if "skills" in change.path.parts:  # long, and all ours: its path says enough
        yield f"{action} {safe(str(change.path))}"
        return
    for line in _diff(change):
        colour = _COLOURS.get(line[:1])
        yield click.style(safe_line(line.rstrip("\r\n")), fg=colour, bold=line[:3] in ("+++", "---"))


def _diff(change: FileChange) -> Iterable[str]:
    from difflib import unified_diff

    if change.old_content == change.new_content or "skills" in change.path.parts:
        return []
    old, new = (
        (data or b"").decode("utf-8", "replace").splitlines(keepends=True)
        for data in (change.old_content, change.new_content)
    )
    name = str(change.path)
    return unified_diff(
        old,
        new,
        name if change.old_content is not None else "/dev/null",
        name if change.new_content is not None else "/dev/null",
    )


@local_command(
    "doctor",
    click.Option(["--fix", "fix"], is_flag=True, help="Close private files that other accounts can open."),
    section="maintenance",
    example="engrambus doctor",
    rank=10,
)
def doctor(session: Session, values: Values) -> None:
    """Check the project, this machine and every connected coding agent, and say what to fix."""
    from engrambus.edges.integrations.doctor import examine

    results = examine(session.folder, session.settings, fix=values["fix"])
    session.print(
        {"ok": all(result.state != "broken" for result in results), "checks": results}, _results_table(results)
    )
    if any(result.state == "broken" for result in results):
        click.get_current_context().exit(1)


def _results_table(results: list[CheckResult]) -> Callable[[Any], Iterator[str]]:
    def render(_: Any) -> Iterator[str]:
        heading, *rows = table(
            ["", "CHECK", "FOUND"], [[_MARKS[result.state][0], result.check, result.message] for result in results]
        )
        yield heading
        for result, row in zip(results, rows, strict=True):
            yield click.style(row[:2], fg=_MARKS[result.state][1], bold=True) + row[2:]
            if result.next_step:
                yield dim("    " + safe(result.next_step))
        broken = [result.check for result in results if result.state == "broken"]
        yield ""
        yield f"To fix: {', '.join(broken)}." if broken else "Everything is in order."

    return render
