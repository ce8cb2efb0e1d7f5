"""Files and folders with the contents of runs, which only their owner can read."""

import contextlib
import errno
import ipaddress
import os
from pathlib import Path

__all__ = [
    "MAX_PATH",
    "STORAGE_LINK",
    "is_private",
    "is_this_machine",
    "keep_private",
    "private_folder",
    "private_opener",
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
