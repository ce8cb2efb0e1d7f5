"""Follow-ups: what a short message means after a question, alone and in a conversation on a real server."""

from datetime import timedelta

import pytest

from planners.operations import courtesy
from planners.questions import (
    ListDevices,
    ListSites,
    ListWorkOrders,
    ShowReadings,
    WhyDark,
    Window,
    asked,
    begins_anew,
)
from sojourn import Message, RunFailed
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
        (["why is s-7 dark"], "and?", WhyDark("s-7", None)),
        (["why is s-7 dark"], "so?", None),
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
    ("text", "reply"),
    [
        ("Thanks!", "You are welcome."),
        ("thank you.", "You are welcome."),
        ("thanks for s-3", None),
        ("Hello!", "Hello. I can answer questions such as:"),
        ("help", "I can answer questions such as:"),
        ("sing", None),
    ],
)
def test_a_courtesy(text, reply):
    found = courtesy(text)
    assert (found and found.partition("\n")[0]) == reply


def test_what_is_no_answer(subtests: pytest.Subtests) -> None:
    """A site alone, a name and a no may answer a question; a follow-up that says so is none."""
    rows = [
        ("and s-3?", True),
        ("What about S-3, the last 3 days?", True),
        ("again", True),
        ("which sites are dark", True),
        ("s-3", False),
        ("and Ana Lima, ana@example.org", False),
        ("Ana Lima <ana@example.org>", False),
        ("no", False),
        ("battery_voltage", False),
    ]
    for text, is_one in rows:
        with subtests.test(text=text, is_one=is_one):
            assert begins_anew(text) == is_one


async def test_a_follow_up_in_place_of_an_answer(run):
    """It replaces the question that is open, and registers nobody."""
    await run.ask("why is site s-7 dark")
    answer = await run.finish("and s-3?")
    assert run.payloads("upsert") == []
    assert run.plans[-1].result == {"site_id": "s-3", "dark": False}
    assert answer.startswith("s-3 ")


async def test_an_answer_names_another_site(run):
    """The contact is registered at the site that the question is about."""
    await run.ask("why is site s-7 dark")
    await run.finish("Ana Lima, ana@example.org, as at s-3")
    assert {payload["site_id"] for payload in run.payloads("upsert")} == {"s-7"}


async def test_a_steer_replaces_the_question(run):
    """A follow-up that comes while a turn is under way is what the turn answers; the calls of before stay unused."""
    run.messages.append(Message.user("why is site s-7 dark"))
    for _ in range(2):
        plan = await run.plan([])
        results = [await run.execute(call) for call in plan.tool_calls]
        run.messages += [Message.calls(plan.tool_calls), Message.results(results)]
    answer = await run.finish("and s-3?")
    assert answer.startswith("s-3 ")


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
