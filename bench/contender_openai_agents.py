"""The benchmark's work by the OpenAI Agents SDK with Temporal's plugin and a model that decides like `bench.fake_model`."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
# Only `make bench-peers` installs these libraries.

from typing import Any

import temporalio.client
from agents import Agent, Model, ModelResponse, RunConfig, Runner
from temporalio import activity, workflow
from temporalio.client import WorkflowHandle
from temporalio.openai_agents import ModelActivityParameters, OpenAIAgentsPlugin
from temporalio.openai_agents.testing import ResponseBuilders, TestModelProvider
from temporalio.openai_agents.workflow import activity_as_tool
from temporalio.worker import Worker

from bench import load
from bench.fake_model import made_of
from bench.floor import TIMEOUT, tuned

__all__ = ["connect", "start", "worker"]

TASK_QUEUE = "bench-openai-agents"


class FakeModel(Model):
    """`bench.fake_model` as a model of this SDK."""

    async def get_response(self, system_instructions, input, *given, **more) -> ModelResponse:  # noqa: ARG002
        """The next call, or the answer once all calls were made."""
        items = [{"content": input}] if isinstance(input, str) else input
        made = made_of(len(items))
        if made == int(items[0]["content"]):
            return ResponseBuilders.output_message("done")
        return ResponseBuilders.tool_call(load.arguments(made), "echo", call_id=load.call_id(made))

    def stream_response(self, *given, **more):
        # The SDK's abstract class requires this method, and only `Runner.run_streamed` calls it, which nothing here does.
        raise NotImplementedError


@activity.defn
async def echo(text: str) -> str:
    """Return 200 bytes."""
    return load.result(text)


@workflow.defn(sandboxed=False)
class OpenAIAgentsRun:
    """The workflow that runs the agent."""

    @workflow.run
    async def run(self, prompt: str) -> str:
        """Run the agent, without the SDK's limit of 10 turns and without its traces to OpenAI."""
        agent = Agent(name="bench", tools=[activity_as_tool(echo, start_to_close_timeout=TIMEOUT)])
        result = await Runner.run(
            agent, prompt, max_turns=10_000, run_config=RunConfig(tracing_disabled=True)
        )
        return result.final_output


async def connect(address: str) -> temporalio.client.Client:
    """A client with the SDK's plugin, which brings its converter and the activity that requests the model."""
    plugin = OpenAIAgentsPlugin(
        model_params=ModelActivityParameters(start_to_close_timeout=TIMEOUT),
        model_provider=TestModelProvider(FakeModel()),
        add_temporal_spans=False,
    )
    return await temporalio.client.Client.connect(address, plugins=[plugin])


async def start(client: temporalio.client.Client, run_id: str, calls: int) -> WorkflowHandle[Any, Any]:
    """Start a run of `calls` calls."""
    return await client.start_workflow(OpenAIAgentsRun.run, str(calls), id=run_id, task_queue=TASK_QUEUE)


def worker(client: temporalio.client.Client) -> Worker:
    """The worker of this contender."""
    return tuned(client, TASK_QUEUE, [OpenAIAgentsRun], [echo])
