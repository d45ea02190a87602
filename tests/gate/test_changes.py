"""Changed lines: what a unified diff says, against the files themselves."""  # EB-24

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.evidence.pointers import GitRepository, line_changes
from tests.projects import git, make_repository

TEXTS = st.lists(st.sampled_from(["", "a", "b", "+c", "-d", "@@ -1 +1 @@", "\\ e"]), max_size=12)


@settings(max_examples=60, deadline=None)
@given(old=TEXTS, new=TEXTS, ends=st.booleans())
def test_changes_turn_the_old_file_into_the_new_one(
    tmp_path_factory: object, old: list[str], new: list[str], ends: bool
) -> None:
    repository = _repository(tmp_path_factory)
    before, after = ("\n".join(lines) + "\n" * (ends and bool(lines)) for lines in (old, new))
    blobs = [_store(repository, text) for text in (before, after)]
    old_lines, new_lines = before.splitlines(), after.splitlines()
    if before.endswith("\n") != after.endswith("\n"):
        return  # the last lines differ by their newline only, which `splitlines` does not show
    rebuilt: list[str] = []
    position = 1
    for change in line_changes(repository.diff(*blobs)):
        rebuilt += old_lines[position - 1 : change.old_first - 1]
        assert len(rebuilt) + 1 == change.new_first
        rebuilt += new_lines[change.new_first - 1 : change.new_first - 1 + change.new_count]
        position = change.old_first + change.old_count
    assert [*rebuilt, *old_lines[position - 1 :]] == new_lines


_REPOSITORIES: dict[int, GitRepository] = {}


def _repository(factory: object) -> GitRepository:
    if 0 not in _REPOSITORIES:
        made = make_repository(factory.mktemp("changes") / "repository")  # type: ignore[attr-defined]
        _REPOSITORIES[0] = GitRepository(made.path)
    return _REPOSITORIES[0]


def _store(repository: GitRepository, text: str) -> str:
    folder = repository.directory.parent
    (folder / "blob.txt").write_text(text, "utf-8", newline="")
    return git(folder, "hash-object", "-w", "blob.txt")
