"""Sizes that keep a run within Temporal's limits (2 MB a payload, 4 MB a message).

Measured: one plan with 2,100 calls, or 900 of 6 KB, wedges a run for ever, and a 3 MB
activity input makes the server terminate it. Every sum below is bounded for that.
"""

__all__ = [
    "MAX_ANSWER_CHARS",
    "MAX_ARTIFACT_BYTES",
    "MAX_FORMS_BYTES",
    "MAX_INLINE_BYTES",
    "MAX_LOCAL_BYTES",
    "MAX_PAYLOAD_BYTES",
    "MAX_PLAN_BYTES",
    "MAX_PLAN_CALLS",
    "MAX_PRIOR_INPUT_BYTES",
    "MAX_RESULT_BYTES",
    "MAX_SLICE_BYTES",
    "MAX_STEP_BYTES",
    "MAX_STORED_BYTES",
]

MAX_PAYLOAD_BYTES = 512_000
"""One call's arguments."""

MAX_STEP_BYTES = 1_000_000
"""The arguments of one step's executed calls together: they are one workflow task's commands."""

MAX_PLAN_BYTES = 1_500_000
"""One plan's result, as `PlanActivity` returns it."""

MAX_PLAN_CALLS = 10_000
"""Calls in one plan; more is a planner fault."""

MAX_RESULT_BYTES = 1_000_000
"""One tool's result."""

MAX_LOCAL_BYTES = 50_000
"""One local tool's result with its artifacts: those that end in one workflow task are one message."""

MAX_ARTIFACT_BYTES = 800_000
"""One result's artifacts together, beside it in the same completion."""

MAX_STORED_BYTES = 50_000_000
"""One result with its artifacts, where external storage takes what is too large."""

MAX_INLINE_BYTES = 64_000
"""New messages that a plan's input carries itself; above, it carries their position."""

MAX_SLICE_BYTES = 1_500_000
"""One reply to the query `transcript`."""

MAX_PRIOR_INPUT_BYTES = 8_000
"""A payload that a hint repeats."""

MAX_ANSWER_CHARS = 64_000
"""Characters of a person's answer, as JSON."""

MAX_FORMS_BYTES = 1_000_000
"""The answers to all that one call asks, together."""
