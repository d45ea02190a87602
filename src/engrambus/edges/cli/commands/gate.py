"""The command `gate`: fails a branch that changes lines with an open risk or a decision, and records overrides."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.command import Values, override
from engrambus.edges.cli.screen import safe
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.evidence.pointers import GitRepository
    from engrambus.gateway import Operation
    from engrambus.operations.gate import GateAnswer


@override(
    click.Option(["--base", "base"], metavar="REV", help="The branch to merge into [default: main, else master]"),
    click.Option(["--head", "head"], metavar="REV", help="The branch to merge [default: HEAD]"),
    click.Option(["--staged", "staged"], is_flag=True, help="Check what is staged for the next commit, not a branch."),
    click.Option(
        ["--sarif", "sarif"],
        type=click.Path(dir_okay=False, path_type=Path),
        help="Also write the report as SARIF 2.1.0, which forges show beside the lines.",
    ),
    click.Option(["--override", "ids"], multiple=True, metavar="ID", help="Let this finding pass (repeatable)."),
    click.Option(["--reason", "reason"], help="With --override: why the branch may be merged all the same."),
    click.Option(
        ["--identity", "identity"],
        metavar="NAME",
        help="With --override: who answers for it; git's user.name and user.email by default.",
    ),
    click.Option(
        ["--setup", "setup"],
        type=click.Choice(["pre-commit", "github", "gitlab"]),
        help="Write a git hook or a workflow that runs the gate, and do nothing else.",
    ),
    with_fields=False,
)
def gate(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Check a branch; exit with status 1 if a finding has no override."""
    from engrambus.operations import OPERATIONS

    if "setup" in values:
        _write_setup(session, values["setup"])
        return
    ids, reason, identity = values.get("ids", ()), values.get("reason"), values.get("identity")
    if bool(ids) != (reason is not None):
        raise click.UsageError("--override and --reason go together.")
    branch = _branch(session, values)
    if branch is None:
        session.note("There is no commit yet, so no line has a history.")
        return
    for engram_id in ids:
        about = {"id": engram_id, "reason": reason, "identity": identity or _git_identity(session)}
        session.call(OPERATIONS["override_gate"], {**branch, **about})
    answer: GateAnswer = session.call(operation, branch)
    if "sarif" in values:
        _write_sarif(values["sarif"], answer)
    session.print_answer(operation, answer)
    if not answer.passed:
        click.get_current_context().exit(1)


def _write_setup(session: Session, choice: str) -> None:
    from engrambus.edges.integrations.gate_setup import write_gate_file

    session.note(f"Written: {safe(str(write_gate_file(choice, _top(session))))}")


def _top(session: Session) -> Path:
    """Return the top folder of the checkout that the command was started in."""
    from engrambus.errors import NoRepository

    top = session.worktree
    if top is None:
        raise NoRepository
    return top


def _branch(session: Session, values: Values) -> dict[str, str] | None:
    """Return the commits to compare; None where something is staged for the first commit of all."""
    from engrambus.errors import RevisionNotFound
    from engrambus.evidence.pointers import GitRepository

    top = _top(session)
    repository = GitRepository(top)
    if values["staged"]:
        if "base" in values or "head" in values:
            raise click.UsageError("--staged compares what is staged with HEAD; it takes no other revision.")
        index = session.settings.environment.get("GIT_INDEX_FILE")  # git names it to its hooks
        try:
            base = repository.head(top)
        except RevisionNotFound:
            return None
        return {"base": base, "head": repository.commit_index(top, Path(index) if index else None)}
    try:
        head = repository.expand(values.get("head", "HEAD"), top)
        return {"base": _expand_base(repository, top, values.get("base")), "head": head}
    except RevisionNotFound as refusal:
        refusal.field = None
        refusal.hint = "Name the branch to merge into: --base origin/main. In CI, fetch the whole history first."
        raise


def _expand_base(repository: GitRepository, top: Path, base: str | None) -> str:
    """Return the commit of the branch to merge into; without a name, of the usual one that exists."""
    from engrambus.errors import RevisionNotFound

    if base is None:
        with suppress(RevisionNotFound):
            return repository.expand("main", top)
        with suppress(RevisionNotFound):
            return repository.expand("master", top)
    return repository.expand(base or "main", top)


def _git_identity(session: Session) -> str | None:
    """Return the name and the address that git commits under here."""
    from engrambus.evidence.pointers import git_identity

    return git_identity(session.worktree or session.folder)


def _write_sarif(path: Path, answer: GateAnswer) -> None:
    import msgspec

    from engrambus.knowledge.gate import sarif_log
    from engrambus.version import __version__

    log = sarif_log(answer.findings, head=answer.head, version=__version__)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(log), indent=2) + b"\n")
