"""Runs the demo on the repository of a folder, or on a small one made for it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from engrambus import Bus, EngramBusError, Settings, init_project
from engrambus.app import open_project
from engrambus.edges.cli.commands.up import running_link
from engrambus.errors import Internal, ProjectNotFound, SecretFound
from engrambus.evidence.pointers import GitRepository, find_repository
from engrambus.gateway import Credential, Gateway
from engrambus.operations.stats import Figures
from engrambus.policy.secrets import check_no_secrets

from .output import DemoOutput
from .post_office import make_repository
from .review import GOAL, run_review
from .survey import Survey, reviewable, survey
from .token_count import TokenCount

MAX_FILES = 4000
MAX_FILE_BYTES = 200_000
"""A longer file is most likely not written by hand."""


def run(folder: Path, settings: Settings, *, fresh: bool, pause_seconds: float, silent: bool) -> dict[str, Any]:
    """Run the demo and return its figures; with `fresh`, in a new folder with a small repository."""
    output = DemoOutput(pause_seconds=pause_seconds, silent=silent)
    output.note("A team of four reviews a repository: an architect and three programmers.", style="bold")
    output.note("This is scripted: no model runs, and what the agents say was written before.")
    output.note("The repository, the lines, the budgets, the refusals and the counts are real.")
    gateway = None if fresh else _open_here(folder, settings, output)
    gateway = gateway or _open_fresh(settings, output)
    with closing(gateway):
        files, sha = _source_files(gateway.project_files.repositories.select(), gateway.project_files.root)
        surveyed = survey_without_secrets(files)
        if surveyed is None:
            raise Internal("There is nothing to review.")
        return _review(gateway, folder, files, surveyed, sha, output)


def _open_here(folder: Path, settings: Settings, output: DemoOutput) -> Gateway | None:
    """Open the folder's project, made if need be; None if its repository has nothing to review."""
    repository = find_repository(folder)
    if repository is None:
        output.note("There is no git repository here, so a small one is made.")
        return None
    with closing(GitRepository(repository[0])) as git:
        if survey_without_secrets(_source_files(git, repository[1] or folder)[0]) is None:
            output.note("This repository has no function to review, so a small one is made.")
            return None
    try:
        gateway = open_project(folder, settings)
    except ProjectNotFound:
        project = init_project(folder, settings)
        output.note(f"Made a project in {project.catalog}, as `engrambus init` does.")
        gateway = open_project(folder, settings)
    output.note(f"The repository is {gateway.project_files.root}, at {gateway.project_files.head()[:12]}.")
    output.note("None of its files is changed, and everything the team says stays in a run of its own.")
    return gateway


def _open_fresh(settings: Settings, output: DemoOutput) -> Gateway:
    folder = Path(tempfile.mkdtemp(prefix="engrambus-demo-"))
    make_repository(folder)
    init_project(folder, settings)
    output.note(f"The repository is a small post office in {folder}; it stays until you remove it.")
    return open_project(folder, settings)


def _source_files(repository: GitRepository, worktree: Path) -> tuple[dict[str, str], str]:
    """Return the source files of the checked-out commit by path, and the commit's id."""
    try:
        sha = repository.head(worktree)
    except EngramBusError:  # the repository has no commit yet
        return {}, ""
    blobs = repository.files(sha)
    source = {path: blobs[path] for path in sorted(blobs) if reviewable(path)}
    sizes = repository.sizes(source.values())
    small = [(path, blob) for path, blob in source.items() if sizes.get(blob, MAX_FILE_BYTES) < MAX_FILE_BYTES]
    contents = {path: repository.blob(blob) for path, blob in small[:MAX_FILES]}
    return {path: data.decode() for path, data in contents.items() if _is_text(data)}, sha


def _is_text(data: bytes) -> bool:
    try:
        return "\x00" not in data.decode()
    except UnicodeDecodeError:
        return False


def survey_without_secrets(files: dict[str, str]) -> Survey | None:
    """Survey the files, skipping functions that hold a secret."""

    def has_no_secret(text: str) -> bool:
        try:
            check_no_secrets({"text": text})
        except SecretFound:
            return False
        return True

    return survey(files, has_no_secret)


def _review(
    gateway: Gateway, folder: Path, files: dict[str, str], surveyed: Survey, sha: str, output: DemoOutput
) -> dict[str, Any]:
    run_id = Bus(gateway, Credential(local_admin=True), owns_transport=False).open_run(GOAL).run_id
    link = running_link(gateway, f"?run={run_id}")
    if link is not None:
        output.note(f"Watch it on the page: {link}")
    bus = Bus(gateway, Credential(local_admin=True, run=run_id), owns_transport=False)
    count = TokenCount(files, surveyed.spans, sha)
    try:
        run_review(bus, surveyed, sha, count, output)
        team = bus.stats(last=0).team
    finally:
        bus.end_run(run_id)  # makes the previous run current again
    output.token_table(count)
    for line in _closing_lines(gateway, folder, run_id, count, team):
        output.note(line)
    total = count.total
    return {
        "run_id": run_id,
        "engrams": team.engrams,
        "rejections": team.rejections,
        "contradictions": team.contradictions,
        "moved": total.moved,
        "pasting_lines": total.lines_pasted,
        "pasting_files": total.files_pasted,
        "pointed": team.pointed_tokens,
        "pointed_read": team.pointed_read_tokens,
        "not_copied": team.tokens_not_copied,
    }


def _closing_lines(gateway: Gateway, folder: Path, run_id: str, count: TokenCount, team: Figures) -> Iterator[str]:
    total = count.total
    files, lines = (f"{total.moved / pasted:.0%}" for pasted in (total.files_pasted, total.lines_pasted))
    yield f"  {files} of the tokens of pasting the files, {lines} of pasting the lines."
    # The table counts everything that was sent; the page compares only what agents were pointed at.
    pointed, read = team.pointed_tokens, team.pointed_read_tokens
    yield f"  The page's first figure: {team.tokens_not_copied:,} tokens not copied. Messages pointed agents at"
    yield f"  {pointed:,} tokens, and these agents read {read:,} of them; nothing else is compared there."
    yield ""
    link = running_link(gateway, f"?run={run_id}")
    root = gateway.project_files.root
    change_folder = "" if root == folder else f"cd {root} && "
    yield f"The page: {link}" if link else f"See it on the page: {change_folder}engrambus up"
    yield f"And here:  {change_folder}engrambus query --run {run_id}"
