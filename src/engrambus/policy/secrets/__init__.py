"""Secrets: found before a text reaches the journal, the index, a log or an event."""

from engrambus.policy.secrets.check import check_no_secrets, redact
from engrambus.policy.secrets.echoes import hide_secrets
from engrambus.policy.secrets.finder import Secret, find_secrets

__all__ = ["Secret", "check_no_secrets", "find_secrets", "hide_secrets", "redact"]
