"""An event as JSON: a wait in it has the one shape, and the line is read back."""

import json
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from sojourn.answers import event_line, parse_event, wait_view
from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation
from sojourn.contracts.event import (
    EVENT_CLASSES,
    ApprovalEscalatedEvent,
    ApprovalGivenEvent,
    BaseEvent,
    MessageReceivedEvent,
    RunCompletedEvent,
    WaitOpenedEvent,
    wait_in,
)
from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_call import GivenApproval
from sojourn.contracts.tool_spec import Annotations, ShownTool
from tests.waits import SAMPLES

PLACE: dict[str, Any] = {
    "run_id": "r/c1",
    "agent_id": "a.clerk",
    "session_id": "s",
    "turn_id": "t1",
    "event_id": "0-000001-00000",
    "time": datetime(2027, 1, 2, tzinfo=UTC),
}

FULL: dict[type[Await], dict[str, Any]] = {
    AwaitClarification: {
        "restrict_to_tool": "a.b.c",
        "clarifying_prompt": "Of the two.",
        "example_input": {"n": 1},
        "form": {"type": "object"},
        "expires_after": 60,
    },
    AwaitConfirmation: {
        "payload": {"n": 2**60},
        "shown": ShownTool(annotations=Annotations(destructive=True)),
        "narrowed_to": [["boss"]],
        "asked_by": Principal(subject="ana", tenant="acme", roles=["user"]),
        "attachments": [
            AttachmentRecord(
                id="att_1", name="a.png", media_type="image/png", size=1, sha256="x", claim={"a": "b"}
            )
        ],
        "binds": True,
        "spec_digest": "internal",
    },
}


def opened(record: type[Await], more: dict[str, Any]) -> BaseEvent:
    """An event that opens a wait of this kind."""
    kind, name = next(
        (kind, name)
        for kind in EVENT_CLASSES.values()
        for name, field in kind.model_fields.items()
        if field.annotation is record and kind in get_args(WaitOpenedEvent)
    )
    wait = SAMPLES[record].wait
    return kind(**PLACE, **{name: type(wait)(**{**dict(wait), **more})})


@pytest.mark.parametrize("record", get_args(Await), ids=lambda record: record.kind)
def test_a_wait_of_an_event_is_the_view_of_it(record) -> None:
    """The JSON has `wait`, as `wait_view` makes it, and no field of the record; read back and written again it is the same."""
    for more in ({}, FULL.get(record, {})):
        event = opened(record, more)
        line = json.loads(event_line(event))
        view = wait_view(wait_in(event), event.run_id, since=event.time).model_copy(
            update={"agent_id": event.agent_id, "session_id": event.session_id}
        )
        assert line.pop("wait") == view.model_dump(mode="json", exclude_defaults=True)
        assert (next(iter(line)), line["type"]) == ("type", event.type)
        assert not {"question", "confirmation", "external"} & set(line)
        for text in (event_line(event), event_line(event).encode(), json.loads(event_line(event))):
            again = parse_event(text)
            assert type(again) is type(event)
            assert json.loads(event_line(again)) == json.loads(event_line(event))


@pytest.mark.parametrize("kind", [ApprovalGivenEvent, ApprovalEscalatedEvent])
def test_an_approval_that_waits_on_is_a_view_too(kind) -> None:
    """Its JSON has the wait with the approvals so far, beside the fields of the event, and is read back."""
    ana = Principal(subject="ana", tenant="acme")
    given = [GivenApproval(principal=ana)]
    wait = SAMPLES[AwaitConfirmation].wait.model_copy(update={"given": given, "approvals_needed": 2})
    event = kind(**PLACE, await_id="w", confirmation=wait)
    line = json.loads(event_line(event))
    assert (line["type"], line["await_id"], "confirmation" in line) == (event.type, "w", False)
    assert line["wait"]["given"] == [{"subject": "ana", "tenant": "acme"}]
    assert json.loads(event_line(parse_event(event_line(event)))) == line


@pytest.mark.parametrize(
    "event",
    [
        RunCompletedEvent(
            **PLACE, output=RunOutput(run_id="r", agent_id="a", final=Message.assistant('a "wait"'))
        ),
        MessageReceivedEvent(**PLACE, message_id="m", message=Message.user('the "wait" is long')),
    ],
)
def test_any_other_event_is_read_back_without_loss(event) -> None:
    """From its line, and from its fields as a dict; whatever its texts say."""
    assert parse_event(event_line(event)) == event
    assert parse_event(event.model_dump(mode="json")) == event


def test_another_line_is_no_event() -> None:
    """An unknown type is refused."""
    with pytest.raises(ValidationError):
        parse_event('{"type": "nothing_of_ours"}')
