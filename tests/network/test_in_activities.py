"""Inside an activity only Temporal repeats a request."""

from datetime import timedelta

import httpx2
import pytest
from temporalio.testing import ActivityEnvironment

from sojourn import PlanResult, RateLimited, Retry, RetryReason, ToolError, Toolset, ToolUnavailable
from sojourn.errors import NetworkRetriesExhausted
from sojourn.network import http_client, network_faults, with_network_retry
from sojourn.testing import ScriptedPlanner


@pytest.mark.parametrize(
    ("part", "raised", "after"),
    [
        ((429, "7"), RateLimited, timedelta(seconds=7)),
        (429, RateLimited, None),
        ((503, "3600"), ToolUnavailable, timedelta(hours=1)),
        (500, ToolUnavailable, None),
        ("silent", ToolUnavailable, None),
        ("reset", ToolUnavailable, None),
        ("hang_up", ToolUnavailable, None),
    ],
    ids=str,
)
async def test_a_network_failure_is_an_error_that_temporal_repeats(loopback, client, part, raised, after):
    """The error carries the whole `Retry-After`; the tool's retry policy decides whether to wait that long."""
    server = await loopback(part)
    with pytest.raises(raised) as caught, network_faults("weather"):
        (await client.get(server.url, timeout=server.timeout)).raise_for_status()
    assert caught.value.retry_after == after
    assert "weather" in str(caught.value)
    assert server.count == 1


@pytest.mark.parametrize("part", [400, 401, 404, 501, "babble"])
async def test_every_other_failure_passes_as_it_is(loopback, client, part):
    """A failure that a repetition cannot change is raised unchanged."""
    server = await loopback(part)
    with pytest.raises(httpx2.HTTPError), network_faults("weather"):
        (await client.get(server.url)).raise_for_status()


@pytest.mark.parametrize(
    ("part", "is_unknown"),
    [(425, False), (503, False), (408, True), (500, True), (502, True), (504, True)]
    + [(part, True) for part in ("silent", "reset", "hang_up")],
    ids=str,
)
async def test_the_error_says_whether_the_request_may_have_been_carried_out(
    loopback, client, part, is_unknown
):
    """A request that was sent, and that no answer excludes, may have had its effect."""
    server = await loopback(part)
    with pytest.raises(ToolUnavailable) as caught, network_faults("weather"):
        (await client.get(server.url, timeout=server.timeout)).raise_for_status()
    assert caught.value.outcome_unknown is is_unknown


async def test_a_connection_that_is_refused_had_no_effect(client):
    """A request for which no connection could be opened was not sent."""
    with pytest.raises(ToolUnavailable) as caught, network_faults("weather"):
        await client.get("http://127.0.0.1:9")
    assert not caught.value.outcome_unknown


async def test_the_error_contains_nothing_of_the_request(loopback, client):
    """The error has neither cause nor address: a key in the address must not get into a history."""
    server = await loopback(503)
    with pytest.raises(ToolUnavailable) as caught, network_faults("weather"):
        (await client.get(server.url, params={"key": "s3cret"})).raise_for_status()
    assert caught.value.__cause__ is None
    assert "s3cret" not in str(ToolError.from_error(caught.value))


async def test_a_retry_inside_an_activity_calls_once(loopback, client, slept):
    """A call that `with_network_retry` repeats elsewhere is left to Temporal inside an activity."""
    server = await loopback((429, "7"))

    async def fetch():
        return await with_network_retry(lambda: client.get(server.url), "weather", max_retries=2, sleep=slept)

    with pytest.raises(RateLimited, match="weather is over its rate limit") as caught:
        await ActivityEnvironment().run(fetch)
    assert caught.value.retry_after == timedelta(seconds=7)
    assert (server.count, slept) == (1, [])

    with pytest.raises(NetworkRetriesExhausted):
        await fetch()
    assert (server.count, slept) == (4, [7, 7])


@pytest.fixture
def asked(serve, loopback):
    """Call a tool that makes a request, in a real run; return its result and the server."""

    async def ask(*script):
        server = await loopback(*script)
        tools = Toolset("test.weather")

        @tools.tool(read_only=True, retry=Retry(initial_interval=timedelta(milliseconds=1)))
        async def fetch() -> int:
            """Fetch."""
            async with http_client("weather", trust_env=False) as client:
                return (await with_network_retry(lambda: client.get(server.url), "weather")).status_code

        planner = ScriptedPlanner([PlanResult.calls(fetch.call()), PlanResult.final("done")])
        client = await serve(planner=planner, uses=(tools,))
        await client.execute("test.agent", "go")
        return planner.turns[1].tool_results[0], server

    return ask


async def test_temporal_repeats_a_tool_after_a_network_failure(asked):
    """The third attempt succeeds: three requests in all."""
    result, server = await asked(503, "reset", 200)
    assert (result.result, server.count) == (200, 3)


async def test_a_lasting_failure_is_answered_with_a_hint(asked):
    """A lasting failure makes one request per attempt of the tool, and then a hint."""
    result, server = await asked(503)
    assert server.count == 3
    assert result.retry_hint.reason == RetryReason.TOOL_UNAVAILABLE
    assert "weather cannot answer now (HTTP 503 Service Unavailable)" in result.error.message


async def test_a_long_rate_limit_is_answered_at_once(asked):
    """A rate limit of an hour is answered after one request, with the delay in the hint."""
    result, server = await asked((429, "3600"))
    assert server.count == 1
    assert result.retry_hint.reason == RetryReason.RATE_LIMITED
    assert result.retry_hint.retry_after == timedelta(hours=1)
