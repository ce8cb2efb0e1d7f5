"""Listen on the address of the service.

This is apart from the service, so that `sojourn dev` need not load it.
"""

import ipaddress
import socket

from sojourn.errors import DefinitionError

__all__ = ["USUAL_PORT", "address_of", "is_loopback", "listen"]

USUAL_PORT = 8460

TRIED = 100
"""Most ports to try, from the usual one on."""

BACKLOG = 2_048

UNREAD = 60_000
"""Milliseconds after which the kernel drops a connection whose client reads nothing.

Without this, closing such a connection would wait forever.
"""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int | None, *, options: str = "--host or --port") -> socket.socket:
    """Listen on a port: 0 for any, None for the usual one or the next free one.

    Args:
        host: A name or an address of this machine.
        port: The port.
        options: The options of the command that the error names.

    Raises:
        DefinitionError: The port is in use, or the address is not one of this machine.
    """
    ports = range(USUAL_PORT, USUAL_PORT + TRIED) if port is None else [port]
    fault: OSError | None = None
    for each in ports:
        try:
            family, kind, protocol, _, at = socket.getaddrinfo(host, each, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, kind, protocol)
        except OSError as error:
            fault = error
            break
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD)
            listener.bind(at)
            listener.listen(BACKLOG)
            return listener
        except OSError as error:
            listener.close()
            fault = error
    where = (
        f"{host}:{port}" if port is not None else f"{host}:{USUAL_PORT} and the {TRIED - 1} ports after it"
    )
    why = (fault and fault.strerror) or fault
    raise DefinitionError(f"cannot serve HTTP at {where} ({why}); choose another {options}")


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
