"""Wire: a relay between a worker and the server, which a test can make fail."""

import asyncio
from contextlib import suppress
from pathlib import Path

from sojourn.private import STORAGE_LINK, runtime_path


class Wire:
    """A relay between a worker and the server, which can be cut, or hold back all that the server sends."""

    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._delivers = asyncio.Event()
        self._delivers.set()
        self._is_cut = False
        self._links: set[asyncio.Task[None]] = set()
        self.address = ""
        self._storage: Path | None = None

    @property
    def is_used(self) -> bool:
        """Whether anything has connected."""
        return bool(self._links)

    async def open(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._link, "127.0.0.1", 0)
        _, port = self._server.sockets[0].getsockname()
        self.address = f"127.0.0.1:{port}"
        self._storage = runtime_path(self.address, STORAGE_LINK)
        there = runtime_path(f"{self._host}:{self._port}", STORAGE_LINK)
        assert self._storage
        assert there
        self._storage.symlink_to(there.readlink())  # whoever connects here finds the server's storage

    def hold(self) -> None:
        """Deliver what the worker sends, and hold back what the server sends."""
        self._delivers.clear()

    def release(self) -> None:
        """Deliver what was held back, and all that follows."""
        self._delivers.set()

    async def cut(self) -> None:
        """Close all connections, and refuse new ones until `mend`."""
        self._is_cut = True
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    def mend(self) -> None:
        """Accept connections again."""
        self._is_cut = False

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        if self._storage:
            self._storage.unlink()
        self._server.close()
        await self.cut()

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._is_cut:
            writer.close()
            return
        self._links.add(task)
        there_reader, there_writer = await asyncio.open_connection(self._host, int(self._port))
        both = [self._copy(reader, there_writer), self._copy(there_reader, writer, self._delivers)]
        try:
            with suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.gather(*both)
        finally:
            writer.close()
            there_writer.close()

    @staticmethod
    async def _copy(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, may_pass: asyncio.Event | None = None
    ) -> None:
        while data := await reader.read(65_536):
            if may_pass is not None:
                await may_pass.wait()
            writer.write(data)
            await writer.drain()
        writer.close()
