"""Yool names: their syntax, how they are resolved, and the rules of the linter."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import EngramBusError, LaneName, YoolName, YoolReserved
from engrambus.space.catalog import (
    Catalog,
    CatalogEntry,
    Contract,
    lint_change,
    lint_contract,
    lint_name,
    parse_name,
    read_lane,
)
from engrambus.space.catalog.names import MAX_BASE, MAX_NAME, check_not_reserved

PUBLISHED = [
    "agent.dev.python",
    "agent.dev.dotnet",
    "agent.dev.typescript",
    "agent.lint.ruff",
    "agent.lint.eslint",
    "agent.lint.dotnet",
    "agent.test.pytest",
    "agent.test.jest",
    "agent.test.e2e.playwright",
    "agent.security.scan",
    "agent.security.dependabot",
    "agent.pr.create",
    "agent.pr.review",
    "ide.cursor.send",
    "ide.zed.send",
    "ide.vscode.send",
    "ide.jetbrains.send",
    "op.jira.fetch_sprint",
    "op.azure.fetch_iteration",
    "op.linear.fetch_cycle",
    "op.github.fetch_issues",
    "fs.read_sector",
    "fs.write_receipt",
    "net.fetch",
    "net.post",
    "catalog.lookup",
    "catalog.list_by_lane",
    "catalog.diff",
    "fs.gc.run",
    "agent.deploy.staging",
    "agent.deploy.prod",
]

segments = st.from_regex(r"[a-z][a-z0-9_]{0,11}", fullmatch=True).filter(lambda text: not text[1:].isdigit())


def make_entry(name: str, **fields: object) -> CatalogEntry:
    """Return a catalog entry with that name."""
    base, version = parse_name(name)
    return CatalogEntry(name=base, version=version or 1, authority=("user",), lane="build", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_name_is_valid_and_has_no_flaw(name: str) -> None:  # YT-01
    assert parse_name(name) == (name, None)
    assert parse_name(f"{name}.v12") == (name, 12)
    assert lint_name(name) == []


@given(st.lists(segments, min_size=2, max_size=5), st.none() | st.integers(1, 999_999))
def test_two_to_five_segments_and_an_optional_version_are_a_name(
    parts: list[str], version: int | None
) -> None:  # YT-01
    base = ".".join(parts)
    assert parse_name(base if version is None else f"{base}.v{version}") == (base, version)


INVALID_NAMES = [
    *("", ".", "agent", "agent.v1", "a.b.c.d.e.f", "a.b.c.d.e.f.v1", "agent..dev", ".agent.dev", "agent.dev."),
    *("Agent.dev", "agent.Dev", "agent.dev-x", "agent.dev x", "agent.1dev", "agent._dev", "agent.dév", "agent.dev\n"),
    *("agent.dev.v0", "agent.dev.v01", "agent.dev.v1000000", "agent.v2.dev", "agent.dev.v1.v2", "v1.v2"),
    *("agent.dev.v1 ", "agent.dev\0", "a." + "b" * 41, "agent.dev.\ud800", "agent.dev.${stack}"),
]


@pytest.mark.parametrize("text", INVALID_NAMES, ids=ascii)
def test_an_invalid_name_is_refused_with_a_hint(text: str) -> None:  # YT-01
    with pytest.raises(YoolName) as refused:
        parse_name(text, "yool_id", 7)
    assert (refused.value.field, refused.value.line) == ("yool_id", 7)
    assert refused.value.hint


def test_a_name_has_a_length_limit() -> None:  # YT-01
    with pytest.raises(YoolName) as refused:
        parse_name("agent." + "x" * MAX_NAME)
    assert refused.value.limit == MAX_NAME


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:  # YT-01
    try:
        base, version = parse_name(text)
    except YoolName:
        return
    assert text == (base if version is None else f"{base}.v{version}")


def test_names_of_the_domain_catalog_are_reserved() -> None:  # YT-01
    with pytest.raises(YoolReserved):
        check_not_reserved("catalog.lookup")
    check_not_reserved("catalogue.lookup")


@pytest.mark.parametrize("lane", ["build", "gc.urgent", "build-2", "a_b"])
def test_a_valid_lane_is_returned(lane: str) -> None:  # YT-06
    assert read_lane(lane) == lane


@pytest.mark.parametrize("lane", ["", "Build", "build.", ".build", "build lane", "1st", "x" * 65, "a..b", "b\n"])
def test_an_invalid_lane_is_refused(lane: str) -> None:  # YT-06
    with pytest.raises(LaneName):
        read_lane(lane)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("agent.lint_and_test.python", "several-verbs"),
        ("agent.lint_test.python", "several-verbs"),
        ("agent.deploy.all_envs", "fan-out"),
        ("agent.do.thing", "opaque"),
        ("tool.lint.ruff", "domain"),
    ],
)
def test_the_published_anti_patterns_are_found(name: str, rule: str) -> None:  # YT-01
    flaws = lint_name(f"{name}.v1", line=3)
    assert rule in [flaw.rule for flaw in flaws]
    assert all(flaw.line == 3 and flaw.yool == f"{name}.v1" for flaw in flaws)


@pytest.mark.parametrize(
    "name",
    [
        "op.github.fetch_commit",
        "op.github.create_release",
        "op.ci.fetch_build",
        "agent.pr.post_review",
        "op.k8s.get_process",
        "op.file.get_handle",
        "agent.fix_lint.python",
        "agent.write_test.python",
    ],
)
def test_a_verb_that_is_the_object_of_another_is_not_a_second_verb(name: str) -> None:  # YT-01
    assert lint_name(name) == []


@pytest.mark.parametrize("name", ["agent.fetch_get.python", "agent.build_test.python", "agent.create_deploy.python"])
def test_two_verbs_are_a_flaw(name: str) -> None:  # YT-01
    assert [flaw.rule for flaw in lint_name(name)] == ["several-verbs"]


@pytest.mark.parametrize("name", ["agent.process.files", "agent.handle_input.web", "agent.fetch_stuff.web"])
def test_words_that_name_no_action_are_a_flaw(name: str) -> None:  # YT-01
    assert [flaw.rule for flaw in lint_name(name)] == ["opaque"]


def test_a_rename_is_breaking_and_a_new_version_is_not() -> None:  # YT-01
    old = Catalog([make_entry("agent.dev.python.v1", agent="dev"), make_entry("agent.lint.ruff.v1")])
    bumped = old.add(make_entry("agent.dev.python.v2", agent="dev"))
    assert lint_change(old, bumped) == []
    renamed = old.remove("agent.dev.python.v1").add(make_entry("agent.develop.python.v1", agent="dev"))
    [flaw] = lint_change(old, renamed)
    assert flaw.rule == "gone"
    assert "renamed to 'agent.develop.python.v1'" in flaw.message
    assert "agent.dev.python.v2" in flaw.message
    [gone] = lint_change(bumped, old)
    assert "'agent.dev.python.v2' is gone" in gone.message
    [replaced] = lint_change(old, bumped.remove("agent.dev.python.v1"))
    assert "'agent.dev.python.v1' is gone" in replaced.message
    assert "keep it next to 'agent.dev.python.v2'" in replaced.message


def test_a_weaker_promise_under_the_same_version_is_a_flaw() -> None:  # YT-01
    pure = Catalog([make_entry("agent.lint.ruff.v1", contract=Contract(effect="pure"))])
    writes = Catalog([make_entry("agent.lint.ruff.v1", contract=Contract(effect="writes"))])
    assert [flaw.rule for flaw in lint_change(pure, writes)] == ["effect"]
    assert lint_change(pure, pure) == []
    assert lint_change(writes, pure) == [], "promising more breaks nothing"
    declared = Catalog([make_entry("agent.lint.ruff.v1", contract=Contract(effect="pure", inputs=("a",), env=("E",)))])
    assert lint_change(writes, declared) == [], "the default contract declares no dependencies"
    assert [flaw.rule for flaw in lint_change(declared, writes)] == ["effect", "inputs"]


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("authority", {"authority": ("user",)}),
        ("inputs", {"contract": Contract(effect="pure", inputs=("b",), env=("E",))}),
        ("inputs", {"contract": Contract(effect="pure", inputs=("a",))}),
        ("cached", {"contract": Contract(effect="pure", inputs=("a",), env=("E",), cached=False)}),
    ],
)
def test_a_change_that_needs_a_new_version_is_a_flaw(rule: str, change: dict[str, Any]) -> None:  # YT-01
    fields = {"authority": ("user", "ci"), "contract": Contract(effect="pure", inputs=("a",), env=("E",))}
    old = msgspec.structs.replace(make_entry("agent.lint.ruff"), **fields)
    was, now = Catalog([old]), Catalog([msgspec.structs.replace(old, **change)])
    [flaw] = lint_change(was, now)
    assert (flaw.rule, flaw.yool) == (rule, "agent.lint.ruff.v1")
    assert flaw.message.endswith("that takes a new version.")
    if rule != "inputs":
        assert lint_change(now, was) == []


def test_the_longest_name_leaves_room_for_every_version() -> None:  # YT-01
    longest = ".".join(["a" * 40, "b" * 40, "c" * 30])
    assert len(longest) == MAX_BASE
    assert parse_name(f"{longest}.v999999") == (longest, 999_999)
    for text in (f"{longest}c", f"{longest}c.v1", longest + "c" * 8):
        with pytest.raises(EngramBusError) as refused:
            parse_name(text)
        base = text.removesuffix(".v1")
        assert (refused.value.limit, refused.value.used) == (MAX_BASE, len(base))


def test_a_name_without_a_version_resolves_to_the_newest() -> None:  # YT-01
    catalog = Catalog(
        [make_entry("agent.lint.ruff.v2"), make_entry("agent.lint.ruff.v10"), make_entry("agent.lint.ruff")]
    )
    assert catalog.lookup("agent.lint.ruff").version == 10
    assert catalog.lookup("agent.lint.ruff.v2").version == 2
    assert catalog.lookup("agent.lint.ruff.v1").full_name == "agent.lint.ruff.v1"
    with pytest.raises(EngramBusError) as refused:
        catalog.lookup("agent.lint.ruff.v3")
    assert refused.value.problem()["nearest"] == ["agent.lint.ruff.v10", "agent.lint.ruff.v2", "agent.lint.ruff.v1"]


def test_a_yool_that_does_not_say_which_files_it_reads_is_a_flaw() -> None:  # YT-09, YT-22
    [flaw] = lint_contract(make_entry("agent.lint.ruff.v1", contract=Contract(effect="reads")), 7)
    assert (flaw.rule, flaw.yool, flaw.line) == ("no-inputs", "agent.lint.ruff.v1", 7)
    assert "inputs=[]" in flaw.message
    for contract in (Contract(inputs=()), Contract(inputs=("src",)), Contract(cached=False)):
        assert lint_contract(make_entry("agent.lint.ruff.v1", contract=contract)) == []


def test_declaring_inputs_later_breaks_no_promise() -> None:  # YT-01
    undeclared = Catalog([make_entry("agent.lint.ruff.v1", contract=Contract(effect="reads", env=("E",)))])
    declared = Contract(effect="reads", env=("E",), inputs=("src",))
    assert lint_change(undeclared, Catalog([make_entry("agent.lint.ruff.v1", contract=declared)])) == []
    [flaw] = lint_change(Catalog([make_entry("agent.lint.ruff.v1", contract=declared)]), undeclared)
    assert flaw.rule == "inputs"
