"""Answer questions about sites and field devices by rules, as `ops.assistant`."""

from typing import Any

from planners.contact import register_contact
from planners.dark_site import why_dark
from planners.failures import defaults, read_reply, sentence_of
from planners.lookups import list_devices, list_sites, show_readings
from planners.questions import (
    ABILITIES,
    ListDevices,
    ListSites,
    ListWorkOrders,
    OpenWorkOrder,
    Question,
    RegisterContact,
    ShowReadings,
    WhyDark,
    asked,
    begins_anew,
)
from planners.work_orders import list_work_orders, open_work_order
from sojourn import CallFailed, Case, PlanResult, flow

__all__ = ["courtesy", "plan"]

_THANKS = frozenset({"thanks", "thank you", "thx", "cheers"})
_GREETINGS = frozenset({"hello", "hi", "hey", "good morning", "good afternoon", "good evening"})
_HELP = frozenset({"help", "what can you do", "what can i ask"})


def courtesy(text: str) -> str | None:
    """Return the reply to a greeting, thanks or a request for help, or None."""
    words = text.strip().strip(".!?").lower()
    if words in _THANKS:
        return "You are welcome."
    if words in _GREETINGS:
        return f"Hello. {ABILITIES}"
    return ABILITIES if words in _HELP else None


@flow(defaults=defaults, read_answer=read_reply, restart_on=begins_anew)
def plan(case: Case) -> PlanResult:
    """Answer the latest question.

    A question in place of an answer replaces the previous one, and `and s-3?` repeats the last one.
    """
    earlier = [message.text for message in case.earlier if message.role == "user"]
    question = asked(case.text, earlier)
    if question is None:
        return PlanResult.final(courtesy(case.text) or f"I do not understand the question. {ABILITIES}")
    try:
        return PlanResult.final("", result=_answer(case, question))
    except CallFailed as failed:
        return PlanResult.final(sentence_of(case, failed))


def _answer(case: Case, question: Question) -> Any:
    """Say the answer, and return the typed one."""
    match question:
        case WhyDark():
            return why_dark(case, question)
        case RegisterContact():
            return register_contact(case, question)
        case ListSites():
            return list_sites(case, question)
        case ListDevices():
            return list_devices(case, question)
        case ShowReadings():
            return show_readings(case, question)
        case ListWorkOrders():
            return list_work_orders(case, question)
        case OpenWorkOrder():
            return open_work_order(case, question)
