"""Where a turn of a conversation begins, for planners: `plan_start`, `turn_start`, and the results of the turn."""

import pytest

from sojourn import (
    Agent,
    App,
    CallFailed,
    Case,
    Message,
    PlanResult,
    RunFailed,
    ToolFailed,
    Toolset,
    flow,
)
from sojourn.repair import RepairingPlanner

tools = Toolset("start.tools")


@tools.tool
async def look(site: str, days: int) -> str:
    """Look at a site."""
    if site == "s-0":
        raise ToolFailed("there is no s-0")
    return f"{site} for {days}"


class Seen:
    """A planner of one call, which notes how each turn reached it."""

    def __init__(self) -> None:
        self.calls = []

    def _note(self, method, turn):
        opening = [m.text for m in turn.messages[turn.turn_start :] if m.role == "user"]
        self.calls.append((method, opening, len(turn.results)))
        if opening[-1] == "break":
            raise TypeError("broken")
        if opening[-1] == "wrong" and method == "start":
            return PlanResult()
        return PlanResult.final("done") if turn.results else PlanResult.calls(look.call(site="s-1", days=1))

    async def plan_start(self, turn):
        return self._note("start", turn)

    async def plan_resume(self, turn):
        return self._note("resume", turn)


async def test_each_turn_starts_anew(serve, traces):
    planner = Seen()
    client = await serve(App(agents=[Agent("test.agent", planner=planner, uses=[tools])]))
    session = client.session("test.agent", "turn-start")
    for text in ("one", "two"):
        assert (await (await session.send(text)).result()).tool_calls == 1
    with pytest.raises(RunFailed):
        await (await session.send("break")).result()
    await (await session.send("wrong")).result()
    assert planner.calls == [
        ("start", ["one"], 0),
        ("resume", ["one"], 1),
        ("start", ["two"], 0),
        ("resume", ["two"], 1),
        ("start", ["break"], 0),
        ("start", ["wrong"], 0),
        ("resume", ["wrong"], 0),
        ("resume", ["wrong"], 1),
    ]
    await traces(session.run).check()


async def test_a_run_that_begins_with_an_earlier_talk(serve, traces):
    """Its planner, a flow too, works on the message that the talk does not answer, as a turn of a conversation does."""

    @flow
    async def repeat(case: Case) -> str:
        return f"{case.text} after {len(case.earlier)}: {case.call(look, site='s-1', days=len(case.text))}"

    planner = Seen()
    agents = [
        Agent("test.agent", planner=planner, uses=[tools]),
        Agent("test.flow", planner=repeat, uses=[tools]),
    ]
    client = await serve(App(agents=agents))
    talk = [Message.user("one"), Message.assistant("first"), Message.user("four")]
    run = await client.start("test.flow", talk)
    output = await run.result()
    assert (output.text, output.tool_calls) == ("four after 2: s-1 for 4", 1)
    await traces(run).check()
    await (await client.start("test.agent", talk)).result()
    assert planner.calls == [("start", ["four"], 0), ("resume", ["four"], 1)]


async def test_a_flow_does_its_steps_in_each_turn(serve, traces):
    """Also the same steps as in the turn before; what was said before is in `case.earlier`."""

    @flow
    def sight(case: Case) -> str:
        seen = case.call(look, site=case.text, days=2)
        return f"{len(case.earlier)}: {seen}"

    client = await serve(planner=sight, uses=(tools,))
    session = client.session("test.agent", "turn-flow")
    for text, answer in (("s-1", "0: s-1 for 2"), ("s-1", "4: s-1 for 2"), ("s-2", "8: s-2 for 2")):
        output = await (await session.send(text)).result()
        assert (output.text, output.tool_calls) == (answer, 1)
    with pytest.raises(RunFailed, match="there is no s-0"):
        await (await session.send("s-0")).result()
    assert (await (await session.send("s-3")).result()).text.endswith("s-3 for 2")
    await traces(session.run).check()


async def test_a_failed_call_of_the_turn_before_is_not_repaired(serve):
    """The turn before ended with a call that could be repaired; the next one is about something else."""

    async def plan(turn) -> PlanResult:
        if turn.messages[-1].text == "go":
            return PlanResult.calls(look.call(site="s-1"))
        if turn.tool_results:
            raise CallFailed("left as it is", result=turn.tool_results[0])
        return PlanResult.final(f"{len(turn.results)} results")

    repairing = RepairingPlanner(plan, max_repairs=0)
    client = await serve(planner=repairing, uses=(tools,))
    session = client.session("test.agent", "turn-repair")
    with pytest.raises(RunFailed):
        await (await session.send("go")).result()
    repairing._max_repairs = 3
    repairing._defaults = {look.id: {"days": 3}}
    output = await (await session.send("something else")).result()
    assert (output.text, output.tool_calls) == ("0 results", 0)
