"""The benchmark's work by pydantic-ai's own Temporal integration, with the model of `bench.fake_model` and the floor's worker."""

from typing import Any

import temporalio.client
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.durable_exec.temporal import PydanticAIPlugin, PydanticAIWorkflow, TemporalDurability
from temporalio import workflow
from temporalio.client import WorkflowHandle
from temporalio.worker import Worker
from temporalio.workflow import ActivityConfig

from bench import load
from bench.fake_model import model
from bench.floor import TIMEOUT, tuned

__all__ = ["connect", "start", "worker"]

TASK_QUEUE = "bench-pydantic-ai"

agent = Agent(
    model,
    name="bench",
    capabilities=[TemporalDurability(activity_config=ActivityConfig(start_to_close_timeout=TIMEOUT))],
)


@agent.tool_plain
async def echo(text: str) -> str:
    """Return 200 bytes."""
    return load.result(text)


@workflow.defn(sandboxed=False)
class PydanticAIRun(PydanticAIWorkflow):
    """The workflow that runs the agent."""

    __pydantic_ai_agents__ = [agent]  # noqa: RUF012 - as its documentation writes it

    @workflow.run
    async def run(self, prompt: str) -> str:
        """Run the agent, without the library's limit of 50 requests."""
        return (await agent.run(prompt, usage_limits=UsageLimits(request_limit=None))).output


async def connect(address: str) -> temporalio.client.Client:
    """A client with the library's plugin, which brings its converter and registers the agent's activities."""
    return await temporalio.client.Client.connect(address, plugins=[PydanticAIPlugin()])


async def start(client: temporalio.client.Client, run_id: str, calls: int) -> WorkflowHandle[Any, Any]:
    """Start a run of `calls` calls."""
    return await client.start_workflow(PydanticAIRun.run, str(calls), id=run_id, task_queue=TASK_QUEUE)


def worker(client: temporalio.client.Client) -> Worker:
    """The worker of this contender."""
    return tuned(client, TASK_QUEUE, [PydanticAIRun], [])
