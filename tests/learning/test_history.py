"""Reading a history: commits, the age of lines, and many changes at once (BX-09)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from engrambus.evidence.pointers import (
    Content,
    DiffAddress,
    DiffResolver,
    GitRepository,
    Repositories,
    is_ancestor,
    line_times,
    read_history,
)
from tests.learning.repositories import commit
from tests.projects import git


def test_commits_come_newest_first_with_their_message_and_files(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    first = commit(tmp_path, {"a.py": "a\n", "b.py": "b\n"}, "First\n\nwith a body\n:100644 forged\n")
    second = commit(tmp_path, {"a.py": None, "ü b.py": "c\n"}, "Second", day=2)
    repository = GitRepository(tmp_path)
    history = list(read_history(repository, second))
    assert [(item.id, item.parent, item.paths) for item in history] == [
        (second, first, ("ü b.py",)),
        (first, "", ("a.py", "b.py")),
    ]
    assert history[1].message.startswith("First\n\nwith a body\n:100644 forged")
    assert history[0].time_s - history[1].time_s == 86_400
    assert [item.id for item in read_history(repository, second, since=first)] == [second]
    assert is_ancestor(repository, first, second)
    assert not is_ancestor(repository, second, first)
    assert not is_ancestor(repository, "0" * 40, second)
    repository.close()


def test_the_age_of_a_line_is_that_of_its_text(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, {"a.py": "one\ntwo\n"}, "First", day=1)
    head = commit(tmp_path, {"a.py": "zero\none\ntwo\n"}, "Second", day=5)
    repository = GitRepository(tmp_path)
    times = line_times(repository, head, "a.py", [1, 2])
    assert times[1] - times[2] == 4 * 86_400
    assert line_times(repository, head, "missing.py", [1]) == {}
    assert line_times(repository, head, "a.py", [99]) == {}
    repository.close()


def test_many_changes_at_once_have_the_bytes_of_each_alone(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    texts: list[dict[str, str | bytes | None]] = [
        {"a.py": "def f():\n    return 1\n", "b.txt": "x\r\ny\r\n", "c.bin": b"\x00\x01\n"},
        {"a.py": "def f():\n    return 2", "b.txt": "x\r\nz\r\n", "c.bin": b"\x00\x02\n", "d.py": "new\n"},
        {"a.py": "diff --git a/a.py b/a.py\nindex 1..2\n@@ -1 +1 @@\n", "b.txt": "", "d.py": "newer\n"},
        {"a.py": "x\n" * 50, "b.txt": "end"},
    ]
    commits = [commit(tmp_path, files, f"Step {day}", day) for day, files in enumerate(texts)]
    repository = GitRepository(tmp_path)
    resolver = DiffResolver(Repositories(repository))
    addresses = [
        DiffAddress(path=path, base=base, head=head)
        for base, head in pairwise(commits)
        for path in ("a.py", "b.txt", "c.bin", "d.py")
    ]
    taken: dict[DiffAddress, Content] = {}
    resolver.resolve_many(addresses, taken.__setitem__)
    assert len(taken) >= 7
    for address, content in taken.items():
        alone = resolver.resolve(address)
        assert (content.data, content.digest, content.source) == (alone.data, alone.digest, alone.source)
    repository.close()
