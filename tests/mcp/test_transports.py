"""Transports: the secrets that are masked."""

from base64 import b64encode

from sojourn import mcp


def test_a_secret_is_known_in_each_form_that_a_server_may_repeat():
    """A header's value with and without its scheme, user, password and their header, the query and its values; the longest first."""
    url = "https://someone:pass%40word@example.com/path?key=query-key&n=2"
    secrets = mcp.Http(url, headers={"Authorization": "Bearer bare-token", "X-Token": "own-token"}).secrets
    assert set(secrets) == {
        "Bearer bare-token",
        "bare-token",
        "own-token",
        "someone",
        "pass@word",
        b64encode(b"someone:pass@word").decode(),
        "key=query-key&n=2",
        "query-key",
        "2",
    }
    assert list(secrets) == sorted(secrets, key=len, reverse=True)
    assert mcp.Stdio("x", env={"PATH": "/bin", "TOKEN": "own-token"}).secrets == ("own-token",)
