"""A change of a file in its short form: what agents read is what they can send."""  # EB-03 EB-33

from __future__ import annotations

from engrambus.evidence.pointers import GitRepository, Pointer, PointerCompleter, compact_ref, short_ref
from tests.projects import Repository, commit_files


def test_the_short_form_of_a_change_leads_back_to_it(repository: Repository) -> None:
    head = commit_files(repository.path, {"src/parser.py": "changed\n"})
    ref = f"diff:src/parser.py@{repository.sha}..{head}"
    short = compact_ref(ref)
    assert short == f"src/parser.py@{repository.sha[:7]}..{head[:7]}" == short_ref(Pointer(type="diff", ref=ref))
    completer = PointerCompleter(GitRepository(repository.path).expand)
    assert completer.complete(short, "pointer") == Pointer(type="diff", ref=ref)


def test_a_change_of_another_repository_keeps_its_ref(repository: Repository) -> None:
    ref = f"diff:other//src/parser.py@{repository.sha}..{repository.sha}"
    assert compact_ref(ref) == ref
