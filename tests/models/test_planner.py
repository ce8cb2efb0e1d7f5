"""The planner and its model, plan by plan: the settings of a request, and whether there is a correction."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage
from temporalio.exceptions import ApplicationError

from sojourn import Message, ModelPlanner, PlanInput, PlanResumeInput, RunContext, ToolRequest, ToolResult
from sojourn.contracts.ids import ToolId
from sojourn.contracts.plan import Finalize
from sojourn.contracts.run_policy import Caps
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_spec import Annotations, ToolSpec, TypeSpec
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import refusal
from sojourn.values.json_fault import ParseFault

SETTINGS = {"max_tokens": 1000}
LAST = Finalize(reason="max_tokens", message="Answer now.")


class Own(BaseModel):
    own: int


class Callers(BaseModel):
    callers: int


class Model:
    """A model whose price is known, and which records its requests."""

    def __init__(self, *answers: ModelResponse) -> None:
        self.requests: list[AgentInfo] = []
        self._answers = list(answers)

    @property
    def planner(self) -> Callable[..., ModelPlanner]:
        def make(**options: Any) -> ModelPlanner:
            return ModelPlanner(FunctionModel(self._answer, model_name="gpt-5"), **options)

        return make

    def _answer(self, _messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append(info)
        return self._answers.pop(0)


def says(text: str, tokens: int = 0) -> ModelResponse:
    """Return a response of OpenAI, whose tokens have a price."""
    used = RequestUsage(input_tokens=tokens)
    parts = [TextPart(text)] if text else []
    return ModelResponse(parts=parts, usage=used, model_name="gpt-5", provider_name="openai")


def turn(kind: type[PlanInput] = PlanInput, *, answer: Any = None, **fields: Any) -> PlanInput:
    run = RunContext(run_id="r", agent_id="test.agent", answer=answer)
    return kind(**{"run": run, "messages": [Message.user("go")], "tools": [], "caps": Caps(), **fields})


@pytest.mark.parametrize(
    ("left", "requests"),
    [
        (Caps(), 2),
        (Caps(tokens=1_000_001), 2),
        (Caps(tokens=1_000_000), 1),
        (Caps(cost=100.0), 2),
        (Caps(cost=0.01), 1),
        (Caps(tokens=2_000_000, cost=0.01), 1),
        (Caps(tokens=1_000, cost=100.0), 1),
    ],
    ids=["no limit", "a token", "no token", "money", "no money", "tokens, no money", "money, no tokens"],
)
async def test_a_correction_is_requested_only_within_the_limits(left, requests):
    """After a response that used up the run's tokens or money there is no request for a correction."""
    model = Model(says("", tokens=1_000_000), says("Here I am.", tokens=1))
    plan = await model.planner().plan_start(turn(caps=left))
    if requests == 1:
        assert plan.failure.code == "EmptyAnswer"
        assert "no tokens or money left for a correction: Your response was empty" in plan.failure.message
        assert plan.usage.input_tokens == 1_000_000
    else:
        assert plan.usage.input_tokens == 1_000_001
        assert plan.usage.cost > 0.01
    assert len(model.requests) == requests


async def test_the_last_turn_is_corrected_whatever_is_left():
    """In the last turn a response is corrected even if the limits are used up."""
    model = Model(says("", tokens=1_000_000), says("Here I am."))
    plan = await model.planner().plan_resume(turn(PlanResumeInput, caps=Caps(tokens=0), finalize=LAST))
    assert plan.final_response.text == "Here I am."


async def test_a_response_may_be_as_long_as_the_tokens_left(subtests: pytest.Subtests) -> None:
    """`max_tokens` is at most the run's tokens left, except in the last turn, which may have a complete answer."""
    rows = [
        (500, None, SETTINGS, 500),
        (2000, None, SETTINGS, 1000),
        (500, None, None, 500),
        (100_000, None, None, None),
        (0, LAST, SETTINGS, 1000),
        (0, LAST, None, None),
    ]
    for left, finalize, settings, allowed in rows:
        with subtests.test(left=left, finalize=finalize, settings=settings, allowed=allowed):
            model = Model(says("Here I am."))
            given = turn(PlanResumeInput, caps=Caps(tokens=left), finalize=finalize)
            await model.planner(settings=settings).plan_resume(given)
            assert model.requests[0].model_settings.get("max_tokens") == allowed


@pytest.mark.parametrize(("finalize", "choice"), [(None, None), (LAST, "none")])
async def test_the_last_turn_calls_no_tool_but_for_the_typed_answer(finalize, choice):
    """In the last turn a model is kept from calling the agent's tools; `final_result` is none of them."""
    model = Model(says("Here."), ModelResponse(parts=[ToolCallPart("final_result", {"own": 1}, "c1")]))
    given = turn(PlanResumeInput, finalize=finalize)
    assert (await model.planner().plan_resume(given)).final_response.text == "Here."
    assert (await model.planner(result=Own).plan_resume(given)).result == {"own": 1}
    assert [info.model_settings.get("tool_choice") for info in model.requests] == [choice, choice]


async def test_the_calling_agent_s_type_is_the_answer_s_type():
    """The type that a calling agent requires replaces the planner's own, which applies otherwise."""
    model = Model(
        *[ModelResponse(parts=[ToolCallPart("final_result", {name: 1}, "c1")]) for name in ("own", "callers")]
    )
    planner = model.planner(result=Own)
    assert (await planner.plan_start(turn())).result == {"own": 1}
    callers = Callers.model_json_schema()
    assert (await planner.plan_start(turn(answer=callers))).result == {"callers": 1}
    offered = [info.output_tools[0].parameters_json_schema["required"] for info in model.requests]
    assert offered == [["own"], ["callers"]]


# Requests after a response that cannot be used.


def calls(name: str, finish: str | None = None, **arguments: Any) -> ModelResponse:
    """Return a response with one call."""
    parts = [ToolCallPart(name, arguments, "c1")]
    return ModelResponse(parts=parts, model_name="gpt-5", provider_name="openai", finish_reason=finish)


def cut_off() -> ToolResult:
    """Return the answer to a call in which the last response was cut off."""
    spec = make_tool("add")
    return refusal(
        ToolRequest(name=spec.id), hints.unparsable_arguments(spec, ParseFault("cut_off", "It was cut off."))
    )


def make_tool(name: str, *, read_only: bool | None = None) -> ToolSpec:
    shape = TypeSpec(name="t", json_schema={"type": "object"})
    return ToolSpec(
        id=ToolId(f"test.tools.{name}"),
        title=name,
        description="",
        payload=shape,
        result=shape,
        annotations=Annotations(read_only=read_only),
    )


@pytest.mark.parametrize(
    ("left", "settings", "allowed"),
    [(None, SETTINGS, 2000), (1500, SETTINGS, 1500), (600, SETTINGS, 600), (None, None, None)],
    ids=["twice", "what is left", "less is left", "no limit"],
)
async def test_the_output_limit_is_raised_after_a_response_that_was_cut_off(left, settings, allowed):
    """After a response that was cut off in a call, the next one may be twice as long, within the run's tokens."""
    model = Model(says("Here I am."))
    given = turn(PlanResumeInput, caps=Caps(tokens=left), tool_results=[cut_off()])
    await model.planner(settings=settings).plan_resume(given)
    assert model.requests[0].model_settings.get("max_tokens") == allowed


async def test_a_typed_answer_that_was_cut_off_gets_more_room_once():
    """The correction of an answer that was cut off has twice the limit, and the next one no more than that."""
    whole = calls("final_result", own=1)
    model = Model(calls("final_result", "length", own=1), calls("final_result", "length", own=1), whole)
    plan = await model.planner(settings=SETTINGS, result=Own).plan_start(turn())
    assert plan.result == {"own": 1}
    assert [request.model_settings["max_tokens"] for request in model.requests] == [1000, 2000, 2000]


async def test_a_model_that_cannot_generate_more_is_asked_with_its_own_limit():
    """If the provider refuses the higher limit, the request is made with the limit of the settings."""

    class Small(Model):
        def _answer(self, messages, info):
            if info.model_settings["max_tokens"] > 1000:
                self.requests.append(info)
                raise ModelHTTPError(400, "gpt-5", {"message": "max_tokens is too large"})
            return super()._answer(messages, info)

    model = Small(says("Here I am."))
    given = turn(PlanResumeInput, tool_results=[cut_off()])
    plan = await model.planner(settings=SETTINGS).plan_resume(given)
    assert plan.final_response.text == "Here I am."
    assert [request.model_settings["max_tokens"] for request in model.requests] == [2000, 1000]


async def test_a_typed_answer_has_two_corrections():
    """The third wrong answer fails the run, with the faults of the last, its text, and what the turn has carried out."""
    tools = [make_tool("add"), make_tool("see", read_only=True)]
    results = [ToolResult(name=tool.id, tool_call_id=f"c{n}", result=1) for n, tool in enumerate(tools)]
    wrong = ToolResult(name=tools[0].id, tool_call_id="c9", error=ToolError.new("no"))
    model = Model(*(calls("final_result", own=wrong) for wrong in ("a", "b", "c")))
    messages = [Message.user("go"), Message.results([*results, wrong])]
    plan = await model.planner(result=Own).plan_start(turn(tools=tools, messages=messages))
    assert plan.failure.code == "MalformedAnswer"
    assert re.search(
        rf'corrected 2 times.*got "c"; before that the run had carried out {tools[0].id} \(c0\)$',
        plan.failure.message,
    )
    assert plan.failure.cause.message == 'the model\'s last answer was: {"own": "c"}'
    assert [re.search(r'got "(.)"', note)[1] for note in plan.notes] == ["a", "b"]
    assert (len(model.requests), plan.final_response, plan.result) == (3, None, None)


async def test_corrections_end_whatever_is_wrong():
    """A plan whose responses are wrong in different ways is not corrected without end."""
    wrong = [calls("final_result", own="a"), calls("final_result", own="b"), says("")]
    plan = await Model(*wrong).planner(result=Own).plan_start(turn())
    assert plan.failure.code == "EmptyAnswer"


async def test_a_wrong_answer_in_the_last_turn_leaves_the_run_its_limit():
    """There the planner raises, and the run ends with the limit as its reason."""
    model = Model(*(calls("final_result", own=wrong) for wrong in ("a", "b", "c")))
    last = turn(PlanResumeInput, finalize=Finalize(reason="max_tool_calls", message="Answer now."))
    with pytest.raises(ApplicationError, match="corrected 2 times") as failed:
        await model.planner(result=Own).plan_resume(last)
    assert failed.value.type == "MalformedAnswer"


async def test_a_call_written_as_text_stays_the_answer_where_nothing_else_comes():
    """A model that writes the call as text again gives the run its answer, with a note."""
    written = '{"name": "add", "arguments": {}}'
    model = Model(says(written), says(written))
    plan = await model.planner().plan_start(turn(tools=[make_tool("add")]))
    assert plan.final_response.text == written
    assert "written as text" in plan.notes[0]
    assert len(model.requests) == 2
