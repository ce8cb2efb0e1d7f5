"""Arguments: when those of two calls are the same."""

from sojourn.core.payload.parse import arguments_digest, has_digest, same_arguments
from sojourn.core.schema.validate import Validator

VALIDATOR = Validator(
    {"type": "object", "properties": {"amount": {"type": "number"}, "to": {}, "note": {"default": None}}}
)
BARE, FULL = {"amount": 30, "to": ["ü", {"n": 1.0}]}, {"note": None, "to": ["ü", {"n": 1}], "amount": 30.0}


def test_spelled_otherwise_or_with_defaults_they_are_the_same() -> None:
    """Order, equal numbers and defaults make no difference; another value does, and a truth is no number."""
    assert same_arguments(VALIDATOR, BARE, FULL)
    assert same_arguments(VALIDATOR, {"amount": 30}, {"amount": 30.0})
    assert not same_arguments(VALIDATOR, BARE, {**FULL, "note": ""})
    assert not same_arguments(VALIDATOR, {"amount": 1}, {"amount": True})


def test_a_digest_is_known_in_every_spelling() -> None:
    """A digest of arguments fits them as they are, with all defaults, and with none."""
    for one in (BARE, FULL):
        assert all(has_digest(VALIDATOR, other, arguments_digest(one)) for other in (BARE, FULL))
    assert not has_digest(VALIDATOR, BARE, arguments_digest({**BARE, "amount": 31}))
