"""Given: the options by which a command was told what to connect to, to repeat them in the command lines that it prints."""

__all__ = ["APP", "CODEC", "SERVER", "connection_options", "server_options"]

SERVER: list[str] = []
"""The options that choose the server, as they were given."""

CODEC: list[str] = []
"""The same of the options of encryption."""

APP: list[str] = []
"""The same of `--app`."""


def connection_options() -> str:
    """Return the options of server, encryption and storage that were given, to append to a printed command line; empty without any."""
    return "".join([*SERVER, *CODEC, *APP])


def server_options() -> str:
    """Return those that choose the server, which Temporal's own command line has too."""
    return "".join(SERVER)
