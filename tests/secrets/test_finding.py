"""SC-06: what the detector promises whatever it is given."""

from __future__ import annotations

import base64
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.errors import SecretCheckFailed, SecretFound
from engrambus.policy.secrets import check_no_secrets, find_secrets, redact
from tests.secrets.corpus import TUNING, WRAPPINGS, Sample, secrets
from tests.secrets.kinds import FREE, draw

GITHUB = FREE["github"](Random(7))
SAMPLES = list(secrets(TUNING, rounds=1))


@given(st.text())
def test_any_text_is_looked_at_without_trouble_and_places_are_in_it(text: str) -> None:
    end = 0
    for found in find_secrets(text):
        assert end <= found.start < found.end <= len(text)
        end = found.end


@given(st.lists(st.one_of(st.sampled_from([sample.text for sample in SAMPLES]), st.text(max_size=20)), max_size=5))
@settings(max_examples=60, deadline=None)
def test_after_redaction_nothing_is_found(parts: list[str]) -> None:
    text = "".join(parts)
    clean, notes = redact(text)
    assert find_secrets(clean) == []
    assert bool(notes) == (clean != text)


@given(st.sampled_from(sorted(WRAPPINGS)), st.sampled_from(sorted(set(FREE) - {"high-entropy"})), st.randoms())
@settings(deadline=None)
def test_a_wrapped_secret_is_found(wrapping: str, kind: str, random: Random) -> None:
    rng = Random(random.getrandbits(32) % 500)
    assert find_secrets(WRAPPINGS[wrapping](FREE[kind](rng)))


@pytest.mark.parametrize(
    "unit",
    ["a", "=", "eyJ", "eyJ.", "gh" + "p_", "sk-" + "proj-", "password=", "://a:", "-----BEGIN PRIVATE KEY-----\n",
     "op" + "://a/", "token is ", "\\n", "A" * 64 + "\n", "0", "/", "Bearer ", "curl -u a:", "basic QQ", "Q~", "-us1",
     "\u00e9", "xox" + "b-1-", '"d":"', "secret=\"a", "0123456789abcdef", "login a password "],
)  # fmt: skip
def test_a_megabyte_of_anything_is_looked_at_in_linear_time(unit: str) -> None:
    # Anything quadratic would take hours; pytest's time limit is the assertion.
    find_secrets(unit * (1_000_000 // len(unit)))


def test_the_answer_never_holds_the_secret() -> None:
    found = find_secrets(f"use {GITHUB} for this")
    assert [(secret.kind, secret.start, secret.end) for secret in found] == [("github-token", 4, 44)]
    assert GITHUB not in repr(found)
    assert redact(f"use {GITHUB} for this")[0] == "use [redacted:github-token] for this"


def test_a_value_is_refused_by_field_and_kind() -> None:
    value = {"claim": "fine", "pointers": [{"ref": f"url:https://example.com/{GITHUB}"}]}
    with pytest.raises(SecretFound) as refused:
        check_no_secrets(value)
    assert refused.value.field == "pointers[0].ref"
    assert "github-token" in refused.value.detail
    assert GITHUB not in str(refused.value.problem())


# Texts that would excuse a secret, or be one with it, if they touched it.
NEIGHBOURS = [
    "The gateway reserves budget before it writes.", "sha256:", "integrity ", "public_", "icon", "https://", "\\",
    "QUJD" * 16, "password rules:\n ", '"kty', "login me", "-" * 40, "a" * 60,
]  # fmt: skip


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
def test_what_stands_beside_it_neither_hides_nor_makes_a_secret(neighbour: str) -> None:
    for sample in SAMPLES[::7]:
        value = {"before": neighbour, "here": sample.text, "after": neighbour}
        if find_secrets(sample.text):
            with pytest.raises(SecretFound) as refused:
                check_no_secrets(value)
            assert refused.value.field == "here", sample
        else:
            check_no_secrets(value)


def test_keys_are_looked_at_and_not_shown() -> None:
    with pytest.raises(SecretFound) as refused:
        check_no_secrets({"tags": {GITHUB: 1}}, "engrams[2]")
    assert refused.value.field == "engrams[2].tags.(key)"
    assert GITHUB not in str(refused.value.problem())


def test_the_name_of_a_field_speaks_for_its_value() -> None:
    password = "Winter" + "2031!"
    with pytest.raises(SecretFound, match="password"):
        check_no_secrets({"dbPassword": password})
    check_no_secrets({"passwordHint": password, "note": "the usual"})


def test_a_check_that_fails_stores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SecretCheckFailed):
        check_no_secrets({"body": object()})

    def broken(text: str) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr("engrambus.policy.secrets.check.find_secrets", broken)
    for call in (lambda: check_no_secrets([GITHUB], "claim"), lambda: redact(GITHUB)):
        with pytest.raises(SecretCheckFailed) as failed:
            call()
        assert failed.value.status == 503
        assert GITHUB not in str(failed.value.problem())
        assert failed.value.__cause__ is None


def test_deep_values_are_walked() -> None:
    value: object = GITHUB
    for _ in range(50_000):
        value = [value]
    with pytest.raises(SecretFound):
        check_no_secrets(value)


def test_innocent_values_pass() -> None:
    rng = Random(3)
    sha = draw(rng, "0123456789abcdef", 40)
    check_no_secrets(
        {
            "claim": f"Commit {sha} changed how the token budget is counted; password rules stay.",
            "pointers": [{"type": "repo", "ref": f"repo:src/policy/tokens.py#L10-L20@{sha}"}],
            "hash_keys": ["token", "secret+rotation", "service:gateway"],
            "confidence": 0.9,
            "icon": "data:image/png;base64," + base64.b64encode(rng.randbytes(300)).decode(),
        }
    )


@pytest.mark.parametrize(
    "sample",
    [sample for sample in SAMPLES if sample.kind != "high-entropy"][::97],
    ids=lambda sample: f"{sample.kind}-{sample.place}",
)
def test_redaction_takes_out_the_whole_secret(sample: Sample) -> None:
    clean, _ = redact(sample.text)
    secret = sample.text[sample.start : sample.end]
    assert secret not in clean
    if sample.kind in FREE and "header" not in sample.kind and "://" not in secret:
        assert secret[-12:] not in clean
