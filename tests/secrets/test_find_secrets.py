"""SC-06: the secret detector on any input."""

from __future__ import annotations

import base64
import time
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.errors import SecretCheckFailed, SecretFound
from engrambus.policy.secrets import SecretRules, check_no_secrets, find_secrets, hide_secrets, redact
from engrambus.policy.secrets.finder import MAX_TEXT_CHARS
from tests.secrets.corpus import TUNING, WRAPPINGS, Sample, secrets
from tests.secrets.kinds import FREE, draw

GITHUB = FREE["github"](Random(7))
SAMPLES = list(secrets(TUNING, rounds=1))


@given(st.text())
def test_any_text_can_be_searched_and_positions_are_inside_it(text: str) -> None:
    end = 0
    for secret in find_secrets(text):
        assert end <= secret.start < secret.end <= len(text)
        end = secret.end


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


HOSTILE = [
    "a", "=", "eyJ", "eyJ.", "gh" + "p_", "sk-" + "proj-", "password=", "://a:", "-----BEGIN PRIVATE KEY-----\n",
    "op" + "://a/", "token is ", "\\n", "A" * 64 + "\n", "0", "/", "Bearer ", "curl -u a:", "basic QQ", "Q~", "-us1",
    "\u00e9", "xox" + "b-1-", '"d":"', "secret=\"a", "0123456789abcdef", "login a password ",
    "sk-", "sk-a1", "AK" + "IA1\n", "aaaaaA\n", "eyJhbGciOiJ9.\n", "kind: Secret\ndata:\n", "kind: secret ",
    "data:\n  a: b\n",
    "server=a;pwd=b;", "password=a ", "jdbc:oracle:thin:a/", "postgres://a:b/", "://" + "a1B" * 40 + "@",
    "key_key_key=",
    "api_key " + "a1" * 20 + " ", "passwordx=a", "-----BEGIN ", "live_", "1/1", "a" * 4000 + " ",
    "ab" * 300 + "\n", "'\n'",
    "aA1bB2cC3" * 20 + "\n", "_pass=", "xX1" * 70 + " ", "deadbeef", "\n\0\n", "AAAAAAAAAAAAAAAAAAAA",
]  # fmt: skip
"""Beginnings of patterns, repeated to make each try as often and as long as it can."""


def _processor_seconds(text: str) -> float:
    began = time.process_time()
    find_secrets(text)
    return time.process_time() - began


@pytest.mark.parametrize("unit", HOSTILE)
def test_the_work_grows_with_the_size_of_a_text(unit: str) -> None:
    # Compared with itself: four times the text takes about four times as long; anything quadratic, sixteen times.
    size = 20_000
    while (seconds := _processor_seconds(unit * (size // len(unit) + 1))) < 0.02 and size < 1_000_000:
        size *= 2
    longer = min(_processor_seconds(unit * (4 * size // len(unit) + 1)) for _ in range(2))
    assert longer < 9 * max(seconds, 0.02), (unit, size, seconds, longer)


def test_the_result_never_contains_the_secret() -> None:
    secrets_found = find_secrets(f"use {GITHUB} for this")
    assert [(secret.kind, secret.start, secret.end) for secret in secrets_found] == [("github-token", 4, 44)]
    assert GITHUB not in repr(secrets_found)
    assert redact(f"use {GITHUB} for this")[0] == "use [redacted:github-token] for this"


def test_a_refusal_names_the_field_and_the_kind() -> None:
    value = {"claim": "fine", "pointers": [{"ref": f"url:https://example.com/{GITHUB}"}]}
    with pytest.raises(SecretFound) as error:
        check_no_secrets(value)
    assert error.value.field == "pointers[0].ref"
    assert "github-token" in error.value.detail
    assert GITHUB not in str(error.value.problem())


# Texts that would excuse a secret, or become part of it, if they were directly next to it.
NEIGHBOURS = [
    "The gateway reserves budget before it writes.", "sha256:", "integrity ", "public_", "icon", "https://", "\\",
    "QUJD" * 16, "password rules:\n ", '"kty', "login me", "-" * 40, "a" * 60,
]  # fmt: skip


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
def test_neighbouring_texts_neither_hide_nor_create_a_secret(neighbour: str) -> None:
    for sample in SAMPLES[::7]:
        value = {"first": neighbour, "middle": sample.text, "last": neighbour}
        if find_secrets(sample.text):
            with pytest.raises(SecretFound) as error:
                check_no_secrets(value)
            assert error.value.field == "middle", sample
        else:
            check_no_secrets(value)


def test_a_secret_in_a_key_is_refused_and_not_quoted() -> None:
    with pytest.raises(SecretFound) as error:
        check_no_secrets({"tags": {GITHUB: 1}}, "engrams[2]")
    assert error.value.field == "engrams[2].tags.(key)"
    assert GITHUB not in str(error.value.problem())


def test_the_name_of_a_field_can_make_its_value_a_secret() -> None:
    password = "Winter" + "2031!"
    with pytest.raises(SecretFound, match="password"):
        check_no_secrets({"dbPassword": password})
    check_no_secrets({"passwordHint": password, "note": "the usual"})


def test_a_failing_check_refuses_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SecretCheckFailed):
        check_no_secrets({"body": object()})

    def broken(text: str, rules: SecretRules) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr("engrambus.policy.secrets.check.find_secrets", broken)
    for call in (lambda: check_no_secrets([GITHUB], "claim"), lambda: redact(GITHUB)):
        with pytest.raises(SecretCheckFailed) as error:
            call()
        assert error.value.status == 503
        assert GITHUB not in str(error.value.problem())
        assert error.value.__cause__ is None


def test_deeply_nested_values_are_searched() -> None:
    value: object = GITHUB
    for _ in range(50_000):
        value = [value]
    with pytest.raises(SecretFound):
        check_no_secrets(value)


def test_values_without_secrets_pass() -> None:
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
def test_redaction_removes_the_complete_secret(sample: Sample) -> None:
    clean, _ = redact(sample.text)
    secret = sample.text[sample.start : sample.end]
    assert secret not in clean
    if sample.kind in FREE and "header" not in sample.kind and "://" not in secret:
        assert secret[-12:] not in clean


NAMES = ("src/auth.py", "auth.py", "token", "src/api_key", "secrets/keys.md", "passwords.txt", "config.secret", "key")
hexes = st.text("0123456789abcdef", min_size=40, max_size=40)


@given(st.sampled_from(NAMES), hexes, st.text("0123456789abcdef", min_size=64, max_size=64), st.integers(7, 40))
def test_pointers_and_public_ids_are_no_secrets(name: str, sha: str, digest: str, length: int) -> None:  # EB-34
    short = sha[:length]
    for text in (
        f"See {name}:1-2@{sha}.",
        f"See {name}:10@{short}, and Token in {name}:5-9@{short}.",
        f"repo:{name}:1-2@{sha} repo:{name}#L1-L2@{sha}",
        f"at: [{name}:1-2@{sha}, `{name}:7@{short}`]",
        f"artifact:{name}#sec=Auth/Token[2]@{sha} diff:{name}@{sha}..{sha[::-1]}",
        f"test:tests/{name}::test_token@sha256:{digest} artifact:sha256:{digest}#L1-L2",
        f"https://github.com/o/r/blob/{sha}/{name}?plain=1#L1-L2",
        f"https://github.com/o/r/compare/{sha}...{sha[::-1]}#diff-{digest}",
        f"swh:1:cnt:{sha};anchor=swh:1:rev:{sha};path=/{name};lines=1-2",
        f"budget_token: g_01K7Z3V5QXABCDEFGHJKMNPQRS, engram 01K7Z3V5QXABCDEFGHJKMNPQRS, digest sha256:{digest}",
    ):
        assert find_secrets(text) == [], text


@given(st.sampled_from(NAMES), hexes)
def test_a_secret_beside_a_pointer_is_found(name: str, sha: str) -> None:
    for text in (f"{name}:1-2@{sha} {GITHUB}", f"{name}:1-2@{GITHUB}", f"{name}:1-2@{sha} api_key={GITHUB}"):
        assert find_secrets(text), text


def test_a_password_of_that_shape_is_a_password() -> None:
    assert find_secrets("password:1-2@9f31c27780ab")
    assert find_secrets("auth_token: 1-2@9f31c27780ab55d1e0ffb5a1f4a3")


def test_a_text_that_is_too_large_or_has_too_many_secrets_is_not_passed() -> None:
    with pytest.raises(SecretCheckFailed):
        check_no_secrets({"claim": "a " * (MAX_TEXT_CHARS // 2 + 1)}, "claim")
    dump = "\n".join(FREE["github"](Random(number)) for number in range(101))
    with pytest.raises(SecretFound):
        check_no_secrets({"claim": dump})
    with pytest.raises(SecretCheckFailed):
        redact(dump)


MARKED_LATER = {"newrelic-license", "mailchimp", "azure-client-secret", "telegram", "discord-bot", "terraform"}
PREFIXED = sorted(
    kind
    for kind, make in FREE.items()
    if not {" ", "/", "\n"} & set(make(Random(1))) and kind not in {*MARKED_LATER, "high-entropy"}
)
"""Kinds that are one word and begin with a mark of their own."""


@given(st.sampled_from(PREFIXED), st.integers(min_value=32, max_value=80), st.randoms())
def test_a_quotation_shows_no_beginning_of_a_secret(kind: str, cut: int, random: Random) -> None:
    """Errors quote a name or a value only up to some length; what is left of a key is still hidden."""
    secret = FREE[kind](Random(random.getrandbits(16)))[:cut]
    shown = hide_secrets(f"There is no field '{secret}'.")
    assert secret[16:] not in shown, shown


def test_a_quotation_keeps_what_is_no_secret() -> None:
    sha = draw(Random(4), "0123456789abcdef", 40)
    for text in (
        "The field `confidenze` is not known here.",
        "No Engram Bus project at /tmp/pytest-of-root/test_outside_a_project_the_err0 or above.",
        "There is no file src/secret_rotation_policy.py, nor live_reload_of_pages or oauth_callback_url.",
        f"repo:src/parser.py#L1-L9@{sha} leads nowhere; artifact:sha256:{sha}{sha[:24]}",
        "01K7Z3V5QXABCDEFGHJKMNPQRS/reviewer-2 may not call `less.put_engram`.",
        "Send 'Authorization: Bearer <token>'; `engrambus agent token NAME` prints one.",
    ):
        assert hide_secrets(text) == text


def test_a_manifest_that_is_sent_as_an_object_has_secret_values() -> None:
    manifest = {"kind": "Secret", "metadata": {"name": "app"}, "data": {"uri": "Y29wcGVyKjMyOTg="}}
    with pytest.raises(SecretFound) as error:
        check_no_secrets({"payload": [manifest]})
    assert (error.value.field, "kubernetes-secret" in error.value.detail) == ("payload[0].data.uri", True)
    check_no_secrets({"payload": [{**manifest, "kind": "ConfigMap"}, {**manifest, "data": {"uri": "${URI}"}}]})


def test_a_quoted_path_is_hidden_only_where_a_key_begins() -> None:
    path = "/home/ada/test_outside_a_project_the_err0/live_orders_of_today.py"
    assert hide_secrets(path) == path
    key = "Zx81Qp0LmT7vWbC3nYk5"
    assert key[:8] not in hide_secrets(f"/home/ada/test_{key}/notes.txt")
