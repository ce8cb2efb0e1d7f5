"""The start of a run's workflow, with what Temporal's screens and listings show of it."""

from typing import Any

from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError

from sojourn import search_attributes
from sojourn.contracts.run import RunInput
from sojourn.core.run.introduction import introduce

__all__ = ["begin"]


async def begin(
    client: Client, run_id: str, run: RunInput, task_queue: str, *, listed: Any, unlisted: Any
) -> None:
    """Start the workflow of a run; where the namespace lacks search attributes, without them.

    Args:
        client: The Temporal client.
        run_id: The id of the run.
        run: What is shown of the run.
        task_queue: The task queue of its workers.
        listed: The workflow's argument where search attributes are set.
        unlisted: The same where none are set.

    Raises:
        RPCError: The server does not answer.
        WorkflowAlreadyStartedError: A run of this id was started before.
    """
    introduction = introduce(run)
    options: dict[str, Any] = {
        "id": run_id,
        "task_queue": task_queue,
        "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
        "memo": introduction.memo,
        "static_summary": introduction.summary,
        "static_details": introduction.details,
    }
    # A namespace of an earlier version has all attributes but that of forks.
    origins = [run.forked_from.run_id, ""] if run.forked_from else [""]
    for origin in origins:
        attributes = search_attributes.attributes_of(run.agent_id, run.session_id, origin)
        try:
            await client.start_workflow("AgentRun", listed, search_attributes=attributes, **options)
        except RPCError as error:
            if not search_attributes.is_unknown(error):
                raise
        else:
            return
    await client.start_workflow("AgentRun", unlisted, **options)
