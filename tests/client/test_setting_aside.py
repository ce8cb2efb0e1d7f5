"""What is set aside, in words, and whether a plan under way still has it."""

from sojourn import Message, RunStatus, ToolError, ToolRequest, ToolResult
from sojourn.client.setting_aside import is_plan_under_way, quote_target

RESULTS = [
    ToolResult(name="a.b.c", tool_call_id="c1", result={"n": 1}),
    ToolResult(name="a.b.d", tool_call_id="c2", error=ToolError.new("no\nsuch thing")),
]
TALK = [
    Message.user("word " * 100),
    Message.calls([ToolRequest(name="a.b.c", tool_call_id="c1")]),
    Message.results(RESULTS),
    Message.user(""),
]


def test_what_is_meant_is_quoted_in_a_line() -> None:
    """A message has its role and first words, a call its name, and a result its tool and its text."""
    assert quote_target(TALK, {"message": 0}).startswith("user: word word ")
    assert len(quote_target(TALK, {"message": 0})) <= 60
    assert quote_target(TALK, {"message": 1}) == "assistant: calls a.b.c"
    assert quote_target(TALK, {"message": 2, "tool_call_id": "c1"}) == 'result of a.b.c: {"n": 1}'
    assert quote_target(TALK, {"message": 2, "tool_call_id": "c2"}) == "result of a.b.d: no such thing"
    assert quote_target(TALK, {"message": 3}) == "user: no text"


def test_a_plan_is_under_way_only_while_one_is_made() -> None:
    """A run that waits, is idle or executes tools makes its next plan without what was set aside."""
    states = [("running", "planning"), ("running", "finalizing"), ("running", "executing_tools")]
    states += [("waiting", "waiting"), ("idle", "idle"), ("paused", "planning")]
    made = [RunStatus(run_id="r", status=status, phase=phase) for status, phase in states]
    assert [is_plan_under_way(each) for each in made] == [True, True, False, False, False, False]
