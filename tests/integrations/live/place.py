"""A project and a home in which a real client works."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from engrambus.edges.sdk import Bus
from tests.cli.runner import COMMAND
from tests.integrations.live.model import Model, Script, serving_model
from tests.integrations.live.programs import Program, find_program
from tests.projects import Repository, commit_files, make_repository, make_settings

SECONDS = 180
"""How long a client may take for anything; on an idle machine the longest takes ten."""


class Said(NamedTuple):
    """What a process said."""

    code: int
    out: str
    """What it printed, on either stream."""

    def __str__(self) -> str:
        return f"exit {self.code}\n{self.out}"


class Place:
    """A client at work in a project of its own, with a home of its own and no way out of the machine."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program, self.command = program, find_program(program)
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        repository = make_repository(folder / "project")
        self.project = repository.path
        self.repository = Repository(self.project, commit_files(self.project, program.own))
        self.ok(COMMAND, "init")

    def install(self) -> None:
        """Tell the client of us, as a user would."""
        self.ok(COMMAND, "install", self.program.name)

    @contextmanager
    def bus(self) -> Iterator[Bus]:
        """The project's bus."""
        with Bus.open(self.project, settings=make_settings(self.home)) as bus:
            yield bus

    def files(self) -> dict[str, bytes]:
        """What lies in the project, but for the catalog and git's own."""
        matches = (path for path in self.project.rglob("*") if path.is_file())
        inside = {str(path.relative_to(self.project)): path for path in matches}
        return {name: path.read_bytes() for name, path in inside.items() if not name.startswith((".git/", ".catalog/"))}

    def listed(self) -> str | None:
        """What the client says of our server; nothing when it does not know it."""
        return self.program.lists(self.client("mcp", "list"))

    def client(self, *words: str) -> str:
        """What the client prints when it is told to do something that needs no model."""
        return self._client(words, Model(self.program.dialect, lambda request: "There is nothing to say.")).out

    def session(self, prompt: str, script: Script, *words: str) -> Model:
        """Have the client do something, with a model that follows a script, and was asked as the script expects."""
        model = Model(self.program.dialect, script)
        result = self._client([*self.program.ask(prompt), *words], model)
        assert model.asked, f"the model was asked nothing\n{result}"
        return model

    def _client(self, words: Sequence[str], model: Model) -> Said:
        with serving_model(model) as address:
            more = self.program.settle(self.home, self.project, address)
            proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), address)
            result = self.run(self.command, *words, more={**proxies, **more})
        assert not model.problems, "\n".join([*model.problems, str(result)])
        assert result.code == 0, str(result)
        return result

    def ok(self, *command: str) -> Said:
        """Run something that must succeed."""
        result = self.run(*command)
        assert result.code == 0, str(result)
        return result

    def run(self, *command: str, more: dict[str, str] | None = None) -> Said:
        """Run something in the project, with a bare environment; whatever it leaves running is ended."""
        environment = {
            "HOME": str(self.home),
            "TMPDIR": str(self.scratch),
            # The client's files are committed, so `install` needs to find itself on PATH (BX-15).
            "PATH": f"{Path(COMMAND).parent}{os.pathsep}{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            **(more or {}),
        }
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(
                command,
                cwd=self.project,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code: int | None = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                code = None
            with suppress(ProcessLookupError):  # mostly, nothing is left
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            out.seek(0)
            output = out.read().decode(errors="replace")
        assert code is not None, f"{command} took more than {SECONDS} seconds\n{output}"
        return Said(code, output)
