"""What a run waits for, and the answers to it."""

from typing import Any

from sojourn.contracts.record import Input, Record

__all__ = ["AwaitClarification", "ClarificationAnswer"]


class AwaitClarification(Input):
    """A question to a person; the run parks until it is answered (SR-94)."""

    id: str = ""
    """Unique in the run; made so when it is not, and derived when left out (D-16)."""
    question: str
    """What to ask."""
    missing_fields: list[str] = []
    """Fields of `restrict_to_tool` that the answer should give."""
    restrict_to_tool: str | None = None
    """The tool whose call the answer repairs."""
    example_input: dict[str, Any] | None = None
    """A payload that would do."""
    clarifying_prompt: str | None = None
    """More detail, for the person."""


class ClarificationAnswer(Record):
    """The answer to an `AwaitClarification`: update or signal `provide_clarification`."""

    id: str = ""
    """The await's id; may be left out when exactly one is open."""
    answer: str | dict[str, Any]
    """Text, or values by field."""
    by: str | None = None
    """Who answered, as they say."""
