"""A question as the transcript holds it: a message of its own, or the call by which a model asks (SR-94)."""

from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult

__all__ = ["question_message", "reply"]

_NOT_EXECUTED = "not executed: a question was asked beside it; ask for it again, if it is still needed, with what is known now"


def question_message(plan: PlanOutcome) -> Message:
    """The assistant message of a plan that asks."""
    assert plan.await_
    return plan.message or Message.assistant(plan.await_.question)


def reply(plan: PlanOutcome, said: Message) -> Message:
    """What the planner is given for its question: what was said, or the same as the result of the call that asks.

    Calls beside that one are answered as not executed: a transcript answers each call.
    """
    if plan.asking is None or plan.message is None:
        return said
    return Message.results([_result(call, plan.asking, said) for call in plan.message.tool_calls])


def _result(call: ToolCallPart, asking: str, said: Message) -> ToolResult:
    result = ToolResult(name=call.name, tool_call_id=call.tool_call_id)
    if call.tool_call_id == asking:
        return result.model_copy(update={"result": said.text})
    return result.model_copy(update={"error": ToolError.new(_NOT_EXECUTED)})
