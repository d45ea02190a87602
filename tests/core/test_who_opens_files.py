"""Every file of ours is opened by `core/files.py`: who opens files in another way is listed here, with the reason."""

from __future__ import annotations

import ast
from pathlib import Path

import engrambus

SOURCE = Path(engrambus.__file__).parent
CALLS = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "touch", "mkfifo", "Connection"),
    *("mkdir", "makedirs", "mkdtemp", "rmdir", "rmtree", "rename", "renames", "unlink", "link", "symlink", "chmod"),
    *("listdir", "scandir", "iterdir", "glob", "rglob", "symlink_to", "hardlink_to", "copyfile", "copytree", "move"),
}
"""Functions and methods that open, create, rename, list or delete something on disk."""
NOT_FILES = {"files", "Bus", "_streams", "_sessions", "_bodies", "_journal", "repository"}
"""Names in front of `.open` and the like that stand for something else, or for the module itself."""

OTHERS = {
    "core/files.py": "the module itself",
    "adapters/migration/dual_read.py": "a report that the migrated program names",
    "adapters/migration/shims.py": "artifacts that the migrated program writes",
    "adapters/migration/steps.py": "flags and reports that the migrated program names",
    "adapters/semantic/minilm.py": "the weights in an installed package",
    "app.py": "a temporary folder",
    "backends/backup.py": "a file that a person names, created anew and not through a link",
    "backends/jsonl_stores.py": "memory stores that a person or a policy names, anywhere",
    "backends/postgres/migrations.py": "the package's own SQL",
    "backends/postgres/queries.py": "the package's own SQL",
    "backends/postgres/verification.py": "SQLite, in a temporary file",
    "backends/postgres/work/verification.py": "SQLite, in a temporary file",
    "backends/shared_ref.py": "a temporary folder",
    "backends/sqlite/journal_index.py": "indexes in memory, where the disk is full",
    "backends/sqlite/queries.py": "the package's own SQL",
    "core/clock.py": "the kernel's boot id",
    "core/database.py": "SQLite, on a path that files.check_database has looked at",
    "core/journal/derived.py": "deletes a folder of an older version; rmtree follows no link",
    "core/lock.py": "the kernel's files",
    "core/process_names.py": "the kernel's files",
    "edges/cli/command.py": "the null device",
    "edges/cli/commands/catalog.py": "files that a person names",
    "edges/cli/commands/demo.py": "a temporary folder",
    "edges/cli/commands/gate.py": "a file that a person names",
    "edges/cli/commands/knowledge.py": "files of the checkout",
    "edges/cli/inputs.py": "files that a person names",
    "edges/integrations/config_files.py": "the files of coding agents",
    "edges/integrations/doctor.py": "the files of coding agents; those of the kernel",
    "edges/integrations/edited_files.py": "files of the checkout",
    "edges/integrations/file_modes.py": "lists, and changes nothing by a path",
    "edges/integrations/gate_setup.py": "the package's own files; a git hook and a workflow in the checkout",
    "edges/integrations/git_exclude.py": "git's list of what is not committed",
    "edges/integrations/hook_server.py": "a socket of the account, in its state folder",
    "edges/integrations/hook_socket.py": "a socket of the account; decision 44: core/files.py takes too long to load",
    "edges/integrations/install.py": "the files of coding agents, and records of them in the home folder",
    "edges/integrations/scaffold.py": "the package's own files",
    "edges/integrations/usual_project.py": "files of the checkout; decision 44: core/files.py takes too long to load",
    "edges/mcp/wire.py": "the null device",
    "edges/page/assets.py": "the package's own page",
    "edges/sdk/login_file.py": "a login in the home folder, and git's own files; decision 44: loaded by a hook",
    "edges/sdk/logins.py": "a certificate that a person names",
    "evidence/anchoring/line_index.py": "SQLite, in memory",
    "evidence/pointers/cited_places.py": "files of the checkout",
    "evidence/pointers/disk_files.py": "files of the checkout",
    "evidence/pointers/git.py": "git's own files",
    "evidence/pointers/git_links.py": "git's own files",
    "evidence/pointers/mirror.py": "lists a folder, to see whether it is empty",
    "evidence/pointers/scratch_objects.py": "a temporary folder",
    "evidence/pointers/snapshot.py": "files of the checkout, and a temporary folder",
    "evidence/pointers/trackable_files.py": "lists files of the checkout, and changes nothing by a path",
    "evidence/pointers/worktrees.py": "git's own files",
    "evidence/receipts/cas.py": "relative to a folder that files.open_folder has opened",
    "evidence/receipts/folder.py": "lists a folder that files.open_folder has opened",
    "gateway/events/activity.py": "deletes an empty folder; rmdir follows no link",
    "policy/key_archive.py": "keys in the home folder, and a file that a person names",
    "policy/key_files.py": "keys in the home folder; decision 44: loaded by a hook",
    "space/catalog/build.py": "files of the checkout",
    "space/hook_sources.py": "metadata of installed packages",
    "space/schedules/timing.py": "time zones of the installed package tzdata",
    "space/work/garbage_collector.py": "lists folders of steps, and changes nothing by a path",
    "space/work/guard/cgroups.py": "the kernel's files",
    "space/work/guard/effects.py": "lists folders above a project, to name what a step may write to",
    "space/work/guard/limit_enforcer.py": "the kernel's files",
    "space/work/guard/process_rules.py": "opens paths to name them to the kernel, with O_PATH and O_NOFOLLOW",
    "space/work/guard/processes.py": "the kernel's files",
    "space/work/guard/step_supervisor.py": "the kernel's files, and the null device",
    "space/work/input_files.py": "files of the checkout, with O_NOFOLLOW",
    "space/work/step_context.py": "inside a step, the file that its worker named",
    "space/work/step_folder.py": "reads with O_NOFOLLOW what a step may have replaced; rmtree follows no link",
    "space/work/warm_process.py": "standard streams",
}
"""Modules that open files without `core/files.py`, and what these files are."""


def calls_of(module: Path) -> set[str]:
    """Return the calls in a module that work on files directly."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id="open"):
                found.add("open")
            case ast.Attribute(attr=name, value=value) if name in CALLS:
                owner = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
                if owner not in NOT_FILES:
                    found.add(f"{owner}.{name}")
            case _:
                pass
    return found


def test_every_other_way_of_opening_files_has_a_reason() -> None:
    """A new one is a file of ours, then use `core/files.py`; or it is not, then say here what it is."""
    found = {str(module.relative_to(SOURCE)) for module in SOURCE.rglob("*.py") if calls_of(module)}
    assert found - OTHERS.keys() == set()
    assert OTHERS.keys() - found == set(), "these open nothing any more"
