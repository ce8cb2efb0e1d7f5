"""An app under siege: runs that are quick, runs with much in their histories, and answers that are costly to show."""

from sojourn import Agent, App, AwaitClarification, PlanResult, RunPolicy, Toolset, Turn

tools = Toolset("siege.tools")

CALLS = 10


@tools.tool(read_only=True)
async def fill(size: int) -> str:
    """Return a text of this size."""
    return "a" * size


async def echo(turn: Turn) -> PlanResult:
    """Answer with the message, or ask."""
    text = turn.messages[-1].text
    return PlanResult.ask(AwaitClarification(question="Which?")) if text == "ask" else PlanResult.final(text)


async def much(turn: Turn) -> PlanResult:
    """Call ten tools with 50 kB each, as often as the message says."""
    steps = sum(message.role == "assistant" for message in turn.messages)
    if steps == int(turn.messages[0].text):
        return PlanResult.final("done")
    return PlanResult.calls(*[fill.call(size=50_000) for _ in range(CALLS)])


app = App(
    agents=[
        Agent("siege.echo", planner=echo, policy=RunPolicy(interrupts_allowed=True)),
        Agent(
            "siege.much",
            planner=much,
            uses=[tools],
            policy=RunPolicy(max_tool_rounds=100, max_tool_calls=1_000),
        ),
    ]
)
