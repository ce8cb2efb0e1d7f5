"""RetryHint: how to repair a call that failed."""

from datetime import timedelta
from typing import Any

from sojourn.contracts.awaits import AwaitClarification
from sojourn.contracts.record import Record
from sojourn.contracts.tool_call import ToolRequest

__all__ = ["FieldIssue", "RetryHint", "RetryReason"]


class RetryReason:
    """Why a call failed, as far as a planner needs to know; the set is open (SR-90)."""

    INVALID_ARGUMENTS = "invalid_arguments"
    """The payload does not fit the tool's schema."""
    MISSING_FIELDS = "missing_fields"
    """Every issue of the payload is a required field that is missing."""
    MALFORMED_RESPONSE = "malformed_response"
    """The tool's result does not fit the tool's own schema."""
    TIMEOUT = "timeout"
    """The tool did not answer in time."""
    RATE_LIMITED = "rate_limited"
    """The tool is over a rate limit; see `retry_after`."""
    TOOL_UNAVAILABLE = "tool_unavailable"
    """There is no such tool, or it cannot be reached or used now."""


class FieldIssue(Record):
    """One issue of one field (SR-138, SR-139)."""

    field: str
    """JSON pointer into the payload; empty for the payload itself."""
    constraint: str
    """`missing_field` `invalid_enum_value` `invalid_format` `invalid_pattern` `invalid_range` `invalid_length`
    `invalid_field_type` `unknown_field` `example_value` `only_one`; an open set.
    """
    allowed: list[Any] | None = None
    """The values that `enum` or `const` allows."""
    minimum: float | None = None
    """Smallest value, length or count that fits."""
    maximum: float | None = None
    """Largest value, length or count that fits."""
    pattern: str | None = None
    """The regular expression that a string must match."""
    format: str | None = None
    """The JSON Schema format a string must have."""
    expected_type: str | None = None
    """JSON type or types that the schema requires."""
    actual_type: str | None = None
    """JSON type of the value in the payload."""


class RetryHint(Record):
    """What a planner needs to repair a call.

    `example_input` is a payload that fits, `invented` names the values in it that nobody gave (and those that were sent and
    are left out), and `template` is the example for a model, with placeholders for them. `mended()` is the example as a
    call if nothing is invented, and `question()` asks a person.
    """

    reason: str
    """A value of `RetryReason`; an open set."""
    tool: str
    """The id of the called tool."""
    restrict_to_tool: bool = False
    """Whether the next call should be to this tool again."""
    missing_fields: list[str] = []
    """Names of required fields that are missing, without their path; `issues` has the pointer of a nested one."""
    example_input: dict[str, Any] | None = None
    """A payload that fits type and schema: the prior input repaired, the author's example, or one derived from the schema.

    It may hold values that nobody gave; `invented` names them. To send it as it is, use `mended()`; to show it to a
    model, use `template`.
    """
    prior_input: dict[str, Any] | None = None
    """The payload of the failed call."""
    clarifying_question: str | None = None
    """One short question for a person who can supply what is missing."""
    message: str | None = None
    """What to change, in a sentence a model can act on."""
    issues: list[FieldIssue] = []
    """Every issue of the payload."""
    retry_after: timedelta | None = None
    """How long to wait before the same call can succeed."""
    outcome_unknown: bool = False
    """Whether the call, or an earlier attempt of it, may have taken effect although it failed."""
    invented: list[str] = []
    """JSON pointers to the values of `example_input` that do not follow from the call, at most 100.

    A value follows from the call if it was sent, in this form or in another one with the same meaning, or if it is the
    schema's default of an absent field. All others come from the author's example or were made to fit: a person never gave them. Of a
    tool that changes something, a value that was sent and is left out is named here too: an optional one that does not fit, or
    an unknown field.
    """
    template: dict[str, Any] | None = None
    """`example_input` for a model, which copies examples: with a placeholder such as `<order_id>` for each invented value.

    It cannot pass as it is: where the tool would accept the placeholder, the field is left out. None if nothing is
    invented, or if no such payload exists.
    """
    advice: str | None = None
    """What to try now, in view of the agent's other tools and of earlier failures; Sojourn fills it in for a planner's turn."""

    def question(self) -> AwaitClarification:
        """The question whose answer repairs the call; nested fields are named by JSON pointer (SR-94)."""
        return AwaitClarification(
            id=f"fix-{self.tool}",
            question=self.clarifying_question or self.message or f"What should {self.tool} be called with?",
            missing_fields=self._missing_names(),
            restrict_to_tool=self.tool,
            example_input=self.example_input,
            clarifying_prompt=self.message,
        )

    def _missing_names(self) -> list[str]:
        """The fields to ask for: those that are missing, and those that exclude each other.

        They have their names, or their JSON pointers if another field of the payload may have the same name.
        """
        pointers = [
            issue.field
            for issue in self.issues
            if issue.constraint in ("missing_field", "only_one") and issue.field
        ]
        nested = [pointer for pointer in pointers if pointer.count("/") > 1]
        own = [
            pointer[1:].replace("~1", "/").replace("~0", "~") for pointer in pointers if pointer not in nested
        ]
        return [*own, *nested] if nested or len(own) > len(self.missing_fields) else self.missing_fields

    def mended(self) -> ToolRequest | None:
        """The repaired call; None without an example, and for one with invented values.

        An invented value may name the wrong order: ask for it (`question()`).
        """
        if self.example_input is None or self.invented:
            return None
        return ToolRequest(name=self.tool, payload=self.example_input)
