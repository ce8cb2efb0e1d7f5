"""Tests of the assistant, with a worker on a real Temporal server; pytest starts both."""

from worker import Order, app, find


async def test_an_order_is_found():
    """A tool can be called as the function that it is."""
    assert await find("A-2") == Order(number="A-2", item="chair", price=45)


async def test_a_question_is_answered(serve):
    """A run looks the order up and answers."""
    client = await serve(app)
    output = await client.execute("my_project.assistant", "Where is A-1?")
    assert output.text == "Order A-1 is a lamp for 30."


async def test_a_refund_waits_for_approval(serve):
    """A run pays back what a person has seen and approved."""
    client = await serve(app)
    run = await client.start("my_project.assistant", "Refund A-1")
    (call,) = await run.until_waiting()
    assert call.payload == {"number": "A-1", "amount": 30}
    await run.approve(call, by="ana")
    assert (await run.result()).text == "Paid 30 back for order A-1: receipt R-A-1-30."


async def test_a_denied_refund_pays_nothing(serve):
    """A run whose call is denied goes on, and says why."""
    client = await serve(app)
    run = await client.start("my_project.assistant", "Refund A-1")
    (call,) = await run.until_waiting()
    await run.deny(call, "it was used", by="ana")
    assert "it was used" in (await run.result()).text
