from datetime import timedelta

import pytest
from temporalio.exceptions import ApplicationError

from sojourn.contracts.ids import ToolId
from sojourn.contracts.message import Message
from sojourn.contracts.plan import PlanInput, PlanResult, PlanResumeInput, RunContext
from sojourn.contracts.tool_call import ToolRequest
from sojourn.testing import ScriptedPlanner

RUN = RunContext(run_id="r-1", agent_id="ops.assistant")
ASKED, CALLED = Message.user("why?"), Message.assistant("let me see")


def later(*messages: Message, reminders: tuple[str, ...] = ()) -> PlanResumeInput:
    """Return a later turn with this transcript."""
    return PlanResumeInput(run=RUN, messages=list(messages), tools=[], reminders=list(reminders))


async def test_steps_in_order():
    """Each accepted plan leaves an assistant message, and so moves the script on by one step."""
    call = PlanResult.calls(ToolRequest(name=ToolId("ops.devices.list"), payload={}))
    planner = ScriptedPlanner([call, PlanResult.final("done")])
    assert await planner.plan_start(PlanInput(run=RUN, messages=[ASKED], tools=[])) is call
    assert (await planner.plan_resume(later(ASKED, CALLED))).final_response == Message.assistant("done")


async def test_retry_plays_the_same_step():
    """The step comes from the transcript alone: a retried plan, in any process, is the same plan."""
    steps = [PlanResult.final("one"), PlanResult.final("two")]
    for _retry in range(3):
        assert await ScriptedPlanner(steps).plan_resume(later(ASKED, CALLED)) is steps[1]
    one = ScriptedPlanner(steps)
    for _retry in range(3):
        assert await one.plan_resume(later(ASKED, CALLED)) is steps[1]


async def test_correction_plays_the_step_again():
    """A refused plan leaves no message, so its step is played again, with the reason in the reminders."""
    planner = ScriptedPlanner([lambda turn: PlanResult.final(turn.reminders[0] if turn.reminders else "")])
    again = await planner.plan_resume(later(ASKED, reminders=("no such tool",)))
    assert again.final_response == Message.assistant("no such tool")


async def test_steps_may_be_functions():
    """A step may be a function of the turn, sync or async."""

    async def answer(turn: PlanInput) -> PlanResult:
        return PlanResult.final(turn.messages[-1].text)

    planner = ScriptedPlanner([lambda turn: PlanResult.wait(timedelta(seconds=len(turn.messages))), answer])
    assert (await planner.plan_start(PlanInput(run=RUN, messages=[ASKED], tools=[]))).wait_ == timedelta(
        seconds=1
    )
    assert (await planner.plan_resume(later(ASKED, CALLED))).final_response == CALLED


async def test_given_messages_are_no_steps():
    """Assistant messages that the run was started with are left out of the count."""
    planner = ScriptedPlanner([PlanResult.final("first")], given=1)
    turn = PlanInput(run=RUN, messages=[ASKED, CALLED, ASKED], tools=[])
    assert (await planner.plan_start(turn)).final_response == Message.assistant("first")


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        (
            ScriptedPlanner([PlanResult.final("one")]),
            "script of ops.assistant has 1 step, .*run r-1 asks for step 2",
        ),
        (ScriptedPlanner([PlanResult.final("one")], given=2), "`given` is 2"),
        (
            ScriptedPlanner([PlanResult.final("one"), lambda _turn: "two"]),
            "step 2.*returned 'two', not a PlanResult",
        ),
    ],
)
async def test_off_script(planner, message):
    """A script that has ended, or returns no plan, raises an error that is not retried and says what is wrong."""
    with pytest.raises(ApplicationError, match=message) as raised:
        await planner.plan_resume(later(ASKED, CALLED))
    assert raised.value.non_retryable
