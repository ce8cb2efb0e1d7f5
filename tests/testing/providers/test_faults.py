"""Each fault of a provider, and the exception that it becomes through the SDKs."""

import datetime as dt
import email.utils
from functools import cache
from typing import Any

import pytest
from openai import Timeout
from pydantic_ai import exceptions as faults

from sojourn.testing.providers import (
    Body,
    Completion,
    HttpError,
    Protocol,
    ScriptedResponse,
    Text,
    ToolCall,
    says,
)

REFUSED = {
    # error: the status of OpenAI, of Anthropic and of Google, and pydantic-ai's exception
    "bad_request": (400, 400, 400, faults.ModelRequestRejectedError),
    "context_length": (400, 400, 400, faults.ModelContextWindowExceededError),
    "forbidden": (403, 403, 403, faults.ModelAuthenticationError),
    "overloaded": (503, 529, 503, faults.ModelOverloadedError),
    "quota": (429, 400, 429, faults.ModelQuotaExceededError),
    "rate_limit": (429, 429, 429, faults.ModelRateLimitError),
    "server_error": (500, 500, 500, faults.ModelServerError),
    "unauthorized": (401, 401, 400, faults.ModelAuthenticationError),
    "unknown_model": (404, 404, 404, faults.ModelNotFoundError),
}


def status_of(error: str, protocol: Protocol) -> int:
    """The status of an error in a protocol."""
    openai, anthropic, google, _ = REFUSED[error]
    return {"anthropic": anthropic, "google": google}.get(protocol, openai)


HASTY = Timeout(30, read=0.2)
LONG = Completion(
    parts=(Text(text="I look for it. " * 20), ToolCall(name="orders__find", arguments='{"id": 7}'))
)


@pytest.fixture
def fault_of(standin, ask):
    """Send a request to a stand-in with one answer, and return the exception that it raises."""
    model_of = cache(standin.model)

    async def raised_by(
        protocol: Protocol, answer: ScriptedResponse, *, streamed: bool = True, **options: Any
    ) -> Any:
        standin.script = [answer]
        with pytest.raises(faults.AgentRunError) as caught:
            await ask((standin.model if options else model_of)(protocol, **options), streamed=streamed)
        return caught.value

    return raised_by


async def test_a_refused_request_is_the_right_exception(standin, fault_of, protocol, streamed) -> None:
    """The provider's status and body become the right exception after one request."""
    for error, (*_, kind) in REFUSED.items():
        raised = await fault_of(protocol, HttpError(error=error), streamed=streamed)
        assert isinstance(raised, kind), error
        assert isinstance(raised, faults.ModelHTTPError), error
        assert raised.status_code == status_of(error, protocol), error
    assert len(standin.requests) == len(REFUSED)


async def test_an_error_may_have_another_status(fault_of, protocol, streamed) -> None:
    """A script may set the status of an error."""
    raised = await fault_of(protocol, HttpError(error="server_error", status=502), streamed=streamed)
    assert isinstance(raised, faults.ModelServerError)
    assert raised.status_code == 502


async def test_the_exception_has_the_retry_after(fault_of, protocol, streamed) -> None:
    """The exception has the seconds of the header, which has seconds, milliseconds or a date."""
    date = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    forms = [
        {"Retry-After": "7"},
        {"retry-after-ms": "1500"},
        {"Retry-After": email.utils.format_datetime(date, usegmt=True)},
    ]
    limited = [HttpError(error="rate_limit", headers=headers) for headers in forms]
    waits = [(await fault_of(protocol, answer, streamed=streamed)).retry_after for answer in limited]
    assert waits[:2] == [7, 1.5]
    assert 3000 < waits[2] <= 3600


@pytest.mark.parametrize("cut", [0, 0.5])
async def test_a_cut_connection_is_a_connection_error(standin, fault_of, protocol, streamed, cut) -> None:
    """A connection that is closed before or within the answer is a connection error."""
    raised = await fault_of(protocol, LONG.model_copy(update={"cut": cut}), streamed=streamed)
    assert type(raised) is faults.ModelConnectionError
    assert raised.phase == "read"
    assert standin.requests[0].end == "cut"


@pytest.mark.parametrize("hold", [0, 0.5])
async def test_an_answer_that_does_not_come_is_a_timeout(standin, fault_of, protocol, streamed, hold) -> None:
    """A client whose time-out passes disconnects, and the stand-in records it."""
    answer = LONG.model_copy(update={"hold": hold})
    raised = await fault_of(protocol, answer, streamed=streamed, timeout=HASTY)
    assert isinstance(raised, faults.ModelTimeoutError)
    await standin.wait_for_ends()
    assert standin.requests[0].end == "left"


async def test_a_slow_answer_arrives(standin, ask, protocol, streamed) -> None:
    """Delay and pace change only the times of an answer."""
    standin.script = [says("slow but sure", delay=0.05, pace=0.01)]
    response = await ask(standin.model(protocol), streamed=streamed)
    (request,) = standin.requests
    assert response.text == "slow but sure"
    assert request.ended_at - request.arrived_at >= 0.05


async def test_a_stream_may_break_with_an_error(fault_of, protocol) -> None:
    """An error within a stream is the same exception as one in place of the stream, with its status."""
    for error in ("context_length", "overloaded", "quota", "rate_limit", "server_error"):
        raised = await fault_of(protocol, LONG.model_copy(update={"breaks": error}))
        assert isinstance(raised, REFUSED[error][-1]), error
        assert raised.in_stream, error
        assert raised.status_code == status_of(error, protocol), error


async def test_a_plain_answer_cannot_break(fault_of, protocol) -> None:
    """An unstreamed answer that should break halfway is the error itself."""
    raised = await fault_of(protocol, LONG.model_copy(update={"breaks": "overloaded"}), streamed=False)
    assert isinstance(raised, faults.ModelOverloadedError)
    assert not raised.in_stream


async def test_a_stream_may_end_as_if_complete(standin, ask, protocol) -> None:
    """A stream that ends early in order raises no error; only its finish reason is missing."""
    standin.script = [LONG.model_copy(update={"ends": 0.5})]
    response = await ask(standin.model(protocol), streamed=True)
    text = LONG.parts[0].text
    assert 0 < len(response.text) < len(text)
    assert text.startswith(response.text)
    assert response.finish_reason == ("stop" if protocol == "openai-chat" else None)
    assert "finish_reason" not in (response.provider_details or {})


NO_ANSWERS = {
    "no JSON": Body(content="<html>Hello</html>", content_type="text/html"),
    "half of it": Body(content='{"id": "x", "choi'),
    "nothing": Body(),
    "another object": Body(content="{}"),
}


GOOGLE_READS = {"nothing": [False], "another object": [False, True]}
"""Bodies that Google's SDK takes for an empty answer, unstreamed and streamed."""


async def test_an_answer_that_cannot_be_read_raises(standin, ask, protocol) -> None:
    """A stream without events is `UnexpectedModelBehavior`, and most wrong bodies are an API error.

    An object of another shape may raise a `TypeError` of the SDK. Google's SDK reads each line of a stream as an event.
    """
    for name, body in NO_ANSWERS.items():
        for streamed in (False, True):
            kind = faults.UnexpectedModelBehavior if streamed else faults.ModelAPIError
            if protocol == "google":
                if streamed in GOOGLE_READS.get(name, ()):
                    standin.script = [body]
                    assert (await ask(standin.model(protocol), streamed=streamed)).parts == [], name
                    continue
                kind = faults.UnexpectedModelBehavior if name == "nothing" else faults.ModelAPIError
            elif protocol == "openai-chat" and name in {"no JSON", "another object"}:
                kind = faults.UnexpectedModelBehavior
            elif name == "another object" and not streamed:
                kind = TypeError
            standin.script = [body]
            with pytest.raises(kind) as caught:
                await ask(standin.model(protocol), streamed=streamed)
            assert caught.type is kind, name


async def test_an_error_page_is_recognized_by_its_status(fault_of, protocol, streamed) -> None:
    """The page of a proxy, which is no JSON, becomes the exception for its status."""
    page = Body(content="<html>Bad gateway</html>", content_type="text/html", status=502)
    raised = await fault_of(protocol, page, streamed=streamed)
    assert isinstance(raised, faults.ModelServerError)
    assert raised.status_code == 502
