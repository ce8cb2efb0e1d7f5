"""What a run was started with, as its history has it, and whether that is the same request."""

from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from sojourn.connection.rpc_errors import translated
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput
from sojourn.converter.marked import UnreadableError
from sojourn.core.run.continuation import Continuation
from sojourn.events.history import HistoryReader
from sojourn.events.one_run import first_execution

__all__ = ["is_start_of", "messages_at_start"]

_NOT_ASKED = {"listed", "principal", "visibility"}
"""Fields of an input that the request does not choose."""


async def is_start_of(client: Client, run_id: str, run: RunInput) -> bool:
    """Whether a run began with this input; where its first execution is deleted, whether it is a run of the agent and the session.

    Raises:
        RunNotFound: There is no such run.
        ServerUnavailable: The server does not answer.
    """
    began = await _beginning(client, run_id)
    if isinstance(began, Continuation):
        opening = began.state.opening
        return (opening.agent_id, opening.session_id) == (run.agent_id, run.session_id)
    return began is not None and _asked(began) == _asked(run)


async def messages_at_start(client: Client, run_id: str) -> list[Message] | None:
    """The messages that a run was started with; None where its first execution is deleted, or cannot be read.

    Raises:
        RunNotFound: There is no such run.
        ServerUnavailable: The server does not answer.
    """
    began = await _beginning(client, run_id)
    return began.messages if isinstance(began, RunInput) else None


async def _beginning(client: Client, run_id: str) -> RunInput | Continuation | None:
    """What the first execution of a run that is there was started with."""
    reader = HistoryReader(client.data_converter)
    try:
        execution = await first_execution(client, run_id)
        handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(run_id, run_id=execution)
        async for event in handle.fetch_history_events(page_size=1):
            record = await reader.record(event)
            value = record and record.value
            return value if isinstance(value, RunInput | Continuation) else None
    except UnreadableError:
        return None
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise translated(error, run_id) from error
    return None


def _asked(run: RunInput) -> dict[str, Any]:
    return run.model_dump(mode="json", exclude=_NOT_ASKED)
