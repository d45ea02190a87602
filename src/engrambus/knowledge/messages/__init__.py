"""Messages between a parent and its children: their form, their budget, and their delivery."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.messages.budget import MessageUsage, check_budget, check_prose_budget, measure
    from engrambus.knowledge.messages.code import CodeBlock, count_code, find_code, find_code_blocks
    from engrambus.knowledge.messages.code_blocks import (
        Extraction,
        add_pointers,
        artifact_body,
        artifact_ref,
        check_texts,
        extract_code,
    )
    from engrambus.knowledge.messages.delivery import (
        PreparedReport,
        accept_report,
        as_stored,
        find_pointed,
        find_resent,
        reject_message,
        send_broadcast,
        work_of_parts,
    )
    from engrambus.knowledge.messages.extracts import extract_statement
    from engrambus.knowledge.messages.facts import (
        BroadcastSent,
        MailHandedOver,
        MessageAccepted,
        MessageRejected,
        PointedContent,
        PointerPack,
    )
    from engrambus.knowledge.messages.fields import note_text
    from engrambus.knowledge.messages.found_text import describe_found
    from engrambus.knowledge.messages.granted_code import GrantedCode
    from engrambus.knowledge.messages.inbox import find_mail, hand_over_mail, mail_line
    from engrambus.knowledge.messages.layout import (
        message_sections,
        print_message,
        print_sections,
        read_sections,
        with_packs,
    )
    from engrambus.knowledge.messages.limits import inline_budget, read_payers, turn_budget
    from engrambus.knowledge.messages.parse import ParsedMessage, parse_message
    from engrambus.knowledge.messages.pastes import CodeCounter
    from engrambus.knowledge.messages.pointed_evidence import check_evidence_to_read, evidence_problems
    from engrambus.knowledge.messages.ports import (
        Inbox,
        Mail,
        MessageReads,
        OpenRejection,
        SentPack,
        Unseen,
        inbox_of,
    )
    from engrambus.knowledge.messages.prose import ProseReport, accept_prose, report_prose
    from engrambus.knowledge.messages.prose_claims import ProseClaim, find_claims
    from engrambus.knowledge.messages.quotes import find_passages, locate_quotes
    from engrambus.knowledge.messages.resend import resend_template
    from engrambus.knowledge.messages.source import MAX_MESSAGE_CHARS, looks_like_report
    from engrambus.knowledge.messages.values import (
        CHILD_SECTIONS,
        PARENT_SECTIONS,
        ChildBudgets,
        ChildMessage,
        Message,
        MessageKind,
        ParentMessage,
        TargetedPointer,
        free_texts,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "budget": "MessageUsage check_budget check_prose_budget measure",
        "code": "CodeBlock count_code find_code find_code_blocks",
        "code_blocks": "Extraction add_pointers artifact_body artifact_ref check_texts extract_code",
        "delivery": (
            "PreparedReport accept_report as_stored find_pointed find_resent reject_message send_broadcast "
            "work_of_parts "
        ),
        "extracts": "extract_statement",
        "facts": "BroadcastSent MailHandedOver MessageAccepted MessageRejected PointedContent PointerPack",
        "fields": "note_text",
        "found_text": "describe_found",
        "granted_code": "GrantedCode",
        "inbox": "find_mail hand_over_mail mail_line",
        "layout": "message_sections print_message print_sections read_sections with_packs",
        "limits": "inline_budget read_payers turn_budget",
        "parse": "ParsedMessage parse_message",
        "pastes": "CodeCounter",
        "pointed_evidence": "check_evidence_to_read evidence_problems",
        "ports": "Inbox Mail MessageReads OpenRejection SentPack Unseen inbox_of",
        "prose": "ProseReport accept_prose report_prose",
        "prose_claims": "ProseClaim find_claims",
        "quotes": "find_passages locate_quotes",
        "resend": "resend_template",
        "source": "MAX_MESSAGE_CHARS looks_like_report",
        "values": (
            "CHILD_SECTIONS PARENT_SECTIONS ChildBudgets ChildMessage Message MessageKind ParentMessage "
            "TargetedPointer free_texts "
        ),
    })

__all__ = [
    "CHILD_SECTIONS", "MAX_MESSAGE_CHARS", "PARENT_SECTIONS", "BroadcastSent", "ChildBudgets", "ChildMessage",
    "CodeBlock", "CodeCounter", "Extraction", "GrantedCode", "Inbox", "Mail", "MailHandedOver", "Message",
    "MessageAccepted", "MessageKind", "MessageReads", "MessageRejected", "MessageUsage", "OpenRejection",
    "ParentMessage", "ParsedMessage", "PointedContent", "PointerPack", "PreparedReport", "ProseClaim", "ProseReport",
    "SentPack", "TargetedPointer", "Unseen", "accept_prose", "accept_report", "add_pointers", "artifact_body",
    "artifact_ref", "as_stored", "check_budget", "check_evidence_to_read", "check_prose_budget", "check_texts",
    "count_code", "describe_found", "evidence_problems", "extract_code", "extract_statement", "find_claims",
    "find_code", "find_code_blocks", "find_mail", "find_passages", "find_pointed", "find_resent", "free_texts",
    "hand_over_mail", "inbox_of", "inline_budget", "locate_quotes", "looks_like_report", "mail_line", "measure",
    "message_sections", "note_text", "parse_message", "print_message", "print_sections", "read_payers", "read_sections",
    "reject_message", "report_prose", "resend_template", "send_broadcast", "turn_budget", "with_packs", "work_of_parts",
]
