"""Keep each value in a file of a folder that workers and the HTTP service share."""

import asyncio
import base64
import contextlib
import fcntl
import hashlib
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from sojourn.private import private_folder, private_opener, replace_private

__all__ = ["FolderVault"]

_POLL = 0.05


class FolderVault:
    """Keeps each value in a file, which only its owner can read.

    Its locks are those of the file system, so all processes are on one machine, or share a file system with locks.

    Args:
        folder: The folder; made when the first value is written.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    async def get(self, key: str) -> bytes | None:
        return await asyncio.to_thread(self._read, self._path(key))

    async def put(self, key: str, value: bytes, expires_in: timedelta | None = None) -> None:
        until = None if expires_in is None else time.time() + expires_in.total_seconds()
        record = json.dumps({"until": until, "value": base64.b64encode(value).decode()})
        await asyncio.to_thread(self._write, self._path(key), record)

    async def delete(self, key: str) -> None:
        await asyncio.to_thread(self._path(key).unlink, missing_ok=True)

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncGenerator[None]:
        """Hold the lock of a key, which ends with the process."""
        path = self._path(key)
        await asyncio.to_thread(private_folder, self._folder)
        with open(path.with_suffix(".lock"), "w", opener=private_opener) as file:  # noqa: ASYNC230 - opens a file of no size
            while True:
                try:
                    # Not in a thread: a canceled caller could not take back the lock that a thread gets.
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(_POLL)
            yield

    def _path(self, key: str) -> Path:
        return self._folder / hashlib.sha256(key.encode()).hexdigest()

    def _read(self, path: Path) -> bytes | None:
        try:
            record = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        if record["until"] is not None and record["until"] < time.time():
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            return None
        return base64.b64decode(record["value"])

    def _write(self, path: Path, record: str) -> None:
        private_folder(self._folder)
        replace_private(path, record)
