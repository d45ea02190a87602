"""Secrets: found before a text reaches the journal, the index, a log or an event."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.policy.secrets.check import check_no_secrets, redact
    from engrambus.policy.secrets.echoes import hide_secrets
    from engrambus.policy.secrets.finder import Secret, find_secrets
    from engrambus.policy.secrets.rules import DEFAULT_RULES, SecretRules, check_rules

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "check": "check_no_secrets redact",
        "echoes": "hide_secrets",
        "finder": "Secret find_secrets",
        "rules": "DEFAULT_RULES SecretRules check_rules",
    })

__all__ = [
    "DEFAULT_RULES", "Secret", "SecretRules", "check_no_secrets", "check_rules", "find_secrets", "hide_secrets",
    "redact",
]
