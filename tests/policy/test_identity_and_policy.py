"""Roles, lineage, scopes, and the policy file."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.core import read_yaml
from engrambus.errors import AgentNotFound, FieldValue, NotYourDescendant, PolicyInvalid, RoleForbidden, ScopeForbidden
from engrambus.policy import (
    DEFAULT_POLICY,
    ROLES,
    Agent,
    AgentsBelow,
    Caller,
    Policy,
    Run,
    check_descends,
    check_may_write,
    read_policy,
    space_of,
    visible_spaces,
)
from engrambus.policy.identity import check_name, with_article
from engrambus.policy.limits import LIMITS, NOT_FOR_PEOPLE, LimitName
from engrambus.policy.membership import check_below
from engrambus.policy.policy_keys import policy_keys, policy_template, policy_values

RUN = Run(run_id="01KDVP9R000000000000000000", goal="g", number=7, opened_us=0)
LADDER = ["programmer", "manager", "director", "architect"]


def caller(name: str, role: str) -> Caller:
    return Caller(project="p", run=RUN, name=name, role=role)


class AgentTree:
    """The agents of one run, by name and parent."""

    def __init__(self, **parents: str | None) -> None:
        self._agents = {
            name: Agent(run=RUN.run_id, name=name, role="manager", parent=parent) for name, parent in parents.items()
        }

    def run(self, run_id: str) -> Run | None:
        return RUN if run_id == RUN.run_id else None

    def current_run(self) -> Run | None:
        return RUN

    def run_of_session(self, session: str) -> Run | None:
        return None

    def agent(self, run_id: str, name: str) -> Agent | None:
        return self._agents.get(name) if run_id == RUN.run_id else None

    def agents(self, run_id: str) -> list[Agent]:
        return list(self._agents.values())

    def agents_named(self, name: str) -> list[Agent]:
        return [agent for agent in self._agents.values() if agent.name == name]

    def newest_agents(self, *, limit: int) -> list[Agent]:
        return list(self._agents.values())[::-1][:limit]

    def agents_below(self, run_id: str, root: str, since_us: int) -> AgentsBelow:
        return AgentsBelow(0, ())

    def agent_of_client(self, run_id: str, client_id: str) -> Agent | None:
        return None


@pytest.mark.parametrize("parent", [*LADDER, "tool", "admin"])
@pytest.mark.parametrize("role", [*LADDER, "tool", "admin"])
def test_a_childs_role_must_rank_below_its_parents(parent: str, role: str) -> None:
    rank = {role: index for index, role in enumerate(["tool", *LADDER, "admin"])}
    allowed = role != "admin" and parent != "tool" and rank[role] < rank[parent]
    if allowed:
        check_below(role, parent)
    else:
        with pytest.raises(RoleForbidden) as caught:
            check_below(role, parent)
        assert caught.value.field == "role"
    assert set(ROLES) == {*LADDER, "tool", "admin"}


def test_a_descendant_is_a_child_of_a_child() -> None:
    agents = AgentTree(a=None, b="a", c="b", d="c", x=None)
    for name in "abcd":
        assert check_descends(agents, caller("a", "architect"), name).name == name
        assert check_descends(agents, caller("admin", "admin"), name).name == name
    for name in ("a", "x"):
        with pytest.raises(NotYourDescendant):
            check_descends(agents, caller("b", "manager"), name)
    with pytest.raises(AgentNotFound):
        check_descends(agents, caller("a", "architect"), "nobody")


def test_a_cycle_of_parents_is_not_followed_forever() -> None:
    agents = AgentTree(a="b", b="a", x=None)
    with pytest.raises(NotYourDescendant):
        check_descends(agents, caller("x", "manager"), "a")


@pytest.mark.parametrize("name", ["a", "ada", "ada-2", "_x", "9", "a.b_c-d", "x" * 64])
def test_valid_names_are_accepted(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "x" * 65, "Ada", "a b", "-a", ".a", "a/b", "é", "a\n", "a\x00", "admin", "..", "a:b", "\ud800"]
)
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(FieldValue):
        check_name(name)


@pytest.mark.parametrize(("role", "text"), [("architect", "an architect"), ("admin", "an admin"), ("tool", "a tool")])
def test_a_role_has_its_article(role: str, text: str) -> None:
    assert with_article(role) == text


def test_an_empty_policy_is_the_default() -> None:
    assert read_policy(None) == DEFAULT_POLICY
    assert read_policy({}) == DEFAULT_POLICY
    assert read_policy(read_yaml(policy_template())) == DEFAULT_POLICY
    assert DEFAULT_POLICY.scopes == ("run", "project")
    assert [DEFAULT_POLICY.floor(scope) for scope in ("run", "project", "org", "global")] == [0.0, 0.5, 0.7, 0.8]


def test_the_lines_of_the_template_are_the_defaults_when_uncommented() -> None:
    lines = [line.removeprefix("# ") for line in policy_template().splitlines()[2:]]
    assert policy_values(read_policy(read_yaml("\n".join(lines)))) == policy_values(DEFAULT_POLICY)


def test_the_template_names_every_key_with_its_meaning() -> None:
    template = policy_template()
    for key in policy_keys():
        assert f"{key.name.rpartition('.')[2]}: " in template
        assert f"# {key.meaning}\n" in template


def test_a_policy_sets_scopes_floors_and_lifetimes() -> None:
    policy = read_policy(
        {
            "scopes": ["run", "project", "org"],
            "write_scopes": {"programmer": ["run"], "architect": ["run", "project", "org", "global"]},
            "promotion_floor": {"org": 0.95},
            "max_ttl": "P7D",
        }
    )
    assert policy.may_write("programmer", "run")
    assert not policy.may_write("programmer", "project")
    assert policy.may_write("manager", "project")
    assert policy.may_write("architect", "org")
    assert not policy.may_write("architect", "global")  # not enabled
    assert policy.floor("org") == 0.95


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ([], "policy.yaml"),
        ("text", "policy.yaml"),
        (1, "policy.yaml"),
        ({"unknown": 1}, "unknown"),
        ({"scopes": "run"}, "policy.yaml"),
        ({"scopes": ["run", "everywhere"]}, "scopes"),
        ({"write_scopes": {"intern": ["run"]}}, "write_scopes"),
        ({"write_scopes": {"tool": ["nowhere"]}}, "write_scopes.tool"),
        ({"promotion_floor": {"moon": 0.1}}, "promotion_floor"),
        ({"promotion_floor": {"org": "high"}}, "policy.yaml"),
        ({"max_ttl": "P1M"}, "max_ttl"),
        ({"max_ttl": 5}, "policy.yaml"),
        ({"token_ttl": "forever"}, "token_ttl"),
        ({"urls": {"enabled": "yes"}}, "policy.yaml"),
        ({"urls": {"hosts": "example.org"}}, "policy.yaml"),
        ({"urls": {"extra": 1}}, "urls.extra"),
    ],
)
def test_an_invalid_policy_is_refused_with_its_field(value: Any, field: str) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        read_policy(value)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("value", "field", "known", "meant"),
    [
        ({"max_tll": "P7D"}, "max_tll", "max_ttl", "max_ttl"),
        ({"inline": {"max_engrms": 3}}, "inline.max_engrms", "inline.max_engrams", "inline.max_engrams"),
        ({"max_inline_tokens": 3}, "max_inline_tokens", "inline", "inline.max_inline_tokens"),
        ({"guardrails": {"gc": {"hot_day": 1}}}, "guardrails.gc.hot_day", "hot_days", "guardrails.gc.hot_days"),
        ({"limts": {}}, "limts", "limits", "limits"),
    ],
)
def test_an_unknown_key_is_refused_with_the_known_ones_and_the_one_that_was_meant(
    value: Any, field: str, known: str, meant: str
) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        read_policy(value)
    assert caught.value.field == field
    assert known in str(caught.value.limit)
    assert f"Did you mean `{meant}`?" in str(caught.value.hint)


def test_the_amount_of_every_limit_is_a_policy_key() -> None:
    names = {key.name for key in policy_keys()}
    for keys, _ in LIMITS.values():
        assert names.issuperset(keys.split(", "))


@pytest.mark.parametrize("limit", sorted(NOT_FOR_PEOPLE))
def test_a_person_has_no_turn_and_no_rate(limit: LimitName) -> None:
    assert Policy(limits={limit: "warn"}).checks("admin").mode(limit) == "off"
    assert Policy(limits={limit: "warn"}).checks("manager").mode(limit) == "warn"


def test_code_and_message_size_apply_to_a_person_too() -> None:
    assert all(DEFAULT_POLICY.checks("admin").is_enforced(limit) for limit in ("inline_code", "message_tokens"))
    assert Policy(limits={"inline_code": {"admin": "off"}}).checks("admin").mode("inline_code") == "off"


@pytest.mark.parametrize("floor", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_floor_is_a_confidence(floor: float) -> None:
    with pytest.raises(PolicyInvalid):
        read_policy({"promotion_floor": {"project": floor}})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["scopes", "urls", "max_ttl"]) | st.text(), inner)
        ),
        max_leaves=8,
    )
)
def test_any_value_is_a_policy_or_refused(value: Any) -> None:
    with contextlib.suppress(PolicyInvalid):
        assert isinstance(read_policy(value), Policy)


def test_a_caller_sees_the_spaces_of_its_run_and_its_project() -> None:  # EB-20
    ada = caller("ada", "programmer")
    assert space_of("run", RUN) == "r7"
    assert space_of("project", RUN) == "p"
    assert visible_spaces(ada) == ("r7", "p")
    assert visible_spaces(ada, "run") == ("r7",)
    assert visible_spaces(ada, "project") == ("p",)
    assert visible_spaces(ada, "org") == ()
    assert visible_spaces(ada, "global") == ()


def test_scopes_that_are_not_enabled_cannot_be_written() -> None:
    for scope in ("org", "global"):
        with pytest.raises(ScopeForbidden, match="not enabled"):
            check_may_write(DEFAULT_POLICY, caller("ada", "architect"), scope)
    for role in ROLES:
        check_may_write(DEFAULT_POLICY, caller("x", role), "run")
        check_may_write(DEFAULT_POLICY, caller("x", role), "project")
