"""A tool call that needs a person's input half-way, and the answers."""

from typing import Any

from sojourn.contracts.record import Record

__all__ = ["InputForm", "InputRequired", "ToolInput"]


class InputForm(Record):
    """One form for a person to fill in."""

    key: str
    """The name of the request, as the tool gave it."""
    message: str
    """What the form is for."""
    form: dict[str, Any] = {}
    """JSON Schema of the answer: a flat object."""


class InputRequired(Record):
    """A call that stopped half-way: the forms to fill in, and the state that the tool wants back with the answers."""

    server: str = ""
    """The toolset that asks, filled in by the activity."""
    forms: list[InputForm]
    """The forms to fill in."""
    responses: dict[str, dict[str, Any]] = {}
    """Answers given without asking the person: requests that are always declined."""
    request_state: str | None = None
    """The tool's own state, sent back unchanged."""
    outcome_unknown: bool = False
    """Whether an earlier attempt of the call may have taken effect; filled in by the activity."""


class ToolInput(Record):
    """The answers to an `InputRequired`, with which the call continues."""

    responses: dict[str, dict[str, Any]]
    """By the name of the request: `{"action": "accept", "content": {...}}`, `decline` or `cancel`."""
    request_state: str | None = None
    """The state of the `InputRequired`, unchanged."""
