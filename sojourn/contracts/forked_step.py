"""ForkedStep: the step with which a fork begins, whose open calls the app judges as it is now."""

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.message import Message
from sojourn.contracts.record import Record
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult

__all__ = ["ForkedStep"]


class ForkedStep(Record):
    """A step of the origin of which a fork carries out a call again: no planner is asked for it.

    What the origin recorded about the call decides nothing: the policy, the policy engine, the approval rules and the tool's
    schema are those of the worker that plans the step.
    """

    message: Message
    """The planner's message with the calls."""
    results: list[ToolResult] = []
    """The results that calls of the step have already; the other calls are judged and carried out."""
    edited: list[str] = []
    """Ids of the calls whose arguments somebody has edited: they fit the tool's schema, or the run fails."""
    asks: AwaitConfirmation | None = None
    """The approval, as it was shown, of a call about which a person is asked again, whatever the rules say."""

    @property
    def calls(self) -> list[ToolRequest]:
        """The calls of the step."""
        return [part.request for part in self.message.tool_calls]

    def result_of(self, call: ToolRequest) -> ToolResult | None:
        """The result that a call has already; None for a call that is judged."""
        return next((known for known in self.results if known.tool_call_id == call.tool_call_id), None)
