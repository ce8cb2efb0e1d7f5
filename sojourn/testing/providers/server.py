"""The stand-in provider in this process: a server on a free loopback port.

uvicorn's HTTP protocol is used without its `Server`, which would handle the process's signals and wait for
open connections, whereas a stand-in ends at once. uvicorn is imported when a server starts, since only
`sojourn[http]` has it.
"""

import asyncio
import inspect
import itertools
import json
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self, cast

from sojourn.testing.providers import clients, wire
from sojourn.testing.providers.request import Protocol, Request
from sojourn.testing.providers.rules import refusal_of, size_refusal_of, tool_refusal_of
from sojourn.testing.providers.script import Body, Completion, HttpError, ScriptedResponse, as_answer, load

if TYPE_CHECKING:
    from pydantic_ai.models import Model

__all__ = ["ClientLeftError", "ProviderServer", "Script"]

Script = (
    Sequence[ScriptedResponse | str]
    | Callable[[Request], ScriptedResponse | str | Awaitable[ScriptedResponse | str]]
)
"""Answers in order, or a function, sync or async, that returns the answer to a request; a bare string is a text."""

_NUMBERS = itertools.count(1)

_PATIENCE = 60.0
_PLAIN_PIECE = 64
_JSON = ("content-type", "application/json")


class ClientLeftError(Exception):
    """The client disconnected before the end of the answer."""


_MAX_WHY = 300


class _NoAnswerLeftError(LookupError):
    """The script is too short."""


class ProviderServer:
    """A server that answers like a model provider, by its script.

    Use it as `async with ProviderServer(script) as provider`. It speaks OpenAI's Chat Completions and
    Responses, Anthropic's Messages and Google's Gemini API, streamed or not, and refuses a request that the
    provider would refuse.

    Args:
        script: The answers; `provider.script = ...` replaces them.
        strict_template: Refuse, in Chat Completions, a system message that is not the first, and two messages of a user
            in a row, as the chat templates of some open models do.
    """

    def __init__(self, script: Script = (), *, strict_template: bool = False) -> None:
        self.key = f"{clients.KEY}-{next(_NUMBERS)}"
        """The API key of its models, a new one, so that no rate limit of an earlier server applies."""
        self.requests: list[Request] = []
        self.errors: list[Exception] = []
        """Exceptions of the script, and missing answers, for which the client got an error."""
        self.refusals: list[str] = []
        """Messages of the refused requests, for which no answer of the script was used."""
        self.most_in_flight = 0
        self.strict_template = strict_template
        self.script = script
        self._changed = asyncio.Event()
        self._released = asyncio.Event()
        self._held = 0
        self._models = AsyncExitStack()

    @property
    def script(self) -> Script:
        """The script. After it is set, the next request gets its first answer."""
        return self._script

    @script.setter
    def script(self, script: Script) -> None:
        self._script = script
        self._left = None if callable(script) else iter(script)

    async def __aenter__(self) -> Self:
        try:
            import uvicorn  # noqa: PLC0415
            from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415
            from uvicorn.server import ServerState  # noqa: PLC0415
        except ImportError as error:
            raise ModuleNotFoundError(
                f"the stand-in provider needs {error.name}, which is not installed here: pip install 'sojourn[http]'",
                name=error.name,
            ) from error
        listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = listening.getsockname()[1]
        config = uvicorn.Config(
            self,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=600,
        )
        config.load()
        self._state = ServerState()
        self._server = await asyncio.get_running_loop().create_server(
            lambda: H11Protocol(config, self._state, {}), sock=listening
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._models.aclose()
        self._server.close()
        for connection in list(self._state.connections):
            connection.transport.abort()
        await asyncio.gather(*self._state.tasks)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """The URL, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def base_url(self, protocol: Protocol) -> str:
        """Return the base URL that a provider's SDK takes."""
        return clients.base_url(protocol, self.url)

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which models by name (`openai:gpt-5-mini`) use this server."""
        return clients.environment(self.url)

    def model(self, protocol: Protocol, name: str | None = None, **options: Any) -> "Model":
        """Return a model that asks this server through the provider's SDK.

        pydantic-ai's switch `ALLOW_MODEL_REQUESTS` is on from then until the server stops.

        Args:
            protocol: The protocol.
            name: The model's name; by default one with a known price.
            options: Options of the SDK's client, such as `timeout` in seconds, and `settings`, the model's.

        Raises:
            ModuleNotFoundError: The SDKs are not installed: `pip install 'sojourn[models]'`.
        """
        options.setdefault("api_key", self.key)
        model, client = clients.model_of(protocol, self.url, name, **options)
        from pydantic_ai.models import override_allow_model_requests  # noqa: PLC0415

        self._models.push_async_callback(client.close)
        self._models.enter_context(override_allow_model_requests(True))  # noqa: FBT003 - the SDK's own signature
        return model

    @property
    def in_flight(self) -> int:
        """The number of requests whose answer has not ended."""
        return sum(request.end is None for request in self.requests)

    async def wait_for_arrivals(self, count: int = 1) -> None:
        """Wait until `count` requests have arrived."""
        await self.until(lambda: len(self.requests) >= count)

    async def wait_for_ends(self, count: int = 1) -> None:
        """Wait until `count` requests have ended: answered, cut or left."""
        await self.until(lambda: len(self.requests) - self.in_flight >= count)

    async def wait_for_held(self, count: int = 1) -> None:
        """Wait until `count` answers are on hold."""
        await self.until(lambda: self._held >= count)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition about this stand-in is true."""
        async with asyncio.timeout(_PATIENCE):
            while not condition():
                await self._changed.wait()

    def release(self) -> None:
        """Continue every answer that is on hold."""
        self._released.set()
        self._released = asyncio.Event()

    def administer(self, path: str, content: bytes) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of a request of another process.

        - `POST /admin/script` replaces the script, by JSON as for `script.load`.
        - `POST /admin/release` continues the answers on hold.
        - `GET /admin/state` returns `state`.
        """
        match path:
            case "/admin/script":
                self.script = load(json.loads(content))
                return 200, {}
            case "/admin/release":
                self.release()
                return 200, {}
            case "/admin/state":
                return 200, self.state
            case _:
                return 404, {"error": {"message": f"Nothing here: {path}"}}

    @property
    def state(self) -> dict[str, Any]:
        """The requests, with their ends and times, and the other records, as JSON."""
        kept = ("protocol", "headers", "body", "end", "arrived_at", "ended_at")
        return {
            "requests": [{name: getattr(request, name) for name in kept} for request in self.requests],
            "in_flight": self.in_flight,
            "most_in_flight": self.most_in_flight,
            "refusals": self.refusals,
            "errors": [repr(error) for error in self.errors],
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        content = await _read_content(receive)
        protocol = wire.protocol_at(scope["path"])
        if protocol is None:
            status, found = self.administer(scope["path"], content)
            await _respond(send, status, [_JSON], json.dumps(found).encode())
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        try:
            request = wire.read(protocol, json.loads(content), headers, len(self.requests), scope["path"])
        except Exception as error:
            self.errors.append(error)
            raise
        self.requests.append(request)
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self._change()
        watching = asyncio.create_task(_watch(receive, request))
        try:
            await self._answer(request, send)
        except ClientLeftError:
            request.finish("left")
        except Exception as error:
            self.errors.append(error)
            raise
        finally:
            watching.cancel()
            self._change()

    async def _answer(self, request: Request, send: Any) -> None:
        status, refused = self._refusal(request)
        if refused:
            self.refusals.append(refused)
            answer: Completion | HttpError | Body = Body(
                status=status, content=json.dumps(wire.refusal(refused, request, status))
            )
        else:
            answer = await self._next(request)
        await self._pause(request, answer.delay)
        if isinstance(answer, Completion) and answer.breaks is not None and not request.stream:
            answer = HttpError(error=answer.breaks, headers=answer.headers)
        headers = list({**_request_id(request), **answer.headers}.items())
        match answer:
            case Completion():
                await self._reply(answer, request, headers, send)
            case HttpError():
                status, content = wire.error(answer.error, request)
                headers.append(_JSON)
                request.finish("answered")
                await _respond(send, answer.status or status, headers, content)
            case Body():
                headers.append(("content-type", answer.content_type))
                request.finish("answered")
                await _respond(send, answer.status, headers, answer.content.encode())

    def _refusal(self, request: Request) -> tuple[int, str | None]:
        """Return the status and message with which a request is refused, if it is."""
        size = int(request.headers.get("content-length", 0))
        if too_large := size_refusal_of(request, size):
            return 413, too_large
        return 400, tool_refusal_of(request) or refusal_of(request, strict_template=self.strict_template)

    async def _reply(
        self, reply: Completion, request: Request, headers: list[tuple[str, str]], send: Any
    ) -> None:
        if request.stream:
            chunks = wire.stream(reply, request)
            headers.append(("content-type", "text/event-stream; charset=utf-8"))
        else:
            content = wire.plain(reply, request)
            chunks = [content[at : at + _PLAIN_PIECE] for at in range(0, len(content), _PLAIN_PIECE)]
            headers.append(_JSON)
        chunks = chunks[: _place(reply.ends, len(chunks))]
        if not request.stream:
            headers.append(("content-length", str(sum(map(len, chunks)))))
        held, cut = _place(reply.hold, len(chunks)), _place(reply.cut, len(chunks))
        for index, chunk in enumerate(chunks):
            if index == held:
                await self._hold(request)
            if index == cut:
                request.finish("cut")
                send.__self__.transport.close()  # `send` is bound to uvicorn's cycle of this request
                await request.left.wait()
                return
            if index == 0:
                await send(_start(200, headers))
            elif request.stream:
                await self._pause(request, reply.pace)
            if request.left.is_set():
                raise ClientLeftError
            more = index + 1 < len(chunks)
            if not more:
                request.finish("answered")
            await send({"type": "http.response.body", "body": chunk, "more_body": more})

    async def _next(self, request: Request) -> Completion | HttpError | Body:
        try:
            if self._left is None:
                found = cast("Callable[[Request], Any]", self._script)(request)
            elif (found := next(self._left, None)) is None:
                raise _NoAnswerLeftError(f"no answer left for request {request.number}")
            answer = as_answer(await found if inspect.isawaitable(found) else found)
            if not isinstance(answer, Completion | HttpError | Body):
                raise TypeError(
                    f"a script has answers such as says(...), calls(...) and fails(...), not {answer!r}"
                )
            return answer
        except Exception as error:  # noqa: BLE001 - a script is code of the test
            self.errors.append(error)
            why = str(error) if isinstance(error, _NoAnswerLeftError) else f"{type(error).__name__}: {error}"
            refused = wire.refusal(f"the stand-in's script: {why[:_MAX_WHY]}", request)
            return Body(content=json.dumps(refused), status=400)

    async def _pause(self, request: Request, seconds: float) -> None:
        if seconds:
            try:
                async with asyncio.timeout(seconds):
                    await request.left.wait()
            except TimeoutError:
                return
            raise ClientLeftError

    async def _hold(self, request: Request) -> None:
        self._held += 1
        self._change()
        waits = {asyncio.create_task(event.wait()) for event in (self._released, request.left)}
        _, others = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            other.cancel()
        self._held -= 1
        if request.left.is_set():
            raise ClientLeftError

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


async def _read_content(receive: Any) -> bytes:
    content, more = bytearray(), True  # a request with files has many megabytes
    while more:
        message = await receive()
        content += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(content)


async def _watch(receive: Any, request: Request) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    request.left.set()


async def _respond(send: Any, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
    await send(_start(status, [*headers, ("content-length", str(len(content)))]))
    await send({"type": "http.response.body", "body": content})


def _start(status: int, headers: list[tuple[str, str]]) -> dict[str, Any]:
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers]
    return {"type": "http.response.start", "status": status, "headers": encoded}


def _request_id(request: Request) -> dict[str, str]:
    name = "request-id" if request.protocol == "anthropic" else "x-request-id"
    return {name: f"req_{request.number}"}


def _place(part: float | None, count: int) -> int | None:
    """Return the number of the chunk at a fraction of a response.

    It is after the first chunk for any fraction above 0.
    """
    if part is None:
        return None
    return max(1, int(part * count)) if part else 0
