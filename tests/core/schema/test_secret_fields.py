"""Secret fields: found where the schema marks them, however deep, and nowhere else."""

import pytest
from pydantic import BaseModel, SecretBytes, SecretStr

from sojourn.core.schema.secret_fields import has_secrets, is_secret, secrets_in


class Key(BaseModel):
    name: str
    value: SecretStr


class Keys(BaseModel):
    user: str
    password: SecretStr | None = None
    raw: SecretBytes = SecretBytes(b"")
    keys: list[Key] = []
    more: dict[str, SecretStr] = {}


SCHEMA = Keys.model_json_schema()
PAYLOAD = {
    "user": "ana",
    "password": "p-1",
    "raw": "p-2",
    "keys": [{"name": "a", "value": "p-3"}, {"name": "b", "value": "p-4"}],
    "more": {"x": "p-5"},
}


def test_pydantics_secrets_are_found():
    """Through references, alternatives, lists and maps."""
    assert has_secrets(SCHEMA)
    assert secrets_in(SCHEMA, PAYLOAD) == {
        "password": "p-1",
        "raw": "p-2",
        "keys/0/value": "p-3",
        "keys/1/value": "p-4",
        "more/x": "p-5",
    }


@pytest.mark.parametrize("mark", [{"writeOnly": True}, {"format": "password"}])
def test_either_word_marks(mark):
    """As JSON Schema and OpenAPI write it; what is in a marked object is secret too."""
    schema = {
        "type": "object",
        "properties": {"login": {"type": "object", **mark}, "site": {"type": "string"}},
    }
    assert secrets_in(schema, {"login": {"pin": 48151, "words": ["a"]}, "site": "s"}) == {
        "login/pin": 48151,
        "login/words/0": "a",
    }
    assert is_secret(schema, ("login",))
    assert not is_secret(schema, ())


def test_an_ordinary_schema_has_none():
    """Not by a field's name."""
    schema = {"type": "object", "properties": {"password": {"type": "string", "writeOnly": False}}}
    assert not has_secrets(schema)
    assert secrets_in(schema, {"password": "p"}) == {}


def test_a_payload_that_does_not_fit_is_searched_too():
    """It is the one that errors speak of."""
    assert secrets_in(SCHEMA, {"keys": "p-3", "password": ["p-1"], "else": {"value": "x"}}) == {
        "password/0": "p-1"
    }
