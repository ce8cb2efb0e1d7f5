"""A view of each kind of wait, and one of a kind that no face has heard of."""

from collections.abc import Mapping
from typing import Any, ClassVar, get_args

from sojourn import Agent, App, PlanResult, Turn
from sojourn.answers import WaitView, wait_view
from sojourn.contracts.awaits import (
    Await,
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    ExternalCall,
)
from sojourn.contracts.record import Input
from sojourn.contracts.taint import Taint, TaintSource

__all__ = ["APP", "ASKED", "OUTSIDE", "READING", "VIEWS"]


async def plan(_turn: Turn) -> PlanResult:
    """Plan nothing: no run of it begins."""
    return PlanResult.final("")


APP = App(agents=[Agent("ops.clerk", planner=plan)])
"""An app that knows no tool."""

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"degrees": {"type": "number"}},
    "required": ["degrees"],
}


class AwaitReading(Input):
    """A number that a person reads from an instrument."""

    kind: ClassVar[str] = "reading"
    is_for_people: ClassVar[bool] = True
    answer_path: ClassVar[str] = "readings"
    metric_name: ClassVar[str] = "reading"
    noun: ClassVar[str] = "a reading"
    id: str = "w"
    instrument: str = "boiler 7"
    expires_after: None = None

    @property
    def summary(self) -> str:
        """What the wait asks for, in a sentence."""
        return f"What does {self.instrument} show?"

    @property
    def tools(self) -> list[str]:
        """The tools that the wait is about."""
        return []


_KNOWN = (
    AwaitClarification(id="w", question="What does boiler 7 show?", form=FORM),
    AwaitConfirmation(
        id="w",
        tool_call_id="c1",
        tool="ops.boilers.open",
        prompt="What does boiler 7 show?",
        payload_digest="d",
        taint=Taint(
            sources=[TaintSource(number=1, tool="web.page.get", tool_call_id="c0", reason="open_world")],
            count=1,
        ),
        lifts_taint=True,
    ),
    AwaitExternalTools(id="w", items=[ExternalCall(tool_call_id="c1", tool="ops.boilers.read")]),
)

_OTHER = wait_view(_KNOWN[0], "r-1").model_copy(update={"kind": "reading", "wait": AwaitReading()})

VIEWS: Mapping[str, WaitView] = {
    **{each.kind: wait_view(each, "r-1") for each in _KNOWN},
    "reading": _OTHER,
}
"""By kind. A new kind needs a wait here."""

READING = "reading"
"""The kind that is in no table of a face."""

ASKED: Mapping[str, str] = {
    "question": "boiler 7",
    "approval": "boiler 7",
    "tool_results": "ops.boilers.read",
    "reading": "boiler 7",
}
"""What every face tells of the wait of a kind."""

OUTSIDE = "The run has read text from outside: web.page.get (call c0)."
"""What every face tells of the approval."""

assert set(VIEWS) == {READING, *(each.kind for each in get_args(Await))}
