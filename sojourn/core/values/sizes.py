"""Sizes that keep a run within Temporal's limits (2 MB a payload, 4 MB a message).

Measured: one plan with 2,100 calls, or with 900 calls of 6 KB, blocks a run for ever, and a 3 MB
activity input makes the server terminate the run. So every sum below is bounded.
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
"""Largest arguments of one call."""

MAX_STEP_BYTES = 1_000_000
"""Largest arguments of one step's executed calls together, which are the commands of one workflow task."""

MAX_PLAN_BYTES = 1_500_000
"""Largest result of `PlanActivity`."""

MAX_PLAN_CALLS = 10_000
"""Most calls of one plan; more are a planner fault."""

MAX_RESULT_BYTES = 1_000_000
"""Largest result of one tool call."""

MAX_LOCAL_BYTES = 50_000
"""Largest result of one local call with its artifacts: results that end in one workflow task share a message."""

MAX_ARTIFACT_BYTES = 800_000
"""Largest artifacts of one result together, which share its completion."""

MAX_STORED_BYTES = 50_000_000
"""Largest result with its artifacts where external storage is configured."""

MAX_INLINE_BYTES = 64_000
"""Largest new messages that a plan's input carries itself; above, it carries their index."""

MAX_SLICE_BYTES = 1_500_000
"""Largest answer of the query `transcript`."""

MAX_PRIOR_INPUT_BYTES = 8_000
"""Largest payload that a hint repeats."""

MAX_ANSWER_CHARS = 64_000
"""Longest answer of a person, in characters of JSON."""

MAX_FORMS_BYTES = 1_000_000
"""Largest answers to all forms of one call together."""
