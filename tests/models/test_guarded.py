"""Guarded models over HTTP: one request for each call, limits for each provider, and fallbacks."""

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from pydantic_ai import ToolDefinition
from pydantic_ai.exceptions import ModelRateLimitError
from pydantic_ai.messages import BinaryContent, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.test import TestModel
from temporalio.exceptions import ApplicationError

from sojourn.models.guarded import GuardedModel, estimate, guard
from sojourn.models.provider_errors import translate_provider_errors
from sojourn.models.rate_limits import RequestLimits, limiter_for
from sojourn.testing.providers import HttpError, ReportedUsage, says


def refusing(after=None, error="rate_limit"):
    """Return a refusal, by default for the rate limit, with a `Retry-After` in seconds."""
    return HttpError(error=error, headers={} if after is None else {"retry-after": str(after)})


async def test_a_failing_request_is_one_request(standin, ask, protocol, streamed):
    """A request that fails is sent once, where the SDK alone would send three: only Temporal repeats."""
    model = guard(standin.model(protocol, max_retries=2))
    for number, error in enumerate(("overloaded", "server_error", "rate_limit"), 1):
        standin.script = [refusing(0, error)] * 3
        with pytest.raises(ApplicationError), translate_provider_errors(model.system):
            await asyncio.wait_for(ask(model, streamed=streamed), 60)
        assert len(standin.requests) == number


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic"])  # Google's SDK repeats nothing by itself
@pytest.mark.parametrize("error", ["rate_limit", "server_error"])
async def test_without_a_guard_the_sdk_repeats(standin, ask, protocol, error):
    """An unguarded model's SDK repeats a failed request, which shows that the guard prevents it."""
    standin.script = lambda _: HttpError(error=error, headers={"retry-after-ms": "1"})
    with pytest.raises(ApplicationError), translate_provider_errors("x"):
        await ask(standin.model(protocol, max_retries=2))
    assert len(standin.requests) == 3


async def test_the_time_out_is_the_providers(standin, ask, protocol, streamed, monkeypatch):
    """The read time-out of `SOJOURN_TIMEOUT_<PROVIDER>` applies to a request."""
    standin.script = [says("late", hold=0)]
    model = guard(standin.model(protocol))
    monkeypatch.setenv(f"SOJOURN_TIMEOUT_{model.system.upper()}", "10/0.1/10")
    with pytest.raises(ApplicationError) as caught, translate_provider_errors(model.system):
        await ask(model, streamed=streamed)
    assert caught.value.type == "ModelTimeout"


async def test_a_guard_changes_nothing_else(standin, ask, protocol, streamed):
    """A guarded model has the model's name, provider and answer, and is not guarded again."""
    standin.script = [says("Hello to you")]
    model = standin.model(protocol)
    ours = guard(model)
    assert (ours.model_id, ours.system, ours.base_url) == (model.model_id, model.system, model.base_url)
    assert guard(ours) is ours
    assert (await ask(ours, streamed=streamed)).text == "Hello to you"


@pytest.mark.filterwarnings("error")
async def test_a_model_without_settings_causes_no_warning(ask):
    """A model that supports no settings, such as pydantic-ai's `TestModel`, is given none."""
    assert (await ask(guard(TestModel(call_tools=[])))).text


async def test_a_refusal_delays_the_next_request(standin, ask, protocol, streamed):
    """After a refusal, another model with the same provider and key sends nothing, and Temporal gets the delay."""
    standin.script = [refusing(60)]
    one, two = guard(standin.model(protocol)), guard(standin.model(protocol))
    with pytest.raises(ModelRateLimitError):
        await ask(one, streamed=streamed)
    with pytest.raises(ApplicationError) as caught, translate_provider_errors(two.system):
        await ask(two, streamed=streamed)
    assert len(standin.requests) == 1
    assert timedelta(seconds=55) < caught.value.next_retry_delay <= timedelta(seconds=60)
    assert (caught.value.type, caught.value.non_retryable) == ("ModelRateLimited", False)
    assert "by this worker's own limit" in caught.value.message


@pytest.mark.parametrize("protocol", ["openai-chat"])
async def test_no_more_requests_than_allowed_are_in_flight(standin, ask, protocol, streamed):
    """As the provider counts them, no more requests are in flight than the limit."""
    standin.script = lambda _: says("Hello", hold=0)
    models = [guard(standin.model(protocol), RequestLimits(concurrency=2)) for _ in range(3)]
    tasks = [asyncio.create_task(ask(each, streamed=streamed)) for each in models * 2]
    for answered in (2, 4, 6):
        await standin.wait_for_arrivals(answered)
        await standin.wait_for_held(2)
        standin.release()
        await standin.wait_for_ends(answered)
    await asyncio.gather(*tasks)
    assert standin.most_in_flight == 2
    assert len(standin.requests) == 6


async def test_the_provider_s_usage_replaces_the_estimate(standin, ask, protocol, streamed):
    """After a response the bucket is charged with the tokens that the provider counted."""
    standin.script = [says("Hello", usage=ReportedUsage(input=39_000, output=1000))]
    model = standin.model(protocol)
    await ask(guard(model, RequestLimits(tokens_per_minute=60_000)), streamed=streamed)
    allowance, now = limiter_for(model).allowance, asyncio.get_running_loop().time()
    assert 20 < allowance.wait(60_000, now) <= 40  # less by the time that has passed


@pytest.mark.parametrize("protocol", ["openai-chat"])
async def test_a_cancelled_request_releases_its_slot(standin, ask, protocol, streamed):
    """After a request is cancelled, the next one gets its slot."""
    standin.script = [says("never read", hold=0), says("Hello")]
    model = guard(standin.model(protocol), RequestLimits(concurrency=1))
    task = asyncio.create_task(ask(model, streamed=streamed))
    await standin.wait_for_held()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await ask(model, streamed=streamed)).text == "Hello"


def test_a_model_serves_one_event_loop_after_the_other(monkeypatch):
    """A client that pydantic-ai has made is replaced in another event loop, since its connections belong to the first."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    model = guard(infer_model("openai:gpt-5"))

    async def client():
        model._ready(None)
        return model.client._client

    one, two = asyncio.run(client()), asyncio.run(client())
    assert one is not two


def test_the_client_of_a_model_has_room_for_every_activity(monkeypatch):
    """The HTTP client allows a connection for each of 500 activities."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    pool = infer_model("anthropic:claude-sonnet-4-5").client._client._transport._pool
    assert pool._max_connections >= 500


# Fallbacks.


@pytest.mark.parametrize(
    "error",
    ["rate_limit", "server_error", "overloaded", "quota", "unauthorized", "unknown_model", "bad_request"],
)
async def test_the_next_model_answers_when_one_fails(standin, ask, streamed, error):
    """The fallback is asked after one failed request to the first model, whatever the error is."""
    standin.script = [refusing(0, error), says("Hello")]
    model = guard(FallbackModel(standin.model("openai-chat"), standin.model("anthropic")))
    assert (await ask(model, streamed=streamed)).text == "Hello"
    assert [request.protocol for request in standin.requests] == ["openai-chat", "anthropic"]


async def test_a_provider_at_its_limit_is_skipped_without_a_request(standin, ask, streamed):
    """Each model of a `FallbackModel` obeys the limits of its own provider."""
    standin.script = [refusing(60), says("one"), says("two")]
    model = guard(FallbackModel(standin.model("openai-chat"), standin.model("anthropic")))
    assert [(await ask(model, streamed=streamed)).text for _ in range(2)] == ["one", "two"]
    protocols = [request.protocol for request in standin.requests]
    assert protocols == ["openai-chat", "anthropic", "anthropic"]


async def test_when_every_model_fails_the_shortest_delay_applies(standin, ask, streamed):
    """After one request to each model there is one error for Temporal, which names them all."""
    standin.script = [refusing(45), refusing(20, "overloaded")]
    model = guard(FallbackModel(standin.model("openai-chat"), standin.model("anthropic")))
    with pytest.raises(ApplicationError) as caught, translate_provider_errors(model.system):
        await ask(model, streamed=streamed)
    assert (caught.value.type, caught.value.non_retryable) == ("ModelOverloaded", False)
    assert caught.value.next_retry_delay == timedelta(seconds=20)
    assert all(each.model_name in caught.value.message for each in model.models)
    assert len(standin.requests) == 2


async def test_when_every_model_fails_for_good_the_error_is_final(standin, ask, streamed):
    """The error is not repeated when no repetition can help any of the models."""
    standin.script = [refusing(error="unauthorized"), refusing(error="unknown_model")]
    model = guard(FallbackModel(standin.model("openai-chat"), standin.model("anthropic")))
    with pytest.raises(ApplicationError) as caught, translate_provider_errors(model.system):
        await ask(model, streamed=streamed)
    assert (caught.value.type, caught.value.non_retryable) == ("ModelUnauthorized", True)


async def test_a_broken_stream_is_not_continued_by_the_fallback(standin, ask):
    """Since its text was already sent to followers, a broken stream is an error, and Temporal repeats the request."""
    standin.script = [says("A long answer that nobody reads to its end", cut=0.7)]
    model = guard(FallbackModel(standin.model("openai-chat"), standin.model("anthropic")))
    with pytest.raises(ApplicationError) as caught, translate_provider_errors(model.system):
        await ask(model, streamed=True)
    assert caught.value.type == "ModelUnavailable"
    assert len(standin.requests) == 1


async def test_a_user_s_fallback_model_is_not_changed(standin):
    """The guarded models are in a copy of the user's `FallbackModel`."""
    given = FallbackModel(standin.model("openai-chat"), standin.model("anthropic"))
    ours = guard(given)
    assert [type(each) is GuardedModel for each in (*given.models, *ours.models)] == [
        False,
        False,
        True,
        True,
    ]


async def test_limits_apply_to_each_model_of_a_fallback_model(standin):
    """The planner's limits apply to each model of a `FallbackModel` object."""
    given = FallbackModel(standin.model("openai-chat"), standin.model("anthropic"))
    ours = guard(given, RequestLimits(tokens_per_minute=500))
    for each in ours.models:
        each._ready(None)
    assert [limiter_for(each).allowance.rate for each in given.models] == [500, 500]


# The estimate.


def test_the_estimate_is_a_third_of_the_characters_and_500():
    """Texts and arguments are counted, images are not."""
    assert estimate([]) == 500
    texts = [ModelRequest.user_text_prompt("x" * 300), ModelResponse(parts=[TextPart("y" * 300)])]
    assert estimate(texts) == 700
    calls = [
        ModelResponse(parts=[ToolCallPart("t", '{"a": "' + "z" * 291 + '"}'), ToolCallPart("t", {"a": 1})])
    ]
    assert estimate(calls) == 600 + len("{'a': 1}") // 3
    image = BinaryContent(b"x" * 9000, media_type="image/png")
    assert estimate([ModelRequest.user_text_prompt(["x" * 300, image])]) == 600
    assert all(estimate(more) > estimate(less) for less, more in pairwise([[], texts[:1], texts]))


def test_the_estimate_counts_the_tools():
    """The schemas and descriptions of tools, which every request holds, are counted."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": "x" * 300}}}
    tool = ToolDefinition(name="t", description="y" * 300, parameters_json_schema=schema)
    bare = ToolDefinition(name="t", parameters_json_schema=schema)
    for tools, characters in (([bare], len(str(schema))), ([tool, tool], 2 * len(str(schema)) + 600)):
        offered = ModelRequestParameters(function_tools=tools)
        assert estimate([], offered) == 500 + characters // 3
        assert estimate([], ModelRequestParameters(output_tools=tools)) == estimate([], offered)
