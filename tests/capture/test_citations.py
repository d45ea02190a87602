"""Citations in prose become pointers if they lead to lines that exist, and nothing otherwise."""  # BX-10, EB-18

from __future__ import annotations

import pytest

from engrambus.evidence.pointers.citations import find_citations
from tests.capture.team import AnsweringTeam
from tests.projects import commit_files, git

SPAN = "src/parser.py#L10-L20"


@pytest.mark.parametrize(
    ("written", "pointers"),
    [
        ("src/parser.py:10-20", [SPAN]),
        ("`src/parser.py:10-20`", [SPAN]),
        ("./src/parser.py:10–20", [SPAN]),
        ("src/parser.py#L10-L20", [SPAN]),
        ("src/parser.py:L10-L20", [SPAN]),
        ("src/parser.py lines 10–20", [SPAN]),
        ("src/parser.py, lines 10 to 20,", [SPAN]),
        ("`src/parser.py` (lines 10-20)", [SPAN]),
        ("lines 10-20 of src/parser.py", [SPAN]),
        ("Line 12 of the file `src/parser.py`", ["src/parser.py#L12-L12"]),
        ('File "src/parser.py", line 12, in parse', ["src/parser.py#L12-L12"]),
        ("src/parser.py:12:7: error", ["src/parser.py#L12-L12"]),
        ("[the parser](src/parser.py#L10-L20)", [SPAN]),
        ("[src/parser.py:10-20](src/parser.py#L10-L20)", [SPAN]),
        ("src/parser.py:1,10-20", ["src/parser.py#L1-L1", SPAN]),
        ("src/parser.py lines 1 and 10-20", ["src/parser.py#L1-L1", SPAN]),
        ("parser.py:10-20", [SPAN]),
        ("src/parser.py", ["src/parser.py"]),
        ("`src/wörter.py:1`", ["src/wörter.py#L1-L1"]),
    ],
)
def test_every_way_of_citing(team: AnsweringTeam, written: str, pointers: list[str]) -> None:
    assert team.cited(f"This is where it happens: {written} and nowhere else.") == pointers


def test_refs_short_refs_and_permalinks(team: AnsweringTeam) -> None:
    sha = team.repository.sha
    commit_files(team.repository.path, {"src/parser.py": "all is new\n" * 3})
    whole = f"repo:{SPAN}@{sha}"
    for written in (
        whole,
        f"src/parser.py:10-20@{sha[:7]}",
        f"https://github.com/ada/parser/blob/{sha}/src/parser.py#L10-L20",
        f"[here](https://github.com/ada/parser/blob/{sha}/src/parser.py#L10-L20)",
    ):
        assert team.answer(f"It happens at {written}.").cited == [whole]
    artifact = team.client.call("store_artifact", text="one line\n").pointer
    assert team.answer(f"It is kept at {artifact}.").cited == [artifact]


@pytest.mark.parametrize(
    "written",
    [
        "src/parser.py:10-31",
        "src/parser.py:0",
        "src/parser.py:20-10",
        "src/nowhere.py:10",
        "SRC/parser.py:10",
        "../repo/src/parser.py:10",
        "/etc/passwd:1",
        ".git/config:1",
        f"repo:{SPAN}@{'0' * 40}",
        "src/parser.py:10-20@0000000",
        f"https://github.com/ada/parser/blob/{'0' * 40}/src/parser.py#L1-L2",
        "src/parser.py:99999999",
        "data.bin:1",
    ],
)
def test_what_leads_nowhere_is_no_citation_and_no_error(team: AnsweringTeam, written: str) -> None:
    (team.repository.path / "data.bin").write_bytes(b"\0\1\n\2\n")
    git(team.repository.path, "add", "data.bin")
    git(team.repository.path, "commit", "-q", "-m", "Data")
    taken = team.answer(f"The fault that I was looking for is at {written} for sure.")
    assert [ref for ref in taken.cited if "#L" in ref] == []
    assert taken.unconfirmed == []


def test_unresolved_citations_are_counted(team: AnsweringTeam) -> None:
    taken = team.answer("See src/parser.py:99 and src/a.py:1 and src/a.py:1, but not e.g. and/or 1.2.3 nor a@b.org.")
    assert (taken.cited, taken.unresolved_citations) == ([], 2)


def test_links_to_other_sites_are_never_citations(team: AnsweringTeam) -> None:
    taken = team.answer("See https://example.org/src/parser.py:10 and http://localhost/src/parser.py#L10 for it.")
    assert (taken.cited, taken.unresolved_citations) == ([], 0)


def test_a_name_that_two_files_have_is_no_citation(team: AnsweringTeam) -> None:
    commit_files(team.repository.path, {"old/parser.py": "x\n" * 30})
    assert team.answer("The fault that was reported is in parser.py:10.").cited == []


def test_lines_that_were_changed_on_disk_are_pointed_at_as_they_are_there(team: AnsweringTeam) -> None:
    file = team.repository.path / "src/parser.py"
    file.write_text("a new first line\n" + file.read_text("utf-8"), "utf-8")
    (team.repository.path / "src/new.py").write_text("it is new\n", "utf-8")
    moved, new = team.answer(
        "The first line (src/parser.py:1) is new, and so is all of src/new.py:1 since today."
    ).cited
    assert not moved.endswith(team.repository.sha)
    assert team.client.deref(team.mia, moved).excerpt == "a new first line\n"
    assert team.client.deref(team.mia, new).excerpt == "it is new\n"
    file.write_text("line 1 of the parser\n", "utf-8")
    (same,) = team.answer("The first line (src/parser.py:1) is as it was before, unlike the others.").cited
    assert same == f"repo:src/parser.py#L1-L1@{team.repository.sha}"


def test_files_that_git_ignores_are_not_read(team: AnsweringTeam) -> None:
    (team.repository.path / ".gitignore").write_text("*.env\n", "utf-8")
    (team.repository.path / "local.env").write_text("a setting\n", "utf-8")
    assert team.answer("The setting that matters is in local.env:1 on this machine.").cited == []


def test_files_that_are_not_utf_8_are_cited_by_their_lines(team: AnsweringTeam) -> None:
    (team.repository.path / "latin.txt").write_bytes("schön\nwörter\n".encode("latin-1"))
    git(team.repository.path, "add", "-A")
    git(team.repository.path, "commit", "-q", "-m", "Latin")
    (ref,) = team.answer("The second word is in latin.txt:2, in an old encoding.").cited
    assert ref.startswith("repo:latin.txt#L2-L2@")


def test_a_role_cites_only_what_it_sees(team: AnsweringTeam) -> None:
    team.client.call("apply_policy", policy={"visibility": {"programmer": {"paths": ["docs/**"]}}})
    taken = team.answer("The parser (src/parser.py:10) is described in docs/design.md:5 and nowhere else.")
    assert [ref.partition("#")[0] for ref in taken.cited] == ["repo:docs/design.md"]
    assert taken.unresolved_citations == 1


def test_what_is_quoted_is_pointed_at_if_it_stands_in_one_place(team: AnsweringTeam) -> None:
    sha = commit_files(
        team.repository.path,
        {
            "src/ledger.py": "def settle(entry):\n    return entry.total_amount - entry.paid_amount\n",
            "src/a.py": "value = compute_the_total(entries)\n",
            "src/b.py": "value = compute_the_total(entries)\n",
        },
    )
    settle = f"repo:src/ledger.py#L2-L2@{sha}"
    for written in (
        "The sum is `entry.total_amount - entry.paid_amount` there.",
        "It says “return entry.total_amount - entry.paid_amount” there.",
        '"return entry.total_amount - entry.paid_amount" is what it says.',
        "It says:\n\n> return entry.total_amount - entry.paid_amount\n\nThat is all.",
        "It says:\n\n```python\n    return entry.total_amount - entry.paid_amount\n```\n",
    ):
        assert settle in team.answer(written).cited, written
    for written in ("`compute_the_total(entries) # in two files`", "`value = compute_the_total(entries)`", "`settle`"):
        assert team.answer(f"It calls {written} somewhere.").cited == []


def test_the_parent_gets_the_pointers_as_far_as_they_fit(team: AnsweringTeam) -> None:
    spans = [f"src/parser.py:{number}" for number in range(1, 31)]
    taken = team.answer(f"These lines matter most of all: {', '.join(spans)}.")
    assert len(taken.cited) == 30
    (mail,) = team.client.call("inbox", team.mia).mail
    shown = [ref for ref in taken.cited if ref in mail.text]
    assert shown == taken.cited[:8]
    assert team.client.deref(team.mia, shown[0]).excerpt == "line 1 of the parser\n"
    team.client.call("apply_policy", policy={"inline": {"max_inline_tokens": 220}})
    taken = team.answer(f"These lines matter as well, I think: {', '.join(spans[:3])}.")
    assert taken.tokens <= 220


def test_thousands_of_citations_cost_a_bounded_number_of_reads(team: AnsweringTeam) -> None:
    text = " ".join(f"src/parser.py:{number}" for number in range(1, 3000))[:65_000]
    taken = team.answer(text)
    assert len(taken.cited) == 30
    assert taken.unresolved_citations > 1000
    assert len(taken.unconfirmed) <= 12


@pytest.mark.parametrize(
    ("piece", "citations"),
    [
        ("a/", 1),
        ("a.py:1 ", 9285),
        ("x.y ", 16_250),
        ("@a/", 1),
        ("./", 1),
        ("repo:", 65),
        ("lines 1, ", 0),
        ("lines 1 and ", 0),
        ("lines 1-2 of ", 0),
        ("`", 0),
    ],
)
def test_a_piece_repeated_65_000_characters_long_is_read_to_its_end(piece: str, citations: int) -> None:
    text = piece * (65_000 // len(piece))
    found = find_citations(text)
    assert len(found) == citations
    assert all(text[citation.start : citation.end] == citation.place for citation in found)


def test_an_answer_without_a_repository_keeps_its_words(team: AnsweringTeam) -> None:
    (team.repository.path / ".git").rename(team.repository.path / ".git-gone")
    taken = team.answer("Risk: the parser (src/parser.py:10) trusts whatever it is given.")
    assert taken.message_id is not None
    assert (taken.cited, taken.unresolved_citations, len(taken.unconfirmed)) == ([], 1, 1)
