"""Compression of gRPC messages: none to a server on this machine, gzip to any other, and a setting for both."""

import uuid
from collections.abc import AsyncIterator
from functools import partial

import pytest
from temporalio.service import GrpcCompression

from sojourn import Client
from sojourn.connection.settings import connect_options
from sojourn.errors import DefinitionError
from tests.accepting import accepting, relay

TEXT = "x" * 100_000


class Relay:
    """Passes bytes between clients and a server, and counts those to the server."""

    def __init__(self) -> None:
        self.sent = 0
        self.address = ""

    def count(self, size: int) -> None:
        """Count bytes to the server."""
        self.sent += size


@pytest.fixture
async def counting(temporal_address) -> AsyncIterator[Relay]:
    """A relay to the server."""
    made = Relay()
    async with accepting(partial(relay, temporal_address, on_sent=made.count)) as port:
        made.address = f"127.0.0.1:{port}"
        yield made


@pytest.mark.parametrize(
    ("argument", "variable", "compressed"),
    [
        (None, None, False),
        ("gzip", None, True),
        (None, "gzip", True),
        ("none", "gzip", False),
    ],
)
async def test_messages_are_compressed_where_that_is_set(
    counting, monkeypatch, argument, variable, compressed
):
    """A text of 100 KB goes over the wire as it is, on this machine; a setting compresses it, and an argument wins."""
    if variable:
        monkeypatch.setenv("SOJOURN_GRPC_COMPRESSION", variable)
    async with Client.connect(counting.address, compression=argument) as client:
        run_id, before = f"r-{uuid.uuid4().hex}", counting.sent
        await client.temporal.start_workflow("Any", TEXT, id=run_id, task_queue="nobody")
        assert (counting.sent - before < len(TEXT)) == compressed
        await client.temporal.get_workflow_handle(run_id).terminate()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("localhost:7233", GrpcCompression.NONE),
        ("127.0.0.1:1", GrpcCompression.NONE),
        ("[::1]:7233", GrpcCompression.NONE),
        ("temporal.example.com:7233", GrpcCompression.GZIP),
        ("10.0.0.1:7233", GrpcCompression.GZIP),
    ],
)
def test_the_default_depends_on_where_the_server_is(monkeypatch, address, expected):
    """Compression costs more than it saves where nothing goes over a network."""
    monkeypatch.delenv("SOJOURN_GRPC_COMPRESSION", raising=False)
    assert connect_options(address)["grpc_compression"] is expected


def test_an_unknown_compression_is_refused(monkeypatch):
    """The error names the setting, and what it may be."""
    monkeypatch.setenv("SOJOURN_GRPC_COMPRESSION", "brotli")
    with pytest.raises(DefinitionError, match="SOJOURN_GRPC_COMPRESSION must be gzip or none"):
        connect_options()
