"""Transports: the secrets that are masked."""

from base64 import b64encode

import pytest

from sojourn import mcp
from sojourn.mcp.text import masked


def test_a_secret_is_known_in_each_form_that_a_server_may_repeat():
    """A header's value with and without its scheme; user, password and their header; the path and the query, whole and in parts."""
    url = "https://someone:pass%40word@example.com/path/path%2Ftoken?key=query-key&n=2"
    secrets = mcp.Http(url, headers={"Authorization": "Bearer bare-token", "X-Token": "own-token"}).secrets
    assert set(secrets) == {
        "Bearer bare-token",
        "bare-token",
        "own-token",
        "someone",
        "pass@word",
        b64encode(b"someone:pass@word").decode(),
        "/path/path%2Ftoken",
        "/path/path/token",
        "path",
        "path%2Ftoken",
        "token",
        "key=query-key&n=2",
        "query-key",
        "2",
    }


@pytest.mark.parametrize(
    "repeated",
    [
        "--token=option-token",
        "option-token",
        "next-token",
        "postgresql://someone:database-password@db.internal/orders",
        "database-password",
        "own-token",
        "cache-password",
    ],
)
def test_arguments_and_environment_of_a_process_are_secrets(repeated):
    """Each argument is masked, the value of `--key=value`, and what an address holds beside its host; `PATH` is not."""
    transport = mcp.Stdio(
        "server",
        "--token=option-token",
        "--key",
        "next-token",
        "postgresql://someone:database-password@db.internal/orders",
        env={"PATH": "/bin/of/all", "TOKEN": "own-token", "CACHE": "redis://:cache-password@cache.internal"},
    )
    text = masked(f"no {repeated} at db.internal in /bin/of/all", transport.secrets)
    assert text == "no *** at db.internal in /bin/of/all"


def test_a_shorter_secret_does_not_reveal_the_rest_of_a_longer_one():
    """Values of the environment are masked whole when one contains the other."""
    transport = mcp.Stdio("server", env={"SHORT": "secret", "LONG": "secret-token"})
    assert masked("bad secret-token", transport.secrets) == "bad ***"


@pytest.mark.parametrize("argument", ["http://[broken", "//", "a:b@c", "="])
def test_an_argument_need_not_be_an_address(argument):
    """Whatever an argument is, its secrets can be listed."""
    assert argument in mcp.Stdio("server", argument).secrets
