"""The text of a message: parsed, checked for secrets, measured against the caller's budget, or rejected."""

from __future__ import annotations

from typing import Any, NamedTuple

from engrambus.core import check_visible, new_ulid, parse_duration
from engrambus.errors import BudgetExceeded, EngramBusError, FieldValue, GrantRefusal
from engrambus.gateway.context import Context
from engrambus.gateway.ports import View

# decision 39: these packages load a module with its first use, so a hook that submits prose does not load the parser
from engrambus.knowledge import messages
from engrambus.knowledge.messages import (
    MessageKind,
    MessageRejected,
    MessageUsage,
    inline_budget,
)
from engrambus.policy import ADMIN, InlineBudget, grants
from engrambus.policy.secrets import check_no_secrets

BUDGET_TOKEN = "BUDGET_TOKEN"  # noqa: S105  # a section of a message


class CheckedText(NamedTuple):
    """A text that was parsed and is within its budget."""

    message: messages.Message | None
    usage: MessageUsage
    grant: grants.VerifiedGrant | None


def check_text(context: Context, text: str, kind: MessageKind, budget_token: str | None = None) -> CheckedText:
    """Parse a text and check it against the caller's budget; refuse it with the first problem."""
    parsed = parse_text(context, text, kind)
    with context.store.read() as view:
        budget = inline_budget(view, context.policy, context.caller)
        grant = open_grant(context, view, parsed, budget_token)
    counter = messages.CodeCounter(context.project_files, parsed.message)
    granted = granted_code(context, grant, counter)
    usage, problems = messages.check_budget(parsed, budget, context.limits, counter.count, granted)
    if problems:
        raise reject_text(context, parsed, budget, usage, problems[0], counter)
    return CheckedText(parsed.message, usage, grant)


def parse_text(context: Context, text: str, kind: MessageKind) -> messages.ParsedMessage:
    """Parse a text, and refuse it if it has a secret or invisible characters."""
    role = context.caller.role if context.caller.role != ADMIN else None
    max_ttl_us = parse_duration(context.policy.max_ttl)
    parsed = messages.parse_message(text, kind, max_ttl_us=max_ttl_us, role=role, completer=context.completer)
    sections: dict[str, Any] = {}
    if parsed.message is not None:
        sections = messages.message_sections(messages.as_stored(parsed.message))
    # The sections come first: their escapes are undone, and what is wrong in them is reported with its field.
    check_stored_text(context, {**sections, "text": text.removeprefix("\ufeff")})  # a file's mark of its encoding
    return parsed


def check_stored_text(context: Context, texts: dict[str, Any]) -> None:
    """Refuse what the gateway refuses in a request's other fields: invisible text and secrets."""
    check_visible(texts)
    check_no_secrets(texts, rules=context.policy.secrets)


def open_grant(
    context: Context, view: View, parsed: messages.ParsedMessage, budget_token: str | None
) -> grants.VerifiedGrant | None:
    """Return the grant that may allow code in a message, by the token in the request or in the message."""
    in_message = parsed.parts.get("budget_token")
    token = budget_token or in_message
    if token is None:
        return None
    if in_message is not None and token != in_message:
        raise FieldValue("The message and the request name different grants.", field=BUDGET_TOKEN)
    try:
        return grants.open_budget_token(view, context.caller, context.grant_key, token)
    except GrantRefusal as refusal:
        refusal.field = BUDGET_TOKEN if budget_token is None else refusal.field
        raise


def granted_code(
    context: Context, grant: grants.VerifiedGrant | None, counter: messages.CodeCounter
) -> messages.GrantedCode | None:
    """Return the code that a grant allows in a message, if it allows any."""
    if grant is None or not grant.inline_code_chars:
        return None
    return messages.GrantedCode(grant, counter, context.evidence, context.project_files)


def name_code(problem: EngramBusError | None, message: messages.Message | None, counter: messages.CodeCounter) -> None:
    """Add the pointers of the code in a message to the refusal that is about code."""
    if not isinstance(problem, BudgetExceeded) or message is None:
        return
    if any(excess["what"] == "inline_code_chars" for excess in problem.exceeded):
        messages.add_pointers(problem, messages.free_texts(message), counter)


def reject_text(
    context: Context,
    parsed: messages.ParsedMessage,
    budget: InlineBudget,
    usage: MessageUsage,
    problem: EngramBusError,
    counter: messages.CodeCounter,
) -> EngramBusError:
    """Return the error to raise; one for the budget is recorded, and carries a message to send instead."""
    if not isinstance(problem, BudgetExceeded):
        return problem
    name_code(problem, parsed.message, counter)
    rejection_id = new_ulid(context.as_of, context.randomness)
    pastes = counter.find_pastes(parsed.text)
    problem.resend = messages.resend_template(
        parsed, budget, pastes, rejection_id=rejection_id, count_code=counter.count
    )
    check_no_secrets(problem.resend, rules=context.policy.secrets)

    def decide(view: View) -> tuple[list[MessageRejected], MessageRejected]:
        rejected = messages.reject_message(
            view,
            problem,
            rejection_id=rejection_id,
            caller=context.caller,
            kind=parsed.kind,
            usage=usage,
            resends=parsed.parts.get("resends"),
            work=messages.work_of_parts(parsed.parts, [paste.pointer for paste in pastes]),
        )
        return [rejected], rejected

    context.commit(decide, MessageRejected)
    problem.is_recorded = True
    return problem
