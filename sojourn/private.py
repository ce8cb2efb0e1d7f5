"""Files and folders with the contents of runs, which only their owner can read."""

import contextlib
import errno
import fcntl
import ipaddress
import os
import tempfile
from collections.abc import Generator
from pathlib import Path

__all__ = [
    "MAX_PATH",
    "STORAGE_LINK",
    "change_time",
    "is_private",
    "is_this_machine",
    "keep_private",
    "locked",
    "private_folder",
    "private_opener",
    "replace_private",
    "runtime_path",
    "sync_folder",
    "write_private",
]

MAX_PATH = 100
_LONGEST_NAME = len("/sojourn/live-65535.sock.lock")

STORAGE_LINK = "storage-{port}"
_FILE = 0o600
_FOLDER = 0o700
_OURS = ".sojourn"


def private_opener(path: str, flags: int) -> int:
    """Open a new or existing file with mode 0600, for `open(..., opener=...)`."""
    descriptor = os.open(path, flags, _FILE)
    with contextlib.suppress(PermissionError):  # the file of another user, who lets us write
        os.fchmod(descriptor, _FILE)
    return descriptor


def write_private(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8", opener=private_opener) as file:
        file.write(text)


def replace_private(path: Path, text: str) -> None:
    """Replace a file by one of mode 0600, which outlives a power cut.

    A reader sees the file before the change or after it.
    """
    descriptor, place = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # its mode is 0600
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(place, path)
        sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(place)
        raise


@contextlib.contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock of a file, which is another file, since this one is replaced."""
    with open(path.parent / f".{path.name}.lock", "w", opener=_lock_opener) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lock_opener(path: str, flags: int) -> int:
    return private_opener(path, flags | os.O_NOFOLLOW)


def change_time(path: Path) -> tuple[int, int, int, int] | None:
    """Return values that differ after every change of a file, or None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk, and outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # of a file system that has no such thing
            raise
    finally:
        os.close(descriptor)


def keep_private(path: Path) -> None:
    """Set the mode of a file to 0600, if it exists and is ours."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        path.chmod(_FILE)


def private_folder(folder: Path) -> None:
    """Make a folder and its missing parents, with mode 0700.

    Existing folders keep their modes. A new `.sojourn` gets a `.gitignore`.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=_FOLDER, exist_ok=True)
        if path.name == _OURS:
            write_private(path / ".gitignore", "*\n")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder")


def is_private(folder: Path) -> bool:
    """Return whether a path is a folder of ours, no link, that no other can enter."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return (found.st_mode & 0o170077) == 0o040000 and found.st_uid == os.getuid()


def runtime_path(server: str, name: str) -> Path | None:
    """Return the path of a socket or link of a server on this machine, or None."""
    host, _, port = server.rpartition(":")
    if not (port.isascii() and port.isdecimal() and is_this_machine(host)):
        return None
    return _runtime_folder() / name.format(port=int(port))


def is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _runtime_folder() -> Path:
    """Return the folder for the sockets and links of running programs.

    It is in the system's runtime folder if that is private, else below /tmp.
    """
    user = os.getuid()
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{user}"):
        if (
            base.startswith("/")
            and len(os.fsencode(base)) + _LONGEST_NAME <= MAX_PATH
            and is_private(Path(base))
        ):
            return Path(base) / "sojourn"
    return Path(f"/tmp/sojourn-{user}")  # noqa: S108 - it is made with mode 0700, and used only if it is ours
