"""The typed answer of a child run: what its parent's tool declares, held before the child may end."""

from typing import Any

from sojourn.contracts.plan import PlanResult
from sojourn.core.parse import ParseFault, parse_arguments
from sojourn.core.pointer import Schema
from sojourn.core.validate import Validator
from sojourn.core.wording import clip, sentence

__all__ = ["MALFORMED_ANSWER", "typed"]

MALFORMED_ANSWER = "MalformedAnswer"
"""The code of a run that could not give the answer its parent expects; the parent's call is `malformed_response`."""

_MAX_TOLD = 5


def typed(plan: PlanResult, schema: Schema) -> PlanResult | str:
    """The plan with its typed answer, or why the answer does not fit.

    An answer given as text counts when it is one JSON object that fits.
    """
    assert plan.final_response is not None
    result = plan.result
    if result is None:
        read = parse_arguments(plan.final_response.text)
        result = None if isinstance(read, ParseFault) else read.payload
    issues = _issues(result, schema)
    if not issues:
        return plan.model_copy(update={"result": result})
    told = "; ".join(sentence(issue) for issue in issues[:_MAX_TOLD])
    return clip(
        "the answer does not fit what the caller of this agent asked for; give PlanResult.final(text, result=...) "
        f"with a result that fits: {told}",
        1_000,
    )


def _issues(result: Any, schema: Schema) -> list[Any]:
    return Validator(schema).issues(result)
