"""Signatures of yools: read from code at `catalog build`, and checked when a tuple is put. # YT-06"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from engrambus.errors import CatalogFile, YoolArguments
from engrambus.space.catalog import (
    Registry,
    Signature,
    build_catalog,
    check_arguments,
    describe_signature,
    parse_catalog,
    read_agents,
)
from engrambus.space.catalog.capabilities_file import print_catalog
from engrambus.space.catalog.signatures import read_signature

if TYPE_CHECKING:
    from decimal import Decimal


def lint(path: str, fix: bool = False, *, level: int | None = None, only: Literal["a", "b"] = "a") -> None: ...
def collect(paths: list[str], weights: dict[str, float], to: Path, ratio: float = 0.5) -> None: ...
def late(amount: Decimal, currency: str = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013
def anything(name: str, **more: Any) -> None: ...
def nothing() -> None: ...
def by_position(a: int, /) -> None: ...


def _wrapped(function: Callable[..., None]) -> Callable[..., None]:
    @wraps(function)
    def call(*args: Any, **options: Any) -> None:
        function("added", *args, **options)

    return call


@pytest.mark.parametrize(
    ("run", "described"),
    [
        (
            lint,
            "path (string), fix (boolean, optional), level (integer or null, optional), only (string, optional)",
        ),
        (collect, "paths (array), weights (object), to, ratio (number, optional)"),
        (late, "amount, currency (optional)"),  # the annotations exist for type checkers only
        (anything, "name (string), any other"),
        (nothing, "none"),
        (("cat", "${path}", "-${how}", "${path}"), "path (string or number), how (string or number)"),
        (_wrapped(lint), "any other"),  # what the decorator passes on is not known
        (partial(lint, "src"), "fix (optional), level (optional), only (optional)"),
    ],
)  # fmt: skip
def test_the_arguments_are_read_from_the_code(run: Any, described: str) -> None:
    signature = read_signature(run)
    assert signature is not None
    assert describe_signature(signature) == described


def test_code_that_does_not_say_what_it_takes_is_not_checked() -> None:
    assert read_signature(by_position) is None


@pytest.mark.parametrize(
    ("run", "args", "field", "words"),
    [
        (lint, {"paht": "src"}, "payload[2].args.paht", ("takes no argument 'paht'", "Did you mean 'path'?")),
        (lint, {"path": "src", "quiet": True}, "payload[2].args.quiet", ("takes no argument 'quiet'",)),
        (lint, {}, "payload[2].args.path", ("needs the argument 'path'",)),
        (lint, {"path": 7}, "payload[2].args.path", ("another type", "path (string)")),
        (lint, {"path": "src", "fix": "yes"}, "payload[2].args.fix", ("another type",)),
        (lint, {"path": "src", "level": True}, "payload[2].args.level", ("another type",)),
        (lint, {"path": "src", "level": 1.5}, "payload[2].args.level", ("another type",)),
        (collect, {"paths": "a", "weights": {}, "to": 1}, "payload[2].args.paths", ("another type",)),
        (("cat", "${path}"), {"path": ["a"]}, "payload[2].args.path", ("another type",)),
        (("cat", "${path}"), {}, "payload[2].args.path", ("needs the argument",)),
        (nothing, {"x" * 200: 1}, "payload[2].args." + "x" * 40, ("takes no argument",)),
    ],
)
def test_other_arguments_are_refused(run: Any, args: dict[str, Any], field: str, words: tuple[str, ...]) -> None:
    """The error names the field, the yool and the arguments it takes."""
    signature = read_signature(run)
    assert signature is not None
    with pytest.raises(YoolArguments) as refused:
        check_arguments("agent.lint.ruff.v1", signature, args, 2)
    assert refused.value.field == field
    assert refused.value.limit == describe_signature(signature)
    text = f"{refused.value.detail} {refused.value.limit} {refused.value.hint}"
    assert all(word in text for word in ("agent.lint.ruff.v1", "engrambus catalog build", *words)), text


@pytest.mark.parametrize(
    ("run", "args"),
    [
        (lint, {"path": "src", "fix": True, "level": None, "only": "b"}),
        (lint, {"path": "src", "level": 1.0}),
        (collect, {"paths": [], "weights": {"a": 1}, "to": {"any": "thing"}, "ratio": 1}),
        (late, {"amount": [1], "currency": None}),
        (anything, {"name": "x", "other": 1}),
        (("cat", "${path}"), {"path": 7}),
    ],
)
def test_fitting_arguments_are_accepted(run: Any, args: dict[str, Any]) -> None:
    signature = read_signature(run)
    assert signature is not None
    check_arguments("agent.lint.ruff.v1", signature, args, 0)


def test_the_catalog_file_carries_the_arguments_of_code() -> None:
    """An entry of AGENTS.md alone has none, and neither has an older catalog file: they are not checked."""
    registry = Registry()
    for name, run in (("agent.dev.python", lint), ("agent.count.all", nothing), ("agent.do.more", anything)):
        registry.yool(name, lane="build")(run)
    declared = read_agents("# Agents\n\n## Agents\n\n### Dev\n\n- yool_id: agent.dev.python\n- lane: dev\n"
                           "- authority: [user]\n\n### Docs\n\n- yool_id: agent.write.docs\n- lane: dev\n"
                           "- authority: [user]\n", ("python",)).yools  # fmt: skip
    catalog = build_catalog(declared, registry)
    read = parse_catalog(print_catalog(catalog))
    assert read.root == catalog.root
    assert read.lookup("agent.dev.python").arguments == read_signature(lint)
    assert read.lookup("agent.count.all").arguments == Signature()
    assert read.lookup("agent.write.docs").arguments is None
    older = print_catalog(catalog).replace('"arguments":{},', "")
    assert parse_catalog(older).lookup("agent.count.all").arguments is None


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ('{"parameters":[{"name":"a","types":["text"]}]}', "yools[0].arguments.parameters[0].types[0]"),
        ('{"parameters":[{"types":[]}]}', "yools[0].arguments.parameters[0]"),
        ('{"more":1}', "yools[0].arguments"),
        ('"path"', "yools[0].arguments"),
        (json.dumps({"parameters": [{"name": f"a{n}"} for n in range(257)]}), "yools[0].arguments.parameters"),
    ],
)
def test_a_catalog_file_with_other_arguments_is_refused(arguments: str, field: str) -> None:
    entry = f'{{"yool_id":"agent.a.b.v1","authority":["user"],"lane":"build","arguments":{arguments}}}'
    with pytest.raises(CatalogFile) as refused:
        parse_catalog(f'{{"schema":"yool-catalog/v1","yools":[{entry}]}}')
    assert refused.value.field == field
