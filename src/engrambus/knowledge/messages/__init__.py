"""Messages between a parent and its children: their form, their budget, and what to send instead of a refused one."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.messages.budget import (
        CodeChars,
        Excess,
        Usage,
        find_excess,
        measure,
        texts_of,
    )
    from engrambus.knowledge.messages.check import (
        Accepted,
        Verdict,
        accept_message,
        validate_message,
    )
    from engrambus.knowledge.messages.code import CodeSpan, code_chars, find_code
    from engrambus.knowledge.messages.facts import BroadcastSent, MessageAccepted, MessageRejected
    from engrambus.knowledge.messages.judging import judge, judge_prose
    from engrambus.knowledge.messages.parse import Reading, parse_message, read_message
    from engrambus.knowledge.messages.ports import Mail, MessageReads
    from engrambus.knowledge.messages.printing import message_object, print_message
    from engrambus.knowledge.messages.resend import Recognised, resend_template
    from engrambus.knowledge.messages.source import MAX_MESSAGE_BYTES
    from engrambus.knowledge.messages.values import (
        CHILD_SECTIONS,
        PARENT_SECTIONS,
        STATUSES,
        Budgets,
        ChildMessage,
        DerefRequest,
        GrantNote,
        Message,
        MessageKind,
        Output,
        ParentMessage,
        TaskStatus,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "budget": "CodeChars Excess Usage find_excess measure texts_of",
        "check": "Accepted Verdict accept_message validate_message",
        "code": "CodeSpan code_chars find_code",
        "facts": "BroadcastSent MessageAccepted MessageRejected",
        "judging": "judge judge_prose",
        "parse": "Reading parse_message read_message",
        "ports": "Mail MessageReads",
        "printing": "message_object print_message",
        "resend": "Recognised resend_template",
        "source": "MAX_MESSAGE_BYTES",
        "values": (
            "CHILD_SECTIONS PARENT_SECTIONS STATUSES Budgets ChildMessage DerefRequest GrantNote Message "
            "MessageKind Output ParentMessage TaskStatus "
        ),
    })

__all__ = [
    "CHILD_SECTIONS", "MAX_MESSAGE_BYTES", "PARENT_SECTIONS", "STATUSES", "Accepted", "BroadcastSent", "Budgets",
    "ChildMessage", "CodeChars", "CodeSpan", "DerefRequest", "Excess", "GrantNote", "Mail", "Message",
    "MessageAccepted", "MessageKind", "MessageReads", "MessageRejected", "Output", "ParentMessage", "Reading",
    "Recognised", "TaskStatus", "Usage", "Verdict", "accept_message", "code_chars", "find_code", "find_excess", "judge",
    "judge_prose", "measure", "message_object", "parse_message", "print_message", "read_message", "resend_template",
    "texts_of", "validate_message",
]
