"""The addresses that a pointer or a prefix covers."""  # EB-11

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import RepoAddress, print_address
from engrambus.policy.grants.targets import read_pointer, read_prefix
from tests.grants.samples import OTHER_SHA, SHA, address, make_token, refusal_code, verify

DIGEST = f"sha256:{'ab' * 32}"
OTHER_DIGEST = f"sha256:{'cd' * 32}"


@pytest.mark.parametrize(
    ("granted", "requested", "covered"),
    [
        # A file covers itself and any of its lines.
        (f"repo:src/a.py@{SHA}", f"repo:src/a.py@{SHA}", True),
        (f"repo:src/a.py@{SHA}", f"repo:src/a.py#L1-L9999@{SHA}", True),
        (f"repo:src/a.py@{SHA}", f"repo:src/a.py@{OTHER_SHA}", False),
        (f"repo:src/a.py@{SHA}", f"repo:src/a.pyc@{SHA}", False),
        (f"repo:src/a.py@{SHA}", f"repo:src/a.py/b@{SHA}", False),
        (f"repo:src/a.py@{SHA}", f"repo:src/A.py@{SHA}", False),
        (f"repo:src/a.py@{SHA}", f"repo:lib//src/a.py@{SHA}", False),
        (f"repo:lib//src/a.py@{SHA}", f"repo:src/a.py@{SHA}", False),
        (f"repo:src/a.py@{SHA}", f"repo:src/%61.py@{SHA}", True),
        (f"repo:café.py@{SHA}", f"repo:cafe\u0301.py@{SHA}", True),
        # Lines cover what lies inside them.
        (f"repo:a.py#L10-L20@{SHA}", f"repo:a.py#L10-L20@{SHA}", True),
        (f"repo:a.py#L10-L20@{SHA}", f"repo:a.py#L11@{SHA}", True),
        (f"repo:a.py#L10-L20@{SHA}", f"repo:a.py#L9-L20@{SHA}", False),
        (f"repo:a.py#L10-L20@{SHA}", f"repo:a.py#L10-L21@{SHA}", False),
        (f"repo:a.py#L10-L20@{SHA}", f"repo:a.py#L1-L9@{SHA}", False),
        (f"repo:a.py#L10-L20@{SHA}", f"repo:a.py@{SHA}", False),
        (f"repo:a.py#L10-L20@{SHA}", f"repo:b.py#L10-L20@{SHA}", False),
        # A document covers its sections; a section only itself.
        ("artifact:SPEC.md@v1", "artifact:SPEC.md#sec=Rules@v1", True),
        ("artifact:SPEC.md@v1", "artifact:docs/SPEC.md@v1", False),
        (f"artifact:sha256:{'a' * 64}", f"artifact:sha256:{'a' * 64}#L3-L9", True),
        (f"artifact:sha256:{'a' * 64}", f"artifact:sha256:{'b' * 64}#L3-L9", False),
        (f"artifact:sha256:{'a' * 64}#L3-L9", f"artifact:sha256:{'a' * 64}#L4-L9", True),
        (f"artifact:sha256:{'a' * 64}#L3-L9", f"artifact:sha256:{'a' * 64}#L3-L10", False),
        (f"artifact:sha256:{'a' * 64}#L3-L9", f"artifact:sha256:{'a' * 64}", False),
        ("artifact:SPEC.md@v1", "artifact:SPEC.md@v2", False),
        ("artifact:SPEC.md#sec=Rules@v1", "artifact:SPEC.md#sec=Rules@v1", True),
        ("artifact:SPEC.md#sec=Rules@v1", "artifact:SPEC.md#sec=Rules/More@v1", False),
        ("artifact:SPEC.md#sec=Rules@v1", "artifact:SPEC.md@v1", False),
        # Everything else covers itself.
        (f"artifact:{DIGEST}", f"artifact:{DIGEST}", True),
        (f"artifact:{DIGEST}", f"artifact:{OTHER_DIGEST}", False),
        ("sam:decision:domain@2026-01-08", "sam:decision:domain@2026-01-08", True),
        ("sam:decision:domain@2026-01-08", "sam:decision:domains@2026-01-08", False),
        (f"diff:a.py@{SHA}..{OTHER_SHA}", f"diff:a.py@{SHA}..{OTHER_SHA}", True),
        (f"diff:a.py@{SHA}..{OTHER_SHA}", f"diff:a.py@{OTHER_SHA}..{SHA}", False),
        (f"diff:a.py@{SHA}..{OTHER_SHA}", f"repo:a.py@{SHA}", False),
        (f'test:t.py::a["\\]@{DIGEST}', f'test:t.py::a["\\]@{DIGEST}', True),
        (f"test:t.py::a@{DIGEST}", f"test:t.py::a@{OTHER_DIGEST}", False),
        (f"url:https://example.org/a*b@{DIGEST}", f"url:https://example.org/a*b@{DIGEST}", True),
        (f"url:https://example.org/a@{DIGEST}", f"url:https://example.org/a/b@{DIGEST}", False),
        # In a pointer a star is a character, never a pattern.
        (f"repo:src/*@{SHA}", f"repo:src/*@{SHA}", True),
        (f"repo:src/*@{SHA}", f"repo:src/a.py@{SHA}", False),
        (f"repo:*@{SHA}", f"repo:a.py@{SHA}", False),
        (f'repo:src/"); allow if true; ("@{SHA}', f'repo:src/"); allow if true; ("@{SHA}', True),
    ],
)
def test_a_pointer_target_covers_addresses(granted: str, requested: str, covered: bool) -> None:
    target = read_pointer(granted)
    assert target.covers(address(requested)) is covered
    if covered:
        assert verify(make_token(pointer=granted), pointer=address(requested)).blocks[0].target == target


@pytest.mark.parametrize(
    ("granted", "requested", "covered"),
    [
        (f"repo:src/auth/*@{SHA}", f"repo:src/auth/a.py@{SHA}", True),
        (f"repo:src/auth/*@{SHA}", f"repo:src/auth/deep/er/a.py#L3-L4@{SHA}", True),
        (f"repo:src/auth/*@{SHA}", f"repo:src/auth/*@{SHA}", True),
        (f"repo:src/auth/*@{SHA}", f"repo:src/auth/..a@{SHA}", True),
        (f"repo:src/auth/*@{SHA}", f"repo:src/auth@{SHA}", False),
        (f"repo:src/auth/*@{SHA}", f"repo:src/authority.py@{SHA}", False),
        (f"repo:src/auth/*@{SHA}", f"repo:src/auth.py@{SHA}", False),
        (f"repo:src/auth/*@{SHA}", f"repo:src/Auth/a.py@{SHA}", False),
        (f"repo:src/auth/*@{SHA}", f"repo:x/src/auth/a.py@{SHA}", False),
        (f"repo:src/auth/*@{SHA}", f"repo:src/auth/a.py@{OTHER_SHA}", False),
        (f"repo:src/auth/*@{SHA}", f"repo:lib//src/auth/a.py@{SHA}", False),
        (f"repo:src/auth/*@{SHA}", f"repo:src//auth/a.py@{SHA}", False),
        (f"repo:src/auth/*@{SHA}", f"diff:src/auth/a.py@{SHA}..{OTHER_SHA}", False),
        (f"repo:src/auth/*@{SHA}", "artifact:src/auth/a.md@v1", False),
        (f"repo:src/auth/*@{SHA}", f"repo:src/auth%20/a.py@{SHA}", False),
        (f"repo:src/a*/*@{SHA}", f"repo:src/a*/x@{SHA}", True),
        (f"repo:src/a*/*@{SHA}", f"repo:src/ab/x@{SHA}", False),
        (f"repo:*/*@{SHA}", f"repo:src/x@{SHA}", False),
        (f'repo:src"/*@{SHA}', f'repo:src"/x@{SHA}', True),
        (f"repo:*@{SHA}", f"repo:any/thing#L1@{SHA}", True),
        (f"repo:*@{SHA}", f"repo:lib//any/thing@{SHA}", False),
        (f"repo:lib//*@{SHA}", f"repo:lib//any/thing@{SHA}", True),
        (f"repo:lib//*@{SHA}", f"repo:any/thing@{SHA}", False),
        (f"repo:lib//src/*@{SHA}", f"repo:lib//src/x@{SHA}", True),
        (f"diff:src/*@{SHA}..{OTHER_SHA}", f"diff:src/a.py@{SHA}..{OTHER_SHA}", True),
        (f"diff:src/*@{SHA}..{OTHER_SHA}", f"diff:src/a.py@{OTHER_SHA}..{SHA}", False),
        (f"diff:src/*@{SHA}..{OTHER_SHA}", f"repo:src/a.py@{SHA}", False),
    ],
)
def test_a_prefix_target_covers_addresses(granted: str, requested: str, covered: bool) -> None:
    target = read_prefix(granted)
    assert target.text == granted
    assert target.covers(address(requested)) is covered
    if covered:
        assert verify(make_token(prefix=granted), pointer=address(requested)).blocks[0].target == target


@pytest.mark.parametrize(
    "requested",
    [
        f"repo:src/auth/../secret.py@{SHA}",
        f"repo:src/auth/%2e%2e/secret.py@{SHA}",
        f"repo:src/auth/%2E./secret.py@{SHA}",
        f"repo:src/auth%2F..%2Fsecret.py@{SHA}",
        f"repo:src/auth/./a.py@{SHA}",
        f"repo:/src/auth/a.py@{SHA}",
        f"repo:src\\auth\\a.py@{SHA}",
        f"repo:src/auth/a.py\x00@{SHA}",
        f"repo:src/auth/@{SHA}",
    ],
)
def test_a_path_out_of_the_repository_is_not_an_address(requested: str) -> None:
    with pytest.raises(EngramBusError):
        address(requested)


@pytest.mark.parametrize(
    "prefix",
    [
        f"repo:src/a*@{SHA}",
        f"repo:src/**@{SHA}",
        f"repo:src/@{SHA}",
        f"repo:src@{SHA}",
        f"repo:src/%2A@{SHA}",
        f"repo:src/../*@{SHA}",
        f"repo:../*@{SHA}",
        f"repo:/*@{SHA}",
        f"repo:src//x//*@{SHA}",
        f"repo:a.py#L1-L2/*@{SHA}",
        f"repo:src/*#L1-L2@{SHA}",
        "repo:src/*",
        "repo:src/*@main",
        f"repo:src/*@{SHA[:12]}",
        "artifact:docs/*@v1",
        "sam:decision:*@2026-01-08",
        f"url:https://example.org/*@{DIGEST}",
        f"test:tests/*@{DIGEST}",
        f"diff:a//b//*@{SHA}..{OTHER_SHA}",
        "*",
        "",
        f"repo:{'d/' * 150}*@{SHA}",
    ],
)
def test_an_invalid_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(EngramBusError):
        make_token(prefix=prefix)


def test_a_url_that_changes_when_its_quote_is_encoded_cannot_be_granted() -> None:
    with pytest.raises(EngramBusError):
        make_token(pointer=f'url:https://example.org/"a@{DIGEST}')
    with pytest.raises(EngramBusError):
        verify(
            make_token(pointer=f"url:https://example.org/%22a@{DIGEST}"),
            pointer=address(f'url:https://example.org/"a@{DIGEST}'),
        )


_segment = st.text(st.sampled_from('ab*". %~é'), min_size=1, max_size=3).filter(lambda text: text not in (".", ".."))
_path = st.lists(_segment, min_size=1, max_size=4).map("/".join)
_lines = st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9)).map(lambda pair: (min(pair), max(pair)))
_files = st.builds(RepoAddress, path=_path, revision=st.just(SHA), lines=_lines)


@given(folder=_path, file=_files)
def test_a_prefix_covers_exactly_the_files_below_it(folder: str, file: RepoAddress) -> None:
    text = print_address(RepoAddress(path=folder, revision=SHA))
    target = read_prefix(text.replace("@", "/*@"))
    beneath = file.path.split("/")[: folder.count("/") + 1] == folder.split("/") and len(file.path) > len(folder)
    assert target.covers(file) == beneath


@given(granted=_files, requested=_files)
def test_a_token_covers_what_its_pointer_covers(granted: RepoAddress, requested: RepoAddress) -> None:
    granted_lines = set(range(*_span(granted)))
    inside = granted.path == requested.path and granted_lines >= set(range(*_span(requested)))
    token = make_token(pointer=print_address(granted))
    assert refusal_code(token, pointer=requested) == (None if inside else "GRANT_WRONG_POINTER")


def _span(file: RepoAddress) -> tuple[int, int]:
    return (file.lines[0], file.lines[1] + 1) if file.lines else (0, 12)
