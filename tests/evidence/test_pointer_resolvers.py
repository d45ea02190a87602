"""Pointers lead to exactly the content they name, proved by digest."""  # EB-04, EB-05

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from engrambus.core import digest
from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import (
    Address,
    ArtifactAddress,
    ArtifactResolver,
    BodyAddress,
    BodyResolver,
    Content,
    DiffAddress,
    DiffResolver,
    Evidence,
    FileLines,
    GitRepository,
    Pointer,
    RepoAddress,
    RepoResolver,
    Repositories,
    SamAddress,
    UrlAddress,
    UrlResolver,
    check_pointer,
    parse_ref,
)
from engrambus.evidence.receipts import BodyFolder

from .repos import Repo

ABSENT = "0" * 40


def evidence_of(repositories: Repositories, bodies: Path | None = None) -> Evidence:
    return Evidence(
        {
            RepoAddress: lambda: RepoResolver(repositories),
            ArtifactAddress: lambda: ArtifactResolver(repositories),
            BodyAddress: lambda: BodyResolver(BodyFolder(bodies or Path("/nonexistent"))),
            DiffAddress: lambda: DiffResolver(repositories),
            UrlAddress: lambda: UrlResolver(lambda: None),
        }
    )


def pointer(ref: str, content_digest: str | None = None) -> Pointer:
    return Pointer(type=ref.partition(":")[0], ref=ref, digest=content_digest)


def refusal(action: Callable[[], object]) -> EngramBusError:
    with pytest.raises(EngramBusError) as caught:
        action()
    return caught.value


@pytest.mark.parametrize(
    ("content", "span", "lines"),
    [
        (b"a\nb\nc\n", "#L1", b"a\n"),
        (b"a\nb\nc\n", "#L2-L3", b"b\nc\n"),
        (b"a\nb\nc", "#L2-L3", b"b\nc"),
        (b"a\nb\nc", "#L3", b"c"),
        (b"a\nb\nc", "#L1-L2", b"a\nb\n"),
        (b"a\r\nb\r\n", "#L1", b"a\r\n"),
        (b"a\rb\x0b\x0c\xe2\x80\xa8c\n", "#L1", b"a\rb\x0b\x0c\xe2\x80\xa8c\n"),
        (b"\n\n\n", "#L2", b"\n"),
        (b"\xff\xfe\n", "#L1", b"\xff\xfe\n"),
        (b"", "", b""),
        (b"a\nb", "", b"a\nb"),
    ],
)
def test_exactly_the_pointed_lines_are_read(repo: Repo, content: bytes, span: str, lines: bytes) -> None:
    sha = repo.commit({"f": content})
    evidence = evidence_of(Repositories(GitRepository(repo.path)))
    content_read = evidence.read(pointer(f"repo:f{span}@{sha}"))
    blob = repo.git("rev-parse", "HEAD:f")
    assert content_read == Content(data=lines, digest=digest(lines), blob=blob, place=content_read.place)


@pytest.mark.parametrize(
    ("content", "span", "first", "last"),
    [
        (b"a\nb\nc\n", "", 1, None),
        (b"a\nb\nc\n", "#L1-L2", 1, 2),
        (b"a\nb\nc\n", "#L2-L3", 2, None),  # they end the file
        (b"a\nb\nc", "#L3", 3, None),
        (b"\n\n\n", "#L2", 2, 2),
    ],
)
def test_the_place_of_the_lines_in_their_file_is_known(
    repo: Repo, content: bytes, span: str, first: int, last: int | None
) -> None:
    sha = repo.commit({"f": content})
    evidence = evidence_of(Repositories(GitRepository(repo.path)))
    place = evidence.read(pointer(f"repo:f{span}@{sha}")).place
    assert place == FileLines(file="git:" + repo.git("rev-parse", "HEAD:f"), first=first, last=last)


@pytest.mark.parametrize(
    ("content", "span", "count"), [(b"", "L1", 0), (b"a\nb\n", "L3", 2), (b"a\nb", "L2-L3", 2), (b"a", "L2", 1)]
)
def test_a_span_past_the_end_names_the_number_of_lines(repo: Repo, content: bytes, span: str, count: int) -> None:
    sha = repo.commit({"f": content})
    evidence = evidence_of(Repositories(GitRepository(repo.path)))
    problem = refusal(lambda: evidence.read(pointer(f"repo:f#{span}@{sha}"), "pointers[2]"))
    assert (problem.code, problem.field, problem.limit) == ("SPAN_NOT_FOUND", "pointers[2].ref", count)


def test_repositories_are_chosen_by_name(repo: Repo, tmp_path: Path) -> None:
    other = Repo(tmp_path / "other")
    sha = other.commit({"f": "x\n"})
    evidence = evidence_of(Repositories(None, {"lib": other.path}))
    assert evidence.read(pointer(f"repo:lib//f@{sha}")).data == b"x\n"
    assert refusal(lambda: evidence.read(pointer(f"repo:nope//f@{sha}"))).code == "REPOSITORY_NOT_FOUND"
    for ref in (f"repo:f@{sha}", f"artifact:f@{sha}", f"diff:f@{sha}..{sha}"):
        assert refusal(lambda ref=ref: evidence.stamp(*check_pointer(pointer(ref)))).code == "NO_REPOSITORY"  # type: ignore[misc]


def test_every_missing_target_has_its_own_code(repo: Repo) -> None:
    sha = repo.commit({"f": "x\n", "d.md": "# A\n"})
    evidence = evidence_of(Repositories(GitRepository(repo.path)))
    for ref, code in {
        f"repo:f@{ABSENT}": "REVISION_NOT_FOUND",
        f"repo:g@{sha}": "FILE_NOT_FOUND",
        f"repo:f#L2@{sha}": "SPAN_NOT_FOUND",
        f"artifact:e.md@{sha}": "ARTIFACT_NOT_FOUND",
        f"artifact:x/d.md@{sha}": "ARTIFACT_NOT_FOUND",
        f"artifact:d.md#sec=B@{sha}": "SECTION_NOT_FOUND",
        "artifact:d.md@v1": "REVISION_NOT_FOUND",
        f"artifact:sha256:{'0' * 64}": "BODY_NOT_FOUND",
        f"diff:g@{sha}..{sha}": "FILE_NOT_FOUND",
        f"diff:f@{sha}..{ABSENT}": "REVISION_NOT_FOUND",
        f"url:https://example.org/@sha256:{'0' * 64}": "URLS_OFF",
        "sam:decision:x@2026-01-08": "NO_RESOLVER",
        f"test:x@sha256:{'0' * 64}": "NO_RESOLVER",
    }.items():
        problem = refusal(lambda ref=ref: evidence.read(pointer(ref), "at"))  # type: ignore[misc]
        assert (problem.code, problem.field) == (code, "at.ref"), ref


def test_a_digest_of_other_content_is_refused(repo: Repo) -> None:
    sha = repo.commit({"f": "x\n"})
    evidence = evidence_of(Repositories(GitRepository(repo.path)))
    right, wrong = digest(b"x\n"), digest(b"y\n")
    ref = f"repo:f@{sha}"
    assert evidence.read(pointer(ref, right)).data == b"x\n"
    assert evidence.stamp(*check_pointer(pointer(ref, right))) == pointer(ref, right)
    read = refusal(lambda: evidence.read(pointer(ref, wrong)))
    stamped = refusal(lambda: evidence.stamp(*check_pointer(pointer(ref, wrong))))
    for problem in (read, stamped):
        assert (problem.code, problem.field) == ("DIGEST_MISMATCH", "pointer.digest")


class Counting:
    """A resolver that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def resolve(self, address: object) -> Content:
        self.calls += 1
        return Content.of(b"content %d" % self.calls)


def test_stamping_caches_immutable_content() -> None:
    counting = Counting()
    evidence = Evidence(dict.fromkeys((RepoAddress, ArtifactAddress, SamAddress), lambda: counting), cache_size=2)
    pinned = pointer(f"repo:f@{ABSENT}")
    assert evidence.stamp(*check_pointer(pinned)) == evidence.stamp(*check_pointer(pinned))
    assert counting.calls == 1
    tagged = pointer("artifact:f@v1")
    assert evidence.stamp(*check_pointer(tagged)) != evidence.stamp(*check_pointer(tagged))
    assert evidence.stamp(*check_pointer(pointer("sam:a:b@v1"))) != evidence.stamp(
        *check_pointer(pointer("sam:a:b@v1"))
    )
    calls_before = counting.calls
    for name in "ghi":
        evidence.stamp(*check_pointer(pointer(f"repo:{name}@{ABSENT}")))
    evidence.stamp(*check_pointer(pinned))  # evicted from the cache by now
    assert counting.calls == calls_before + 4


def test_prefetching_changes_no_stamp_and_no_refusal(repo: Repo) -> None:
    sha = repo.commit({f"d/f{n}": f"one {n}\ntwo\n" * (n + 1) for n in range(20)} | {"big": b"x" * 5000})
    refs = [f"repo:d/f{n}#L{line}-L{line}@{sha}" for n in range(20) for line in (1, 2)]
    odd = [f"repo:d/f1#L90-L91@{sha}", f"repo:none@{sha}", f"repo:d@{sha}", f"repo:f@{ABSENT}", f"repo:other:f@{sha}"]
    for extra in ([], [f"repo:big@{sha}"]):  # a file that is too large ends the prefetch, and nothing else
        prefetched, plain = (evidence_of(Repositories(GitRepository(repo.path, max_bytes=4000))) for _ in range(2))
        checked = [check_pointer(pointer(ref)) for ref in (*odd, *refs[:10], *extra, *refs[10:])]
        prefetched.prefetch(checked)
        assert [outcome(prefetched, *pair) for pair in checked] == [outcome(plain, *pair) for pair in checked]


def outcome(evidence: Evidence, sent: Pointer, address: Address) -> object:
    try:
        return evidence.stamp(sent, address)
    except EngramBusError as problem:
        return problem.problem()


def test_prefetching_skips_damaged_objects(repo: Repo) -> None:
    sha = repo.commit({"a": "x\n", "b": "y\n"})
    good, bad = (repo.loose(repo.git("rev-parse", f"HEAD:{name}")) for name in "ab")
    bad.chmod(0o644)
    bad.write_bytes(good.read_bytes())
    evidence = evidence_of(Repositories(GitRepository(repo.path)))
    a, b = (check_pointer(pointer(f"repo:{name}@{sha}")) for name in "ab")
    evidence.prefetch([b, a])
    assert refusal(lambda: evidence.stamp(*b)).code in ("OBJECT_DAMAGED", "GIT_TROUBLE")
    assert evidence.stamp(*a).digest == digest(b"x\n")


def test_stamping_returns_the_canonical_pointer(repo: Repo) -> None:
    sha = repo.commit({"a b": "x\ny\n"})
    evidence = evidence_of(Repositories(GitRepository(repo.path)))
    sent = Pointer(type="repo", ref=f"repo:a b@{sha}", span="L2")
    assert evidence.stamp(*check_pointer(sent)) == pointer(f"repo:a%20b#L2-L2@{sha}", digest(b"y\n"))


def test_pointers_of_types_without_a_resolver_are_refused() -> None:  # EB-04
    for ref in (
        f"repo:f@{ABSENT}",
        "sam:decision:x@2026-01-08",
        f"test:x@sha256:{'0' * 64}",
        f"url:https://example.org/@sha256:{'0' * 64}",
    ):
        problem = refusal(lambda ref=ref: Evidence({}).stamp(*check_pointer(pointer(ref)), "pointers[3]"))  # type: ignore[misc]
        assert (problem.code, problem.field) == ("NO_RESOLVER", "pointers[3].ref")


def test_bodies_are_read_by_digest(tmp_path: Path) -> None:
    store = BodyFolder(tmp_path / "cas")
    name = store.put(b"output\n")
    evidence = evidence_of(Repositories(None), tmp_path / "cas")
    assert evidence.read(pointer(f"artifact:{name}")).data == b"output\n"
    assert evidence.stamp(*check_pointer(pointer(f"artifact:{name}"))).digest == name


def test_lines_of_a_large_body_are_read(tmp_path: Path) -> None:  # EB-04
    store = BodyFolder(tmp_path / "cas")
    lines = [f"line {number}\n".encode() for number in range(1, 200_001)]  # read in more than two chunks
    name = store.put(b"".join(lines))
    evidence = Evidence({BodyAddress: lambda: BodyResolver(store, max_bytes=1000)})
    for first, last in ((1, 1), (1, 3), (100_000, 100_009), (199_999, 200_000)):
        span_pointer = pointer(f"artifact:{name}#L{first}-L{last}")
        read = evidence.read(span_pointer)
        assert (read.data, read.digest) == (b"".join(lines[first - 1 : last]), digest(read.data))
        assert evidence.stamp(
            *check_pointer(Pointer(type="artifact", ref=f"artifact:{name}", span=f"L{first}-L{last}"))
        ) == (pointer(span_pointer.ref, read.digest))
    missing = refusal(lambda: evidence.read(pointer(f"artifact:{name}#L199990-L200001")))
    assert (missing.code, missing.limit) == ("SPAN_NOT_FOUND", 200_000)
    assert refusal(lambda: evidence.read(pointer(f"artifact:{name}#L1-L999"))).code == "CONTENT_TOO_LARGE"
    ends = evidence.read(pointer(f"artifact:{name}"))
    assert ends.digest == name
    assert ends.end is not None
    for part, expected in (
        (ends.data, b"".join(lines)[: len(ends.data)]),
        (ends.end, b"".join(lines)[-len(ends.end) :]),
    ):
        assert part == expected
        assert part.startswith(b"line ")
        assert part.endswith(b"\n")
        assert 900 < len(part) <= 1000
    bare = store.put(b"a\nb")
    assert evidence.read(pointer(f"artifact:{bare}#L2")).data == b"b"
    assert refusal(lambda: evidence.read(pointer(f"artifact:{bare}#L3"))).code == "SPAN_NOT_FOUND"


@pytest.mark.parametrize("prefix", ["", "\n", "a", "ab", "abc"])
def test_one_very_long_line_is_cut_between_characters(tmp_path: Path, prefix: str) -> None:  # EB-05
    store = BodyFolder(tmp_path / "cas")
    evidence = Evidence({BodyAddress: lambda: BodyResolver(store, max_bytes=1000)})
    text = prefix + "🙂" * 1000 + prefix
    flat = evidence.read(pointer(f"artifact:{store.put(text.encode())}"))
    assert flat.end is not None
    for part, expected in ((flat.data, text.encode()[: len(flat.data)]), (flat.end, text.encode()[-len(flat.end) :])):
        assert part == expected
        assert 990 < len(part) <= 1000
        assert "🙂" in part.decode()
    lines = store.put(b"first\n" + b"x" * 3000 + b"\nlast\n")
    ends = evidence.read(pointer(f"artifact:{lines}"))
    assert (ends.data, ends.end) == (b"first\n", b"last\n"), "no line is cut if another fits completely"
    binary = evidence.read(pointer(f"artifact:{store.put(bytes([0x80]) * 3000)}"))
    assert (len(binary.data), len(binary.end or b"")) == (1000, 1000), "binary content is refused elsewhere"


def test_lines_of_a_damaged_body_are_refused(tmp_path: Path) -> None:  # EB-04
    store = BodyFolder(tmp_path / "cas")
    name = store.put(b"one\ntwo\n" * 1000)
    file = tmp_path / "cas" / name[7:9] / name[9:]
    file.write_bytes(file.read_bytes()[:-2] + b"!\n")
    evidence = Evidence({BodyAddress: lambda: BodyResolver(store, max_bytes=100)})
    for ref in (f"artifact:{name}#L1", f"artifact:{name}"):
        assert refusal(lambda ref=ref: evidence.read(pointer(ref))).code == "OBJECT_DAMAGED"  # type: ignore[misc]


def test_artifacts_are_read_at_a_tag_and_by_name(repo: Repo) -> None:
    first = repo.commit({"docs/SPEC.md": "# One\n", "a/R.md": "1", "b/R.md": "2", "R2.md": "x", "c/R2.md": "y"})
    repo.git("tag", "-a", "-m", "x", "v1")
    second = repo.commit({"docs/SPEC.md": "# Two\n"})
    evidence = evidence_of(Repositories(GitRepository(repo.path)))

    def read(ref: str) -> bytes:
        return evidence.read(pointer(ref)).data

    assert read("artifact:SPEC.md@v1") == read(f"artifact:docs/SPEC.md@{first}") == b"# One\n"
    assert read(f"artifact:SPEC.md#sec=Two@{second}") == b"# Two\n"
    assert read(f"artifact:R2.md@{first}") == b"x"  # exactly this path wins over others of the same name
    problem = refusal(lambda: read(f"artifact:R.md@{first}"))
    assert problem.code == "ARTIFACT_AMBIGUOUS"
    assert "a/R.md, b/R.md" in str(problem.hint)
    repo.git("tag", "-f", "v1")
    assert read("artifact:SPEC.md@v1") == b"# Two\n"


def test_a_document_must_be_text_and_not_too_long_for_its_sections(repo: Repo) -> None:
    sha = repo.commit({"latin.md": b"# \xe9\n", "long.md": b"# A\n" + b"x\n" * 600_000})
    evidence = evidence_of(Repositories(GitRepository(repo.path)))
    assert refusal(lambda: evidence.read(pointer(f"artifact:latin.md#sec=A@{sha}"))).code == "NOT_TEXT"
    assert refusal(lambda: evidence.read(pointer(f"artifact:long.md#sec=A@{sha}"))).code == "CONTENT_TOO_LARGE"
    assert evidence.read(pointer(f"artifact:latin.md@{sha}")).data == b"# \xe9\n"


def test_every_commit_an_address_names_is_retained(repo: Repo) -> None:
    shas = [repo.commit({"f": str(n)}) for n in range(4)]
    repo.git("tag", "v1", shas[3])
    repositories = Repositories(GitRepository(repo.path))
    for ref in (f"repo:f@{shas[0]}", f"diff:f@{shas[1]}..{shas[2]}", "artifact:f@v1", "sam:a:b@v1"):
        repositories.retain(parse_ref(ref))
    retained = repo.git("for-each-ref", "--format=%(objectname)", "refs/engrambus/keep/").split()
    assert sorted(retained) == sorted(shas)


def test_a_diff_is_what_git_would_show(repo: Repo) -> None:
    old = repo.commit({"dir/f ü.py": "def f():\n" + "".join(f"    line{n}\n" for n in range(20))})
    new = repo.commit({"dir/f ü.py": "def f():\n" + "".join(f"    line{n}\n" for n in range(20) if n != 12) + "end"})
    evidence = evidence_of(Repositories(GitRepository(repo.path)))
    diff = evidence.read(pointer(f"diff:dir/f ü.py@{old}..{new}"))
    assert diff.data.decode() == (
        "--- a/dir/f ü.py\n+++ b/dir/f ü.py\n"
        "@@ -11,7 +11,6 @@\n     line9\n     line10\n     line11\n-    line12\n     line13\n     line14\n     line15\n"
        "@@ -19,3 +18,4 @@\n     line17\n     line18\n     line19\n+end\n\\ No newline at end of file\n"
    )
    assert diff.digest == "sha256:" + hashlib.sha256(diff.data).hexdigest()
    assert evidence.read(pointer(f"diff:dir/f ü.py@{old}..{old}")).data == b""


def test_added_and_deleted_files_have_diffs(repo: Repo) -> None:
    old = repo.commit({"other": "x\n"})
    new = repo.commit({"f": "a\nb\n", "g": "one", "empty": ""})
    evidence = evidence_of(Repositories(GitRepository(repo.path)))

    def read(path: str, base: str, head: str) -> bytes:
        return evidence.read(pointer(f"diff:{path}@{base}..{head}")).data

    assert read("f", old, new) == b"--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n"
    assert read("f", new, old) == b"--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"
    assert read("g", old, new) == b"--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+one\n\\ No newline at end of file\n"
    assert read("empty", old, new) == b"--- /dev/null\n+++ b/empty\n"
    filled = repo.commit({"empty": "x\n"})
    assert read("empty", new, filled) == b"--- a/empty\n+++ b/empty\n@@ -0,0 +1 @@\n+x\n"


def test_a_diff_follows_a_rename_under_both_names(repo: Repo) -> None:  # EB-04
    text = "".join(f"line {number}\n" for number in range(12))
    old = repo.commit({"src/old name.py": text, "same.py": "untouched\n" * 9})
    new = repo.commit({"src/old name.py": None, "lib/new.py": text.replace("line 3\n", "changed\n")})
    evidence = evidence_of(Repositories(GitRepository(repo.path)))
    by_new_name = evidence.read(pointer(f"diff:lib/new.py@{old}..{new}"))
    assert by_new_name.data.decode() == (
        "rename from src/old name.py\nrename to lib/new.py\n--- a/src/old name.py\n+++ b/lib/new.py\n"
        "@@ -1,7 +1,7 @@\n line 0\n line 1\n line 2\n-line 3\n+changed\n line 4\n line 5\n line 6\n"
    )
    assert evidence.read(pointer(f"diff:src/old name.py@{old}..{new}")).data == by_new_name.data
    moved = repo.commit({"same.py": None, "moved.py": "untouched\n" * 9})
    assert evidence.read(pointer(f"diff:moved.py@{new}..{moved}")).data == b"rename from same.py\nrename to moved.py\n"
    assert b"--- a/lib/new.py\n+++ b/src/old name.py" in evidence.read(pointer(f"diff:lib/new.py@{new}..{old}")).data


def test_a_rewritten_file_is_no_rename(repo: Repo) -> None:
    old = repo.commit({"a.py": "one\ntwo\nthree\n"})
    new = repo.commit({"a.py": None, "b.py": "other\nwords\nentirely\n"})
    evidence = evidence_of(Repositories(GitRepository(repo.path)))
    assert evidence.read(pointer(f"diff:b.py@{old}..{new}")).data.startswith(b"--- /dev/null\n+++ b/b.py\n")


def test_a_diff_does_not_depend_on_configuration(repo: Repo) -> None:
    old = repo.commit({"f.py": "def f():\n" + "    x\n" * 9 + "    y\n\n    z\n", ".gitattributes": "*.py diff=evil\n"})
    new = repo.commit({"f.py": "def f():\n" + "    x\n" * 9 + "    Y\n\n    z\n"})
    plain = evidence_of(Repositories(GitRepository(repo.path))).read(pointer(f"diff:f.py@{old}..{new}"))
    for name, value in {
        "diff.external": f"touch {repo.path}/ran",
        "diff.evil.textconv": f"touch {repo.path}/ran",
        "diff.evil.command": f"touch {repo.path}/ran",
        "diff.context": "0",
        "diff.noprefix": "true",
        "diff.algorithm": "patience",
        "diff.suppressBlankEmpty": "true",
        "diff.colorMoved": "default",
        "color.ui": "always",
        "core.pager": f"touch {repo.path}/ran",
    }.items():
        repo.git("config", name, value)
    (repo.path / ".git" / "info" / "attributes").write_text("* -diff\n")
    hostile = evidence_of(Repositories(GitRepository(repo.path))).read(pointer(f"diff:f.py@{old}..{new}"))
    assert hostile == plain
    assert not (repo.path / "ran").exists()


def test_a_link_is_not_compared(repo: Repo) -> None:
    old = repo.commit({"f": "x\n"})
    (repo.path / "f").unlink()
    (repo.path / "f").symlink_to("/etc/passwd")
    new = repo.commit({})
    evidence = evidence_of(Repositories(GitRepository(repo.path)))
    assert refusal(lambda: evidence.read(pointer(f"diff:f@{old}..{new}"))).code == "LINK_REFUSED"
