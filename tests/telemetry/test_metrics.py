"""Metrics: runs, calls, repairs and plans are counted, each once."""

from sojourn.telemetry.recorder import METRICS


async def test_the_metrics_of_a_run(clerk):
    """Every call, error, repair and token of a run and of its child run is counted once, however often it is replayed.

    A success after a failure without a hint, such as that of `fail`, is no repair.
    """
    desk, _ = clerk
    agents = {"desk.clerk": 1, "desk.helper": 1}
    assert desk.count("sojourn.runs.started", "gen_ai.agent.name") == agents
    assert desk.count("sojourn.runs.ended", "gen_ai.agent.name") == agents
    assert desk.count("sojourn.runs.ended", "sojourn.run.status", "sojourn.outcome") == {
        ("completed", "answered"): 2
    }
    assert desk.count("gen_ai.invoke_agent.duration", "gen_ai.agent.name") == agents
    assert desk.count("sojourn.tool.calls", "gen_ai.tool.name") == {
        "desk.notes.read": 2,
        "desk.notes.near": 1,
        "_OTHER": 1,
        "desk.help.ask": 1,
        "desk.notes.write": 2,
        "desk.notes.fail": 2,
        "desk.notes.flaky": 1,
    }
    assert desk.count("sojourn.tool.errors", "gen_ai.tool.name", "error.type") == {
        ("_OTHER", "tool_unavailable"): 1,
        ("desk.notes.write", "missing_fields"): 1,
        ("desk.notes.fail", "ValueError"): 1,
    }
    assert desk.count("sojourn.tool.repairs", "gen_ai.tool.name", "error.type") == {
        ("desk.notes.write", "missing_fields"): 1
    }
    executions = desk.count("gen_ai.execute_tool.duration", "gen_ai.tool.name", "error.type")
    assert executions["desk.notes.flaky", "RateLimited"] == executions["desk.notes.flaky", None] == 1
    assert desk.count("sojourn.plan.duration", "sojourn.outcome") == {"calls": 4, "final": 2}
    tokens = {
        (point["attributes"]["gen_ai.agent.name"], point["attributes"]["gen_ai.token.type"]): point["sum"]
        for point in desk.points("gen_ai.client.token.usage")
    }
    assert tokens == {
        ("desk.clerk", "input"): 40,
        ("desk.clerk", "output"): 12,
        ("desk.helper", "input"): 20,
        ("desk.helper", "output"): 6,
    }


async def test_a_run_of_several_executions_is_counted_once(desk):
    """It starts and ends once, with one duration, and each of its executions has a span that ends."""
    worker = await desk.worker("serve_short.py")
    run = await desk.run("desk.clerk")
    await desk.end(worker)
    kinds = [event.type async for event in run.events()]
    continued = kinds.count("run_continued")
    assert continued
    spans = [
        span["attributes"].get("sojourn.run_id")
        for span in desk.spans()
        if span["name"] == "invoke_agent desk.clerk"
    ]
    assert spans == [run.id] * (2 + continued)  # the client's, and one for each execution
    agents = {"desk.clerk": 1, "desk.helper": 1}
    assert desk.count("sojourn.runs.started", "gen_ai.agent.name") == agents
    assert desk.count("sojourn.runs.ended", "gen_ai.agent.name") == agents
    assert desk.count("gen_ai.invoke_agent.duration", "gen_ai.agent.name") == agents


async def test_names_and_units_arrive(clerk):
    """The receiver gets all metrics with their declared names and units, except those of waits, which the run had none of."""
    desk, _ = clerk
    sent = {(point["name"], point["unit"]) for point in desk.points_of_all()}
    declared = {(name, unit) for name, (unit, _) in METRICS.items()}
    assert sent == {each for each in declared if not each[0].startswith("sojourn.await")}


async def test_metrics_alone(desk):
    """With traces turned off, metrics are still sent."""
    desk.environment["OTEL_TRACES_EXPORTER"] = "none"
    worker = await desk.worker()
    await desk.run("desk.clerk")
    await desk.end(worker)
    assert desk.spans() == []
    assert desk.count("sojourn.runs.ended") == {(): 2}
