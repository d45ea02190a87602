"""`init --scaffold`: what section 6.3 of the specification prints, in new folders and in old ones. # YT-18"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from engrambus.space.catalog import find_stacks
from tests.cli.runner import COMMAND, Shell
from tests.projects import git

SCAFFOLDED = """\
[scaffold] writing AGENTS.md, .specs/, .skills/, .catalog/.gitkeep ...
[scaffold] creating .catalog/capabilities.json (stub)
[scaffold] adding .receipts/ to .gitignore
[scaffold] writing bin/build-hamt-catalog
"""
BUILT = """\
[build] parsed 7 agents from AGENTS.md
[build] hashing yools ... 7/7
[build] inserting into HAMT ... done
[build] wrote .catalog/capabilities.json ({size} KB)
[build] popcount root: 7/32
"""
FILES = (
    "AGENTS.md",
    ".specs/sprints/README.md",
    ".skills/README.md",
    ".catalog/.gitkeep",
    ".catalog/capabilities.json",
    ".gitignore",
    "bin/build-hamt-catalog",
)


@pytest.fixture
def outside(bare_shell: Shell, tmp_path: Path) -> Path:
    """A folder outside of any repository."""
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def scaffold(shell: Shell, *words: str, folder: Path | None = None) -> str:
    """Run `init --scaffold`; return what it prints."""
    return shell.ok("init", "--scaffold", *words, folder=folder).out


def next_steps(printed: str) -> list[str]:
    """Return the commands that are printed as the next ones."""
    lines = printed.partition("\nNext:\n")[2].splitlines()
    return [line.strip().partition("  ")[0] for line in lines if line.startswith("  ")]


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder with its content, without private state."""
    found = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    names = ((str(path.relative_to(folder)), path) for path in found)
    return {name: path.read_bytes() for name, path in names if name in FILES or not name.startswith(".catalog")}


def test_a_new_folder_is_scaffolded_and_built_as_the_specification_prints(bare_shell: Shell, outside: Path) -> None:
    printed = scaffold(bare_shell, "my-new-project", folder=outside)
    assert printed.startswith(SCAFFOLDED)
    project = outside / "my-new-project"
    assert set(FILES) <= set(contents(project))
    built = bare_shell.ok("catalog", "build", folder=project).out
    size = f"{(project / '.catalog/capabilities.json').stat().st_size / 1024:.1f}"
    assert built == BUILT.format(size=size)
    assert bare_shell.ok("catalog", "lint", folder=project).out == "All yools follow the rules.\n"


def test_the_next_steps_work_word_for_word(bare_shell: Shell, outside: Path) -> None:
    steps = next_steps(scaffold(bare_shell, "a project", folder=outside))
    assert steps == ["cd 'a project'", "bin/build-hamt-catalog", "engrambus catalog list", "engrambus up"]
    environment = {**os.environ, "PATH": f"{Path(COMMAND).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-ec", "\n".join(steps[:3])], cwd=outside, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "[build] parsed 7 agents from AGENTS.md" in done.stdout
    assert "agent.dev.python.v1" in done.stdout


def test_the_catalog_is_a_stub_until_it_is_built(bare_shell: Shell, outside: Path) -> None:
    scaffold(bare_shell, ".", folder=outside)
    assert json.loads((outside / ".catalog/capabilities.json").read_text()) == {
        "schema": "yool-catalog/v1",
        "yools": [],
    }


def test_nothing_is_overwritten_and_twice_is_as_good_as_once(bare_shell: Shell) -> None:
    root = bare_shell.path
    mine = {"AGENTS.md": b"# Mine\n\nNo agents.\n", "bin/build-hamt-catalog": b"mine\n", ".gitignore": b"*.pyc"}
    for name, content in mine.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(content)
    printed = scaffold(bare_shell)
    assert "[scaffold] kept AGENTS.md, bin/build-hamt-catalog\n" in printed
    assert (root / "AGENTS.md").read_bytes() == mine["AGENTS.md"]
    assert (root / "bin/build-hamt-catalog").read_bytes() == b"mine\n"
    assert (root / ".gitignore").read_bytes() == b"*.pyc\n.receipts/\n"
    before = contents(root)
    again = scaffold(bare_shell)
    assert "writing" not in again
    assert "[scaffold] kept AGENTS.md, .specs/agents-section.md, .specs/, .skills/, .catalog/.gitkeep" in again
    assert contents(root) == before


def test_agents_are_added_to_a_file_without_any_by_the_command_that_is_printed(bare_shell: Shell) -> None:
    root = bare_shell.path
    (root / "AGENTS.md").write_text("# Rules\n\nBe kind.\n")
    (root / "go.mod").touch()
    steps = next_steps(scaffold(bare_shell))
    assert steps[0] == "cat .specs/agents-section.md >> AGENTS.md"
    subprocess.run(["sh", "-c", steps[0]], cwd=root, check=True)
    assert "[build] parsed 7 agents" in bare_shell.ok("catalog", "build").out
    assert "agent.dev.go.v1" in bare_shell.ok("catalog", "list").out
    assert "agents-section" not in scaffold(bare_shell).partition("Next:")[2]


def test_an_agents_file_that_declares_yools_is_all_there_is(bare_shell: Shell) -> None:
    declared = "# A\n\n## Agents\n\n### lint\n- yool_id: agent.lint.ruff\n- authority: [user]\n- lane: build\n"
    (bare_shell.path / "AGENTS.md").write_text(declared)
    printed = scaffold(bare_shell)
    assert "[scaffold] kept AGENTS.md\n" in printed
    assert not (bare_shell.path / ".specs/agents-section.md").exists()
    assert "[build] parsed 1 agent from" in bare_shell.ok("catalog", "build").out


@pytest.mark.parametrize(
    ("files", "words", "stacks", "line"),
    [
        ((), (), ["python"], "- Stack: python"),
        (("app.csproj",), (), ["dotnet"], "- Stack: auto-detect"),
        (("go.mod",), ("--stack", "rust"), ["rust"], "- Stack: rust"),
        ((), ("--stack", "go", "--stack", "swift"), ["go", "swift"], "- Stack: go, swift"),
    ],
)
def test_the_stack_is_found_or_chosen_or_assumed(
    bare_shell: Shell, outside: Path, files: tuple[str, ...], words: tuple[str, ...], stacks: list[str], line: str
) -> None:
    for name in files:
        (outside / name).touch()
    printed = scaffold(bare_shell, *words, folder=outside)
    assert ("No file says what this project is written in" in printed) == (not files and not words)
    assert line in (outside / "AGENTS.md").read_text().splitlines()
    bare_shell.ok("catalog", "build", folder=outside)
    listed = bare_shell.ok("catalog", "list", "--json", folder=outside).json["yools"]
    names = [yool["yool_id"] for yool in listed if yool["yool_id"].startswith("agent.dev.")]
    assert names == [f"agent.dev.{stack}.v1" for stack in stacks]


def test_stack_lines_follow_the_project_only_if_they_say_so(bare_shell: Shell, outside: Path) -> None:
    scaffold(bare_shell, folder=outside)
    (outside / "Cargo.toml").touch()
    assert find_stacks(outside) == ("rust",)

    def listed() -> str:
        return bare_shell.ok("catalog", "list", folder=outside).out

    bare_shell.ok("catalog", "build", folder=outside)
    assert "agent.dev.python.v1" in listed()
    agents = outside / "AGENTS.md"
    agents.write_text(agents.read_text().replace("Stack: python", "Stack: Rust, with a bit of C"))
    bare_shell.ok("catalog", "build", folder=outside)
    assert "agent.dev.rust.v1" in listed(), "a text for people is not a stack"
    bare_shell.ok("catalog", "build", "--stack", "zig", folder=outside)
    assert "agent.dev.zig.v1" in listed()


def test_without_a_folder_the_top_of_the_project_is_scaffolded(bare_shell: Shell) -> None:
    assert scaffold(bare_shell, folder=bare_shell.path / "src").startswith(SCAFFOLDED)
    assert (bare_shell.path / "AGENTS.md").exists()
    assert not (bare_shell.path / "src/AGENTS.md").exists()


def test_a_project_gets_its_scaffold_later(shell: Shell) -> None:
    before = shell.ok("stats", "--json").json["project"]
    assert scaffold(shell).startswith(SCAFFOLDED)
    assert shell.ok("stats", "--json").json["project"] == before


def test_a_dry_run_writes_nothing(bare_shell: Shell, outside: Path) -> None:
    printed = scaffold(bare_shell, "new", "--dry-run", folder=outside)
    assert printed == (
        SCAFFOLDED.replace("writing", "would write").replace("creating", "would create").replace("adding", "would add")
    )
    assert list(outside.iterdir()) == []


def test_for_a_program_the_answer_is_one_line(bare_shell: Shell, outside: Path) -> None:
    answer = bare_shell.ok("init", "--scaffold", "--json", folder=outside).json
    assert answer["written"] == [str(outside / name) for name in FILES]
    assert answer["stacks"] == ["python"]
    assert bare_shell.ok("init", "--scaffold", "--json", folder=outside).json["kept"] == answer["written"]


@pytest.mark.parametrize("typed", ["file", "file/below", "link", "link/below", "dangling"])
def test_files_and_links_are_refused(bare_shell: Shell, outside: Path, typed: str) -> None:
    (outside / "file").touch()
    (outside / "elsewhere").mkdir()
    (outside / "link").symlink_to("elsewhere")
    (outside / "dangling").symlink_to("nowhere")
    problem = bare_shell.run("init", "--scaffold", typed, "--json", folder=outside).problem
    assert (problem["code"], problem["field"]) == ("SCAFFOLD_FOLDER", "DIR")
    assert sorted(path.name for path in outside.rglob("*")) == ["dangling", "elsewhere", "file", "link"]


@pytest.mark.parametrize("name", ["AGENTS.md", ".gitignore", "bin", ".specs", ".catalog"])
def test_a_link_in_the_project_is_not_followed(bare_shell: Shell, outside: Path, name: str) -> None:
    project, target = outside / "project", outside / "target"
    project.mkdir()
    if name in ("AGENTS.md", ".gitignore"):
        target.write_text("theirs\n")
    else:
        target.mkdir()
    (project / name).symlink_to(target)
    problem = bare_shell.run("init", "--scaffold", "--json", folder=project).problem
    assert problem["code"] == "LINK_IN_CATALOG"
    assert list(project.iterdir()) == [project / name]
    assert list(target.iterdir()) == [] if target.is_dir() else target.read_text() == "theirs\n"


@pytest.mark.parametrize(("name", "is_folder"), [("bin", False), (".specs", False), ("AGENTS.md", True)])
def test_what_is_in_the_way_is_named_before_anything_is_written(
    bare_shell: Shell, outside: Path, name: str, is_folder: bool
) -> None:
    (outside / name).mkdir() if is_folder else (outside / name).touch()
    problem = bare_shell.run("init", "--scaffold", "--json", folder=outside).problem
    assert problem["code"] == "SCAFFOLD_FOLDER"
    assert str(outside / name) in problem["detail"]
    assert list(outside.iterdir()) == [outside / name]


def test_a_folder_inside_another_project_is_refused(bare_shell: Shell) -> None:
    problem = bare_shell.run("init", "--scaffold", "inner", "--json").problem
    assert problem["code"] == "SCAFFOLD_FOLDER"
    assert str(bare_shell.path) in problem["detail"]
    assert "git init inner" in problem["hint"]
    assert not (bare_shell.path / "inner").exists()
    git(bare_shell.path, "init", "-q", "inner")
    assert scaffold(bare_shell, "inner").startswith(SCAFFOLDED)


def test_a_stack_that_is_no_name_is_refused(bare_shell: Shell, outside: Path) -> None:
    problem = bare_shell.run("init", "--scaffold", "--stack", "c++", "--json", folder=outside).problem
    assert (problem["code"], problem["field"]) == ("STACK_UNKNOWN", "stack")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("words", [("new",), ("--stack", "go"), ("--dry-run",)])
def test_options_of_a_scaffold_need_it(bare_shell: Shell, words: tuple[str, ...]) -> None:
    result = bare_shell.run("init", *words)
    assert result.code == 2
    assert "goes with --scaffold" in result.err
    assert not (bare_shell.path / ".catalog").exists()


def run_wrapper(program: Path, *words: str, folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    """Run `bin/build-hamt-catalog` with a PATH."""
    environment = {"PATH": path, "HOME": os.environ["HOME"]}
    return subprocess.run(
        [program, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with the tools that the wrapper itself uses."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("sh", "dirname"):
        (folder / name).symlink_to(f"/usr/bin/{name}" if Path(f"/usr/bin/{name}").exists() else f"/bin/{name}")
    return folder


@pytest.mark.parametrize("found_as", ["engrambus", "python3"])
def test_the_wrapper_runs_what_is_installed(bare_shell: Shell, outside: Path, tools: Path, found_as: str) -> None:
    scaffold(bare_shell, folder=outside)
    program = outside / "bin/build-hamt-catalog"
    assert program.stat().st_mode & stat.S_IXUSR
    assert str(Path(sys.prefix)) not in program.read_text()
    run = COMMAND if found_as == "engrambus" else sys.executable
    (tools / found_as).write_text(f'#!/bin/sh\nexec {run} "$@"\n')
    (tools / found_as).chmod(0o755)
    (outside / "elsewhere").mkdir()
    for folder, words in ((outside, ()), (outside / "elsewhere", ()), (outside / "elsewhere", ("..",))):
        done = run_wrapper(program, *words, folder=folder, path=str(tools))
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("[build] parsed 7 agents from AGENTS.md\n")
    built = run_wrapper(program, "--stack", "go", "--json", folder=outside, path=str(tools))
    assert json.loads(built.stdout)["stacks"] == ["go"]


def test_the_wrapper_says_what_is_missing(bare_shell: Shell, outside: Path, tools: Path) -> None:
    scaffold(bare_shell, folder=outside)
    done = run_wrapper(outside / "bin/build-hamt-catalog", folder=outside, path=str(tools))
    assert (done.returncode, done.stdout) == (127, "")
    assert "engrambus is not on the PATH, and no Python on it has it installed" in done.stderr
