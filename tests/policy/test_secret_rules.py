"""The thresholds of random strings: in force when the policy is applied, for refusals and redactions alike."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from engrambus.errors import PolicyInvalid
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.operations import OPERATIONS
from engrambus.policy import read_policy
from engrambus.policy.policy_keys import policy_template
from engrambus.testing import expect_refusal
from tests.secrets.kinds import ALNUM, FREE, draw

SHORT, LONG = draw(Random(5), ALNUM, 24), draw(Random(6), ALNUM, 44)
VENDOR = FREE["github"](Random(7))


def call(gateway: Gateway, name: str, **fields: Any) -> Any:
    """Call an operation as the admin."""
    operation = OPERATIONS[name]
    return gateway.call(operation, operation.request(**fields), LOCAL_ADMIN)


def put(gateway: Gateway, text: str) -> Any:
    """Put an engram with a text in its claim."""
    return call(gateway, "put_engram", claim=f"The cache holds {text} now.", at=["src/parser.py:1-2"])


def contribute(gateway: Gateway, text: str) -> str:
    """Contribute a text, and return what is stored of it."""
    content: str = call(gateway, "contribute", content=f"The cache of {text[:4]} holds {text} now.").content
    return content


def test_a_lower_minimum_accuses_shorter_strings(gateway: Gateway) -> None:  # SC-09
    put(gateway, SHORT)
    assert SHORT in contribute(gateway, SHORT)
    call(gateway, "apply_policy", policy={"secrets": {"min_chars": 20}})
    with expect_refusal("SECRET_FOUND", "claim"):
        put(gateway, SHORT[::-1])
    assert SHORT[::-1] not in contribute(gateway, SHORT[::-1])


def test_a_higher_entropy_excuses_strings(gateway: Gateway) -> None:  # SC-09
    with expect_refusal("SECRET_FOUND", "claim"):
        put(gateway, LONG)
    assert LONG not in contribute(gateway, LONG)
    call(gateway, "apply_policy", policy={"secrets": {"min_entropy_bits": 5.9}})
    put(gateway, LONG)
    assert LONG in contribute(gateway, LONG)


def test_random_strings_can_be_allowed_but_no_format_of_a_vendor(gateway: Gateway) -> None:  # SC-09
    call(gateway, "apply_policy", policy={"secrets": {"random_strings": False}})
    put(gateway, LONG)
    assert LONG in contribute(gateway, LONG)
    for text in (VENDOR, f"api_key={LONG}", "postgres://app:" + "Winter2031@db/main"):
        with expect_refusal("SECRET_FOUND", "claim"):
            put(gateway, text)
        assert text not in contribute(gateway, text)


def test_thresholds_are_shown_and_an_edited_file_changes_nothing_by_itself(gateway: Gateway) -> None:  # SC-09
    settings = {setting.key: setting.value for setting in call(gateway, "show_policy").settings}
    assert {key: settings[f"secrets.{key}"] for key in ("random_strings", "min_entropy_bits", "min_chars")} == {
        "random_strings": True,
        "min_entropy_bits": 4.0,
        "min_chars": 32,
    }
    assert "min_entropy_bits: 4.0" in policy_template()
    call(gateway, "apply_policy", policy={"secrets": {"min_chars": 40}})
    changed = {setting.key: setting for setting in call(gateway, "show_policy").settings}["secrets.min_chars"]
    assert (changed.value, changed.set_by is not None) == (40, True)


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ({"min_chars": 15}, "secrets.min_chars"),
        ({"min_chars": 201}, "secrets.min_chars"),
        ({"min_entropy_bits": 1.9}, "secrets.min_entropy_bits"),
        ({"min_entropy_bits": 6.1}, "secrets.min_entropy_bits"),
        ({"formats": False}, "secrets.formats"),
        ({"random_strings": "no"}, "policy.yaml"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused(rules: dict[str, Any], field: str) -> None:  # SC-09
    with pytest.raises(PolicyInvalid) as refusal:
        read_policy({"secrets": rules})
    assert refusal.value.field == field
