"""HTTP clients are made only in `sojourn.network`, so that each has time-outs (ME-16)."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NETWORK = ROOT / "sojourn" / "network"
FOLDERS = ("sojourn", "activities", "workflows", "toolsets", "planners")
HTTP_LIBRARIES = ("aiohttp", "http.client", "pycurl", "requests", "urllib3")
HTTPX = {
    *("AsyncClient", "AsyncHTTPTransport", "Client", "HTTPTransport"),
    *("delete", "get", "head", "options", "patch", "post", "put", "request", "stream"),
}
URLLIB = {
    "OpenerDirector",
    "Request",
    "URLopener",
    "build_opener",
    "install_opener",
    "urlopen",
    "urlretrieve",
}
MAKES_A_REQUEST = {
    *(f"{package}.{name}" for package in ("httpx", "httpx2") for name in HTTPX),
    *(f"urllib.request.{name}" for name in URLLIB),
}

TAKES_A_CLIENT = {
    "streamable_http_client": "http_client",
    "sse_client": "httpx_client_factory",
    "AsyncAnthropic": "http_client",
    "AsyncOpenAI": "http_client",
}
"""Functions of SDKs that make their own HTTP client unless the argument named here passes one."""

WORDS = {name.split(".")[0] for name in (*HTTP_LIBRARIES, *MAKES_A_REQUEST)} | TAKES_A_CLIENT.keys()
"""A module that makes a client has one of these in its text."""


def modules() -> list[Path]:
    """The modules that may make no client."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [*(path for path in found if NETWORK not in path.parents), ROOT / "worker.py"]


def bypasses(source: str) -> list[str]:
    """The places where a module makes HTTP clients or requests without `sojourn.network`, as `line: what`."""
    if not any(word in source for word in WORDS):
        return []
    tree = ast.parse(source)
    names = dict(_imported(tree))
    annotations = {
        id(node) for each in ast.walk(tree) for part in _annotations(each) for node in ast.walk(part)
    }
    found: list[str] = []
    for node in ast.walk(tree):
        if id(node) in annotations:
            continue
        what = _resolved(node, names)
        if what in MAKES_A_REQUEST or _is_http_library(what):
            found.append(f"{node.lineno}: {what}")
        if isinstance(node, ast.Call) and (missing := _own_client(node)):
            found.append(f"{node.lineno}: {missing}")
    return found


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each imported name of a module, with the full dotted name that it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield (each.asname, each.name) if each.asname else (each.name.split(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    """The annotations of a node; a type's name there makes no client."""
    for field in ("annotation", "returns"):
        if (part := getattr(node, field, None)) is not None:
            yield part


def _resolved(node: ast.AST, names: dict[str, str]) -> str:
    """The full dotted name that an expression stands for, or an import of an HTTP library; empty for other nodes."""
    match node:
        case ast.Name(id=name):
            return names.get(name, "")
        case ast.Attribute(value=value, attr=attr):
            owner = _resolved(value, names)
            return f"{owner}.{attr}" if owner else ""
        case ast.Import(names=imported):
            return next((each.name for each in imported if _is_http_library(each.name)), "")
        case ast.ImportFrom(module=str(module)) if _is_http_library(module):
            return module
        case _:
            return ""


def _is_http_library(name: str) -> bool:
    return any(f"{name}.".startswith(f"{each}.") for each in HTTP_LIBRARIES)


def _own_client(call: ast.Call) -> str | None:
    """The SDK's function and the missing argument, if the call passes no HTTP client; else None."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    wanted = TAKES_A_CLIENT.get(name)
    given = {keyword.arg for keyword in call.keywords}
    return f"{name} without {wanted}" if wanted and wanted not in given else None


LOOPBACK = {
    "sojourn/server/ports.py",
    "sojourn/testing/providers/clients.py",
}
"""Modules that ask a server on this machine, which needs no retries and must not go through a proxy."""


def test_no_module_makes_an_http_client_of_its_own():
    """A module takes its clients from `sojourn.network`, so that no adapter lacks time-outs and retries (ME-16)."""
    judged = {str(path.relative_to(ROOT)): path.read_text() for path in modules()}
    assert len(judged) > 300
    assert {name: found for name, text in judged.items() if (found := bypasses(text))}.keys() == LOOPBACK


def test_each_way_around_the_network_package_is_found() -> None:
    """A client is found under an alias, in a function, as a base class, and where an SDK would make it."""
    rows = [
        "import httpx2\nhttpx2.AsyncClient()",
        "import httpx2 as h\nclass Mine(h.AsyncClient): ...",
        "from httpx2 import AsyncClient as C\nmake = C",
        "def f():\n    import httpx\n    return httpx.get('http://x')",
        "from httpx2 import AsyncHTTPTransport\nAsyncHTTPTransport(retries=9)",
        "import urllib.request\nurllib.request.urlopen('http://x')",
        "from urllib.request import urlopen\nurlopen('http://x')",
        "from urllib import request\nrequest.urlopen('http://x')",
        "import http.client",
        "from http.client import HTTPSConnection",
        "from http import client\nclient.HTTPConnection('x')",
        "import json, requests.sessions",
        "import aiohttp as web",
        "from mcp.client.streamable_http import streamable_http_client\nstreamable_http_client('http://x')",
        "import openai\nopenai.AsyncOpenAI(max_retries=0)",
    ]
    assert [source for source in rows if bypasses(source) == []] == []


def test_a_module_that_makes_no_client_passes(subtests: pytest.Subtests) -> None:
    """Types, errors, settings, and clients from `sojourn.network` are allowed."""
    rows = [
        "import httpx2\ndef f(client: httpx2.AsyncClient) -> httpx2.Response: ...",
        "import httpx2\nhttpx2.Timeout(10)",
        "from urllib.request import getproxies\ngetproxies()",
        "from http import HTTPStatus\nHTTPStatus(200)",
        "from sojourn.network import http_client\nhttp_client('x').get('/')",
        "import openai\nopenai.AsyncOpenAI(http_client=ours, max_retries=0)",
    ]
    for source in rows:
        with subtests.test(source=source):
            assert bypasses(source) == []


@pytest.mark.essential
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("statement", "loaded"),
    [
        ("import sojourn", set()),
        (
            "from sojourn.network import with_network_retry, timeouts_for, format_network_error, http_client",
            set(),
        ),
        ("import sojourn.network\nsojourn.network.http_client()", {"httpx2"}),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_used(statement, loaded):
    """Importing a name loads neither the HTTP client, nor tenacity, nor Temporal."""
    code = f"{statement}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {"httpx2", "tenacity", "temporalio"} & set(json.loads(done.stdout)) == loaded
