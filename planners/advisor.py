"""Find the runbook for a case and give its steps, as `ops.advisor`."""

from pydantic import BaseModel, ConfigDict, Field

from planners.facts import GET_RUNBOOK, SEARCH_RUNBOOKS, Advice, Runbook
from planners.failures import sentence_of
from sojourn import CallFailed, Case, PlanResult, flow

__all__ = ["Advice", "AdviceQuestion", "plan"]


class AdviceQuestion(BaseModel):
    """What another agent asks the advisor (`ops.advice.ask`)."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    question: str = Field(min_length=1, max_length=400)
    """The case in a few words."""
    site_id: str | None = None
    """The site it is about."""


@flow
def plan(case: Case) -> PlanResult:
    """Search for the case, read the best runbook, and answer with its steps."""
    query = case.text.strip()[:400]
    if not query:
        return _advised("Tell me the case in a few words.")
    try:
        found = case.call(SEARCH_RUNBOOKS, query=query)
        if not found.runbooks:
            return _advised("No runbook fits this case.")
        best = case.call(GET_RUNBOOK, runbook_id=found.runbooks[0].runbook_id)
    except CallFailed as failed:
        return PlanResult.final(sentence_of(case, failed))
    return _advised(f"Runbook {best.runbook_id} fits: {best.title}.", best)


def _advised(answer: str, runbook: Runbook | None = None) -> PlanResult:
    steps = runbook.steps if runbook else []
    advice = Advice(answer=answer, runbook_id=runbook.runbook_id if runbook else None, steps=steps)
    return PlanResult.final("\n".join([answer, *advice.numbered]), result=advice.model_dump())
