"""Search attributes of a namespace: a worker adds them, or says how to add them and does not start."""

import uuid

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest, ListSearchAttributesResponse
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.service import RPCError, RPCStatusCode

from sojourn import Agent, App, Client, InvalidInput, PlanResult, Worker
from sojourn.errors import DefinitionError
from sojourn.search_attributes import NAMES, register
from sojourn.testing.scripted import ScriptedPlanner


class Operator:
    """An operator service that lists and adds no search attributes unless a test lets it."""

    def __init__(self, *, lists: bool, adds: RPCStatusCode | None) -> None:
        self.lists, self.adds = lists, adds

    async def list_search_attributes(self, _request, *, timeout):
        del timeout
        if not self.lists:
            raise RPCError("not for you", RPCStatusCode.PERMISSION_DENIED, b"")
        return ListSearchAttributesResponse(custom_attributes=dict.fromkeys(NAMES[1:], 2))

    async def add_search_attributes(self, _request):
        if self.adds is not None:
            raise RPCError("not for you", self.adds, b"")


class Temporal:
    """A client with such an operator service."""

    namespace = "default"

    def __init__(self, **options) -> None:
        self.operator_service = Operator(**options)


async def test_a_worker_that_may_not_add_them_is_told_the_command():
    """The error names the command that adds them, and the server's reason."""
    with pytest.raises(DefinitionError, match=r"search-attribute create --name SojournAgent.*not for you"):
        await register(Temporal(lists=True, adds=RPCStatusCode.PERMISSION_DENIED))


async def test_what_another_worker_adds_at_the_same_time_is_there():
    """`ALREADY_EXISTS` is no fault."""
    assert await register(Temporal(lists=True, adds=RPCStatusCode.ALREADY_EXISTS)) is None


async def test_a_server_that_lists_none_may_have_them():
    """A denied listing is a reason for the log, and no refusal."""
    assert "not for you" in (await register(Temporal(lists=False, adds=None)) or "")


async def test_a_worker_adds_them_to_its_namespace(temporal_address, until):
    """A start before the first worker says how to add them; a worker adds them, and runs complete."""
    name = f"bare-{uuid.uuid4().hex[:8]}"
    client = await Client.connect(temporal_address, namespace=name, task_queue="q")
    kept = Duration(seconds=86_400)
    await client.temporal.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=kept)
    )

    async def is_known() -> bool:
        try:
            await client.temporal.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace=name)
            )
        except RPCError:
            return False
        return True

    await until(is_known)

    async def is_refused() -> bool:
        try:
            await client.start("test.agent", "go", wait_for_worker=True)
        except InvalidInput as error:
            return "search-attribute create" in str(error)
        except Exception:
            return False
        return False

    await until(is_refused)
    app = App(agents=[Agent("test.agent", planner=ScriptedPlanner([PlanResult.final("done")]))])
    async with Worker(app, client):

        async def is_done() -> bool:
            try:
                run = await client.start("test.agent", "go", session_id="s", wait_for_worker=True)
            except InvalidInput:
                return False  # the frontend caches what a namespace has
            return (await run.result()).text == "done"

        await until(is_done)
