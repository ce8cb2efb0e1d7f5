"""The ports of `sojourn worker`: the Temporal SDK's own metrics for Prometheus, and the health probe."""

import json
import socket
import urllib.request

import pytest

from sojourn.server.ports import pick


@pytest.mark.parametrize("by", ["option", "variable"])
async def test_the_ports_answer(desk, by):
    """A worker with the options, or the variables, serves metrics in Prometheus' format, and its health, on 127.0.0.1."""
    port = str(pick(0, 0))
    health = str(pick(0, 0))
    command = ("-m", "sojourn", "worker", "traced_app:app")
    if by == "option":
        await desk.worker(*command, "--metrics-port", port, "--health-port", health)
    else:
        await desk.worker(*command, SOJOURN_METRICS_PORT=port, SOJOURN_HEALTH_PORT=health)
    await desk.run("desk.clerk")
    with urllib.request.urlopen(f"http://127.0.0.1:{health}/ready") as answer:
        assert json.load(answer) == {"state": "polling"}
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
