"""An inbox: what an agent has not seen yet, one line for each piece of mail, and one piece of it whole.

decision 58: mail counts as seen once its line was shown to its receiver, by a hook, by a tool or by an operation.
"""

from __future__ import annotations

import json
import re

from engrambus.core import MIN_PREFIX_CHARS, SECOND_US
from engrambus.errors import MailNotFound, ambiguous_id
from engrambus.evidence.pointers import shorten_refs
from engrambus.knowledge.messages.facts import MailHandedOver
from engrambus.knowledge.messages.ports import Inbox, Mail, MessageReads

SHORT_ID_CHARS = 13
MAX_GIST_CHARS = 120
MAX_FOUND_IDS = 6
_STATUS = re.compile(r"^TASK_STATUS: (\w+)$", re.M)
_GIST = re.compile(r'^(?:OUTPUT:\n  summary: |(?:SHARED_BRIEF_MICRO|INSTRUCTIONS):\n  - )(".*")$', re.M)
"""The first text of a message in the published form that says what it is about."""
_AGES = ((86_400, "d"), (3600, "h"), (60, "min"))


def mail_line(mail: Mail, now_us: int) -> str:
    """Return a piece of mail on one line: id, kind, sender, age, its first words, and how much it holds."""
    status = _STATUS.search(mail.text) if mail.kind in ("message", "answer") else None
    counts = [
        f"{len(items)} {name}{'s' * (len(items) != 1)}"
        for name, items in (("engram", mail.engrams), ("request", mail.requests), ("grant", mail.grants))
        if items
    ]
    return "".join(
        (
            f"{mail.item[:SHORT_ID_CHARS]} {mail.kind} from {mail.sender.rpartition('/')[2]}, ",
            _age(now_us - mail.sent_us),
            f", {status[1]}" if status else "",
            f": {_gist(mail)}",
            f" ({', '.join(counts)})" if counts else "",
        )
    )


def _gist(mail: Mail) -> str:
    """Return the first words that say what a piece of mail is about."""
    match = _GIST.search(mail.text) if mail.kind in ("message", "answer", "broadcast") else None
    words = shorten_refs(" ".join((json.loads(match[1]) if match else mail.text).split()))
    return words if len(words) <= MAX_GIST_CHARS else words[: MAX_GIST_CHARS - 1].rstrip() + "…"


def _age(age_us: int) -> str:
    seconds = max(0, age_us) // SECOND_US
    amount = next((f"{seconds // length} {unit}" for length, unit in _AGES if seconds >= length), "")
    return f"{amount} ago" if amount else "just now"


def hand_over_mail(run_id: str, inbox: Inbox, shown: list[Mail]) -> list[MailHandedOver]:
    """Return the fact that an inbox was shown up to the last of some unseen mail; none if nothing was shown."""
    if not shown:
        return []
    return [MailHandedOver(run=run_id, agent=inbox.agent, position=shown[-1].position)]


def find_mail(reads: MessageReads, inbox: Inbox, item_id: str) -> Mail:
    """Return the mail of that id in an inbox, or the only one whose id begins like this."""
    found = reads.mail_items(inbox, item_id, limit=MAX_FOUND_IDS) if len(item_id) >= MIN_PREFIX_CHARS else []
    items = dict.fromkeys(mail.item for mail in found)
    if not items:
        raise MailNotFound(field="id", used=item_id, hint="`less.inbox` lists your mail with its ids.")
    if len(items) > 1:
        raise ambiguous_id(list(items), item_id)
    return found[-1]
