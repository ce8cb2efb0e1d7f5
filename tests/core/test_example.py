"""Examples: the caller's own input mended, or the author's, or one made of the schema; always valid, never random."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings

from sojourn.core.example import example_for
from sojourn.core.limits import MAX_PRIOR_INPUT_BYTES
from sojourn.core.mend import closest_name, mend
from sojourn.core.sample import NoSampleError, sample
from sojourn.core.schema import check, close
from sojourn.core.validate import Validator


def field(schema: Any, *, required: bool = True) -> Validator:
    made = close({"type": "object", "properties": {"f": schema}, "required": ["f"] if required else []})
    check(made)
    return Validator(made)
