"""Carried: what a call takes along while a person is asked, in the state that comes back with the answers.

A server's own state may be worth little by then: the SDK's servers take theirs for ten minutes,
and of the process that made it, where a run waits for weeks and over restarts. So beside it goes
what was asked. A server that refuses its state is called from the start, and where it asks the
very same again, it is given the answer that is there already; another question is a new one.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sojourn.contracts.input_required import InputForm, InputRequired, ToolInput
from sojourn.core.payload.boundary import MAX_REQUEST_STATE
from sojourn.mcp.faults import Unaskable

__all__ = ["Carried", "packed"]


@dataclass(frozen=True, slots=True)
class Carried:
    """The answers to one `InputRequired`, with what they answer."""

    responses: Mapping[str, dict[str, Any]]
    """By the request's name."""
    state: str | None
    """The server's, as it came."""
    asked: Mapping[str, str]
    """What a person was asked, as a digest by the request's name."""

    @classmethod
    def read(cls, given: ToolInput) -> Self:
        """What came back with the answers to a `packed` question."""
        head, _, state = (given.request_state or "{}").partition("\n")
        carried = json.loads(head)
        return cls(given.responses, state if carried.get("state") else None, carried.get("asked", {}))

    def again(self, needed: InputRequired) -> dict[str, dict[str, Any]] | None:
        """The responses to a question that asks the same as before, or None where it asks anything else."""
        if any(self.asked.get(form.key) != _digest(form) for form in needed.forms):
            return None
        return {**needed.responses, **{form.key: self.responses[form.key] for form in needed.forms}}


def packed(needed: InputRequired) -> InputRequired:
    """A question whose state carries along what is asked.

    Raises:
        Unaskable: the server's state is too long for that.
    """
    state = needed.request_state
    head = {"state": state is not None, "asked": {form.key: _digest(form) for form in needed.forms}}
    both = f"{json.dumps(head)}\n{state or ''}"
    if len(both) > MAX_REQUEST_STATE:
        raise Unaskable("it wants back a state that is too long")
    return needed.model_copy(update={"request_state": both})


def _digest(form: InputForm) -> str:
    said = json.dumps([form.message, form.form], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:32]
