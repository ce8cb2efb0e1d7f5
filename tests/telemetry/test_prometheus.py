"""The Temporal SDK's own metrics are served to Prometheus on a port."""

import socket
import urllib.request

import pytest

from sojourn.errors import DefinitionError
from sojourn.logs.temporal import runtime_with_metrics
from sojourn.server.ports import pick


@pytest.mark.parametrize("by", ["option", "variable"])
async def test_the_port_answers(desk, by):
    """A worker with `--metrics-port` or `SOJOURN_METRICS_PORT` serves metrics in Prometheus' format on 127.0.0.1."""
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


async def test_a_worker_serves_without_metrics_while_its_port_is_taken(desk):
    """While another process listens on the port, such as a worker that drains, the worker warns and serves runs."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        at = str(taken.getsockname()[1])
        name = f"worker-{len(desk.processes)}"
        await desk.worker("-m", "sojourn", "worker", "traced_app:app", "--metrics-port", at)
        await desk.run("desk.clerk")
    log = desk.log(name)
    assert f"no metrics are served: 127.0.0.1:{at} is in use" in log
    assert "Traceback" not in log


async def test_an_address_of_another_machine_is_refused(desk):
    """A worker that cannot serve its metrics at an address exits with status 2 and says what to do."""
    at = "192.0.2.1:9464"
    process = desk.start("-m", "sojourn", "worker", "traced_app:app", "--metrics-port", at, log="worker")
    await desk.until(lambda: process.poll() is not None)
    assert process.poll() == 2
    log = desk.log("worker")
    assert f"metrics cannot be served at {at}" in log
    assert "SOJOURN_METRICS_PORT" in log
    assert "Traceback" not in log


def test_an_invalid_port_is_refused(subtests: pytest.Subtests) -> None:
    """A setting without a valid port is refused with an example of a valid one."""
    rows = ["", "x", "0", "65536", "-1", "localhost:", "1.2.3.4:http"]
    for at in rows:
        with subtests.test(at=at), pytest.raises(DefinitionError, match=r"such as 9464"):
            runtime_with_metrics(at)
