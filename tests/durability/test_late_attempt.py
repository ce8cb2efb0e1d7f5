"""A worker is cut off from the server and comes back: the results of its late attempts are not used."""

import signal


async def test_the_transcript_of_a_late_attempt_is_not_read(stage):
    """A plan attempt that ends after another was accepted leaves nothing in the transcript that later plans read."""
    stage.hold("namer.plan-2")
    wire = await stage.wire()
    lost = await stage.worker(address=wire.address)
    run = await stage.start("namer")
    await stage.reached("namer.plan-2")
    await wire.cut()

    # Another worker makes the plan too, the server accepts that plan, and its tool begins.
    other = await stage.worker()
    await stage.reached("namer.plan-2", attempt=2)
    stage.hold(f"namer.write-by-{other.name}")
    stage.release("namer.plan-2")
    await stage.reached("namer.plan-2", event="end", attempt=1)
    await stage.reached(f"namer.write-by-{other.name}")
    wire.mend()

    # The tool ends on a worker that drains, so that the next plan is made on the worker of the late attempt.
    other.signal(signal.SIGTERM)
    await other.says("worker_draining")
    stage.release(f"namer.write-by-{other.name}")
    assert await other.ends() == 0

    story = await stage.story(run)
    plans = [line for line in story.records if line["event"] == "start" and line["point"] == "namer.plan-3"]
    (last,) = plans
    assert last["worker"] == lost.name
    assert story.executions("namer.plan-2")[:2] == [("start", 1), ("start", 2)]
    asked = [part["payload"]["text"] for part in parts(last["messages"], "tool_call")]
    results = [part["result"]["result"] for part in parts(last["messages"], "tool_result")]
    assert asked == ["one", f"by-{other.name}"]
    assert results == ["wrote one", f"wrote by-{other.name}"]
    assert story.output.text == f"Write the notes; wrote one; wrote by-{other.name}"


def parts(messages: list, kind: str) -> list:
    """The parts of one type in a transcript."""
    return [part for message in messages for part in message["parts"] if part["type"] == kind]
