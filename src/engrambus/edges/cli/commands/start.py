"""`engrambus init`, `hook` and `mcp`: create a project, and serve one coding agent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import click

from engrambus.edges.cli.command import Argument, Values, local_command
from engrambus.edges.cli.commands.up import telemetry_of
from engrambus.edges.cli.screen import dim, pairs, safe
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from engrambus.edges.integrations.scaffold import Scaffold
    from engrambus.edges.sdk import Transport
    from engrambus.errors import EngramBusError
    from engrambus.policy import Project

LEAD_ROLES = ("architect", "director", "manager", "programmer")
MAX_SESSION_TURNS = 16

_AS_GATEWAY = dim("Next, as the gateway's account with ENGRAMBUS_HOME set: engrambus init, then engrambus up.")

MAX_COUNT_SECONDS = 0.5
"""Time in which `init` finds out how much could be learned; on a larger repository it does not say it."""
_LEARN = "engrambus learn"
_NEXT = (
    ("engrambus up", "opens the project's page"),
    (_LEARN, "fills the memory from what this repository already says"),
    ("engrambus demo", "shows four agents at work on this repository, in a minute"),
    ("engrambus install CLIENT", "connects claude-code, codex, cursor, vscode or gemini"),
    ('engrambus put "What you know." --at path:10-20', "records the first claim"),
)
_NEED_GIT = (_LEARN, 'engrambus put "What you know." --at path:10-20')
"""What to do with a new project; some only in a git repository, where there are lines to point at."""


@local_command(
    "init",
    Argument(
        "folder",
        "DIR",
        "With --scaffold: the folder to create or to add to [default: the current project]",
        required=False,
    ),
    click.Option(
        ["--files-only", "files_only"],
        is_flag=True,
        help="Create only the files that are committed, for a gateway under another account.",
    ),
    click.Option(
        ["--mirror", "mirror"],
        is_flag=True,
        help="Create the project of a team's server: in a bare repository, made here if there is none.",
    ),
    click.Option(
        ["--id", "project_id"],
        metavar="ID",
        help="With --mirror: the id in the team's .catalog/project.yaml, if that is not in the repository yet.",
    ),
    click.Option(["--learn", "learn"], is_flag=True, help="Then fill the memory from what this repository says."),
    click.Option(
        ["--scaffold", "scaffold"],
        is_flag=True,
        help="Also write AGENTS.md, .specs, .skills and bin/build-hamt-catalog; files that exist are not changed.",
    ),
    click.Option(
        ["--stack", "stacks"],
        multiple=True,
        help="With --scaffold: a value of ${stack} in AGENTS.md [default: what is found, else python] (repeatable)",
    ),
    click.Option(["--dry-run", "dry_run"], is_flag=True, help="With --scaffold: only say what would be written."),
    section="start",
    example="engrambus init",
    rank=10,
)
def init(session: Session, values: Values) -> None:
    """Create a project in this folder: a .catalog folder, its keys and a first run.

    A run is a piece of work with a goal; agents, claims and tasks belong to one.
    """
    if values["scaffold"]:
        _scaffold(session, values)
        return
    if values["mirror"]:
        _init_mirror(session, values)
        return
    if "project_id" in values:
        raise click.UsageError("--id goes with --mirror.")
    for option, field in (("DIR", "folder"), ("--stack", "stacks"), ("--dry-run", "dry_run")):
        if values.get(field):
            raise click.UsageError(f"{option} goes with --scaffold.")
    files_only = values["files_only"]
    project = _create_project(session, session.folder, files_only=files_only)

    def render(_: Any) -> Iterator[str]:
        yield from _describe_project(project)
        if files_only:
            yield _AS_GATEWAY
            return
        yield dim("Next, any of these:")
        with_git = project.git_folder is not None
        steps = _NEXT if with_git else tuple(step for step in _NEXT if step[0] not in _NEED_GIT)
        named = (
            (command, f"{text}: {count:,} claims" if count and command == _LEARN else text) for command, text in steps
        )
        yield from (f"  {line}" for line in pairs(step for step in named if not (learns and step[0] == _LEARN)))

    learns = bool(values["learn"]) and not files_only and project.git_folder is not None
    may_ask = not learns and not files_only and project.git_folder is not None and _is_attended(session)
    count = _count_claims(session) if may_ask else None
    session.print({"project": project.project_id, "catalog": str(project.catalog)}, render)
    if learns or (may_ask and _wants_to_learn(count)):
        _learn(session)


def _init_mirror(session: Session, values: Values) -> None:
    """Create the project of a team's server in a bare repository, which takes the commits that the team points at."""
    from engrambus.app import init_project
    from engrambus.evidence.pointers.mirror import committed_file, make_mirror

    if values["files_only"] or values["learn"]:
        raise click.UsageError("--mirror goes with --id only.")
    project_id = values.get("project_id")
    if project_id is not None:
        _check_id(project_id)
    make_mirror(session.folder)
    committed = _id_in(committed_file(session.folder, ".catalog/project.yaml"))
    if project_id is not None and committed is not None and committed != project_id:
        raise click.UsageError(f"The repository's own .catalog/project.yaml names the project {committed}.")
    project = init_project(session.folder, session.settings, project_id=project_id or committed)

    def render(_: Any) -> Iterator[str]:
        yield f"Made the project {safe(project.project_id)} with a mirror in {safe(str(project.git_folder))}"
        yield dim("Next: engrambus up --host ADDRESS --allow-host NAME --tls-cert FILE --tls-key FILE")

    session.print({"project": project.project_id, "mirror": str(project.git_folder)}, render)


def _id_in(text: bytes | None) -> str | None:
    """Return the id in a project file; None if there is no file, or none that we have written."""
    from engrambus.core import is_ulid

    first = (text or b"").decode("utf-8", "replace").strip().partition("\n")[0]
    name, _, value = first.partition(": ")
    return value if name == "project" and is_ulid(value) else None


def _check_id(project_id: str) -> None:
    from engrambus.core import is_ulid
    from engrambus.errors import FieldValue

    if not is_ulid(project_id):
        raise FieldValue("This is not the id of a project.", field="project_id", used=project_id[:40])


def _create_project(session: Session, folder: Path, *, files_only: bool) -> Project:
    from engrambus.app import init_files, init_project

    return (init_files if files_only else init_project)(folder, session.settings)


def _describe_project(project: Project) -> Iterator[str]:
    yield f"Project {click.style(project.project_id, bold=True)} in {safe(str(project.catalog))}"
    if project.git_folder is None:
        yield dim("There is no git repository here, so claims cannot point at files: git init makes one.")


def _scaffold(session: Session, values: Values) -> None:
    """Create a project, if there is none yet, and add the files in which agents are declared."""
    from engrambus.edges.integrations.scaffold import (
        find_scaffold_root,
        make_root,
        plan_scaffold,
        scaffold_lines,
        write_scaffold,
    )
    from engrambus.errors import ProjectExists
    from engrambus.policy import find_project

    typed, dry_run, files_only = values.get("folder"), values["dry_run"], values["files_only"]
    root = find_scaffold_root(session.folder, typed)
    plan = plan_scaffold(root, values.get("stacks", ()))
    project: Project | None = None
    if not dry_run:
        make_root(root)
        try:
            project = _create_project(session, root, files_only=files_only)
        except ProjectExists:
            project = find_project(root, session.settings.private_home)
        write_scaffold(plan)

    def render(_: Any) -> Iterator[str]:
        yield from (f"[scaffold] {safe(line)}" for line in scaffold_lines(plan, dry_run=dry_run))
        if project is not None:
            yield from _describe_project(project)
            yield from _after_scaffold(plan, typed)
            if files_only:
                yield _AS_GATEWAY

    answer = {
        "project": project and project.project_id,
        "folder": str(root),
        "stacks": list(plan.stacks),
        "written": [str(file.path) for file in plan.files if file.is_missing],
        "kept": [str(file.path) for file in plan.files if not file.is_missing],
    }
    session.print(answer, render)
    if values["learn"] and project is not None and project.git_folder is not None and not files_only:
        session.folder = root
        _learn(session)


def _after_scaffold(plan: Scaffold, typed: str | None) -> Iterator[str]:
    """Yield what to do in a folder that was scaffolded."""
    from shlex import quote

    from engrambus.edges.integrations.scaffold import SECTION, WRAPPER

    if plan.stack_is_assumed:
        assumed = f"No file says what this project is written in; AGENTS.md says {plan.stacks[0]}"
        yield dim(f"{assumed}: change its Stack lines, or name it the next time with --stack.")
    steps = [
        (WRAPPER, "writes the catalog of agents; so does engrambus catalog build"),
        ("engrambus catalog list", "shows what AGENTS.md declares"),
        ("engrambus up", "opens the project's page"),
    ]
    if plan.agents_are_kept_apart:
        steps.insert(0, (f"cat {SECTION} >> AGENTS.md", "adds agents to your AGENTS.md, which declares none"))
    if typed is not None:
        steps.insert(0, (f"cd {quote(typed)}", "goes to the project"))
    yield dim("Next:")
    yield from (f"  {line}" for line in pairs(steps))
    yield dim("Code that carries out the agents' tasks: docs/sprint.md")


def _learn(session: Session) -> None:
    from engrambus.edges.cli.commands.learn import learn

    learn.run(session, {"dry_run": False, "fresh": False})


def _is_attended(session: Session) -> bool:
    """True if a person is there to answer."""
    return not session.json and sys.stdin.isatty() and sys.stdout.isatty()


def _count_claims(session: Session) -> int | None:
    """Return how many claims could be learned; None if finding out takes longer than a person should wait."""
    from engrambus.edges.cli.commands.learn import count_claims

    return count_claims(session, MAX_COUNT_SECONDS)


def _wants_to_learn(count: int | None) -> bool:
    """Ask whether to learn from the repository."""
    found = f"; {count:,} claims" if count else ""
    # On stderr, so that the answer of the command stands alone on stdout.
    return click.confirm(
        f"Learn now from what this repository says (commits, decisions, rules{found})?", default=True, err=True
    )


@local_command("hook", section="start", example="engrambus hook < event.json", rank=60)
def hook(session: Session, values: Values) -> None:
    """Answer one hook call of a coding agent: JSON on stdin, JSON on stdout.

    Coding agents call this command themselves once `engrambus install` has connected them.
    """
    from engrambus.edges.integrations.hook_process import main

    click.get_current_context().exit(main())


@local_command(
    "mcp",
    click.Option(
        ["--admin", "admin"], is_flag=True, help="Serve the admin, who has no limits: for a person, not for an agent."
    ),
    click.Option(
        ["--role"],
        type=click.Choice(LEAD_ROLES),
        help="Role of the lead; by default the policy's lead_role, which it may not exceed.",
    ),
    click.Option(
        ["--session-turns"],
        type=click.IntRange(1, MAX_SESSION_TURNS),
        help="How many turns' worth the lead may read in one turn, for a client whose hooks cannot name sub-agents "
        "[default: 1]",
    ),
    section="start",
    example="engrambus mcp",
    rank=50,
)
def mcp(session: Session, values: Values) -> None:
    """Serve the project to one coding agent, as an MCP server over stdin and stdout.

    Its calls belong to the agent of ENGRAMBUS_TOKEN or of the login; without a token, or with a person's, to a lead, an
    agent with a name of two words and a run of its own, added with the first call. Only --admin serves the admin.
    """
    from engrambus.edges.mcp import LeadTerms, serve_stdio
    from engrambus.errors import EngramBusError
    from engrambus.gateway import Credential, Gateway

    lead = None
    if not values.pop("admin", False):
        lead = LeadTerms(folder=session.folder.name, **values)
    elif values:
        raise click.UsageError("--role and --session-turns are for a lead; --admin serves the admin.")
    else:
        session.require_admin("--admin")
    if sys.stdin.isatty():
        session.note(
            dim("A coding agent starts this command and talks to it on stdin: engrambus install. Stop with Ctrl-C.")
        )
    with ExitStack() as stack:

        def open_and_watch() -> Transport:
            transport = session.transport()
            if isinstance(transport, Gateway):
                transport.start_read_ahead()
                stack.enter_context(telemetry_of(session, transport))
            return transport

        try:
            credential = session.credential()
            open_transport: Callable[[], Transport] = open_and_watch
        except EngramBusError as refusal:
            # Coding agents show the answer of a tool call, and hide why a server exited.
            credential, open_transport = Credential(), partial(_raise, refusal)
        serve_stdio(open_transport, credential, lead, session.worktree)


def _raise(refusal: EngramBusError) -> NoReturn:
    raise refusal
