"""A development server's log, its database lock, and its storage.

Only one server may use a database file: two would corrupt each other's data.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from sojourn.errors import ServerUnavailable
from sojourn.private import (
    STORAGE_LINK,
    is_private,
    keep_private,
    private_folder,
    private_opener,
    runtime_path,
)

__all__ = ["ServerFiles", "StorageLink", "holder_of"]


class ServerFiles:
    """The open files of a server, held while it runs or may be restarted."""

    def __init__(self, *, db_filename: Path | None, log_filename: Path | None) -> None:
        """Open the log, and lock the database file, if there is one."""
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
        """File descriptors with which the lock lasts as long as the server."""
        return [self._lock.fileno()] if self._lock is not None else []

    def sign(self, holder: str) -> None:
        """Write the server's address into the lock file, for the error of a second server."""
        if self._lock is not None:
            os.ftruncate(self._lock.fileno(), 0)
            self._lock.write(holder.encode())

    def close(self) -> None:
        """Close the files, and with them this process's hold of the lock."""
        self._open.close()


def _lock(db_filename: Path) -> IO[bytes]:
    private_folder(db_filename.parent)
    for written in ("", "-wal", "-shm"):
        keep_private(Path(f"{db_filename}{written}"))
    held = open(f"{db_filename}.lock", "a+b", buffering=0, opener=private_opener)  # noqa: SIM115 - stays open as long as the server
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(held)
        held.close()
        raise ServerUnavailable(
            f"another server ({holder or 'still starting'}) uses {db_filename}; use that one, stop it, or choose another file"
        ) from None
    return held


def holder_of(db_filename: Path) -> str | None:
    """Return the address of the server that uses a database file, or None.

    It is empty while that server starts.
    """
    try:
        with open(f"{db_filename}.lock", "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _holder(file)
    except OSError:
        return None
    return None


def _holder(lock: IO[bytes]) -> str:
    lock.seek(0)
    return lock.read().decode(errors="replace").strip()


def _log(log_filename: Path | None) -> IO[bytes]:
    """Open an empty log, unbuffered, since the server's process writes to it too."""
    if log_filename is None:
        return tempfile.TemporaryFile(buffering=0)
    private_folder(log_filename.parent)
    return open(log_filename, "w+b", buffering=0, opener=private_opener)


class StorageLink:
    """The folder of a server's external storage."""

    def __init__(self, db_filename: Path | None) -> None:
        self._is_kept = db_filename is not None
        self._folder = db_filename and db_filename.with_suffix(".storage")
        self._link: Path | None = None

    def make(self, address: str) -> None:
        """Make the folder and the link, if only this user can enter the folder."""
        link = runtime_path(address, STORAGE_LINK)
        if link is None:
            return
        try:
            private_folder(link.parent)
            if not is_private(link.parent):
                return
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="sojourn-storage-"))
            private_folder(self._folder)
            self._folder.chmod(0o700)
            link.unlink(missing_ok=True)
            link.symlink_to(self._folder)
        except OSError:
            return  # runs then keep all in their histories, as with a server elsewhere
        self._link = link

    def remove(self) -> None:
        """Remove the link, and the folder of a server without a database file."""
        link, self._link = self._link, None
        if link is None:
            return
        with suppress(OSError):
            if link.readlink() == self._folder:
                link.unlink()
        if not self._is_kept and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
