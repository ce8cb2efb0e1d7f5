"""Start the workflow of a run, and find out whether it was started before."""

import contextlib
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowHandle,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from sojourn import search_attributes
from sojourn.attachments import comparable
from sojourn.client.conversation_id import tenant_prefix
from sojourn.connection.rpc_errors import translate_error
from sojourn.contracts.ids import AGENT_ID, RUN_ID
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput, RunOutput
from sojourn.contracts.taint import Taint
from sojourn.contracts.tenant_ids import tenant_part
from sojourn.contracts.wire_names import AGENT_RUN
from sojourn.converter.codec import UnreadableError, admit_run, forget_run
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.run_input import labels_fault, messages_fault, opening_fault, summarize, viewers_of
from sojourn.errors import InvalidInput
from sojourn.events.history import HistoryReader
from sojourn.events.one_run import first_execution
from sojourn.values.wire import encode_readable

__all__ = [
    "HIGHEST_PRIORITY",
    "LOWEST_PRIORITY",
    "RUN_ID_RULE",
    "USUAL_PRIORITY",
    "as_messages",
    "generate_id",
    "is_start_of",
    "messages_at_start",
    "priority_of",
    "start_workflow",
    "taint_of",
    "validate_input",
]

_MESSAGES = TypeAdapter(list[Message])

HIGHEST_PRIORITY, USUAL_PRIORITY, LOWEST_PRIORITY = 1, 3, 5
"""Temporal's priorities. A start that names none has the usual one."""

RUN_ID_RULE = (
    "run_id must begin with a letter or digit, and have only letters, digits and _.:@=+-, at most 200"
)


def as_messages(messages: str | Message | Sequence[Message]) -> list[Message]:
    """Return the messages of an opening, with a text as the user's message.

    Raises:
        InvalidInput: One of them is no message.
    """
    if isinstance(messages, str):
        return [Message.user(messages)]
    opening = [messages] if isinstance(messages, Message) else list(messages)
    try:
        return _MESSAGES.validate_python(opening)
    except ValidationError as error:
        raise _invalid(error, "messages") from error


def generate_id(agent_id: str, tenant: str = "") -> str:
    """Return an id for a new run.

    It has the tenant, the last part of the agent's id, and a random part.
    """
    return f"{tenant_prefix(tenant)}{str(agent_id).rsplit('.', 1)[-1]}-{uuid.uuid4().hex[:12]}"


def taint_of(earlier: RunOutput | Taint | None) -> Taint | None:
    """Return the text from outside with which a run begins.

    All of it counts: what a person lifted in the earlier run is a decision about that run.
    """
    if isinstance(earlier, RunOutput):
        earlier = earlier.taint and earlier.taint.found_in(earlier.run_id)
    return earlier and Taint().joining(earlier, None)


def validate_input(run_id: str, **fields: Any) -> RunInput:
    """Return the input of a run, validated."""
    try:
        run = RunInput(**fields)
        encode_readable(run)
    except ValidationError as error:
        raise _invalid(error, run_id=run_id) from error
    except ValueError as error:
        raise InvalidInput(f"the input of a run must be JSON: {str(error)[:200]}", run_id=run_id) from error
    fault = _fault_of(run_id, run)
    if fault:
        raise InvalidInput(fault, run_id=run_id)
    return run


def _invalid(error: ValidationError, *within: str, run_id: str | None = None) -> InvalidInput:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, (*within, *first["loc"])))
    return InvalidInput(f"{place}: {first['msg']}", run_id=run_id)


def _fault_of(run_id: str, run: RunInput) -> str | None:
    if not AGENT_ID.match(run.agent_id):
        return opening_fault(run)  # the run id is derived from the agent id
    if not RUN_ID.match(run_id):
        return RUN_ID_RULE
    opening = None if run.conversation else messages_fault(run.messages)
    return opening_fault(run) or opening or labels_fault(run.labels)


def priority_of(tenant: str, priority: int | None) -> Priority:
    """Return a start's place among those of all tenants.

    Child runs, tool calls and later executions inherit it. The server compares the numbers first; between
    starts of one number it takes tenants in turn, if `matching.enableFairness` is set.
    """
    if priority is not None and not HIGHEST_PRIORITY <= priority <= LOWEST_PRIORITY:
        raise InvalidInput(
            f"priority is {HIGHEST_PRIORITY}, the highest, to {LOWEST_PRIORITY}, not {priority}"
        )
    return Priority(priority_key=priority, fairness_key=tenant_part(tenant) or None)


async def start_workflow(
    client: Client,
    run_id: str,
    run: RunInput,
    task_queue: str,
    *,
    argument: Any,
    update: tuple[str, Any] | None = None,
    message: str = "",
    priority: int | None = None,
) -> Any:
    """Start the workflow of a run.

    Raises:
        InvalidInput: The keys of its tenant were erased, its id says another tenant than its own, or there is no such priority.
    """
    place = priority_of(run.tenant, priority)
    await admit_run(client.data_converter, run_id, run.tenant)
    introduction = summarize(run, message=message)
    options: dict[str, Any] = {
        "id": run_id,
        "task_queue": task_queue,
        "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
        "memo": introduction.memo,
        "static_summary": introduction.summary,
        "static_details": introduction.details,
        "priority": place,
    }
    start = client.start_workflow if update is None else partial(_start_with, client, *update)
    origin = run.forked_from.run_id if run.forked_from else ""
    attributes = search_attributes.attributes_of(
        run.agent_id, run.session_id, origin, run.tenant, viewers_of(run)
    )
    try:
        return await start(AGENT_RUN, argument, search_attributes=attributes, **options)
    except BaseException:
        forget_run(client.data_converter, run_id)  # the run that has the id may be another tenant's
        raise


async def _start_with(
    client: Client, name: str, value: Any, workflow: str, argument: Any, **options: Any
) -> Any:
    operation: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
        workflow, argument, id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING, **options
    )
    try:
        return await client.execute_update_with_start_workflow(  # pyright: ignore[reportUnknownMemberType]
            name, value, start_workflow_operation=operation
        )
    except (RPCError, WorkflowAlreadyStartedError, WorkflowUpdateRPCTimeoutOrCancelledError):
        # The error is in the operation too, and asyncio logs such an error if no code has read it.
        with contextlib.suppress(Exception):
            await operation.workflow_handle()
        raise


_NOT_ASKED = {"listed", "principal", "visibility"}
"""Fields of an input that the request does not choose."""


async def is_start_of(client: Client, run_id: str, run: RunInput) -> bool:
    """Return whether a run began with this input.

    If its first execution is deleted, return whether it is a run of the agent and the session.
    """
    began = await _beginning(client, run_id)
    if isinstance(began, Continuation):
        opening = began.state.opening
        return (opening.agent_id, opening.session_id) == (run.agent_id, run.session_id)
    return began is not None and _fields_of(began) == _fields_of(run)


async def messages_at_start(client: Client, run_id: str) -> list[Message] | None:
    """Return the messages that a run was started with, or None.

    None if its first execution is deleted, or cannot be read.
    """
    began = await _beginning(client, run_id)
    return began.messages if isinstance(began, RunInput) else None


async def _beginning(client: Client, run_id: str) -> RunInput | Continuation | None:
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
            raise translate_error(error, run_id) from error
    return None


def _fields_of(run: RunInput) -> dict[str, Any]:
    same = run.model_copy(update={"messages": [comparable(message) for message in run.messages]})
    return same.model_dump(mode="json", exclude=_NOT_ASKED)
