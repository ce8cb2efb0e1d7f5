"""The planner of `ops.assistant`: operations questions about sites and field devices, answered by rules."""

from functools import partial

from planners.case import Flow, decide
from planners.contact import register_contact
from planners.dark_site import why_dark
from planners.lookups import list_devices, list_sites, show_readings
from planners.questions import (
    EXAMPLES,
    ListDevices,
    ListSites,
    ListWorkOrders,
    OpenWorkOrder,
    Question,
    RegisterContact,
    ShowReadings,
    WhyDark,
    question_of,
)
from planners.work_orders import list_work_orders, open_work_order
from sojourn import PlanResult, PlanResumeInput, Turn

__all__ = ["plan"]


async def plan(turn: Turn) -> PlanResult:
    """Plan the next step towards the answer to the latest question.

    A run starts with its question. Later messages of people are answers, unless one is itself
    a question, which replaces the first.
    """
    positions = [number for number, message in enumerate(turn.messages) if message.role == "user"]
    for start in reversed(positions if isinstance(turn, PlanResumeInput) else positions[-1:]):
        question = question_of(turn.messages[start].text)
        if question is not None:
            return decide(turn, start, _flow(question))
    examples = "\n".join(f"- {example}" for example in EXAMPLES)
    return PlanResult.final(f"I do not understand the question. I can answer questions such as:\n{examples}")


def _flow(question: Question) -> Flow:
    match question:
        case WhyDark():
            return partial(why_dark, question=question)
        case RegisterContact():
            return partial(register_contact, question=question)
        case ListSites():
            return partial(list_sites, question=question)
        case ListDevices():
            return partial(list_devices, question=question)
        case ShowReadings():
            return partial(show_readings, question=question)
        case ListWorkOrders():
            return partial(list_work_orders, question=question)
        case OpenWorkOrder():
            return partial(open_work_order, question=question)
