"""`engrambus demo`: a minute with a team, on the repository here or on a small one made for it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engrambus.edges.cli.command import Values, local_command
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.edges.demo import Bill, Stage, Survey
    from engrambus.evidence.pointers import GitRepository
    from engrambus.gateway import Gateway

PACE = 1.8
"""Seconds a step stays on a terminal before the next: the whole lasts about a minute."""
MOST_FILES = 4000
MOST_BYTES = 200_000
"""Of one file; what is longer was hardly written by hand."""


@local_command(
    "demo",
    click.Option(["--fresh", "fresh"], is_flag=True, help="Use a small repository made for it, in a new folder."),
    click.Option(
        ["--pace", "pace"],
        type=click.FloatRange(0, 60),
        help=f"Seconds between steps; {PACE} on a terminal, none in a pipe.",
    ),
    section="start",
    example="engrambus demo --fresh",
)
def demo(session: Session, values: Values) -> None:
    """Watch a team of four review this repository, in a minute."""
    from engrambus.edges.demo import Stage
    from engrambus.errors import Internal

    if session.remote:
        raise click.UsageError("The demo works on files of this machine; unset ENGRAMBUS_URL.")
    pace = values["pace"] if "pace" in values else PACE if sys.stdout.isatty() and not session.json else 0.0
    stage = Stage(pace=pace, silent=session.json)
    stage.note("A team of four reviews a repository: an architect and three programmers.", style="bold")
    gateway = None if values["fresh"] else _here(session, stage)
    gateway = gateway or _fresh(session, stage)
    with closing(gateway):
        files, sha = _files(gateway)
        found = survey_of(files)
        if found is None:
            raise Internal("There is nothing to review.")
        _perform(session, gateway, files, found, sha, stage)


def _here(session: Session, stage: Stage) -> Gateway | None:
    """The project of this folder, made if need be, when its repository has something to review."""
    from engrambus.app import init_project, open_project
    from engrambus.errors import ProjectNotFound
    from engrambus.evidence.pointers import GitRepository, find_repository

    repository = find_repository(session.folder)
    if repository is None:
        stage.note("There is no git repository here, so a small one is made.")
        return None
    with closing(GitRepository(repository[0])) as git:
        if survey_of(_files_of(git, repository[1] or session.folder)[0]) is None:
            stage.note("This repository has no function to review, so a small one is made.")
            return None
    try:
        gateway = open_project(session.folder, session.settings)
    except ProjectNotFound:
        project = init_project(session.folder, session.settings)
        stage.note(f"Made a project in {project.catalog}, as `engrambus init` does.")
        gateway = open_project(session.folder, session.settings)
    stage.note(f"The repository is {gateway.project_files.root}, at {gateway.project_files.head()[:12]}.")
    stage.note("None of its files is touched, and what is said here stays in a run of its own.")
    return gateway


def _fresh(session: Session, stage: Stage) -> Gateway:
    from engrambus.app import init_project, open_project
    from engrambus.edges.demo import make_fresh

    folder = Path(tempfile.mkdtemp(prefix="engrambus-demo-"))
    make_fresh(folder)
    init_project(folder, session.settings)
    stage.note(f"The repository is a small post office in {folder}; it stays until you remove it.")
    return open_project(folder, session.settings)


def _files(gateway: Gateway) -> tuple[dict[str, str], str]:
    """The source files of the commit that is checked out, and the commit."""
    return _files_of(gateway.project_files.repositories.select(), gateway.project_files.root)


def _files_of(repository: GitRepository, worktree: Path) -> tuple[dict[str, str], str]:
    from engrambus.edges.demo.survey import reviewable
    from engrambus.errors import EngramBusError

    try:
        sha = repository.head(worktree)
    except EngramBusError:  # nothing was committed yet
        return {}, ""
    listed = repository.files(sha)
    chosen = {path: listed[path] for path in sorted(listed) if reviewable(path)}
    sizes = repository.sizes(chosen.values())
    small = [(path, blob) for path, blob in chosen.items() if sizes.get(blob, MOST_BYTES) < MOST_BYTES][:MOST_FILES]
    texts = {path: repository.blob(blob) for path, blob in small}
    return {path: text.decode() for path, text in texts.items() if _is_text(text)}, sha


def survey_of(files: dict[str, str]) -> Survey | None:
    """What there is to review; nothing that holds a secret is quoted."""
    from engrambus.edges.demo import survey
    from engrambus.errors import SecretFound
    from engrambus.policy.secrets import check_no_secrets

    def sayable(text: str) -> bool:
        try:
            check_no_secrets({"text": text})
        except SecretFound:
            return False
        return True

    return survey(files, sayable)


def _is_text(data: bytes) -> bool:
    try:
        return "\x00" not in data.decode()
    except UnicodeDecodeError:
        return False


def _perform(session: Session, gateway: Gateway, files: dict[str, str], found: Survey, sha: str, stage: Stage) -> None:
    from engrambus.edges.demo import GOAL, Bill, play
    from engrambus.edges.sdk import Bus
    from engrambus.gateway import Credential

    run = Bus(gateway, Credential(local_admin=True), owns_way=False).open_run(GOAL).run_id
    link = _link(gateway, session, run)
    if link is not None:
        stage.note(f"Watch it on the page: {link}")
    bus, bill = Bus(gateway, Credential(local_admin=True, run=run), owns_way=False), Bill(files, found.places, sha)
    try:
        play(bus, found, sha, bill, stage)
        team = bus.stats(last=0).team
    finally:
        bus.end_run(run)  # so that the run before it is the current one again
    stage.bill(bill)
    for line in _closing(gateway, session, run, bill):
        stage.note(line)
    total = bill.total
    if session.json:
        answer = {
            "run_id": run,
            "engrams": team.engrams,
            "rejections": team.rejections,
            "contradictions": team.contradictions,
            "moved": total.moved,
            "pasting_lines": total.lines,
            "pasting_files": total.files,
        }
        session.answer(answer, lambda _: ())


def _closing(gateway: Gateway, session: Session, run: str, bill: Bill) -> Iterator[str]:
    total = bill.total
    shares = [f"{total.moved / other:.0%}" for other in (total.files, total.lines)]
    yield f"  {shares[0]} of pasting the files, {shares[1]} of pasting the lines."
    yield ""
    link = _link(gateway, session, run)
    here = gateway.project_files.root
    go = "" if here == session.folder else f"cd {here} && "
    yield f"The page: {link}" if link else f"See it on the page: {go}engrambus up"
    yield f"And here:  {go}engrambus query --run {run}"


def _link(gateway: Gateway, session: Session, run: str) -> str | None:
    """A link to the run on the page, if this project is being served."""
    from engrambus.edges.cli.commands.up import running_link

    return running_link(gateway, f"?run={run}")
