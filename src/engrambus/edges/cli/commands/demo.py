"""`engrambus demo`: the review of `examples/use_cases`, which the wheel carries as data, in the project of a folder."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import click

from engrambus.app import init_project, open_project
from engrambus.edges.cli.command import Values, local_command
from engrambus.edges.cli.commands.up import running_link
from engrambus.edges.cli.session import Session
from engrambus.edges.sdk import Bus
from engrambus.errors import ProjectNotFound
from engrambus.evidence.pointers import find_repository
from engrambus.gateway import Credential, Gateway

PAUSE_SECONDS = 1.2
"""The pause after each step on a terminal: the whole demo lasts about a minute."""
_PACKAGE = Path(__file__).parents[3]
_FOLDERS = (_PACKAGE / "examples" / "use_cases", _PACKAGE.parents[1] / "examples" / "use_cases")
"""In a wheel, and in a checkout."""


@local_command(
    "demo",
    click.Option(["--fresh", "fresh"], is_flag=True, help="Use a small repository made for the demo, in a new folder."),
    click.Option(
        ["--pace", "pace"],
        type=click.FloatRange(0, 60),
        help=f"Seconds between steps; {PAUSE_SECONDS} on a terminal, none in a pipe.",
    ),
    section="start",
    example="engrambus demo --fresh",
    rank=30,
)
def demo(session: Session, values: Values) -> None:
    """Watch four scripted agents review a commit of this repository, in about a minute."""
    if session.remote:
        raise click.UsageError("The demo works on files of this machine; engrambus logout, or unset ENGRAMBUS_URL.")
    default_pause = PAUSE_SECONDS if sys.stdout.isatty() and not session.json else 0.0
    output = _load("output").Output(pause_seconds=values.get("pace", default_pause), silent=session.json)
    output.note("A team of four reviews a commit: an architect and three programmers.", style="bold")
    output.note("This is scripted: no model runs, and what the agents claim follows from simple rules.")
    output.note("The commit, the lines, the budgets, the refusals, the verdict and the counts are real.")
    figures = _run(session, output, fresh=values["fresh"])
    if session.json:
        session.print(figures, lambda _: ())


def _run(session: Session, output: Any, *, fresh: bool) -> dict[str, Any]:
    """Run the review in the folder's project, or in one of a new folder if there is no commit to review."""
    folder = session.folder
    reviewed = None if fresh else _reviewable(folder, output)
    tests_in: Path | None = None
    if reviewed is None:
        folder = Path(tempfile.mkdtemp(prefix="engrambus-demo-"))
        _load("post_office").make_repository(folder)
        output.note(f"The repository is a small post office in {folder}; it stays until you remove it.")
        reviewed = _reviewable(folder, output)
        tests_in = folder if find_spec("pytest") else None  # never the code of somebody's own repository
    try:
        gateway = open_project(folder, session.settings)
    except ProjectNotFound:
        project = init_project(folder, session.settings)
        output.note(f"Made a project in {project.catalog}, as `engrambus init` does.")
        gateway = open_project(folder, session.settings)
    with closing(gateway):
        return _review(gateway, session.folder, reviewed, output, tests_in)


def _reviewable(folder: Path, output: Any) -> Any:
    """Choose a commit of a folder's repository; None if there is none to review."""
    if find_repository(folder) is None:
        output.note("There is no git repository here, so a small one is made.")
        return None
    history = _load("commits").History(folder)
    reviewed = _load("review").choose_commit(history)
    if reviewed is None:
        output.note("This history has no commit with a few changed functions, so a small one is made.")
        return None
    return history, reviewed


def _review(gateway: Gateway, here: Path, chosen: Any, output: Any, tests_in: Path | None) -> dict[str, Any]:
    history, reviewed = chosen
    review = _load("review")
    run_id = Bus(gateway, Credential(local_admin=True), owns_transport=False).open_run(review.GOAL).run_id
    root = gateway.project_files.root
    output.note(
        f"The repository is {root}. None of its files is changed; the team's claims stay in a run of their own."
    )
    link = running_link(gateway, f"?run={run_id}")
    if link is not None:
        output.note(f"Watch it on the page: {link}")
    admin = Credential(local_admin=True, run=run_id)
    bus = Bus(gateway, admin, owns_transport=False, on_warning=output.warn)
    try:
        result = review.review(bus, reviewed, history, output, tests_in=tests_in)
        team = bus.stats(last=0).team
    finally:
        bus.end_run(run_id)  # makes the previous run current again
    # The tables count everything that was sent; the page compares only what agents were pointed at.
    output.note(f"  The page's first figure: {team.tokens_not_copied:,} tokens not copied. Messages pointed agents at")
    output.note(f"  {team.pointed_tokens:,} tokens, and these agents read {team.pointed_read_tokens:,} of them.")
    for line in _next_steps(gateway, here, run_id):
        output.note(line)
    return {
        "run_id": run_id,
        **result._asdict(),
        "tokens": {**result.tokens._asdict(), "bus": result.tokens.bus},
        "pointed": team.pointed_tokens,
        "pointed_read": team.pointed_read_tokens,
        "not_copied": team.tokens_not_copied,
    }


def _next_steps(gateway: Gateway, here: Path, run_id: str) -> Iterator[str]:
    root = gateway.project_files.root
    change_folder = "" if root == here else f"cd {root} && "
    link = running_link(gateway, f"?run={run_id}")
    yield ""
    yield f"See it on the page:         {link or f'{change_folder}engrambus up'}"
    yield f"Ask what the team found:    {change_folder}engrambus query --run {run_id}"
    learn = "engrambus init --learn" if change_folder else "engrambus learn"
    yield f"Let your own agents do it:  {learn} && engrambus install claude-code"


def _load(module: str) -> Any:
    """Import a module of the examples by its path: they are no part of the package."""
    folder = next(folder for folder in _FOLDERS if (folder / "__init__.py").is_file())
    name = "engrambus_use_cases"
    if name not in sys.modules:
        spec = spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])
        assert spec is not None  # noqa: S101  # the file is there
        assert spec.loader is not None  # noqa: S101
        package = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(package)
    return import_module(f"{name}.{module}")
