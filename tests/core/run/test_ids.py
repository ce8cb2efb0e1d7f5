"""Ids that the run makes: for calls, questions, turns and child runs."""

from hypothesis import given
from hypothesis import strategies as st

from sojourn import Message, PlanResult, ToolRequest
from sojourn.contracts.ids import CALL_ID
from sojourn.contracts.message import TextPart, ThinkingPart, ToolCallPart
from sojourn.core.awaits.waits import unique_await_id
from sojourn.core.run.ids import assign_ids, child_run_id, turn_after, write_final_ids

# Ids as planners give them: valid, used earlier in the run, malformed, left out.
GIVEN = st.sampled_from(["", "c1", "c2", "c3", "old", "a b", "x/y", "z" * 65, "call_0"]) | st.text(max_size=5)
RUN_IDS = st.text(min_size=1, max_size=400)
CALL_IDS = st.from_regex(CALL_ID, fullmatch=True)


def requests(ids: list[str]) -> list[ToolRequest]:
    return [ToolRequest(name=f"a.b.n{n}", payload={"n": n}, tool_call_id=id) for n, id in enumerate(ids)]


def stamped(ids: list[str], *, taken: set[str] | None = None, plan: int = 1) -> list[str]:
    calls = assign_ids(requests(ids), run_id="r", turn_id="t1", plan=plan, taken=taken or set())
    return [call.tool_call_id for call in calls]


def unique_but_empty(ids: list[str]) -> list[str]:
    """The ids without repetitions, since a plan that repeats an id is refused earlier."""
    return [id for n, id in enumerate(ids) if not id or id not in ids[:n]]


@given(st.lists(GIVEN, max_size=8), st.sets(GIVEN, max_size=4))
def test_every_call_has_an_id_that_is_new_in_the_run(ids: list[str], taken: set[str]) -> None:
    """Final ids are valid, unique, and differ from those of earlier calls, whatever the planner gives (SR-66)."""
    final = stamped(unique_but_empty(ids), taken=taken)
    assert all(CALL_ID.match(id) for id in final)
    assert len(set(final)) == len(final)
    assert not taken & set(final)


@given(st.lists(GIVEN, max_size=8), st.sets(GIVEN, max_size=4))
def test_a_good_id_is_kept_and_nothing_else_of_a_call_changes(ids: list[str], taken: set[str]) -> None:
    """An id that is valid and new is kept, and the rest of a call is never changed."""
    calls = requests(unique_but_empty(ids))
    for before, after in zip(
        calls, assign_ids(calls, run_id="r", turn_id="t1", plan=1, taken=taken), strict=True
    ):
        given = before.tool_call_id
        assert (after.tool_call_id == given) is bool(CALL_ID.match(given) and given not in taken)
        assert after == before.model_copy(update={"tool_call_id": after.tool_call_id})


def test_derived_ids_are_equal_on_every_attempt_and_differ_by_plan() -> None:
    """Another attempt of a plan derives the same ids, and another plan derives others (SR-66)."""
    assert stamped(["", ""]) == stamped(["", ""])
    assert len({*stamped(["", ""]), *stamped(["", ""], plan=2)}) == 4


def test_a_derived_id_yields_to_a_given_one() -> None:
    """If the planner gives the id that would be derived for another call, the two calls still have different ids."""
    (derived,) = stamped([""])
    final = stamped(["", derived])
    assert final[1] == derived
    assert len(set(final)) == 2


def test_a_plan_whose_ids_are_kept_keeps_its_message() -> None:
    """If all ids are kept, `with_final_ids` returns the model's message as the same object, or None without a message."""
    calls = requests(["c1", "c2"])
    message = Message.calls(calls)
    assert write_final_ids(PlanResult(tool_calls=calls, message=message), calls) is message
    assert write_final_ids(PlanResult(tool_calls=calls), calls) is None


def test_ids_that_were_left_out_need_no_message() -> None:
    """If only absent ids were filled in, `with_final_ids` is None, since no id of the planner would be lost."""
    calls = requests(["", ""])
    assert write_final_ids(PlanResult(tool_calls=calls), stamp_all(calls)) is None


def stamp_all(calls: list[ToolRequest], taken: tuple[str, ...] = ()) -> list[ToolRequest]:
    return assign_ids(calls, run_id="r", turn_id="t1", plan=1, taken=taken)


def test_a_replaced_id_is_kept_beside_the_new_one() -> None:
    """The provider's id is added to the call part's metadata, and the other parts are unchanged."""
    calls = requests(["old", "c2"])
    parts = [
        ThinkingPart(type="thinking", text="hm"),
        ToolCallPart(type="tool_call", tool_call_id="old", name="a.b.n0", provider_metadata={"k": 1}),
        TextPart(type="text", text="and"),
        ToolCallPart(type="tool_call", tool_call_id="c2", name="a.b.n1"),
    ]
    final = stamp_all(calls, taken=("old",))
    message = write_final_ids(
        PlanResult(tool_calls=calls, message=Message(role="assistant", parts=parts)), final
    )
    assert message is not None
    assert message.parts == [
        parts[0],
        parts[1].model_copy(
            update={
                "tool_call_id": final[0].tool_call_id,
                "provider_metadata": {"k": 1, "tool_call_id": "old"},
            }
        ),
        parts[2],
        parts[3],
    ]


def test_a_replaced_id_makes_a_message_where_there_was_none() -> None:
    """For a plan without a message, a message is made that keeps the planner's replaced id."""
    calls = requests(["x/y"])
    message = write_final_ids(PlanResult(tool_calls=calls), stamp_all(calls))
    assert message is not None
    assert message.tool_calls[0].provider_metadata == {"tool_call_id": "x/y"}


@given(
    st.lists(GIVEN, min_size=1, max_size=6).map(unique_but_empty),
    st.sets(GIVEN, max_size=3),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_the_message_has_exactly_the_final_calls(ids, taken, random, shuffled: bool) -> None:
    """Each final id is in the message once, and the calls keep the message's order."""
    calls = requests(ids)
    said = list(calls)
    if shuffled:
        random.shuffle(said)
    final = stamp_all(calls, taken=tuple(taken))
    message = write_final_ids(PlanResult(tool_calls=calls, message=Message.calls(said)), final)
    assert message is not None
    assert sorted(c.tool_call_id for c in message.tool_calls) == sorted(c.tool_call_id for c in final)
    assert [c.payload for c in message.tool_calls] == [c.payload for c in said]


def test_a_child_run_is_named_after_the_call_that_started_it() -> None:
    """A child run's id is `<parent run>/<tool_call_id>` (SR-53)."""
    assert child_run_id("diagnose-1", "call_1") == "diagnose-1/call_1"
    assert child_run_id("r/c1", "c2") == "r/c1/c2"


@given(RUN_IDS, RUN_IDS, CALL_IDS, CALL_IDS)
def test_child_run_ids_are_short_and_distinct(one: str, other: str, call: str, another: str) -> None:
    """A child run's id has at most 200 characters, differs for every run and call, and ends with the call's id."""
    child = child_run_id(one, call)
    assert len(child) <= 200
    assert child.rsplit("/", 1)[-1] == call
    assert (child == child_run_id(other, another)) is ((one, call) == (other, another))


def test_nesting_does_not_make_ids_longer_and_longer() -> None:
    """A thousand levels of child runs have distinct ids of at most 200 characters."""
    run_id, seen = "r" * 200, set[str]()
    for _ in range(1000):
        run_id = child_run_id(run_id, "c" * 64)
        seen.add(run_id)
    assert len(seen) == 1000
    assert max(map(len, seen)) <= 200


def test_a_questions_id_is_as_wanted_and_then_numbered() -> None:
    """A question's id is the given one or SR-94's `fix-<tool>`; a repeated id gets a number."""
    assert unique_await_id("fix-a.b.c", tool=None, taken=[]) == "fix-a.b.c"
    assert unique_await_id("", tool="a.b.c", taken=["fix-a.b.c"]) == "fix-a.b.c#2"
    assert unique_await_id("", tool="a.b.c", taken=["fix-a.b.c", "fix-a.b.c#2"]) == "fix-a.b.c#3"
    assert unique_await_id("", tool=None, taken=[]) == "question"


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "q", "q#2", "x" * 300]), st.none() | st.just("t" * 300)), max_size=8
    )
)
def test_question_ids_are_unique_and_bounded(wanted: list[tuple[str, str | None]]) -> None:
    """For any given ids, the ids of questions are unique and have 1 to 130 characters."""
    taken: list[str] = []
    for id, tool in wanted:
        taken.append(unique_await_id(id, tool=tool, taken=taken))
    assert len(set(taken)) == len(taken)
    assert all(0 < len(id) <= 130 for id in taken)


def test_turns_are_numbered() -> None:
    """Turns are `t1`, `t2` and so on, or the caller's id, which gets a number from the second turn on (SR-65, ME-20)."""
    assert [turn_after("", n) for n in (1, 2, 3)] == ["t1", "t2", "t3"]
    assert [turn_after("turn-9", n) for n in (1, 2, 3)] == ["turn-9", "turn-9.2", "turn-9.3"]
