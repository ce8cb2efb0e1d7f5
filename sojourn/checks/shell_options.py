"""Repeat a command's connection options in the command lines that it prints."""

__all__ = ["APP", "CODEC", "SERVER", "connection_options", "server_options"]


SERVER: list[str] = []
"""The options that choose the server, as they were given."""

CODEC: list[str] = []
"""The options of encryption, as they were given."""

APP: list[str] = []
"""The option `--app`, as it was given."""


def connection_options() -> str:
    """Return the options of server, encryption and storage that the user gave."""
    return "".join([*SERVER, *CODEC, *APP])


def server_options() -> str:
    """Return the options that choose the server, which the `temporal` command has too."""
    return "".join(SERVER)
