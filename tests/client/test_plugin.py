"""`SojournPlugin`: runs beside a program's own workflows, on a worker that the program makes."""

import uuid

import temporalio.client
import temporalio.worker
from temporalio import workflow

from sojourn import (
    Agent,
    App,
    Client,
    Message,
    PlanResult,
    RunOutput,
    SojournPlugin,
    ToolRequest,
    Toolset,
)
from sojourn.contracts import RunInput
from sojourn.testing.scripted import ScriptedPlanner
from tests.crypto.ring import make_ring


@workflow.defn
class Nightly:
    """A workflow of the program, in the sandbox, which starts a run as a child workflow."""

    @workflow.run
    async def run(self, question: str) -> str:
        """Ask the agent."""
        given = RunInput(agent_id="test.agent", messages=[Message.user(question)])
        output = await workflow.execute_child_workflow(
            "AgentRun", given, id=f"{workflow.info().workflow_id}-ask", result_type=RunOutput
        )
        return output.text


async def test_a_worker_of_ones_own_serves_runs(temporal_address):
    """The program's workflows start runs as child workflows, and clients start runs on its task queue."""
    tools = Toolset("test.tools")

    @tools.tool
    async def note(text: str) -> str:
        """Succeed."""
        return text

    calls = PlanResult.calls(ToolRequest(name=note.id, payload={"text": "a"}))
    app = App(
        agents=[Agent("test.agent", planner=ScriptedPlanner([calls, PlanResult.final("done")]), uses=[tools])]
    )
    queue = f"q-{uuid.uuid4().hex[:8]}"
    temporal = await temporalio.client.Client.connect(temporal_address, plugins=[SojournPlugin(app)])
    async with temporalio.worker.Worker(temporal, task_queue=queue, workflows=[Nightly]):
        name = f"nightly-{uuid.uuid4().hex[:8]}"
        assert await temporal.execute_workflow(Nightly.run, "go", id=name, task_queue=queue) == "done"
        client = Client(temporal, task_queue=queue)
        assert (await client.execute("test.agent", "go")).text == "done"
        ends = [
            event.tool_name
            async for event in client.get_run(f"{name}-ask").events()
            if event.type == "tool_end"
        ]
    assert ends == [note.id]


async def test_a_client_without_a_codec_gets_that_of_the_settings(temporal_address, tmp_path, monkeypatch):
    """A worker of one's own serves encrypted runs by SOJOURN_KEYRING alone."""
    make_ring(tmp_path / "ring")
    monkeypatch.setenv("SOJOURN_KEYRING", str(tmp_path / "ring"))
    app = App(agents=[Agent("test.agent", planner=ScriptedPlanner([PlanResult.final("done")]))])
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    temporal = await temporalio.client.Client.connect(temporal_address, plugins=[SojournPlugin(app)])
    async with temporalio.worker.Worker(temporal, task_queue=client.task_queue or ""):
        turn = await client.session("test.agent", uuid.uuid4().hex[:8]).send("go")
        assert (await turn.result()).text == "done"
