"""Repeated starts: whether a run was started by the same request, of which its history has the input."""

from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from sojourn.connection.rpc_errors import translated
from sojourn.contracts.run import RunInput
from sojourn.converter.marked import UnreadableError
from sojourn.core.run.continuation import Continuation
from sojourn.events.history import HistoryReader
from sojourn.events.one_run import first_execution

__all__ = ["is_start_of"]

_NOT_ASKED = {"listed", "principal"}
"""Fields of an input that the request does not choose."""


async def is_start_of(client: Client, run_id: str, run: RunInput) -> bool:
    """Whether a run began with this input; where its first execution is deleted, whether it is a run of the agent and the session.

    Raises:
        RunNotFound: There is no such run.
        ServerUnavailable: The server does not answer.
    """
    reader = HistoryReader(client.data_converter)
    try:
        execution = await first_execution(client, run_id)
        handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(run_id, run_id=execution)
        async for event in handle.fetch_history_events(page_size=1):
            record = await reader.record(event)
            match record and record.value:
                case RunInput() as began:
                    return _asked(began) == _asked(run)
                case Continuation(state=state):
                    began = state.opening
                    return (began.agent_id, began.session_id) == (run.agent_id, run.session_id)
                case _:
                    return False
    except UnreadableError:
        return False
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise translated(error, run_id) from error
    return False


def _asked(run: RunInput) -> dict[str, Any]:
    return run.model_dump(mode="json", exclude=_NOT_ASKED)
