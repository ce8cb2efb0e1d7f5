"""The waits that a step opens: for external calls, and for a tool's forms."""

from datetime import timedelta

import pytest

from sojourn import (
    AwaitExternalTools,
    ExternalCall,
    FieldIssue,
    RetryHint,
    ToolError,
    ToolRequest,
    ToolResult,
)
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.tool_call import InputForm, InputRequired
from sojourn.core.awaits.clarification import Clarified
from sojourn.core.awaits.factories import external_wait, input_response, input_wait, question_for

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def outside(call_id: str, expires_after: timedelta | None = None, **call) -> tuple[ToolRequest, Dispatch]:
    request = ToolRequest(**{"name": "a.b.c", "payload": {"id": call_id}, "tool_call_id": call_id, **call})
    return request, Dispatch(kind="external", expires_after=expires_after)


def inside(call_id: str) -> tuple[ToolRequest, Dispatch]:
    return ToolRequest(name="a.b.c", tool_call_id=call_id), Dispatch(expires_after=HOUR)


def test_a_step_without_external_calls_opens_no_wait() -> None:
    """Neither an empty step nor a step of activity calls opens a wait."""
    assert external_wait([], None) is external_wait([inside("c1")], None) is None


def test_the_external_calls_of_a_step_share_one_wait() -> None:
    """The wait is named by the planner or after the first external call, and holds no call that a worker executes."""
    calls = [inside("c1"), outside("c2"), inside("c3"), outside("c4")]
    items = [ExternalCall(tool_call_id=id, tool="a.b.c", payload={"id": id}) for id in ("c2", "c4")]
    assert external_wait(calls, None) == AwaitExternalTools(id="external-c2", items=items)
    for id, made in (("mine", "mine"), ("", "external-c2")):
        given = AwaitExternalTools(id=id, items=[ExternalCall(tool="left.to.dispatches")])
        assert external_wait(calls, given) == AwaitExternalTools(id=made, items=items)


@pytest.mark.parametrize(
    ("limits", "longest"),
    [([HOUR], HOUR), ([HOUR, DAY, HOUR], DAY), ([HOUR, None, DAY], None), ([None], None)],
)
def test_the_wait_lasts_as_long_as_its_longest_call(limits: list, longest: timedelta | None) -> None:
    """The wait expires with its longest call; a call without a limit leaves it without one."""
    wait = external_wait([outside(f"c{n}", limit) for n, limit in enumerate(limits)], None)
    assert wait is not None
    assert wait.expires_after == longest


@pytest.mark.parametrize(
    ("raw", "payload"),
    [
        ('{"site": "s-1"}', {"site": "s-1"}),
        ('```json\n{"site": "s-1",}\n```', {"site": "s-1"}),
        ("{}", {}),
    ],
)
def test_a_wait_holds_the_parsed_arguments_of_its_calls(raw: str, payload: dict) -> None:
    """Raw arguments of a model are parsed as the boundary parses them."""
    wait = external_wait([outside("c1", raw=raw, payload={})], None)
    assert wait is not None
    assert wait.items[0].payload == payload


NEEDED = InputRequired(server="ops.cloud", forms=[])
CALL = ToolRequest(name="ops.cloud.login", tool_call_id="c1")


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        ({"type": "object", "properties": {"user": {}, "code": {}}}, ["user", "code"]),
        ({"properties": ["user"]}, []),
        ({}, []),
    ],
    ids=str,
)
def test_a_tools_form_becomes_a_question(form: dict, fields: list[str]) -> None:
    """The question has the call's id, the server's name, the message, and the form with its field names, if any."""
    wait = input_wait(CALL, NEEDED, InputForm(key="k", message="Who are you?", form=form))
    assert (wait.id, wait.tool_call_id, wait.server) == ("input-c1", "c1", "ops.cloud")
    assert (wait.question, wait.form, wait.missing_fields) == ("Who are you?", form, fields)


@pytest.mark.parametrize(
    ("answer", "response"),
    [
        (Clarified("q", "", None, {"user": "ana"}), {"action": "accept", "content": {"user": "ana"}}),
        (Clarified("q", "x", None), {"action": "accept", "content": {}}),
        (Clarified("q", "no", None, declined=True), {"action": "decline"}),
        (None, {"action": "cancel"}),
    ],
    ids=["values", "words", "declined", "nobody"],
)
def test_an_answer_becomes_an_mcp_response(answer: Clarified | None, response: dict) -> None:
    """The action is `accept` with the values, `decline`, or `cancel` when nobody answered."""
    assert input_response(answer) == response


@pytest.mark.parametrize("unknown", [False, True])
def test_nobody_is_asked_for_fields_of_a_call_that_may_have_taken_effect(unknown: bool) -> None:
    """The answer would make the call with other arguments, which is another effect."""
    issue = FieldIssue(field="purpose", constraint="missing_field")
    hint = RetryHint(
        reason="missing_fields",
        tool="desk.bank.pay",
        issues=[issue],
        missing_fields=["purpose"],
        outcome_unknown=unknown,
    )
    result = ToolResult(name="desk.bank.pay", error=ToolError(message="no"), retry_hint=hint)
    assert (question_for([result]) is None) is unknown
