"""The start of a run's workflow, alone or with a first update, and with what Temporal's screens and listings show of it."""

import contextlib
from functools import partial
from typing import Any

from temporalio.client import Client, WithStartWorkflowOperation, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from sojourn import search_attributes
from sojourn.contracts.run import RunInput
from sojourn.contracts.wire_names import AGENT_RUN
from sojourn.core.run.run_input import summarize, viewers_of

__all__ = ["begin"]


async def begin(
    client: Client,
    run_id: str,
    run: RunInput,
    task_queue: str,
    *,
    listed: Any,
    unlisted: Any,
    update: tuple[str, Any] | None = None,
    message: str = "",
) -> Any:
    """Start the workflow of a run; where the namespace lacks search attributes, without them.

    Args:
        client: The Temporal client.
        run_id: The id of the run.
        run: What is shown of the run.
        task_queue: The task queue of its workers.
        listed: The workflow's argument where search attributes are set.
        unlisted: The same where none are set.
        update: The name and the value of an update that is sent in the same request; a run that is open gets it too, and
            is not started. Its outcome is returned.
        message: The text of the message that the update sends, by which the run is introduced.

    Raises:
        RPCError: The server does not answer.
        WorkflowAlreadyStartedError: A run of this id was started before; with an update: and has ended.
        WorkflowUpdateFailedError: The run refuses the update.
        WorkflowUpdateRPCTimeoutOrCancelledError: The call was cancelled; the run may be open, and may accept the update.
    """
    introduction = summarize(run, message=message)
    options: dict[str, Any] = {
        "id": run_id,
        "task_queue": task_queue,
        "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
        "memo": introduction.memo,
        "static_summary": introduction.summary,
        "static_details": introduction.details,
    }
    start = client.start_workflow if update is None else partial(_start_with, client, *update)
    origin = run.forked_from.run_id if run.forked_from else ""
    for attributes in search_attributes.attributes_to_try(
        run.agent_id, run.session_id, origin, run.tenant, viewers_of(run)
    ):
        try:
            return await start(AGENT_RUN, listed, search_attributes=attributes, **options)
        except RPCError as error:
            if not search_attributes.is_unknown(error):
                raise
    return await start(AGENT_RUN, unlisted, **options)


async def _start_with(
    client: Client, name: str, value: Any, workflow: str, argument: Any, **options: Any
) -> Any:
    """Start a workflow unless it is open, with an update, whose outcome is returned."""
    operation: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
        workflow, argument, id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING, **options
    )
    try:
        return await client.execute_update_with_start_workflow(  # pyright: ignore[reportUnknownMemberType]
            name, value, start_workflow_operation=operation
        )
    except (RPCError, WorkflowAlreadyStartedError, WorkflowUpdateRPCTimeoutOrCancelledError):
        # The error is in the operation too, and asyncio logs one there that nobody has read.
        with contextlib.suppress(Exception):
            await operation.workflow_handle()
        raise
