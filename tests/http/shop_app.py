"""An app whose runs do what the first word of their message names, for tests of the HTTP service."""

import asyncio
from datetime import timedelta

from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    PlanResult,
    RunPolicy,
    Toolset,
    Turn,
    WithArtifacts,
)
from sojourn.contracts.message import Message, TextPart, ThinkingPart, ToolCallPart
from sojourn.live import current_deltas


class Weigh(BaseModel):
    """What to weigh."""

    disk: str


class Question(BaseModel):
    """What to ask the helper."""

    text: str


tools = Toolset("shop.tools")
gate = asyncio.Event()
"""What a planner waits for between two pieces of its text."""


@tools.tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tools.tool(title="Wipe a disk", destructive=True, confirmation="Wipe disk {disk}?")
async def wipe(disk: str) -> str:
    """Destroy."""
    return f"wiped {disk}"


@tools.tool(destructive=True)
async def count(disk: int) -> int:
    """Count."""
    return disk


@tools.tool
async def hang() -> str:
    """Run for ever."""
    await asyncio.Event().wait()
    return ""


@tools.tool
async def drop() -> str:
    """Fail."""
    raise RuntimeError("it broke")


@tools.tool(artifacts={"curve": list[int]})
async def measure(count: int) -> WithArtifacts[str]:
    """Measure."""
    return WithArtifacts("measured", curve=list(range(count)))


outside = Toolset("shop.outside", external=True)
weigh = outside.declare("weigh", args=Weigh, result=float)


def interviewed(turn: Turn) -> PlanResult:
    """Ask as often as the first message says, then answer with what was said."""
    first, *said = [message.text for message in turn.messages[turn.turn_start :] if message.role == "user"]
    if len(said) < int(first.split()[-1]):
        return PlanResult.ask(AwaitClarification(question=f"Question {len(said) + 1}?"))
    return PlanResult.final(" ".join(said))


async def help_out(turn: Turn) -> PlanResult:
    """Ask; or add some numbers; then answer."""
    text = turn.messages[0].text
    if text.startswith("interview"):
        return interviewed(turn)
    if text == "wipe":
        asks = not turn.tool_results
        return PlanResult.calls(wipe.call(disk="b")) if asks else PlanResult.final("wiped below")
    if text.startswith("add"):
        if len(turn.tool_results) == 0 and turn.messages[-1].role == "user":
            return PlanResult.calls(*[add.call(a=n, b=n) for n in range(int(text.split()[1]))])
        return PlanResult.final("added")
    if turn.run.turn_id.endswith("1"):
        return PlanResult.ask(AwaitClarification(question="Below: which one?"))
    return PlanResult.final(turn.messages[-1].text)


helper = Agent("shop.helper", planner=help_out, uses=[tools], policy=RunPolicy(interrupts_allowed=True))
helping = helper.export("shop.helping", tools=[AgentTool("ask", args=Question, user="{text}")])


def ask(text: str):
    """A call of the helper."""
    return helping.tools["ask"].call(Question(text=text))


CALLS = {
    "wipe": lambda _: [wipe.call(disk="a")],
    "wipe_and_add": lambda _: [wipe.call(disk="a"), add.call(a=1, b=2)],
    "count": lambda n: [count.call(disk=n)],
    "weigh": lambda _: [weigh.call(Weigh(disk="a"))],
    "weigh_both": lambda _: [weigh.call(Weigh(disk="a")), weigh.call(Weigh(disk="b"))],
    "wipe_and_weigh": lambda _: [wipe.call(disk="a"), weigh.call(Weigh(disk="a"))],
    "drop": lambda _: [drop.call()],
    "hang": lambda _: [hang.call()],
    "measure": lambda _: [measure.call(count=3)],
    "below": lambda _: [ask("Which?")],
    "both_below": lambda _: [ask("Which?"), ask("Which?")],
    "wipe_below": lambda _: [ask("wipe")],
    "interview_below": lambda n: [ask(f"interview {n}")],
    "tree": lambda n: [ask("add 3") for _ in range(n)],
}


def erased(word: str, rest: str) -> PlanResult:
    """Wipe the disk of this name; or say this, and wipe `a`."""
    call = wipe.call(disk=rest if word == "erase" else "a").model_copy(update={"tool_call_id": "call"})
    asked = ToolCallPart(type="tool_call", tool_call_id="call", name=call.name, payload=call.payload)
    said = [TextPart(type="text", text=rest)] if word == "tell" else []
    return PlanResult(tool_calls=[call], message=Message(role="assistant", parts=[*said, asked]))


async def plan(turn: Turn) -> PlanResult:  # noqa: PLR0912 - one line a word
    """Do what the first word of the first message of the turn names."""
    first = turn.messages[turn.turn_start] if turn.turn_start else turn.messages[0]
    word, _, rest = first.text.partition(" ")
    number = int(rest) if rest.isdigit() else 1
    present = turn.messages[turn.turn_start :]
    rounds = sum(message.role == "tool" for message in present)
    if word == "fail":
        return PlanResult.fail("the shop is closed")
    if word == "interview":
        return interviewed(turn)
    if word == "raise":
        raise TypeError("there is no such shelf")
    if word in ("ask", "") and len([message for message in present if message.role == "user"]) == 1:
        return PlanResult.ask(AwaitClarification(question="Which one?"))
    if word == "form" and len([message for message in present if message.role == "user"]) == 1:
        wanted = {"missing_fields": ["a", "b"], "restrict_to_tool": add.id}
        return PlanResult.ask(AwaitClarification(question="What to add?", **wanted))
    if word == "sleep":
        return PlanResult.wait(timedelta(days=1))
    if word == "rounds" and rounds < number:
        return PlanResult.calls(add.call(a=rounds, b=1), add.call(a=rounds, b=2))
    if word == "talk":
        while not (deltas := current_deltas()) and not gate.is_set():
            await asyncio.sleep(0.01)  # the run has started, and who starts it follows it a moment later
        if deltas:
            await deltas.text("The site is ")
            await gate.wait()
            await deltas.text("dark.")
        return PlanResult.final("The site is dark.")
    if word == "think":
        thinking = ThinkingPart(type="thinking", text="The site is s-3.")
        return PlanResult(
            final_response=Message(role="assistant", parts=[thinking, TextPart(type="text", text="s-3")])
        )
    if word in ("erase", "tell") and not rounds:
        return erased(word, rest)
    if word == "twice" and rounds < 2:
        return PlanResult.calls(*CALLS["wipe"](number))
    if word in CALLS and not rounds:
        return PlanResult.calls(*CALLS[word](number))
    if turn.tool_results:
        return PlanResult.final(" ".join(str(result.result) for result in turn.tool_results))
    return PlanResult.final(present[-1].text)


clerk = Agent(
    "shop.clerk",
    description="Does what the first word says.",
    planner=plan,
    uses=[tools, outside, helping],
    policy=RunPolicy(interrupts_allowed=True, max_tool_rounds=200, max_tool_calls=1_000),
)
app = App(agents=[clerk, helper], name="shop")
