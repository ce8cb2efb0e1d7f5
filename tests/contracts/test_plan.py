"""PlanResult: the four decisions of a planner."""

from datetime import timedelta

from sojourn import AwaitClarification, Message, PlanResult, ToolRequest


def test_each_variant_has_its_constructor() -> None:
    """`calls`, `final`, `ask` and `wait` set one variant each; `final` and `wait` take notes too."""
    call, question = ToolRequest(name="a.b.c"), AwaitClarification(question="?")
    assert PlanResult.calls(call, call) == PlanResult(tool_calls=[call, call])
    assert PlanResult.final("done", result={"n": 1}, notes=["x"]) == PlanResult(
        final_response=Message.assistant("done"), result={"n": 1}, notes=["x"]
    )
    assert PlanResult.ask(question) == PlanResult(await_=question)
    assert PlanResult.wait(timedelta(hours=1), notes=["later"]) == PlanResult(
        wait_=timedelta(hours=1), notes=["later"]
    )
