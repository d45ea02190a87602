"""`sam:` pointers: which version of a memory they lead to, and what reading it costs."""  # EB-04

from __future__ import annotations

from engrambus.core import digest, print_time
from engrambus.testing.client import expect_refusal
from tests.cortex.conftest import Team

DAY = 86_400


def versions(team: Team) -> list[str]:
    """Two versions of a preference, a day apart; the moments at which each was made."""
    made = []
    for text in ("Use tabs.", "Use spaces."):
        team.keep(text, kind="preference", slug="indent")
        made.append(print_time(team.clock.now()))
        team.clock.advance(seconds=DAY)
    return made


def test_a_pointer_leads_to_a_version_or_to_what_held_then(team: Team) -> None:
    first, second = versions(team)
    held = {
        "1": "Use tabs.",
        "v1": "Use tabs.",
        "v2": "Use spaces.",
        first[:10]: "Use tabs.",
        second[:10]: "Use spaces.",
        "2099-12-31": "Use spaces.",
    }
    for number, (version, text) in enumerate(held.items()):
        reader = team.hand.add_agent(f"reader{number}")
        found = team.hand.deref(reader, f"sam:preference:indent@{version}", max_tokens=200)
        assert (found.excerpt, found.content_digest) == (text, digest(text.encode())), version


def test_what_is_not_remembered_is_not_found(team: Team) -> None:
    versions(team)
    for ref in ("preference:indent@3", "preference:indent@v0", "preference:indent@2001-01-01", "fact:indent@1"):
        with expect_refusal("EPISODE_NOT_FOUND", "pointer.ref"):
            team.hand.deref(team.coder, f"sam:{ref}", max_tokens=200)
    for ref in ("preference:indent@v1.2", "preference:indent@20260101T00", f"preference:indent@{'9' * 60}"):
        with expect_refusal("EPISODE_NOT_FOUND", "pointer.ref"):
            team.hand.deref(team.coder, f"sam:{ref}", max_tokens=200)
    for version in ("2026-02-31", "HEAD", "2026-01-01T00:00:00Z"):
        with expect_refusal("POINTER_REVISION"):
            team.hand.deref(team.coder, f"sam:preference:indent@{version}", max_tokens=200)


def test_a_turn_has_two_reads_of_the_memory(team: Team) -> None:
    versions(team)
    for _ in range(2):
        team.hand.deref(team.coder, "sam:preference:indent@1", max_tokens=200)
    with expect_refusal("DEREF_DENIED", "turn.sam"):
        team.hand.deref(team.coder, "sam:preference:indent@2", max_tokens=200)
    team.hand.deref(team.coder, f"repo:src/parser.py#L1@{team.repository.sha}", max_tokens=200)


def test_an_engram_that_points_at_our_memory_is_stamped_and_at_another_is_kept_as_it_is(team: Team) -> None:
    versions(team)
    ours = team.hand.put("Spaces it is.", refs=["sam:preference:indent@2"])
    assert ours.pointers[0].digest == digest(b"Use spaces.")
    theirs = team.hand.put("Another team says tabs.", refs=["sam:preference:elsewhere@2026-01-01"])
    assert theirs.pointers[0].digest is None
    with expect_refusal("DIGEST_MISMATCH"):
        team.hand.call(
            "put_engram",
            claim="Tabs it was.",
            pointers=[{"type": "sam", "ref": "sam:preference:indent@1", "digest": digest(b"Use spaces.")}],
        )


def test_a_memory_that_changed_on_the_day_it_is_pointed_at_does_not_pass_for_what_it_was(team: Team) -> None:
    team.keep("Use tabs.", kind="preference", slug="indent")
    today = print_time(team.clock.now())[:10]
    put = team.hand.put("Tabs it is.", refs=[f"sam:preference:indent@{today}"])
    team.keep("Use spaces.", kind="preference", slug="indent")
    pointer = {"type": "sam", "ref": put.pointers[0].ref, "digest": put.pointers[0].digest}
    with expect_refusal("DIGEST_MISMATCH"):
        team.hand.call("deref_pointer", team.coder, pointer=pointer, max_tokens=200)
