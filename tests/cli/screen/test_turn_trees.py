"""A conversation drawn by its turns: headings, messages where a turn takes them, a line for each of the older turns, what waits."""

import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from sojourn import Message, ToolError, ToolRequest, ToolResult
from sojourn.cli.screen.lines import usage_text
from sojourn.cli.screen.run_trees import LINES, RunTrees
from sojourn.cli.screen.text import local
from sojourn.cli.screen.turn_lines import branches_of
from sojourn.cli.screen.view import RunView
from sojourn.contracts.event import EVENT_CLASSES, ConversationBranchedEvent, Event
from sojourn.contracts.message import ImagePart, TextPart
from sojourn.contracts.plan import Usage
from sojourn.contracts.run import RunOutput
from sojourn.timeline import Timeline

BEGAN = datetime(2027, 1, 4, 9, 0, tzinfo=UTC)


def event(kind: str, turn_id: str = "t1", at: float = 0, **fields: Any) -> Event:
    """An event of a conversation, some seconds after its beginning."""
    time = BEGAN + timedelta(seconds=at)
    return EVENT_CLASSES[kind](
        run_id="a.b@s",
        agent_id="a.b",
        turn_id=turn_id,
        event_id="0-000001-00000",
        time=time,
        **fields,
    )


def said(message_id: str, text: str, at: float = 0, **fields: Any) -> Event:
    return event(
        "message_received",
        at=at,
        message_id=message_id,
        message=Message.user(text),
        **{"by": "ana", **fields},
    )


def begun(turn_id: str, *message_ids: str, at: float = 0) -> Event:
    return event("turn_started", turn_id, at, message_ids=list(message_ids))


def answered(turn_id: str, text: str, at: float = 0, *, reason: str = "answered", calls: int = 0) -> Event:
    final = Message.assistant(text)
    output = RunOutput(run_id="a.b@s", agent_id="a.b", final=final, reason=reason, tool_calls=calls)
    return event("turn_completed", turn_id, at, output=output)


def failed(turn_id: str, error: ToolError, at: float = 0) -> Event:
    return event("turn_failed", turn_id, at, error=error)


def called(turn_id: str, at: float = 0) -> list[Event]:
    """A call that has ended."""
    call = ToolRequest(name="a.b.c", tool_call_id=f"call_{turn_id}")
    result = ToolResult(name="a.b.c", tool_call_id=call.tool_call_id, result=1)
    return [
        event("tool_start", turn_id, at, call=call),
        event("tool_end", turn_id, at, result=result, duration=timedelta(milliseconds=5)),
    ]


def exchange(number: int) -> list[Event]:
    """A turn with its message and its answer."""
    turn_id, message_id = f"t{number}", f"m{number}"
    return [
        said(message_id, f"question {number}"),
        begun(turn_id, message_id),
        answered(turn_id, f"answer {number}", 2),
    ]


def in_order(events: tuple[Event, ...]) -> list[Event]:
    """The events with ids in their order."""
    return [
        each.model_copy(update={"event_id": f"0-{number:06}-00000"}) for number, each in enumerate(events, 1)
    ]


def drawn(*events: Event, width: int = 80, **options: Any) -> list[str]:
    """The lines of the trees that got these events."""
    trees, out = RunTrees(events[0].run_id, **options), io.StringIO()
    for each in in_order(events):
        trees.feed(each)
    Console(file=out, width=width, highlight=False, color_system=None).print(trees)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def logged(*events: Event) -> list[str]:
    """The lines of a view that is no terminal."""
    out = io.StringIO()
    with RunView(events[0].run_id, Console(file=out, width=200, highlight=False, color_system=None)) as view:
        for each in in_order(events):
            view.show(each)
    return out.getvalue().splitlines()


STEERED = [
    event("run_started"),
    said("m1", "look at s-1"),
    begun("t1", "m1"),
    *called("t1", 1),
    said("m2", "and s-2?", 2, by="bo"),
    said("m3", "be short", 3, mode="steer"),
    event("turn_steered", at=4, message_ids=["m3"]),
    answered("t1", "both are dark", 5, calls=1),
]
"""A turn that is steered, while another message waits."""


def test_a_message_is_drawn_where_a_turn_takes_it():
    """A steering one where it joins the turn, one that waits below all turns; a turn says what it used."""
    assert drawn(*STEERED) == [
        "a.b  a.b@s",
        f"t1  {local(BEGAN)}  by ana",
        "  > look at s-1",
        "  ✓ a.b.c() (5 ms)",
        "    1",
        "  > be short",
        "  · joins the turn, by ana",
        "  = both are dark",
        "  1 call, took 5.0 s",
        "1 message waits for a turn",
        f"  > and s-2? (by bo, {local(BEGAN + timedelta(seconds=2))})",
    ]


def test_lines_say_at_once_that_a_message_waits():
    """Without a terminal a message in a turn has a line where it comes, and is said whole where a turn takes it."""
    more = [begun("t2", "m2", at=65), answered("t2", "it is dark too", 66)]
    lines = logged(*STEERED, *more)
    assert lines[4:7] == [
        "  ← a.b.c (5 ms): 1",
        "  · waits for its turn, by bo: and s-2?",
        "  · steers the turn, by ana: be short",
    ]
    assert lines[7:9] == ["  > be short", "  · joins the turn, by ana"]
    began = local(BEGAN + timedelta(seconds=65))
    assert lines[-4:] == [
        f"t2  {began}  by bo  waited 1 min 3 s",
        "  > and s-2?",
        "  = it is dark too",
        "  0 calls, took 1.0 s",
    ]


def test_older_turns_have_a_line_each():
    """The last turns are drawn whole, some before them on a line, and the others are counted."""
    events = [each for number in range(1, LINES + 6) for each in exchange(number)]
    lines = drawn(event("run_started"), *events, last=2)
    assert lines[:2] == ["a.b  a.b@s", "3 turns before are left out; --last N and --all draw more"]
    when = BEGAN.astimezone().strftime("%m-%d %H:%M")
    assert lines[2] == f"✓ t4   {when}  question 4 = answer 4 (2.0 s)"
    assert sum(line.startswith("✓ ") for line in lines) == LINES
    assert [line for line in lines if line.startswith("t")] == [
        f"t{number}  {local(BEGAN)}  by ana" for number in (LINES + 4, LINES + 5)
    ]
    whole = drawn(event("run_started"), *events)
    assert sum(line.startswith("t") for line in whole) == LINES + 5


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_turn_on_a_line_fits_the_width(width):
    """Question and answer give way, and never the time that it took; a failure is told by its root."""
    first = [
        said("m1", "why? " * 100),
        begun("t1", "m1"),
        *called("t1"),
        answered("t1", "so\nthat " * 100, 1),
    ]
    error = ToolError.with_cause("the planner of a.b failed", ToolError.new("ValueError: no stock"))
    second = [said("m2", "again"), begun("t2", "m2"), failed("t2", error, 2)]
    third = [said("m3", "more"), begun("t3", "m3"), answered("t3", "cut off", 1, reason="max_tool_calls")]
    lines = drawn(*first, *second, *third, *exchange(4), last=1, width=width)[:3]
    assert max(map(len, lines)) <= width
    assert lines[0].endswith("(1 call, 1.0 s)" if width > 100 else "… (1.0 s)")
    assert lines[1].endswith(" again ✗ ValueError: no stock (2.0 s)" if width > 60 else " s)")
    assert "= cut off (max_tool_calls)" in lines[2] or width < 80


def test_a_turn_that_failed_or_was_interrupted_says_why():
    """A message that interrupts has a line in the turn that it ends, and its text is that of the next one."""
    interrupted = ToolError.new("the turn was interrupted", code="interrupted")
    lines = drawn(
        said("m1", "first"),
        begun("t1", "m1"),
        event("usage", usage=Usage(input_tokens=1_000, output_tokens=20, cost=0.5)),
        said("m2", "no, second", 1, mode="interrupt", by="bo"),
        failed("t1", interrupted, 2),
        begun("t2", "m2", at=2),
        failed("t2", ToolError.with_cause("the planner failed", ToolError.new("no stock")), 3),
    )
    assert lines[1:5] == [
        "  > first",
        "  · interrupts the turn, by bo: no, second",
        "  ✗ the turn was interrupted",
        "  0 calls, 1,020 tokens, $0.5000, took 2.0 s",
    ]
    assert lines[6:] == [
        "  > no, second",
        "  ✗ turn failed: the planner failed",
        "    because: no stock",
        "  0 calls, took 1.0 s",
    ]


def test_one_turn_alone():
    """`only` draws one turn, also by the id that an answer to a question gave to its rest."""
    events = [
        *exchange(1),
        said("m2", "which?"),
        begun("t2", "m2"),
        event("plan_started", "t3"),
        answered("t3", "this"),
    ]
    whole = drawn(*events, *exchange(4), only="t3")
    assert whole == [f"t2  {local(BEGAN)}  by ana", "  > which?", "  = this", "  0 calls, took 0 ms"]
    assert whole == drawn(*events, *exchange(4), only="t2")
    trees = RunTrees("a.b@s", only="t9")
    for each in in_order((*events,)):
        trees.feed(each)
    assert not trees.has_drawn
    assert trees.last_turn_id == "t2"


def test_events_that_begin_in_a_turn_have_a_heading():
    """The beginning of a conversation can be gone: its turn has a heading all the same, and a message without text its id."""
    lines = drawn(
        event("plan_started", "t7"),
        answered("t7", "seven", 1),
        begun("t8", "m8"),
        answered("t8", "eight", 1),
        is_conversation=True,
    )
    assert lines[:2] == [f"t7  {local(BEGAN)}", "  = seven"]
    assert lines[3:5] == [f"t8  {local(BEGAN)}", "  · message m8, whose text is not kept here"]


def test_several_messages_can_open_a_turn():
    """Each has its sender; images and documents are named, and a sender without a name is known by the identity."""
    parts = [TextPart(type="text", text="this"), ImagePart(type="image", media_type="image/png", data="aGk=")]
    lines = drawn(
        said("m1", "one", mode="interrupt", by=None, identity="1@host"),
        event("message_received", message_id="m2", message=Message(role="user", parts=parts), by="bo"),
        begun("t1", "m1", "m2"),
    )
    assert lines[0] == f"t1  {local(BEGAN)}  by identity 1@host, bo"
    assert lines[1:6] == ["  > one", "  · by identity 1@host", "  > this", "    (image)", "  · by bo"]
    assert lines[6].startswith("  so far 0 calls, ")


def test_what_is_between_turns_and_the_end():
    """A note between two turns is drawn below the one before; messages that get no turn any more are told."""
    closed = RunOutput(run_id="a.b@s", agent_id="a.b", final=Message.assistant("done"), reason="closed")
    end = [
        event("planner_note", text="closed: done", by="ana", identity="1@host"),
        said("m9", "too late"),
        event("run_completed", output=closed),
        event("run_stream_end"),
    ]
    expected = [
        "  0 calls, took 2.0 s",
        "· closed: done (by ana, identity 1@host)",
        "= the conversation was closed: done",
        "1 message had no turn",
        f"  > too late (by ana, {local(BEGAN)})",
    ]
    assert drawn(*exchange(1), *end)[-5:] == expected
    assert logged(*exchange(1), *end)[-5:] == expected


def test_text_of_people_is_printed_as_text():
    """Control characters and markup of messages and names have no effect, also on the line of an older turn."""
    hostile = "a\x1b[2J [red]x[/red]"
    events = [
        said("m1", hostile, by=hostile),
        begun("t1", "m1"),
        answered("t1", hostile),
        said("m2", hostile, by=hostile),
    ]
    for lines in (drawn(*events), drawn(*events, *exchange(3), last=1), logged(*events)):
        assert "\x1b" not in "".join(lines)
        assert r"a\u001b[2J [red]x[/red]" in "".join(lines)


def test_a_single_token_is_told_as_one():
    """What a run used is told in the right number."""
    output = RunOutput(run_id="r", agent_id="a.b", final=Message.assistant(""), usage=Usage(output_tokens=1))
    assert usage_text(output) == "0 calls, 1 token"


def test_a_branch_is_told_after_what_was_left():
    """A line below the last turn says which message begins another branch; the turns of all branches are drawn."""
    where = {
        "run_id": "a.b@s",
        "agent_id": "a.b",
        "turn_id": "t2",
        "event_id": "0-000001-00000",
        "time": BEGAN,
    }
    branched = ConversationBranchedEvent(**where, at="0-000001-00000", message_id="m2", number=1)
    better = [said("m2", "better"), begun("t3", "m2"), answered("t3", "yes")]
    events = [*exchange(1), *exchange(2), branched, *better]
    for lines in (drawn(*events), logged(*events)):
        (at,) = [number for number, line in enumerate(lines) if "message m2 begins another branch" in line]
        assert any(line.startswith("t2") for line in lines[:at])
        assert any(line.startswith("t3") for line in lines[at:])


def test_turns_of_another_branch_are_marked():
    """A turn that the conversation left says so, whole or on its line, and so does the list of branches, until the conversation switches back."""
    where = {"run_id": "a.b@s", "agent_id": "a.b", "turn_id": "t2", "event_id": "", "time": BEGAN}
    branched = ConversationBranchedEvent(**where, at="0-000003-00000", message_id="m2", number=1)
    better = [said("m2", "better"), begun("t3", "m2"), answered("t3", "yes")]
    back = ConversationBranchedEvent(**where, at="0-000006-00000", number=2)
    events = [
        each.model_copy(update={"event_id": f"0-{number:06}-00000"})
        for number, each in enumerate([*exchange(1), *exchange(2), branched, *better, back], 1)
    ]
    for last in (9, 1):
        for so_far, left in ((events[:6], []), (events[:-1], ["t2"]), (events, ["t3"])):
            lines = drawn(*so_far, last=last)
            marked = [re.findall(r"t\d", line)[0] for line in lines if "in another branch" in line]
            assert marked == left, lines
    timeline = Timeline("a.b@s", is_conversation=True)
    for each in events[:-1]:
        timeline.feed(each)
    one, other = branches_of(timeline)
    assert one.line == "  1  t2  > question 2  = answer 2"
    assert other.line == "* 2  t3  > better  = yes"
