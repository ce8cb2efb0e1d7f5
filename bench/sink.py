"""`python -m bench.sink`: a collector that accepts OTLP over HTTP and discards it, until its standard input ends."""

import asyncio
import re
import sys

__all__: list[str] = []

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_TAKEN = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request of a connection with 200."""
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            await reader.readexactly(int(length[1]) if length else 0)
        except (asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.close()
            return
        writer.write(_TAKEN)
        await writer.drain()


async def main() -> None:
    """Listen on a free port and print its number, until standard input ends."""
    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
