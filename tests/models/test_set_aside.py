"""What a provider refused is set aside: which parts, in which order, and that they are never sent again."""

import base64
import json
import uuid
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from sojourn import (
    Agent,
    App,
    Message,
    ModelPlanner,
    PlanInput,
    RunContext,
    RunFailed,
    ToolError,
    ToolFailed,
    ToolRequest,
    ToolResult,
    Toolset,
)
from sojourn.cli.screen.lines import MessageLines
from sojourn.contracts.message import ImagePart, OtherPart, TextPart, ThinkingPart
from sojourn.core.run.set_aside import failure_notice, leave_out
from sojourn.models.set_aside import SetAside, attempts_after, filter_refused, without_set_aside
from sojourn.testing.providers import Body, Completion, HttpError, Thinking, ToolCall, calls, says
from sojourn.values.wire import decode_messages, encode

POISON = base64.b64encode(b"poison").decode()
PICTURE = ImagePart(type="image", media_type="image/png", data=POISON)
LEFT_OUT = "(A message was left out here, because the model's provider refused it.)"
CALL = ToolRequest(name="a.b.c", tool_call_id="c1")


def shows(text: str) -> Message:
    """A message of a user with a picture."""
    return Message(role="user", parts=[TextPart(type="text", text=text), PICTURE])


def result(text: str = "found") -> Message:
    return Message.results([ToolResult(name="a.b.c", tool_call_id="c1", result=text)])


def refused(message: str = "Could not process image", kind: str = "ModelRejected") -> ApplicationError:
    return ApplicationError(message, type=kind)


OLD = [shows("one"), Message.assistant("seen")]
ONE = Message.user("one")
FAILED = failure_notice(ToolError.new("no", code="ModelRejected"))
FILTERED = failure_notice(ToolError.new("no", code="ContentFiltered"))
PAYS = [ToolRequest(name=name, tool_call_id=name) for name in ("a.b.pay", "a.b.fetch", "a.b.book")]
PAID = Message.results([ToolResult(name=each.name, tool_call_id=each.name, result="x") for each in PAYS])
THOUGHT = Message(
    role="assistant",
    parts=[ThinkingPart(type="thinking", text="hm", signature="s"), *Message.calls([CALL]).parts],
)


def test_what_may_be_the_cause_is_left_out_in_order(subtests: pytest.Subtests) -> None:
    """Each attempt leaves out one thing alone, and the results of tools that change something are the last of their kind."""
    rows = [
        ([shows("one")], refused(), ["files 0"]),
        ([*OLD, shows("two")], refused(), ["files 2", "files 0", "files 2 + files 0"]),
        ([*OLD, Message.user("two")], refused(), ["files 0"]),
        ([Message.user("one"), Message.calls([CALL]), result()], refused(), ["results 2 c1"]),
        ([Message.user("one"), Message.calls([CALL]), result()], refused("temperature: range: 0..1"), []),
        ([Message.user("one"), Message.calls([CALL]), result()], refused("Invalid."), ["results 2 c1"]),
        (
            [*OLD, Message.calls([CALL]), result()],
            refused("no", "ContentFiltered"),
            ["results 3 c1", "files 0", "files 0 + results 3 c1"],
        ),
        (
            [Message.user("one"), Message.calls(PAYS), PAID],
            refused("no", "ContentFiltered"),
            [
                "results 2 a.b.fetch",
                "results 2 a.b.pay",
                "results 2 a.b.book",
                "results 2 a.b.fetch a.b.pay a.b.book",
            ],
        ),
        (
            [Message.user("one"), THOUGHT, result()],
            refused("messages.1.content.0: Invalid `signature` in `thinking` block"),
            ["thinking 1", "results 2 c1", "results 2 c1 + thinking 1"],
        ),
        (
            [Message.user("one"), THOUGHT, result()],
            refused("messages[1].tool_calls[0]: could not parse"),
            ["results 2 c1", "arguments 1 c1", "thinking 1", "results 2 c1 + arguments 1 c1 + thinking 1"],
        ),
        ([ONE, FAILED, ONE], refused("Could not parse the body"), ["messages 0"]),
        ([ONE, FAILED, ONE], refused("Invalid value for 'temperature'"), []),
        ([ONE, FAILED, ONE, Message.assistant("yes"), ONE], refused("odd"), ["messages 0"]),
        ([ONE, FAILED, shows("one")], refused(), ["messages 0", "files 2", "messages 0 + files 2"]),
        ([shows("one")], refused("later", "ModelUnavailable"), []),
        ([Message.user("one")], refused(), []),
    ]
    for messages, error, attempts in rows:
        with subtests.test(messages=messages, error=error, attempts=attempts):
            made = attempts_after(messages, error, {"a.b.fetch"})
            assert [" + ".join(map(told, attempt)) for attempt in made] == attempts


def told(step: SetAside) -> str:
    return " ".join([step.what, *map(str, step.indices), *step.calls])


def test_what_a_content_filter_refused_is_left_out_at_once_and_recorded_once() -> None:
    """The next turn reads a short text in its place; once a plan has recorded it, no later plan does."""
    messages = [ONE, FILTERED, Message.user("two")]
    [step] = filter_refused(messages)
    assert (step.what, step.indices) == ("messages", (0,))
    assert [each.text for each in step.apply(messages)][::2] == [LEFT_OUT, "two"]
    recorded = [*messages, Message(role="assistant", parts=[step.part])]
    assert filter_refused(recorded) == ()
    assert without_set_aside(recorded)[0].text == LEFT_OUT


def test_attempts_are_bounded() -> None:
    """Many results are left out some at a time: a step of 100 calls makes nine further requests."""
    many = [ToolRequest(name="a.b.c", tool_call_id=f"c{n}") for n in range(100)]
    results = Message.results([ToolResult(name="a.b.c", tool_call_id=each.tool_call_id) for each in many])
    made = attempts_after([Message.calls(many), results], refused("no", "ContentFiltered"))
    assert [len(step.calls) for (step,) in made] == [*[13] * 7, 9, 100]


def test_the_outcome_of_a_call_stays() -> None:
    """What is left out of a result is its content: models still read whether the call succeeded, failed, or may have had an effect."""
    failed = ToolError(message="poison", code="no_seats", outcome_unknown=True)
    results = Message.results(
        [
            ToolResult(name="a.b.pay", tool_call_id="c1", result="poison"),
            ToolResult(name="a.b.book", tool_call_id="c2", error=failed),
        ]
    )
    for read in (SetAside("results", (0,)).apply([results])[0], leave_out(results)):
        paid, booked = read.tool_results
        assert (paid.ok, booked.ok) == (True, False)
        assert "The call succeeded, and its effect, if it has one, took place." in str(paid.result)
        assert booked.error is not None
        assert (booked.error.code, booked.error.outcome_unknown) == ("no_seats", True)
        assert "poison" not in read.model_dump_json()


def test_reasoning_is_left_out_with_the_ids_that_need_it() -> None:
    """A call of a message without its reasoning keeps the id that its result has, and nothing of its provider."""
    kept = {"provider": "openai", "id": "fc_1", "tool_call_id": "w1", "response": {"id": "r", "tokens": 7}}
    thinking, call = THOUGHT.parts
    message = THOUGHT.model_copy(
        update={"parts": [thinking, call.model_copy(update={"provider_metadata": kept})]}
    )
    [read] = SetAside("thinking", (0,)).apply([message])
    [left] = read.parts
    assert left.provider_metadata == {"tool_call_id": "w1", "response": {"tokens": 7}}
    assert read.tool_calls[0].request == message.tool_calls[0].request


def test_a_recorded_step_is_applied_in_later_requests() -> None:
    """The part survives the history, and later requests have a short text in place of what it names; the rest stays."""
    parts = [
        SetAside("files", (0,), "no").part,
        SetAside("results", (2,), "no").part,
        TextPart(type="text", text="Done."),
    ]
    messages = [
        shows("one"),
        Message.calls([CALL]),
        result(),
        Message(role="assistant", parts=parts),
        Message.user("two"),
    ]
    [*stored] = decode_messages(encode(messages))
    read = without_set_aside(stored)
    assert [type(part) for part in read[0].parts] == [TextPart, TextPart]
    assert (read[0].text.startswith("one"), "left out here" in read[0].text) == (True, True)
    [answer] = read[2].tool_results
    assert (answer.tool_call_id, "left out here" in str(answer.result)) == ("c1", True)
    assert read[1] == stored[1]
    assert read[3:] == stored[3:]


def test_a_record_that_cannot_be_read_sets_nothing_aside(subtests: pytest.Subtests) -> None:
    """A part of another kind or version changes nothing, and neither does one in a message of somebody else."""
    rows = [
        {"type": "set_aside"},
        {"type": "set_aside", "what": "all", "messages": [0]},
        {"type": "set_aside", "what": "files", "messages": "0"},
        {"type": "set_aside", "what": "files", "messages": ["0", None, 99, -1]},
        {"type": "else", "what": "files", "messages": [0]},
    ]
    for part in rows:
        with subtests.test(part=part):
            odd = Message(role="assistant", parts=[OtherPart.model_validate(part)])
            assert without_set_aside([shows("one"), odd]) == [shows("one"), odd]
            recorded = Message(role="user", parts=[SetAside("files", (0,)).part])
            assert without_set_aside([shows("one"), recorded]) == [shows("one"), recorded]


def make_app(model: Any) -> App:
    tools = Toolset("test.tools")

    @tools.tool
    async def look() -> str:
        """Look."""
        return "a poison picture"

    planner = ModelPlanner(model, settings={"max_tokens": 1000})
    return App(agents=[Agent("test.agent", planner=planner, uses=[tools])])


async def test_a_refused_picture_is_set_aside_and_never_sent_again(serve, standin, protocol):
    """The turn goes on without the picture, with a note and a line in the transcript, and so does the next turn."""
    standin.script = lambda request: (
        HttpError(error="image") if POISON in json.dumps(request.body) else says("I cannot see it.")
    )
    client = await serve(make_app(standin.model(protocol)))
    session = client.session("test.agent", f"s-{uuid.uuid4().hex[:8]}")
    turn = await session.send(shows("What is this?"))
    out = await turn.result()
    assert out.text == "I cannot see it."
    assert any("set aside" in note for note in out.notes)
    asked = len(standin.requests)
    assert (await (await session.send("what is 1+1?")).result()).text == "I cannot see it."
    later = [json.dumps(request.body) for request in standin.requests[asked:]]
    assert not any(POISON in body for body in later)
    assert "A file was left out here" in later[-1]
    kinds = [part.type for message in await session.transcript() for part in message.parts]
    assert kinds.count("set_aside") == 1
    assert "image" in kinds


async def test_a_refused_result_is_set_aside(serve, standin, protocol):
    """A run goes on without a result that the provider's filter refuses, whatever words each provider has for it."""
    standin.script = lambda request: (
        HttpError(error="content_filter")
        if any("poison" in result.text for result in request.tool_results)
        else says("Something was left out.")
        if request.tool_results
        else calls(ToolCall(name="test__tools__look"))
    )
    client = await serve(make_app(standin.model(protocol)))
    run = await client.start("test.agent", "look")
    out = await run.result()
    assert (out.text, out.reason) == ("Something was left out.", "answered")
    assert any("set aside: the results" in note for note in out.notes)
    [answered] = standin.requests[-1].tool_results
    assert "left out here" in answered.text


async def test_the_outcomes_of_innocent_calls_stay(serve, standin):
    """One of three parallel results is refused: models read the other two as they were, so that no payment is made twice."""
    tools, paid = Toolset("test.desk"), list[int]()

    @tools.tool(read_only=True)
    async def fetch() -> str:
        """Fetch."""
        return "poison"

    @tools.tool
    async def pay(n: int) -> str:
        """Pay."""
        paid.append(n)
        return f"paid {n}"

    @tools.tool
    async def book() -> str:
        """Book."""
        raise ToolFailed("no seats left")

    def script(request):
        if any("poison" in result.text for result in request.tool_results):
            return HttpError(error="content_filter")
        if not request.tool_results:
            names = [("pay", '{"n": 5}'), ("fetch", "{}"), ("book", "{}")]
            return calls(*(ToolCall(name=f"test__desk__{name}", arguments=sent) for name, sent in names))
        if any("paid 5" in result.text for result in request.tool_results):
            return says("Done.")
        return calls(ToolCall(name="test__desk__pay", arguments='{"n": 5}'))

    standin.script = script
    planner = ModelPlanner(standin.model("openai-chat"))
    client = await serve(App(agents=[Agent("test.agent", planner=planner, uses=[tools])]))
    out = await client.execute("test.agent", "pay")
    assert (out.text, paid, len(standin.requests)) == ("Done.", [5], 3)
    texts = [result.text for result in standin.requests[-1].tool_results]
    assert [" succeeded" in text for text in texts] == [False, True, False]
    assert "no seats left" in texts[2]


@pytest.mark.parametrize(
    ("protocol", "refusal"),
    [
        ("anthropic", "messages.1.content.0: Invalid `signature` in `thinking` block"),
        ("openai-responses", "The encrypted content for item rs_1 could not be verified."),
        ("google", "Thought signature is not valid."),
    ],
)
async def test_refused_reasoning_is_left_out(serve, standin, protocol, refusal):
    """The turn goes on without it, with one payment, and so does the next turn, in which every message of the person is read."""
    tools, paid = Toolset("test.desk"), list[int]()

    @tools.tool
    async def pay(n: int) -> str:
        """Pay."""
        paid.append(n)
        return f"paid {n}"

    def script(request):
        if "badsig" in json.dumps(request.body):
            return Body(status=400, content=json.dumps({"error": {"message": refusal}}))
        if not request.tool_results:
            pays = ToolCall(name="test__desk__pay", arguments='{"n": 5}')
            return Completion(parts=(Thinking(text="hm", signature="badsig"), pays))
        return says("Done.")

    standin.script = script
    planner = ModelPlanner(standin.model(protocol), settings={"max_tokens": 1000})
    client = await serve(App(agents=[Agent("test.agent", planner=planner, uses=[tools])]))
    session = client.session("test.agent", f"s-{uuid.uuid4().hex[:8]}")
    for text in ("first words", "second words"):
        out = await (await session.send(text)).result()
        assert (out.text, paid) == ("Done.", [5])
    assert len(standin.requests) == 4
    read = json.dumps(standin.requests[-1].body)
    assert ("first words" in read, "second words" in read, "paid 5" in read) == (True, True, True)
    assert standin.refusals == []


async def test_a_prompt_that_google_blocks_in_an_answer_is_a_refusal_too(serve, standin):
    """Google answers a blocked prompt with HTTP 200 and no candidate; the run goes on without the result all the same."""
    blocked = Body(content=json.dumps({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}))
    standin.script = lambda request: (
        blocked
        if any("poison" in result.text for result in request.tool_results)
        else says("Something was left out.")
        if request.tool_results
        else calls(ToolCall(name="test__tools__look"))
    )
    client = await serve(make_app(standin.model("google")))
    out = await (await client.start("test.agent", "look")).result()
    assert out.text == "Something was left out."


async def test_a_setting_that_is_refused_hides_no_message(serve, standin):
    """Two turns fail for a setting; once it is accepted, the model reads what the person said in them."""
    standin.script = [HttpError(error="bad_request"), HttpError(error="bad_request"), "ok"]
    client = await serve(make_app(standin.model("openai-chat")))
    session = client.session("test.agent", f"s-{uuid.uuid4().hex[:8]}")
    for text in ("My order is A-7.", "It is a lamp."):
        with pytest.raises(RunFailed):
            await (await session.send(text)).result()
    assert (await (await session.send("What was my order?")).result()).text == "ok"
    read = json.dumps(standin.requests[-1].body)
    assert ("My order is A-7." in read, "It is a lamp." in read, "left out" in read) == (True, True, False)


async def test_a_message_that_a_provider_refuses_in_other_words_is_found_by_trial(serve, standin):
    """The turn fails; the next one is made with the message, then without it, and records what the provider took it for."""
    refusal = Body(content=json.dumps({"error": {"message": "Could not parse the body."}}), status=400)
    standin.script = lambda request: refusal if "poison" in json.dumps(request.body) else says("fine")
    client = await serve(make_app(standin.model("openai-chat")))
    session = client.session("test.agent", f"s-{uuid.uuid4().hex[:8]}")
    with pytest.raises(RunFailed):
        await (await session.send("poison")).result()
    out = await (await session.send("and now?")).result()
    assert (out.text, len(standin.requests)) == ("fine", 3)
    assert any(note.startswith("set aside: 1 message (0), because") for note in out.notes)
    assert (await (await session.send("still?")).result()).text == "fine"
    assert len(standin.requests) == 4
    [line] = [
        line
        for message in await session.transcript()
        for line in MessageLines().of(message)
        if "set aside" in line
    ]
    assert line.startswith("(message 0 was set aside, because the model's provider refused it: ")


async def test_without_its_reasoning_a_model_is_asked_for_none(standin):
    """Anthropic wants the reasoning of the last message back while it is to reason: so this plan is made without."""
    signature = "messages.1.content.0: Invalid `signature` in `thinking` block"
    expected = "Expected `thinking` or `redacted_thinking`, but found `tool_use`"

    def script(request):
        is_asked = request.body.get("thinking", {}).get("type") == "enabled"
        why = signature if "badsig" in json.dumps(request.body) else expected if is_asked else ""
        return Body(status=400, content=json.dumps({"error": {"message": why}})) if why else says("Done.")

    standin.script = script
    settings = {"max_tokens": 4_000, "anthropic_thinking": {"type": "enabled", "budget_tokens": 1_024}}
    thinking = ThinkingPart(
        type="thinking", text="hm", signature="badsig", provider_metadata={"provider": "anthropic"}
    )
    thought = Message(role="assistant", parts=[thinking, *Message.calls([CALL]).parts])
    run = RunContext(run_id="r", agent_id="test.agent")
    turn = PlanInput(run=run, messages=[Message.user("go"), thought, result()], tools=[])
    plan = await ModelPlanner(standin.model("anthropic"), settings=settings).plan_start(turn)
    assert plan.final_response.text == "Done."
    assert [part.type for part in plan.final_response.parts] == ["set_aside", "text"]
    assert len(standin.requests) == 3
