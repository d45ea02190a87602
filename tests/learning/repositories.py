"""Repositories to learn from, made for one test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from engrambus.edges.cli.commands.learn import LearnReport, learn_from
from engrambus.gateway import LOCAL_ADMIN, Gateway
from tests.projects import git, make_gateway, make_settings

FILES: dict[str, str | bytes] = {
    "CLAUDE.md": "# Rules\n\n- Never edit generated files by hand, because the next build overwrites them.\n",
    "AGENTS.md": "# For agents\n\nRun the whole suite before a commit; it must be green.\n",
    ".claude/rules/style.md": "Names of quantities must always end with their unit.\n",
    "CONTRIBUTING.md": "# Contributing\n\n## Rules\n\nEvery change needs a test that fails without it.\n",
    "docs/adr/0001-use-sqlite.md": "# 1. Use SQLite for the index\n\nStatus: accepted\n\n## Context\n\n"
    "PostgreSQL must be installed, which most users of a laptop will not do.\n\n## Decision\n\n"
    "We keep the index in SQLite, because it needs no server.\n",
    "CHANGELOG.md": "# Changelog\n\n## 2.1.0\n\n- Dropped support for Python 3.8, because it is no longer "
    "maintained.\n\n## 2.0.0\n\n- Renamed the option `--fast` to `--quick`.\n",
    ".github/CODEOWNERS": "* @acme/core\n/docs/ @writers\n",
    ".github/workflows/test.yml": "name: Tests\njobs:\n  test:\n    strategy:\n      matrix:\n"
    '        python: ["3.11", "3.12"]\n    steps:\n      - name: Run the suite\n        run: pytest\n',
    ".pre-commit-config.yaml": "repos:\n  - repo: local\n    hooks:\n      - id: ruff\n      - id: mypy\n",
    "pyproject.toml": '[project]\nname = "acme"\nrequires-python = ">=3.11"\n',
    "src/acme/ledger.py": '"""The ledger of accounts, which must always balance."""\n\n\nclass Ledger:\n'
    '    """Accounts and their bookings; a booking is never changed once it is stored."""\n\n    def close(self):\n'
    "        # TODO: refuse to close a ledger that does not balance\n        pass\n",
    "tests/test_ledger.py": "from acme.ledger import Ledger\n\n\ndef test_an_empty_ledger_balances():\n"
    '    """An empty ledger must balance, because its sum is zero."""\n    assert Ledger()\n',
}
"""One file for each source."""
WHY = "Round half to even in reports\n\nBanks round this way, and a cent was missing every month because we did not.\n"


def make(path: Path, files: Mapping[str, str | bytes] = FILES, message: str = WHY) -> Path:
    """Create a repository in which the first commit is a plain file and the second has everything."""
    path.mkdir(parents=True, exist_ok=True)
    git(path, "init", "-q", "-b", "main")
    commit(path, {"src/acme/report.py": "def total(values):\n    return round(sum(values))\n"}, "Initial commit")
    commit(path, {**files, "src/acme/report.py": "def total(values):\n    return round(sum(values), 2)\n"}, message)
    return path


def commit(path: Path, files: Mapping[str, str | bytes | None], message: str, day: int = 1) -> str:
    """Write files, or remove those that are None, and commit them on a day of 2025."""
    for name, content in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
    git(path, "add", "-A")
    commit_message(path, message.encode(), day)
    return git(path, "rev-parse", "HEAD")


def commit_message(path: Path, message: bytes, day: int = 1) -> None:
    """Commit what is staged with a message of any bytes."""
    moment = f"2025-01-01T00:00:00Z +{day} days" if day < 0 else f"{1_735_689_600 + day * 86_400} +0000"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_DATE": moment,
        "GIT_COMMITTER_DATE": moment,
    }
    subprocess.run(
        ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-q", "--allow-empty",
         "--cleanup=verbatim", "--allow-empty-message", "-F", "-"],
        cwd=path, env=environment, input=message, check=True, capture_output=True,
    )  # fmt: skip


def open_project(path: Path, home: Path) -> Gateway:
    """Create a project in a repository and open it."""
    return make_gateway(path, make_settings(home))


def learn(gateway: Gateway, *, dry_run: bool = False, fresh: bool = False, limit: int | None = None) -> LearnReport:
    """Learn from the project's repository."""
    return learn_from(gateway, LOCAL_ADMIN, dry_run=dry_run, fresh=fresh, limit=limit)


def claims(gateway: Gateway) -> dict[str, tuple[str, str, str]]:
    """Return kind, source and first ref of everything that was learned and is live, by claim."""
    with gateway.store.read() as view:
        rows = view.learned_engrams()
        engrams = view.engrams([row.ordinal for row in rows])
    return {
        engram.claim: (engram.kind, row.learned.source, engram.pointers[0].ref)
        for row, engram in zip(rows, engrams, strict=True)
    }
