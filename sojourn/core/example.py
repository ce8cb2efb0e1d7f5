"""An example of a call that works, for a caller whose call did not (SR-116, SR-144).

In this order, the first that fits:

1. the prior input with its faults mended: it keeps what the caller meant;
2. the tool author's example as a whole;
3. a payload made of the schema's defaults, enums, formats and bounds.

A prior input that fits the schema was refused for a reason that the schema does not know
(a model's own validator); nothing made from the schema answers it, so only 2 is left.

None is better than a wrong example: what is returned has been validated, and is small
enough to be sent to a model.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from sojourn.core.json_value import is_object
from sojourn.core.limits import MAX_PRIOR_INPUT_BYTES
from sojourn.core.mend import mend
from sojourn.core.misfit import misfit
from sojourn.core.sample import NoSampleError, sample
from sojourn.core.validate import Validator
from sojourn.core.work import allowance

__all__ = ["example_for"]


def example_for(
    validator: Validator, prior: dict[str, Any] | None = None, author_example: Any = None
) -> dict[str, Any] | None:
    """A payload that validates, at most 8 KB; never random.

    Args:
        validator: Of the tool's payload.
        prior: The payload as it was sent; None when there is none worth keeping.
        author_example: The tool author's own example.
    """
    with allowance():
        for candidate in _candidates(validator, prior, author_example):
            if _is_small_object(candidate) and validator.is_valid(candidate):
                return candidate
    return None


def _candidates(validator: Validator, prior: dict[str, Any] | None, author_example: Any) -> Iterator[Any]:
    if prior is not None and validator.is_valid(prior):
        yield author_example
        return
    if prior and _is_small_object(prior):
        yield mend(validator, prior, author_example)
    yield author_example
    with suppress(NoSampleError):
        yield sample(validator.schema, validator.schema)


def _is_small_object(value: Any) -> bool:
    return is_object(value) and misfit(value, max_bytes=MAX_PRIOR_INPUT_BYTES) is None
