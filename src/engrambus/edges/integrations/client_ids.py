"""Ids of client sessions and their agents, as the bus knows them: digests of the client's own ids."""

from __future__ import annotations

import hashlib

_SESSION_LETTERS = 24
_AGENT_LETTERS = 12


def session_key(session: str) -> str:
    """Return the id of a client's session; its main agent is known by the same id."""
    return _letters_digest(session, _SESSION_LETTERS)


def agent_key(session: str, agent: str) -> str:
    """Return the id of a sub-agent of a client's session."""
    return _letters_digest(f"{session}/{agent}", _AGENT_LETTERS)


def task_key(kind: str) -> str:
    """Return the name of a kind of sub-agent, as it is recorded: a digest, since users name kinds as they like."""
    return _letters_digest(kind.lower(), _AGENT_LETTERS)


def _letters_digest(text: str, size: int) -> str:
    """Return a digest made of letters only, since digits would make an id look like a secret."""
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest(), "big")
    letters = []
    for _ in range(size):
        number, letter = divmod(number, 26)
        letters.append(chr(ord("a") + letter))
    return "".join(letters)
