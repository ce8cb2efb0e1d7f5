"""A worker is killed while a message is answered and an approval is open: the next one answers it, and the call runs once it is approved."""


async def test_the_answer_comes_from_the_next_worker(stage):
    """The message has one answer, the decision takes effect before it, and the turn knows all of it."""

    async def begun(point: str, count: int = 1) -> None:
        await stage.until(
            f"{count} at {point}", lambda: [line["point"] for line in stage.records()].count(point) >= count
        )

    lost = await stage.worker("answers_app:app")
    session = stage.client.session("answers.agent", "killed")
    first = await session.send("wipe")
    (wait,) = await session.run.until_waiting()
    stage.hold("answers.plan")
    why = await session.send("why?")
    await begun("answers.plan")
    lost.kill()
    await stage.worker("answers_app:app")
    await session.run.approve(wait)
    await begun("wipe")
    await begun("answers.plan", 2)
    stage.release("answers.plan")
    assert (await why.result()).text == "on why?"
    assert (await first.result()).text == "wipe | why? | on why?"
    kinds = [event.type async for event in session.events(follow=False)]
    assert (kinds.count("interim_answer"), kinds.count("message_received")) == (1, 2)
