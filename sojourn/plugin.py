"""SojournPlugin: an app served by a Temporal worker of one's own, beside one's own workflows."""

import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from temporalio.converter import DataConverter
from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from sojourn.authoring.app import App
from sojourn.converter.data_converter import data_converter
from sojourn.converter.guarded import GuardedDataConverter
from sojourn.logs.activities import ActivityLogs
from sojourn.logs.configure import lead_to_logging
from sojourn.serving.quiet_end import end_quietly
from sojourn.serving.registration import Registered
from sojourn.telemetry import interceptors
from sojourn.worker import shell

__all__ = ["SojournPlugin"]

PASSED_THROUGH = ("sojourn", "workflows", "pydantic", "pydantic_core", "jsonschema", "re2", "structlog")
"""Modules that a sandbox does not load anew for each run; every stored history is replayed in a strict one by the tests."""


class SojournPlugin(SimplePlugin):
    """Adds an app's runs to a worker that a program makes itself.

    ```python
    client = await temporalio.client.Client.connect("localhost:7233", plugins=[SojournPlugin(app)])
    worker = temporalio.worker.Worker(client, task_queue="mine", workflows=[MyWorkflow])
    ```

    The client gets `sojourn.data_converter`, with the codec and storage of its own; a worker made of it gets the workflow `AgentRun`, the
    activities, and the app's MCP servers for as long as it runs. Its own workflows may start
    runs as child workflows: `execute_child_workflow("AgentRun", RunInput(...))`.

    Args:
        app: What to serve.
    """

    def __init__(self, app: App) -> None:
        end_quietly()
        lead_to_logging()
        found = shell(app)
        self._registered = Registered()

        @asynccontextmanager
        async def opened() -> AsyncGenerator[None]:
            await app.open()
            try:
                yield
            finally:
                await app.close()

        super().__init__(  # pyright: ignore[reportUnknownMemberType] - the SDK leaves out types
            "sojourn.SojournPlugin",
            data_converter=_with_ours,
            interceptors=[*interceptors(), ActivityLogs(), self._registered],
            workflows=found.workflows,
            activities=found.activities,
            workflow_runner=_with_ours_let_through,
            run_context=opened,
        )

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        """Look after the search attributes meanwhile."""
        async with self._registered.watching(worker.client):
            await super().run_worker(worker, next)


def _with_ours(given: DataConverter | None) -> DataConverter:
    """Our converter, with the codec, storage and failures of the client's own."""
    if given is None or isinstance(given, GuardedDataConverter):
        return given or data_converter
    return dataclasses.replace(
        data_converter,
        payload_codec=given.payload_codec,
        external_storage=given.external_storage,
        failure_converter_class=given.failure_converter_class,
    )


def _with_ours_let_through(runner: WorkflowRunner | None) -> WorkflowRunner:
    if runner is None:
        runner = SandboxedWorkflowRunner()
    if not isinstance(runner, SandboxedWorkflowRunner):
        return runner
    restrictions = runner.restrictions.with_passthrough_modules(*PASSED_THROUGH)
    return dataclasses.replace(runner, restrictions=restrictions)
