"""An example of a call that works, for the caller of one that failed (SR-116, SR-144).

The first candidate that fits, in this order:

1. the prior input with its issues repaired, which keeps the caller's intent;
2. the tool author's example as a whole;
3. a payload made from the schema's defaults, enums, formats, patterns and bounds.

A schema does not state every rule: a type may have validators of its own. So the type validates each
candidate too. A prior input that fits the schema, as sent or repaired, but is refused by the type is tried
with other values at its issues. After that only 2 is left for it: a payload of made-up values would not keep
the caller's intent.

No example is better than a wrong one: a returned example is valid, and small enough to be sent to a model.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

from sojourn.contracts.retry_hint import FieldIssue
from sojourn.core.payload.derived_example import derive_example, put
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
) -> dict[str, Any] | None:
    """A valid payload of at most 8 KB; never random.

    Args:
        validator: Validates the tool's payload.
        prior: The payload as sent; None when it is not worth keeping.
        author_example: The tool author's own example.
        issues: Why the type refused a payload that the schema accepts.
        fits: Validates with the tool's type; None where only the schema is known.
    """
    with allowance():
        for candidate in _candidates(validator, prior, author_example, issues if fits else ()):
            if (
                _is_small_object(candidate)
                and validator.is_valid(candidate)
                and (fits is None or fits(candidate))
            ):
                return candidate
    return None


def _candidates(
    validator: Validator, prior: dict[str, Any] | None, author_example: Any, issues: Sequence[FieldIssue]
) -> Iterator[Any]:
    sent = prior if prior and _is_small_object(prior) else None
    repaired = derive_example(validator, sent, author_example) if sent else None
    if repaired:
        if repaired != sent:
            yield repaired
        yield _replaced(repaired, issues, lambda tokens: value_at(author_example, tokens))
        yield _replaced(repaired, issues, lambda tokens: _made(validator, tokens))
    yield author_example
    is_unexplained = prior is not None and not issues and validator.is_valid(prior)
    if not repaired and not is_unexplained:
        with suppress(NoSampleError):
            yield sample(validator.schema, validator.schema)


def _replaced(
    prior: dict[str, Any], issues: Sequence[FieldIssue], value_of: Callable[[tuple[str, ...]], Any]
) -> dict[str, Any] | None:
    """The payload with other values at its issues; None where an issue has no place or no other value."""
    changed = deepcopy(prior)
    for issue in issues:
        tokens = to_tokens(issue.field)
        parent, value = value_at(changed, tokens[:-1]), value_at(changed, tokens)
        other = value_of(tokens) if tokens and value is not ABSENT else ABSENT
        if other is ABSENT or not (is_object(parent) or is_array(parent)):
            return None
        put(parent, tokens[-1], deepcopy(other))
    return changed if issues else None


def _made(validator: Validator, tokens: tuple[str, ...]) -> Any:
    for schema in locate(validator.schema, tokens):
        with suppress(NoSampleError):
            return sample(validator.schema, schema)
    return ABSENT


def _is_small_object(value: Any) -> bool:
    return is_object(value) and json_fault(value, max_bytes=MAX_PRIOR_INPUT_BYTES) is None
