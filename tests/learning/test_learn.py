"""`engrambus learn`: what a repository says becomes engrams, once, and follows the repository (BX-09)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from engrambus.edges.cli.commands.learn import count_claims
from engrambus.edges.cli.session import Session
from engrambus.gateway import LOCAL_ADMIN, Gateway, to_request
from engrambus.operations import OPERATIONS
from tests.cli.runner import Shell
from tests.learning.repositories import FILES, claims, commit, learn, make, open_project
from tests.projects import Repository, git


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """A project in a repository with one file for each source."""
    opened = open_project(make(tmp_path / "repository"), tmp_path / "home")
    yield opened
    opened.close()


def folder(gateway: Gateway) -> Path:
    """Return the folder of a project's repository."""
    return gateway.project_files.root


def test_every_source_becomes_an_engram_of_its_kind_that_points_at_its_lines(gateway: Gateway) -> None:  # BX-09
    learn(gateway)
    learned = claims(gateway)
    by_source = {source: (kind, claim, ref) for claim, (kind, source, ref) in learned.items()}
    kinds = {source: kind for source, (kind, _, _) in by_source.items()}
    assert kinds == {
        "instructions": "policy",
        "contributing": "policy",
        "decision": "decision",
        "owners": "policy",
        "ci": "policy",
        "changelog": "fact",
        "commit": "diff",
        "todo": "todo",
        "test": "test",
        "docstring": "fact",
    }
    with gateway.store.read() as view:
        for row in view.learned_engrams():
            (engram,) = view.engrams([row.ordinal])
            (pointer,) = engram.pointers
            assert gateway.evidence.read(pointer).digest == pointer.digest
    decided = next(ref for claim, (_, _, ref) in learned.items() if claim.startswith("Use SQLite for the index."))
    assert decided.startswith("repo:docs/adr/0001-use-sqlite.md#L")
    why = "Round half to even in reports. Banks round this way, and a cent was missing every month because we did not."
    assert learned[why][2].startswith("diff:src/acme/report.py@")


def test_nothing_learned_is_a_constraint_or_a_pin(gateway: Gateway) -> None:  # BX-09
    learn(gateway)
    with gateway.store.read() as view:
        assert not view.pinned(("p",))
        assert not view.live_kinds(("p",)).get("constraint")


def test_the_age_of_a_marked_comment_is_that_of_its_line(gateway: Gateway) -> None:  # BX-09
    ledger = str(FILES["src/acme/ledger.py"])
    commit(folder(gateway), {"src/acme/ledger.py": "# moved down by a line\n" + ledger}, "Say more", day=90)
    learn(gateway)
    (claim,) = (claim for claim, (kind, _, _) in claims(gateway).items() if kind == "todo")
    assert claim == "TODO since 2025-01-02: refuse to close a ledger that does not balance"
    query = OPERATIONS["query_engrams"]
    answer = gateway.call(query, to_request({"q": "close ledger", "kind": "todo"}, query.request), LOCAL_ADMIN)
    about = answer.about[answer.engrams[0].id].learned
    assert (about.since, about.at) == ("2025-01-02", "src/acme/ledger.py")
    assert about.age_days > 300


def test_learning_again_adds_nothing(gateway: Gateway, tmp_path: Path) -> None:  # BX-09
    first = learn(gateway)
    journal = (folder(gateway) / ".catalog" / "memory.jsonl").read_bytes()
    second = learn(gateway)
    assert (second.put, second.withdrawn, second.kept) == (0, 0, first.put)
    assert (second.read_files, second.read_commits) == (0, 0)
    assert (folder(gateway) / ".catalog" / "memory.jsonl").read_bytes() == journal
    third = learn(gateway, fresh=True)
    assert (third.put, third.withdrawn, third.kept) == (0, 0, first.put)
    assert third.read_commits == 2


def test_the_same_commit_gives_the_same_engrams_in_the_same_order(tmp_path: Path) -> None:  # BX-09
    source = make(tmp_path / "source")
    seen = []
    for name in ("one", "two"):
        git(tmp_path, "clone", "-q", str(source), name)
        opened = open_project(tmp_path / name, tmp_path / f"home-{name}")
        learn(opened)
        seen.append(list(claims(opened).items()))
        opened.close()
    assert seen[0] == seen[1]
    assert len(seen[0]) > 10


def test_a_later_run_reads_only_what_changed_and_ends_where_a_full_run_ends(tmp_path: Path) -> None:  # BX-09
    path = make(tmp_path / "repository")
    first = open_project(path, tmp_path / "home")
    learn(first)
    commit(path, {"CONTRIBUTING.md": "# Contributing\n\nNever push to the main branch without a review.\n"},
           "Ask for a review\n\nTwo changes met on main, which broke the build for everybody.\n", day=3)  # fmt: skip
    commit(path, {"docs/adr/0001-use-sqlite.md": None, "src/acme/ledger.py": "x = 1\n"}, "Remove what is unused", day=4)
    report = learn(first)
    assert (report.read_commits, report.read_files) == (2, 2)
    after = {claim: (kind, source) for claim, (kind, source, _) in claims(first).items()}
    assert report.withdrawn == 5  # the decision with its reason, two docstrings, the comment, the old rule
    assert "Every change needs a test that fails without it." not in after
    assert after["Never push to the main branch without a review."] == ("policy", "contributing")
    assert not any(source in ("decision", "todo", "docstring") for _, source in after.values())
    first.close()

    git(tmp_path, "clone", "-q", str(path), "whole")
    second = open_project(tmp_path / "whole", tmp_path / "other-home")
    learn(second)
    assert {claim: (kind, source) for claim, (kind, source, _) in claims(second).items()} == after
    second.close()


def test_a_rewritten_history_is_read_anew(gateway: Gateway) -> None:
    learn(gateway)
    git(folder(gateway), "checkout", "-q", "--orphan", "other")
    message = "Start over with a smaller core\n\nThe old one could not be tested, because it had no seams."
    commit(folder(gateway), {"NEWS.md": "# News\n\n## 9.0\n\n- The cache is never used for writes.\n"}, message, 9)
    report = learn(gateway)
    assert report.read_commits == 1
    sources = Counter(source for _, source, _ in claims(gateway).values())
    assert sources["commit"] == 1


def test_a_dry_run_shows_the_best_of_each_source_and_writes_nothing(gateway: Gateway) -> None:  # BX-09
    state = {file: file.stat().st_mtime_ns for file in (folder(gateway) / ".catalog").rglob("*.jsonl")}
    files = {file.name for file in (folder(gateway) / ".catalog").rglob("*")}
    report = learn(gateway, dry_run=True)
    assert report.claims == sum(report.sources.values()) > 10
    assert report.examples["decision"][0].claim.startswith("Use SQLite for the index.")
    assert {file: file.stat().st_mtime_ns for file in (folder(gateway) / ".catalog").rglob("*.jsonl")} == state
    assert {file.name for file in (folder(gateway) / ".catalog").rglob("*")} == files
    assert claims(gateway) == {}
    assert git(folder(gateway), "for-each-ref", "refs/engrambus") == ""


def test_one_ref_keeps_everything_that_was_learned(gateway: Gateway) -> None:
    learn(gateway)
    refs = git(folder(gateway), "for-each-ref", "--format=%(refname)", "refs/engrambus").splitlines()
    assert refs == [f"refs/engrambus/keep/{git(folder(gateway), 'rev-parse', 'HEAD')}"]


def test_what_is_learned_is_never_more_than_500_nor_40_percent_of_it_from_one_source(tmp_path: Path) -> None:  # BX-09
    entries = "".join(f"- Option number {n} must never be used together with option {n + 1}.\n" for n in range(350))
    rules = "".join(f"- Rule {n}: always run check {n}, because step {n} depends on it.\n" for n in range(70))
    pages = {
        f"docs/page{n}.md": "".join(
            f"Part {n}-{m} must be started first, because part {m} waits for it.\n\n" for m in range(20)
        )
        for n in range(30)
    }
    files = {"CHANGELOG.md": f"# Changes\n\n## 1.0\n\n{entries}", "CONTRIBUTING.md": rules, **pages}
    opened = open_project(make(tmp_path / "repository", files), tmp_path / "home")
    report = learn(opened)
    counted = Counter(source for _, source, _ in claims(opened).values())
    assert sum(counted.values()) == report.put <= 500
    assert counted == report.sources
    assert max(counted.values()) == 200 == counted["changelog"] == counted["docs"]
    small = learn(opened, limit=50)
    assert small.claims == 50
    assert max(small.sources.values()) == 20
    assert len(claims(opened)) == 50
    opened.close()


def test_the_command_prints_counts_by_source_and_is_offered_by_init(bare_shell: Shell) -> None:  # BX-09
    commit(bare_shell.repository.path, FILES, "Use a lock around the ledger, because two writers lost a booking")
    assert "engrambus learn" in bare_shell.ok("init").out
    preview = bare_shell.ok("learn", "--dry-run")
    assert "decision records" in preview.out
    assert "nothing was changed" in preview.out
    answer = bare_shell.ok("learn", "--json").json
    assert answer["put"] == sum(answer["sources"].values())
    found = bare_shell.ok("query", "lock", "ledger", "--json").json
    learned = found["about"][found["engrams"][0]["id"]]["learned"]
    assert learned["from"] == "commit"
    assert "learned from commit" in bare_shell.ok("query", "lock", "ledger").out
    assert "learned from CONTRIBUTING.md" in bare_shell.ok("feed", "--agent", "learn").out


def test_init_learns_when_it_is_asked_to(bare_shell: Shell) -> None:
    commit(bare_shell.repository.path, FILES, "Use a lock around the ledger, because two writers lost a booking")
    assert " learned, " in bare_shell.ok("init", "--learn").out


def test_agents_see_in_a_line_where_it_was_learned(gateway: Gateway) -> None:  # BX-09
    from engrambus.edges.mcp.answers import engram_line

    learn(gateway)
    declared = OPERATIONS["query_engrams"]
    answer = gateway.call(declared, to_request({"q": "generated files"}, declared.request), LOCAL_ADMIN)
    line = engram_line(answer.engrams[0], answer.about[answer.engrams[0].id])
    assert "learned from CLAUDE.md" in line
    assert line.startswith("policy: Never edit generated files by hand")


def test_what_a_person_said_stays_first_in_the_brief(gateway: Gateway) -> None:  # BX-09
    learn(gateway)
    declared = OPERATIONS["put_engram"]
    fields = {"claim": "Deploys happen on Thursdays.", "kind": "policy", "at": ["CONTRIBUTING.md:1-1"]}
    gateway.call(declared, to_request(fields, declared.request), LOCAL_ADMIN)
    brief = OPERATIONS["brief"]
    lines = gateway.call(brief, to_request({"role": "programmer"}, brief.request), LOCAL_ADMIN).lines
    stated = next(at for at, line in enumerate(lines) if "Deploys happen on Thursdays." in line)
    learned = [at for at, line in enumerate(lines) if line.startswith("[learned ")]
    assert learned
    assert stated < min(learned)


def test_what_could_be_learned_is_counted_only_as_long_as_a_person_waits(bare_shell: Shell) -> None:  # BX-09
    commit(bare_shell.path, FILES, "Use a lock around the ledger, because two writers lost a booking")
    bare_shell.ok("init")
    session = Session(json=False, speak_as=None, in_run=None, project=bare_shell.path)
    assert count_claims(session, -1) is None
    preview = json.loads(bare_shell.ok("learn", "--dry-run", "--json").out)
    assert count_claims(session, 60) == preview["claims"]


def test_a_run_with_nothing_to_note_prints_its_outcome(bare_shell: Shell) -> None:  # BX-09
    commit(bare_shell.path, {"CONTRIBUTING.md": "Every change needs a test that fails without it.\n"}, "Add rules")
    bare_shell.ok("init", "--learn")
    again = bare_shell.ok("learn").out.splitlines()
    assert again[-1].startswith("0 learned, ")
    assert not any(line.startswith("  read") for line in again)


def test_a_preview_in_json_is_one_object(bare_shell: Shell, repository: Repository) -> None:
    bare_shell.ok("init")
    answer = json.loads(bare_shell.ok("learn", "--dry-run", "--json").out)
    assert answer["dry_run"] is True
    assert answer["commit"] == repository.sha
