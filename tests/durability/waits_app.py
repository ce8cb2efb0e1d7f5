"""An app whose runs wait once, each for an answer of its own, and end with that answer."""

from durable_app import desk, of, recorded, summary, write_answer
from pydantic import BaseModel

from sojourn import (
    Agent,
    App,
    AwaitClarification,
    PlanResult,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    Turn,
)
from sojourn.testing import ScriptedPlanner

ASKS = RunPolicy(interrupts_allowed=True)

till = Toolset("waits.till")
shop = Toolset("waits.shop", external=True)


@till.tool(destructive=True)
async def pay(slip: str, meta: ToolCallMeta) -> str:
    """Pay a slip, once a person has approved it."""
    async with recorded(f"pay-{slip}", **of(meta)):
        return f"paid {slip}"


class Fetch(BaseModel):
    """What to fetch."""

    slip: str


class Fetched(BaseModel):
    """What was there."""

    count: int


shop.declare("fetch", args=Fetch, result=Fetched, description="Fetch what a slip says.")


def pay_slip(turn: Turn) -> PlanResult:
    """Call `pay` with the first message."""
    return PlanResult.calls(pay.call(slip=turn.messages[0].text))


def fetch_slip(turn: Turn) -> PlanResult:
    """Call `fetch` with the first message."""
    call = ToolRequest(name="waits.shop.fetch", payload={"slip": turn.messages[0].text}, tool_call_id="fetch")
    return PlanResult.calls(call)


asker = Agent(
    "waits.asker",
    planner=ScriptedPlanner(
        [PlanResult.ask(AwaitClarification(id="which", question="Which note?")), write_answer, summary]
    ),
    uses=[desk],
    policy=ASKS,
)
payer = Agent("waits.payer", planner=ScriptedPlanner([pay_slip, summary]), uses=[till], policy=ASKS)
fetcher = Agent("waits.fetcher", planner=ScriptedPlanner([fetch_slip, summary]), uses=[shop], policy=ASKS)

app = App(agents=[asker, payer, fetcher])
