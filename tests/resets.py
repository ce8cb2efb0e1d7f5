"""Reset a run, as `temporal workflow reset` does."""

import uuid

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from sojourn import Client

__all__ = ["reset", "reset_before_update"]


async def reset(client: Client, run_id: str, event_id: int) -> None:
    """Reset a run to before the workflow task that this event ends."""
    await client.temporal.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run_id),
            reason="again",
            request_id=uuid.uuid4().hex,
            workflow_task_finish_event_id=event_id,
        )
    )


async def reset_before_update(client: Client, run_id: str, number: int = 1) -> None:
    """Reset a run to before the task that accepted its nth update, which the server then sends anew."""
    kinds = [
        (event.event_id, event.WhichOneof("attributes").removesuffix("_event_attributes"))
        for event in (await client.temporal.get_workflow_handle(run_id).fetch_history()).events
    ]
    accepted = [id for id, kind in kinds if kind == "workflow_execution_update_accepted"][number - 1]
    task = [id for id, kind in kinds if kind == "workflow_task_completed" and id < accepted][-1]
    await reset(client, run_id, task)
