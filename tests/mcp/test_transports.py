"""Transports: the secrets that are masked."""

from base64 import b64encode

import pytest

from sojourn import mcp
from sojourn.mcp.limits import mask_secrets


def test_a_secret_is_known_in_each_form_that_a_server_may_repeat():
    """A header's value with and without its scheme; the password and its header; the values of credentials in the query."""
    url = "https://someone:pass%40word@example.com/path/orders?key=query-key&n=2&region=eu-west-1"
    headers = {"Authorization": "Bearer bare-token", "X-Token": "own-token", "X-Region": "eu-west-1"}
    assert set(mcp.Http(url, headers=headers).secrets) == {
        "Bearer bare-token",
        "bare-token",
        "own-token",
        "pass@word",
        "pass%40word",
        b64encode(b"someone:pass@word").decode(),
        "query-key",
    }


def test_only_what_looks_like_a_credential_is_a_secret(subtests: pytest.Subtests) -> None:
    """Paths, words, regions and modes are none, so that a server's error can say what may be done in place of it."""
    rows = [
        (mcp.Stdio("server", "/srv/photos", "server", "--region", "eu-west-1", "--mode=production"), set()),
        (mcp.Stdio("server", env={"TMPDIR": "/tmp/work", "REGION": "eu-west-1", "AUTHOR": "Ana Brown"}), set()),
        (mcp.Stdio("server", env={"KEYBOARD": "qwerty-de", "MONKEY": "banana", "TOKEN_FILE": "/run/token"}), set()),
        (mcp.Stdio("server", env={"GOOGLE_APPLICATION_CREDENTIALS": "/etc/keys/app.json"}), set()),
        (mcp.Stdio("server", env={"OPENAI_API_KEY": "open-sesame", "apiKey": "camel-key"}), {"open-sesame", "camel-key"}),
        (mcp.Stdio("server", "-e", "GITHUB_TOKEN=git-token"), {"git-token"}),
        (mcp.Stdio("server", "--header", "Authorization: Bearer of-header"), {"Bearer of-header", "of-header"}),
        (mcp.Stdio("server", "--verbose", "ghp_0123456789abcdef"), {"ghp_0123456789abcdef"}),
        (mcp.Stdio("server", "--token", "--verbose"), set()),
        (mcp.Stdio("server", "tools of ana", secrets=["tools of ana"]), {"tools of ana"}),
        (mcp.Http("https://example.com/api/s/6f9d1c0e7a2b48f0b1d3/mcp"), {"6f9d1c0e7a2b48f0b1d3"}),
        (mcp.Http("https://example.com/photos-of-december/mcp?profile=production-east"), set()),
        (mcp.Http("https://example.com/mcp", headers={"Cookie": "sid=of-cookie; b=2"}, secrets=["declared"]),
         {"declared", "sid=of-cookie; b=2", "b=2", "of-cookie", "2"}),
    ]  # fmt: skip
    for transport, secrets in rows:
        with subtests.test(transport=transport, secrets=secrets):
            assert set(transport.secrets) == secrets


def test_arguments_and_environment_of_a_process_are_secrets(subtests: pytest.Subtests) -> None:
    """The value of `--token=value` and the one after `--key` are masked, and the passwords of addresses; the rest is not."""
    rows = [
        "option-token",
        "next-token",
        "database-password",
        "own-token",
        "cache-password",
    ]
    for repeated in rows:
        with subtests.test(repeated=repeated):
            transport = mcp.Stdio(
                "server",
                "--token=option-token",
                "--key",
                "next-token",
                "postgresql://someone:database-password@db.internal/orders",
                env={
                    "PATH": "/bin/of/all",
                    "TOKEN": "own-token",
                    "CACHE": "redis://:cache-password@cache.internal",
                },
            )
            text = mask_secrets(f"no {repeated} at db.internal in /bin/of/all", transport.secrets)
            assert text == "no *** at db.internal in /bin/of/all"


def test_a_shorter_secret_does_not_reveal_the_rest_of_a_longer_one():
    """Values of the environment are masked whole when one contains the other."""
    transport = mcp.Stdio("server", env={"A_KEY": "secret", "B_KEY": "secret-token"})
    assert mask_secrets("bad secret-token", transport.secrets) == "bad ***"


@pytest.mark.parametrize("argument", ["http://[broken", "//", "a:b@c", "="])
def test_an_argument_need_not_be_an_address(argument):
    """Whatever an argument is, its secrets can be listed."""
    assert mcp.Stdio("server", argument).secrets == ()
