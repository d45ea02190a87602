"""Yools from code: functions and commands with their contracts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engrambus.core import new_ulid
from engrambus.errors import EngramBusError, YoolArguments, YoolContract, YoolNotFound, YoolTwice
from engrambus.policy import create_project
from engrambus.space.catalog import (
    INTROSPECTION,
    REGISTRY,
    Catalog,
    Contract,
    Registry,
    Terms,
    fill_argv,
    write_catalog,
)
from tests.catalog.test_names import make_entry


def test_a_function_is_registered_with_its_contract_and_stays_a_function() -> None:  # YT-03
    registry = Registry()

    @registry.yool(
        "agent.lint.ruff.v2",
        lane="build",
        effect="pure",
        authority=["ci", "user"],
        terms={"budget_usd": 0.05, "cpu_quota_pct": 30},
        inputs=["src/**/*.py", "${path}"],
        env=["PATH", "LANG", "PATH"],
        cost_usd=0.01,
        cost_tokens=12,
    )
    def lint(path: str) -> str:
        """Lint a file.

        More about it.
        """
        return f"linted {path}"

    assert lint("x.py") == "linted x.py"
    yool = registry.lookup("agent.lint.ruff")
    assert yool.run is lint
    assert yool.kind == "function"
    assert yool.entry.full_name == "agent.lint.ruff.v2"
    assert yool.entry.authority == ("user", "ci")
    assert yool.entry.admits("ci")
    assert not yool.entry.admits("agent")
    assert yool.entry.terms == Terms(budget_micros=50_000, cpu_quota_pct=30)
    assert yool.entry.about == "Lint a file."
    assert yool.entry.contract == Contract(
        effect="pure", inputs=("src/**/*.py", "${path}"), env=("LANG", "PATH"), cost_micros=10_000, cost_tokens=12
    )


def test_functions_async_functions_and_commands_are_distinguished() -> None:  # YT-03
    registry = Registry()

    @registry.yool("net.fetch", lane="net", effect="reads")
    async def fetch(url: str) -> str:
        return url

    registry.yool("agent.lint.ruff", lane="build", about="Enforces style")(["ruff", "check", "${path}"])
    assert asyncio.run(fetch("x")) == "x"
    assert [(yool.entry.name, yool.kind) for yool in registry] == [
        ("agent.lint.ruff", "command"),
        ("net.fetch", "async"),
    ]
    assert registry.lookup("agent.lint.ruff.v1").run == ("ruff", "check", "${path}")
    assert registry.lookup("agent.lint.ruff").entry.about == "Enforces style"
    assert registry.lookup("net.fetch").entry.authority == ("user", "ci")


def test_names_resolve_to_the_newest_version_registered() -> None:  # YT-01
    registry = Registry()
    for version in (2, 10, 1):
        registry.yool(f"net.fetch.v{version}", lane="net")(["curl", str(version)])
    assert registry.lookup("net.fetch").entry.version == 10
    assert registry.lookup("net.fetch.v2").run == ("curl", "2")
    assert registry.get("net.fetch.v3") is None
    with pytest.raises(YoolNotFound, match="No imported code"):
        registry.lookup("net.post")


def test_a_version_is_registered_by_one_implementation_only() -> None:  # YT-03
    registry = Registry()

    def run() -> None: ...

    registry.yool("net.fetch", lane="net")(run)
    registry.yool("net.fetch.v1", lane="net")(run)  # the same module imported again
    with pytest.raises(YoolTwice, match=r"net\.fetch\.v1") as refused:
        registry.yool("net.fetch", lane="net")(["curl"])
    assert "net.fetch.v2" in (refused.value.hint or "")
    with pytest.raises(YoolTwice, match="with different declarations"):
        registry.yool("net.fetch", lane="net", authority=["ci"])(run)
    assert registry.lookup("net.fetch").run is run
    assert registry.lookup("net.fetch").entry.authority == ("user", "ci")


def test_registering_the_same_command_again_is_allowed() -> None:  # YT-03
    registry = Registry()
    for _ in range(2):
        registry.yool("net.fetch", lane="net")(["curl"])
    with pytest.raises(YoolTwice, match=r"net\.fetch\.v1"):
        registry.yool("net.fetch", lane="net")(["wget"])


SCRIPT = "def first(): ...\n\n\ndef second(): ...\n"


def test_a_function_of_a_script_equals_the_same_function_imported_as_a_module() -> None:  # YT-03
    loaded: dict[str, dict[str, Any]] = {}
    for name in ("__main__", "pipeline", "__mp_main__", "copied"):
        loaded[name] = {"__name__": name}
        exec(compile(SCRIPT, "copied.py" if name == "copied" else "pipeline.py", "exec"), loaded[name])
    for script_names in (("__main__", "__mp_main__"), ("__mp_main__", "__main__")):
        registry = Registry()
        for name in (script_names[0], "pipeline", script_names[1]):
            registry.yool("net.fetch", lane="net")(loaded[name]["first"])
        assert registry.lookup("net.fetch").run is loaded["pipeline"]["first"]  # which any process can import
        for different in (loaded["__main__"]["second"], loaded["copied"]["first"]):
            with pytest.raises(YoolTwice):
                registry.yool("net.fetch", lane="net")(different)


def test_a_single_authority_needs_no_list() -> None:  # YT-03
    registry = Registry()
    registry.yool("net.fetch", lane="net", authority="user")(["curl"])
    assert registry.lookup("net.fetch").entry.authority == ("user",)


@pytest.mark.parametrize(
    ("code", "register"),
    [
        ("YOOL_NAME", lambda registry: registry.yool("fetch", lane="net")),
        ("YOOL_RESERVED", lambda registry: registry.yool("catalog.mine", lane="net")),
        ("LANE_NAME", lambda registry: registry.yool("net.fetch", lane="")),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane=5)),
        ("YOOL_CONTRACT", lambda registry: registry.yool(5, lane="net")),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", about=5)),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", inputs="data.txt")),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", inputs=5)),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", env="PATH")),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", env=[5])),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", authority=5)),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", cost_tokens=1.5)),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", cost_tokens=True)),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", cost_tokens="x")),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", cost_tokens=1 << 60)),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", cached=0)),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", cached="no")),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", effect=["pure"])),
        ("TERMS_INVALID", lambda registry: registry.yool("net.fetch", lane="net", cost_usd=float("inf"))),
        ("TERMS_INVALID", lambda registry: registry.yool("net.fetch", lane="net", cost_usd=float("nan"))),
        ("TERMS_INVALID", lambda registry: registry.yool("net.fetch", lane="net", cost_usd="1")),
        ("TERMS_INVALID", lambda registry: registry.yool("net.fetch", lane="net", cost_usd=True)),
        ("TERMS_INVALID", lambda registry: registry.yool("net.fetch", lane="net", terms=0)),
        ("AUTHORITY_INVALID", lambda registry: registry.yool("net.fetch", lane="net", authority=["me"])),
        ("AUTHORITY_INVALID", lambda registry: registry.yool("net.fetch", lane="net", authority=[])),
        ("TERMS_INVALID", lambda registry: registry.yool("net.fetch", lane="net", terms={"speed": 1})),
        ("TERMS_INVALID", lambda registry: registry.yool("net.fetch", lane="net", cost_usd=0.00000001)),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", effect="both")),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", cost_tokens=-1)),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", inputs=["/etc/passwd"])),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", inputs=["a/../../b"])),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", env=[""])),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net", env=map(str, range(99)))),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net")([])),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net")(["a\0b"])),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net")(["${tool}"])),
        ("YOOL_CONTRACT", lambda registry: registry.yool("net.fetch", lane="net")("curl x")),
    ],
)
def test_an_invalid_declaration_is_refused_and_not_registered(
    code: str, register: Callable[[Registry], Any]
) -> None:  # YT-03
    registry = Registry()
    with pytest.raises(EngramBusError) as refused:
        register(registry)
    assert refused.value.code == code
    assert list(registry) == []


def test_each_argument_stays_one_argument_of_the_command() -> None:  # YT-03
    argv = ("ruff", "check", "--config=${config}", "${path}")
    hostile = "a b; rm -rf / $(id) `id` ${config}"
    assert fill_argv(argv, {"config": "-x", "path": hostile}) == ["ruff", "check", "--config=-x", hostile]
    assert fill_argv(["head", "-n", "${lines}"], {"lines": 3}) == ["head", "-n", "3"]


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"path": "x", "more": 1},
        {"path": "-rf"},
        {"path": ["x"]},
        {"path": True},
        {"path": None},
        {"path": "a\0"},
        {"path": "x" * 40_000},
    ],
)
def test_invalid_arguments_of_a_command_are_refused(args: dict[str, Any]) -> None:  # YT-03
    with pytest.raises(YoolArguments) as refused:
        fill_argv(["cat", "${path}"], args)
    assert (refused.value.field or "").startswith("args.")


def test_steps_can_query_the_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # YT-01
    monkeypatch.chdir(tmp_path)
    create_project(tmp_path, new_ulid(0))
    old = Catalog([make_entry("agent.lint.ruff"), make_entry("net.fetch")])
    write_catalog(tmp_path / "old.json", old)
    write_catalog(
        tmp_path / ".catalog" / "capabilities.json", old.remove("net.fetch").add(make_entry("agent.lint.ruff.v2"))
    )
    assert {yool.entry.name for yool in INTROSPECTION} == {"catalog.lookup", "catalog.list_by_lane", "catalog.diff"}

    def call(yool: str, **args: str) -> Any:
        run = REGISTRY.lookup(yool).run
        assert callable(run)
        return run(**args)

    assert call("catalog.lookup", name="agent.lint.ruff")["yool_id"] == "agent.lint.ruff.v2"
    assert next(row["yool_id"] for row in call("catalog.list_by_lane", lane="catalog")) == "catalog.diff.v1"
    assert call("catalog.diff", old="old.json") == {
        "added": ["agent.lint.ruff.v2"],
        "removed": ["net.fetch.v1"],
        "changed": [],
    }
    with pytest.raises(EngramBusError, match="outside"):
        call("catalog.diff", old="../old.json")
    with pytest.raises(EngramBusError, match="no such file") as missing:
        call("catalog.diff", old="older.json")
    assert (missing.value.code, missing.value.field) == ("CATALOG_FILE", "old")
    with pytest.raises(EngramBusError) as invalid:
        call("catalog.list_by_lane", lane="No Lane")
    assert invalid.value.code == "LANE_NAME"
    for yool in INTROSPECTION:
        assert (yool.entry.contract.effect, yool.entry.contract.cached) == ("reads", False)
        assert yool.entry.admits("agent")


def test_a_result_is_reused_only_if_inputs_are_declared() -> None:  # YT-09, YT-22
    registry = Registry()
    registry.yool("agent.say.nothing", lane="build")(["true"])
    registry.yool("agent.read.nothing", lane="build", inputs=[])(["true"])
    registry.yool("agent.read.some", lane="build", inputs=["src"], cached=True)(["true"])
    registry.yool("agent.run.always", lane="build", inputs=["src"], cached=False)(["true"])
    assert [(yool.entry.name, yool.entry.contract.is_reusable) for yool in registry] == [
        ("agent.read.nothing", True),
        ("agent.read.some", True),
        ("agent.run.always", False),
        ("agent.say.nothing", False),
    ]
    with pytest.raises(YoolContract, match="cached=True needs inputs") as refused:
        registry.yool("agent.lint.ruff", lane="build", cached=True)
    assert (refused.value.field, "inputs=[]" in (refused.value.hint or "")) == ("inputs", True)
