"""The example of a hint is accepted by its tool, whatever rules the tool has (SR-144)."""

from datetime import date
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, Field, field_validator, model_validator

from sojourn import (
    Agent,
    AgentTool,
    App,
    PlanResult,
    RetryHint,
    RunPolicy,
    ToolCallMeta,
    ToolError,
    ToolFailed,
    ToolRequest,
    ToolResult,
    Toolset,
)
from sojourn.testing import ScriptedPlanner

Price = Annotated[Decimal, Field(max_digits=5, decimal_places=2, gt=0)]


class Span(BaseModel):
    first: date
    last: date

    @model_validator(mode="after")
    def _in_order(self) -> "Span":
        if self.last <= self.first:
            raise ValueError("last is after first")
        return self


class Offer(BaseModel):
    price: Price
    plate: Annotated[str, Field(pattern=r"^[A-Z]{2}-\d+$")]
    site: str = "s-1"

    @field_validator("site")
    @classmethod
    def _known(cls, site: str) -> str:
        if site == "s-0":
            raise KeyError(site)  # no ValueError: pydantic lets it through
        return site


class Marked(BaseModel):
    plate: Annotated[str, Field(pattern=r"^[A-Z]{2}-\d+$")]

    @model_validator(mode="after")
    def _known(self) -> "Marked":
        if self.plate != "HH-1":
            raise KeyError(self.plate)
        return self


class Held(Span):
    """A span with an owner, which is injected."""

    owner: str


tools = Toolset("fit.tools")
declared = Toolset("fit.declared")
RAN: list[str] = []


@tools.tool
async def offer(args: Offer) -> str:
    """Offer."""
    RAN.append("offer")
    return str(args.price)


@tools.tool
async def mark(args: Marked) -> str:
    """Mark."""
    RAN.append("mark")
    return args.plate


@tools.tool(inject=["owner"])
async def hold(args: Held) -> str:
    """Hold."""
    RAN.append("hold")
    return args.owner


@tools.tool(inject=["owner"], destructive=True)
async def take(args: Held) -> str:
    """Take."""
    RAN.append("take")
    return args.owner


@tools.tool(examples=[{"first": "2027-01-01", "last": "2027-01-02"}])
async def book(span: Span) -> str:
    """Book."""
    RAN.append("book")
    return str(span.last)


@tools.tool
async def pick(size: int, note: str = "") -> str:
    """Pick; the example of the tool's own hint does not fit."""
    raise ToolFailed(
        f"no size {size}{note}",
        hint=RetryHint(
            reason="invalid_arguments", tool="", message="take another", example_input={"size": "large"}
        ),
    )


declared.declare("place", args=Offer, result=str, description="Place.")
declared.declare("quote", args=Offer, result=str, description="Quote.")


async def execute(meta: ToolCallMeta, call: ToolRequest) -> ToolResult:
    """Place an offer; refuse a quote with an example that does not fit."""
    del meta
    if call.name == "fit.declared.place":
        RAN.append("place")
        return ToolResult(result="placed")
    example = {"price": 1.234, "plate": "AB-1"}
    hint = RetryHint(reason="invalid_arguments", tool=call.name, message="otherwise", example_input=example)
    return ToolResult(error=ToolError.new("no quote"), retry_hint=hint)


clerk = Agent("fit.clerk", planner=ScriptedPlanner([PlanResult.final("done")] * 9))
exported = clerk.export("fit.clerks", tools=[AgentTool("ask", args=Span, result=str)])


async def results_of(serve, *calls: ToolRequest) -> list[ToolResult]:
    """The results of these calls, as the planner receives them."""

    async def owner_of(meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        del meta
        fills = {"fit.tools.hold": hold, "fit.tools.take": take}
        return fills[call.name].inject(call, owner="ana") if call.name in fills else call

    class Owners:
        intercept_tool_call = staticmethod(owner_of)

    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    policy = RunPolicy(interrupts_allowed=True)
    agent = Agent("fit.test", planner=planner, uses=[tools, declared, exported], policy=policy)
    client = await serve(App(agents=[agent, clerk], executors={declared: execute}, interceptors=[Owners()]))
    await client.execute("fit.test", "go")
    return planner.turns[1].tool_results


def to(tool: str, **payload: Any) -> ToolRequest:
    return ToolRequest(name=tool, payload=payload)


async def test_an_example_is_accepted(serve):
    """Calls refused for digits, a pattern, the order of two dates or cut-off JSON run with their examples, with an injected field too."""
    refused = await results_of(
        serve,
        to("fit.tools.offer", price="1.234", plate="AB-1"),  # the number of digits is in no JSON Schema
        to("fit.tools.offer", price="12", plate="ab 1"),
        to("fit.tools.offer", price="12"),
        to("fit.tools.book", first="2027-05-02", last="2027-05-01"),
        to("fit.declared.place", price=99999, plate="AB-1"),
        to("fit.tools.hold", first="2027-05-01T10:00:00", last="2027-05-09"),
        ToolRequest(name="fit.tools.book", raw='{"first": "2027-'),
        ToolRequest(name="fit.tools.offer", raw="{"),
    )
    RAN.clear()
    hints = [result.retry_hint for result in refused if result.retry_hint]
    mended = [to(hint.tool, **hint.example_input) for hint in hints if hint.example_input]
    assert all(result.error for result in refused)
    assert [call.payload for call in mended] == [
        {"price": 1, "plate": "AB-1"},
        {"price": "12", "plate": "AA-0"},
        {"price": "12", "plate": "AA-0"},
        {"first": "2027-01-01", "last": "2027-01-02"},
        {"price": 1, "plate": "AB-1"},
        {"first": "2027-05-01", "last": "2027-05-09"},
        {"first": "2027-01-01", "last": "2027-01-02"},
        {"price": 1, "plate": "AA-0"},
    ]
    taken = await results_of(serve, *mended)
    assert [result.error for result in taken] == [None] * 8
    assert sorted(RAN) == ["book", "book", "hold", "offer", "offer", "offer", "offer", "place"]


async def test_an_example_that_does_not_fit_is_left_out(serve):
    """That is so for derived examples (two equal dates), for arguments that cannot be read too, and for those of tools and executors."""
    results = await results_of(
        serve,
        to("fit.tools.hold", first="2027-05-09", last="2027-05-01"),
        to("fit.tools.take", first="2027-05-09"),
        to("fit.clerks.ask", first="2027-05-09"),
        to("fit.tools.pick", size=4),
        to("fit.declared.quote", price=1, plate="AB-1"),
        to("fit.tools.offer", price=3, plate="AB-1", site="s-0"),
        ToolRequest(name="fit.tools.hold", raw='{"first": "2027-'),
    )
    examples = [result.retry_hint.example_input for result in results if result.retry_hint]
    assert examples == [None] * 6
    # An exception of a validator that is no ValueError is a failure of the tool.
    assert results[5].retry_hint is None


async def test_an_example_that_a_validator_breaks_on_is_left_out(serve):
    """A validator that raises any exception for a derived example costs the example, not the hint."""
    (result,) = await results_of(serve, to("fit.tools.mark", plate="hh 1"))
    assert result.retry_hint
    assert (result.retry_hint.reason, result.retry_hint.example_input) == ("invalid_arguments", None)


async def test_a_call_that_needs_approval_has_an_example_too(serve):
    """It is validated before the wait opens, with a made-up value for its injected field."""
    (result,) = await results_of(serve, to("fit.tools.take", last="2027-05-02"))
    assert result.retry_hint
    assert result.retry_hint.example_input == {"first": "2024-01-31", "last": "2027-05-02"}
