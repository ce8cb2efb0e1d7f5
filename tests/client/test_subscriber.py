"""Subscribers: a method for each kind of event."""

from datetime import timedelta

import pytest
from pydantic import BaseModel

from sojourn import PlanResult, ToolRequest, Toolset
from sojourn.contracts.event import EVENT_CLASSES
from sojourn.events import EventHandler, ToolEndEvent, subscribe
from sojourn.testing.scripted import ScriptedPlanner


class Rows(BaseModel):
    rows: list[int]
    returned: int
    total: int | None = None
    truncated: bool = False
    refinement_hint: str | None = None


async def a_run(serve):
    tools = Toolset("test.tools")

    @tools.tool(bounded=True)
    async def rows() -> Rows:
        """Give a part."""
        return Rows(rows=[1, 2], returned=2, total=10, truncated=True, refinement_hint="ask for less")

    planner = ScriptedPlanner(
        [PlanResult.calls(ToolRequest(name=rows.id, tool_call_id="c1")), PlanResult.final("done")]
    )
    client = await serve(planner=planner, uses=(tools,))
    return await client.start("test.agent", "go")


async def test_a_handler_gets_each_kind_in_its_method(serve):
    """`on_tool_end` receives the bounds of a result (SR-38), `on_event` every event without a method of its own."""

    class Handler(EventHandler):
        def __init__(self) -> None:
            self.ends: list[ToolEndEvent] = []
            self.others: list[str] = []

        async def on_tool_end(self, event: ToolEndEvent) -> None:
            self.ends.append(event)

        def on_event(self, event) -> None:
            self.others.append(event.type)

    handler = Handler()
    await subscribe((await a_run(serve)).events(), handler)
    (end,) = handler.ends
    assert (end.tool_name, end.tool_call_id) == ("test.tools.rows", "c1")
    assert (end.bounds.returned, end.bounds.total, end.bounds.refinement_hint) == (2, 10, "ask for less")
    assert end.duration >= timedelta(0)
    assert handler.others[0] == "run_started"
    assert handler.others[-1] == "run_stream_end"


async def test_an_exception_of_a_handler_ends_its_subscription(serve):
    """An exception of a handler ends its subscription; the run continues."""

    class Broken(EventHandler):
        def on_plan_started(self, event) -> None:
            raise LookupError("mine")

    run = await a_run(serve)
    with pytest.raises(LookupError, match="mine"):
        await subscribe(run.events(), Broken())
    assert (await run.result()).text == "done"


def test_each_type_names_its_class():
    """The class of an event is named after its type: `tool_end` is `ToolEndEvent`."""
    for name, kind in EVENT_CLASSES.items():
        assert kind.__name__ == "".join(part.title() for part in name.split("_")) + "Event"
