"""`sam:` pointers: the version of an episode they resolve to, and the price of reading it."""  # EB-04

from __future__ import annotations

from engrambus.core import digest, print_time
from engrambus.testing.client import expect_refusal
from tests.cortex.conftest import Team

DAY = 86_400


def keep_two_versions(team: Team) -> list[str]:
    """Keep two versions of a preference, a day apart; return their times."""
    times = []
    for text in ("Use tabs.", "Use spaces."):
        team.keep(text, kind="preference", slug="indent")
        times.append(print_time(team.clock.now()))
        team.clock.advance(seconds=DAY)
    return times


def test_a_pointer_names_a_version_or_a_day(team: Team) -> None:
    first, second = keep_two_versions(team)
    expected = {
        "1": "Use tabs.",
        "v1": "Use tabs.",
        "v2": "Use spaces.",
        first[:10]: "Use tabs.",
        second[:10]: "Use spaces.",
        "2099-12-31": "Use spaces.",
    }
    for number, (version, text) in enumerate(expected.items()):
        reader = team.client.add_agent(f"reader{number}")
        answer = team.client.deref(reader, f"sam:preference:indent@{version}", max_tokens=200)
        assert (answer.excerpt, answer.content_digest) == (text, digest(text.encode())), version


def test_unknown_versions_and_days_are_not_found(team: Team) -> None:
    keep_two_versions(team)
    for ref in ("preference:indent@3", "preference:indent@v0", "preference:indent@2001-01-01", "fact:indent@1"):
        with expect_refusal("EPISODE_NOT_FOUND", "pointer.ref"):
            team.client.deref(team.coder, f"sam:{ref}", max_tokens=200)
    for ref in ("preference:indent@v1.2", "preference:indent@20260101T00", f"preference:indent@{'9' * 60}"):
        with expect_refusal("EPISODE_NOT_FOUND", "pointer.ref"):
            team.client.deref(team.coder, f"sam:{ref}", max_tokens=200)
    for version in ("2026-02-31", "HEAD", "2026-01-01T00:00:00Z"):
        with expect_refusal("POINTER_REVISION"):
            team.client.deref(team.coder, f"sam:preference:indent@{version}", max_tokens=200)


def test_a_turn_allows_two_reads_of_episodes(team: Team) -> None:
    keep_two_versions(team)
    for _ in range(2):
        team.client.deref(team.coder, "sam:preference:indent@1", max_tokens=200)
    with expect_refusal("DEREF_DENIED", "turn.sam"):
        team.client.deref(team.coder, "sam:preference:indent@2", max_tokens=200)
    team.client.deref(team.coder, f"repo:src/parser.py#L1@{team.repository.sha}", max_tokens=200)


def test_pointers_to_episodes_get_a_digest_and_others_are_refused(team: Team) -> None:  # EB-04
    keep_two_versions(team)
    ours = team.client.put("Spaces it is.", refs=["sam:preference:indent@2"])
    assert ours.pointers[0].digest == digest(b"Use spaces.")
    with expect_refusal("EPISODE_NOT_FOUND", "pointers[0].ref"):
        team.client.put("Another team says tabs.", refs=["sam:preference:elsewhere@2026-01-01"])
    with expect_refusal("DIGEST_MISMATCH"):
        team.client.call(
            "put_engram",
            claim="Tabs it was.",
            pointers=[{"type": "sam", "ref": "sam:preference:indent@1", "digest": digest(b"Use spaces.")}],
        )


def test_a_pointer_to_a_day_fails_if_the_episode_changed_later_that_day(team: Team) -> None:
    team.keep("Use tabs.", kind="preference", slug="indent")
    today = print_time(team.clock.now())[:10]
    put = team.client.put("Tabs it is.", refs=[f"sam:preference:indent@{today}"])
    team.keep("Use spaces.", kind="preference", slug="indent")
    pointer = {"type": "sam", "ref": put.pointers[0].ref, "digest": put.pointers[0].digest}
    with expect_refusal("DIGEST_MISMATCH"):
        team.client.call("deref_pointer", team.coder, pointer=pointer, max_tokens=200)
