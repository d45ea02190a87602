"""A catalog: lookups, suggestions for unknown names, lanes and changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.errors import EngramBusError, YoolNotFound, YoolTwice
from engrambus.space.catalog import Catalog, CatalogEntry, Terms, parse_catalog
from engrambus.space.catalog.capabilities_file import print_catalog
from tests.catalog.test_names import make_entry

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
    unique_by=lambda entry: entry.full_name,
)


@settings(deadline=None)
@given(ENTRIES, ENTRIES)
def test_a_catalog_depends_only_on_its_entries(entries: list[CatalogEntry], newer: list[CatalogEntry]) -> None:
    # YT-02
    catalog = Catalog(entries)
    grown = Catalog()
    for entry in reversed(entries):
        grown = grown.add(entry)
    assert grown.root == catalog.root
    assert list(grown) == list(catalog) == sorted(entries, key=lambda entry: (entry.name, entry.version))
    for entry in entries:
        newest = max(version.version for version in entries if version.name == entry.name)
        assert catalog.lookup(entry.full_name) == entry
        assert catalog.lookup(entry.name).version == newest
        assert entry in catalog.by_lane(entry.lane)
        assert catalog.remove(entry.full_name).add(entry).root == catalog.root
        assert catalog.remove(entry.full_name).get(entry.full_name) is None
    changes = catalog.diff(Catalog(newer))
    old, new = ({entry.full_name: entry for entry in some} for some in (entries, newer))
    assert {entry.full_name for entry in changes.added} == new.keys() - old.keys()
    assert {entry.full_name for entry in changes.removed} == old.keys() - new.keys()
    assert {now.full_name for _, now in changes.changed} == {
        name for name in old.keys() & new.keys() if old[name] != new[name]
    }


@settings(deadline=None)
@given(ENTRIES)
def test_a_printed_catalog_is_read_back_unchanged(entries: list[CatalogEntry]) -> None:  # YT-03
    catalog = Catalog(entries)
    text = print_catalog(catalog)
    assert parse_catalog(text).root == catalog.root
    assert list(parse_catalog(text)) == list(catalog)
    assert print_catalog(Catalog(reversed(entries))) == text


def test_a_version_cannot_be_declared_twice() -> None:  # YT-03
    for second in ("agent.lint.ruff", "agent.lint.ruff.v1"):
        with pytest.raises(YoolTwice):
            Catalog([make_entry("agent.lint.ruff"), make_entry(second)])
        with pytest.raises(YoolTwice):
            Catalog([make_entry("agent.lint.ruff")]).add(make_entry(second))


def test_an_unknown_name_is_refused_with_the_nearest_names() -> None:  # YT-03
    catalog = Catalog(
        make_entry(name) for name in ("agent.lint.ruff", "agent.lint.eslint", "agent.test.pytest", "net.fetch")
    )
    with pytest.raises(YoolNotFound) as refused:
        catalog.lookup("agent.lint.ruf")
    assert refused.value.nearest[0] == "agent.lint.ruff"
    assert refused.value.field == "name"
    assert "agent.lint.ruff" in (refused.value.hint or "")
    with pytest.raises(YoolNotFound) as nothing_near:
        catalog.lookup("zzz.qqqqqqqqqqq")
    assert nothing_near.value.nearest == ()
    assert "engrambus catalog build" in (nothing_near.value.hint or "")
    with pytest.raises(YoolNotFound):
        catalog.remove("agent.lint.ruf")


@pytest.mark.parametrize("misspelt", ["opp.jira.fetch_sprint", "p.jira.fetch_sprint", "zop.jira.fetch_sprint"])
def test_a_typing_error_at_the_beginning_is_recognized_among_many_names(misspelt: str) -> None:  # YT-03
    many = (f"op.{tool}.fetch{number}" for tool in ("crm", "zendesk") for number in range(2_500))
    catalog = Catalog(map(make_entry, ["op.jira.fetch_sprint", *many]))
    with pytest.raises(YoolNotFound) as refused:
        catalog.lookup(misspelt)
    assert refused.value.nearest[0] == "op.jira.fetch_sprint"


def test_an_unknown_version_is_refused_with_the_existing_versions() -> None:  # YT-01
    with pytest.raises(YoolNotFound) as refused:
        Catalog([make_entry("net.fetch.v1"), make_entry("net.fetch.v2")]).lookup("net.fetch.v3")
    assert refused.value.nearest == ("net.fetch.v2", "net.fetch.v1")
    assert refused.value.hint == "There is net.fetch.v2, net.fetch.v1."


def test_at_most_three_names_are_suggested_and_always_the_same() -> None:  # YT-03
    def suggestions(names: list[str]) -> tuple[str, ...]:
        with pytest.raises(YoolNotFound) as refused:
            Catalog(map(make_entry, names)).lookup("agent.dev.lang50001x")
        return refused.value.nearest

    names = [f"agent.dev.lang{number}" for number in range(49_000, 53_000)]
    first = suggestions(names)
    assert first[0] == "agent.dev.lang50001"
    assert len(first) == 3
    assert suggestions(names[::-1]) == first


def test_the_nearest_names_are_part_of_the_problem_document() -> None:  # YT-03
    sent = YoolNotFound("No.", field="name", nearest=["agent.lint.ruff"])
    received = EngramBusError.from_problem(sent.problem())
    assert isinstance(received, YoolNotFound)
    assert list(received.nearest) == ["agent.lint.ruff"]


def test_adding_a_name_shares_the_rest_of_the_catalog() -> None:  # YT-02
    was = Catalog(make_entry(f"agent.dev.lang{number}") for number in range(5_000))
    shared, nodes = was.add(make_entry("agent.dev.one_more")).sharing(was)
    assert nodes - shared <= 7
    assert shared > 1_000
