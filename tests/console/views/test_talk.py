"""Turns of a conversation, as their template draws them."""

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from sojourn import AwaitClarification, AwaitConfirmation, Message, ToolError, ToolResult
from sojourn.console.page import Links
from sojourn.console.templating import render
from sojourn.console.views.entries import call_text
from sojourn.contracts import event as events
from sojourn.contracts.principal import Principal
from sojourn.contracts.tool_call import ToolRequest
from sojourn.reader import conversation_timeline
from sojourn.timeline import Call

NOW = datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC)


def text_of(result: ToolResult):
    """A call with a result in words."""
    request = ToolRequest(name="t.t.t", tool_call_id="c")
    return call_text(Call(key="call-c", event_id="0-000001-00000", at=NOW, call=request, result=result))


def test_what_a_server_says_beside_its_result_is_shown_after_it():
    """The remarks of a result follow it, each on lines of its own; a long one is cut."""
    call = text_of(ToolResult(result={"lines": 2}, remarks=["line 1\nline 2", "note: odd"]))
    assert (call.result, call.is_cut) == ('{\n  "lines": 2\n}\nline 1\nline 2\nnote: odd', False)
    call = text_of(ToolResult(result=1, remarks=["x" * 1_000_000]))
    assert call.is_cut
    assert len(call.result) < 100_000


class Talk:
    """A conversation that is told by events."""

    def __init__(self) -> None:
        self.timeline, self.count = conversation_timeline("a.b@s"), 0

    def __call__(self, kind, **fields):
        self.count += 1
        place = {"run_id": "a.b@s", "event_id": f"0-{self.count:06}-00000", "turn_id": "t1"}
        self.timeline.feed(kind(**place, time=NOW + timedelta(seconds=self.count), **fields))

    def said(self) -> list[str]:
        """The texts of the turn, without markup."""
        (turn,) = self.timeline.turns
        app = SimpleNamespace(tool_spec=lambda _: None)
        who = {"asking": Principal(subject="eve", roles=["viewer"]), "may": lambda _: False}
        visit = SimpleNamespace(service=SimpleNamespace(app=app), url=Links(""), **who)
        html = render(
            "talk_turn.html",
            turn=turn,
            run_id="a.b@s",
            here="/",
            visit=visit,
            url=Links(""),
            is_open=True,
            refused=None,
        )
        text = re.sub(r"<svg.*?</svg>|<form.*?</form>|<time.*?</time>", "", html, flags=re.DOTALL)
        return [
            " ".join(line.split()) for line in re.sub(r"<[^>]*>", "\n", text).splitlines() if line.strip()
        ]


def position(lines: list[str], *texts: str) -> list[int]:
    """Where the texts are among the lines."""
    return [next(place for place, line in enumerate(lines) if text in line) for text in texts]


def test_a_turn_has_its_messages_answers_calls_and_waits_in_order():
    """A call that has not begun is there, too; a decision stands below its call; a resume's messages are said."""
    talk, call = Talk(), ToolRequest(name="t.t.wipe", payload={"disk": "a"}, tool_call_id="c")
    later = ToolRequest(name="t.t.later", tool_call_id="d")
    wait = AwaitConfirmation(
        id="w", tool_call_id="c", tool="t.t.wipe", prompt="Wipe it?", payload={"disk": "a"}
    )
    talk(events.MessageReceivedEvent, message_id="m", message=Message.user("please"), by="ana")
    talk(events.TurnStartedEvent, message_ids=["m"])
    talk(events.PlanStartedEvent)
    both = Message.calls([call, later])
    talk(events.AssistantMessageEvent, message=both)
    talk(events.AwaitConfirmationEvent, confirmation=wait)
    talk(events.RunPausedEvent, text="a moment", by="ben")
    talk(events.RunResumedEvent, by="ben", messages=["go on"])
    talk(events.AwaitAnsweredEvent, await_id="w", approved=False, by="eva", text="too early")
    talk(events.AwaitClarificationEvent, question=AwaitClarification(id="q", question="Which one?"))
    lines = talk.said()
    order = (
        "please",
        "t.t.later",
        "t.t.wipe",
        "Wipe it?",
        "Denied",
        "paused: a moment",
        "go on",
        "Which one?",
    )
    assert position(lines, *order) == sorted(position(lines, *order))
    assert "calling:" in lines
    talk(events.TurnFailedEvent, error=ToolError.new("the shop <is> closed"))
    lines = talk.said()
    assert "This turn failed" in lines
    assert "Closed with the turn" in lines
    assert not any("is called" in line for line in lines)
    (turn,) = talk.timeline.turns
    assert turn.failure.error.message == "the shop <is> closed"


def test_a_turn_shows_what_is_being_written_until_the_message_is_there():
    """And why the planner plans again."""
    talk = Talk()
    talk(events.TurnStartedEvent)
    talk(events.PlanStartedEvent)
    talk(events.ToolRetryEvent, tool_call_id="", attempt=2, error="overloaded")
    assert "attempt 2: overloaded" in talk.said()
    talk(events.StreamRestartedEvent, plan=1, attempt=2)
    talk(events.TextDeltaEvent, text="The site is")
    assert "The site is" in talk.said()
    talk(events.AssistantMessageEvent, message=Message.assistant("The site is dark."))
    assert [line for line in talk.said() if "site" in line] == ["The site is dark."]
