"""The same hooks hold on the command line, over HTTP and MCP, in the SDK and in workers. # YT-16"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engrambus import Bus, EngramBusError, Worker
from engrambus.app import open_project
from engrambus.settings import Settings
from engrambus.space.catalog import CAPABILITIES, REGISTRY, Catalog, write_catalog
from mcp import Client
from tests.http.running_server import run_server
from tests.mcp.transports import over_http, text_of
from tests.primitive_hooks.hooks import REASON, Behaviour, Scripted
from tests.projects import Repository, make_gateway
from tests.space.terminal import WORK, Terminal, open_terminal
from tests.space.worker_harness import YOOLS

CODES: dict[Behaviour, str] = {"veto": "HOOK_VETO", "raise": "HOOK_FAILED", "hang": "HOOK_TIMEOUT"}
ADD = {"yool": "agent.sum.numbers", "args": {"a": 1, "b": 2}}
DISPATCHED = {"lane": "build", "payload": [ADD]}
COMMANDS: dict[str, tuple[str, ...]] = {
    "out": ("out", "--lane", "notes"),
    "rd": ("rd", "--lane", "notes"),
    "in": ("in", "--lane", "notes"),
    "cancel": ("cancel", "ID"),
    "record": ("artifact", "add", "docs/design.md"),
}
WORKED = ["claim", "step_start", "step_complete", "tuple_complete"]


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """A project with a note and a catalog; hooks come with the environment of each command."""
    from tests.projects import make_repository

    folder = tmp_path_factory.mktemp("hooked")
    settings = Settings.from_environment({"HOME": str(folder / "home")})
    terminal = open_terminal(make_repository(folder / "repository"), settings, folder, "tests.space.yools")
    terminal.run("out", "--lane", "notes")
    return terminal


def hooked(terminal: Terminal, behaviour: str, *primitives: str) -> Terminal:
    """Return a terminal whose processes have a hook that the operator named in the environment."""
    other = object.__new__(Terminal)
    other.path = terminal.path
    other.environment = {
        **terminal.environment,
        "ENGRAMBUS_HOOKS": "tests.primitive_hooks.hooks",
        "ENGRAMBUS_HOOK_SECONDS": "0.3",
        "TEST_HOOK": behaviour,
        "TEST_HOOK_PRIMITIVES": " ".join(primitives),
    }
    return other


def journal(terminal: Terminal) -> bytes:
    return (terminal.path / ".catalog" / "tuples.jsonl").read_bytes()


@pytest.mark.parametrize("behaviour", CODES)
@pytest.mark.parametrize("primitive", COMMANDS)
def test_on_the_command_line(terminal: Terminal, primitive: str, behaviour: Behaviour) -> None:
    note = json.loads(terminal.run("rd", "--lane", "notes", "--json"))["tuple"]["id"]
    words = [note if word == "ID" else word for word in COMMANDS[primitive]]
    before = journal(terminal)
    process = hooked(terminal, behaviour, primitive).start(*words, "--json")
    _, errors = process.communicate(timeout=120)
    problem = json.loads(errors.splitlines()[-1])
    assert process.returncode != 0
    assert (problem["code"], problem["hook"]) == (CODES[behaviour], "friday")
    assert journal(terminal) == before


@pytest.mark.parametrize("behaviour", CODES)
@pytest.mark.parametrize("primitive", WORKED)
def test_in_a_worker_process(terminal: Terminal, primitive: str, behaviour: Behaviour) -> None:
    put = terminal.json(
        "out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=2", "--no-cache"
    )["id"]
    process = hooked(terminal, behaviour, primitive).start(*WORK)
    _, errors = process.communicate(timeout=120)
    assert "Traceback" not in errors
    status = terminal.json("observe", put)
    if primitive == "claim":
        assert (status["state"], status["attempts"]) == ("waiting", 0)
        assert "friday" in errors
        terminal.run("cancel", put)
    elif behaviour == "veto":
        assert (status["state"], status["attempts"]) == ("dead", 1)
        assert f"HOOK_VETO: The hook 'friday' refuses {primitive}: {REASON}" in status["error"]
        assert process.returncode != 0
    else:  # a broken hook is a fault, so the tuple is retried until its attempts are used up
        assert (status["state"], status["attempts"]) == ("dead", 3)
        assert CODES[behaviour] in status["error"]


def test_a_dispatch_passes_the_hooks(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "tuple.json"
    file.write_text(json.dumps(DISPATCHED))
    assert "HOOK_VETO" in hooked(terminal, "veto", "out").run("dispatch", str(file), code=1)
    assert "HOOK_VETO" not in hooked(terminal, "veto", "in").run("dispatch", str(file))


def test_doctor_names_the_hooks(terminal: Terminal) -> None:
    def checks(terminal: Terminal) -> dict[str, Any]:
        process = terminal.start("doctor", "--json")
        printed, _ = process.communicate(timeout=120)
        return {item["check"]: item for item in json.loads(printed)["checks"]}

    found = checks(hooked(terminal, "observe", "out", "in"))["primitive hooks"]
    assert found["state"] == "ok"
    assert found["found"] == "friday (ENGRAMBUS_HOOKS tests.primitive_hooks.hooks): out, in; at most 0.3 s each"
    assert "primitive hooks" not in checks(terminal)
    broken = hooked(terminal, "observe")
    broken.environment["ENGRAMBUS_HOOKS"] = "no.such.module"
    assert checks(broken)["primitive hooks"]["state"] == "broken"


# In this process


@pytest.fixture
def project(repository: Repository, tmp_path: Path) -> Iterator[Settings]:
    """The settings of a project whose catalog has the tests' yools."""
    settings = Settings.from_environment(
        {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "ENGRAMBUS_HOOK_SECONDS": "0.2"}
    )
    make_gateway(repository.path, settings).close()
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([item.entry for item in YOOLS]))
    for item in YOOLS:
        REGISTRY.add(item)
    yield settings
    for item in YOOLS:
        REGISTRY._versions.pop(item.entry.name, None)


CALLS: dict[str, Callable[[Bus, str], Any]] = {
    "out": lambda bus, note: bus.tuple_out("notes"),
    "rd": lambda bus, note: bus.tuple_rd(lane="notes"),
    "in": lambda bus, note: bus.tuple_in(lane="notes"),
    "cancel": lambda bus, note: bus.cancel_tuple(note),
    "record": lambda bus, note: bus.store_artifact("def f():\n    return 1\n"),
}


@pytest.mark.parametrize("behaviour", CODES)
@pytest.mark.parametrize("primitive", CALLS)
def test_in_the_sdk(repository: Repository, project: Settings, primitive: Any, behaviour: Behaviour) -> None:
    with Bus.open(repository.path, settings=project) as plain:
        note = plain.tuple_out("notes").id
        hook = Scripted(behaviour, primitive)
        with Bus.open(repository.path, settings=project, hooks=[hook]) as bus:
            with pytest.raises(EngramBusError) as caught:
                CALLS[primitive](bus, note)
            assert caught.value.code == CODES[behaviour]
            assert hook.before_calls[0].caller.endswith("/admin")
        hook.released.set()
        CALLS[primitive](plain, note)


@pytest.mark.parametrize("behaviour", CODES)
def test_eval_in_the_sdk(repository: Repository, project: Settings, behaviour: Behaviour) -> None:
    hook = Scripted(behaviour, "eval")
    with Worker.open(repository.path, lane="build", settings=project, hooks=[hook]) as worker:
        with pytest.raises(EngramBusError) as caught:
            worker.eval({"lane": "own", "payload": [ADD]})
        assert caught.value.code == CODES[behaviour]
    hook.released.set()


@pytest.mark.parametrize("behaviour", CODES)
def test_over_http_and_mcp(repository: Repository, project: Settings, behaviour: Behaviour) -> None:
    hook = Scripted(behaviour, "out", "record")
    with (
        closing(open_project(repository.path, project, hooks=[hook])) as gateway,
        run_server(gateway, repository) as server,
    ):
        before = gateway.tuple_space.space.store.last_line()
        refused = server.call("POST", "/tuple", DISPATCHED)
        assert (refused.code, refused.status) == (CODES[behaviour], 403 if behaviour == "veto" else 503)
        assert refused.json["hook"] == "friday"
        assert server.call("POST", "/artifact", {"text": "x = 1"}).code == CODES[behaviour]
        child = server.add("coder")
        assert server.call("POST", "/tuple", DISPATCHED, token=child).code == CODES[behaviour]
        with Bus.connect(f"http://127.0.0.1:{server.port}", token=server.token) as remote:
            with pytest.raises(EngramBusError) as caught:
                remote.tuple_dispatch("build", payload=[ADD])
            assert caught.value.problem()["hook"] == "friday"

        async def talk(client: Client) -> None:
            answer = await client.call_tool("tuple_dispatch", DISPATCHED)
            assert answer.is_error
            assert text_of(answer).startswith(f"{CODES[behaviour]}: ")
            assert "hook: friday" in text_of(answer).splitlines()

        over_http(server, "auto", talk)
        assert gateway.tuple_space.space.store.last_line() == before
        assert [call.caller.rpartition("/")[2] for call in hook.before_calls] == [
            *("admin", "admin", "coder", "admin", "admin")
        ]
        agent = hook.before_calls[2].authority
        assert agent is not None
        assert agent["agent"]
        hook.released.set()
