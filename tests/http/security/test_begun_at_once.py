"""Two people who begin one session id at the same moment, where only its people see a conversation."""

import asyncio
import copy
import uuid
from collections import Counter

import pytest

from sojourn import Principal
from sojourn.contracts.event import MessageReceivedEvent
from sojourn.errors import RunNotFound
from tests.http.every_protocol import PROTOCOLS
from tests.http.security.hostile.world import Answer, World, world_of


@pytest.fixture(scope="module")
async def world(shop, temporal_address, tmp_path_factory):
    """The service of an app whose runs only their subjects see."""
    app = copy.copy(shop.app)
    app.visibility = "subject"
    async with world_of(app, temporal_address, tmp_path_factory.mktemp("keys"), ["user"]) as made:
        yield made


async def begin(world: World, session_id: str, text: str, *, who: str) -> Answer:
    """Begin a conversation by the API."""
    path, body = f"/v1/sessions/shop.clerk/{session_id}", {"text": text, "message_id": "m-1"}
    return await world.send("POST", path, body, who=who, query={"wait": "30"})


async def test_of_two_who_begin_a_session_id_at_once_one_has_it(world: World, monkeypatch):
    """By every protocol one of each pair begins the conversation, and the other learns that there is none: 404, and no word of it."""
    looked, both = Counter[str](), dict[str, asyncio.Event]()
    service = world.web.state.service
    describe = service._describe

    async def at_once(run_id: str):
        """Look for the conversation, and go on when both of a pair have looked."""
        found = await describe(run_id)
        looked[run_id] += 1
        if looked[run_id] == 2:
            both[run_id].set()
        await both.setdefault(run_id, asyncio.Event()).wait()
        return found

    monkeypatch.setattr(service, "_describe", at_once)

    async def begin_by(name: str) -> None:
        session_id = f"at-once-{uuid.uuid4().hex[:8]}"
        run_id = f"shop.clerk:globex-{world.names['mark']}@{session_id}"
        both[run_id] = asyncio.Event()
        words = {who: f"say-{uuid.uuid4().hex}" for who in ("bo", "col")}
        answers = await asyncio.gather(
            *(
                world.say(name, word, session_id=session_id, message_id="m-1", who=who)
                if name
                else begin(world, session_id, word, who=who)
                for who, word in words.items()
            )
        )
        read = dict(zip(words, answers, strict=True))
        has = [who for who, answer in read.items() if words[who] in answer.text]
        assert len(has) == 1, [each.text for each in answers]
        (other,) = set(words) - set(has)
        assert words[has[0]] not in read[other].text
        assert (read[other].status == 404) or read[other].code == "run_not_found", read[other].text
        said = [
            each.message.text
            for each in await world.events_of(run_id)
            if isinstance(each, MessageReceivedEvent)
        ]
        assert said == [words[has[0]]], name

    await asyncio.gather(*(begin_by(name) for name in ("", *PROTOCOLS) * 2))


async def test_what_a_stranger_says_answers_no_question_of_a_conversation_begun_meanwhile(
    world: World, monkeypatch
):
    """A text that was sent before somebody else began the conversation is no answer to what that one is asked."""
    session_id = f"meanwhile-{uuid.uuid4().hex[:8]}"
    begun = await begin(world, session_id, "ask", who="bo")
    assert begun.value["awaits"], begun.text
    service, run_id = world.web.state.service, begun.value["run_id"]
    describe, looked = service._describe, list[str]()

    async def before_it_began(id: str):
        """The first look was before the conversation began."""
        looked.append(id)
        return await describe(id) if looked.count(run_id) > 1 else None

    monkeypatch.setattr(service, "_describe", before_it_began)
    refused = await world.say("response", "the stranger's word", session_id=session_id, who="col")
    assert (refused.status, refused.code) == (404, "run_not_found")
    assert [each.type for each in await world.events_of(run_id)].count("await_answered") == 0


async def test_a_conversation_refuses_a_program_that_names_somebody_else(world: World):
    """Messages and resumes for a principal that may not see it are refused, whatever its inbox says of them; an operator's are not."""
    bo, col, op = (
        Principal(
            subject=f"{who}-{world.names['mark']}",
            tenant=f"globex-{world.names['mark']}",
            roles=["operator" if who == "op" else "user"],
        )
        for who in ("bo", "col", "op")
    )
    session_id = f"named-{uuid.uuid4().hex[:8]}"
    talk = world.client.session("shop.clerk", session_id, principal=bo, visibility="subject")
    turn = await talk.send("hello", message_id="m-1")
    await turn.result()
    stranger = world.client.session("shop.clerk", session_id, principal=col, visibility="subject")
    for message_id in ("m-1", "m-2"):
        with pytest.raises(RunNotFound, match=f"^there is no run '{talk.run.id}'$"):
            await stranger.send("hello", message_id=message_id)
    with pytest.raises(RunNotFound):
        await talk.run.send({"text": "hello"}, principal=col)
    turn = await world.client.session("shop.clerk", session_id, principal=op).send("hello")
    await turn.result()
    await talk.send("ask")
    await talk.run.until_waiting()
    await talk.run.pause()
    with pytest.raises(RunNotFound):
        await talk.run.resume(messages=["and more"], principal=col)
    await talk.run.resume(messages=["and more"], principal=bo)
    assert (await talk.status()).acts_for == bo
