"""Tests of the assistant, with a worker on a real Temporal server; pytest starts both.

No model is asked, and no key is needed.
"""

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from worker import Order, app, find


async def test_an_order_is_found():
    """A tool can be called as the function that it is."""
    assert await find("A-2") == Order(number="A-2", item="chair", price=45)


async def test_the_tool_fits_the_model(serve, use_model):
    """A model that makes arguments up is told that there is no such order, and answers."""
    use_model(app, TestModel(call_tools=["my_project__orders__find"]))
    client = await serve(app)
    output = await client.execute("my_project.assistant", "Where is A-1?")
    assert (output.tool_calls, "there is no order" in output.text) == (1, True)


def pay_back(messages, info):
    """Decide as a model would: ask for the refund of A-1, then answer with the receipt."""
    said = messages[-1].parts[-1]
    if said.part_kind == "tool-return":
        return ModelResponse([TextPart(f"Paid back: {said.content}")])
    return ModelResponse(
        [ToolCallPart("my_project__orders__refund", {"number": "A-1", "amount": 30})]
    )


async def test_a_refund_waits_for_approval(serve, use_model):
    """A run pays back what a person has seen and approved."""
    use_model(app, FunctionModel(pay_back))
    client = await serve(app)
    run = await client.start("my_project.assistant", "Refund A-1")
    (call,) = await run.until_waiting()
    assert call.payload == {"number": "A-1", "amount": 30}
    await run.approve(call, by="ana")
    assert (await run.result()).text == "Paid back: R-A-1-30"
