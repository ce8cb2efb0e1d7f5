"""An example of a call that works, for a caller whose call did not (SR-116, SR-144).

In this order, the first that fits:

1. the prior input with its faults mended: it keeps what the caller meant;
2. the tool author's example as a whole;
3. a payload made of the schema's defaults, enums, formats, patterns and bounds.

A schema does not know every rule: a type has validators of its own. So whoever knows the type
judges each candidate too, and a prior input that was mended, or fits the schema, and is refused all
the same is tried with other values where it was at fault. Then only 2 is left for it: a payload of
made values alone would say nothing of what the caller meant.

None is better than a wrong example: what is returned has been validated, and is small
enough to be sent to a model.
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
"""Whether a payload that fits a tool's schema is taken by the tool's own type, too."""


def example_for(
    validator: Validator,
    prior: dict[str, Any] | None = None,
    author_example: Any = None,
    *,
    issues: Sequence[FieldIssue] = (),
    fits: Judge | None = None,
) -> dict[str, Any] | None:
    """A payload that validates, at most 8 KB; never random.

    Args:
        validator: Of the tool's payload.
        prior: The payload as it was sent; None when there is none worth keeping.
        author_example: The tool author's own example.
        issues: Why it was refused, where the schema accepts it.
        fits: Judges by the tool's type what the schema accepts; none where the schema says all that is known.
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
    meant = prior if prior and _is_small_object(prior) else None
    mended = derive_example(validator, meant, author_example) if meant else None
    if mended:
        if mended != meant:
            yield mended
        yield _replaced(mended, issues, lambda tokens: value_at(author_example, tokens))
        yield _replaced(mended, issues, lambda tokens: _made(validator, tokens))
    yield author_example
    is_unexplained = prior is not None and not issues and validator.is_valid(prior)
    if not mended and not is_unexplained:
        with suppress(NoSampleError):
            yield sample(validator.schema, validator.schema)


def _replaced(
    prior: dict[str, Any], issues: Sequence[FieldIssue], value_of: Callable[[tuple[str, ...]], Any]
) -> dict[str, Any] | None:
    """What was sent, with other values where it was refused; None where some of them has no place or value."""
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
