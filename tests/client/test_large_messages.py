"""Large messages: what a planner was given is what everybody reads of the conversation, and what a fork plans on.

`SOJOURN_CASES=100 pytest tests/client/test_large_messages.py` tries as many conversations.
"""

import os
import random
import uuid

import pytest

from sojourn import Message, PlanResult, RunFailed, RunPolicy, Toolset, Turn
from sojourn.attachments import comparable
from sojourn.contracts.message import ImagePart, TextPart
from sojourn.values.wire import MAX_INLINE_BYTES
from tests.encrypted.keys import FernetCodec
from workflows import history_budget

CASES = int(os.environ.get("SOJOURN_CASES", "4"))

SIZES = (10, 9_000, MAX_INLINE_BYTES - 120, MAX_INLINE_BYTES + 120, 100_000, 179_000, 181_000, 240_000)
"""Bytes of a message, around those above which a plan's input names the new messages only."""

tools = Toolset("large.tools")


@tools.tool
async def fill(size: int) -> str:
    """Answer at length."""
    return "x" * size


class Listener:
    """A planner that does what the last message says, and keeps what it is given."""

    def __init__(self) -> None:
        self.given: dict[str, list[Message]] = {}
        """The last transcript of each run."""

    async def plan(self, turn: Turn) -> PlanResult:
        self.given[turn.run.run_id] = list(turn.messages)
        last = turn.messages[-1]
        word, _, size = last.text.partition(" ")
        if last.role == "tool" or word not in ("call", "fail"):
            return PlanResult.final(f"answer {len(turn.messages)}")
        if word == "fail":
            raise TypeError("no such thing")
        return PlanResult.calls(fill.call(size=int(size.split()[0])))


def message_of(dice: random.Random, size: int) -> Message:
    """A message of about so many bytes: a long text, or an image after a short one."""
    text = f"{dice.choice(['say', 'call', 'call', 'fail'])} {dice.choice(SIZES)} "
    if dice.random() < 0.5:
        return Message.user(text + "e" * size)
    image = ImagePart(type="image", media_type="image/png", data="A" * (size // 4 * 4))
    return Message(role="user", parts=[TextPart(type="text", text=text), image])


@pytest.mark.timeout(60 + 30 * CASES)
@pytest.mark.parametrize("is_short", [False, True], ids=["in one execution", "in several"])
async def test_everybody_reads_what_the_planner_was_given(serve, traces, until, monkeypatch, is_short):
    """Whatever the sizes, kinds and failures: history, query, planner and fork have the same messages."""
    if is_short:
        monkeypatch.setattr(history_budget, "CONTINUE_EVENTS", 20)
    went_on = 0
    for case in range(CASES):
        dice, planner = random.Random(case), Listener()
        codec = {"codec": FernetCodec()} if case % 2 else {}
        client = await serve(planner=planner.plan, uses=(tools,), policy=RunPolicy(max_tool_calls=3), **codec)
        session = client.session("test.agent", f"large-{uuid.uuid4().hex[:8]}")
        for _ in range(dice.randint(2, 4)):
            message = message_of(dice, dice.choice(SIZES))
            turn = await session.send(message)
            if message.text.startswith("fail"):
                with pytest.raises(RunFailed, match="no such thing"):
                    await turn.result()
            else:
                await turn.result()
            given, so_far = planner.given[session.run.id], await session.transcript()
            assert comparable(message) in [comparable(each) for each in given]
            assert so_far[: len(given)] == given
            assert so_far == await traces(session.run).transcript()
        went_on += sum([event.type == "run_continued" async for event in session.run.events(follow=False)])
        fork = await client.fork(session.run.id, message="say this again")
        await until(lambda: fork.id in planner.given)  # noqa: B023 - awaited here
        assert planner.given[fork.id] == [*so_far, Message.user("say this again")]
    assert went_on >= is_short * CASES // 2
