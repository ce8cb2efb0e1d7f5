"""Telemetry is off unless requested: nothing of it is loaded, installed, opened or written."""

import json

import pytest

from sojourn.telemetry import requested

QUIET = {"loaded": [], "interceptors": []}


@pytest.mark.parametrize(
    "settings",
    [
        {"OTEL_SERVICE_NAME": "desk", "OTEL_RESOURCE_ATTRIBUTES": "a=b"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "RECEIVER", "OTEL_SDK_DISABLED": "true"},
    ],
    ids=["only named", "disabled"],
)
async def test_nothing_happens_unless_requested(desk, settings):
    """A process with client and worker loads no SDK of OpenTelemetry, sends nothing, and writes no header."""
    endpoint = desk.environment.pop("OTEL_EXPORTER_OTLP_ENDPOINT")
    given = {name: endpoint if value == "RECEIVER" else value for name, value in settings.items()}
    run, client = desk.begin_cold("desk.clerk", SERVE="100", **given)
    assert await desk.finish(client) == QUIET
    assert desk.raw() == b""
    history = await desk.client.temporal.get_workflow_handle(run.id).fetch_history()
    assert "_tracer-data" not in json.dumps(history.to_json_dict())


async def test_a_missing_exporter_stops_nothing(desk):
    """With an exporter that is not installed the run continues, without telemetry."""
    _, client = desk.begin(
        "desk.clerk", SERVE="100", OTEL_TRACES_EXPORTER="zipkin", OTEL_METRICS_EXPORTER="none"
    )
    assert (await desk.finish(client))["interceptors"] == []
    assert desk.raw() == b""


async def test_a_missing_exporter_is_one_line(desk):
    """A worker logs once that an exporter is missing, though traces and metrics, its client and itself ask for it."""
    names = {"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_METRICS_EXPORTER": "zipkin"}
    worker = await desk.worker(**names)
    log = desk.log(f"worker-{len(desk.processes) - 1}")
    assert log.count("no installed package provides it") == 1, log
    await desk.end(worker)


@pytest.mark.parametrize(
    ("command", "lines"), [(("list",), 0), (("show", "no-such-run"), 0), (("run", "a.b", "go"), 1)]
)
async def test_only_commands_that_start_runs_name_a_missing_exporter(desk, command, lines):
    """A command that only reads says nothing of a missing exporter; `run` says it once."""
    names = {"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_METRICS_EXPORTER": "zipkin"}
    process = desk.start("-m", "sojourn", *command, log="command", **names)
    await desk.until(lambda: process.poll() is not None)
    assert desk.log("command").count("no installed package provides it") == lines, desk.log("command")


async def test_an_unavailable_receiver_stops_nothing(desk):
    """Without a receiver the run completes, and the processes end."""
    worker = await desk.worker(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    await desk.run("desk.clerk", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    await desk.end(worker)


async def test_a_program_with_a_provider_of_its_own_gets_the_spans(desk):
    """A tracer provider that the program has set gets the spans, without any variable, and replays add none."""
    del desk.environment["OTEL_EXPORTER_OTLP_ENDPOINT"]
    _, client = desk.begin("desk.clerk", SERVE="0", OWN_PROVIDER="1")
    names = await desk.finish(client)
    assert names.count("invoke_agent desk.clerk") == 2
    assert names.count("execute_tool desk.help.ask") == 1
    assert names.count("plan desk.helper") == 2
    assert desk.raw() == b""


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("variables", "traces", "metrics"),
    [
        ({}, [], []),
        ({"OTEL_SERVICE_NAME": "desk", "OTEL_RESOURCE_ATTRIBUTES": "a=b"}, [], []),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}, [], []),
        ({ENDPOINT: "http://h"}, ["otlp"], ["otlp"]),
        ({ENDPOINT: " "}, [], []),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h"}, ["otlp"], []),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ["otlp"], []),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, ["console", "otlp"], []),
        ({ENDPOINT: "http://h", "OTEL_METRICS_EXPORTER": "none"}, ["otlp"], []),
        ({ENDPOINT: "http://h", "OTEL_SDK_DISABLED": "True"}, [], []),
    ],
)
def test_the_variables_request_signals(monkeypatch, variables, traces, metrics):
    """An endpoint or an exporter requests a signal; `none` and `OTEL_SDK_DISABLED` turn signals off."""
    for name in [
        ENDPOINT,
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_TRACES_EXPORTER",
        "OTEL_METRICS_EXPORTER",
    ]:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (requested.exporters("traces"), requested.exporters("metrics")) == (traces, metrics)
    assert requested.is_requested() == bool(traces or metrics)


def test_the_protocol_is_the_standard_s_default(monkeypatch):
    """The protocol is that of the signal's own variable, else of the common one, else `http/protobuf`."""
    assert requested.protocol("traces") == "http/protobuf"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    assert requested.protocol("traces") == "grpc"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
    assert requested.protocol("traces") == "http/protobuf"
    assert requested.protocol("metrics") == "grpc"
