"""Move a run's clock forward, so that a test of a wait of weeks is short.

Only a server of Sojourn's own can do it: `Server`, and so the fixture `temporal_address`. It is the
server's own time skipping, for one run: the run cannot tell the difference.
"""

import uuid
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from temporalio.api.common.v1 import FastForwardConfig, TimeSkippingConfig, WorkflowExecution
from temporalio.api.enums.v1 import FastForwardPollingResult
from temporalio.api.workflow.v1 import WorkflowExecutionOptions
from temporalio.api.workflowservice.v1 import (
    PollWorkflowExecutionTimeSkippingRequest,
    UpdateWorkflowExecutionOptionsRequest,
)
from temporalio.service import RPCError, RPCStatusCode

from sojourn.client.run import Run
from sojourn.connection.rpc_errors import translate_error
from sojourn.errors import AwaitClosed, InvalidInput

__all__ = ["skip_time"]

_REFUSED = (RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.PERMISSION_DENIED)


async def skip_time(run: Run, duration: timedelta) -> None:
    """Move a run's clock forward, and return once all that was due has begun.

    The clock moves while the run only waits: for a person, or for a sleep to end. While a call, a plan or a
    child run is in progress, it waits for that first. A child run has a clock of its own.

    Args:
        run: An open run.
        duration: How far; above zero.

    Raises:
        AwaitClosed: The run has ended before.
        InvalidInput: The duration is not above zero, or the server cannot skip time.
        RunNotFound: There is no such run.
        ServerUnavailable: The server does not answer.
    """
    if duration <= timedelta(0):
        raise InvalidInput(f"skip_time takes a duration above zero, not {duration}", run_id=run.id)
    temporal = run.client.temporal
    service, execution, mark = (
        temporal.workflow_service,
        WorkflowExecution(workflow_id=run.id),
        uuid.uuid4().hex,
    )
    length = Duration()
    length.FromTimedelta(duration)
    skipping = TimeSkippingConfig(
        enabled=True, fast_forward_config=FastForwardConfig(id=mark, duration=length)
    )
    try:
        await service.update_workflow_execution_options(
            UpdateWorkflowExecutionOptionsRequest(
                namespace=temporal.namespace,
                workflow_execution=execution,
                workflow_execution_options=WorkflowExecutionOptions(time_skipping_config=skipping),
                update_mask=FieldMask(paths=["time_skipping_config"]),
            )
        )
        polled = FastForwardPollingResult.FAST_FORWARD_POLLING_RESULT_POLL_TIMEOUT
        while polled == FastForwardPollingResult.FAST_FORWARD_POLLING_RESULT_POLL_TIMEOUT:
            answer = await service.poll_workflow_execution_time_skipping(
                PollWorkflowExecutionTimeSkippingRequest(
                    namespace=temporal.namespace, workflow_execution=execution, fast_forward_id=mark
                )
            )
            polled = answer.fast_forward_polling_result
        # The third outcome is that the run ended on the way, which may be what the test is about.
    except RPCError as error:
        raise _explain(error, run.id) from error


def _explain(error: RPCError, run_id: str) -> Exception:
    if error.status == RPCStatusCode.NOT_FOUND and "completed" in error.message:
        return AwaitClosed(f"{run_id} has ended; its clock does not move any more", run_id=run_id)
    if error.status in _REFUSED:
        return InvalidInput(
            f"this server cannot skip time ({error.message}); use the fixture `temporal_address`, or `Server`",
            run_id=run_id,
        )
    return translate_error(error, run_id)
