"""Network failures: the specification of retries, time-outs and texts.

This is the counterpart of `network_error_handler_spec.rb` (ME-27); read it before you change a threshold. The
requests are real, to a server on this machine; only the delays between them take no time.
"""

import asyncio
import errno
import json
import socket
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest

from sojourn import SojournError
from sojourn.connection.settings import connect_options
from sojourn.errors import DefinitionError, NetworkRetriesExhausted
from sojourn.network import (
    RETRIED_STATUSES,
    Timeouts,
    format_network_error,
    http_client,
    http_transport,
    timeouts_for,
    with_network_retry,
)


class Counted:
    """A function that raises the given errors, one per call, and then returns a value."""

    def __init__(self, *errors: BaseException, value: object = "value") -> None:
        self.errors = errors
        self.value = value
        self.executions = 0

    async def __call__(self) -> object:
        self.executions += 1
        if self.executions <= len(self.errors):
            raise self.errors[self.executions - 1]
        return self.value


# -- What is repeated (ME-11) ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "raised", "kind"),
    [
        ("silent", httpx2.ReadTimeout, "timed out"),
        ("reset", httpx2.ReadError, "connection reset by peer"),
        ("hang_up", httpx2.RemoteProtocolError, "connection reset by peer"),
        ("half", httpx2.RemoteProtocolError, "connection reset by peer"),
    ],
)
async def test_me_11_a_request_the_network_broke_is_made_again(loopback, client, slept, part, raised, kind):
    """After silence, a reset, no answer or half an answer to two requests, the third request succeeds."""
    server = await loopback(part, part, 200)
    response = await with_network_retry(
        lambda: client.get(server.url, timeout=server.timeout), max_retries=2, sleep=slept
    )
    assert (response.status_code, server.count, len(slept)) == (200, 3, 2)

    server = await loopback(part)
    with pytest.raises(NetworkRetriesExhausted, match=kind) as caught:
        await with_network_retry(
            lambda: client.get(server.url, timeout=server.timeout), max_retries=1, sleep=slept
        )
    assert isinstance(caught.value.__cause__, raised)


async def test_me_11_a_connect_timeout_is_repeated(loopback, client, slept):
    """A request whose TLS handshake is never answered is repeated."""
    server = await loopback("silent")
    timeout = httpx2.Timeout(30, connect=0.2)
    with pytest.raises(NetworkRetriesExhausted, match="timed out") as caught:
        await with_network_retry(
            lambda: client.get(server.tls_url, timeout=timeout), max_retries=1, sleep=slept
        )
    assert isinstance(caught.value.__cause__, httpx2.ConnectTimeout)
    assert server.count == 2


async def test_me_11_a_write_timeout_is_repeated(loopback, client, slept):
    """A request is repeated if the server stops reading its large body."""
    server = await loopback("deaf")
    body = b"x" * 30_000_000
    with pytest.raises(NetworkRetriesExhausted, match="timed out") as caught:
        await with_network_retry(
            lambda: client.post(server.url, content=body, timeout=server.timeout), max_retries=1, sleep=slept
        )
    assert isinstance(caught.value.__cause__, httpx2.WriteTimeout)
    assert server.count == 2


async def test_me_11_a_pool_timeout_is_repeated(loopback, slept):
    """A request is repeated if another one holds the client's only connection."""
    server = await loopback("silent")
    limits = httpx2.Limits(max_connections=1)
    timeout = httpx2.Timeout(None, pool=0.05)
    async with http_client(timeout=timeout, limits=limits, trust_env=False) as client:
        waiting = asyncio.create_task(client.get(server.url))
        while not server.count:
            await asyncio.sleep(0)
        with pytest.raises(NetworkRetriesExhausted, match="timed out") as caught:
            await with_network_retry(lambda: client.get(server.url), max_retries=1, sleep=slept)
        waiting.cancel()
        await asyncio.wait({waiting})
    assert isinstance(caught.value.__cause__, httpx2.PoolTimeout)
    assert len(slept) == 1


async def test_me_11_a_refused_connection_is_repeated(refused_url, client, slept):
    """A request to a port on which nothing listens is repeated."""
    with pytest.raises(NetworkRetriesExhausted, match="connection refused"):
        await with_network_retry(lambda: client.get(refused_url), max_retries=2, sleep=slept)
    assert len(slept) == 2


async def test_me_11_a_tls_failure_is_repeated(loopback, client, slept):
    """A request over TLS to a port that answers in plain text is repeated."""
    server = await loopback("plain_text")
    with pytest.raises(NetworkRetriesExhausted, match="SSL connection error"):
        await with_network_retry(lambda: client.get(server.tls_url), max_retries=2, sleep=slept)
    assert server.count == 3


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
        ConnectionResetError(errno.ECONNRESET, "reset"),
        BrokenPipeError(errno.EPIPE, "broken pipe"),
        OSError(errno.ENETUNREACH, "Network is unreachable"),
        OSError(errno.EHOSTUNREACH, "No route to host"),
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        ssl.SSLError(1, "wrong version number"),
        ssl.SSLCertVerificationError(1, "certificate has expired"),
        httpx2.ConnectError("All connection attempts failed"),
    ],
    ids=repr,
)
async def test_me_11_the_errors_of_python_itself_are_repeated_too(slept, error):
    """A function may use other clients than `http_client`."""
    fn = Counted(error, error)
    assert await with_network_retry(fn, sleep=slept) == "value"
    assert (fn.executions, len(slept)) == (3, 2)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("is_raised", [True, False], ids=["raised", "returned"])
async def test_me_11_a_status_that_may_change_is_repeated(loopback, client, slept, status, is_raised):
    """A status is repeated whether the function raises it or returns the response."""

    async def fetch():
        response = await client.get(server.url)
        return response.raise_for_status() if is_raised else response

    assert status in RETRIED_STATUSES
    server = await loopback(status, status, 200)
    assert (await with_network_retry(fetch, sleep=slept)).status_code == 200
    assert (server.count, len(slept)) == (3, 2)


class ApiConnectionError(Exception):
    """An error with the attributes of a provider SDK's connection error."""

    def __init__(self) -> None:
        super().__init__("Connection error.")
        self.request = httpx2.Request("POST", "https://api.example/v1")


async def test_me_11_the_errors_of_a_provider_s_sdk_are_repeated(loopback, client, slept):
    """An SDK's error that a time-out caused counts as the time-out."""

    async def ask():
        try:
            return (await client.get(server.url, timeout=server.timeout)).status_code
        except httpx2.HTTPError as error:
            raise ApiConnectionError from error

    server = await loopback("silent", 200)
    assert await with_network_retry(ask, sleep=slept) == 200
    assert server.count == 2


# -- What is not repeated ----------------------------------------------------------------------------------------


async def test_bad_json_is_raised_unchanged_after_one_execution(loopback, client, slept):
    """A JSON error is raised at once: the answer would be the same again."""
    caught: list[BaseException] = []

    async def fetch():
        try:
            return (await client.get(server.url)).json()
        except ValueError as error:
            caught.append(error)
            raise

    server = await loopback("<html>")
    with pytest.raises(json.JSONDecodeError) as raised:
        await with_network_retry(fetch, sleep=slept)
    assert caught == [raised.value]
    assert (server.count, slept) == (1, [])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 418, 422, 501, 505])
async def test_other_statuses_are_raised_unchanged(loopback, client, slept, status):
    """Another status is raised unchanged after one execution; a response that is not raised for is returned."""

    async def fetch():
        return (await client.get(server.url)).raise_for_status()

    server = await loopback(status)
    with pytest.raises(httpx2.HTTPStatusError) as raised:
        await with_network_retry(fetch, sleep=slept)
    assert raised.value.response.status_code == status
    assert (server.count, slept) == (1, [])
    response = await with_network_retry(lambda: client.get(server.url), sleep=slept)
    assert (response.status_code, server.count) == (status, 2)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        KeyError("choices"),
        RuntimeError("connection refused"),
        FileNotFoundError(errno.ENOENT, "no such file"),
        httpx2.UnsupportedProtocol("no such protocol"),
        httpx2.LocalProtocolError("illegal header"),
        httpx2.RemoteProtocolError("illegal status line"),
        httpx2.TooManyRedirects("too many"),
    ],
    ids=repr,
)
async def test_every_other_exception_is_raised_unchanged(slept, error):
    """The same exception is raised after one execution, whatever its text says."""
    fn = Counted(error)
    with pytest.raises(type(error)) as raised:
        await with_network_retry(fn, sleep=slept)
    assert raised.value is error
    assert (fn.executions, slept) == (1, [])


async def test_an_answer_that_is_not_http_is_not_repeated(loopback, client, slept):
    """An answer that is not HTTP is raised at once: the server would send it again."""
    server = await loopback("babble")
    with pytest.raises(httpx2.RemoteProtocolError):
        await with_network_retry(lambda: client.get(server.url), sleep=slept)
    assert server.count == 1


async def test_a_cancellation_is_not_repeated(loopback, slept):
    """A cancellation ends the call at once, without a delay."""
    server = await loopback("silent")
    async with http_client(timeout=None, trust_env=False) as client:
        task = asyncio.create_task(with_network_retry(lambda: client.get(server.url), sleep=slept))
        while not server.count:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (server.count, slept) == (1, [])


# -- How long it waits (ME-11) -----------------------------------------------------------------------------------


async def test_me_11_the_delays_double_and_none_follows_the_last_failure(slept):
    """Between 6 executions the delays are 1, 2, 4, 8 and 16 s, each up to 30 % longer."""
    fn = Counted(*[TimeoutError()] * 6)
    with pytest.raises(NetworkRetriesExhausted):
        await with_network_retry(fn, sleep=slept)
    assert (fn.executions, len(slept)) == (6, 5)
    for delay, least in zip(slept, [1, 2, 4, 8, 16], strict=True):
        assert least <= delay <= least * 1.3


async def test_me_11_no_delay_is_over_30_s_and_all_are_under_300(slept):
    """With 1,000 repetitions allowed, a delay is at most 30 s, and all delays together are at most 300 s."""
    fn = Counted(*[TimeoutError()] * 1000)
    with pytest.raises(NetworkRetriesExhausted) as caught:
        await with_network_retry(fn, max_retries=1000, sleep=slept)
    assert slept[5:] == [30.0] * (len(slept) - 5)
    assert 270 < sum(slept) <= 300
    assert caught.value.attempts == len(slept) + 1


@pytest.mark.parametrize(
    ("after", "delay"),
    [
        ("7", 7),
        ("0", 0),
        ("3600", 30),
        (format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True), 0),
        (format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True), 30),
    ],
    ids=["seconds", "at once", "an hour", "a date gone by", "a date to come"],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_me_11_retry_after_wins_over_the_computed_delay(loopback, client, slept, status, after, delay):
    """`Retry-After` sets the delay, as seconds or as a date; at most 30 s."""
    server = await loopback((status, after), 200)
    await with_network_retry(lambda: client.get(server.url), sleep=slept)
    assert slept == [delay]


@pytest.mark.parametrize("after", ["soon", "-5", "1.5", "Mon, 01 Jan 99999999999 00:00:00 GMT"])
async def test_an_invalid_retry_after_is_ignored(loopback, client, slept, after):
    """An invalid `Retry-After` leaves the computed delay."""
    server = await loopback((503, after), 200)
    await with_network_retry(lambda: client.get(server.url), sleep=slept)
    assert 1 <= slept[0] <= 1.3


@pytest.mark.parametrize(("retries", "executions"), [(0, 1), (1, 2), (2, 3)])
async def test_max_retries_counts_what_follows_the_first_execution(slept, retries, executions):
    """`max_retries` counts the repetitions: with 0 the function is called once; below 0 is an error."""
    fn = Counted(*[TimeoutError()] * 9)
    with pytest.raises(NetworkRetriesExhausted) as caught:
        await with_network_retry(fn, max_retries=retries, sleep=slept)
    assert fn.executions == caught.value.attempts == executions
    with pytest.raises(ValueError, match="max_retries is -1"):
        await with_network_retry(fn, max_retries=-1)


async def test_a_read_timeout_twice_then_a_value(slept):
    """With 2 retries, a function that times out twice is executed 3 times and returns its value."""
    fn = Counted(httpx2.ReadTimeout(""), httpx2.ReadTimeout(""))
    assert await with_network_retry(fn, max_retries=2, sleep=slept) == "value"
    assert fn.executions == 3


async def test_a_sync_function_is_repeated_as_well(slept):
    """The value of a sync function is returned."""
    errors = [TimeoutError(), ConnectionResetError()]

    def fetch() -> str:
        if errors:
            raise errors.pop()
        return "value"

    assert await with_network_retry(fetch, sleep=slept) == "value"
    assert len(slept) == 2


# -- One layer repeats -------------------------------------------------------------------------------------------


async def test_nested_uses_do_not_multiply(slept):
    """The inner use calls once and the outer one repeats: 6 executions, not 36."""
    fn = Counted(*[TimeoutError()] * 99)

    async def through_a_library():
        return await with_network_retry(fn, "inner", sleep=slept)

    with pytest.raises(NetworkRetriesExhausted, match="outer") as caught:
        await with_network_retry(through_a_library, "outer", sleep=slept)
    assert (fn.executions, len(slept)) == (6, 5)
    assert isinstance(caught.value.__cause__, TimeoutError)


async def test_a_response_that_an_inner_use_returns_is_repeated_by_the_outer(loopback, client, slept):
    """The inner use raises the error of the response, so that the outer use repeats."""
    server = await loopback(503, 200)

    async def fetch():
        response = await with_network_retry(lambda: client.get(server.url), sleep=slept)
        return response.status_code

    assert await with_network_retry(fetch, sleep=slept) == 200
    assert (server.count, len(slept)) == (2, 1)


async def test_a_task_that_outlives_a_use_repeats_for_itself(slept):
    """A task started within a use repeats its own requests when that use is over."""
    goes_on = asyncio.Event()

    async def later():
        await goes_on.wait()
        return await with_network_retry(Counted(TimeoutError()), sleep=slept)

    async def start():
        return asyncio.create_task(later())

    task = await with_network_retry(start, sleep=slept)
    goes_on.set()
    assert await task == "value"
    assert len(slept) == 1


async def test_neither_client_nor_transport_repeats_by_itself(refused_url):
    """The option `retries` of httpx2's transport is refused."""
    async with http_transport() as transport:
        with pytest.raises(httpx2.ConnectError):
            await transport.handle_async_request(httpx2.Request("GET", refused_url))
    with pytest.raises(TypeError, match="retries"):
        http_transport(retries=3)


# -- When all attempts failed (ME-14) ---------------------------------------------------------------------------------


async def test_me_14_a_runtime_error_with_the_friendly_text_names_the_provider(loopback, client, slept):
    """After 6 executions and 5 delays, the error has the sentence for users, the provider and the cause."""
    server = await loopback("silent")
    with pytest.raises(RuntimeError) as caught:
        await with_network_retry(
            lambda: client.get(server.url, timeout=server.timeout), "Claude", sleep=slept
        )
    error = caught.value
    assert (server.count, len(slept)) == (6, 5)
    assert isinstance(error, NetworkRetriesExhausted)
    assert isinstance(error, SojournError)
    assert str(error) == format_network_error(error.__cause__, "Claude")
    assert str(error).startswith("Claude request timed out")
    assert (error.provider, error.attempts, error.status) == ("Claude", 6, None)
    assert isinstance(error.__cause__, httpx2.ReadTimeout)


async def test_me_14_the_error_has_the_last_status(loopback, client, slept):
    """The error has the status and the sentence of the last failure."""
    server = await loopback(503, (429, "9"))
    with pytest.raises(NetworkRetriesExhausted) as caught:
        await with_network_retry(lambda: client.get(server.url), "OpenAI", max_retries=3, sleep=slept)
    assert (caught.value.status, caught.value.attempts) == (429, 4)
    assert str(caught.value) == (
        "OpenAI is over its rate limit (HTTP 429 Too Many Requests); try again in 9 s."
    )


# -- Time-outs (ME-12) -------------------------------------------------------------------------------------------


async def test_me_12_slow_providers_have_more_time(subtests: pytest.Subtests) -> None:
    """Claude and DeepSeek have longer time-outs than the default, and so have their clients."""
    rows = [
        (None, 10, 120, 120),
        ("", 10, 120, 120),
        ("openai", 10, 120, 120),
        ("claude", 10, 300, 300),
        ("Claude", 10, 300, 300),
        ("anthropic", 10, 300, 300),
        ("deepseek", 15, 180, 180),
        ("DeepSeek", 15, 180, 180),
    ]
    for provider, connect, read, write in rows:
        with subtests.test(provider=provider, connect=connect, read=read, write=write):
            assert timeouts_for(provider) == Timeouts(connect, read, write)
            async with http_client(provider) as client:
                assert client.timeout == httpx2.Timeout(connect=connect, read=read, write=write, pool=connect)


def test_me_12_a_setting_wins(monkeypatch):
    """A setting is for one provider, or for all without an own one; an empty setting is ignored."""
    monkeypatch.setenv("SOJOURN_TIMEOUT_CLAUDE", "5/600/7.5")
    monkeypatch.setenv("SOJOURN_TIMEOUT_MY_OWN", " 1 / 2 / 3 ")
    monkeypatch.setenv("SOJOURN_TIMEOUT_DEEPSEEK", "")
    assert timeouts_for("claude") == Timeouts(5, 600, 7.5)
    assert timeouts_for("my-own") == Timeouts(1, 2, 3)
    assert timeouts_for("deepseek") == Timeouts(15, 180, 180)
    assert timeouts_for("openai") == Timeouts(10, 120, 120)
    monkeypatch.setenv("SOJOURN_TIMEOUT_DEFAULT", "1/1/1")
    assert timeouts_for("openai") == timeouts_for() == Timeouts(1, 1, 1)
    assert timeouts_for("anthropic") == Timeouts(10, 300, 300)


@pytest.mark.parametrize(
    "written",
    ["300", "10/300", "10/300/300/300", "10/long/300", "0/1/1", "-1/1/1", "1/nan/1", "1/inf/1", "//"],
)
def test_me_12_a_setting_that_cannot_be_read_is_refused_at_the_start(monkeypatch, written):
    """Workers and clients refuse it when they connect, whether or not the provider is used."""
    monkeypatch.setenv("SOJOURN_TIMEOUT_ACME", written)
    for start in (connect_options, lambda: timeouts_for("acme")):
        with pytest.raises(DefinitionError, match=r"SOJOURN_TIMEOUT_ACME is .* such as 10/300/300"):
            start()


# -- Texts (ME-13) -----------------------------------------------------------------------------------------------


def answered(status: int, url: str = "https://api.example/v1") -> httpx2.HTTPStatusError:
    """Return the error that `raise_for_status` raises."""
    response = httpx2.Response(status, request=httpx2.Request("GET", url))
    with pytest.raises(httpx2.HTTPStatusError) as caught:
        response.raise_for_status()
    return caught.value


def test_me_13_each_kind_of_error_has_one_friendly_sentence(subtests: pytest.Subtests) -> None:
    """The sentence names the provider, or API."""
    rows = [
        (
            httpx2.ReadTimeout(""),
            "{} request timed out; it may be slow or overloaded, so try again later.",
        ),
        (
            TimeoutError(),
            "{} request timed out; it may be slow or overloaded, so try again later.",
        ),
        (
            ConnectionRefusedError(),
            "Unable to connect to {} (connection refused); check the network and the address.",
        ),
        (
            socket.gaierror(-2, "Name or service not known"),
            "Unable to connect to {} (DNS lookup failed); check the network and the address.",
        ),
        (
            OSError(errno.ENETUNREACH, "unreachable"),
            "Unable to connect to {} (network is unreachable); check the network and the address.",
        ),
        (
            ssl.SSLError(1, "bad"),
            "SSL connection error with {}; check the address, its certificate and this machine's clock.",
        ),
        (
            answered(429),
            "{} is over its rate limit (HTTP 429 Too Many Requests); try again later.",
        ),
        (
            answered(503),
            "{} cannot answer now (HTTP 503 Service Unavailable); try again later.",
        ),
        (answered(401), "{} refused the request (HTTP 401 Unauthorized)."),
        (answered(499), "{} refused the request (HTTP 499)."),
        (ValueError("no such model.\nand more"), "{} request failed: no such model."),
        (ValueError(), "{} request failed: ValueError."),
    ]
    for error, sentence in rows:
        with subtests.test(str((error, sentence))):
            assert format_network_error(error, "Claude") == sentence.format("Claude")
            assert format_network_error(error) == format_network_error(error, None) == sentence.format("API")


def test_me_13_the_sentence_of_exhausted_retries_is_kept():
    """The sentence of `NetworkRetriesExhausted` is returned unchanged."""
    assert format_network_error(NetworkRetriesExhausted("Claude request timed out."), "x") == (
        "Claude request timed out."
    )


def test_me_13_no_text_holds_a_secret(subtests: pytest.Subtests) -> None:
    """A sentence contains no address and no part of an invalid header."""
    rows = [
        answered(404, "https://user:s3cret@api.example/v1?key=s3cret"),
        answered(503, "https://user:s3cret@api.example/v1?key=s3cret"),
        ValueError("cannot open https://user:s3cret@api.example/v1"),
        ValueError("cannot open 'https://api.example/s3cret?token=s3cret' again"),
        ValueError("cannot open user:s3cret@api.example"),
        ValueError("cannot open /v1?token=s3cret"),
        httpx2.LocalProtocolError("Illegal header value b'Bearer s3cret\\n'"),
        httpx2.InvalidURL("Invalid port: 's3cret'"),
    ]
    for error in rows:
        with subtests.test(error=error):
            assert "s3cret" not in format_network_error(error, "API")


async def test_clients_share_what_the_system_trusts() -> None:
    """The certificates are read once for all clients, as a tool makes one for each call; a client that says otherwise has its own."""

    def context(client: httpx2.AsyncClient) -> ssl.SSLContext:
        return client._transport._pool._ssl_context  # pyright: ignore[reportAttributeAccessIssue]

    async with http_client() as one, http_client("claude", timeout=1) as two:
        assert context(one) is context(two)
        assert context(one).verify_mode is ssl.CERT_REQUIRED
        assert context(one).check_hostname
        assert one.timeout != two.timeout
    own = ssl.create_default_context()
    async with http_client(verify=own) as third, http_client(verify=False) as fourth:
        assert context(third) is own
        assert context(fourth).verify_mode is ssl.CERT_NONE
    async with http_client() as fifth:
        assert context(fifth) is context(one)
        assert context(fifth).verify_mode is ssl.CERT_REQUIRED
