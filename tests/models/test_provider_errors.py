"""Failed model requests become the errors of the table in `provider_errors`."""

import json
import socket
from dataclasses import replace
from datetime import timedelta
from functools import cache
from itertools import pairwise

import httpx2
import pytest
from openai import Timeout
from pydantic_ai import exceptions as raised
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models import infer_model
from pydantic_ai.models.fallback import FallbackModel
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from sojourn import ToolError
from sojourn.models.error_excerpt import error_excerpt
from sojourn.models.guarded import guard
from sojourn.models.provider_errors import (
    LONGEST_DELAY,
    LONGEST_RETRY_AFTER,
    application_error_of,
    foreign_host,
    provider_title,
    translate_provider_errors,
)
from sojourn.testing.providers import Body, HttpError, says
from sojourn.testing.providers.clients import model_of


def http(category, status, **fields):
    """Return an error with a status, as pydantic-ai raises it."""
    return raised.ModelHTTPError.for_category(category, status_code=status, model_name="gpt-5", **fields)


def api(category, **fields):
    """Return an error without a status, as inside a stream."""
    return category("gpt-5", "it failed", **fields)


TRANSIENT = [
    (http(raised.ModelRateLimitError, 429), "ModelRateLimited", "over its rate limit (HTTP 429"),
    (api(raised.ModelRateLimitError, in_stream=True), "ModelRateLimited", "(reported in its stream)"),
    (api(raised.ModelRateLimitError), "ModelRateLimited", "(by this worker's own limit)"),
    (api(raised.ModelOverloadedError), "ModelOverloaded", "(reported without a status)"),
    (raised.ConcurrencyLimitExceeded("full"), "ModelRateLimited", "over its rate limit"),
    (http(raised.ModelOverloadedError, 529), "ModelOverloaded", "cannot answer now (HTTP 529)"),
    (http(raised.ModelUnavailableError, 503), "ModelUnavailable", "HTTP 503 Service Unavailable"),
    (http(raised.ModelServerError, 500), "ModelUnavailable", "HTTP 500 Internal Server Error"),
    (http(raised.ModelServerError, 502), "ModelUnavailable", "HTTP 502 Bad Gateway"),
    (http(None, 409), "ModelUnavailable", "HTTP 409 Conflict"),
    (http(None, 425), "ModelUnavailable", "HTTP 425 Too Early"),
    (http(None, 408), "ModelTimeout", "timed out"),
    (api(raised.ModelConnectionError), "ModelUnavailable", "Unable to connect to OpenAI (connection failed)"),
    (api(raised.ModelTimeoutError), "ModelTimeout", "timed out"),
    (raised.ModelRequestTimeout("gpt-5", 3.0), "ModelTimeout", "timed out"),
    (ConnectionResetError(104, "reset"), "ModelUnavailable", "The connection to OpenAI broke off"),
    (TimeoutError("read"), "ModelTimeout", "timed out"),
]

TOO_LONG = [
    (500, "the request exceeds the available context size. try increasing the context size"),
    (
        500,
        "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with less",
    ),
    (500, "prompt too long; exceeded max context length by 900 tokens"),
    (503, "The model's context window is full"),
    (
        413,
        "Request too large for model `llama` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce",
    ),
    (
        429,
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 99000. The input must be reduced",
    ),
]
CATEGORIES = {
    403: raised.ModelAuthenticationError,
    404: raised.ModelNotFoundError,
    413: None,
    429: raised.ModelRateLimitError,
    500: raised.ModelServerError,
    503: raised.ModelUnavailableError,
}
BY_WORDS = [
    *(
        (status, {"error": {"message": words}}, "ContextWindowExceeded", "longer than gpt-5")
        for status, words in TOO_LONG
    ),
    (
        500,
        "prompt too long; exceeded max context length by 900 tokens",
        "ContextWindowExceeded",
        "longer than gpt-5",
    ),
    (
        500,
        {"error": {"message": "Value is not callable: null (jinja template)"}},
        "ModelRejected",
        "is not callable",
    ),
    (
        403,
        {"error": "Content violates usage guidelines. Failed check: BIO"},
        "ContentFiltered",
        "content filter of OpenAI",
    ),
    (403, "<html>Request blocked. Ref 18.abc</html>", "ModelRejected", "a firewall or a proxy may block"),
    (
        404,
        {"error": {"message": "No endpoints found that support image input"}},
        "ModelRejected",
        "support image input",
    ),
]
BY_STATUS = [
    (
        429,
        "Rate limit reached for gpt-4 on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000.",
        "ModelRateLimited",
    ),
    (500, "The server had an error while processing your request.", "ModelUnavailable"),
    (503, "Loading model", "ModelUnavailable"),
    (403, "Your API key does not have permission to use the resource.", "ModelUnauthorized"),
    (404, "The model `gpt-5` does not exist or you do not have access to it.", "ModelNotFound"),
]

PERMANENT = [
    *((http(CATEGORIES[status], status, body=body), kind, text) for status, body, kind, text in BY_WORDS),
    (http(raised.ModelAuthenticationError, 401), "ModelUnauthorized", "set OPENAI_API_KEY"),
    (http(raised.ModelAuthenticationError, 403), "ModelUnauthorized", "(HTTP 403 Forbidden)"),
    (http(raised.ModelQuotaExceededError, 429), "QuotaExceeded", "add credit or raise its limit"),
    (http(raised.ModelQuotaExceededError, 402), "QuotaExceeded", "used up its quota"),
    (
        http(
            raised.ModelRateLimitError,
            429,
            body={"error": {"message": "Your prepayment credits are depleted. Please go to AI Studio."}},
        ),
        "QuotaExceeded",
        "add credit or raise its limit",
    ),
    (http(raised.ModelNotFoundError, 404), "ModelNotFound", "has no model gpt-5"),
    (
        http(raised.ModelNotFoundError, 404, suggested_model_id="gpt-5-mini"),
        "ModelNotFound",
        "did you mean gpt-5-mini?",
    ),
    (http(raised.ModelContextWindowExceededError, 400), "ContextWindowExceeded", "larger context window"),
    (raised.ContentFilterError("filtered"), "ContentFiltered", "content filter of OpenAI"),
    (
        http(raised.ModelRequestRejectedError, 400, body={"error": {"code": "content_filter"}}),
        "ContentFiltered",
        "content filter of OpenAI refused the request (HTTP 400 Bad Request)",
    ),
    (http(None, 400, body={"code": "data_inspection_failed"}), "ContentFiltered", "content filter"),
    *(
        (http(None, 400, body={"error": {"message": words}}), "ContentFiltered", "change what is asked")
        for words in (
            "Output blocked by content filtering policy",
            "The prompt was blocked by the content filter.",
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
            "Your request was rejected as a result of our safety system.",
            "Your prompt was flagged as potentially violating our usage policy.",
        )
    ),
    *(
        (http(None, 400, body={"error": {"message": words}}), "ModelRejected", words)
        for words in ("Invalid value: 'content' is blocked", "tools[0] was rejected by the content type rule")
    ),
    (
        http(raised.ModelRequestRejectedError, 400, body={"error": {"code": ["content_filter"]}}),
        "ModelRejected",
        "refused the request",
    ),
    (
        http(raised.ModelRequestRejectedError, 400),
        "ModelRejected",
        "refused the request (HTTP 400 Bad Request).",
    ),
    (http(raised.ModelRequestRejectedError, 422), "ModelRejected", "(HTTP 422"),
    (http(None, 413), "ModelRejected", "(HTTP 413"),
    (
        raised.UserError("Set the `OPENAI_API_KEY` variable."),
        "ModelMisconfigured",
        "Set the OPENAI_API_KEY variable",
    ),
]

UNEXPLAINED = [
    (api(raised.ModelAPIError), "ModelFailed", "OpenAI request failed."),
    (api(raised.ModelAPIError, body={"message": "odd"}), "ModelFailed", "OpenAI request failed: odd."),
    (raised.UnexpectedModelBehavior("bad", body="<html>"), "ModelFailed", "an answer that cannot be read"),
]


def test_an_error_that_may_pass_is_repeated_after_a_delay(subtests: pytest.Subtests) -> None:
    """An error that may pass has a type, a sentence and a delay, with which Temporal's attempts outlast an outage."""
    for error, kind, text in TRANSIENT:
        with subtests.test(str((error, kind, text))):
            known = application_error_of(error, "openai")
            assert (known.type, known.non_retryable) == (kind, False)
            assert timedelta(seconds=1) <= known.next_retry_delay <= timedelta(seconds=1.3)
            assert text in known.message


def test_the_status_counts_where_the_words_say_nothing_else(subtests: pytest.Subtests) -> None:
    """Only words of a conversation that is too long, of a template or of a filter count more than the status."""
    for status, words, kind in BY_STATUS:
        with subtests.test(status=status, words=words, kind=kind):
            error = application_error_of(
                http(CATEGORIES[status], status, body={"error": {"message": words}}), "openai"
            )
            assert error
            assert error.type == kind


def test_an_error_that_a_person_must_repair_is_not_repeated(subtests: pytest.Subtests) -> None:
    """An error that a person must repair is final, and its sentence says what to do."""
    for error, kind, text in PERMANENT:
        with subtests.test(str((error, kind, text))):
            known = application_error_of(error, "openai")
            assert (known.type, known.non_retryable, known.next_retry_delay) == (kind, True, None)
            assert text in known.message


@pytest.mark.parametrize(("error", "kind", "text"), UNEXPLAINED)
def test_an_error_without_a_known_cause_is_repeated_like_a_planner_s_exception(error, kind, text):
    """An error without a known cause is not final, and has no delay of its own."""
    known = application_error_of(error, "openai")
    assert (known.type, known.non_retryable, known.next_retry_delay) == (kind, False, None)
    assert text in known.message


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyError("x"), raised.ModelRetry("x"), FileNotFoundError("x")]
)
def test_an_exception_that_is_no_failure_of_a_request_passes(error):
    """An exception of the program is not translated."""
    assert application_error_of(error, "openai") is None
    with pytest.raises(type(error)) as caught, translate_provider_errors("openai"):
        raise error
    assert caught.value is error


def test_the_delay_is_the_provider_s(subtests: pytest.Subtests) -> None:
    """The delay is what the provider asks for, at most an hour."""
    rows = [
        ({"retry-after": "7"}, timedelta(seconds=7)),
        ({"retry-after": "0"}, timedelta(0)),
        ({"retry-after-ms": "1500"}, timedelta(seconds=1.5)),
        ({"retry-after": "900"}, timedelta(minutes=15)),
        ({"retry-after": "86400"}, LONGEST_RETRY_AFTER),
    ]
    for headers, delay in rows:
        with subtests.test(headers=headers, delay=delay):
            known = application_error_of(http(raised.ModelRateLimitError, 429, headers=headers), "openai")
            assert known.next_retry_delay == delay


def test_the_sentence_has_the_provider_s_delay():
    """The error's text says in how many seconds the attempt is repeated."""
    known = application_error_of(
        http(raised.ModelRateLimitError, 429, headers={"retry-after": "7"}), "anthropic"
    )
    assert known.message == "Anthropic is over its rate limit (HTTP 429 Too Many Requests); try again in 7 s."


def test_delays_grow_and_the_attempts_of_an_activity_outlast_an_outage_of_100_minutes():
    """The delays begin with 1 s, double, and end at 10 minutes."""
    error = http(raised.ModelServerError, 500)
    delays = [application_error_of(error, "openai", attempt).next_retry_delay for attempt in range(1, 20)]
    assert all(two > one or two == LONGEST_DELAY for one, two in pairwise(delays))
    assert delays[-1] == LONGEST_DELAY
    assert sum(delays, timedelta(0)) >= timedelta(minutes=100)


def test_a_short_retry_after_is_used_for_five_attempts():
    """From the sixth attempt on the growing delay is the minimum, so that an hour's outage does not use up all attempts."""
    error = http(raised.ModelRateLimitError, 429, headers={"retry-after": "1"})
    assert application_error_of(error, "openai", 5).next_retry_delay == timedelta(seconds=1)
    assert application_error_of(error, "openai", 6).next_retry_delay >= timedelta(seconds=32)


def test_the_provider_s_delay_is_the_minimum():
    """A provider's delay is not shortened to the growing delay."""
    error = http(raised.ModelRateLimitError, 429, headers={"retry-after": "1800"})
    assert application_error_of(error, "openai", 9).next_retry_delay == timedelta(minutes=30)


async def test_the_attempt_is_the_activity_s():
    """Inside an activity the delay grows with the number of its attempt."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=4)

    async def ask():
        with translate_provider_errors("openai"):
            raise http(raised.ModelServerError, 500)

    with pytest.raises(ApplicationError) as caught:
        await environment.run(ask)
    assert timedelta(seconds=8) <= caught.value.next_retry_delay <= timedelta(seconds=10.4)


# Several models.


def group(*errors):
    """Return the error that pydantic-ai raises when every model failed."""
    return raised.FallbackExceptionGroup("All models failed", list(errors))


def test_several_models_are_repeated_as_soon_as_one_may_answer():
    """The error of several models has the shortest delay and the type of that failure, and names each failure."""
    known = application_error_of(
        group(
            http(raised.ModelAuthenticationError, 401),
            http(raised.ModelRateLimitError, 429, headers={"retry-after": "60"}),
            http(raised.ModelServerError, 500, headers={"retry-after": "5"}),
        ),
        "openai",
    )
    assert (known.type, known.non_retryable) == ("ModelUnavailable", False)
    assert known.next_retry_delay == timedelta(seconds=5)
    for text in ("Every model failed.", "HTTP 401", "in 60 s", "in 5 s"):
        assert text in known.message


def test_several_errors_that_a_person_must_repair_are_not_repeated():
    """The error of several final failures is final, with the type of the first."""
    known = application_error_of(
        group(http(raised.ModelNotFoundError, 404), http(raised.ModelAuthenticationError, 401)), "openai"
    )
    assert (known.type, known.non_retryable, known.next_retry_delay) == ("ModelNotFound", True, None)


def test_several_errors_of_which_one_has_no_known_cause_are_repeated():
    """A failure without a known cause makes the error repeatable, even in a group inside the group."""
    known = application_error_of(
        group(http(raised.ModelNotFoundError, 404), group(api(raised.ModelAPIError), ValueError("s3cret"))),
        "openai",
    )
    assert (known.type, known.non_retryable, known.next_retry_delay) == ("ModelFailed", False, None)
    assert "s3cret" not in known.message


# Texts.


def test_the_excerpt_is_bounded_and_harmless(subtests: pytest.Subtests) -> None:
    """An excerpt of a provider's message has no keys, no URLs and no quotation of a prompt."""
    rows = [
        ({"error": {"message": "Unknown parameter: 'x'."}}, "Unknown parameter: 'x'"),
        ({"message": "too\n\x1b[31mmany `tools`"}, "too [31mmany tools"),
        ({"error": "odd"}, "odd"),
        ({"detail": "odd"}, "odd"),
        ("text", "text"),
        ("<html>text", ""),
        ('{"error": "tex', ""),
        (None, ""),
        ({"message": "see https://u:p@host/x?key=1 now"}, "see [address] now"),
        ({"message": "Incorrect API key provided: sk-proj-12345678"}, "Incorrect API key provided: [key]"),
        ({"message": "bad token abcdefghijklmnopqrstuvwxyz0123456789"}, "bad token [key]"),
        ({"message": f"Invalid value: '{'my prompt ' * 9}' here"}, "Invalid value: [quoted] here"),
        ({"message": f'Invalid value: "{"my prompt " * 900}'}, "Invalid value: [quoted]"),
        ({"message": "1 error [type=x, input_value='my prompt']"}, "1 error [type=x"),
        ({"message": "[{'type': 'x', 'input': 'my prompt'}]"}, "[{'type': 'x'"),
        ({"message": "'my prompt'" + " is bad" * 9 + " for 'x'"}, "'my prompt'" + " is bad" * 9 + " for 'x'"),
        ({"message": "x" * 301}, "[quoted]"),
        ({"message": "a" * 20_000 + " 'my prompt"}, "[quoted]"),
    ]
    for body, text in rows:
        with subtests.test(str((body, text))):
            error = http(raised.ModelRequestRejectedError, 400, body=body)
            assert error_excerpt(error) == text


REFUSALS = [
    (
        "Invalid schema for function 'demo__srv__odd': schema must have type 'object' and not have "
        "'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
    ),
    "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 150 instead",
    "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported",
    "tools.3.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'",
    (
        "Invalid schema for function 'ops_mcp_fs_read_file_of_a_share_4bd7947a64': In context=('properties', 'values'), "
        "array schema missing items"
    ),
]


def test_the_excerpt_has_the_provider_s_words_whole() -> None:
    """A refusal of a tool or a setting is shown word for word, with the names that it quotes."""
    for message in REFUSALS:
        error = http(raised.ModelRequestRejectedError, 400, body={"error": {"message": f"{message}."}})
        assert error_excerpt(error, {"ops_mcp_fs_read_file_of_a_share_4bd7947a64"}) == message


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    """The cause of a template's error is its last line."""
    trace = "Unable to generate parser for this template:\n" + "at line 1, column 2\n" * 90
    error = http(
        None,
        400,
        body={"message": f"{trace}{{{{ fail('System\nError: System message must be at the beginning."},
    )
    text = error_excerpt(error)
    assert text.startswith("Unable to generate parser for this template: at line 1")
    assert text.endswith("Error: System message must be at the beginning")
    assert len(text) <= 600


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "openai:gpt-5",
            "Set the OPENAI_API_KEY environment variable or pass it via OpenAIProvider(api_key=...)",
        ),
        ("gpt-55:x", "Unknown model: gpt-55:x"),
    ],
)
def test_a_model_that_cannot_be_made_is_misconfigured(name, text, monkeypatch):
    """A missing key and an unknown provider are final errors with pydantic-ai's own text, without its advertisement."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ApplicationError) as caught, translate_provider_errors(name.split(":")[0]):
        infer_model(name)
    assert (caught.value.type, caught.value.non_retryable) == ("ModelMisconfigured", True)
    assert text in caught.value.message
    assert "Pydantic AI" not in caught.value.message


def test_an_error_about_credentials_quotes_nothing():
    """The provider's message about credentials is left out, since OpenAI's repeats a part of the key."""
    body = {"error": {"message": "Incorrect API key provided: abc."}}
    assert (
        "abc"
        not in application_error_of(http(raised.ModelAuthenticationError, 401, body=body), "openai").message
    )


def test_each_provider_has_its_title(subtests: pytest.Subtests) -> None:
    """An unknown provider's title is its own name, made printable."""
    rows = [
        ("anthropic", "Anthropic", "set ANTHROPIC_API_KEY to a key that may use gpt-5."),
        ("google", "Google", "set GOOGLE_API_KEY to a key"),
        ("openai-responses", "OpenAI", "set OPENAI_API_KEY to a key"),
        ("gateway/openai-chat", "OpenAI", "set OPENAI_API_KEY to a key"),
        ("bedrock", "Amazon Bedrock", "give it credentials that may use gpt-5."),
        ("my\x1blab", "my lab", "give it credentials"),
        ("", "The model's provider", "give it credentials"),
    ]
    for provider, title, repair in rows:
        with subtests.test(provider=provider, title=title, repair=repair):
            assert provider_title(provider) == title
            assert (
                repair in application_error_of(http(raised.ModelAuthenticationError, 401), provider).message
            )


def test_a_foreign_server_is_named_by_its_host() -> None:
    """A server that speaks the API of OpenAI or Anthropic is not called by their names, unless it is theirs."""
    rows = [
        ("openai-chat", "http://llm.example.org:8080/v1", "llm.example.org:8080"),
        ("openai-responses", "https://eu.api.openai.com/v1", None),
        ("openai-responses", "https://notopenai.com/v1", "notopenai.com"),
        ("anthropic", "https://api.anthropic.com", None),
        ("anthropic", "http://127.0.0.1:9", "127.0.0.1:9"),
    ]
    for protocol, url, host in rows:
        model, _ = model_of(protocol, url)
        assert foreign_host(model) == foreign_host(FallbackModel(model)) == host
    error = http(raised.ModelRequestRejectedError, 400, body={"message": "No such template"})
    known = application_error_of(error, "openai", host="llm.example.org")
    assert known.message == "llm.example.org refused the request (HTTP 400 Bad Request): No such template."


# Over HTTP.

ROWS = [
    ("rate_limit", "ModelRateLimited", False),
    ("overloaded", "ModelOverloaded", False),
    ("server_error", "ModelUnavailable", False),
    ("unauthorized", "ModelUnauthorized", True),
    ("forbidden", "ModelUnauthorized", True),
    ("quota", "QuotaExceeded", True),
    ("unknown_model", "ModelNotFound", True),
    ("context_length", "ContextWindowExceeded", True),
    ("bad_request", "ModelRejected", True),
]


@pytest.fixture
def failing(standin, ask, protocol, streamed):
    """Send a request to a provider with these answers, and return the error that Temporal acts on."""
    model_of = cache(standin.model)

    async def fail(*answers, **options):
        standin.script = list(answers)
        model = (standin.model if options else model_of)(protocol, **options)
        with pytest.raises(ApplicationError) as caught, translate_provider_errors(model.system):
            await ask(model, [ModelRequest.user_text_prompt("My s3cret prompt")], streamed=streamed)
        return caught.value

    return fail


async def test_errors_of_providers_through_their_sdks(failing, standin):
    """Each provider's own status and body, through its SDK, becomes the error of the table's row."""
    for error, kind, is_final in ROWS:
        known = await failing(HttpError(error=error, headers={"retry-after": "3"}))
        assert (known.type, known.non_retryable) == (kind, is_final), error
        assert known.next_retry_delay == (None if is_final else timedelta(seconds=3)), error
        for text in (known.message, json.dumps(str(ToolError.from_error(known)))):
            assert "sk-" not in text
            assert standin.url not in text
            assert "s3cret" not in text


async def test_a_connection_cut_in_mid_answer(failing):
    """A connection that is cut in mid-answer is `ModelUnavailable`, which is repeated."""
    known = await failing(says("A long answer that nobody reads", cut=0.5))
    assert (known.type, known.non_retryable) == ("ModelUnavailable", False)


async def test_a_connection_cut_before_the_answer(failing):
    """A connection that is cut before the answer, as when a provider restarts, is repeated after a delay."""
    known = await failing(says("", cut=0))
    assert (known.type, known.next_retry_delay is not None) == ("ModelUnavailable", True)


async def test_an_answer_that_does_not_come(failing):
    """The read time-out of the SDK is `ModelTimeout`."""
    known = await failing(says("late", hold=0), timeout=Timeout(30, read=0.1))
    assert known.type == "ModelTimeout"
    assert "timed out" in known.message


async def test_an_answer_that_is_no_json(failing):
    """A response that is no JSON, such as a proxy's page, is `ModelFailed`, which is repeated."""
    known = await failing(Body(content="<html>", content_type="text/html"))
    assert (known.type, known.non_retryable) == ("ModelFailed", False)


def test_an_answer_that_cannot_be_read_is_asked_for_once_more():
    """A server that answers in another format does so each time, so the second attempt is the last."""
    error = raised.UnexpectedModelBehavior("bad", body="<html>")
    attempts = [application_error_of(error, "openai", attempt) for attempt in (1, 2, 3)]
    assert [each and each.non_retryable for each in attempts] == [False, True, True]


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic"])  # Google's SDK strips the key
@pytest.mark.parametrize(
    ("url", "key"),
    [("localhost:11434", "key"), ("http://127.0.0.1", "key\n")],
    ids=["no scheme", "line break"],
)
async def test_a_request_that_cannot_be_sent_is_no_failed_connection(ask, url, key, protocol):
    """A base URL that is none, and a key that fits in no header, are set up wrongly: no repetition connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"{url}:{server.getsockname()[1]}" if "//" in url else url
        model, client = model_of(protocol, url, api_key=key)
        async with client:
            with pytest.raises(ApplicationError) as caught, translate_provider_errors(model.system):
                await ask(guard(model))
    assert (caught.value.type, caught.value.non_retryable) == ("ModelMisconfigured", True)


def test_an_error_below_a_failed_connection_is_named_as_what_it_is():
    """What SDKs report as a failed connection is told as one only if it is one; a stream without its end broke off."""
    found = {}
    for cause in (ValueError("hook"), ConnectionRefusedError(), httpx2.RemoteProtocolError("odd"), None):
        error = raised.ModelConnectionError("gpt-5", "Connection error.", phase="read")
        error.__cause__ = cause
        known = application_error_of(error, "openai")
        found[type(cause).__name__] = (known.type, known.message.split(" (")[0])
    assert found == {
        "ValueError": ("ModelFailed", "OpenAI request failed."),
        "ConnectionRefusedError": ("ModelUnavailable", "Unable to connect to OpenAI"),
        "RemoteProtocolError": ("ModelUnavailable", "Unable to connect to OpenAI"),
        "NoneType": ("ModelUnavailable", "The connection to OpenAI broke off"),
    }


async def test_a_refused_connection(ask, protocol):
    """A refused connection is `ModelUnavailable`, and its text has no port."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        model, client = model_of(protocol, f"http://127.0.0.1:{port}")
        async with client:
            with pytest.raises(ApplicationError) as caught, translate_provider_errors(model.system):
                await ask(model)
    assert caught.value.type == "ModelUnavailable"
    assert "Unable to connect" in caught.value.message
    assert str(port) not in caught.value.message
