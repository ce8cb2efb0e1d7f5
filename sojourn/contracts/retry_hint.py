"""RetryHint: exactly how to repair a call that failed."""

from datetime import timedelta
from typing import Any

from sojourn.contracts.awaits import AwaitClarification
from sojourn.contracts.record import Record
from sojourn.contracts.tool_call import ToolRequest

__all__ = ["FieldIssue", "RetryHint", "RetryReason"]


class RetryReason:
    """Why a call failed, as far as a planner cares; the set is open (SR-90)."""

    INVALID_ARGUMENTS = "invalid_arguments"
    """The payload breaks the tool's schema."""
    MISSING_FIELDS = "missing_fields"
    """Every fault of the payload is a required field that is absent."""
    MALFORMED_RESPONSE = "malformed_response"
    """The tool answered with something that does not fit its own schema."""
    TIMEOUT = "timeout"
    """The tool did not answer in time."""
    RATE_LIMITED = "rate_limited"
    """The tool is over a limit; see `retry_after`."""
    TOOL_UNAVAILABLE = "tool_unavailable"
    """There is no such tool, or it cannot be reached or used now."""


class FieldIssue(Record):
    """One fault of one field (SR-138, SR-139)."""

    field: str
    """JSON pointer into the payload; empty for the payload itself."""
    constraint: str
    """`missing_field` `invalid_enum_value` `invalid_format` `invalid_pattern` `invalid_range` `invalid_length`
    `invalid_field_type` `unknown_field`; open."""
    allowed: list[Any] | None = None
    """The values an enum or const allows."""
    minimum: float | None = None
    """Smallest value, length or count that fits."""
    maximum: float | None = None
    """Largest value, length or count that fits."""
    pattern: str | None = None
    """The regular expression that a string must match."""
    format: str | None = None
    """The JSON Schema format a string must have."""
    expected_type: str | None = None
    """JSON type or types the schema asks for."""
    actual_type: str | None = None
    """JSON type that was sent."""


class RetryHint(Record):
    """What a planner needs to make the call right (SR-89, SR-124)."""

    reason: str
    """One of `RetryReason`; open."""
    tool: str
    """The tool that was called."""
    restrict_to_tool: bool = False
    """Whether the next call should be to this tool again."""
    missing_fields: list[str] = []
    """Bare names of required fields that are absent; `issues` tells where a nested one is."""
    example_input: dict[str, Any] | None = None
    """A payload that the tool takes, type and schema: the prior input mended, the author's example, or made of the schema."""
    prior_input: dict[str, Any] | None = None
    """The payload as it was sent."""
    clarifying_question: str | None = None
    """One short question for a person who can supply what is missing."""
    message: str | None = None
    """What to change, in a sentence a model can act on."""
    issues: list[FieldIssue] = []
    """Every fault of the payload, field by field."""
    retry_after: timedelta | None = None
    """How long to wait before the same call can succeed."""

    def question(self) -> AwaitClarification:
        """The question to a person whose answer repairs the call; nested fields are named by JSON pointer (SR-94)."""
        return AwaitClarification(
            id=f"fix-{self.tool}",
            question=self.clarifying_question or self.message or f"What should {self.tool} be called with?",
            missing_fields=self._asked(),
            restrict_to_tool=self.tool,
            example_input=self.example_input,
            clarifying_prompt=self.message,
        )

    def _asked(self) -> list[str]:
        """By bare name, or as a pointer where another field of the payload may have the same name."""
        pointers = [one.field for one in self.issues if one.constraint == "missing_field" and one.field]
        nested = [pointer for pointer in pointers if pointer.count("/") > 1]
        own = [
            pointer[1:].replace("~1", "/").replace("~0", "~") for pointer in pointers if pointer not in nested
        ]
        return [*own, *nested] if nested else self.missing_fields

    def mended(self) -> ToolRequest | None:
        """The call to make next, or None when no example could be built."""
        return None if self.example_input is None else ToolRequest(name=self.tool, payload=self.example_input)
