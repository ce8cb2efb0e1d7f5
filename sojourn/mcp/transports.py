"""Transports of MCP: how to reach a server, over standard input and output, streamable HTTP, or server-sent events.

A transport is a declaration: nothing is started or imported until a session opens. Its `repr` shows no
secrets: of a process only the program, of an address only scheme, host and port.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import SplitResult, urlsplit

from sojourn.authoring.options import TEXT, TEXTS, Kind, declares
from sojourn.errors import DefinitionError
from sojourn.mcp import secrets

if TYPE_CHECKING:
    from sojourn.mcp.streams import Link

__all__ = ["Http", "Sse", "Stdio", "Transport"]


class Transport(Protocol):
    """How to reach a server."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values sent to the server that are masked in its errors, questions, progress notes and logged lines."""
        ...

    def connect(self, link: "Link") -> AbstractAsyncContextManager[Any]:
        """Open the SDK's pair of streams, read and write; they close with the context."""
        ...


_SECRET = replace(TEXT, is_secret=True)
_SECRETS = Kind(TEXTS.words, TEXTS.fits, is_secret=True)
_TEXTS_BY_NAME = Kind(
    "a mapping of name to text",
    lambda given: (
        isinstance(given, Mapping)
        and all(
            isinstance(each, str) for pair in cast("Mapping[object, object]", given).items() for each in pair
        )
    ),
    is_secret=True,
)


@declares(
    "mcp.Stdio",
    mends=dict.fromkeys(("arg", "args", "arguments"), 'mcp.Stdio("program", "argument")'),
    command=_SECRET,
    env=_TEXTS_BY_NAME,
    cwd=TEXT,
    secrets=_SECRETS,
)
class Stdio:
    """A server that runs as a child process of the worker and communicates over standard input and output.

    The process gets only `env` and `PATH` (the worker's, unless `env` has one): no `HOME`, and no
    credentials from the worker's environment.

    Args:
        command: The program: a path, or a name to look up in `PATH`.
        *arguments: The program's arguments.
        env: The process's environment.
        cwd: The process's working directory; the worker's when left out.
        secrets: Values that are masked in what the server says of errors, beside those that look like credentials.

    Raises:
        DefinitionError: The command is empty, or the command, an argument or `env` holds a NUL character.
    """

    def __init__(
        self,
        command: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        if wrong := next((each for each in arguments if not isinstance(each, str)), None):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
            raise DefinitionError(
                f"mcp.Stdio: an argument is a text, not an object of class {type(wrong).__name__}"
            )
        self.command = command
        self.arguments = arguments
        self.env = dict(env or {})
        self.cwd = cwd
        self._declared = tuple(secrets)
        if not command or any("\0" in part for part in (command, *arguments, *self.env, *self.env.values())):
            raise DefinitionError("mcp.Stdio: the command is empty, or a part of it holds a NUL character")
        if (
            not arguments
            and len(words := command.split()) > 1
            and (words[1].startswith("-") or os.sep not in command)
        ):
            line = ", ".join(map(repr, words))
            raise DefinitionError(
                f"mcp.Stdio: {command[:80]!r} is a program and its arguments; write mcp.Stdio({line[:200]})"
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """What looks like a credential in the arguments and `env`, and the declared `secrets`."""
        return secrets.distinct(
            [*self._declared, *secrets.of_arguments(self.arguments), *secrets.of_environment(self.env)]
        )

    def connect(self, link: "Link") -> AbstractAsyncContextManager[Any]:
        """Start the process; closing the context ends it and its children."""
        from sojourn.mcp.stdio import stdio_streams  # noqa: PLC0415 - loads the SDK

        return stdio_streams(self.command, self.arguments, self.env, self.cwd, link)

    def __repr__(self) -> str:
        """The program only: arguments may hold secrets."""
        return f"Stdio({self.command!r})"


@declares("mcp.Http", url=_SECRET, headers=_TEXTS_BY_NAME, secrets=_SECRETS)
class Http:
    """A server at an address, over streamable HTTP.

    Args:
        url: `http://` or `https://`; only scheme, host and port are shown anywhere.
        headers: Headers of every request, such as `Authorization`.
        secrets: Values that are masked in what the server says of errors, beside those that look like credentials.

    Raises:
        DefinitionError: The address or a header cannot be sent.
    """

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, secrets: Iterable[str] = ()
    ) -> None:
        self.url = url
        self.headers = dict(headers or {})
        self._declared = tuple(secrets)
        _check(type(self).__name__, url, self.headers)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What looks like a credential in the headers and the address, and the declared `secrets`."""
        return secrets.distinct(
            [*self._declared, *secrets.of_headers(self.headers), *secrets.of_address(self.url)]
        )

    def connect(self, link: "Link") -> AbstractAsyncContextManager[Any]:
        """Open an HTTP client for the requests of a session."""
        from sojourn.mcp.http import http_streams  # noqa: PLC0415 - loads the SDK

        return http_streams(self.url, self.headers, link)

    def __repr__(self) -> str:
        """Scheme, host and port only: the rest of the address may hold secrets."""
        return f"{type(self).__name__}({_origin(urlsplit(self.url))!r})"


class Sse(Http):
    """A server at an address, over the older HTTP with server-sent events; an answer of over 1 MB ends the session."""

    def connect(self, link: "Link") -> AbstractAsyncContextManager[Any]:
        """Open the stream of events."""
        from sojourn.mcp.http import sse_streams  # noqa: PLC0415 - loads the SDK

        return sse_streams(self.url, self.headers, link)


def _check(place: str, url: str, headers: Mapping[str, str]) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise DefinitionError(f"mcp.{place}: the address has the form http://host[:port]/path, or https://")
    for name, value in headers.items():
        if not name.isascii() or not name.isprintable() or any(each in value for each in "\r\n\0"):
            raise DefinitionError(f"mcp.{place}: the header {ascii(name)[:60]} cannot be sent")


def _origin(parts: SplitResult) -> str:
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"
