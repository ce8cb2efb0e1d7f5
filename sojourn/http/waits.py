"""Waits: an open wait with what is needed to answer it, as the inbox of the API has it."""

from typing import Any

from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation
from sojourn.contracts.principal import Principal
from sojourn.core.awaits.deciding import roles_of
from sojourn.http.asked import text_of_payload
from sojourn.http.replies import Asker, Wait, WaitContext
from sojourn.reader import FoundWait

__all__ = ["fields_of", "wait_of"]

MAX_TEXT = 2_000
"""Longest text of a wait's context, in characters."""


def wait_of(found: FoundWait) -> Wait:
    """An open wait as an answer has it."""
    waiting, status, wait, since = (
        found.waiting,
        found.waiting.status,
        found.opened.wait,
        found.opened.since,
    )
    context = WaitContext(
        asked=waiting.asked[:MAX_TEXT],
        said=waiting.said[:MAX_TEXT],
        started_at=status.started_at,
        paused=status.paused,
    )
    common: dict[str, Any] = {
        "run_id": status.run_id,
        "await_id": wait.id,
        "agent_id": status.agent_id,
        "session_id": status.session_id,
        "since": since,
        "expires_at": since + wait.expires_after if since and wait.expires_after else None,
        "context": context,
    }
    return Wait(**common, **fields_of(wait))


def fields_of(wait: Await) -> dict[str, Any]:
    """What is asked, as fields of a `Wait`."""
    if isinstance(wait, AwaitClarification):
        return {
            "kind": "question",
            "prompt": "\n".join(filter(None, (wait.question, wait.clarifying_prompt))),
            "tool": wait.restrict_to_tool,
            "tool_call_id": wait.tool_call_id,
            "form": wait.form,
            "missing_fields": wait.missing_fields,
            "example": wait.example_input,
        }
    if isinstance(wait, AwaitConfirmation):
        return {
            "kind": "approval",
            "title": wait.title,
            "prompt": wait.prompt,
            "tool": wait.tool,
            "tool_call_id": wait.tool_call_id,
            "tags": wait.tags,
            "payload": wait.payload,
            "payload_text": text_of_payload(wait.payload),
            "digest": wait.payload_digest,
            "changes": wait.changes,
            "approvers": roles_of(wait),
            "narrowed_to": wait.narrowed_to,
            "approver_check": wait.approver_check,
            "four_eyes": wait.four_eyes,
            "asked_by": wait.asked_by and _asker(wait.asked_by),
            "also_asked_by": [_asker(each) for each in wait.also_asked_by],
            "stop_asking": wait.stop_asking,
        }
    return {"kind": "tool_results", "calls": wait.items}


def _asker(principal: Principal) -> Asker:
    return Asker(subject=principal.subject, tenant=principal.tenant)
