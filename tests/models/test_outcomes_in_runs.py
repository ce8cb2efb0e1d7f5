"""The responses of models in runs, over HTTP and the providers' SDKs: every row of the tables in docs/models.md."""

import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest
from pydantic import BaseModel, Field
from pydantic_ai.models import Model

from sojourn import Agent, AgentTool, App, Client, ModelPlanner, RunFailed, RunPolicy, Toolset, Worker
from sojourn.testing.providers import (
    Completion,
    HttpError,
    Protocol,
    ProviderServer,
    Refusal,
    ReportedUsage,
    Text,
    Thinking,
    ToolCall,
    calls,
    says,
)

ADD = "test__tools__add"
SEARCH = "test__tools__search"


def make_tools() -> Toolset:
    tools = Toolset("test.tools")

    @tools.tool(examples=[{"a": 1, "b": 2}])
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tools.tool
    async def search(query: str = "") -> str:
        """Find nothing."""
        return ""

    return tools


class Sum(BaseModel):
    total: int = Field(ge=0)
    how: str = ""


def add(a: object, b: object, **fields) -> ToolCall:
    return ToolCall(name=ADD, arguments=json.dumps({"a": a, "b": b}), **fields)


@pytest.fixture(scope="module")
async def provider() -> AsyncIterator[ProviderServer]:
    """A provider for the tests whose requests it never refuses."""
    async with ProviderServer() as provider:
        yield provider


@pytest.fixture
def standin(provider: ProviderServer) -> Iterator[ProviderServer]:
    """The provider of this module, without what earlier tests asked of it."""
    provider.requests.clear()
    provider.errors.clear()
    yield provider
    for error in provider.errors:
        raise error


@pytest.fixture
async def unsteady() -> AsyncIterator[ProviderServer]:
    """A provider for one test: a worker remembers a provider that refused a request, and asks it later."""
    async with ProviderServer() as provider:
        yield provider
    for error in provider.errors:
        raise error


def make_app(model: Model, policy: RunPolicy | None = None, **options) -> App:
    planner = ModelPlanner(model, settings={"max_tokens": 1000}, **options)
    return App(agents=[Agent("test.agent", planner=planner, uses=[make_tools()], policy=policy)])


@pytest.fixture(scope="module")
async def workers(
    temporal_address: str, provider: ProviderServer
) -> AsyncIterator[Callable[..., Awaitable[Client]]]:
    """Start a worker once for each protocol, policy and options; return its client."""
    clients: dict[str, Client] = {}
    async with AsyncExitStack() as stack:

        async def start(protocol: Protocol, **options) -> Client:
            key = repr((protocol, options))
            if key not in clients:
                queue = f"q-{uuid.uuid4().hex[:8]}"
                clients[key] = await Client.connect(temporal_address, task_queue=queue)
                app = make_app(provider.model(protocol), **options)
                await stack.enter_async_context(Worker(app, clients[key]))
            return clients[key]

        yield start


@pytest.fixture
def decided(workers, standin, protocol):
    """An agent that a model of the stand-in decides for: its client."""

    async def start(*script, **options):
        standin.script = list(script)
        return await workers(protocol, **options)

    return start


async def run_of(client, text: str = "1 + 2?"):
    run = await client.start("test.agent", text)
    return run, await run.result()


async def results(run) -> list[str]:
    """Return the tools' answers as texts."""
    messages = await run.transcript()
    return [str(each.error or each.result) for message in messages for each in message.tool_results]


async def test_happy_path(decided, standin, traces):
    """A run has a call, its result and the answer, and its requests hold the instructions, the tool and the result."""
    client = await decided(
        Completion(parts=(Text(text="Let me add."), add(1, 2))), "It is 3.", instructions="Use the tool."
    )
    run, out = await run_of(client)
    assert (out.text, out.tool_calls, out.reason) == ("It is 3.", 1, "answered")
    first, second = standin.requests
    assert "Use the tool." in first.instructions
    assert [tool.name for tool in first.tools] == [ADD, SEARCH]
    assert [message.text for message in first.messages if message.role == "user"] == ["1 + 2?"]
    assert [(result.text) for result in second.tool_results] == ["3"]
    assert [(out.usage.input_tokens, out.usage.output_tokens)] == [(20, 10)]
    transcript = await traces(run).check()
    assert transcript[1].text == "Let me add."
    assert await run.transcript() == transcript


async def test_parallel_calls(decided, standin):
    """All calls of a response are carried out, and each result has the id of its call."""
    client = await decided(calls(add(1, 2), add(3, 4), add(5, "x")), "Done.")
    _, out = await run_of(client)
    assert out.tool_calls == 3
    answered = standin.requests[1].tool_results
    assert [result.text for result in answered[:2]] == ["3", "7"]
    assert "must be an integer" in answered[2].text
    assert [call.id for call in standin.requests[1].tool_calls] == [result.id for result in answered]


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic"])  # one with texts, one with objects
@pytest.mark.parametrize("written", ['{"a": 1, "b"', "[1, 2]", "1 + 2"], ids=["cut", "array", "no JSON"])
async def test_arguments_that_are_no_payload(decided, standin, protocol, written):
    """Arguments that are no JSON object are `invalid_arguments`, and the model repairs the call."""
    client = await decided(calls(ToolCall(name=ADD, arguments=written)), calls(add(1, 2)), "It is 3.")
    run, out = await run_of(client)
    assert out.text == "It is 3."
    (answered,) = standin.requests[1].tool_results
    assert answered.text.count("failed: ") == 1
    assert "invalid_arguments" in answered.text or protocol == "anthropic"
    assert (await results(run))[-1] == "3"


@pytest.mark.parametrize("protocol", ["openai-responses"])
async def test_wrong_types_are_repaired_by_the_hint(decided, standin):
    """The answer to a wrong call has the field, the expected type, valid arguments, and the arguments sent."""
    client = await decided(calls(add("one", 2)), calls(add(1, 2)), "It is 3.")
    _, out = await run_of(client)
    assert out.text == "It is 3."
    (answered,) = standin.requests[1].tool_results
    for fact in (
        "failed: invalid_arguments",
        f"call {ADD} again",
        "`a`",
        "integer",
        "one",
        "arguments to complete: ",
    ):
        assert fact in answered.text.replace('\\"', '"')
    assert [tool.name for tool in standin.requests[1].tools] == [ADD, SEARCH]


@pytest.mark.parametrize("protocol", ["openai-responses"])
async def test_an_unknown_tool_is_answered_with_close_names(decided, standin):
    """The run answers a call of an unknown tool, as it answers any other failure."""
    client = await decided(calls(ToolCall(name="test__tools__ad", arguments="{}")), "I cannot.")
    _, out = await run_of(client)
    assert out.text == "I cannot."
    (answered,) = standin.requests[1].tool_results
    assert f"Did you mean {ADD}?" in answered.text


async def test_a_rate_limit_is_waited_for(serve, unsteady, traces):
    """After HTTP 429 Temporal repeats the attempt when `Retry-After` has passed, within one plan of the history."""
    limit = HttpError(error="rate_limit", headers={"Retry-After": "1"})
    unsteady.script = [limit, calls(add(1, 2)), "It is 3."]
    client = await serve(make_app(unsteady.model("openai-responses")))
    run, out = await run_of(client)
    assert out.text == "It is 3."
    first, second, _ = unsteady.requests
    assert second.arrived_at - first.arrived_at >= 1
    assert len(await traces(run).check()) == 4


async def test_a_failing_server_is_asked_again(serve, unsteady):
    """After HTTP 500, an overload and a cut connection the run continues."""
    soon = {"retry-after-ms": "10"}
    unsteady.script = [
        HttpError(error="server_error", headers=soon),
        HttpError(error="overloaded", headers=soon),
        says("a half ans", cut=0.5),
        "Whole.",
    ]
    _, out = await run_of(await serve(make_app(unsteady.model("anthropic"))))
    assert out.text == "Whole."
    assert len(unsteady.requests) == 4


async def test_a_slow_first_byte_times_out_and_is_asked_again(serve, unsteady):
    """A request whose answer does not begin within the time-out is repeated by Temporal."""
    unsteady.script = [says("too late", hold=0), "In time."]
    model = unsteady.model("openai-chat")
    planner = ModelPlanner(model, settings={"max_tokens": 1000, "timeout": 1.5})
    _, out = await run_of(await serve(planner=planner))
    unsteady.release()
    assert out.text == "In time."


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("unauthorized", "ModelUnauthorized"),
        ("unknown_model", "ModelNotFound"),
        ("bad_request", "ModelRejected"),
        ("context_length", "ContextWindowExceeded"),
        ("quota", "QuotaExceeded"),
    ],
)
async def test_an_error_that_does_not_pass_fails_the_run(serve, unsteady, error, code):
    """An error that only a person can repair fails the run after one request."""
    unsteady.script = [HttpError(error=error)]
    client = await serve(make_app(unsteady.model("anthropic")))
    run = await client.start("test.agent", "1 + 2?")
    with pytest.raises(RunFailed) as failed:
        await run.result()
    assert failed.value.code == code
    assert len(unsteady.requests) == 1


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "anthropic"])  # Google's has no text
async def test_a_refusal_is_the_answer(decided, protocol):
    """A model's refusal is the run's answer, with a note."""
    client = await decided(Completion(parts=(Refusal(text="I will not do that."),)))
    _, out = await run_of(client)
    assert out.text == "I will not do that."
    assert "refused" in str(out.notes) or protocol == "anthropic"


@pytest.mark.parametrize("protocol", ["google"])
async def test_an_answer_that_is_cut_off_is_the_answer(decided):
    """An answer that ends at the output limit is the run's answer, with a note."""
    client = await decided(says("The first half", finish="length"))
    _, out = await run_of(client)
    assert out.text == "The first half"
    assert out.notes == ["the answer was cut off at the model's output limit"]


@pytest.mark.parametrize("protocol", ["anthropic"])
async def test_an_empty_answer_at_the_output_limit_fails_the_run(decided):
    """An empty answer at the output limit is the error `OutputLimit`, which names the setting."""
    client = await decided(Completion(parts=(), finish="length"))
    with pytest.raises(RunFailed, match="max_tokens") as failed:
        await run_of(client)
    assert failed.value.code == "OutputLimit"


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_a_call_that_was_cut_off_is_not_executed(decided, standin, finish, traces):
    """Of a response that was cut off the last call is answered, even if its arguments are valid, and the others are executed."""
    client = await decided(calls(add(1, 2), add(3, 4), finish=finish), "It is 3.")
    run, out = await run_of(client)
    assert out.text == "It is 3."
    first, second = standin.requests[1].tool_results
    assert first.text == "3"
    why = "at the output limit of 1,000 tokens" if finish == "length" else "by the provider's content filter"
    assert why in second.text
    assert "not executed" in second.text
    assert "7" not in second.text
    assert any(why in note for note in out.notes)
    sent = [request.max_tokens for request in standin.requests]
    assert sent == [1000, 2000 if finish == "length" else sent[1]]
    await traces(run).check()


@pytest.mark.parametrize("protocol", ["openai-chat", "google"])
async def test_calls_with_the_same_id_are_two_calls(decided, standin, traces):
    """Two calls of one response with the same id are both executed, once, and answered each by an id of its own."""
    client = await decided(calls(add(1, 2, id="same"), add(3, 4, id="same")), "Done.")
    run, out = await run_of(client)
    assert (out.text, out.tool_calls) == ("Done.", 2)
    answered = standin.requests[1].tool_results
    assert [result.text for result in answered] == ["3", "7"]
    assert len({result.id for result in answered}) == 2
    assert [call.id for call in standin.requests[1].tool_calls] == [result.id for result in answered]
    await traces(run).check()


@pytest.mark.parametrize("odd", ["functions.test__tools__add:0", "c" * 41, "x" * 94])
@pytest.mark.parametrize("fallback", ["anthropic", "openai-chat", "openai-responses"])
async def test_a_fallback_gets_ids_that_it_accepts(serve, unsteady, odd, fallback):
    """A model whose call had an odd id fails, and its fallback, of another server, goes on with the run."""
    unsteady.script = lambda request: (
        calls(add(1, 2, id=odd)) if request.number == 0 else HttpError(error="overloaded")
    )
    async with ProviderServer(["It is 3."]) as other:
        planner = ModelPlanner(
            unsteady.model("openai-chat"), fallbacks=[other.model(fallback)], settings={"max_tokens": 1000}
        )
        app = App(agents=[Agent("test.agent", planner=planner, uses=[make_tools()])])
        _, out = await run_of(await serve(app))
        assert (out.text, other.refusals, other.errors) == ("It is 3.", [], [])
        [call], [result] = other.requests[0].tool_calls, other.requests[0].tool_results
        assert call.id == result.id != odd
        [own] = unsteady.requests[1].tool_calls
        assert (own.id == odd) is odd.startswith("functions.")
        assert unsteady.refusals == []


async def test_a_result_without_content_ends_no_run(decided, standin):
    """A tool that returns nothing, and a model that writes only blanks beside its call, end no conversation."""
    client = await decided(Completion(parts=(Text(text="\n\n"), ToolCall(name=SEARCH))), "No hits.")
    _, out = await run_of(client)
    assert (out.text, standin.refusals) == ("No hits.", [])
    assert [result.text for result in standin.requests[1].tool_results] == ["(empty)"]


async def test_a_bad_call_ends_no_run_at_a_strict_chat_template(serve):
    """At a server whose chat template takes one system message, a refused call is corrected, and the last turn is announced."""
    async with ProviderServer(strict_template=True) as standin:
        standin.script = [calls(add("one", 2)), calls(add(1, 2)), "It is 3."]
        policy = RunPolicy(max_tool_rounds=2)
        app = make_app(standin.model("openai-chat"), instructions="Add.", policy=policy)
        _, out = await run_of(await serve(app))
        assert (out.text, standin.refusals) == ("It is 3.", [])


@pytest.mark.filterwarnings("ignore:because is not a valid FinishReason")  # of Google's SDK
async def test_an_unknown_finish_reason_is_ignored(decided):
    """With an unknown finish reason, the parts of the response decide."""
    client = await decided(calls(add(1, 2), finish="because"), says("It is 3.", finish="because"))
    _, out = await run_of(client)
    assert (out.text, out.tool_calls) == ("It is 3.", 1)


async def test_an_empty_answer_is_corrected_once(decided, standin, traces):
    """The correction is part of the same plan, so that the transcript has one answer; the tokens of both are counted."""
    client = await decided(Completion(), "Here I am.")
    run, out = await run_of(client)
    assert out.text == "Here I am."
    assert "empty" in standin.requests[1].messages[-1].text
    assert out.usage.input_tokens == 20
    assert len(await traces(run).check()) == 2


@pytest.mark.parametrize("protocol", ["anthropic"])
async def test_two_empty_answers_fail_the_run(decided, standin):
    """After one correction a second empty answer fails the run."""
    client = await decided(Completion(), Completion(parts=(Thinking(text="hm"),)))
    with pytest.raises(RunFailed) as failed:
        await run_of(client)
    assert failed.value.code == "EmptyAnswer"
    assert len(standin.requests) == 2


# The typed answer.


def final(**fields) -> ToolCall:
    return ToolCall(name="final_result", arguments=json.dumps(fields))


async def test_a_typed_answer(decided, standin):
    """The arguments of `final_result` are validated, and are the run's result."""
    client = await decided(calls(add(1, 2)), calls(final(total=3)), result=Sum)
    _, out = await run_of(client)
    assert out.result == {"total": 3}
    assert json.loads(out.text) == {"total": 3}
    assert [tool.name for tool in standin.requests[0].tools] == [ADD, SEARCH, "final_result"]


@pytest.mark.parametrize("protocol", ["google"])
async def test_a_typed_answer_is_corrected_once(decided, standin):
    """The faults of a typed answer are the result of its call, field by field."""
    client = await decided(calls(final(total=-3)), calls(final(total=3, how="added")), result=Sum)
    _, out = await run_of(client)
    assert out.result == {"total": 3, "how": "added"}
    (answered,) = standin.requests[1].tool_results
    assert "`total` must be at least 0" in answered.text


@pytest.mark.parametrize("protocol", ["openai-chat"])
async def test_a_typed_answer_that_stays_wrong_fails_the_run(decided, standin):
    """Three wrong answers fail the run, with what it used, the corrections and the last answer; a retry goes on after its calls."""
    wrong = [calls(final(total="three")), calls(final()), calls(final(how="by hand"))]
    client = await decided(calls(add(1, 2)), *wrong, calls(final(total=3)), result=Sum)
    run = await client.start("test.agent", "go")
    with pytest.raises(RunFailed) as failed:
        await run.result()
    assert failed.value.code == "MalformedAnswer"
    assert "carried out test.tools.add" in str(failed.value)
    assert "last answer was: " in failed.value.error.cause.message
    assert "by hand" in failed.value.error.cause.message
    assert len(standin.requests) == 4
    events = [event async for event in run.events()]
    noted = [event.text for event in events if event.type == "planner_note"]
    assert [note.startswith("the model was corrected: ") for note in noted] == [True, True]
    assert len([event for event in events if event.type == "usage"]) == 2
    retry = await client.retry(run.id)
    assert (await retry.result()).result == {"total": 3}
    assert len(standin.requests) == 5
    assert [result.text for result in standin.requests[-1].tool_results] == ["3"]


@pytest.mark.parametrize("protocol", ["openai-responses"])
async def test_a_text_that_is_a_valid_answer_counts(decided):
    """A text that is one valid JSON object counts as the typed answer."""
    client = await decided('```json\n{"total": 3}\n```', result=Sum)
    _, out = await run_of(client)
    assert out.result == {"total": 3}


@pytest.mark.parametrize("protocol", ["openai-chat"])
async def test_any_other_text_is_corrected(decided, standin):
    """For any other text the model is asked once to call `final_result`."""
    client = await decided("It is three.", calls(final(total=3)), result=Sum)
    _, out = await run_of(client)
    assert out.result == {"total": 3}
    assert "final_result" in standin.requests[1].messages[-1].text


@pytest.mark.parametrize("protocol", ["anthropic"])
async def test_an_answer_that_is_no_object(decided, standin):
    """An answer that is no object is the field `answer` of the arguments, and the run's result is its value."""
    client = await decided(calls(final(answer=[1, "x"])), calls(final(answer=[1, 2])), result=list[int])
    _, out = await run_of(client)
    assert out.result == [1, 2]
    assert "`answer[1]`" in standin.requests[1].tool_results[0].text


@pytest.mark.parametrize("protocol", ["anthropic"])
async def test_calls_beside_the_answer_are_left_out(decided):
    """Calls in the same response as the typed answer are not carried out, and a note says so."""
    client = await decided(calls(add(1, 2), final(total=3)), result=Sum)
    _, out = await run_of(client)
    assert (out.result, out.tool_calls, out.notes) == (
        {"total": 3},
        0,
        ["1 call beside the answer was not made"],
    )


# The question.


@pytest.mark.parametrize("protocol", ["anthropic", "google"])
async def test_a_question(decided, standin, status_when, traces):
    """After `ask_user` the run waits, and the answer is the result of that call."""
    ask = ToolCall(
        name="ask_user",
        arguments='{"question": "Which?", "missing_fields": ["a"], "tool": "test__tools__add"}',
    )
    client = await decided(
        Completion(parts=(Text(text="One moment."), ask, add(1, 2))),
        "Thanks.",
        policy=RunPolicy(interrupts_allowed=True),
    )
    run = await client.start("test.agent", "add")
    status = await status_when(run, lambda status: status.awaits)
    question = status.awaits[0]
    assert (question.question, question.missing_fields, question.restrict_to_tool) == (
        "Which?",
        ["a"],
        "test.tools.add",
    )
    await run.answer(None, "the first")
    assert (await run.result()).text == "Thanks."
    answer, beside = standin.requests[1].tool_results
    assert answer.text == "the first"
    assert "not executed" in beside.text
    await traces(run).check()


@pytest.mark.parametrize("protocol", ["openai-chat"])
async def test_without_interrupts_nobody_is_asked(decided, standin):
    """Without `interrupts_allowed`, `ask_user` is not offered, and a call of it is a call of an unknown tool."""
    ask = ToolCall(name="ask_user", arguments='{"question": "Which?"}')
    client = await decided(calls(ask), "I decided myself.")
    _, out = await run_of(client)
    assert out.text == "I decided myself."
    assert "ask_user" not in [tool.name for tool in standin.requests[0].tools]
    assert "there is no tool" in standin.requests[1].tool_results[0].text.lower()


@pytest.mark.parametrize("protocol", ["openai-responses"])
async def test_an_empty_question_is_corrected(decided, standin, status_when):
    """An empty question is corrected once, within the same plan."""
    bad, good = ('{"question": ""}', '{"question": "Which?"}')
    client = await decided(
        *(calls(ToolCall(name="ask_user", arguments=written)) for written in (bad, good)),
        "Thanks.",
        policy=RunPolicy(interrupts_allowed=True),
    )
    run = await client.start("test.agent", "add")
    await status_when(run, lambda status: status.awaits)
    await run.answer(None, "the first")
    assert (await run.result()).text == "Thanks."
    assert "question" in standin.requests[1].tool_results[0].text


# Limits, and agents as tools.


@pytest.mark.parametrize("protocol", ["openai-chat"])
async def test_a_model_that_calls_in_the_last_turn_is_asked_once_more(decided, standin):
    """It is told that no tool can be called any more; if it calls again, a person reads why there is no answer."""
    no_calls = RunPolicy(max_tool_calls=0)
    client = await decided(calls(add(1, 2)), calls(add(1, 2)), "It is 3.", policy=no_calls)
    _, out = await run_of(client)
    assert (out.text, out.reason) == ("It is 3.", "max_tool_calls")
    standin.script = [calls(add(1, 2))] * 3
    _, out = await run_of(client)
    assert "the model called a tool in place of an answer" in out.text
    assert "final_response" not in out.text
    assert out.reason == "max_tool_calls"


async def test_the_last_turn_only_answers(decided, standin):
    """When the run's calls are used up, a call is answered as not executed, and the model's text ends the run."""
    client = await decided(calls(add(1, 2)), "It is 3.", policy=RunPolicy(max_tool_calls=0))
    _, out = await run_of(client)
    assert (out.text, out.reason) == ("It is 3.", "max_tool_calls")
    assert "not executed" in standin.requests[1].tool_results[0].text


@pytest.mark.parametrize("protocol", ["anthropic"])
async def test_an_agent_as_a_tool(serve, standin, protocol):
    """A child run has its own system and user messages and its typed answer, and its tokens are in the total usage."""
    standin.script = [
        calls(ToolCall(name="test__experts__ask", arguments='{"question": "1 + 2?"}')),
        calls(final(total=3)),
        "It is 3.",
    ]
    model = standin.model(protocol)

    class Question(BaseModel):
        question: str

    settings = {"max_tokens": 1000}
    expert = Agent("test.expert", planner=ModelPlanner(model, settings=settings))
    ask = AgentTool(
        "ask", args=Question, result=Sum, description="Adds", system="You add.", user="{question}"
    )
    boss = Agent(
        "test.boss",
        planner=ModelPlanner(model, settings=settings),
        uses=[expert.export("test.experts", tools=[ask])],
    )
    client = await serve(App(agents=[boss, expert]))
    out = await client.execute("test.boss", "go")
    assert out.text == "It is 3."
    child = standin.requests[1]
    assert "You add." in child.instructions + child.messages[0].text
    assert [message.text for message in child.messages if message.role == "user"][-1] == "1 + 2?"
    assert (out.telemetry.input_tokens, out.usage.input_tokens, out.total_usage.input_tokens) == (10, 20, 30)


async def test_tokens_are_a_limit(decided, standin):
    """A run that has used up its tokens answers in its last turn, and `max_tokens` of a request is at most what is left."""
    used = ReportedUsage(input=900, output=50)
    client = await decided(calls(add(1, 2), usage=used), "It is 3.", policy=RunPolicy(max_tokens=940))
    _, out = await run_of(client)
    assert out.reason == "max_tokens"
    assert standin.requests[0].max_tokens == 940


@pytest.mark.parametrize(
    ("error", "code", "protocol"),
    [
        ("content_filter", "ContentFiltered", "openai-chat"),
        ("image", "ModelRejected", "openai-chat"),
        ("image", "ModelRejected", "anthropic"),
    ],
)
async def test_a_conversation_goes_on_after_a_message_that_its_provider_refuses(
    unsteady, serve, error, code, protocol
):
    """The turn of the refused message fails; later turns are planned without its content, and know that it was left out."""

    def answer(request):
        return HttpError(error=error) if "poison" in json.dumps(request.body) else says("fine")

    unsteady.script = answer
    client = await serve(make_app(unsteady.model(protocol)))
    session = client.session("test.agent", f"s-{uuid.uuid4().hex[:8]}")
    assert (await (await session.send("hello")).result()).text == "fine"
    with pytest.raises(RunFailed) as failed:
        await (await session.send("poison")).result()
    assert failed.value.code == code
    for _ in range(2):
        assert (await (await session.send("and now?")).result()).text == "fine"
    told = json.dumps(unsteady.requests[-1].body)
    assert "hello" in told
    assert "A message was left out here" in told
    assert "poison" in [message.text for message in await session.transcript()]
    fork = await client.fork(session.run.id, message="and in a fork?")
    turn = client.session("test.agent", (await fork.status()).session_id)
    assert (await (await turn.send("still?")).result()).text == "fine"
