"""Ports: choose the ports of a server, the usual one if it is free, else any free one."""

import random
import re
import socket

__all__ = ["HOST", "LAST_PORT", "is_free", "pick", "port_in_use", "ui_port_of"]

LAST_PORT = 65_535

HOST = "127.0.0.1"
"""The server listens on the loopback interface only: it has no authentication."""

# Below every system's range of ephemeral ports. Any outgoing connection may take a port from that range while a
# server restarts; a client that keeps connecting to the port of a dead server may even connect to itself.
_FIRST, _LAST = 20_000, 31_767
_UI_ABOVE = 1_000
_IN_USE = re.compile(r":(\d+): bind: address already in use")


def is_free(port: int) -> bool:
    """Whether a server can listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def pick(asked: int | None, usual: int) -> int:
    """Return a port to try.

    Args:
        asked: A port is returned unchanged. 0: any free port. None: the usual port if it is free, else any free port.
            The port of the web UI that belongs to any free port is free too.
        usual: The default port.
    """
    if asked:
        return asked
    if asked is None and is_free(usual):
        return usual
    while True:
        port = random.randint(_FIRST, _LAST)  # noqa: S311 - not a secret
        if is_free(port) and is_free(ui_port_of(port)):
            return port


def ui_port_of(port: int) -> int:
    """Return the usual port of the UI, as `temporal server start-dev` chooses it: 1000 above its frontend's."""
    return port + _UI_ABOVE if port + _UI_ABOVE <= LAST_PORT else port - _UI_ABOVE


def port_in_use(log: str) -> int | None:
    """Return the port that was already in use, by a server's log; None if the log names none."""
    match = _IN_USE.search(log)
    return int(match[1]) if match else None
