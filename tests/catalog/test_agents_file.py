"""`AGENTS.md`, in the form of the specification and in the forms people write."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.errors import AuthorityInvalid, EngramBusError
from engrambus.space.catalog import Registry, Terms, build_catalog, find_stacks, read_agents

PRINTED = """\
## Agents

### dev-agent
- yool_id: agent.dev.${stack}.v1
- authority: [user, ci]
- lane: build
- agent_terms:
budget_usd: 0.50
cpu_quota_pct: 60
disk_quota_mb: 100
- Role: implements code from spec
- Triggers: new task in .specs/sprints/

### lint-agent
- yool_id: agent.lint.${stack}.v1
- authority: [user, ci]
- lane: build
- agent_terms:
budget_usd: 0.05
cpu_quota_pct: 30
disk_quota_mb: 10
- Role: enforces style
- Triggers: post-edit
"""
WITHOUT_YOOL = "## Agents\n\n### dev-agent\n- Role: implements code from spec\n- Stack: auto-detect\n"


def agent(*lines: str) -> str:
    """Return a file of one agent; the first of `lines` is line 4."""
    return "\n".join(["# Rules", "## Agents", "### dev", *lines]) + "\n"


YOOL, AUTHORITY, LANE = "- yool_id: agent.dev.python", "- authority: [user]", "- lane: build"
TERMS = ("- agent_terms:", "    cpu_quota_pct: 30")


def test_the_specified_form_is_read_for_every_stack() -> None:  # YT-03
    content = read_agents(PRINTED, ("python", "dotnet"))
    assert content.agent_count == 2
    assert [(yool.entry.full_name, yool.line) for yool in content.yools] == [
        ("agent.dev.python.v1", 4),
        ("agent.dev.dotnet.v1", 4),
        ("agent.lint.python.v1", 15),
        ("agent.lint.dotnet.v1", 15),
    ]
    entry = content.yools[0].entry
    assert entry.authority == ("user", "ci")
    assert entry.lane == "build"
    assert entry.terms == Terms(budget_micros=500_000, cpu_quota_pct=60, disk_quota_mb=100)
    assert (entry.agent, entry.about) == ("dev-agent", "implements code from spec")


@pytest.mark.parametrize("indent", ["  ", "    ", "\t", "  - ", "    * "])
def test_terms_may_be_indented_or_listed(indent: str) -> None:  # YT-03
    text = "".join(
        f"{indent}{line}\n" if line[0] in "bcd" and ":" in line else f"{line}\n" for line in PRINTED.split("\n") if line
    )
    yools, expected = read_agents(text, ("go",)).yools, read_agents(PRINTED, ("go",)).yools
    assert [yool.entry for yool in yools] == [yool.entry for yool in expected]


def test_unusual_but_unambiguous_files_are_read() -> None:  # YT-03
    text = (
        "\ufeff# AGENTS\r\n\r\nProse: with a colon.\r\n\r\n# Agents #\r\n\r\n## dev `x`\r\n"
        "* YOOL_ID: `agent.dev.python`\r\n* authority: ci\r\n* lane: `build`\r\n"
        "* agent_terms: {budget_usd: 1, max_retries: 2}   # by flow\r\n* Role: one\r\n* Role: two\r\n"
        "### Notes\r\n- command: not a field of the agent's own list\r\n"
    )
    with pytest.raises(EngramBusError) as refused:  # a list below a sub-heading still belongs to the agent
        read_agents(text, ())
    assert refused.value.code == "COMMAND_DECLARED"
    [declared] = read_agents(text.replace("- command", "command"), ()).yools
    assert declared.entry.full_name == "agent.dev.python.v1"
    assert declared.entry.terms == Terms(budget_micros=1_000_000, max_retries=2)
    assert declared.entry.about == "one"


@pytest.mark.parametrize(
    "between",
    [
        ["    # a comment"],
        ["  # a comment"],
        ["            # a comment"],
        ["    <!-- a comment", "    of two lines -->"],
        ["    # a comment", ""],
        [""],
        [],
    ],
)
@pytest.mark.parametrize(
    "second",
    [
        "    memory_mb: 64",
        "    `memory_mb`: 64",
        "    **memory_mb:** 64",
        "    memory_mb:64",
        "  - memory_mb: 64 <!-- ! -->",
    ],
)
def test_no_term_is_lost_after_a_comment_or_with_formatting(between: list[str], second: str) -> None:  # YT-03
    [declared] = read_agents(agent(YOOL, AUTHORITY, LANE, *TERMS, *between, second, "- Role: dear"), ()).yools
    assert declared.entry.terms == Terms(cpu_quota_pct=30, memory_mb=64)
    assert declared.entry.about == "dear"


def test_unindented_text_after_a_blank_line_is_not_a_term() -> None:  # YT-03
    [declared] = read_agents(
        agent(YOOL, AUTHORITY, LANE, *TERMS, "", "Note: be careful.", "memory_mb: a lot"), ()
    ).yools
    assert declared.entry.terms == Terms(cpu_quota_pct=30)


@pytest.mark.parametrize(
    "lines",
    [
        ["```make lint``` is run first."],
        ["1. ```bash", "   make lint", "   ```"],
        ["- see:", "  ~~~", "  # Agents", "  ~~~"],
        ["Text <!-- one --> and <!-- another,", "longer --> one."],
        ["It begins with `<!--`."],
        ["    ```", "", "not a fence"],
        ["> ```", "", "a quote ends with its line"],
    ],
)
def test_closed_fences_comments_and_quotes_hide_no_later_agent(lines: list[str]) -> None:  # YT-03
    text = agent(*lines, "", " ### next ##", YOOL, AUTHORITY, LANE)
    [declared] = read_agents(text, ()).yools
    assert (declared.entry.agent, declared.line) == ("next", 6 + len(lines))


def test_field_names_may_be_formatted_and_headings_underlined() -> None:  # YT-03
    fields = "- **yool_id**: fs.read.a\n- **authority:** user\n- `lane`: `build` <!-- ! -->\n"
    text = f"Agents\n======\n\nlinter\n------\n{fields}"
    [declared] = read_agents(text, ()).yools
    assert (declared.entry.full_name, declared.entry.lane, declared.line) == ("fs.read.a.v1", "build", 6)
    assert declared.entry.agent == "linter"


def test_a_file_titled_agents_may_have_a_section_agents() -> None:  # YT-03
    first = "### a\n- yool_id: fs.read.a\n- authority: [user]\n- lane: build\n"
    second = "### b\n- yool_id: fs.read.b\n- authority: [user]\n- lane: build\n"
    text = f"# Agents\n\nHow we work.\n\n## Agents\n\n{first}\n{second}\n## Style\n- Lines are short.\n"
    content = read_agents(text, ())
    assert [yool.entry.full_name for yool in content.yools] == ["fs.read.a.v1", "fs.read.b.v1"]
    assert content.skipped == ()


def test_agents_without_a_yool_id_declare_nothing() -> None:  # YT-03
    content = read_agents(WITHOUT_YOOL, ())
    assert (content.agent_count, content.yools, content.skipped) == (0, (), ("dev-agent",))
    assert read_agents("# Rules\n\nBe kind.\n", ()).agent_count == 0
    assert read_agents("", ()).agent_count == 0
    assert read_agents(agent("- run: now", "- run: then", "- lane: of her own"), ()).agent_count == 0


def test_very_long_lines_do_not_time_out() -> None:  # YT-03
    spaces = " " * 300_000
    assert read_agents(f"# {spaces}x\n- a:{spaces}\n{spaces}- b", ()).agent_count == 0
    assert read_agents(f"## Agents\n### {'#' * 400_000}x\n- {'y' * 400_000}", ()).agent_count == 0


@pytest.mark.parametrize("fence", [("```markdown", "```"), ("~~~~", "~~~~"), ("<!--", "-->")])
def test_examples_in_fences_and_comments_declare_nothing(fence: tuple[str, str]) -> None:  # YT-03
    assert read_agents(f"{fence[0]}\n{PRINTED}\n{fence[1]}\n", ("go",)).yools == ()
    assert len(read_agents(f"{fence[0]}\nx\n{fence[1]}\n{PRINTED}", ("go",)).yools) == 2


REFUSED = {
    agent(YOOL, AUTHORITY): ("FIELD_MISSING", "lane", 4),
    agent(YOOL, LANE): ("FIELD_MISSING", "authority", 4),
    agent("- yool_id: agent", AUTHORITY, LANE): ("YOOL_NAME", "yool_id", 4),
    agent("- yool_id:", AUTHORITY, LANE): ("YOOL_NAME", "yool_id", 4),
    agent("- yool_id: agent.dev.${lang}", AUTHORITY, LANE): ("YOOL_NAME", "yool_id", 4),
    agent("- yool_id: agent.dev.${stack}", AUTHORITY, LANE): ("STACK_UNKNOWN", "yool_id", 4),
    agent("- yool_id: catalog.lookup", AUTHORITY, LANE): ("YOOL_RESERVED", "yool_id", 4),
    agent(YOOL, "- authority: [user, root]", LANE): ("AUTHORITY_INVALID", "authority", 5),
    agent(YOOL, "- authority: user, ci", LANE): ("AUTHORITY_INVALID", "authority", 5),
    agent(YOOL, "- authority: []", LANE): ("AUTHORITY_INVALID", "authority", 5),
    agent(YOOL, "- authority: [user", LANE): ("AGENTS_FILE", "authority", 5),
    agent(YOOL, "- authority: &a [user]", LANE): ("AGENTS_FILE", "authority", 5),
    agent(YOOL, AUTHORITY, "- lane: Build It"): ("LANE_NAME", "lane", 6),
    agent(YOOL, AUTHORITY, LANE, "- command: rm -rf /"): ("COMMAND_DECLARED", "command", 7),
    agent(YOOL, AUTHORITY, LANE, "- Run: make"): ("COMMAND_DECLARED", "run", 7),
    agent(YOOL, AUTHORITY, LANE, YOOL): ("AGENTS_FILE", "yool_id", 7),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms:", "  budget_usd: 1", "  budget_usd: 2"): (
        "AGENTS_FILE",
        "budget_usd",
        9,
    ),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms:", "  budget_usd: lots"): (
        "TERMS_INVALID",
        "agent_terms.budget_usd",
        8,
    ),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms:", "  budget_usd:"): ("TERMS_INVALID", "agent_terms.budget_usd", 8),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms:", "  budget_usd: -1"): ("TERMS_INVALID", "agent_terms.budget_usd", 8),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms:", "  budget_usd: true"): (
        "TERMS_INVALID",
        "agent_terms.budget_usd",
        8,
    ),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms:", "  budget_usd: 1e400"): ("AGENTS_FILE", "agent_terms.budget_usd", 8),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms:", "  speed: 9"): ("TERMS_INVALID", "agent_terms.speed", 8),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms:", "  deadline_iso: 2026-05-19"): (
        "TERMS_INVALID",
        "agent_terms.deadline_iso",
        8,
    ),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms: 7"): ("TERMS_INVALID", "agent_terms", 7),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms: {cpu_quota_pct: 200}"): (
        "TERMS_INVALID",
        "agent_terms.cpu_quota_pct",
        7,
    ),
    agent(YOOL, AUTHORITY, LANE, "### again", YOOL + ".v1", AUTHORITY, LANE): ("YOOL_TWICE", "yool_id", 8),
    agent(YOOL, AUTHORITY, LANE, *TERMS, "    budget-usd: 0.05"): ("TERMS_INVALID", "agent_terms.budget-usd", 9),
    agent(YOOL, AUTHORITY, LANE, *TERMS, "    budget_usd = 0.05"): ("AGENTS_FILE", "agent_terms", 9),
    agent(YOOL, AUTHORITY, LANE, *TERMS, "    and little money"): ("AGENTS_FILE", "agent_terms", 9),
    agent(YOOL, AUTHORITY, LANE, *TERMS, "", "    and little money"): ("AGENTS_FILE", "agent_terms", 10),
    agent(YOOL, AUTHORITY, LANE, *TERMS, "  ```yaml", "  budget_usd: 1", "  ```"): ("AGENTS_FILE", "agent_terms", 9),
    agent(YOOL, AUTHORITY, LANE, *TERMS, "", "        budget_usd: 1"): ("AGENTS_FILE", "agent_terms", 10),
    agent(YOOL, AUTHORITY, LANE, *TERMS, "# cheap", "budget_usd: 1"): ("AGENTS_FILE", "agent_terms.budget_usd", 9),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms:"): ("AGENTS_FILE", "agent_terms", 7),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms:", "```yaml", "budget_usd: 1", "```"): (
        "AGENTS_FILE",
        "agent_terms",
        7,
    ),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms:", "- budget_usd: 1"): ("AGENTS_FILE", "budget_usd", 8),
    agent(YOOL, AUTHORITY, LANE, "- budget_usd: 1"): ("AGENTS_FILE", "budget_usd", 7),
    agent(YOOL, AUTHORITY, LANE, "- agent_terms: {budget_usd: 1}", "    memory_mb: 9"): (
        "AGENTS_FILE",
        "agent_terms",
        8,
    ),
    agent(YOOL, AUTHORITY, LANE, "```", "x", "### more", YOOL): ("AGENTS_FILE", None, 7),
    agent(YOOL, AUTHORITY, LANE, "1. ```bash", "make", "```", "### more", YOOL): ("AGENTS_FILE", None, 9),
    agent(YOOL, AUTHORITY, LANE, "<!-- old", "### more", YOOL): ("AGENTS_FILE", None, 7),
    agent(YOOL, AUTHORITY, "- lane: build <!-- old", "- agent_terms: {}", "-->"): ("AGENTS_FILE", None, 6),
    agent(YOOL, AUTHORITY, LANE, "", "Text <!-- old", "- Role: none", "-->"): ("AGENTS_FILE", None, 8),
    f"# Agents\n{YOOL}\n": ("AGENTS_FILE", "yool_id", 2),
    f"# Rules\n{YOOL}\n": ("AGENTS_FILE", "yool_id", 2),
    "x" * (1 << 20) + "y": ("AGENTS_FILE", None, None),
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[-60:])
def test_invalid_declarations_are_refused_with_code_field_and_line(text: str) -> None:  # YT-03
    with pytest.raises(EngramBusError) as refused:
        read_agents(text, ())
    assert (refused.value.code, refused.value.field, refused.value.line) == REFUSED[text]


@pytest.mark.parametrize("stack", ["C++", "", "v1", "a.b", "python 3"])
def test_a_stack_must_be_a_segment_of_a_name(stack: str) -> None:  # YT-03
    with pytest.raises(EngramBusError) as refused:
        read_agents(PRINTED, (stack,))
    assert refused.value.code == "STACK_UNKNOWN"


@settings(deadline=None)
@given(st.text() | st.lists(st.sampled_from(PRINTED.split("\n"))).map("\n".join))
def test_any_text_is_read_or_refused(text: str) -> None:  # YT-03
    try:
        content = read_agents(text, ("python",))
    except EngramBusError:
        return
    assert len(build_catalog(content.yools)) <= len(content.yools)


def test_stacks_are_detected_by_the_files_of_a_project(tmp_path: Path) -> None:  # YT-03
    assert find_stacks(tmp_path) == ()
    for name in ("pyproject.toml", "web/package.json", "web/tsconfig.json", "api/Api.csproj", "srv/go.mod"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for hidden in ("node_modules", ".venv", "vendor"):
        (tmp_path / hidden).mkdir()
        (tmp_path / hidden / "Cargo.toml").touch()
    assert find_stacks(tmp_path) == ("dotnet", "go", "python", "typescript")
    (tmp_path / "package.json").touch()
    assert "javascript" in find_stacks(tmp_path)


def test_a_yool_in_file_and_code_has_the_terms_of_the_file_and_the_contract_of_the_code() -> None:  # YT-03
    registry = Registry()
    registry.yool("agent.dev.python", lane="slow", effect="pure", authority=["ci", "agent"], terms={"max_retries": 2})(
        lambda: None
    )
    registry.yool("net.fetch", lane="net")(["curl", "${url}"])
    catalog = build_catalog(read_agents(PRINTED, ("python",)).yools, registry)
    combined = catalog.lookup("agent.dev.python")
    assert combined.lane == "build"
    assert combined.contract.effect == "pure"
    assert combined.authority == ("ci",), "a file can remove authority and never add any"
    assert combined.terms.max_retries == 2
    assert combined.terms.budget_micros == 500_000
    assert catalog.lookup("net.fetch").lane == "net"
    agents_only = Registry()
    agents_only.yool("agent.dev.python", lane="build", authority=["agent"])(lambda: None)
    with pytest.raises(AuthorityInvalid) as refused:
        build_catalog(read_agents(PRINTED, ("python",)).yools, agents_only)
    assert refused.value.line == 4
