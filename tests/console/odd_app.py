"""An app all of whose texts are hostile: what its agents say, ask, fail with and call, and what its tools say of themselves."""

from typing import Any

from pydantic import Field, create_model

from sojourn import Agent, App, AwaitClarification, PlanResult, RunPolicy, ToolFailed, Toolset, Turn
from sojourn.contracts.ids import TOOL_NAME
from tests.console.hostile import TEXTS

__all__ = ["FIELDS", "app", "does"]

FIELDS = 12
"""Fields of a tool, each with a text of its own."""

DEEDS = ("answer", "ask", "fail", "call", "stumble")

said = Toolset("odd.tools", description=TEXTS[0])
declared = Toolset("odd.declared", description=TEXTS[-1])


async def execute(_meta: Any, call: Any) -> Any:
    """Nobody calls them."""
    raise ToolFailed(str(call))


def does(text: str) -> str:
    """What a run does that is asked this."""
    return DEEDS[TEXTS.index(text) % len(DEEDS)] if text in TEXTS else "answer"


@said.tool
async def say(text: str) -> dict[str, Any]:
    """Return it."""
    return {"said": text, text[:100]: [text]}


@said.tool
async def stumble(text: str) -> str:
    """Fail with it."""
    raise ToolFailed(text)


def _declare(number: int) -> None:
    texts = TEXTS[number * FIELDS : (number + 1) * FIELDS]
    fields: dict[str, Any] = {
        f"field_{place}": (str, Field(default=text[:200], description=text, alias=text[:80] or None))
        for place, text in enumerate(texts)
    }
    first = texts[0]
    declared.declare(
        f"tool_{number}",
        args=create_model(f"Args{number}", **fields),
        result=str,
        description=first,
        title=texts[-1][:100],
        confirmation=None if "{" in first or "}" in first else first[:200] or None,
        tags=[first[:50]],
    )


for each in range(len(TEXTS) // FIELDS):
    _declare(each)

assert all(TOOL_NAME.match(name) for name in declared.tools)


async def plan(turn: Turn) -> PlanResult:
    """Do with the text what its place says."""
    text = turn.messages[0].text
    deed = does(text)
    if turn.tool_results or turn.messages[-1].role != "user" or len(turn.messages) > 1:
        return PlanResult.final(text)
    if deed == "ask":
        return PlanResult.ask(AwaitClarification(question=text))
    if deed == "fail":
        return PlanResult.fail(text)
    if deed == "call":
        return PlanResult.calls(say.call(text=text))
    if deed == "stumble":
        return PlanResult.calls(stumble.call(text=text))
    return PlanResult.final(text)


app = App(
    agents=[
        Agent(
            "odd.agent",
            planner=plan,
            uses=[said, declared],
            description=" ".join(TEXTS[:60]),
            policy=RunPolicy(interrupts_allowed=True, denied_tags=TEXTS[:5]),
        ),
        *(
            Agent(f"odd.agent-{number}", planner=plan, description=text)
            for number, text in enumerate(TEXTS[::16])
        ),
    ],
    executors={declared: execute},
    name="odd",
)
