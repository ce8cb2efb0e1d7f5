"""A model that copies what it reads, in runs: nothing is executed with values that nobody gave, and the run ends well."""

import json
import re
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import Field

from sojourn import Agent, App, ModelPlanner, PlanResult, RunPolicy, ToolRequest, Toolset
from sojourn.repair import RepairingPlanner
from sojourn.testing.providers import Completion, ProviderServer, Request, ToolCall, calls, says

REFUND, FIND, SEARCH = "desk__orders__refund", "desk__orders__find", "desk__orders__search"
EXAMPLE = {"order_id": "SO-10023", "amount": 12.5, "reason": "damaged"}
BAD = {"order_id": "12", "amount": 12.5, "reason": "damaged"}
OrderId = Annotated[str, Field(pattern=r"^SO-[0-9]{5}$")]


class Desk:
    """The tools of a desk, and what they have done."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.tools = Toolset("desk.orders")

        @self.tools.tool(examples=[EXAMPLE])
        async def refund(order_id: OrderId, amount: float, reason: str) -> str:
            """Refund a part of an order."""
            self.done.append((order_id, amount, reason))
            return f"refunded {amount} of {order_id}"

        @self.tools.tool
        async def move(source: str, target: str) -> str:
            """Move a file."""
            self.done.append((source, target))
            return "moved"

        @self.tools.tool(read_only=True)
        async def find(order_id: OrderId) -> str:
            """Find an order."""
            return f"{order_id} is shipped"

        @self.tools.tool(read_only=True)
        async def search(status: str) -> list[str]:
            """Search orders by status."""
            return [status]

        self.refund, self.move = refund, move

    def app(self, planner: Any, **policy: Any) -> App:
        """An app with one agent."""
        agent = Agent("desk.clerk", planner=planner, uses=[self.tools], policy=RunPolicy(**policy))
        return App(agents=[agent])


@pytest.fixture
def desk() -> Desk:
    return Desk()


def a(tool: str, arguments: dict[str, Any]) -> Completion:
    return calls(ToolCall(name=tool, arguments=json.dumps(arguments)))


def copier(tool: str, first: dict[str, Any]) -> Callable[[Request], Completion]:
    """A model that makes a call, and then sends word for word the arguments that it reads."""

    def decide(request: Request) -> Completion:
        answers = [result.text for result in request.tool_results]
        if not answers:
            return a(tool, first)
        shown = re.search(r"^arguments (?:that fit|to complete): (.*)$", answers[-1], re.MULTILINE)
        if "failed: " in answers[-1] and shown and request.tools:
            return calls(ToolCall(name=tool, arguments=shown[1]))
        return says(answers[-1][:40])

    return decide


async def test_a_model_that_copies_its_hints_refunds_nothing(serve, standin: ProviderServer, desk: Desk):
    """The copied template is refused, and the run ends with an answer."""
    standin.script = copier(REFUND, BAD)
    client = await serve(desk.app(ModelPlanner(standin.model("anthropic"))))
    output = await client.execute("desk.clerk", "Refund everything of order 12")
    assert desk.done == []
    assert output.reason == "answered"
    assert "SO-10023" not in json.dumps([request.body for request in standin.requests])


async def test_an_exact_repair_is_copied_and_executed(serve, standin: ProviderServer, desk: Desk):
    """Where the example is what was sent, in another form, a copy of it is right."""
    standin.script = copier(REFUND, {**BAD, "order_id": "so-20981"})
    client = await serve(desk.app(ModelPlanner(standin.model("anthropic"))))
    output = await client.execute("desk.clerk", "Refund 12.5 of so-20981, it is damaged")
    assert desk.done == [("SO-20981", 12.5, "damaged")]
    assert output.reason == "answered"


async def test_a_model_that_makes_up_the_examples_values_is_asked_first(
    serve, standin: ProviderServer, desk: Desk
):
    """A placeholder, and the author's values that no one has told, are refused before the tool runs; those of a person are not."""
    standin.script = [
        a("desk__orders__move", {}),
        a("desk__orders__move", {"source": "<source>", "target": "<target>"}),
        a(REFUND, BAD),
        a(REFUND, EXAMPLE),
        says("Which order do you mean?"),
        a(REFUND, EXAMPLE),
        says("Done."),
    ]
    planner = ModelPlanner(standin.model("anthropic"))
    client = await serve(desk.app(planner, max_consecutive_failed_tool_calls=None))
    session = client.session("desk.clerk", "desk-1")
    assert (
        await (await session.send("Refund everything of order 12")).result()
    ).text == "Which order do you mean?"
    assert desk.done == []
    answers = [result.text for result in standin.requests[4].tool_results]
    assert "holds the value of an example" in answers[1]
    assert "holds the value of an example" in answers[3]
    assert (await (await session.send("SO-10023")).result()).text == "Done."
    assert desk.done == [("SO-10023", 12.5, "damaged")]


async def test_the_same_call_again_is_executed(serve, standin: ProviderServer, desk: Desk):
    """The net refuses a value once: a model may know it from its instructions."""
    standin.script = [a(REFUND, BAD), a(REFUND, EXAMPLE), a(REFUND, EXAMPLE), says("Done.")]
    planner = ModelPlanner(standin.model("anthropic"), instructions="Test with order SO-10023.")
    client = await serve(desk.app(planner))
    assert (await client.execute("desk.clerk", "Refund the test order")).text == "Done."
    assert desk.done == [("SO-10023", 12.5, "damaged")]


async def test_a_wrong_tool_is_left(serve, standin: ProviderServer, desk: Desk):
    """A hint for an unknown field names the tool that has it, and asks for no other call of the wrong one."""
    standin.script = [
        a(SEARCH, {"order_id": "SO-10452"}),
        a(FIND, {"order_id": "SO-10452"}),
        says("It is shipped."),
    ]
    client = await serve(desk.app(ModelPlanner(standin.model("anthropic"))))
    output = await client.execute("desk.clerk", "Where is my order SO-10452?")
    assert (output.text, output.reason) == ("It is shipped.", "answered")
    second = standin.requests[1]
    assert "Correct the call of" not in json.dumps(second.body)
    assert f"`order_id` is an argument of {FIND}" in json.dumps(second.body)


async def test_the_second_identical_refusal_shows_the_schema(serve, standin: ProviderServer, desk: Desk):
    """After it the model reads the whole schema and the question for the person, and may call any tool."""
    standin.script = [a(REFUND, BAD), a(REFUND, BAD), says("Which order?")]
    client = await serve(desk.app(ModelPlanner(standin.model("anthropic")), interrupts_allowed=True))
    await client.execute("desk.clerk", "Refund order 12")
    second, third = standin.requests[1:]
    correct = f"Correct the call of {REFUND} as its answer says"
    assert correct in json.dumps(second.body)
    assert correct not in json.dumps(third.body)
    read = json.dumps(third.body)
    assert "was refused for the same fault again. The schema of its arguments" in read
    assert "ask the person: What should `order_id` be?" in read
    assert "was refused for the same fault again" not in json.dumps(second.body)


async def test_the_repairing_planner_asks_for_what_nobody_gave(serve, status_when, desk: Desk):
    """A call whose example is invented is never made; the person's value is used."""

    async def plan(turn: Any) -> PlanResult:
        if turn.tool_results:
            return PlanResult.final(str(turn.tool_results[-1].error or turn.tool_results[-1].result))
        return PlanResult.calls(ToolRequest(name=desk.refund.id, payload=BAD))

    client = await serve(desk.app(RepairingPlanner(plan), interrupts_allowed=True))
    run = await client.start("desk.clerk", "Refund everything of order 12")
    [question] = (await status_when(run, lambda status: status.awaits)).awaits
    assert question.missing_fields == ["order_id"]
    assert desk.done == []
    await run.answer(question.id, "SO-20981")
    assert (await run.result()).text == "refunded 12.5 of SO-20981"
    assert desk.done == [("SO-20981", 12.5, "damaged")]


class Scripted:
    """A planner in code that makes a bad call of `refund`, and then the calls that it is given."""

    def __init__(self, desk: Desk, *payloads: dict[str, Any], reads_descriptions: bool = False) -> None:
        self.reads_descriptions = reads_descriptions
        self.plans = [PlanResult.calls(ToolRequest(name=desk.refund.id, payload=each)) for each in payloads]

    async def plan_start(self, turn: Any) -> PlanResult:
        """Return the next plan."""
        del turn
        return self.plans.pop(0) if self.plans else PlanResult.final("done")

    plan_resume = plan_start


async def test_the_values_of_code_are_no_copies(serve, desk: Desk):
    """A planner in code may have a value from anywhere; one that asks a model has the net if it says so."""
    codes = {each: Scripted(desk, BAD, EXAMPLE, reads_descriptions=each) for each in (False, True)}
    for reads, planner in codes.items():
        client = await serve(desk.app(planner))
        await client.execute("desk.clerk", "Refund everything of order 12")
        assert bool(desk.done) is not reads
        desk.done.clear()


async def test_a_default_of_the_repairing_planner_is_no_copy(serve, desk: Desk):
    """Its defaults are values that somebody chose, even where the author's example has the same."""
    lacking = {"amount": 12.5, "reason": "damaged"}
    inner = Scripted(desk, lacking, reads_descriptions=True)
    planner = RepairingPlanner(inner, defaults={desk.refund.id: {"order_id": "SO-10023"}})
    client = await serve(desk.app(planner))
    assert (await client.execute("desk.clerk", "Refund 12.5, it was damaged")).text == "done"
    assert desk.done == [("SO-10023", 12.5, "damaged")]
