"""The files of a server: its log, and the lock of its database file.

One server a database file: two would corrupt each other's data.
"""

import fcntl
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from sojourn.errors import ServerUnavailable
from sojourn.private import keep_private, private_folder, private_opener

__all__ = ["ServerFiles"]


class ServerFiles:
    """Open, and locked, for as long as a server may run or be started again."""

    def __init__(self, *, db_filename: Path | None, log_filename: Path | None) -> None:
        """Open the log, and lock the database file, where there is one.

        Raises:
            ServerUnavailable: Another server holds the database file, or a file cannot be opened.
        """
        self._open = ExitStack()
        with self._open as opening:
            try:
                self._lock = opening.enter_context(_lock(db_filename)) if db_filename is not None else None
                self.log = opening.enter_context(_log(log_filename))
            except OSError as fault:
                raise ServerUnavailable(f"the server's files cannot be opened: {fault}") from fault
            self._open = opening.pop_all()

    @property
    def inherited(self) -> list[int]:
        """Descriptors for the server to hold too: the lock lasts as long as either of us lives."""
        return [self._lock.fileno()] if self._lock is not None else []

    def sign(self, holder: str) -> None:
        """Leave a note for whoever wants the same database file."""
        if self._lock is not None:
            os.ftruncate(self._lock.fileno(), 0)
            self._lock.write(holder.encode())

    def close(self) -> None:
        """Let go of the files."""
        self._open.close()


def _lock(db_filename: Path) -> IO[bytes]:
    private_folder(db_filename.parent)
    for written in ("", "-wal", "-shm"):
        keep_private(Path(f"{db_filename}{written}"))
    held = open(f"{db_filename}.lock", "a+b", buffering=0, opener=private_opener)  # noqa: SIM115 - open as long as the server
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.seek(0)
        holder = held.read().decode(errors="replace").strip() or "still starting"
        held.close()
        raise ServerUnavailable(
            f"another server ({holder}) uses {db_filename}; use that one, stop it, or choose another file"
        ) from None
    return held


def _log(log_filename: Path | None) -> IO[bytes]:
    """Open a new log; unbuffered, since the server's process writes to it."""
    if log_filename is None:
        return tempfile.TemporaryFile(buffering=0)
    private_folder(log_filename.parent)
    return open(log_filename, "w+b", buffering=0, opener=private_opener)
