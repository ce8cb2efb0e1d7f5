"""Place: where the Unix socket of a server's live text is, and whether who is at its other end is the same user.

Every program of a user that knows the address of a server on this machine finds the same path, in a folder that only
this user can enter.
"""

import ipaddress
import os
import socket
import struct
from pathlib import Path

from sojourn.errors import DefinitionError

__all__ = ["SCHEME", "is_private", "peer_is_us", "socket_at", "socket_of"]

SCHEME = "unix://"
"""Begins the address of a socket; its absolute path follows."""

MAX_PATH = 100
"""Most bytes of a socket's path; macOS allows 103, Linux 107."""

_LONGEST_NAME = len("/sojourn/live-65535.sock.lock")


def socket_of(server: str) -> Path | None:
    """Return the path of the socket that belongs to a Temporal server on this machine; None for any other server.

    Args:
        server: `host:port` of the frontend.
    """
    host, _, port = server.rpartition(":")
    if not (port.isascii() and port.isdecimal() and _is_this_machine(host)):
        return None
    return _runtime_folder() / f"live-{int(port)}.sock"


def socket_at(url: str) -> Path:
    """Return the path in an address `unix:///PATH`.

    Raises:
        DefinitionError: The path is not absolute, or too long for a socket.
    """
    path = url.removeprefix(SCHEME)
    if not path.startswith("/") or "\0" in path:
        raise DefinitionError("SOJOURN_LIVE=unix:///PATH needs an absolute path, so with three slashes")
    if (length := len(os.fsencode(path))) > MAX_PATH:
        raise DefinitionError(
            f"the path of SOJOURN_LIVE=unix:///PATH has {length} bytes, and a socket's path may have "
            f"{MAX_PATH}; choose a shorter one"
        )
    return Path(path)


def is_private(folder: Path) -> bool:
    """Whether a path is a folder, not a link to one, that is ours and that no other user can enter."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return (found.st_mode & 0o170077) == 0o040000 and found.st_uid == os.getuid()


def peer_is_us(connection: socket.socket) -> bool:
    """Whether the process at the other end of a Unix socket runs as this user; True where the system cannot tell."""
    option = getattr(socket, "SO_PEERCRED", None)  # Linux
    if option is None:
        return True
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return user == os.getuid()


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _runtime_folder() -> Path:
    """Return the user's folder of sockets: the system's, if it has a private one, else one below /tmp."""
    user = os.getuid()
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{user}"):
        if (
            base.startswith("/")
            and len(os.fsencode(base)) + _LONGEST_NAME <= MAX_PATH
            and is_private(Path(base))
        ):
            return Path(base) / "sojourn"
    return Path(f"/tmp/sojourn-{user}")  # noqa: S108 - it is made with mode 0700, and used only if it is ours
