"""Write an event as JSON, and read it back.

A wait in it is the `WaitView` that a status, a list and a command have too, so that a client knows one shape.
"""

from collections.abc import Mapping
from typing import Annotated, Any, cast, get_args

from pydantic import Field, TypeAdapter, create_model
from pydantic_core import from_json

from sojourn.answers.wait_view import WaitView, wait_view
from sojourn.contracts.awaits import (
    Await,
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
)
from sojourn.contracts.event import EVENT_CLASSES, BaseEvent, Event, wait_in

__all__ = ["EVENT_SHAPES", "event_line", "parse_event"]

_EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="type")])

_FIELD_OF: Mapping[str, tuple[str, type[Await]]] = {
    kind: (name, cast("type[Await]", field.annotation))
    for kind, made in EVENT_CLASSES.items()
    for name, field in made.model_fields.items()
    if field.annotation in get_args(Await)
}
"""By the type of an event with a wait: its field with the record, and the record's class."""


def _view_class(kind: type[BaseEvent], record: str) -> type[BaseEvent]:
    """Return the class of an event's JSON, which has `wait` in place of the record."""
    own = {name: field for name, field in kind.model_fields.items() if name not in BaseEvent.model_fields}
    del own[record]
    fields: dict[str, Any] = {name: (field.annotation, field) for name, field in own.items()}
    wait = Field(description="The wait, as in a status and in `GET /v1/waits`.")
    return create_model(
        f"{kind.__name__}View", __base__=BaseEvent, __doc__=kind.__doc__, **fields, wait=(WaitView, wait)
    )


_VIEWS: Mapping[str, type[BaseEvent]] = {
    kind: _view_class(EVENT_CLASSES[kind], name) for kind, (name, _) in _FIELD_OF.items()
}

EVENT_SHAPES: tuple[type[BaseEvent], ...] = tuple({**EVENT_CLASSES, **_VIEWS}.values())
"""The shape of each kind of event as JSON, for documents of an API."""


def event_line(event: BaseEvent) -> str:
    """Return an event as one line of JSON.

    The type comes first, and defaults are left out. A wait in it is a `WaitView`, and an output has `text`.
    """
    kind = cast("Event", event).type
    shown = _with_view(event, kind) if kind in _FIELD_OF else event
    return shown.model_dump_json(exclude_defaults=True, context={"reader": True})


def parse_event(data: str | bytes | dict[str, Any]) -> Event:
    """Read an event from its line.

    A wait has what its `WaitView` says; the digests of the tool, which a run compares, are not in the line.

    Raises:
        pydantic.ValidationError: The line is not an event.
    """
    if not isinstance(data, dict):
        if '"wait"' not in (data if isinstance(data, str) else data.decode(errors="replace")):
            return _EVENT.validate_json(data)
        data = cast("dict[str, Any]", from_json(data))
    wait = data.get("wait")
    if not isinstance(wait, dict) or data.get("type") not in _FIELD_OF:
        return _EVENT.validate_python(data)
    name, record = _FIELD_OF[data["type"]]
    others = {key: value for key, value in data.items() if key != "wait"}
    return _EVENT.validate_python({**others, name: _record_fields(record, cast("dict[str, Any]", wait))})


def _with_view(event: BaseEvent, kind: str) -> BaseEvent:
    name, _ = _FIELD_OF[kind]
    fields = {each: getattr(event, each) for each in type(event).model_fields if each != name}
    opened = wait_in(event)
    view = wait_view(getattr(event, name), event.run_id, since=event.time if opened else None)
    view = view.model_copy(update={"agent_id": event.agent_id, "session_id": event.session_id})
    return _VIEWS[kind].model_construct(**fields, wait=view)


_NAMES: Mapping[type[Await], Mapping[str, str]] = {
    AwaitClarification: {"prompt": "question", "tool": "restrict_to_tool", "example": "example_input"},
    AwaitConfirmation: {"digest": "payload_digest"},
    AwaitExternalTools: {"calls": "items"},
}
"""Fields of records that have other names in a view."""


def _record_fields(record: type[Await], view: dict[str, Any]) -> dict[str, Any]:
    names = {"await_id": "id", **_NAMES.get(record, {})}
    fields = {names.get(name, name): value for name, value in view.items()}
    if record is AwaitConfirmation:
        fields["shown"] = {"annotations": view["annotations"]} if view.get("annotations") else None
        files = cast("list[dict[str, Any]]", view.get("attachments") or [])
        fields["attachments"] = [{**each, "sha256": ""} for each in files]
        given = cast("list[dict[str, Any]]", view.get("given") or [])
        fields["given"] = [{"principal": each} for each in given]
    return {name: value for name, value in fields.items() if name in record.model_fields}
