"""A team whose programmer answers in prose, as a hook hands it in."""

from __future__ import annotations

from typing import Any

from engrambus.gateway import Credential
from engrambus.knowledge.engrams import Engram
from engrambus.operations.answers import AnswerTaken
from tests.limits.team import Team

STOPPED = Credential(local_admin=True, speak_as="paul")


class AnsweringTeam(Team):
    """A project with its repository, a manager and a programmer below it."""

    def answer(self, text: str, caller: Credential = STOPPED, **fields: Any) -> AnswerTaken:
        """Hand in the programmer's answer."""
        taken: AnswerTaken = self.client.call("take_answer", caller, text=text, **fields)
        return taken

    def claims(self, text: str, **fields: Any) -> list[Engram]:
        """Hand in an answer and return the engrams that await confirmation."""
        ids = self.answer(text, **fields).unconfirmed
        return [self.client.call("show_engram", id=engram_id).engrams[0] for engram_id in ids]

    def cited(self, text: str) -> list[str]:
        """Hand in an answer and return what it cites and quotes, without the commit if that is HEAD."""
        return [ref.removesuffix(f"@{self.repository.sha}").removeprefix("repo:") for ref in self.answer(text).cited]
