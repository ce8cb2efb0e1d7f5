"""Secrets: what looks like a credential in the arguments, environment, headers and address of a server.

Only these are masked. A server that says `outside the allowed directories: /srv/photos` tells the model how to repair
its call; masked, the model cannot know where it may read. So a path, a region or a word is no secret, unless the
name beside it says so. What no name gives away is declared: `mcp.Stdio(..., secrets=[...])`.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = ["distinct", "of_address", "of_arguments", "of_environment", "of_headers"]

_NAME = re.compile(
    r"(?:(?<![a-z])|api|access|secret|private|signing|service|account|auth|master|license)key(?:s|id)?(?![a-z])"
    r"|tokens?(?![a-z])|secrets?(?![a-z])|pass(?:word|wd|phrase|code)s?(?![a-z])|credentials?(?![a-z])"
    r"|bearer|cookies?(?![a-z])|signature|(?<![a-z])(?:pat|pwd|pass|auth|sig|jwt|dsn|otp|pin)(?![a-z])"
    r"|authorization|authentication",
    re.IGNORECASE,
)
"""Names of credentials, as of `GITHUB_TOKEN`, `--api-key`, `X-Api-Key`."""

_PLACE = re.compile(r"(?:file|path|dir|directory|folder|url|uri|host|name|ttl|type)s?\Z", re.IGNORECASE)
"""How the name of what is no credential itself ends, such as `TOKEN_FILE`."""

_FILE = re.compile(r"(?:~|\.{0,2})/[^\0]*\.[A-Za-z0-9]{1,8}\Z|[A-Za-z]:\\")
"""The path of a file, as `GOOGLE_APPLICATION_CREDENTIALS` has it."""

_SHAPES = re.compile(
    r"(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[abeoprs]|xapp|hf|npm|pypi|dop_v1|shpat|AKIA|ASIA|AIza|ya29\.|eyJ)"
    r"[-_A-Za-z0-9.=+/]{12,}\Z"
)
"""Tokens that are known by how they begin, and JSON Web Tokens."""

_SCHEME = re.compile(r"(?:bearer|basic|token|apikey|digest|negotiate) +\S", re.IGNORECASE)
"""How the value of a header begins that authenticates, whatever its name."""

_RANDOM = re.compile(r"(?=(?:.*\d){2})(?=.*[A-Za-z])[A-Za-z0-9_~.=-]{20,}\Z")
"""A part of an address that only a machine can have made, as in `/s/6f9d1c0e7a2b48f0b1d3/mcp`."""


def of_environment(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the credentials of an environment: values with the name of one, and those of addresses and arguments."""
    for name, value in env.items():
        yield from _named(name, value)


def of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the credentials of headers, each with and without its scheme (`Bearer`)."""
    for name, value in headers.items():
        if _is_name(name) or _SCHEME.match(value):
            yield from (value, *_words(value))
        else:
            yield from _of_text(value)


def of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the credentials of arguments: of `--token=value`, `--token value`, `NAME_TOKEN=value`, `Authorization: value`, addresses."""
    option = ""
    for argument in arguments:
        name, sign, value = _pair(argument)
        if sign:
            yield from _named(name, value)
        elif option and not argument.startswith("-"):
            yield from _named(option, argument)
        yield from _of_text(argument)
        option = argument.lstrip("-/") if argument.startswith("-") and not sign else ""


def of_address(text: str) -> Iterator[str]:
    """Yield user, password, and the credentials in path and query of an address, each as a server may repeat it."""
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
    """Return the values, each once, without empty ones."""
    return tuple(dict.fromkeys(each for each in values if each))


def _named(name: str, value: str) -> Iterator[str]:
    if _is_name(name) and not _FILE.match(value) and not _is_address(value):
        yield from (value, *_words(value))
    yield from _of_text(value)


def _of_text(text: str) -> Iterator[str]:
    """Yield the credentials of a text without a name: of an address, or a token of a known shape."""
    yield from of_address(text)
    yield from (word for word in (text, *text.split()) if _SHAPES.match(word))


def _words(value: str) -> list[str]:
    """Return the last word of a value of several, as of `Bearer TOKEN`, and the values of cookies."""
    cookies = [pair.partition("=")[2] for pair in value.split("; ")] if "=" in value else []
    return [value.rpartition(" ")[2], *cookies]


def _pair(argument: str) -> tuple[str, str, str]:
    """Return the name, the sign and the value of `--name=value`, `NAME=value` or `Name: value`; no sign for anything else."""
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
