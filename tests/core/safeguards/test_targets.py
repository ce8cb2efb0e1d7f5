"""What the message of an error shows of what was tried."""

from hypothesis import given
from hypothesis import strategies as st

from sojourn.core.safeguards.error_patterns import MAX_TARGET, target_of

FILES = {
    "[Errno 2] No such file or directory: 'src/a.py'": "src/a.py",
    "ENOENT: no such file or directory, open '/srv/data/x.csv'": "/srv/data/x.csv",
    "Access denied - path outside allowed directories: /etc/passwd not in /srv/files": "/etc/passwd /srv/files",
    "cannot open the file C:\\data\\a.csv": "C:\\data\\a.csv",
    "file `Sales Report.xlsx` is locked": "Sales Report.xlsx",
    "lib/util/b.ts: permission denied": "lib/util/b.ts",
    "PermissionError: https://ana:secret@x.example/a/b?q=1": "x.example/a/b?q=1",
    "read/write error: no such file": "",
    "Permission denied": "",
    "it isn't there and wasn't there: no such file": "",
}
HOSTS = {
    "GET https://a.example:8443/x?q=1 failed: timed out": "a.example:8443",
    "connect ECONNREFUSED 127.0.0.1:80": "127.0.0.1:80",
    "HTTPSConnectionPool(host='api.example.com', port=443): Read timed out.": "api.example.com",
    "dial tcp: lookup db.internal: no such host": "",
    "Could not resolve host: Example.ORG": "example.org",
    "httpx.ConnectTimeout: timed out": "",
    "localhost:3000 refused": "localhost:3000",
    "HTTP 503": "",
}


def test_a_message_shows_its_target() -> None:
    """Of a network error the hosts count, of other errors paths, quoted names and addresses; passwords in addresses are left out."""
    assert {text: target_of("file_io_error", text) for text in FILES} == FILES
    assert {text: target_of("network_error", text) for text in HOSTS} == HOSTS


@given(
    st.text(max_size=5_000)
    | st.sampled_from(["/a" * 3_000, "a." * 3_000, "'a" * 3_000, "a/" * 3_000, "x://" * 2_000, "\\" * 9_000])
)
def test_any_message_has_a_bounded_target(message: str) -> None:
    """No text raises an error, takes long or gives a long target."""
    for category in ("network_error", "file_io_error"):
        assert len(target_of(category, message)) <= MAX_TARGET + 3
