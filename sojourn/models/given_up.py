"""Given up: what a plan comes to when no correction is left.

A program that asks for a typed answer gets a valid one or an error, so a run whose model gives none fails. It fails as a value: the
plan records what its requests used and each correction, and the error has the last answer and what the run had
carried out. A retry of the run goes on from there, and carries out nothing again.
"""

import json
from collections.abc import Sequence

from temporalio.exceptions import ApplicationError

from sojourn.contracts.plan import PlanInput, PlanResult
from sojourn.contracts.tool_error import ToolError
from sojourn.core.values.text import clip, counted
from sojourn.models.outcome import Correction, Reply

__all__ = ["given_up"]

_MAX_ANSWER = 1_500
_MAX_WHY = 500
_MAX_CALLS = 5


def given_up(corrections: Sequence[Correction], reply: Reply, turn: PlanInput) -> PlanResult:
    """Return the plan that a response comes to after its corrections.

    Args:
        corrections: The corrections of the plan; the last one is not made any more.
        reply: The last response.
        turn: The planner's input.

    Raises:
        ApplicationError: It comes to none in the last turn of a run, which a limit ends without an answer.
    """
    last = corrections[-1]
    if last.otherwise is not None:
        return last.otherwise
    message = f"{_times(len(corrections) - 1)}: {clip(last.why or last.text, _MAX_WHY)}{_carried_out(turn)}"
    if turn.finalize:
        raise ApplicationError(message, type=last.code, non_retryable=True)
    error = ToolError.new(message, code=last.code)
    if answer := _answer(reply):
        cause = ToolError.new(f"the model's last answer was: {clip(answer, _MAX_ANSWER)}", code="LastAnswer")
        error = error.model_copy(update={"cause": cause})
    notes = [f"the model was corrected: {clip(each.why or each.text, _MAX_WHY)}" for each in corrections[:-1]]
    return PlanResult.fail(error, notes=notes)


def _times(corrections: int) -> str:
    if not corrections:
        return (
            "the model did not give a valid answer, and the run has no tokens or money left for a correction"
        )
    times = "once" if corrections == 1 else f"{corrections} times"
    return f"the model was corrected {times} and still did not give a valid answer"


def _answer(reply: Reply) -> str:
    """The text of a response, or else the arguments of its calls."""
    if text := reply.message.text.strip():
        return text
    requests = [call.request for call in reply.message.tool_calls]
    return "\n".join(
        each.raw if each.raw is not None else json.dumps(each.payload, ensure_ascii=False)
        for each in requests
    )


def _carried_out(turn: PlanInput) -> str:
    """What the turn had carried out before, as the end of a sentence: the calls that may change something and succeeded."""
    reads = {spec.id for spec in turn.tools if spec.annotations.read_only}
    results = [each for message in turn.messages[turn.turn_start :] for each in message.tool_results]
    made = [each for each in results if each.ok and each.name not in reads]
    if not made:
        return ""
    listed = ", ".join(f"{each.name} ({each.tool_call_id})" for each in made[-_MAX_CALLS:])
    more = f"{counted(len(made), 'call')}, the last ones " if len(made) > _MAX_CALLS else ""
    return f"; before that the run had carried out {more}{listed}"
