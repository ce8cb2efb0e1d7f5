"""Declare how to reach an MCP server, and find the credentials in that.

Only credentials are masked. A server that says `outside the allowed directories: /srv/photos` tells the
model how to repair its call, so a path, a region or a word is no secret, unless the name beside it says so.
Any other is declared: `mcp.Stdio(..., secrets=[...])`.

Nothing is started or imported until a session opens. A `repr` shows no secrets: of a process only the
program, of an address only scheme, host and port.
"""

import asyncio
import inspect
import os
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from sojourn.authoring.options import TEXT, TEXTS, Kind, declares
from sojourn.contracts.tool_call import ToolCallMeta
from sojourn.errors import DefinitionError, RateLimited, ToolUnavailable
from sojourn.mcp.auth import Auth
from sojourn.mcp.caller import Caller, Credentials

if TYPE_CHECKING:
    from sojourn.mcp.streams import Link

__all__ = [
    "Http",
    "Sse",
    "Stdio",
    "Transport",
    "distinct",
    "of_address",
    "of_arguments",
    "of_environment",
    "of_headers",
]

_NAME = re.compile(
    r"(?:(?<![a-z])|api|access|secret|private|signing|service|account|auth|master|license)key(?:s|id)?(?![a-z])"
    r"|tokens?(?![a-z])|secrets?(?![a-z])|pass(?:word|wd|phrase|code)s?(?![a-z])|credentials?(?![a-z])"
    r"|bearer|cookies?(?![a-z])|signature|(?<![a-z])(?:pat|pwd|pass|auth|sig|jwt|dsn|otp|pin)(?![a-z])"
    r"|authorization|authentication",
    re.IGNORECASE,
)

_PLACE = re.compile(r"(?:file|path|dir|directory|folder|url|uri|host|name|ttl|type)s?\Z", re.IGNORECASE)
_FILE = re.compile(r"(?:~|\.{0,2})/[^\0]*\.[A-Za-z0-9]{1,8}\Z|[A-Za-z]:\\")

_SHAPES = re.compile(
    r"(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[abeoprs]|xapp|hf|npm|pypi|dop_v1|shpat|AKIA|ASIA|AIza|ya29\.|eyJ)"
    r"[-_A-Za-z0-9.=+/]{12,}\Z"
)

_SCHEME = re.compile(r"(?:bearer|basic|token|apikey|digest|negotiate) +\S", re.IGNORECASE)
_RANDOM = re.compile(r"(?=(?:.*\d){2})(?=.*[A-Za-z])[A-Za-z0-9_~.=-]{20,}\Z")


def of_environment(env: Mapping[str, str]) -> Iterator[str]:
    for name, value in env.items():
        yield from _of_named(name, value)


def of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the credentials of headers, each with and without its scheme."""
    for name, value in headers.items():
        if _is_name(name) or _SCHEME.match(value):
            yield from (value, *_words(value))
        else:
            yield from _of_text(value)


def of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    option = ""
    for argument in arguments:
        name, sign, value = _pair(argument)
        if sign:
            yield from _of_named(name, value)
        elif option and not argument.startswith("-"):
            yield from _of_named(option, argument)
        yield from _of_text(argument)
        option = argument.lstrip("-/") if argument.startswith("-") and not sign else ""


def of_address(text: str) -> Iterator[str]:
    """Yield the credentials of an address, each as a server may repeat it."""
    try:
        parts = urlsplit(text)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
    except ValueError:
        return
    if not parts.netloc:
        return
    if password:
        yield from (password, parts.password or "", b64encode(f"{user}:{password}".encode()).decode())
    elif user:
        yield from (user, b64encode(f"{user}:".encode()).decode())  # as in https://TOKEN@host
    for segment in parts.path.split("/"):
        if _is_random(segment):
            yield from (segment, unquote(segment))
    for pair in parts.query.split("&"):
        name, _, raw = pair.partition("=")
        for _, value in parse_qsl(pair):
            if _is_name(unquote(name)) or _is_random(value):
                yield from (raw, value)


def distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in values if each))


def _of_named(name: str, value: str) -> Iterator[str]:
    if _is_name(name) and not _FILE.match(value) and not _is_address(value):
        yield from (value, *_words(value))
    yield from _of_text(value)


def _of_text(text: str) -> Iterator[str]:
    yield from of_address(text)
    yield from (word for word in (text, *text.split()) if _SHAPES.match(word))


def _words(value: str) -> list[str]:
    """Return the parts of a value that may be repeated alone, as of `Bearer TOKEN`."""
    cookies = [pair.partition("=")[2] for pair in value.split("; ")] if "=" in value else []
    return [value.rpartition(" ")[2], *cookies]


def _pair(argument: str) -> tuple[str, str, str]:
    """Return the name, the sign and the value of an argument, if it has a sign."""
    for sign in ("=", ":"):
        name, found, value = argument.partition(sign)
        if found and re.fullmatch(r"[-/]{0,2}[\w.-]{1,80}", name) and not value.startswith("//"):
            return name.lstrip("-/"), sign, value.strip()
    return "", "", ""


def _is_name(name: str) -> bool:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return bool(_NAME.search(words)) and not _PLACE.search(words)


def _is_address(text: str) -> bool:
    return "://" in text


def _is_random(text: str) -> bool:
    return bool(_RANDOM.match(text)) or bool(_SHAPES.match(text))


class Transport(Protocol):
    """How to reach a server."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values to mask in the server's texts, which the client sends to it."""
        ...

    def connect(self, link: "Link") -> AbstractAsyncContextManager[Any]:
        """Open the SDK's pair of streams, read and write, until the context closes."""
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
    """A server that runs as a child process, over standard input and output.

    The process gets only `env` and `PATH` (the worker's, unless `env` has one): no `HOME`, and no
    credentials from the worker's environment.

    Args:
        command: The program: a path, or a name to look up in `PATH`.
        *arguments: The program's arguments.
        env: The process's environment.
        cwd: The process's working directory; by default the worker's.
        secrets: Values that are masked in the server's errors, beside those that look like credentials.

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
        """The declared `secrets`, and credentials in the arguments and `env`."""
        return distinct([*self._declared, *of_arguments(self.arguments), *of_environment(self.env)])

    def connect(self, link: "Link") -> AbstractAsyncContextManager[Any]:
        """Start the process, which ends with the context, and its children."""
        from sojourn.mcp.stdio import stdio_streams  # noqa: PLC0415 - loads the SDK

        return stdio_streams(self.command, self.arguments, self.env, self.cwd, link)

    def __repr__(self) -> str:
        return f"Stdio({self.command!r})"


MakeHeaders = Callable[[ToolCallMeta | None], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""The headers of a request for a call; None stands for listing."""

_HEADERS = Kind(
    "a mapping of name to text, or a function of a call's meta that returns one",
    lambda given: _TEXTS_BY_NAME.fits(given) or (callable(given) and not isinstance(given, type)),
    is_secret=True,
)
_MAKE_TIMEOUT = 30.0


class _MadeHeaders:
    """The headers that a function of the author returns for each request."""

    differs_by_caller = True

    def __init__(self, make: MakeHeaders) -> None:
        self._make = make

    def bind(self, toolset_id: str, vault: object) -> None:
        pass

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        try:
            async with asyncio.timeout(_MAKE_TIMEOUT):
                made = self._make(caller.meta)
                headers = dict(await made if inspect.isawaitable(made) else made)
            caller.note(of_headers(headers))
            fault = next(_unsendable(headers), None)
        except (ToolUnavailable, RateLimited):
            raise
        except Exception as error:  # noqa: BLE001 - becomes an error of the call
            # Only its class, and no cause: the text may quote a credential, and causes are recorded too.
            raise ToolUnavailable(
                f"the function of its MCP server's headers fails with {type(error).__name__}"
            ) from None
        if fault is not None:
            raise ToolUnavailable(
                f"the function of its MCP server's headers returns one that cannot be sent: {fault}"
            )
        return headers

    async def renew(self, caller: Caller, sent: Mapping[str, str], challenge: Mapping[str, str]) -> bool:  # noqa: ARG002
        """Return whether the function returns other headers by now."""
        return dict(await self.headers(caller)) != dict(sent)

    async def refuse(
        self,
        caller: Caller,  # noqa: ARG002
        sent: Mapping[str, str],  # noqa: ARG002
        status: int,  # noqa: ARG002
        challenge: Mapping[str, str],  # noqa: ARG002
    ) -> bool:
        return False


_AUTH = Kind(
    "mcp.ClientCredentials(...), mcp.IdentityAssertion(...) or mcp.SignIn(...)",
    lambda given: isinstance(given, Auth),
    is_secret=True,
)


@declares("mcp.Http", url=_SECRET, headers=_HEADERS, auth=_AUTH, secrets=_SECRETS)
class Http:
    """A server at an address, over streamable HTTP.

    Args:
        url: `http://` or `https://`. Messages contain only scheme, host and port.
        headers: Headers of every request, such as `Authorization`; or a function, async or not, that returns those of a
            request. It gets the `ToolCallMeta` of the call, whose `principal` the call acts for, or None for listing.
        auth: How requests get OAuth tokens: `mcp.ClientCredentials(...)` for the deployment; `mcp.SignIn(...)`, or
            `mcp.IdentityAssertion(...)`, for each principal.
        secrets: Values that are masked in the server's errors, beside those that look like credentials.

    Raises:
        DefinitionError: The address or a header cannot be sent.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | MakeHeaders | None = None,
        auth: Auth | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        self.url = url
        self.headers = {} if callable(headers) else dict(headers or {})
        self.credentials: Credentials | None = _MadeHeaders(headers) if callable(headers) else None
        """What gives each request its headers, if they differ by caller."""
        self._auth = auth
        self._declared = tuple(secrets)
        _check(type(self).__name__, url, self.headers)
        if auth is not None:
            _check_alone(type(self).__name__, url, self.headers, self.credentials)
            self.credentials = auth.credentials(url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The declared `secrets`, and credentials in the headers and the address."""
        of_auth = self._auth.secrets if self._auth else ()
        return distinct([*self._declared, *of_headers(self.headers), *of_address(self.url), *of_auth])

    def connect(self, link: "Link") -> AbstractAsyncContextManager[Any]:
        """Open an HTTP client for the requests of a session."""
        from sojourn.mcp.http import http_streams  # noqa: PLC0415 - loads the SDK

        return http_streams(self.url, self.headers, self.credentials, link)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_origin(urlsplit(self.url))!r})"


class Sse(Http):
    """A server at an address, over the older HTTP with server-sent events.

    An answer of over 1 MB ends the session.
    """

    def connect(self, link: "Link") -> AbstractAsyncContextManager[Any]:
        """Open the stream of events."""
        from sojourn.mcp.http import sse_streams  # noqa: PLC0415 - loads the SDK

        return sse_streams(self.url, self.headers, self.credentials, link)


def _check(place: str, url: str, headers: Mapping[str, str]) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise DefinitionError(f"mcp.{place}: the address has the form http://host[:port]/path, or https://")
    for name in _unsendable(headers):
        raise DefinitionError(f"mcp.{place}: the header {name} cannot be sent")


def _check_alone(place: str, url: str, headers: Mapping[str, str], made: object) -> None:
    if made or urlsplit(url).username or any(name.lower() == "authorization" for name in headers):
        raise DefinitionError(
            f"mcp.{place}: auth= gives requests their Authorization; headers and the address may have none, and no function"
        )


def _unsendable(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of headers that HTTP does not allow."""
    for name, value in headers.items():
        if not name.isascii() or not name.isprintable() or any(each in value for each in "\r\n\0"):
            yield ascii(name)[:60]


def _origin(parts: SplitResult) -> str:
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"
