"""A wait of each kind, with a message that answers it, and one that answers it otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.contracts.awaits import (
    Await,
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    ExternalCall,
)

__all__ = ["SAMPLES", "SampleWait"]


@dataclass(frozen=True)
class SampleWait:
    wait: Await
    answer: dict[str, Any]
    other: dict[str, Any]
    given: str | dict[str, Any] = ""
    """For a planner's question: `answer` as a fork gives it."""


SAMPLES: Mapping[type[Await], SampleWait] = {
    type(each.wait): each
    for each in (
        SampleWait(
            AwaitClarification(id="w", question="Which site?"),
            {"id": "w", "answer": "s-1"},
            {"id": "w", "answer": "s-2"},
            given="s-1",
        ),
        SampleWait(
            AwaitConfirmation(id="w", tool_call_id="c1", tool="a.b.c", payload_digest="d1"),
            {"id": "w", "approved": True, "payload_digest": "d1"},
            {"id": "w", "approved": False, "payload_digest": "d1"},
        ),
        SampleWait(
            AwaitExternalTools(id="w", items=[ExternalCall(tool_call_id="c1", tool="a.b.c")]),
            {"id": "w", "results": [{"tool_call_id": "c1", "result": 1}]},
            {"id": "w", "results": [{"tool_call_id": "c1", "result": 2}]},
        ),
    )
}
"""By the record. A kind that is added needs a row here."""
