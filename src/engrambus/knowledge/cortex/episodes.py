"""The rules of episodes: how the team keeps and pins them, and how `sam:` pointers are resolved."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec

from engrambus.core import SECOND_US, parse_time
from engrambus.errors import EpisodeNotFound
from engrambus.evidence.pointers import Content, Pointer, SamAddress

# decision 39: as a module, so that a pointer to a memory does not load the rules of engrams
from engrambus.knowledge import engrams
from engrambus.knowledge.cortex.ports import CortexReads, CortexView
from engrambus.knowledge.cortex.text_rules import MAX_SLUG_CHARS, slug_of
from engrambus.knowledge.cortex.values import Episode, EpisodeKept
from engrambus.policy import Caller

DAY_US = 86_400 * SECOND_US
MAX_VERSION_DIGITS = 9


class EpisodeDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A checked request to keep an episode."""

    kind: str
    slug: str | None
    """None makes one of the first words of the text."""
    text: str
    categories: tuple[str, ...]
    importance: float
    pinned: bool
    lifetime_us: int | None
    """None keeps it for ever."""
    pointers: tuple[Pointer, ...]


def keep(view: CortexView, draft: EpisodeDraft, *, caller: Caller) -> tuple[list[EpisodeKept], Episode]:
    """Make a new episode, or a new version of the one with this kind and slug."""
    engrams.check_own_words(view, draft.text, caller)
    slug = draft.slug or slug_of(draft.text)
    # decision 26: older versions stay, so that a pointer to one always leads to the same words.
    previous = view.episode(draft.kind, slug)
    episode = Episode(
        kind=draft.kind,
        slug=slug,
        version=previous.version + 1 if previous else 1,
        text=draft.text,
        categories=draft.categories,
        importance=draft.importance,
        pinned=draft.pinned,
        created_us=view.as_of,
        expires_us=expiry(view.as_of, draft.lifetime_us),
        by=caller.full_name,
        pointers=draft.pointers,
    )
    return [kept_fact(episode, caller)], episode


def pin(view: CortexView, episode_id: str, *, pinned: bool, caller: Caller) -> tuple[list[EpisodeKept], Episode]:
    """Move an episode into working memory or out of it, as a new version; do nothing if it is there already."""
    kind, _, slug = episode_id.partition("@")[0].removeprefix("sam:").partition(":")
    previous = view.episode(kind, slug)
    if previous is None:
        raise EpisodeNotFound(field="id", hint="`engrambus inherit` lists what is remembered, with its ids.")
    if not previous.is_live(view.as_of):
        raise EpisodeNotFound("The episode has expired.", field="id", hint="Keep it again to make a new version.")
    if previous.pinned == pinned:
        return [], previous
    episode = msgspec.structs.replace(
        previous, version=previous.version + 1, pinned=pinned, created_us=view.as_of, by=caller.full_name
    )
    return [kept_fact(episode, caller)], episode


def kept_fact(episode: Episode, caller: Caller) -> EpisodeKept:
    """Return the fact that an episode was made."""
    return EpisodeKept(run=caller.run.run_id, by=caller.full_name, episode=episode)


def expiry(now_us: int, lifetime_us: int | None) -> int | None:
    """Return the time at which an episode expires; None for one that never does."""
    return None if lifetime_us is None else now_us + lifetime_us


def free_slug(view: CortexView, kind: str, slug: str) -> str:
    """Return a slug that no episode of this kind has, by adding a number if necessary."""
    number, candidate = 1, slug
    while view.episode(kind, candidate) is not None:
        number += 1
        candidate = f"{slug[: MAX_SLUG_CHARS - 6].rstrip('-')}-{number}"
    return candidate


class SamResolver:
    """Resolves `sam:` pointers: they name a version of an episode, or the one that was current on a day."""

    def __init__(self, read: Callable[[], AbstractContextManager[CortexReads]]) -> None:
        self._read = read

    def resolve(self, address: SamAddress) -> Content:
        """Return the text of the episode at the version or day that the address names."""
        with self._read() as reads:
            return Content.of(episode_at(reads, address).text.encode())


def episode_at(reads: CortexReads, address: SamAddress) -> Episode:
    """Return the episode at the version or day that an address names, or refuse."""
    version, before_us = None, None
    number = address.version.removeprefix("v")
    if number.isascii() and number.isdigit():
        version = int(number[:MAX_VERSION_DIGITS])
    else:
        before_us = _end_of_day_us(address.version)
    episode = reads.episode(address.kind, address.slug, version=version, before_us=before_us)
    if episode is None:
        raise no_episode(address)
    return episode


def no_episode(address: SamAddress, field: str | None = None) -> EpisodeNotFound:
    """Return the refusal of an address that no episode has."""
    return EpisodeNotFound(
        f"There is no episode {address.kind}:{address.slug} at '{address.version}'.",
        field=field,
        hint="Memories are listed by `inherit` and stored with `sam.keep`, whose answer has the pointer.",
    )


def _end_of_day_us(day: str) -> int:
    try:
        return parse_time(f"{day}T00:00:00Z") + DAY_US
    except (ValueError, OverflowError):
        raise EpisodeNotFound(f"'{day}' is neither the version of an episode nor a day.") from None
