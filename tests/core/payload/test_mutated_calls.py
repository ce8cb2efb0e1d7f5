"""One-field mutations of right calls of a leaderboard: each is read, valid in itself, or refused with a hint that keeps its law."""

import json
from collections import Counter
from pathlib import Path

import pytest

from sojourn.core.schema.enforceable import forbid_unknown_fields
from tests.core.payload.mutated_calls import altered, fate_of, mutations

CALLS = json.loads(Path(__file__).with_name("bfcl_calls.json").read_text())["calls"]


@pytest.mark.parametrize(("closed", "reads"), [(True, None), (False, True)])
def test_a_call_with_one_wrong_field_is_read_or_repaired(closed: bool, reads: bool | None) -> None:
    """No mutated call is changed silently, and no example has a value that was not sent and is not named as invented."""
    fates: Counter[str] = Counter()
    broken = []
    for call in CALLS:
        right = call["arguments"]
        schema = forbid_unknown_fields(call["parameters"]) if closed else call["parameters"]
        author = altered(right, schema)
        for mutation in mutations(right):
            try:
                fates[fate_of(mutation, right, schema, author=author, reads=reads)] += 1
            except AssertionError as error:
                broken.append((call["function"], mutation.kind, mutation.payload, str(error).splitlines()[0]))
    assert broken == []
    assert min(fates[each] for each in ("valid", "read", "hint", "hint with invented values")) > 20
