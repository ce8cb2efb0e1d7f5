"""Follow-ups: what a short message means after a question, alone and in a conversation on a real server."""

from datetime import timedelta

import pytest

from planners.follow_up import asked, is_thanks
from planners.questions import ListDevices, ListSites, ListWorkOrders, ShowReadings, WhyDark
from planners.windows import Window
from sojourn import RunFailed
from worker import app

DAYS = Window(length=timedelta(days=3))


@pytest.mark.parametrize(
    ("earlier", "text", "question"),
    [
        (["Why is site s-7 dark?"], "and s-3?", WhyDark("s-3", None)),
        (["Why is site s-7 dark?"], "What about S-3, the last 3 days?", WhyDark("s-3", DAYS)),
        (["Why is site s-7 dark?", "and s-3?"], "again, please", WhyDark("s-3", None)),
        (["Why is site s-7 dark?", "hello", "and s-3?"], "s-2", WhyDark("s-2", None)),
        (["list offline devices of s-3"], "and of s-7", ListDevices("s-7", "offline", None)),
        (["what work is planned at s-3"], "and at s-7?", ListWorkOrders("s-7", "open")),
        (["battery of d-0700"], "and d-0301", ShowReadings("d-0301", "battery_voltage", None)),
        (["why is s-7 dark", "which sites are dark"], "and s-3?", None),
        (["battery of d-0700"], "and s-3?", None),
        (["why is s-7 dark"], "and?", None),
        (["why is s-7 dark"], "sing about s-3", None),
        (["register Ana as contact of s-7"], "and s-3", None),
        (["open a work order for s-7: replace the battery"], "and s-3", None),
        ([], "and s-3?", None),
        (["why is s-7 dark"], "which sites are dark", ListSites("dark")),
    ],
)
def test_what_a_message_means(earlier, text, question):
    assert asked(text, earlier) == question


@pytest.mark.parametrize(
    ("text", "is_one"), [("Thanks!", True), ("thank you.", True), ("thanks for s-3", False)]
)
def test_a_thank_you(text, is_one):
    assert is_thanks(text) == is_one


async def test_a_talk(serve, mcp_server, traces):
    """Each turn makes its own calls; a turn that was interrupted does not confuse the next one."""
    client = await serve(app)
    session = client.session("ops.assistant", "planners-talk")
    first = await session.send("list offline devices of s-3")
    assert (await first.result()).text.startswith("s-3 has 3 offline devices:")
    second = await (await session.send("and s-7?")).result()
    assert second.text.startswith("s-7 has ")
    assert second.tool_calls == 1
    again = await (await session.send("again")).result()
    assert (again.text, again.tool_calls) == (second.text, 1)
    asking = await session.send("why is site s-7 dark")
    await session.run.until_waiting()  # whom to register as contact
    dark = await (await session.send("and s-3?", mode="interrupt")).result()
    with pytest.raises(RunFailed, match="interrupted"):
        await asking.result()
    assert dark.text.startswith("s-3 ")
    assert (await (await session.send("sing")).result()).text.startswith("I do not understand")
    assert (await (await session.send("Thanks!")).result()).text == "You are welcome."
    await session.close()
    await session.run.result()
    await traces(session.run).check()
