"""The Temporal SDK's own metrics, for Prometheus, on a port."""

import socket
import urllib.request

import pytest

from sojourn.errors import DefinitionError
from sojourn.server.ports import pick
from sojourn.telemetry.prometheus import runtime_with_metrics


@pytest.mark.parametrize("by", ["option", "variable"])
async def test_the_port_answers(desk, by):
    """A worker asked for a port answers there, on this machine alone, in Prometheus' format."""
    port = str(pick(0, 0))
    command = ("-m", "sojourn", "worker", "traced_app:app")
    if by == "option":
        await desk.worker(*command, "--metrics-port", port)
    else:
        await desk.worker(*command, SOJOURN_METRICS_PORT=port)
    await desk.run("desk.clerk")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    assert any(line.startswith("temporal_workflow_completed") for line in lines)
    assert any(line.startswith("temporal_activity_execution_latency_bucket") for line in lines)


async def test_a_taken_port_is_told(desk):
    """Whoever listens there already stays; the worker ends with status 2 and one line that says what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        at = str(taken.getsockname()[1])
        process = desk.start("-m", "sojourn", "worker", "traced_app:app", "--metrics-port", at, log="worker")
        await desk.until(lambda: process.poll() is not None)
    assert process.poll() == 2
    said = desk.log("worker")
    assert f"127.0.0.1:{at}" in said
    assert "SOJOURN_METRICS_PORT" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("at", ["", "x", "0", "65536", "-1", "localhost:", "1.2.3.4:http"])
def test_what_is_no_port(at):
    """It is refused, with an example of one."""
    with pytest.raises(DefinitionError, match=r"such as 9464"):
        runtime_with_metrics(at)
