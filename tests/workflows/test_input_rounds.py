"""Input rounds: a call asks for a person's input twenty times at most."""

from sojourn import (
    InputForm,
    InputRequired,
    PlanResult,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    ToolResult,
    Toolset,
)
from sojourn.core.awaits.factories import MAX_INPUT_ROUNDS
from sojourn.testing import ScriptedPlanner

FORM = {"type": "object", "properties": {"hour": {"type": "integer"}}, "required": ["hour"]}


async def test_a_call_asks_for_input_twenty_times_at_most(serve, status_when):
    """Each answer runs the tool again; after the twentieth the call is answered with an error, and no wait opens."""
    tools, ran = Toolset("test.tools"), list[int]()

    @tools.tool
    async def nag(meta: ToolCallMeta) -> ToolResult:
        """Ask again, whatever the answer."""
        ran.append(meta.input.responses["k"]["content"]["hour"] if meta.input else -1)
        return ToolResult(
            input_required=InputRequired(forms=[InputForm(key="k", message="When?", form=FORM)])
        )

    planner = ScriptedPlanner(
        [PlanResult.calls(ToolRequest(name="test.tools.nag")), PlanResult.final("done")]
    )
    client = await serve(planner=planner, uses=(tools,), policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    seen: set[str] = set()
    for hour in range(20):
        (wait,) = (await status_when(run, lambda status: {one.id for one in status.awaits} - seen)).awaits
        seen.add(wait.id)
        await run.answer(wait.id, {"hour": hour})
    await run.result()
    (result,) = planner.turns[1].tool_results
    assert result.error
    assert result.error.code == "input_required"
    assert ran == [-1, *range(20)]
    assert MAX_INPUT_ROUNDS == 20
