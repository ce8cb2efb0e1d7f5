"""Messages to a server on this machine are not compressed; a setting decides otherwise."""

import pytest
from temporalio.service import GrpcCompression

from sojourn import Agent, App, Client, DefinitionError, PlanResult, Worker
from sojourn.connection.settings import connect_options
from sojourn.testing import ScriptedPlanner

GZIP, NONE = GrpcCompression.GZIP, GrpcCompression.NONE


@pytest.mark.parametrize(
    ("address", "setting", "expected"),
    [
        ("localhost:7233", "", NONE),
        ("127.0.0.1:1", "", NONE),
        ("[::1]:7233", "", NONE),
        ("temporal.example:7233", "", GZIP),
        ("10.0.0.1:7233", "", GZIP),
        ("localhost:7233", "gzip", GZIP),
        ("temporal.example:7233", "none", NONE),
    ],
)
def test_the_compression_of_an_address(monkeypatch, address, setting, expected):
    """It is that of the setting, else none on this machine and gzip elsewhere."""
    monkeypatch.setenv("SOJOURN_GRPC_COMPRESSION", setting)
    assert connect_options(address)["grpc_compression"] is expected


def test_an_unknown_compression_is_refused(monkeypatch):
    """The error names what is allowed."""
    monkeypatch.setenv("SOJOURN_GRPC_COMPRESSION", "zstd")
    with pytest.raises(DefinitionError, match="SOJOURN_GRPC_COMPRESSION is gzip or none, not 'zstd'"):
        connect_options()


@pytest.mark.parametrize("setting", ["gzip", "none"])
async def test_a_run_with_either(monkeypatch, temporal_address, setting):
    """A worker and a client talk to a server with either."""
    monkeypatch.setenv("SOJOURN_GRPC_COMPRESSION", setting)
    client = await Client.connect(temporal_address, task_queue=f"compressed-{setting}")
    config = client.temporal.service_client.config
    assert config.grpc_compression is (GZIP if setting == "gzip" else NONE)
    app = App(agents=[Agent("test.agent", planner=ScriptedPlanner([PlanResult.final("done")]))])
    async with Worker(app, client):
        assert (await client.execute("test.agent", "go")).text == "done"
