"""One way to answer, on real runs: who may, what an answer is bound to, and an answer that is sent again."""

import re
from typing import Any

import pytest

from sojourn import Client, Principal, Run
from sojourn.answers import (
    Answer,
    Answered,
    Decision,
    Declined,
    GivenAnswer,
    Results,
    WaitRef,
    WaitView,
    find_closed_wait,
    open_waits,
    submit,
)
from sojourn.errors import (
    AlreadyAnswered,
    AwaitClosed,
    InvalidInput,
    MissingRole,
    NotApprover,
    OtherKind,
    RunEnded,
    StaleDigest,
    UnknownWait,
)
from tests.console.counting import Asked
from tests.http.shop_app import app

ANA = Principal(subject="ana", roles=["user"])
BO = Principal(subject="bo", roles=["user", "approver"])
CY = Principal(subject="cy", roles=["user", "approver"])
VI = Principal(subject="vi", roles=["viewer"])


@pytest.fixture
async def client(serve) -> Client:
    """A client of the shop, whose worker runs."""
    return await serve(app)


@pytest.fixture
def waiting(client, status_when):
    """Start a run of the clerk; returns it with its open wait."""

    async def start(text: str) -> tuple[Run, WaitView]:
        run = await client.start("shop.clerk", text, principal=ANA)
        waits = open_waits(await status_when(run, lambda status: status.awaits))
        wait = min(waits, key=lambda view: view.kind)
        return run, wait

    return start


def given(wait: WaitView) -> GivenAnswer:
    """An answer that fits the kind of the wait."""
    if wait.kind == "question":
        return Answer("this one")
    if wait.kind == "approval":
        return Decision(True, wait.digest)
    return Results([{"tool_call_id": wait.calls[0].tool_call_id, "result": 2.5}])


def other(answer: GivenAnswer) -> GivenAnswer:
    """Another answer than this one."""
    match answer:
        case Decision():
            return Decision(not answer.approved, answer.digest)
        case Results(results=results):
            return Results([{**results[0], "result": 9.5}])
        case _:
            return Answer("another one")


LATE = {
    "ask": "the question 'Which one\\?' was already answered",
    "wipe": "the call of shop.tools.wipe was already approved",
    "weigh": "the result of shop.outside.weigh was already provided",
}
"""What whoever comes too late is told, without an id."""

ANSWERED = {"ask": "answered", "wipe": "approved", "weigh": "provided"}


@pytest.mark.parametrize("asked", ANSWERED)
async def test_an_answer_is_given_once(waiting, asked: str) -> None:
    """Of each kind: a viewer may not answer, an approver may; the same answer again, by anybody who may give it, is a success that names the first one, and another one is refused with who and when."""
    run, wait = await waiting(asked)
    with pytest.raises(MissingRole):
        await submit(run, VI, wait, given(wait))
    done = await submit(run, BO, wait.ref if asked != "weigh" else wait.await_id, given(wait))
    assert done == Answered(run.id, wait.await_id, ANSWERED[asked], "bo")
    await run.result()
    for again in (BO, CY):
        repeated = await submit(run, again, wait, given(wait))
        assert repeated == Answered(run.id, wait.await_id, ANSWERED[asked], "bo", already=True)
    with pytest.raises(MissingRole):
        await submit(run, VI, wait, given(wait))
    with pytest.raises(AlreadyAnswered) as closed:
        await submit(run, CY, wait, other(given(wait)))
    assert re.fullmatch(rf"{LATE[asked]} by bo at \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC", str(closed.value))
    assert (closed.value.await_id, closed.value.outcome, closed.value.by) == (
        wait.await_id,
        ANSWERED[asked],
        "bo",
    )
    assert closed.value.at is not None


async def test_a_repetition_in_an_open_run_names_the_first_sender(waiting) -> None:
    """Of each kind, while the run is open: the run refuses no repetition, and whoever repeats an answer is not named as its sender."""
    for asked in ("interview 2", "wipe_and_weigh", "weigh_both"):
        run, wait = await waiting(asked)
        answer = given(wait)
        first = await submit(run, BO, wait, answer)
        assert (first.by, first.already) == ("bo", False)
        for again in (BO, CY):
            done = await submit(run, again, wait, answer)
            assert (done.by, done.already) == ("bo", True), asked
        with pytest.raises(AlreadyAnswered, match="by bo at ") as closed:
            await submit(run, CY, wait, other(answer))
        assert (closed.value.by, closed.value.await_id) == ("bo", wait.await_id)


async def test_the_sdk_says_what_a_service_says(waiting) -> None:
    """`Run` itself takes the same answer again, and refuses another, an unknown wait and an ended run each by its own error with the await id."""
    run, wait = await waiting("interview 2")
    first = await run.answer(wait.await_id, "red", by="ana")
    again = await run.answer(wait.await_id, "red", by="bo")
    assert (first, first.already, again, again.already, again.by) == (
        wait.await_id,
        False,
        wait.await_id,
        True,
        "ana",
    )
    with pytest.raises(AlreadyAnswered, match="was already answered by ana at") as closed:
        await run.answer(wait.await_id, "blue")
    assert (closed.value.await_id, closed.value.by, closed.value.outcome) == (
        wait.await_id,
        "ana",
        "answered",
    )
    with pytest.raises(UnknownWait) as unknown:
        await run.answer("never", "blue")
    assert unknown.value.await_id == "never"
    await run.answer((await run.until_waiting())[0].id, "green")
    await run.result()
    assert (await run.answer(wait.await_id, "red")).already
    with pytest.raises(AlreadyAnswered, match="was already answered by ana at"):
        await run.decline(wait.await_id)
    with pytest.raises(RunEnded) as ended:
        await run.answer("never", "red")
    assert ended.value.await_id == "never"


async def test_every_field_that_does_not_fit_is_named(waiting) -> None:
    """An answer by field that does not fit is refused with all its faults, each by the pointer of its field."""
    run, wait = await waiting("form")
    for refused in (
        run.answer(wait.await_id, {"a": "x", "c": 1}),
        submit(run, ANA, wait, Answer({"a": "x", "c": 1})),
    ):
        with pytest.raises(InvalidInput) as wrong:
            await refused
        assert {each["field"] for each in wrong.value.faults} >= {"/a", "/c"}


async def test_another_answer_is_refused(waiting) -> None:
    """The opposite decision, another text and a decline are other answers, also of the same principal."""
    (wiping, call), (asking, question) = await waiting("wipe"), await waiting("ask")
    await submit(wiping, BO, call, Decision(False, reason="not yet"))
    await submit(asking, ANA, question, Answer("red"))
    await wiping.result()
    await asking.result()
    with pytest.raises(AwaitClosed, match=r"was already denied by bo at .* UTC: not yet$"):
        await submit(wiping, BO, call, Decision(True))
    for another in (Answer("blue"), Declined("no idea")):
        with pytest.raises(AwaitClosed, match="was already answered by ana"):
            await submit(asking, ANA, question, another)


async def test_an_equal_answer_is_the_same(waiting) -> None:
    """Values are compared as JSON, in any order of the fields and with 5.0 for 5; another value is another answer, also of an external call."""
    (adding, question), (weighing, outside) = await waiting("form"), await waiting("weigh")
    call = {"tool_call_id": outside.calls[0].tool_call_id}
    await submit(adding, ANA, question, Answer({"a": 5, "b": 2}))
    await submit(weighing, ANA, outside, Results([{**call, "result": 5}]))
    await adding.result()
    await weighing.result()
    for same in (Answer({"b": 2.0, "a": 5.0}), Answer('{"b": 2, "a": 5}')):
        assert (await submit(adding, ANA, question, same)).already
    assert (await submit(weighing, ANA, outside, Results([{**call, "result": 5.0}]))).already
    with pytest.raises(AwaitClosed, match="was already answered by ana"):
        await submit(adding, ANA, question, Answer({"a": 5, "b": 3}))
    for wrong in ({"result": 6}, {"error": "no scale"}):
        with pytest.raises(AwaitClosed, match="was already provided by ana"):
            await submit(weighing, ANA, outside, Results([{**call, **wrong}]))


async def test_an_answer_that_says_nothing_is_refused(waiting) -> None:
    """A blank text answers no question, which stays open, with the same words as an empty one."""
    run, wait = await waiting("ask")
    for text in ("", " ", "\n\t"):
        with pytest.raises(InvalidInput, match="is a text or an object of values by field, and not empty"):
            await submit(run, ANA, wait, Answer(text))
    assert (await run.status()).awaits


async def test_a_decision_is_about_what_was_seen(waiting) -> None:
    """A stale digest decides nothing and says the present one; an approval by id alone names its digest."""
    run, wait = await waiting("wipe")
    for approved in (True, False):
        with pytest.raises(StaleDigest) as stale:
            await submit(run, BO, WaitRef(run.id, wait.await_id, "0" * 64), Decision(approved))
        assert (stale.value.await_id, stale.value.digest) == (wait.await_id, wait.digest)
    with pytest.raises(InvalidInput, match="names the digest"):
        await submit(run, BO, wait.await_id, Decision(True))
    assert (await run.status()).awaits


WRONG: dict[str, tuple[GivenAnswer, ...]] = {
    "ask": (Decision(False), Results([{"tool_call_id": "x", "result": 1}])),
    "wipe": (Answer("yes"), Declined(), Results([{"tool_call_id": "x", "result": 1}])),
    "weigh": (Answer("yes"), Decision(False)),
}


@pytest.mark.parametrize("asked", WRONG)
async def test_an_answer_of_another_kind_says_the_kind(waiting, asked: str) -> None:
    """The run's refusal has the kind of the wait, so nobody asks for the status again; by view or by id."""
    run, wait = await waiting(asked)
    for answer in WRONG[asked]:
        for named in (wait, wait.await_id):
            with pytest.raises(OtherKind) as other:
                await submit(run, BO, named, answer)
            assert (other.value.kind, other.value.await_id) == (wait.kind, wait.await_id)


async def test_who_decides_is_the_rule_of_the_core(waiting) -> None:
    """A user may not decide, by view or by id, nor on a call that is closed; a caller without a principal is not asked here."""
    run, wait = await waiting("wipe")
    for named in (wait, wait.ref, WaitRef(run.id, "confirm-x", "0" * 64)):
        with pytest.raises(NotApprover, match="ana does not have the role approver"):
            await submit(run, ANA, named, Decision(True))
    done = await submit(run, None, wait, Decision(True), by="somebody")
    assert done.by == "somebody"


async def test_a_message_that_answers_a_child_run_is_remembered(client, status_when) -> None:
    """The conversation above remembers the message of an answer to a child run, so it is delivered once."""
    session = client.session("shop.clerk", "talk-1")
    await session.send("below", by="ana")
    status = await status_when(session.run, lambda status: status.child_awaits)
    (wait,) = open_waits(status)
    run = client.get_run(wait.run_id)
    answer: dict[str, Any] = {"message_id": "m-7", "conversation": session.run}
    await submit(run, ANA, wait, Answer("that one"), **answer)
    accepted = await session.run.send({"message_id": "m-7", "text": "that one"})
    assert (accepted.repeated, accepted.is_answer) == (True, True)


async def test_a_message_is_one_answer(waiting, temporal_address) -> None:
    """Sent again under its id with another answer it is refused, as another principal it names the first; and no history is read for it from the beginning."""
    run, wait = await waiting("interview 2")
    async with Client.connect(temporal_address, namespace=run.client.temporal.namespace) as own:
        asked, own_run = Asked(own), own.get_run(run.id)
        for _ in range(2):
            done = await submit(own_run, ANA, wait, Answer("red"), message_id="m-1")
            assert (done.await_id, done.by) == (wait.await_id, "ana")
        assert asked.count["history"] == 0
        other = await submit(own_run, BO, wait, Answer("red"), message_id="m-1")
        assert (other.by, other.already) == ("ana", True)
        with pytest.raises(AlreadyAnswered, match="was already answered by ana"):
            await submit(own_run, ANA, wait, Answer("blue"), message_id="m-1")
        with pytest.raises(AlreadyAnswered, match="was already answered by ana"):
            await own_run.answer(wait.await_id, "blue", message_id="m-1")


async def test_a_closed_wait_is_found_in_the_events_at_hand(waiting, client) -> None:
    """Then no history is read: the run need not even be there."""
    run, wait = await waiting("ask")
    await submit(run, ANA, wait, Answer("red"))
    await run.result()
    recent = [event async for event in run.events(follow=False)]
    gone = Run(None, run.id)  # type: ignore[arg-type]
    found = await find_closed_wait(gone, lambda view: view.await_id == wait.await_id, recent=recent)
    assert found is not None
    assert (found[0].event.text, found[1]) == ("red", None)
