"""`make smoke`: the built wheel in a bare environment, used as somebody who just installed it would."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Build, install, import, init, put, query."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(home), str(ROOT)], home)
        (wheel,) = home.glob("*.whl")
        bare = home / "bare"
        venv.create(bare, with_pip=True)
        python = str(bare / "bin" / "python")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--require-hashes", "-r", str(ROOT / "requirements" / "run.txt")], home)
        run([*pip, "--no-deps", str(wheel)], home)
        run([python, "-W", "error", "-c", "import engrambus; engrambus.Bus; import engrambus.testing"], home)
        page = "from engrambus.edges.page.assets import shell; shell()"
        run([python, "-W", "error", "-c", page], home)
        engrambus = str(bare / "bin" / "engrambus")
        version = run([engrambus, "--version"], home)
        project = home / "project"
        project.mkdir()
        (project / "notes.py").write_text("answer = 42\n")
        who = ["-c", "user.name=smoke", "-c", "user.email=smoke@example.invalid"]
        for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
            run(["git", *command], project)
        run([engrambus, "init"], project)
        run([engrambus, "put", "The answer is 42.", "--at", "notes.py:1"], project)
        found = run([engrambus, "query", "answer"], project)
        if "The answer is 42." not in found:
            raise SystemExit(f"the engram was not found again:\n{found}")
        run([engrambus, "install", "claude-code"], project)
        if not (project / ".claude" / "skills" / "less" / "SKILL.md").is_file():
            raise SystemExit("the skill pack did not come out of the wheel")
        told = '{"hook_event_name": "SessionStart", "session_id": "smoke", "cwd": "' + str(project) + '"}'
        if "The answer is 42." not in run([engrambus, "hook"], project, told):
            raise SystemExit("the hook does not tell the brief")
        run([engrambus, "uninstall", "claude-code"], project)
        if (project / ".claude").exists() or (project / ".mcp.json").exists():
            raise SystemExit("uninstall left something behind")
        print(f"{wheel.name}: {version.strip()}; init, put, query, install and hook work in a bare environment")


def run(command: list[str], folder: Path, given: str = "") -> str:
    """Run a command in an environment that knows nothing of this checkout."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "ENGRAMBUS_URL")
    }
    environment["HOME"] = str(folder)
    done = subprocess.run(command, cwd=folder, env=environment, input=given, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
