"""Answer a wait on behalf of a request, and record it in the audit log.

The wait must be one of a run that the principal may see, or of a call that it may decide on.
"""

from sojourn.answers import (
    Answered,
    Decision,
    GivenAnswer,
    WaitRef,
    WaitView,
    audit_facts,
    check_may_answer,
    submit,
)
from sojourn.client.run import Run
from sojourn.contracts.principal import Principal
from sojourn.http.security.audit import bind_answer
from sojourn.http.service import Service

__all__ = ["submit_answer"]


async def submit_answer(
    service: Service,
    asking: Principal,
    wait: WaitView | WaitRef,
    answer: GivenAnswer,
    *,
    message_id: str = "",
    conversation: Run | None = None,
) -> Answered:
    """Answer a wait as `sojourn.answers.submit` does.

    Args:
        service: The service.
        asking: The principal that answers.
        wait: The wait as it was displayed, or its reference.
        answer: The answer.
        message_id: The id of the message that is the answer.
        conversation: The conversation above the run, which remembers the message too.

    Raises:
        MissingRole: The principal may not answer.
        RunNotFound: There is no such run, or none that the principal may see.
        RunError: As in `submit`.
    """
    bind_answer(**audit_facts(wait, answer))
    if isinstance(answer, Decision):  # a decider may see the call of a run that it may not see
        run = await service.asked_run(asking, wait.run_id, wait.await_id)
    else:
        check_may_answer(asking, wait, answer)
        run = await service.run(asking, wait.run_id)
    return await submit(run, asking, wait, answer, message_id=message_id, conversation=conversation)
