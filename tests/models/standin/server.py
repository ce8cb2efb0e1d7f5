"""The stand-in in this process: a server on a free loopback port, with its script and its requests.

uvicorn's HTTP protocol is used without its `Server`, which would handle the process's signals and wait for open
connections, whereas a stand-in ends at once.
"""

import asyncio
import itertools
import json
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from tests.models.standin import wire
from tests.models.standin.admin import administer
from tests.models.standin.asgi import place, read_content, request_id, respond, start, watch
from tests.models.standin.refusals import refusal_of
from tests.models.standin.reply import Answer, Body, HttpError, Reply, as_answer
from tests.models.standin.request import Protocol, Request
from tests.models.standin.tool_refusals import tool_refusal_of

if TYPE_CHECKING:
    from pydantic_ai.models import Model

Script = Sequence[Answer | str] | Callable[[Request], Answer | str | Awaitable[Answer | str]]
"""Answers in order, or a function, sync or async, that returns the answer to a request; a bare string is a text."""

_NUMBERS = itertools.count(1)

PATIENCE = 60.0
"""Seconds until a condition that does not come true is a failure."""

PLAIN_PIECE = 64
"""Bytes of a chunk of an unstreamed answer."""


class ClientLeftError(Exception):
    """The client disconnected before the end of the answer."""


class Standin:
    """A provider that answers by its script: `async with Standin(script) as standin`."""

    def __init__(self, script: Script = (), *, strict_template: bool = False) -> None:
        self.key = f"{wire.KEY}-{next(_NUMBERS)}"
        """The API key of its models, a new one: a rate limit learned from an earlier stand-in on this port does not apply."""
        self.requests: list[Request] = []
        """All requests, in order."""
        self.errors: list[Exception] = []
        """Exceptions of a script, or its missing answers, for which the client gets a 400; and other exceptions."""
        self.refusals: list[str] = []
        """Messages of the requests that were refused for their content, for which no answer of the script was used."""
        self.most_in_flight = 0
        """The most requests that were in flight at the same time."""
        self.strict_template = strict_template
        """Whether the chat template refuses a system message that is not the first, and two messages of a user in a row."""
        self.script = script
        self._changed = asyncio.Event()
        self._released = asyncio.Event()
        self._held = 0
        self._clients: list[Any] = []

    @property
    def script(self) -> Script:
        """The script; after it is set, the next request gets its first answer."""
        return self._script

    @script.setter
    def script(self, script: Script) -> None:
        self._script = script
        self._left = None if callable(script) else iter(script)

    async def __aenter__(self) -> Self:
        """Start serving on a free port."""
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
        """Close the models' clients, and abort every connection."""
        for client in self._clients:
            await client.close()
        self._server.close()
        for connection in list(self._state.connections):
            connection.transport.abort()
        await asyncio.gather(*self._state.tasks)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """The URL, without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which the SDKs of another process use this stand-in."""
        return wire.environment(self.url)

    def model(self, protocol: Protocol, name: str | None = None, **options: Any) -> "Model":
        """Return a model that uses this stand-in through its SDK; `options` are those of `sdk.model_of`."""
        # Imported here, since a stand-in in a process of its own needs no SDK, which takes seconds to import.
        from tests.models.standin.sdk import model_of

        model, client = model_of(protocol, self.url, name, **{"api_key": self.key, **options})
        self._clients.append(client)
        return model

    @property
    def in_flight(self) -> int:
        """The number of requests whose answer has not ended."""
        return sum(request.end is None for request in self.requests)

    async def arrived(self, count: int = 1) -> None:
        """Wait until `count` requests have arrived."""
        await self.until(lambda: len(self.requests) >= count)

    async def ended(self, count: int = 1) -> None:
        """Wait until `count` requests have ended: answered, cut or left."""
        await self.until(lambda: len(self.requests) - self.in_flight >= count)

    async def held(self, count: int = 1) -> None:
        """Wait until `count` answers are on hold."""
        await self.until(lambda: self._held >= count)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition about this stand-in is true."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await self._changed.wait()

    def release(self) -> None:
        """Continue every answer that is on hold."""
        self._released.set()
        self._released = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request (ASGI)."""
        content = await read_content(receive)
        protocol = wire.protocol_at(scope["path"])
        if protocol is None:
            status, found = administer(self, scope["path"], content)
            await respond(send, status, [("content-type", "application/json")], json.dumps(found).encode())
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
        watching = asyncio.create_task(watch(receive, request))
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
        refused = tool_refusal_of(request) or refusal_of(request, strict_template=self.strict_template)
        if refused:
            self.refusals.append(refused)
            answer: Answer = Body(status=400, content=json.dumps(wire.refusal(refused, request)))
        else:
            answer = await self._next(request)
        await self._pause(request, answer.delay)
        if isinstance(answer, Reply) and answer.breaks is not None and not request.stream:
            answer = HttpError(error=answer.breaks, headers=answer.headers)
        headers = list({**request_id(request), **answer.headers}.items())
        match answer:
            case Reply():
                await self._reply(answer, request, headers, send)
            case HttpError():
                status, content = wire.error(answer.error, request)
                headers.append(("content-type", "application/json"))
                request.finish("answered")
                await respond(send, answer.status or status, headers, content)
            case Body():
                headers.append(("content-type", answer.content_type))
                request.finish("answered")
                await respond(send, answer.status, headers, answer.content.encode())

    async def _reply(self, reply: Reply, request: Request, headers: list[tuple[str, str]], send: Any) -> None:
        if request.stream:
            chunks = wire.stream(reply, request)
            headers.append(("content-type", "text/event-stream; charset=utf-8"))
        else:
            content = wire.plain(reply, request)
            chunks = [content[at : at + PLAIN_PIECE] for at in range(0, len(content), PLAIN_PIECE)]
            headers.append(("content-type", "application/json"))
        chunks = chunks[: place(reply.ends, len(chunks))]
        if not request.stream:
            headers.append(("content-length", str(sum(map(len, chunks)))))
        held, cut = place(reply.hold, len(chunks)), place(reply.cut, len(chunks))
        for index, chunk in enumerate(chunks):
            if index == held:
                await self._hold(request)
            if index == cut:
                request.finish("cut")
                send.__self__.transport.close()  # `send` is bound to uvicorn's cycle of this request
                await request.left.wait()
                return
            if index == 0:
                await send(start(200, headers))
            elif request.stream:
                await self._pause(request, reply.pace)
            if request.left.is_set():
                raise ClientLeftError
            more = index + 1 < len(chunks)
            if not more:
                request.finish("answered")
            await send({"type": "http.response.body", "body": chunk, "more_body": more})

    async def _next(self, request: Request) -> Answer:
        try:
            if self._left is None:
                answer = self._script(request)  # type: ignore[operator]
                return as_answer(await answer if isinstance(answer, Awaitable) else answer)
            answer = next(self._left, None)
            if answer is None:
                raise LookupError(f"The script has no answer left for request {request.number}")
            return as_answer(answer)
        except Exception as error:
            self.errors.append(error)
            return HttpError(error="bad_request")

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
