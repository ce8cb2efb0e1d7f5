"""Place: where the Unix socket of a server's live text is, and whether who is at its other end is the same user.

Every program of a user that knows the address of a server on this machine finds the same path, in a folder that only
this user can enter.
"""

import os
import socket
import struct
from pathlib import Path

from sojourn.errors import DefinitionError
from sojourn.private import MAX_PATH, runtime_path

__all__ = ["SCHEME", "peer_is_us", "socket_at", "socket_of"]

SCHEME = "unix://"
"""Begins the address of a socket; its absolute path follows."""


def socket_of(server: str) -> Path | None:
    """Return the path of the socket that belongs to a Temporal server on this machine; None for any other server.

    Args:
        server: `host:port` of the frontend.
    """
    return runtime_path(server, "live-{port}.sock")


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


def peer_is_us(connection: socket.socket) -> bool:
    """Whether the process at the other end of a Unix socket runs as this user; True where the system cannot tell."""
    option = getattr(socket, "SO_PEERCRED", None)  # Linux
    if option is None:
        return True
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return user == os.getuid()
