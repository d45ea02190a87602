"""How the sections of a brief share its lines."""  # EB-17

from __future__ import annotations

import re
from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from engrambus.knowledge.brief.layout import MAX_LINES, BriefItem, BriefSection, BriefText, is_count, share_lines

LABELS = ("constraint", "policy", "risk", "grant", "pinned memory")


@st.composite
def sections(draw: st.DrawFn) -> BriefSection:
    """A section of any size."""
    labels = draw(st.lists(st.sampled_from(LABELS), max_size=80))
    items = [
        BriefItem(text=f"[{label}] {number}", label=label, ref=f"sam:note:{number}@1")
        for number, label in enumerate(labels)
    ]
    return BriefSection(
        items=items[:MAX_LINES],
        weight=draw(st.integers(1, 9)),
        further=Counter(item.label for item in items[MAX_LINES:]),
    )


def counted(line: str) -> Counter[str]:
    """Return the items that a line counts, by label."""
    singular = {"policies": "policy", "pinned memories": "pinned memory"}
    numbers: Counter[str] = Counter()
    for count, label in re.findall(r"(\d+) more ([a-z ]+)", line):
        numbers[singular.get(label, label.removesuffix("s"))] += int(count)
    return numbers


texts = st.builds(
    BriefText,
    opening=st.just(("Goal: ship it",)),
    sections=st.lists(sections(), max_size=6),
    closing=st.sampled_from([(), ("Left this turn: nothing.",)]),
    grants=sections(),
    adds_pointers=st.booleans(),
)


@given(texts)
def test_a_brief_has_at_most_thirty_lines_and_counts_what_it_does_not_show(text: BriefText) -> None:
    lines = text.lines()
    assert len(lines) <= MAX_LINES
    everything: Counter[str] = Counter()
    for section in (*text.sections, text.grants):
        everything.update(Counter(item.label for item in section.items) + Counter(section.further))
    shown = Counter(line[1:].partition("]")[0] for line in lines if line.startswith("["))
    for line in lines:
        shown += counted(line) if is_count(line) else Counter()
    assert shown == everything
    if sum(everything.values()) + len(text.opening) + len(text.closing) >= MAX_LINES:
        assert len(lines) == MAX_LINES  # no line is left empty while something is hidden


@given(texts)
def test_a_brief_is_the_same_every_time_and_keeps_the_order_of_its_sections(text: BriefText) -> None:
    assert text.lines() == msgspec.structs.replace(text).lines()
    positions = {id(item): (0, 0) for section in text.sections for item in section.items}
    for number, section in enumerate(text.sections):
        positions.update((id(item), (number, place)) for place, item in enumerate(section.items))
    shared, own = text.parts()
    shown = [positions[id(item)] for item in shared if id(item) in positions]
    assert shown == sorted(shown)
    assert [item.text for item in (*shared, *own)] == list(text.lines())


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=7), st.integers(0, 30))
def test_no_section_has_more_than_its_share_while_another_wants_lines(
    demands: list[tuple[int, int]], max_lines: int
) -> None:
    wanted, weights = [size for size, _ in demands], [weight for _, weight in demands]
    shares = share_lines(wanted, weights, max_lines)
    assert sum(shares) == min(max_lines, sum(wanted))
    for share, size, weight in zip(shares, wanted, weights, strict=True):
        assert share <= size
        if share < size:
            # Taking a line from another section for this one would leave that one with less for its weight.
            assert all(
                other == 0 or (other - 1) / other_weight <= share / weight
                for other, other_weight in zip(shares, weights, strict=True)
            )


@given(texts, st.integers(0, MAX_LINES))
def test_with_fewer_lines_everything_is_still_shown_or_counted(text: BriefText, fewer: int) -> None:
    max_lines = max(text.min_lines, MAX_LINES - fewer)
    lines = text.lines(max_lines)
    assert len(lines) <= max_lines
    for section in (*text.sections, text.grants):
        if section.items:
            texts_of_section = {item.text for item in section.items}
            assert texts_of_section & set(lines) or any(map(is_count, lines))


def test_one_more_item_is_shown_rather_than_counted() -> None:
    for size in range(1, 60):
        items = [BriefItem(text=str(number), label="risk") for number in range(size)]
        section = BriefSection(items=items[:MAX_LINES], weight=1, further=Counter(i.label for i in items[MAX_LINES:]))
        lines = BriefText(opening=(), sections=[section]).lines()
        assert "+1 more risk" not in lines
        assert len(lines) == min(size, MAX_LINES)
