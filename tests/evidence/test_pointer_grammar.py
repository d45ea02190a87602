"""The grammar of pointers."""  # EB-03

from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import (
    MAX_REF,
    Address,
    ArtifactAddress,
    BodyAddress,
    DiffAddress,
    Pointer,
    RepoAddress,
    SamAddress,
    TestAddress,
    UrlAddress,
    check_pointer,
    name_repository,
    parse_ref,
    print_address,
)

SHA = "0123456789abcdef0123456789abcdef01234567"
SHA64 = "0123456789abcdef" * 4
DIGEST = f"sha256:{SHA64}"

CANONICAL: list[tuple[str, Address]] = [
    (f"repo:src/x.py#L10-L20@{SHA}", RepoAddress(path="src/x.py", revision=SHA, lines=(10, 20))),
    (f"repo:src/x.py@{SHA64}", RepoAddress(path="src/x.py", revision=SHA64)),
    (f"repo:lib//x.py#L1-L1@{SHA}", RepoAddress(repository="lib", path="x.py", revision=SHA, lines=(1, 1))),
    (f"repo:a%20b/100%25%23%40.py@{SHA}", RepoAddress(path="a b/100%#@.py", revision=SHA)),
    (f"repo:ünï/文.py@{SHA}", RepoAddress(path="ünï/文.py", revision=SHA)),
    (f"repo:a...b/..c/d..@{SHA}", RepoAddress(path="a...b/..c/d..", revision=SHA)),
    (f"artifact:SPEC.md#sec=Rules@{SHA}", ArtifactAddress(name="SPEC.md", section=("Rules",), version=SHA)),
    (
        "artifact:docs/SPEC.md#sec=A%20b/I%2FO@v1.2.0",
        ArtifactAddress(name="docs/SPEC.md", section=("A b", "I/O"), version="v1.2.0"),
    ),
    ("artifact:a.md#sec=/Top@1.0", ArtifactAddress(name="a.md", section=("", "Top"), version="1.0")),
    (
        "artifact:a.md#sec=/Top/Note[2]@1.0",
        ArtifactAddress(name="a.md", section=("", "Top", "Note"), numbers=(0, 0, 2), version="1.0"),
    ),
    ("artifact:a.md#sec=Note%5B2%5D@1.0", ArtifactAddress(name="a.md", section=("Note[2]",), version="1.0")),
    ("artifact:sha256%3Aa.md@2026-01-08", ArtifactAddress(name="sha256:a.md", version="2026-01-08")),
    (
        f"artifact:a%3Ab//docs/SPEC.md#sec=Rules@{SHA}",
        ArtifactAddress(repository="a:b", name="docs/SPEC.md", section=("Rules",), version=SHA),
    ),
    (f"artifact:{DIGEST}", BodyAddress(digest=DIGEST)),
    (f"artifact:{DIGEST}#L3-L9", BodyAddress(digest=DIGEST, lines=(3, 9))),
    (
        "sam:decision:publish-domain@2026-01-08",
        SamAddress(kind="decision", slug="publish-domain", version="2026-01-08"),
    ),
    (f"diff:src/x.py@{SHA}..{SHA[::-1]}", DiffAddress(path="src/x.py", base=SHA, head=SHA[::-1])),
    (f"diff:lib//x.py@{SHA}..{SHA}", DiffAddress(repository="lib", path="x.py", base=SHA, head=SHA)),
    (
        f"test:tests/t.py::T::test_a[b\\n-%40]@{DIGEST}",
        TestAddress(node="tests/t.py::T::test_a[b\\n-@]", receipt=DIGEST),
    ),
    (
        f"url:https://example.org/a@b%2Fc?q=1@{DIGEST}",
        UrlAddress(url="https://example.org/a@b%2Fc?q=1", digest=DIGEST),
    ),
    (f"url:https://example.org:8443/@{DIGEST}", UrlAddress(url="https://example.org:8443/", digest=DIGEST)),
]


@pytest.mark.parametrize(("text", "address"), CANONICAL)
def test_a_canonical_text_and_its_address_convert_to_each_other(text: str, address: Address) -> None:
    assert parse_ref(text) == address
    assert print_address(address) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (f"repo:x.py#L7@{SHA}", f"repo:x.py#L7-L7@{SHA}"),
        (f"repo:%73rc/%78.py@{SHA}", f"repo:src/x.py@{SHA}"),
        (f"repo:a b.py@{SHA}", f"repo:a%20b.py@{SHA}"),
        (f"repo:@types/x.ts@{SHA}", f"repo:%40types/x.ts@{SHA}"),
        (f"repo:%c3%bc.py@{SHA}", f"repo:ü.py@{SHA}"),
        (f"repo:100%2541@{SHA}", f"repo:100%2541@{SHA}"),
        ("artifact:a:b.md@v1", "artifact:a%3Ab.md@v1"),
        (f"diff:%6Cib//a b.py@{SHA}..{SHA}", f"diff:lib//a%20b.py@{SHA}..{SHA}"),
        ("artifact:l%69b//x.md@v1", "artifact:lib//x.md@v1"),
        ("artifact:a.md#sec=C%23 notes@v1", "artifact:a.md#sec=C%23%20notes@v1"),
        (f"test:t.py%3A%3Aa@{DIGEST}", f"test:t.py::a@{DIGEST}"),
        (f"url:https://EXAMPLE.org:443@{DIGEST}", f"url:https://example.org/@{DIGEST}"),
        (f"url:https://example.org/%c3%bc@{DIGEST}", f"url:https://example.org/%C3%BC@{DIGEST}"),
    ],
)
def test_every_spelling_becomes_the_canonical_text(text: str, canonical: str) -> None:
    assert print_address(parse_ref(text)) == canonical
    assert print_address(parse_ref(canonical)) == canonical


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        ("", "POINTER_SYNTAX"),
        ("src/x.py", "POINTER_SYNTAX"),
        (f"file:x.py@{SHA}", "POINTER_SYNTAX"),
        (f"REPO:x.py@{SHA}", "POINTER_SYNTAX"),
        (f"repo:x%2@{SHA}", "POINTER_SYNTAX"),
        (f"repo:x%zz@{SHA}", "POINTER_SYNTAX"),
        (f"repo:x%+1@{SHA}", "POINTER_SYNTAX"),
        (f"repo:x%FF@{SHA}", "POINTER_SYNTAX"),
        (f"repo:x%C0%AE@{SHA}", "POINTER_SYNTAX"),
        (f"repo:x\ud800@{SHA}", "POINTER_SYNTAX"),
        # paths
        (f"repo:@{SHA}", "POINTER_PATH"),
        (f"diff:a//b//c@{SHA}..{SHA}", "POINTER_PATH"),
        (f"diff://a@{SHA}..{SHA}", "POINTER_PATH"),
        ("artifact:a/b//c.md@v1", "POINTER_PATH"),
        ("artifact:..//c.md@v1", "POINTER_PATH"),
        ("artifact:a//@v1", "POINTER_PATH"),
        (f"repo:../x@{SHA}", "POINTER_PATH"),
        (f"repo:a/../x@{SHA}", "POINTER_PATH"),
        (f"repo:a/..@{SHA}", "POINTER_PATH"),
        (f"repo:%2e%2E/x@{SHA}", "POINTER_PATH"),
        (f"repo:.%2e/x@{SHA}", "POINTER_PATH"),
        (f"repo:./x@{SHA}", "POINTER_PATH"),
        (f"repo:a/./x@{SHA}", "POINTER_PATH"),
        (f"repo:/etc/passwd@{SHA}", "POINTER_PATH"),
        (f"repo://x@{SHA}", "POINTER_PATH"),
        (f"repo:lib///x@{SHA}", "POINTER_PATH"),
        (f"repo:a/b//x@{SHA}", "POINTER_PATH"),
        (f"repo:..//x@{SHA}", "POINTER_PATH"),
        (f"repo:a//b//x@{SHA}", "POINTER_PATH"),
        (f"repo:x/@{SHA}", "POINTER_PATH"),
        (f"repo:a\\b@{SHA}", "POINTER_PATH"),
        (f"repo:a%5cb@{SHA}", "POINTER_PATH"),
        (f"repo:a%2fb@{SHA}", "POINTER_PATH"),
        (f"repo:a%00b@{SHA}", "POINTER_PATH"),
        (f"repo:a\0b@{SHA}", "POINTER_PATH"),
        (f"repo:a\nb@{SHA}", "POINTER_PATH"),
        (f"repo:a%0Ab@{SHA}", "POINTER_PATH"),
        (f"repo:a\x85b@{SHA}", "POINTER_PATH"),
        (f"artifact:../a.md@{SHA}", "POINTER_PATH"),
        (f"diff:../a.py@{SHA}..{SHA}", "POINTER_PATH"),
        ("sam:decision:a/b@2026-01-08", "POINTER_PATH"),
        (f"url:https://example.org/a/../b@{DIGEST}", "POINTER_PATH"),
        (f"url:https://example.org/%2E%2e/b@{DIGEST}", "POINTER_PATH"),
        (f"url:https://example.org\\@evil.example/@{DIGEST}", "POINTER_PATH"),
        # pins
        ("repo:x.py", "POINTER_NOT_PINNED"),
        ("repo:x.py#L1-L2", "POINTER_NOT_PINNED"),
        ("repo:x.py@", "POINTER_NOT_PINNED"),
        ("artifact:x.md@", "POINTER_NOT_PINNED"),
        ("artifact:x.md", "POINTER_NOT_PINNED"),
        ("sam:decision:x", "POINTER_NOT_PINNED"),
        ("diff:x.py@", "POINTER_NOT_PINNED"),
        (f"diff:x.py@{SHA}..", "POINTER_NOT_PINNED"),
        ("test:x", "POINTER_NOT_PINNED"),
        ("test:x@", "POINTER_NOT_PINNED"),
        ("url:https://example.org/", "POINTER_NOT_PINNED"),
        ("repo:x.py@0123456", "POINTER_REVISION"),
        (f"repo:x.py@{SHA.upper()}", "POINTER_REVISION"),
        (f"repo:x.py@{SHA}0", "POINTER_REVISION"),
        (f"repo:x.py@{SHA}\n", "POINTER_REVISION"),
        (f"repo:x.py@{SHA} ", "POINTER_REVISION"),
        (f"repo:x.py@{SHA}#L1-L2", "POINTER_REVISION"),
        ("repo:x.py@main", "POINTER_REVISION"),
        ("repo:x.py@HEAD~1", "POINTER_REVISION"),
        ("repo:x.py@v1.0", "POINTER_REVISION"),
        ("repo:x.py@--output=x", "POINTER_REVISION"),
        ("artifact:x.md@-1", "POINTER_REVISION"),
        ("artifact:x.md@main", "POINTER_REVISION"),
        ("artifact:x.md@feature/2", "POINTER_REVISION"),
        ("artifact:x.md@abc1234", "POINTER_REVISION"),
        (f"artifact:x.md@{SHA.upper()}", "POINTER_REVISION"),
        ("artifact:x.md@v1..v2", "POINTER_REVISION"),
        ("artifact:x.md@v" + "1" * 64, "POINTER_REVISION"),
        ("artifact:x.md@2026-13-01", "POINTER_REVISION"),
        ("artifact:sha256:abc", "POINTER_REVISION"),
        (f"artifact:{DIGEST.replace('cd', 'CD')}", "POINTER_REVISION"),
        ("sam:decision:x@2026-02-30", "POINTER_REVISION"),
        (f"diff:x.py@{SHA}", "POINTER_REVISION"),
        (f"diff:x.py@{SHA}...{SHA}", "POINTER_REVISION"),
        (f"diff:x.py@{SHA}..{SHA64}", "POINTER_REVISION"),
        (f"test:x@{SHA64}", "POINTER_REVISION"),
        ("url:https://example.org/@sha256:abc", "POINTER_REVISION"),
        # spans
        (f"artifact:{DIGEST}#", "POINTER_SPAN"),
        (f"artifact:{DIGEST}#sec=Rules", "POINTER_SPAN"),
        (f"artifact:{DIGEST}#L9-L3", "POINTER_SPAN"),
        (f"repo:x.py#@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#L20-L10@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#L0@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#L0-L3@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#L01@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#L10000001@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#L1-L{'9' * 100}@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#L-1@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#L1-@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#L1-2@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#L1-L2-L3@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#10-20@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#L1#L2@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#L١@{SHA}", "POINTER_SPAN"),
        (f"repo:x.py#sec=A@{SHA}", "POINTER_SPAN"),
        (f"artifact:x.md#L1-L2@{SHA}", "POINTER_SPAN"),
        (f"artifact:x.md#sec=@{SHA}", "POINTER_SPAN"),
        (f"artifact:x.md#sec=/@{SHA}", "POINTER_SPAN"),
        (f"artifact:x.md#sec=A//B@{SHA}", "POINTER_SPAN"),
        (f"artifact:x.md#sec=A%0AB@{SHA}", "POINTER_SPAN"),
        (f"diff:x.py#L1@{SHA}..{SHA}", "POINTER_SPAN"),
        (f"test:x#L1@{DIGEST}", "POINTER_SPAN"),
        (f"url:https://example.org/#a@{DIGEST}", "POINTER_SPAN"),
        # urls and others
        ("sam:decision@2026-01-08", "POINTER_SYNTAX"),
        ("sam::x@2026-01-08", "POINTER_SYNTAX"),
        (f"test:@{DIGEST}", "POINTER_SYNTAX"),
        (f"test:a%0Ab@{DIGEST}", "POINTER_SYNTAX"),
        (f"url:http://example.org/@{DIGEST}", "POINTER_SYNTAX"),
        (f"url:file:///etc/passwd@{DIGEST}", "POINTER_SYNTAX"),
        (f"url:https://user:pw@example.org/@{DIGEST}", "POINTER_SYNTAX"),
        (f"url:https://[::1]/@{DIGEST}", "POINTER_SYNTAX"),
        (f"url:https:///x@{DIGEST}", "POINTER_SYNTAX"),
        (f"url:https://example.org:0/@{DIGEST}", "POINTER_SYNTAX"),
        (f"url:https://example.org:99999/@{DIGEST}", "POINTER_SYNTAX"),
        (f"url:https://exämple.org/@{DIGEST}", "POINTER_SYNTAX"),
        (f"url:https://example.org/a b@{DIGEST}", "POINTER_SYNTAX"),
        (f"url:https://example.org/a\r\nX: y@{DIGEST}", "POINTER_SYNTAX"),
        (f"url:https://example.org/%zz@{DIGEST}", "POINTER_SYNTAX"),
        (f"url:https://example.org?x@{DIGEST}", "POINTER_SYNTAX"),
        (f"repo:{'a' * 300}@{SHA}", "POINTER_TOO_LONG"),
    ],
)
def test_invalid_refs_are_refused_with_a_code_and_a_field(ref: str, code: str) -> None:
    with pytest.raises(EngramBusError) as caught:
        parse_ref(ref, "pointers[0].ref")
    assert (caught.value.code, caught.value.field) == (code, "pointers[0].ref")


def test_refusals_name_the_limit() -> None:
    with pytest.raises(EngramBusError) as long:
        parse_ref("repo:" + "a" * 300)
    assert (long.value.limit, long.value.used) == (300, 305)
    with pytest.raises(EngramBusError) as huge:
        parse_ref(f"repo:x#L10000001@{SHA}")
    assert huge.value.limit == 10_000_000


@pytest.mark.parametrize(
    ("sent", "ref"),
    [
        (Pointer(type="repo", ref=f"repo:x.py@{SHA}", span="L3"), f"repo:x.py#L3-L3@{SHA}"),
        (Pointer(type="repo", ref=f"repo:x.py#L3@{SHA}", span="L3-L3"), f"repo:x.py#L3-L3@{SHA}"),
        (Pointer(type="artifact", ref="artifact:x.md@v1", span="Two words"), "artifact:x.md#sec=Two%20words@v1"),
        (Pointer(type="artifact", ref="artifact:x.md#sec=A/B@v1", span="sec=A/B"), "artifact:x.md#sec=A/B@v1"),
    ],
)
def test_a_span_is_moved_into_the_ref(sent: Pointer, ref: str) -> None:
    pointer, address = check_pointer(sent)
    assert pointer == Pointer(type=sent.type, ref=ref)
    assert parse_ref(ref) == address
    assert check_pointer(pointer) == (pointer, address)


@pytest.mark.parametrize(
    ("pointer", "code", "field"),
    [
        (Pointer(type="repo", ref=f"repo:x.py#L1@{SHA}", span="L2"), "POINTER_DISAGREES", "p.span"),
        (Pointer(type="artifact", ref="artifact:x.md#sec=A@v1", span="B"), "POINTER_DISAGREES", "p.span"),
        (Pointer(type="repo", ref=f"repo:x.py@{SHA}", span="junk"), "POINTER_SPAN", "p.span"),
        (Pointer(type="repo", ref=f"repo:x.py@{SHA}", span=""), "POINTER_SPAN", "p.span"),
        (Pointer(type="diff", ref=f"diff:x.py@{SHA}..{SHA}", span="L1"), "POINTER_SPAN", "p.span"),
        (Pointer(type="artifact", ref="artifact:x.md@v1", span="\ud800"), "POINTER_SYNTAX", "p.span"),
        (Pointer(type="artifact", ref="artifact:x.md@v1", span="a" * 301), "POINTER_TOO_LONG", "p.span"),
        (Pointer(type="artifact", ref=f"repo:x.py@{SHA}"), "POINTER_DISAGREES", "p.type"),
        (Pointer(type="file", ref=f"repo:x.py@{SHA}"), "POINTER_SYNTAX", "p.type"),
        (Pointer(type="repo", ref=f"repo:x.py@{SHA}", digest="md5:1"), "POINTER_SYNTAX", "p.digest"),
        (Pointer(type="repo", ref=f"repo:x.py@{SHA}", digest=DIGEST.upper()), "POINTER_SYNTAX", "p.digest"),
        (Pointer(type="repo", ref="repo:x.py"), "POINTER_NOT_PINNED", "p.ref"),
        (Pointer(type="repo", ref=f"repo:{' ' * 90}@{SHA}"), "POINTER_TOO_LONG", "p.ref"),
        (
            Pointer(type="artifact", ref=f"artifact:{DIGEST}", digest=f"sha256:{'0' * 64}"),
            "POINTER_DISAGREES",
            "p.digest",
        ),
    ],
)
def test_a_pointer_with_contradicting_parts_is_refused(pointer: Pointer, code: str, field: str) -> None:
    with pytest.raises(EngramBusError) as caught:
        check_pointer(pointer, "p")
    assert (caught.value.code, caught.value.field) == (code, field)


def test_a_pointer_is_encoded_as_published() -> None:
    pointer = msgspec.json.decode(b'{"type":"repo","ref":"repo:x","span":"L1"}', type=Pointer)
    assert msgspec.json.encode(pointer) == b'{"type":"repo","ref":"repo:x","span":"L1"}'
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"type":"repo","ref":"repo:x","more":1}', type=Pointer)


def test_a_megabyte_of_text_is_refused() -> None:
    for text in ("%", "#", "@", "/", "repo:" + "../", "L1-", "%2e"):
        with pytest.raises(EngramBusError):
            parse_ref("repo:" + text * (1_000_000 // len(text)))
        with pytest.raises(EngramBusError):
            check_pointer(Pointer(type="repo", ref=f"repo:x@{SHA}", span=text * (1_000_000 // len(text))))


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=12)
names = texts.filter(lambda text: text not in (".", "..") and not set("/\\") & set(text))
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
shas = st.one_of(
    st.text("0123456789abcdef", min_size=40, max_size=40), st.text("0123456789abcdef", min_size=64, max_size=64)
)
digests = st.text("0123456789abcdef", min_size=64, max_size=64).map("sha256:{}".format)
versions = st.one_of(shas, st.sampled_from(["v1", "1.2.0-rc.1+b5", "2026-01-08", "20260108"]))
numbers = st.integers(1, 10_000_000)
lines = st.tuples(numbers, numbers).map(lambda pair: (min(pair), max(pair)))
heading_texts = texts.filter(str.strip) | texts.filter(str.strip).map("{}[2]".format)
headings = st.lists(heading_texts, min_size=1, max_size=3).map(tuple)
numbered = st.lists(st.tuples(heading_texts, st.integers(1, 9_999_999)), min_size=1, max_size=3).map(
    lambda pairs: tuple(zip(*pairs, strict=True))
)
addresses: st.SearchStrategy[Address] = st.one_of(
    st.builds(RepoAddress, path=paths, revision=shas, lines=st.none() | lines, repository=st.none() | names),
    st.builds(
        ArtifactAddress,
        name=paths,
        version=versions,
        section=st.none() | headings,
        repository=st.none() | names,
    ),
    st.builds(
        lambda name, version, pair: ArtifactAddress(name=name, version=version, section=pair[0], numbers=pair[1]),
        paths,
        versions,
        numbered,
    ),
    st.builds(BodyAddress, digest=digests, lines=st.none() | lines),
    st.builds(SamAddress, kind=names, slug=names, version=versions),
    st.builds(
        lambda path, sha, name: DiffAddress(path=path, base=sha, head=sha[::-1], repository=name),
        paths,
        shas,
        st.none() | names,
    ),
    st.builds(TestAddress, node=texts, receipt=digests),
)


@given(addresses)
def test_a_printed_address_parses_to_itself(address: Address) -> None:
    text = print_address(address)
    if len(text) <= 300:
        assert parse_ref(text) == address
        assert "\n" not in text
        assert " " not in text


fragments = st.one_of(
    st.sampled_from(
        ["repo:", "artifact:", "sam:", "diff:", "test:", "url:https://", "#L", "#sec=", "@", "-L", "//", ".."]
    ),
    st.sampled_from([SHA, SHA64, DIGEST, "%2F", "%", "%41", "v1.0", "2026-01-08", "x.py", "1", "/", "example.org"]),
    st.text(max_size=5),
)


@given(st.lists(fragments, max_size=10).map("".join), st.none() | st.text(max_size=20), st.none() | st.text(max_size=9))
def test_any_text_is_refused_or_parses_to_a_stable_pointer(ref: str, span: str | None, digest: str | None) -> None:
    scheme = ref.partition(":")[0]
    refused: EngramBusError | None = None
    try:
        pointer, address = check_pointer(Pointer(type=scheme, ref=ref, span=span, digest=digest))
    except EngramBusError as problem:
        refused = problem
    if refused is not None:
        assert refused.field
        return
    assert parse_ref(pointer.ref) == address
    assert print_address(address) == pointer.ref
    assert check_pointer(pointer) == (pointer, address)


@given(address=addresses, name=names)
def test_naming_the_repository_changes_nothing_else(address: Address, name: str) -> None:
    text, expected = print_address(address), address
    if isinstance(address, RepoAddress | ArtifactAddress | DiffAddress) and address.repository is None:
        expected = msgspec.structs.replace(address, repository=name)
    assume(len(print_address(expected)) <= MAX_REF)
    named = name_repository(Pointer(type=text.partition(":")[0], ref=text, digest=DIGEST), name)
    assert (parse_ref(named.ref), named.digest) == (expected, DIGEST)
    assert name_repository(named, "another") == named
