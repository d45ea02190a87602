"""The adapter with the real LightRAG, which has an environment of its own (`make test` installs it)."""  # EB-23

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.docs.examples import ROOT, Reader, examples, plain

INSTALLED = ROOT / ".venv" / "rag" / "bin" / "python"
"""Where `make test` installs it."""
PAGE = ROOT / "docs" / "lightrag.md"


@pytest.fixture(scope="module")
def python() -> str:
    """Return the interpreter that has LightRAG; without it, tests are skipped on a laptop and fail in CI."""
    if INSTALLED.exists():
        return str(INSTALLED)
    reason = "no LightRAG here: `make .venv/.rag` installs it"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def run(command: list[str], folder: Path) -> str:
    """Run a command, which must succeed, with an environment of its own and return what it prints."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("src", "examples", ".")),
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_cases_pass_with_the_real_package(python: str, tmp_path: Path) -> None:
    cases = str(ROOT / "tests" / "adapters" / "rag_cases.py")
    # without the configuration of this suite, whose plugins are not installed there
    options = ["-q", "-W", "error", "-p", "no:cacheprovider", "--noconftest", "-c", os.devnull, "--rootdir", str(ROOT)]
    shown = run([python, "-m", "pytest", *options, cases], tmp_path)
    assert " passed" in shown
    assert "skipped" not in shown


def test_the_examples_of_the_page_print_what_it_says(python: str, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    done = 0
    for example in examples(PAGE):
        if example.language == "python":
            run([python, "-W", "error", "-c", example.command], reader.clone)
        else:
            program = example.command.removeprefix("python ")
            shown = run([python, "-W", "error", str(ROOT / program)], tmp_path)
            assert plain(shown) == plain(example.expected)
        done += 1
    assert done == 2
