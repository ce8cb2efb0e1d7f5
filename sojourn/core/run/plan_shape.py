"""The rules for the shape of a plan; a plan that breaks one is a planner fault, with the reason."""

from collections import Counter
from datetime import timedelta
from typing import Any

from sojourn.contracts.awaits import AwaitClarification, AwaitExternalTools
from sojourn.contracts.message import Message
from sojourn.contracts.plan import PlanResult
from sojourn.core.values.json_fault import wrong_figure
from sojourn.core.values.merge_patch import patch_fault
from sojourn.core.values.sizes import MAX_PLAN_CALLS
from sojourn.core.values.timers import LONGEST

__all__ = ["MAX_WAIT", "fault_of"]

MAX_WAIT = LONGEST
"""Longest wait; a longer one is a mistake, and Temporal refuses very long timers."""

MAX_QUESTION_CHARS = 8_000
"""Longest question with its other texts, in characters."""

MAX_QUESTION_FIELDS = 50

_VARIANTS = {
    "tool_calls": "tool_calls",
    "final_response": "final_response",
    "await_": "await",
    "wait_": "wait",
    "failure": "failure",
}

_ENDS = ("final_response", "failure")


def fault_of(plan: Any, *, interrupts_allowed: bool, final_turn: bool) -> str | None:
    """Why a planner's result is refused, in a sentence that says what to return instead, or None.

    Exactly one of the five variants is legal; in the final turn only a response or a failure
    is; a question needs `interrupts_allowed` (SR-74).
    """
    if not isinstance(plan, PlanResult):
        return f"a planner returns a PlanResult, not {type(plan).__name__}"
    variants = [wire for name, wire in _VARIANTS.items() if getattr(plan, name)]
    if len(variants) != 1:
        names = " and ".join(variants) or "nothing"
        return f"a plan holds exactly one of {', '.join(_VARIANTS.values())}; this one holds {names}"
    if final_turn and variants[0] not in _ENDS:
        return f"this turn may only answer: return final_response, not {variants[0]}"
    if plan.await_ and not interrupts_allowed:
        return (
            "this agent may not ask: its policy has interrupts_allowed=False; answer or call a tool instead"
        )
    if isinstance(plan.await_, AwaitClarification) and (fault := _question_fault(plan.await_)):
        return fault
    if isinstance(plan.await_, AwaitExternalTools) and not plan.await_.items:
        return "await names at least one call that somebody outside executes"
    if plan.final_response and plan.final_response.role != "assistant":
        return f"final_response has role 'assistant', not {plan.final_response.role[:40]!r}"
    if plan.wait_ and not timedelta(0) < plan.wait_ <= MAX_WAIT:
        return f"wait is longer than zero and at most {MAX_WAIT.days} days"
    return patch_fault(plan.memory) or _usage_fault(plan) or _call_fault(plan)


def _usage_fault(plan: PlanResult) -> str | None:
    used = plan.usage
    if used is None:
        return None
    return wrong_figure(
        (f"usage.{name}", getattr(used, name))
        for name in ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "cost")
    )


def _question_fault(question: AwaitClarification) -> str | None:
    texts = [question.question, question.clarifying_prompt or "", *question.missing_fields]
    if sum(map(len, texts)) > MAX_QUESTION_CHARS or len(question.missing_fields) > MAX_QUESTION_FIELDS:
        return f"a question has at most {MAX_QUESTION_CHARS:,} characters in all and {MAX_QUESTION_FIELDS} fields"
    return None


def _call_fault(plan: PlanResult) -> str | None:
    external = plan.await_.items if isinstance(plan.await_, AwaitExternalTools) else []
    if len(plan.tool_calls) + len(external) > MAX_PLAN_CALLS:
        return f"a plan holds at most {MAX_PLAN_CALLS:,} calls; this one holds {len(plan.tool_calls) + len(external):,}"
    ids = Counter(call.tool_call_id for call in [*plan.tool_calls, *external] if call.tool_call_id)
    twice = [call_id for call_id, count in ids.items() if count > 1]
    if twice:
        return f"tool_call_ids are unique; this plan repeats {', '.join(name[:80] for name in twice[:3])!r}"
    if plan.message and plan.message.role != "assistant":
        return f"message has role 'assistant', not {plan.message.role[:40]!r}"
    if plan.message and isinstance(plan.await_, AwaitClarification):
        return _asking_fault(plan.message, plan.await_.tool_call_id)
    if plan.message and sorted(c.tool_call_id for c in plan.message.tool_calls) != sorted(
        call.tool_call_id for call in [*plan.tool_calls, *external]
    ):
        return "message asks for the same calls as tool_calls, with the same ids"
    return None


def _asking_fault(message: Message, asking: str | None) -> str | None:
    ids = [call.tool_call_id for call in message.tool_calls]
    if len(set(ids)) < len(ids):
        return "tool_call_ids are unique; the message with await repeats one"
    if (ids or asking) and asking not in ids:
        return "the message with await holds the call by which it asks, named by await.tool_call_id"
    return None
