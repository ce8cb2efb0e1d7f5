"""The timeline of a run: what events make of it, and what it says has changed."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from sojourn.contracts import event as events
from sojourn.contracts.awaits import (
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    ExternalCall,
)
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Usage
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_call import ArgumentReading, ToolRequest
from sojourn.contracts.tool_error import RetryHint, ToolError
from sojourn.contracts.tool_result import RunLink, ToolResult
from sojourn.timeline import (
    Call,
    End,
    Plan,
    Timeline,
    TimelineTree,
    UserMessage,
    WaitEnd,
    describe_verdict,
    events_of_branch,
)

BEGIN = datetime(2027, 1, 2, tzinfo=UTC)


class Feed:
    """Events of a run, one second after the other."""

    def __init__(self) -> None:
        self.timeline, self.count = Timeline("r"), 0

    def __call__(self, kind, *, after: float = 1, **fields):
        self.count += after
        place = {"run_id": "r", "event_id": f"0-{int(self.count):06}-00000", "turn_id": "t1"}
        self.timeline.feed(kind(**place, time=BEGIN + timedelta(seconds=self.count), **fields))
        return self.timeline


@pytest.fixture
def feed() -> Feed:
    """Feed a timeline."""
    return Feed()


def request(call_id: str, **payload) -> ToolRequest:
    """A call of one tool."""
    return ToolRequest(name="a.b.c", payload=payload, tool_call_id=call_id)


def result(call_id: str, **fields) -> ToolResult:
    """Its result."""
    return ToolResult(name="a.b.c", tool_call_id=call_id, **fields)


def test_a_run_is_what_was_said_planned_called_and_answered(feed):
    """In this order; the plan whose message is the answer is marked, since the end has it."""
    feed(events.RunStartedEvent, message=Message.user("why"))
    feed(events.PlanStartedEvent)
    feed(events.UsageEvent, usage=Usage(input_tokens=3, output_tokens=4, cost=0.5))
    feed(events.AssistantMessageEvent, message=Message.calls([request("x", n=1)]))
    feed(events.ToolStartEvent, call=request("x", n=1))
    feed(events.ToolEndEvent, result=result("x", result=1), duration=timedelta(seconds=1))
    feed(events.PlanStartedEvent)
    feed(events.AssistantMessageEvent, message=Message.assistant("because"))
    output = RunOutput(run_id="r", agent_id="a.b", final=Message.assistant("because"))
    timeline = feed(events.RunCompletedEvent, output=output)
    said, plan, call, last, end = timeline.entries
    assert [type(each) for each in (said, plan, call, last, end)] == [UserMessage, Plan, Call, Plan, End]
    assert (plan.calls, plan.took, plan.is_answer, last.is_answer) == (
        ["x"],
        timedelta(seconds=2),
        False,
        True,
    )
    assert (call.state, call.took, timeline.spent.tokens, timeline.spent.cost) == (
        "done",
        timedelta(seconds=1),
        7,
        0.5,
    )


def test_only_what_has_changed_is_told_as_changed(feed):
    """By versions: a new call is born, an ended one has changed, and the rest is as it was."""
    feed(events.PlanStartedEvent)
    before = feed(events.ToolStartEvent, call=request("x")).version
    timeline = feed(events.ToolStartEvent, call=request("y"))
    assert [entry.key for entry in timeline.changes_since(before) if entry.born > before] == ["call-y"]
    before = timeline.version
    feed(events.ToolEndEvent, result=result("x", result=1), duration=timedelta(seconds=1))
    assert [entry.key for entry in timeline.changes_since(before)] == ["call-x"]
    assert timeline.changes_since(timeline.version) == []


def test_a_repeated_call_names_the_one_that_failed(feed):
    """And the failed one names it."""
    hint = RetryHint(reason="invalid_arguments", tool="a.b.c")
    error = ToolError.new("no")
    feed(events.ToolStartEvent, call=request("x"))
    feed(
        events.ToolEndEvent,
        result=result("x", error=error, retry_hint=hint),
        duration=timedelta(seconds=1),
    )
    timeline = feed(events.ToolStartEvent, call=request("y", n=1))
    assert (timeline.call("x").repaired_by, timeline.call("y").repairs) == ("y", "x")


@pytest.mark.parametrize(
    ("approved", "state", "word"), [(True, "running", "approved"), (False, "denied", "denied")]
)
def test_a_call_waits_for_whoever_decides(feed, approved, state, word):
    """And knows who decided what."""
    wait = AwaitConfirmation(id="w", tool_call_id="x", tool="a.b.c", payload={"n": 1})
    timeline = feed(events.AwaitConfirmationEvent, confirmation=wait)
    assert timeline.call("x").state == "waiting"
    feed(events.AwaitAnsweredEvent, await_id="w", approved=approved, by="eve")
    call = timeline.call("x")
    assert (call.state, call.decision.verdict, call.decision.event.by) == (state, word, "eve")


def test_the_changes_of_one_of_several_approvers_are_told(feed):
    """While the call waits for the next one, and after the last, who edits nothing."""
    call = request("x", n=1, to="a")
    wait = AwaitConfirmation(id="w", tool_call_id="x", tool="a.b.c", payload=call.payload)
    timeline = feed(events.AwaitConfirmationEvent, confirmation=wait)
    timeline.call("x").call = call
    for n in (2, 3):
        edited = {"n": n, "to": "a"}
        confirmation = wait.model_copy(update={"payload": edited})
        feed(events.ApprovalGivenEvent, await_id="w", confirmation=confirmation, edited_arguments=edited)
        assert timeline.call("x").opened.changes == (f"n: 1 → {n}",)
    feed(events.AwaitAnsweredEvent, await_id="w", approved=True, by="eve")
    decision = timeline.call("x").decision
    assert (decision.changes, decision.words) == (("n: 1 → 3",), "approved with changes")


def test_a_long_run_keeps_its_last_entries():
    """And counts the others."""
    feed = Feed()
    feed.timeline = Timeline("r", most=10)
    for number in range(25):
        feed(events.ToolStartEvent, call=request(f"c{number}"))
    assert (len(feed.timeline.entries), feed.timeline.dropped) == (10, 15)
    assert feed.timeline.call("c3") is None
    assert [entry.id for entry in feed.timeline.last(2)] == ["c23", "c24"]


def test_events_of_other_runs_change_nothing(feed):
    """A child run has a timeline of its own."""
    timeline = feed.timeline
    timeline.feed(events.PlanStartedEvent(run_id="r/x", event_id="0-000001-00000", time=BEGIN))
    assert (len(timeline.entries), timeline.version) == (0, 0)


def test_a_call_that_was_read_is_shown_as_read_also_after_its_approval(feed):
    """The page of an approved call has what was read, which its confirmation does not hold, and what was written."""
    written = ToolRequest(name="a.b.c", raw='{"n": "5"}', tool_call_id="x")
    call = written.read_as({"n": 5}, [ArgumentReading(kind="json_text", field="/n")])
    confirm = AwaitConfirmation(id="w", tool_call_id="x", tool="a.b.c", prompt="Do it?", payload={"n": 5})
    feed(events.AwaitConfirmationEvent, confirmation=confirm)
    timeline = feed(events.ToolStartEvent, call=call)
    entry = timeline.call("x")
    assert (entry.call.payload, entry.call.written) == ({"n": 5}, '{"n": "5"}')
    assert [each.text for each in entry.call.readings] == ["/n decoded from a text"]


def end_of(text: str, **fields) -> RunOutput:
    """An output."""
    return RunOutput(run_id="r", agent_id="a.b", final=Message.assistant(text), **fields)


def test_a_conversation_has_a_turn_for_what_its_messages_lead_to(feed):
    """A message waits until a turn takes it; one that steers stands where it joined; a note after the end stays with the turn."""
    feed(events.MessageReceivedEvent, message_id="m1", message=Message.user("one"))
    timeline = feed(events.MessageReceivedEvent, message_id="m2", message=Message.user("two"), mode="steer")
    assert list(timeline.queued) == ["m1", "m2"]
    feed(events.TurnStartedEvent, message_ids=["m1"])
    feed(events.PlanStartedEvent)
    feed(events.TurnSteeredEvent, message_ids=["m2"])
    assert timeline.turn is timeline.turns[0]
    feed(events.PlanStartedEvent)
    feed(events.AssistantMessageEvent, message=Message.assistant("both"))
    feed(events.TurnCompletedEvent, output=end_of("both"))
    feed(events.PlannerNoteEvent, text="later")
    (turn,) = timeline.turns
    assert [each.kind for each in turn.entries] == ["message", "plan", "message", "plan", "end", "note"]
    assert [each.message_id for each in turn.messages] == ["m1"]
    assert (timeline.queued, timeline.turn, turn.end.output.text, turn.is_over) == ({}, None, "both", True)
    assert timeline.last_user_text == "two"


def test_a_withdrawn_message_waits_no_more(feed):
    """It leaves the queue with a note, which joins the turn under way and adds no turn id."""
    feed(events.MessageReceivedEvent, message_id="m1", message=Message.user("one"))
    feed(events.TurnStartedEvent, message_ids=["m1"])
    feed(events.MessageReceivedEvent, message_id="m2", message=Message.user("two"))
    timeline = feed(events.MessageWithdrawnEvent, message_id="m2", by="ana")
    assert timeline.queued == {}
    (turn,) = timeline.turns
    assert [each.kind for each in turn.entries] == ["message", "note"]
    assert turn.entries[-1].event.by == "ana"


def test_a_part_of_a_conversation_says_that_its_first_turn_has_no_beginning():
    """The messages of a turn whose events are not here are named; work without a turn's start is a turn, too."""
    feed = Feed()
    feed.timeline = Timeline("r", is_conversation=True)
    feed(events.PlanStartedEvent)
    feed(events.TurnFailedEvent, error=ToolError.new("no"))
    timeline = feed(events.TurnStartedEvent, message_ids=["gone"])
    assert [(turn.has_start, turn.missing) for turn in timeline.turns] == [(False, []), (False, ["gone"])]
    assert timeline.turns[0].failure.error.message == "no"
    timeline.keep_turns(1)
    assert [turn.missing for turn in timeline.turns] == [["gone"]]


def test_what_a_turn_asked_is_closed_with_it(feed):
    """Without a decision; and calls without a result were not executed."""
    feed(events.TurnStartedEvent)
    feed(events.AwaitClarificationEvent, question=AwaitClarification(id="q", question="which?"))
    feed(events.ToolStartEvent, call=request("x"))
    timeline = feed(events.TurnFailedEvent, error=ToolError.new("stop", code="interrupted"))
    asked = timeline.turns[0].entries[0]
    assert (asked.is_waiting, asked.decision, timeline.open_waits) == (False, None, {})
    assert timeline.call("x").state == "not_executed"


def test_a_message_id_is_what_was_accepted_under_it_last(feed):
    """A message, since only an edit is accepted again, or the answer that it was, with the cursors between which a reply to it begins."""
    feed(events.TurnStartedEvent)
    feed(events.MessageReceivedEvent, message_id="m", message=Message.user("one"))
    feed(events.MessageReceivedEvent, message_id="m", message=Message.user("again"))
    feed(events.AwaitClarificationEvent, question=AwaitClarification(id="q", question="which?"))
    timeline = feed(events.AwaitAnsweredEvent, await_id="q", text="this", message_id="a")
    message, answer = timeline.delivered["m"], timeline.delivered["a"]
    assert message.event.message.text == "again"
    assert (message.before, message.after) == ("0-000002-00000", "0-000003-00000")
    assert (answer.event.text, answer.before, answer.after) == ("this", "0-000004-00000", "0-000005-00000")
    (decision,) = timeline.decisions
    assert (decision.verdict, decision.wait.question, decision.opened.after) == (
        "answered",
        "which?",
        answer.before,
    )


def test_a_timeline_says_where_a_turn_begins_and_which_messages_it_took(feed):
    """A page that reads a turn anew begins before its first event; a message that steered is taken by the turn's id."""
    feed(events.MessageReceivedEvent, message_id="m1", message=Message.user("one"))
    before = feed(events.MessageReceivedEvent, message_id="m2", message=Message.user("two")).cursor
    feed(events.TurnStartedEvent, message_ids=["m1"])
    assert feed.timeline.taken == {"m1": "t1"}
    timeline = feed(events.TurnSteeredEvent, message_ids=["m2", "gone"])
    assert timeline.taken == {"m1": "t1", "m2": "t1", "gone": "t1"}
    (turn,) = timeline.turns
    assert (turn.before, turn.is_opened, timeline.begun_at) == (before, True, turn.at - timedelta(seconds=2))


def test_a_call_is_resolved_once_and_its_plan_is_known(feed):
    """The result comes before the end of the call; the plan whose message has the call is found by the call's id."""
    feed(events.PlanStartedEvent)
    feed(events.AssistantMessageEvent, message=Message.calls([request("x", n=1)]))
    timeline = feed(events.ToolStartEvent, call=request("x", n=1))
    assert (timeline.plan_of("x"), timeline.plan_of("y")) == (timeline.plan, None)
    place = {"run_id": "r", "time": BEGIN, "turn_id": "t1"}
    kinds = [
        [change.kind for change in timeline.feed(event)]
        for event in (
            events.ToolResultReceivedEvent(**place, event_id="0-000008-00000", result=result("x", result=1)),
            events.ToolEndEvent(
                **place, event_id="0-000008-00001", result=result("x", result=1), duration=timedelta(0)
            ),
        )
    ]
    assert kinds == [["resolved"], ["ended"]]


def test_a_verdict_is_one_word(subtests: pytest.Subtests) -> None:
    """For every reader the same one."""
    rows = [
        ({"approved": True}, "approved"),
        ({"approved": False}, "denied"),
        ({"text": "blue"}, "answered"),
        ({"code": "declined"}, "declined"),
        ({"code": "expired"}, "expired"),
    ]
    for fields, verdict in rows:
        with subtests.test(fields=fields, verdict=verdict):
            event = events.AwaitAnsweredEvent(run_id="r", time=BEGIN, await_id="w", **fields)
            assert describe_verdict(event) == WaitEnd(event, None).verdict == verdict


def test_a_draft_is_bounded_and_begins_anew_with_another_attempt(feed):
    """The last half of a long one stays; the whole message takes its place."""
    feed(events.PlanStartedEvent)
    for _ in range(7):
        timeline = feed(events.TextDeltaEvent, text="x" * 10_000)
    (plan,) = timeline.entries
    assert len(plan.draft.text) <= 60_000
    assert plan.draft.text_start + len(plan.draft.text) == 70_000
    feed(events.ToolRetryEvent, tool_call_id="", attempt=2, error="overloaded")
    assert plan.draft.retry.error == "overloaded"
    feed(events.StreamRestartedEvent, plan=1, attempt=2)
    assert (plan.draft.text, plan.draft.retry, len(plan.attempts)) == ("", None, 1)
    feed(events.AssistantMessageEvent, message=Message.calls([request("x", n=1)]))
    assert [each.tool_call_id for each in plan.unstarted_calls] == ["x"]
    feed(events.ToolStartEvent, call=request("x", n=1))
    assert plan.unstarted_calls == []


def test_everything_of_a_timeline_is_bounded():
    """Entries, decisions, deliveries, turns and queued messages."""
    feed = Feed()
    feed.timeline = Timeline("r", most=10)
    for number in range(50):
        feed(events.MessageReceivedEvent, message_id=f"m{number}", message=Message.user("x"))
        feed(events.TurnStartedEvent, message_ids=[f"m{number}"])
        wait = AwaitClarification(id=f"q{number}", question="?")
        feed(events.AwaitClarificationEvent, question=wait)
        feed(events.AwaitAnsweredEvent, await_id=f"q{number}", text="x", message_id=f"a{number}")
        timeline = feed(events.TurnCompletedEvent, output=end_of("x"))
    for number in range(50):
        feed(events.MessageReceivedEvent, message_id=f"n{number}", message=Message.user("x"))
    sizes = map(
        len,
        (
            timeline.entries,
            timeline.decisions,
            timeline.delivered,
            timeline.turns,
            timeline.queued,
            timeline.taken,
        ),
    )
    assert max(sizes) <= 11


def test_a_tree_of_runs_has_one_list_of_waits_decisions_and_deliveries():
    """What a child run asks is open until it is answered, or its call or a turn above it ends."""
    tree = TimelineTree("r")

    def take(kind, count, run_id="r", **fields):
        place = {"run_id": run_id, "event_id": f"0-{count:06}-00000", "turn_id": "t1"}
        tree.feed(kind(**place, time=BEGIN, **fields), cursor=f"{count}")

    def ask(await_id):
        return {"question": AwaitClarification(id=await_id, question="which?")}

    link = RunLink(run_id="r/x", agent_id="a.c", parent_run_id="r", parent_tool_call_id="x")
    take(events.MessageReceivedEvent, 1, message_id="m", message=Message.user("one"))
    take(events.TurnStartedEvent, 2, message_ids=["m"])
    take(events.AgentRunStartedEvent, 3, call=request("x"), run_link=link)
    take(events.AwaitClarificationEvent, 4, "r/x", **ask("q"))
    take(events.AwaitClarificationEvent, 5, **ask("q"))
    assert list(tree.open_waits) == [("r/x", "q"), ("r", "q")]
    opened = tree.open_waits["r/x", "q"]
    assert (opened.before, opened.after, tree.parents) == ("3", "4", {"r/x": ("r", "x")})
    take(events.AwaitAnsweredEvent, 6, "r/x", await_id="q", text="this", message_id="a")
    take(events.AwaitAnsweredEvent, 6, "r/x", await_id="q", text="this", message_id="a")
    assert [(each.event.run_id, each.verdict) for each in tree.decisions] == [("r/x", "answered")]
    assert (tree.delivered["a"].before, tree.delivered["m"].before) == ("4", "")
    take(events.AwaitClarificationEvent, 7, "r/x", **ask("q2"))
    take(events.AwaitClarificationEvent, 8, "other", **ask("q3"))
    assert list(tree.open_waits) == [("r", "q"), ("r/x", "q2")]
    take(events.ToolEndEvent, 9, result=result("x"), duration=timedelta(0))
    assert list(tree.open_waits) == [("r", "q")]
    take(events.TurnCompletedEvent, 10, output=end_of("x"))
    assert (tree.open_waits, len(tree.runs)) == ({}, 2)


def test_an_external_call_waits_until_its_result_comes(feed):
    """It is not running: no worker executes it."""
    for call_id in ("x", "y"):
        feed(events.ToolStartEvent, call=request(call_id))
    items = [ExternalCall(tool_call_id="x", tool="a.b.c")]
    timeline = feed(events.AwaitExternalToolsEvent, external=AwaitExternalTools(id="e", items=items))
    assert [call.state for call in timeline.calls] == ["waiting", "running"]
    feed(events.ToolEndEvent, result=result("x", result=1), duration=timedelta(0))
    assert [call.state for call in timeline.calls] == ["done", "running"]


def test_a_wait_that_is_opened_again_is_the_newest_one():
    """A call whose arguments have changed is asked about again under the wait's id: the tree has what is asked now."""
    tree = TimelineTree("r")
    for number, (await_id, payload) in enumerate([("w", {"n": 1}), ("v", {}), ("w", {"n": 2})], 1):
        wait = AwaitConfirmation(id=await_id, tool_call_id=await_id, tool="a.b.c", payload=payload)
        place = {"run_id": "r", "event_id": f"0-{number:06}-00000", "turn_id": "t1", "time": BEGIN}
        tree.feed(asked := events.AwaitConfirmationEvent(**place, confirmation=wait))
        assert tree.wait_opened_by(asked).wait == wait
    assert [each.wait.id for each in tree.open_waits.values()] == ["v", "w"]
    note = events.PlannerNoteEvent(run_id="r", event_id="0-000004-00000", time=BEGIN, text="x")
    tree.feed(note)
    assert tree.wait_opened_by(note) is None


def test_a_timeline_has_the_turns_of_all_branches_and_the_path_of_the_present_one(feed):
    """A turn follows the end of another; those that began at the same point are siblings, also in a part without the beginning."""

    def turn(message_id: str, text: str) -> str:
        feed(events.MessageReceivedEvent, message_id=message_id, message=Message.user(text))
        feed(events.TurnStartedEvent, message_ids=[message_id])
        return feed(events.TurnFailedEvent, error=ToolError.new("x")).last_event_id

    def said(turns) -> list[str]:
        return [each.messages[0].message.text for each in turns]

    start = feed(events.RunStartedEvent).last_event_id
    first = turn("m1", "one")
    second = turn("m2", "two")
    assert said(feed.timeline.path) == ["one", "two"]
    feed(events.ConversationBranchedEvent, at=first, message_id="m2", number=1)
    assert feed.timeline.turns[1].entries[-1].kind == "note"  # screens draw it after what was left
    third = turn("m2", "TWO")
    timeline = feed.timeline
    assert (said(timeline.path), said(timeline.siblings(timeline.path[1]))) == (
        ["one", "TWO"],
        ["two", "TWO"],
    )
    assert [timeline.tip(each) for each in timeline.siblings(timeline.path[1])] == [second, third]
    assert timeline.tip(timeline.path[0]) == third
    assert timeline.delivered["m2"].event.message.text == "TWO"
    feed(events.ConversationBranchedEvent, at=second, number=2)
    last = turn("m3", "three")
    assert said(timeline.path) == ["one", "two", "three"]
    assert (timeline.head, timeline.turns[0].follows, timeline.branches) == (last, start, 2)
    feed(events.ConversationBranchedEvent, at=start, message_id="m1", number=3)
    assert (timeline.path, len(timeline.turns)) == ([], 4)


def test_a_thousand_turns_with_branches_are_read_in_time(feed):
    """Siblings and tips are what they are by definition, and are found in linear time."""
    feed.timeline = Timeline("r", 10_000)
    feed(events.RunStartedEvent)
    point = feed.timeline.last_event_id
    for number in range(1_000):
        for text in ("left", "kept"):
            if text == "kept":
                feed(events.ConversationBranchedEvent, at=point, message_id=f"m{number}", number=number + 1)
            feed(events.MessageReceivedEvent, message_id=f"m{number}", message=Message.user(text))
            feed(events.TurnStartedEvent, message_ids=[f"m{number}"])
            end = feed(events.TurnFailedEvent, error=ToolError.new("x")).last_event_id
        point = end
    timeline, began = feed.timeline, time.process_time()
    path = timeline.path
    siblings = [timeline.siblings(turn) for turn in path]
    tips = [[timeline.tip(each) for each in turns] for turns in siblings]
    assert time.process_time() - began < 1  # 24 s before there was an index
    assert [turn.messages[0].message.text for turn in path] == ["kept"] * 1_000
    assert all(
        left.end.event_id == tip and last == point
        for (left, _), (tip, last) in zip(siblings, tips, strict=True)
    )


def test_the_events_of_a_branch_are_those_of_its_turns(feed):
    """Those of other branches are left out, with the messages that opened their turns."""
    found = []

    def fed(kind, **fields):
        feed.count += 1
        place = {"run_id": "r", "event_id": f"0-{int(feed.count):06}-00000", "turn_id": "t1"}
        found.append(kind(**place, time=BEGIN, **fields))
        return found[-1].event_id

    fed(events.RunStartedEvent)
    ends = []
    for number, text in enumerate(("one", "two", "TWO"), 1):
        if number == 3:
            fed(events.ConversationBranchedEvent, at=ends[0], message_id="m2", number=1)
        name = f"m{min(number, 2)}"
        fed(events.MessageReceivedEvent, message_id=name, message=Message.user(text))
        fed(events.TurnStartedEvent, message_ids=[name])
        fed(events.AssistantMessageEvent, message=Message.assistant(text))
        ends.append(fed(events.TurnFailedEvent, error=ToolError.new("x")))
    kept = events_of_branch("r", found)
    assert [
        event.message.text for event in kept if event.type in ("message_received", "assistant_message")
    ] == [
        *("one", "one"),
        *("TWO", "TWO"),
    ]
    assert len(kept) == len(found) - 4
