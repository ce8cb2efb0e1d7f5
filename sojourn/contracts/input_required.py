"""A tool that needs a person's input in the middle of a call, and what it is given."""

from typing import Any

from sojourn.contracts.record import Record

__all__ = ["InputForm", "InputRequired", "ToolInput"]


class InputForm(Record):
    """One form that a person is to fill."""

    key: str
    """The request's name, as the tool gave it."""
    message: str
    """What it is about."""
    form: dict[str, Any] = {}
    """JSON Schema of the answer: a flat object."""


class InputRequired(Record):
    """A call that stopped half-way: what it asks, and what it wants back with the answers."""

    server: str = ""
    """Who asks: the toolset, filled in."""
    forms: list[InputForm]
    """What is asked."""
    responses: dict[str, dict[str, Any]] = {}
    """What was answered for the person already: requests that are declined as a matter of course."""
    request_state: str | None = None
    """The tool's own, returned as it is."""


class ToolInput(Record):
    """The answers to an `InputRequired`, with which the call goes on."""

    responses: dict[str, dict[str, Any]]
    """By the request's name: `{"action": "accept", "content": {...}}`, `decline` or `cancel`."""
    request_state: str | None = None
    """As it came."""
