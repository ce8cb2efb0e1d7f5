"""An example of a call that works, for the caller of one that failed (SR-116, SR-144).

The first candidate that fits, in this order:

1. the prior input with its issues repaired, which keeps the caller's intent;
2. the tool author's example as a whole;
3. a payload made from the schema's defaults, enums, formats, patterns and bounds.

A schema does not state every rule: a type may have validators of its own. So the type validates each
candidate too. A prior input that fits the schema, as sent or repaired, but is refused by the type is tried
with other values at its issues. After that only 2 is left for it: a payload of made-up values would not keep
the caller's intent.

No example is better than a wrong one: a returned example is valid, and small enough to be sent to a model. It says which
of its values do not follow from the call.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

from sojourn.contracts.tool_error import FieldIssue
from sojourn.core.payload.derived_example import derive_example
from sojourn.core.payload.invented import Example, made_up_in, put
from sojourn.core.schema.budget import allowance
from sojourn.core.schema.sample import NoSampleError, sample
from sojourn.core.schema.validate import Validator
from sojourn.core.values.json_fault import json_fault
from sojourn.core.values.json_value import is_array, is_object
from sojourn.core.values.pointer import ABSENT, locate, to_tokens, value_at
from sojourn.core.values.sizes import MAX_PRIOR_INPUT_BYTES

__all__ = ["Judge", "example_for"]

Judge = Callable[[dict[str, Any]], bool]
"""Whether a tool's own type accepts a payload that fits the tool's schema."""


def example_for(
    validator: Validator,
    prior: dict[str, Any] | None = None,
    author_example: Any = None,
    *,
    issues: Sequence[FieldIssue] = (),
    fits: Judge | None = None,
    reads: bool = False,
) -> Example | None:
    """A valid payload of at most 8 KB; never random.

    Args:
        validator: Validates the tool's payload.
        prior: The payload as sent; None when it is not worth keeping.
        author_example: The tool author's own example.
        issues: Why the type refused a payload that the schema accepts.
        fits: Validates with the tool's type; None where only the schema is known.
        reads: Whether the tool changes nothing, so that a likely reading of what was sent counts as meant.
    """
    with allowance():
        for candidate in _candidates(validator, prior, author_example, issues if fits else (), reads=reads):
            payload = candidate.payload
            if _is_small_object(payload) and validator.is_valid(payload) and (fits is None or fits(payload)):
                return candidate
    return None


def _candidates(
    validator: Validator,
    prior: dict[str, Any] | None,
    author_example: Any,
    issues: Sequence[FieldIssue],
    *,
    reads: bool,
) -> Iterator[Example]:
    sent = prior if prior is not None and _is_small_object(prior) else None
    repaired = None if sent is None else derive_example(validator, sent, author_example, reads=reads)
    if repaired:
        if repaired.payload != sent:
            yield repaired
        yield from _replaced(validator, repaired, issues, lambda tokens: value_at(author_example, tokens))
        yield from _replaced(validator, repaired, issues, lambda tokens: _made(validator, tokens))
    if is_object(author_example):
        yield _foreign(validator, author_example, sent, reads=reads)
    is_unexplained = prior is not None and not issues and validator.is_valid(prior)
    if not (repaired and repaired.payload) and not is_unexplained:
        with suppress(NoSampleError):
            yield _foreign(validator, sample(validator.schema, validator.schema), sent, reads=reads)


def _foreign(validator: Validator, payload: dict[str, Any], sent: Any, *, reads: bool) -> Example:
    """An example that was not derived from the payload; what both have follows from the call."""
    made_up = made_up_in(validator.schema, payload, sent=ABSENT if sent is None else sent)
    lost = [] if reads or sent is None else [(name,) for name in sent if name not in payload]
    return Example(payload, frozenset(made_up), frozenset(lost))


def _replaced(
    validator: Validator,
    prior: Example,
    issues: Sequence[FieldIssue],
    value_of: Callable[[tuple[str, ...]], Any],
) -> Iterator[Example]:
    """The payload with other values at its issues; nothing where an issue has no place or no other value."""
    changed, invented = deepcopy(prior.payload), set(prior.invented)
    for issue in issues:
        tokens = to_tokens(issue.field)
        parent, value = value_at(changed, tokens[:-1]), value_at(changed, tokens)
        other = value_of(tokens) if tokens and value is not ABSENT else ABSENT
        if other is ABSENT or not (is_object(parent) or is_array(parent)):
            return
        put(parent, tokens[-1], deepcopy(other))
        invented = {each for each in invented if each[: len(tokens)] != tokens}
        invented.update(made_up_in(validator.schema, other, tokens, value))
    if issues:
        yield Example(changed, frozenset(invented), prior.left_out)


def _made(validator: Validator, tokens: tuple[str, ...]) -> Any:
    for schema in locate(validator.schema, tokens):
        with suppress(NoSampleError):
            return sample(validator.schema, schema)
    return ABSENT


def _is_small_object(value: Any) -> bool:
    return is_object(value) and json_fault(value, max_bytes=MAX_PRIOR_INPUT_BYTES) is None
