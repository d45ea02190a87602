"""A catalog: what is found under a name, what is offered when nothing is, lanes, changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.errors import EngramBusError, YoolNotFound, YoolTwice
from engrambus.space.catalog import Catalog, CatalogEntry, Terms, parse_catalog, print_catalog
from tests.catalog.test_names import entry

NAMES = st.sampled_from(
    ["agent.dev.python", "agent.lint.ruff", "agent.dev.lang32376", "agent.dev.lang42257", "net.fetch"]
)
ENTRIES = st.lists(
    st.builds(
        CatalogEntry,
        name=NAMES,
        version=st.integers(1, 4),
        authority=st.sampled_from([("user",), ("user", "ci"), ("user", "agent", "ci")]),
        lane=st.sampled_from(["build", "test"]),
        terms=st.builds(
            Terms, budget_micros=st.none() | st.integers(0, 10**9), max_retries=st.none() | st.integers(0, 9)
        ),
        about=st.sampled_from(["", 'Lints — "all" of it\u2028.']),
    ),
    unique_by=lambda each: each.full_name,
)


@settings(deadline=None)
@given(ENTRIES, ENTRIES)
def test_a_catalog_is_its_entries_however_it_came_about(one: list[CatalogEntry], other: list[CatalogEntry]) -> None:
    # YT-02
    catalog = Catalog(one)
    grown = Catalog()
    for each in reversed(one):
        grown = grown.add(each)
    assert grown.root == catalog.root
    assert list(grown) == list(catalog) == sorted(one, key=lambda each: (each.name, each.version))
    for each in one:
        assert catalog.lookup(each.full_name) == each
        assert catalog.lookup(each.name).version == max(some.version for some in one if some.name == each.name)
        assert each in catalog.by_lane(each.lane)
        assert catalog.remove(each.full_name).add(each).root == catalog.root
        assert catalog.remove(each.full_name).get(each.full_name) is None
    changes = catalog.diff(Catalog(other))
    old, new = ({each.full_name: each for each in some} for some in (one, other))
    assert {each.full_name for each in changes.added} == new.keys() - old.keys()
    assert {each.full_name for each in changes.removed} == old.keys() - new.keys()
    assert {now.full_name for _, now in changes.changed} == {
        name for name in old.keys() & new.keys() if old[name] != new[name]
    }


@settings(deadline=None)
@given(ENTRIES)
def test_a_printed_catalog_reads_as_it_was_and_prints_the_same(entries: list[CatalogEntry]) -> None:  # YT-03
    catalog = Catalog(entries)
    text = print_catalog(catalog)
    assert parse_catalog(text).root == catalog.root
    assert list(parse_catalog(text)) == list(catalog)
    assert print_catalog(Catalog(reversed(entries))) == text


def test_the_same_version_is_not_declared_twice() -> None:  # YT-03
    for second in ("agent.lint.ruff", "agent.lint.ruff.v1"):
        with pytest.raises(YoolTwice):
            Catalog([entry("agent.lint.ruff"), entry(second)])
        with pytest.raises(YoolTwice):
            Catalog([entry("agent.lint.ruff")]).add(entry(second))


def test_an_unknown_name_is_an_error_that_offers_the_nearest() -> None:  # YT-03
    catalog = Catalog(
        entry(name) for name in ("agent.lint.ruff", "agent.lint.eslint", "agent.test.pytest", "net.fetch")
    )
    with pytest.raises(YoolNotFound) as refused:
        catalog.lookup("agent.lint.ruf")
    assert refused.value.nearest[0] == "agent.lint.ruff"
    assert refused.value.field == "name"
    assert "agent.lint.ruff" in (refused.value.hint or "")
    with pytest.raises(YoolNotFound) as far:
        catalog.lookup("zzz.qqqqqqqqqqq")
    assert far.value.nearest == ()
    assert "engrambus catalog build" in (far.value.hint or "")
    with pytest.raises(YoolNotFound):
        catalog.remove("agent.lint.ruf")


@pytest.mark.parametrize("slip", ["opp.jira.fetch_sprint", "p.jira.fetch_sprint", "zop.jira.fetch_sprint"])
def test_a_slip_at_the_beginning_is_found_among_many_names(slip: str) -> None:  # YT-03
    others = (f"op.{tool}.fetch{number}" for tool in ("crm", "zendesk") for number in range(2_500))
    catalog = Catalog(map(entry, ["op.jira.fetch_sprint", *others]))
    with pytest.raises(YoolNotFound) as refused:
        catalog.lookup(slip)
    assert refused.value.nearest[0] == "op.jira.fetch_sprint"


def test_a_version_that_is_not_there_is_told_with_those_that_are() -> None:  # YT-01
    with pytest.raises(YoolNotFound) as refused:
        Catalog([entry("net.fetch.v1"), entry("net.fetch.v2")]).lookup("net.fetch.v3")
    assert refused.value.nearest == ("net.fetch.v2", "net.fetch.v1")
    assert refused.value.hint == "There is net.fetch.v2, net.fetch.v1."


def test_what_is_offered_is_bounded_and_always_the_same() -> None:  # YT-03
    def offered(names: list[str]) -> tuple[str, ...]:
        with pytest.raises(YoolNotFound) as refused:
            Catalog(map(entry, names)).lookup("agent.dev.lang50001x")
        return refused.value.nearest

    names = [f"agent.dev.lang{number}" for number in range(49_000, 53_000)]
    first = offered(names)
    assert first[0] == "agent.dev.lang50001"
    assert len(first) == 3
    assert offered(names[::-1]) == first


def test_an_error_travels_with_its_nearest_names() -> None:  # YT-03
    sent = YoolNotFound("No.", field="name", nearest=["agent.lint.ruff"])
    got = EngramBusError.from_problem(sent.problem())
    assert isinstance(got, YoolNotFound)
    assert list(got.nearest) == ["agent.lint.ruff"]


def test_adding_a_name_shares_the_rest_of_the_catalog() -> None:  # YT-02
    was = Catalog(entry(f"agent.dev.lang{number}") for number in range(5_000))
    shared, nodes = was.add(entry("agent.dev.one_more")).sharing(was)
    assert nodes - shared <= 7
    assert shared > 1_000
