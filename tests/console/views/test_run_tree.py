"""The tree of a run: what events make of it, and what it says has changed."""

from datetime import UTC, datetime, timedelta

import pytest

from sojourn.console.views.entries import Call, End, Plan, Said
from sojourn.console.views.run_tree import RunTree
from sojourn.console.views.timeline import WIDTH, timeline_of
from sojourn.contracts import event as told
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Usage
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_call import ArgumentReading, ToolRequest
from sojourn.contracts.tool_error import RetryHint, ToolError
from sojourn.contracts.tool_result import ToolResult

BEGIN = datetime(2027, 1, 2, tzinfo=UTC)


class Told:
    """Events of a run, one second after the other."""

    def __init__(self) -> None:
        self.tree, self.count = RunTree("r"), 0

    def __call__(self, kind, *, after: float = 1, **fields):
        self.count += after
        place = {"run_id": "r", "event_id": f"0-{int(self.count):06}-00000", "turn_id": "t1"}
        self.tree.feed(kind(**place, time=BEGIN + timedelta(seconds=self.count), **fields))
        return self.tree


@pytest.fixture
def tell() -> Told:
    """Feed a tree."""
    return Told()


def request(call_id: str, **payload) -> ToolRequest:
    """A call of one tool."""
    return ToolRequest(name="a.b.c", payload=payload, tool_call_id=call_id)


def result(call_id: str, **fields) -> ToolResult:
    """Its result."""
    return ToolResult(name="a.b.c", tool_call_id=call_id, **fields)


def test_a_run_is_what_was_said_planned_called_and_answered(tell):
    """In this order; the plan whose message is the answer is marked, since the end has it."""
    tell(told.RunStartedEvent, message=Message.user("why"))
    tell(told.PlanStartedEvent)
    tell(told.UsageEvent, usage=Usage(input_tokens=3, output_tokens=4, cost=0.5))
    tell(told.AssistantMessageEvent, message=Message.calls([request("x", n=1)]))
    tell(told.ToolStartEvent, call=request("x", n=1))
    tell(told.ToolEndEvent, result=result("x", result=1), duration=timedelta(seconds=1))
    tell(told.PlanStartedEvent)
    tell(told.AssistantMessageEvent, message=Message.assistant("because"))
    output = RunOutput(run_id="r", agent_id="a.b", final=Message.assistant("because"))
    tree = tell(told.RunCompletedEvent, output=output)
    said, plan, call, last, end = tree
    assert [type(each) for each in (said, plan, call, last, end)] == [Said, Plan, Call, Plan, End]
    assert (plan.calls, plan.took, plan.is_answer, last.is_answer) == (
        ["x"],
        timedelta(seconds=2),
        False,
        True,
    )
    assert (call.state, call.took, tree.spent.tokens, tree.spent.cost) == (
        "done",
        timedelta(seconds=1),
        7,
        0.5,
    )


def test_only_what_has_changed_is_told_as_changed(tell):
    """By versions: a new call is born, an ended one has changed, and the rest is as it was."""
    tell(told.PlanStartedEvent)
    before = tell(told.ToolStartEvent, call=request("x")).version
    tree = tell(told.ToolStartEvent, call=request("y"))
    assert [entry.key for entry in tree.changed(before) if entry.born > before] == ["call-y"]
    before = tree.version
    tell(told.ToolEndEvent, result=result("x", result=1), duration=timedelta(seconds=1))
    assert [entry.key for entry in tree.changed(before)] == ["call-x"]
    assert tree.changed(tree.version) == []


def test_a_repeated_call_names_the_one_that_failed(tell):
    """And the failed one names it."""
    hint = RetryHint(reason="invalid_arguments", tool="a.b.c")
    error = ToolError.new("no")
    tell(told.ToolStartEvent, call=request("x"))
    tell(
        told.ToolEndEvent,
        result=result("x", error=error, retry_hint=hint),
        duration=timedelta(seconds=1),
    )
    tree = tell(told.ToolStartEvent, call=request("y", n=1))
    assert (tree.call("x").mended_by, tree.call("y").mends) == ("y", "x")


@pytest.mark.parametrize(
    ("approved", "state", "word"), [(True, "running", "approved"), (False, "denied", "denied")]
)
def test_a_call_waits_for_whoever_decides(tell, approved, state, word):
    """And knows who decided what."""
    wait = AwaitConfirmation(id="w", tool_call_id="x", tool="a.b.c", payload={"n": 1})
    tree = tell(told.AwaitConfirmationEvent, confirmation=wait)
    assert tree.call("x").state == "waiting"
    tell(told.AwaitAnsweredEvent, await_id="w", approved=approved, by="eve")
    call = tree.call("x")
    assert (call.state, call.decision.word, call.decision.by) == (state, word, "eve")


def test_a_long_run_keeps_its_last_entries():
    """And counts the others."""
    tell = Told()
    tell.tree = RunTree("r", most=10)
    for number in range(25):
        tell(told.ToolStartEvent, call=request(f"c{number}"))
    assert (len(tell.tree), tell.tree.dropped) == (10, 15)
    assert tell.tree.call("c3") is None
    assert [entry.id for entry in tell.tree.last(2)] == ["c23", "c24"]


def test_events_of_other_runs_change_nothing(tell):
    """A child run has a tree of its own."""
    tree = tell.tree
    tree.feed(told.PlanStartedEvent(run_id="r/x", event_id="0-000001-00000", time=BEGIN))
    assert (len(tree), tree.version) == (0, 0)


def test_long_waits_are_short_on_the_timeline_and_marked(tell):
    """A week of waiting leaves the work readable: bars are in order, and within the scale."""
    tell(told.PlanStartedEvent)
    wait = AwaitConfirmation(id="w", tool_call_id="x", tool="a.b.c")
    tell(told.AwaitConfirmationEvent, confirmation=wait)
    tell(told.AwaitAnsweredEvent, after=600_000, await_id="w", approved=True, by="eve")
    tree = tell(told.ToolEndEvent, after=5, result=result("x", result=1), duration=timedelta(seconds=5))
    timeline = timeline_of(tree, BEGIN)
    plan, call = timeline.bars
    assert [piece.kind for piece in call.pieces] == ["wait", "done"]
    waiting, working = call.pieces
    assert waiting.width < WIDTH / 4 < working.width
    assert plan.pieces[0].x == 0
    assert working.x + working.width == pytest.approx(WIDTH, abs=1)
    assert [gap.lasted for gap in timeline.gaps] == [timedelta(seconds=600_000)]
    assert call.waited_for == "eve"


def test_a_call_that_was_read_is_shown_as_read_also_after_its_approval(tell):
    """The page of an approved call has what was read, which its confirmation does not hold, and what was written."""
    written = ToolRequest(name="a.b.c", raw='{"n": "5"}', tool_call_id="x")
    call = written.read_as({"n": 5}, [ArgumentReading(kind="json_text", field="/n")])
    confirm = AwaitConfirmation(id="w", tool_call_id="x", tool="a.b.c", prompt="Do it?", payload={"n": 5})
    tell(told.AwaitConfirmationEvent, confirmation=confirm)
    tree = tell(told.ToolStartEvent, call=call)
    entry = tree.call("x")
    assert (entry.call.payload, entry.call.written) == ({"n": 5}, '{"n": "5"}')
    assert [each.text for each in entry.call.readings] == ["/n decoded from a text"]
