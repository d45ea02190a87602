"""Real ruff and pytest in a scratch repository: one worker has the linter, another the tests."""  # YT-06 # YT-22

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from engrambus.settings import Settings
from tests.projects import Repository
from tests.space.terminal import open_terminal

YOOL = 'from engrambus import yool\n\nyool("{name}", lane="build", inputs=["src", "tests"], env=["PATH"])({argv})\n'


def test_a_task_moves_from_the_linters_worker_to_that_of_the_tests(
    repository: Repository, settings: Settings, tmp_path: Path
) -> None:
    terminal = open_terminal(repository, settings, tmp_path)
    terminal.environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{terminal.environment['PATH']}"
    root = repository.path
    for folder in ("src", "tests"):
        (root / folder).mkdir(exist_ok=True)
    (root / "tests/test_sum.py").write_text("def test_sum():\n    assert 1 + 2 == 3\n")
    ruff, pytest = ["ruff", "check", "--no-cache", "tests"], ["pytest", "-q", "-p", "no:cacheprovider", "tests"]
    (root / "linters.py").write_text(YOOL.format(name="agent.lint.ruff", argv=ruff))
    (root / "checks.py").write_text(YOOL.format(name="agent.test.pytest", argv=pytest))
    (root / "AGENTS.md").write_text("# Agents\n\n## Agents\n")
    terminal.run("catalog", "build", "--import", "linters", "--import", "checks")
    payload: list[dict[str, object]] = [{"yool": name, "args": {}} for name in ("agent.lint.ruff", "agent.test.pytest")]
    (root / "task.json").write_text(json.dumps({"lane": "build", "payload": payload}))
    tuple_id = terminal.json("dispatch", "task.json")["id"]
    work = ("worker", "--lane", "build", "--until-empty", "--import")
    first = terminal.run(*work, "linters")
    assert "agent.lint.ruff  " in first
    assert "1 tuple needs agent.test.pytest.v1, which no code here carries out: --import MODULE" in first
    assert terminal.json("observe", tuple_id)["state"] == "waiting"
    assert terminal.json("dead")["dead"] == []
    terminal.run(*work, "checks")
    status = terminal.json("observe", tuple_id)
    assert (status["state"], [step["exit"] for step in status["steps"]]) == ("done", [0, 0])
