"""Serve an app with your own Temporal worker, together with other workflows."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from temporalio.converter import DataConverter
from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from sojourn import search_attributes
from sojourn.authoring.app import App
from sojourn.connection.connect import converter_with
from sojourn.converter.data_converter import GuardedDataConverter
from sojourn.errors import DefinitionError
from sojourn.logs.activities import ActivityLogs
from sojourn.logs.configure import lead_to_logging
from sojourn.serving.hardening.loop_guard import end_quietly
from sojourn.serving.hardening.loop_watch import stalls_of
from sojourn.serving.hardening.workflow_tasks import by_whole_tasks, serve_by_whole_tasks
from sojourn.serving.run_cache import PresentRuns
from sojourn.telemetry import interceptors
from sojourn.worker import shell

__all__ = ["SojournPlugin"]

PASSED_THROUGH = ("sojourn", "workflows", "pydantic", "pydantic_core", "jsonschema", "re2", "structlog")
"""Modules that the sandbox does not import again for each run.

That is safe: the tests replay every stored history in a sandbox that imports `workflows` and `sojourn.core` itself.
"""


class SojournPlugin(SimplePlugin):
    """Makes a Temporal client, and the workers of that client, serve an app.

    ```python
    client = await temporalio.client.Client.connect("localhost:7233", plugins=[SojournPlugin(app)])
    worker = temporalio.worker.Worker(client, task_queue="mine", workflows=[MyWorkflow])
    ```

    The client gets `sojourn.data_converter`, and keeps its codec and storage; a client without a codec gets the one of
    SOJOURN_KEYRING or SOJOURN_CODEC. A worker of this client gets the
    workflow `AgentRun` and the activities; the app's MCP servers are connected while the worker runs. Its other workflows
    may start runs as child workflows: `execute_child_workflow("AgentRun", RunInput(...))`.

    Args:
        app: The app to serve.

    Raises:
        DefinitionError: The app has quotas of tenants, which only `sojourn.Worker` keeps.
    """

    def __init__(self, app: App) -> None:
        end_quietly()
        lead_to_logging()
        if app.tenants is not None:
            raise DefinitionError("quotas of tenants need a sojourn.Worker, which serves their ledgers too")
        definitions = shell(app)
        self._present = PresentRuns()

        @asynccontextmanager
        async def open_app() -> AsyncGenerator[None]:
            await app.open()
            try:
                yield
            finally:
                await app.close()

        super().__init__(  # pyright: ignore[reportUnknownMemberType] - the SDK leaves out types
            "sojourn.SojournPlugin",
            data_converter=_converter,
            interceptors=[*interceptors(), ActivityLogs(), self._present],
            workflows=definitions.workflows,
            activities=definitions.activities,
            workflow_runner=_with_passthrough,
            run_context=open_app,
        )

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        """Run the worker on a namespace with the search attributes.

        Raises:
            DefinitionError: The namespace lacks search attributes, and the worker may not add them.
        """
        serve_by_whole_tasks(worker)
        await search_attributes.register(worker.client)
        async with self._present.watching():
            with stalls_of(asyncio.get_running_loop()).watch():
                await super().run_worker(worker, next)


def _converter(clients: DataConverter | None) -> DataConverter:
    if clients is None or isinstance(clients, GuardedDataConverter):
        return clients or converter_with()
    ours = converter_with(clients.payload_codec)
    errors = clients if clients.payload_codec else ours
    return dataclasses.replace(
        ours,
        external_storage=clients.external_storage,
        failure_converter_class=errors.failure_converter_class,
    )


def _with_passthrough(runner: WorkflowRunner | None) -> WorkflowRunner:
    """Return the runner, by whole workflow tasks and with shared modules."""
    runner = by_whole_tasks(runner or SandboxedWorkflowRunner())
    if not isinstance(runner, SandboxedWorkflowRunner):
        return runner
    restrictions = runner.restrictions.with_passthrough_modules(*PASSED_THROUGH)
    return dataclasses.replace(runner, restrictions=restrictions)
