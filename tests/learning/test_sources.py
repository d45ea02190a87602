"""Each source of a repository as pure functions: what becomes a draft, and what is left out (BX-09)."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.knowledge.learning import (
    SOURCES,
    Draft,
    SourceCommit,
    commit_draft,
    coverage_drafts,
    plan_of,
    read_file,
    select,
)
from engrambus.knowledge.learning.quoting import quote


def drafts_of(path: str, text: str | bytes) -> list[Draft]:
    """Return what a file says."""
    return list(read_file(path, "b" * 40, text if isinstance(text, bytes) else text.encode()).drafts)


def texts_of(path: str, text: str) -> list[str]:
    """Return the claims of a file."""
    return [quote(draft).claim for draft in drafts_of(path, text)]


def message(text: str, paths: tuple[str, ...] = ("src/a.py",), author: str = "Ada") -> Draft | None:
    """Return what a commit with this message says."""
    commit = SourceCommit(id="a" * 40, parent="b" * 40, time_s=1, author=author, message=text, paths=paths)
    return commit_draft(commit)


@pytest.mark.parametrize(
    "text",
    [
        "Merge pull request #7 from x/y", "Bump version to 2.1.0", "Bump requests from 2.1 to 2.2", "Release 1.0",
        "Fix typo", "fix typos in docs", "wip", "[pre-commit.ci] pre-commit autoupdate", "Update CHANGELOG.md",
        "v1.2.3", "Initial commit", "lint", "black", "chore(deps): update x", "Fixes", "2.0.1", "Add changelog",
    ],
)  # fmt: skip
def test_routine_commits_explain_nothing(text: str) -> None:
    assert message(text) is None


def test_commits_of_bots_and_sweeps_through_many_files_are_left_out() -> None:
    text = "Use one lock for both, because two of them could deadlock"
    assert message(text) is not None
    assert message(text, author="dependabot[bot]") is None
    assert message(text, paths=tuple(f"src/{number}.py" for number in range(60))) is None


def test_a_commit_is_quoted_with_its_reason_and_without_trailers() -> None:
    draft = message(
        "Close sockets early (#12)\n\nAdd some tests.\n\nReaders share a pool. Otherwise the pool ran dry, because a "
        "reader that stopped\nkept its socket.\n\nFixes #9\nCo-authored-by: Bob <bob@example.org>\n"
    )
    assert draft is not None
    assert quote(draft).claim == (
        "Close sockets early. Readers share a pool. Otherwise the pool ran dry, because a reader that stopped "
        "kept its socket."
    )


def test_a_reason_counts_more_than_a_bare_subject() -> None:
    bare, reasoned = (
        message("Close sockets early in the pool"),
        message("Close sockets\n\nThey leak, because of a race."),
    )
    assert bare is not None
    assert reasoned is not None
    assert reasoned.points > bare.points


def test_the_file_of_a_commit_is_the_source_that_its_message_names() -> None:
    paths = ("docs/pool.md", "src/other.py", "src/pool.py", "tests/test_pool.py")
    draft = message("Close the pools early, because sockets leak", paths)
    assert draft is not None
    assert draft.path == "src/pool.py"


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("CLAUDE.md", "instructions"), ("pkg/deep/AGENTS.md", "instructions"), (".claude/rules/a.md", "instructions"),
        ("docs/adr/0001-x.md", "decision"), ("doc/adr/2-y.rst", "decision"), ("docs/decisions/0003-z.md", "decision"),
        ("rfcs/12.md", "decision"), ("CODEOWNERS", "owners"), (".github/CODEOWNERS", "owners"),
        ("CONTRIBUTING.rst", "contributing"), (".github/CONTRIBUTING.md", "contributing"), ("CHANGES.rst", "changelog"),
        ("docs/changelog.md", "changelog"), (".github/workflows/ci.yml", "ci"), (".gitlab-ci.yml", "ci"),
        (".pre-commit-config.yaml", "ci"), ("pyproject.toml", "ci"), ("docs/guide/start.md", "docs"),
        ("README.md", "docs"),
    ],
)  # fmt: skip
def test_a_path_belongs_to_its_source(path: str, source: str) -> None:
    plan = plan_of(path)
    assert plan is not None
    assert plan.source is not None
    assert plan.source.name == source


@pytest.mark.parametrize(
    "path", ["node_modules/x/README.md", "vendor/a.py", "logo.png", "poetry.lock", "docs/adr/README.md", "a/dist/x.js"]
)
def test_what_others_wrote_and_what_is_no_text_is_not_read(path: str) -> None:
    plan = plan_of(path)
    assert plan is None or plan.source is None or plan.source.name == "docs"
    if not path.startswith("docs/"):
        assert plan is None


def test_a_changelog_names_its_versions_in_markdown_and_restructured_text() -> None:
    markdown = "# Changes\n\n## [2.1.0] - 2025-01-01\n\n### Fixed\n\n- The cache is no longer shared between threads.\n"
    assert texts_of("CHANGELOG.md", markdown) == ["2.1.0: The cache is no longer shared between threads."]
    entry = "-   Deprecate the ``__version__`` attribute in\n    favour of metadata. :issue:`12`\n"
    text = f"Version 8.2.0\n-------------\n\n{entry}"
    assert texts_of("CHANGES.rst", text) == ["8.2.0: Deprecate the `__version__` attribute in favour of metadata."]


def test_a_decision_is_its_title_with_what_was_decided() -> None:
    text = (
        "# ADR 7: Use UTC everywhere\n\n* Status: accepted\n\n## Context\n\nLocal times broke every autumn.\n\n"
        "## Decision Outcome\n\nAll times are stored in UTC, so that they can be compared.\n\n```sql\nSELECT 1\n```\n"
    )
    (first, *_) = drafts_of("docs/adr/0007-utc.md", text)
    assert quote(first).claim == "Use UTC everywhere. All times are stored in UTC, so that they can be compared."
    assert (first.first, first.last) == (1, 11)


def test_todo_comments_of_several_languages_with_their_continuation() -> None:
    assert texts_of("a.py", "x = 1  # TODO(ada): drop this when 3.9 is gone\n") == ["TODO: drop this when 3.9 is gone"]
    rust = "// FIXME: the parser copies every line,\n// which is slow for large files\nfn f() {}\n"
    assert texts_of("a.rs", rust) == ["FIXME: the parser copies every line, which is slow for large files"]
    assert texts_of("a.c", "/* HACK: works around a bug in the linker */\n") == [
        "HACK: works around a bug in the linker"
    ]
    assert texts_of("a.py", 'text = "TODO list of the whole application"\n') == []


@pytest.mark.parametrize(
    ("path", "text", "claim"),
    [
        ("a.py", 'class Pool:\n    """Sockets that are reused; never shared between threads."""\n',
         "Pool: Sockets that are reused; never shared between threads."),
        ("a.rs", "/// Searches a file; the caller must hold the lock.\npub fn search(path: &str) {}\n",
         "search: Searches a file; the caller must hold the lock."),
        ("a.go", "// Close releases the lock; it must be called once.\nfunc Close() {}\n",
         "Close: Close releases the lock; it must be called once."),
        ("a.ts", "/**\n * Opens the store; never call it twice.\n * @param x y\n */\nexport function open() {}\n",
         "open: Opens the store; never call it twice."),
    ],
)  # fmt: skip
def test_public_documentation_has_its_name(path: str, text: str, claim: str) -> None:
    assert texts_of(path, text) == [claim]


def test_private_names_are_not_public_documentation() -> None:
    assert texts_of("a.py", 'def _hidden():\n    """This must never be called by others than us."""\n') == []


def test_a_test_file_covers_the_module_it_is_named_after_or_imports_from() -> None:
    named = read_file("tests/test_pool.py", "b" * 40, b"def test_it_closes():\n    pass\n")
    imported = read_file(
        "tests/test_all.py", "c" * 40, b"from acme.store import Store\n\ndef test_it_opens():\n    pass\n"
    )
    paths = ["src/acme/pool.py", "src/acme/store.py", "tests/test_pool.py", "tests/test_all.py"]
    claims = [
        draft.sentences[0]
        for draft in coverage_drafts({"tests/test_pool.py": named, "tests/test_all.py": imported}, paths)
    ]
    assert claims == [
        "tests/test_all.py covers src/acme/store.py: it opens.",
        "tests/test_pool.py covers src/acme/pool.py: it closes.",
    ]


TEXT = st.text(st.characters(codec="utf-8"), max_size=300) | st.text(string.printable, max_size=300)
PATHS = st.sampled_from(
    ["CLAUDE.md", "CHANGES.rst", "docs/adr/1-a.md", "CODEOWNERS", ".github/workflows/a.yml", "a.py", "tests/test_a.py",
     "a.rs", "a.go", "a.js", ".pre-commit-config.yaml", "pyproject.toml", "README.md"]
)  # fmt: skip


@given(PATHS, st.lists(TEXT, max_size=12).map("\n".join))
def test_any_text_is_read_and_every_draft_points_at_lines_that_exist(path: str, text: str) -> None:
    data = text.encode("utf-8", "replace")
    for draft in read_file(path, "b" * 40, data).drafts:
        assert 1 <= draft.first <= draft.last <= data.count(b"\n") + 1
        quotation = quote(draft)
        assert bool(quotation.claim) != bool(quotation.reason)
        assert len(quotation.claim) <= 500


DRAFTS = st.lists(
    st.builds(
        Draft,
        source=st.sampled_from(SOURCES),
        kind=st.just("fact"),
        sentences=st.integers(0, 400).map(lambda number: (f"Part number {number} must be started before the others.",)),
        path=st.sampled_from(["a.py", "b.md", "gone.py"]),
        first=st.integers(1, 50),
        last=st.just(50),
        points=st.integers(0, 60),
        time_s=st.integers(0, 10**9),
    ),
    max_size=120,
)


@given(DRAFTS, st.integers(1, 40), st.randoms())
def test_a_selection_is_bounded_shared_and_the_same_in_every_order(
    drafts: list[Draft], limit: int, random: object
) -> None:
    first = select(drafts, paths={"a.py", "b.md"}.__contains__, newest_s=10**9, limit=limit)
    shuffled = list(drafts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    second = select(shuffled, paths={"a.py", "b.md"}.__contains__, newest_s=10**9, limit=limit)
    assert [chosen.claim for chosen in first.chosen] == [chosen.claim for chosen in second.chosen]
    assert len(first.chosen) <= limit
    by_source = [chosen.draft.source for chosen in first.chosen]
    assert all(by_source.count(source) <= max(1, int(limit * 0.4)) for source in by_source)
    assert len({chosen.claim for chosen in first.chosen}) == len(first.chosen)
