"""Servers of tests on a loopback port, of which nothing is left when the test ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

__all__ = ["accepting", "relay"]

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def accepting(serve: Serve, **options: Any) -> AsyncIterator[int]:
    """Accept connections during the body; yields the port.

    A connection that were still open, or a task that still served it, would be collected in the middle of a later test,
    which fails by its `ResourceWarning`. So both are ended, and awaited, before this returns.
    """
    tasks = set[asyncio.Task[None]]()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await serve(reader, writer)
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        closing = asyncio.ensure_future(server.wait_closed())
        await asyncio.sleep(0)
        while tasks or not closing.done():  # a connection that was just accepted has its task a turn later
            for task in tasks:
                task.cancel()
            await asyncio.wait({closing, *tasks}, timeout=0.05)
        await asyncio.sleep(0)  # a transport that was aborted closes in the loop's next turn


async def relay(
    address: str,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    on_sent: Callable[[int], Any] = lambda _size: None,
) -> None:
    """Pass the bytes of a connection to a server and back; `on_sent` gets the size of each piece for the server."""
    host, _, port = address.rpartition(":")
    answers, requests = await asyncio.open_connection(host, int(port))

    async def copy(
        source: asyncio.StreamReader, target: asyncio.StreamWriter, count: Callable[[int], Any]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65_536):
                count(len(data))
                target.write(data)
                await target.drain()
        target.close()

    try:
        await asyncio.gather(copy(reader, requests, on_sent), copy(answers, writer, lambda _size: None))
    finally:
        requests.transport.abort()
