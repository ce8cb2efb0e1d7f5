"""An MCP session with a server, owned by a task.

The SDK's client must be entered and left in the same task, so callers send requests through it.
`Client.call_tool` is not used: it validates results with plain `jsonschema`, regular expressions included,
and lists tools by itself. Import this module lazily: it loads the SDK.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT as OnProgress
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

import sojourn
from sojourn.contracts.tool_call import ToolInput
from sojourn.errors import ToolUnavailable
from sojourn.mcp.caller import Caller
from sojourn.mcp.errors import (
    EXCHANGE,
    UNAUTHORIZED,
    ErrorResponse,
    Exchange,
    ServerUnusable,
    SessionRefused,
    SignInRequired,
    translate,
)
from sojourn.mcp.limits import MAX_TEXT_BESIDE, READ_RESOURCE
from sojourn.mcp.streams import CapabilityWriter, Link, ToolListFilter
from sojourn.mcp.transports import Transport
from sojourn.network.client import hide_logs

__all__ = ["OnProgress", "ServerSession"]

T = TypeVar("T")

_ANSWER: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_CLOSING = 10.0
_FIRST_LISTEN = 2.0
_MAX_RETRY = 30.0
_PING_TIMEOUT = 5.0
_SDK_LOGGERS = (
    "client",
    "httpx2",
    "mcp.client.client",
    "mcp.client.session",
    "mcp.client.sse",
    "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
)

# They log whole messages of a server, escape sequences included, in tracebacks. This package logs what matters itself.
hide_logs(_SDK_LOGGERS, lambda: EXCHANGE.get() is not None)


class ServerSession:
    """An MCP session with a server. `lost` is set when it is over.

    `current_transport` is that of the next session: it sends again a request refused for its credentials.
    """

    def __init__(
        self,
        toolset_id: str,
        transport: Transport,
        *,
        on_change: Callable[[], None],
        on_drop: Callable[[str, str], None],
        current_transport: Callable[[], Transport],
        caller: Caller,
    ) -> None:
        self.lost = asyncio.Event()
        self._transport = transport
        self._link = Link(toolset_id, transport.secrets, self.lost.set, caller)
        self._on_change = on_change
        self._on_drop = on_drop
        self._current_transport = current_transport
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner: asyncio.Task[None] | None = None
        self._client: Client | None = None

    async def open(self, within: timedelta) -> None:
        """Connect and negotiate the protocol version.

        Subscribing to changes may take 2 s more than `within`.

        Raises:
            ToolUnavailable: The session could not be opened; the message says why.
        """
        self._owner = asyncio.create_task(self._own(within), name=f"mcp {self._link.toolset_id}")
        await asyncio.shield(self._ready)

    async def close(self) -> None:
        """End the session, and a process that the transport started.

        The session's task is cancelled after 10 s, and after 20 s no longer waited for.
        """
        self.lost.set()
        if self._owner is None:
            return
        await asyncio.wait({self._owner}, timeout=_CLOSING)
        if not self._owner.done():
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=_CLOSING)

    @property
    def is_modern(self) -> bool:
        return self._version() in MODERN_PROTOCOL_VERSIONS

    @property
    def instructions(self) -> str:
        return (self._client and self._client.instructions) or ""

    async def has_resources(self, caller: Caller | None = None) -> bool:
        """Return whether the server lists a resource or template, as few do."""
        if not (self._client and self._client.server_capabilities.resources):
            return False
        listed = await self._ask(lambda client: client.session.list_resources(), caller)
        if listed.resources:
            return True
        return bool(
            (
                await self._ask(lambda client: client.session.list_resource_templates(), caller)
            ).resource_templates
        )

    async def page(self, cursor: str | None, caller: Caller | None = None) -> types.ListToolsResult:
        params = types.PaginatedRequestParams(cursor=cursor)
        return await self._ask(lambda client: client.session.list_tools(params=params), caller)

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        on_progress: OnProgress | None,
        tool_input: ToolInput | None = None,
        caller: Caller | None = None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Call a tool, or continue a call, or read a resource (`READ_RESOURCE`).

        A cancellation is sent to the server.
        """
        if name == READ_RESOURCE:
            read = await self._ask(lambda client: client.session.read_resource(arguments["uri"]), caller)
            return types.CallToolResult(content=[_block(contents) for contents in read.contents])
        request = types.CallToolRequest(params=_params(name, arguments, tool_input))
        state = tool_input.request_state if tool_input else None
        return await self._ask(
            lambda client: client.session.send_request(request, _ANSWER, progress_callback=on_progress),
            caller,
            (state,) if state else (),
        )

    async def _ask(
        self,
        request: Callable[[Client], Awaitable[T]],
        caller: Caller | None = None,
        secrets: tuple[str, ...] = (),
    ) -> T:
        if self._client is None or self.lost.is_set():
            raise ToolUnavailable("the connection to its MCP server broke off")
        caller = caller or self._link.caller
        exchange = Exchange(caller=caller)
        token = EXCHANGE.set(exchange)
        try:
            return await request(self._client)
        except (MCPError, ValidationError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            fault = translate(error, exchange, (*secrets, *caller.secrets, *self._transport.secrets))
            if exchange.leaves_session_in_doubt and await self._is_refused(self._client):
                # Only a request that the server did not read may be sent again.
                fault = fault if exchange.is_about_request else SessionRefused(f"{fault}")
                self.lost.set()
            elif isinstance(fault, SessionRefused):
                self.lost.set()
            elif exchange.status == UNAUTHORIZED:
                # The next session is opened with the credentials that the toolset has by then.
                is_replaced = self._current_transport() is not self._transport
                if is_replaced or not exchange.uses_own_credentials:
                    self.lost.set()
                if is_replaced:
                    fault = SessionRefused(f"{fault}")
            raise fault from None
        finally:
            EXCHANGE.reset(token)

    async def _is_refused(self, client: Client) -> bool:
        """Return whether the server refuses a ping too, or the session was lost.

        A server without pings answers that it does not know the method, so it knows the session.
        """
        exchange = Exchange()
        token = EXCHANGE.set(exchange)
        is_refused = False
        try:
            async with asyncio.timeout(_PING_TIMEOUT):
                await client.session.send_ping()
        except MCPError as error:
            is_refused = exchange.status in (400, 404) and error.code != types.METHOD_NOT_FOUND
        except (TimeoutError, ValidationError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass
        finally:
            EXCHANGE.reset(token)
        return is_refused or self.lost.is_set()

    async def _own(self, within: timedelta) -> None:
        exchange = Exchange()
        EXCHANGE.set(exchange)
        try:
            async with AsyncExitStack() as stack:
                # Not anyio's `fail_after`: the client's cancel scopes outlive this block.
                async with asyncio.timeout(within.total_seconds()):
                    self._client = await stack.enter_async_context(self._new_client())
                async with anyio.create_task_group() as tasks:
                    if self._must_subscribe():
                        await tasks.start(self._listen, self._client)
                    self._settle(None)
                    await self.lost.wait()
                    tasks.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - any error of the SDK or the server ends the session
            self._settle(error, exchange)
        finally:
            self.lost.set()
            self._settle(ConnectionError("closed"), exchange)

    def _settle(self, error: Exception | None, exchange: Exchange | None = None) -> None:
        if self._ready.done():
            return
        if error is None or exchange is None:
            self._ready.set_result(None)
            return
        fault = translate(error, exchange, (*self._link.caller.secrets, *self._transport.secrets))
        if not isinstance(fault, (ToolUnavailable, SignInRequired)):
            text = (
                str(fault)
                if isinstance(fault, ServerUnusable)
                else f"its MCP server answers with an error: {fault}"
                if isinstance(fault, ErrorResponse)
                else f"its MCP server cannot be used: {fault}"
            )
            fault = ToolUnavailable(text, retry_after=getattr(fault, "retry_after", None))
        if isinstance(fault, ToolUnavailable):
            fault.outcome_unknown = False  # no call was sent
        self._ready.set_exception(fault)
        self._ready.exception()  # retrieved: the caller of `open` may have been cancelled

    def _new_client(self) -> Client:
        return Client(
            self._streams(),
            cache=None,
            message_handler=self._on_message,
            client_info=types.Implementation(name="sojourn", version=sojourn.__version__),
        )

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[Any]:
        async with self._transport.connect(self._link) as (read, write):
            filtered = ToolListFilter(
                read, version=self._version, on_drop=self._on_drop, on_end=self.lost.set
            )
            yield filtered, CapabilityWriter(write)

    def _version(self) -> str | None:
        return self._client.session.protocol_version if self._client else None

    async def _on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_change()

    def _must_subscribe(self) -> bool:
        """Return whether changes are announced only to subscribers (2026-07-28)."""
        if self._client is None or not self.is_modern:
            return False
        tools = self._client.server_capabilities.tools
        return bool(tools and tools.list_changed)

    async def _listen(self, client: Client, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Subscribe to changes of the tools, and assume one after each gap."""
        delay, is_started = 1.0, False
        while True:
            try:
                async with AsyncExitStack() as stack:
                    with anyio.fail_after(_MAX_RETRY if is_started else _FIRST_LISTEN):
                        events = await stack.enter_async_context(client.listen(tools_list_changed=True))
                    if is_started:
                        self._on_change()
                    else:
                        task_status.started()
                    delay, is_started = 1.0, True
                    async for _ in events:
                        self._on_change()
            except (MCPError, SubscriptionLost, TimeoutError) as error:
                if not is_started:
                    task_status.started()
                if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
                    return
            is_started = True
            await anyio.sleep(delay)
            delay = min(delay * 2, _MAX_RETRY)


def _block(contents: types.TextResourceContents | types.BlobResourceContents) -> types.ContentBlock:
    """Return a resource's contents as a text cut to its limit, picture or file."""
    if isinstance(contents, types.TextResourceContents):
        text, more = contents.text[:MAX_TEXT_BESIDE], len(contents.text) - MAX_TEXT_BESIDE
        return types.TextContent(
            text=f"{text}\n[{more:,} more characters are left out]" if more > 0 else text
        )
    kind = contents.mime_type or ""
    if kind.startswith("image/"):
        return types.ImageContent(data=contents.blob, mime_type=kind)
    return types.EmbeddedResource(resource=contents)


def _params(
    name: str, arguments: dict[str, Any], tool_input: ToolInput | None
) -> types.CallToolRequestParams:
    if tool_input is None:
        return types.CallToolRequestParams(name=name, arguments=arguments)
    fields = {"input_responses": tool_input.responses or None, "request_state": tool_input.request_state}
    try:
        return types.CallToolRequestParams.model_validate({"name": name, "arguments": arguments, **fields})
    except ValidationError:
        # Such as a list of numbers. No cause: the error's text holds the responses and the server's state.
        raise ServerUnusable(
            "the answers cannot be sent: MCP allows texts, numbers, booleans and lists of texts"
        ) from None
