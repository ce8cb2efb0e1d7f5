"""Secret fields: those that the schema marks, at any depth."""

import pytest
from pydantic import BaseModel, SecretBytes, SecretStr

from sojourn.core.schema.annotations import has_secrets, is_secret, mask_secrets, secrets_in


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
    """`SecretStr` and `SecretBytes` fields are found through references, alternatives, lists and maps."""
    assert has_secrets(SCHEMA)
    assert secrets_in(SCHEMA, PAYLOAD) == {
        "password": "p-1",
        "raw": "p-2",
        "keys/0/value": "p-3",
        "keys/1/value": "p-4",
        "more/x": "p-5",
    }


def test_secrets_are_masked_by_the_names_of_their_fields():
    """Every other value stays, and so does null in place of a secret."""
    assert mask_secrets(SCHEMA, {**PAYLOAD, "password": None}) == {
        "user": "ana",
        "password": None,
        "raw": "[raw]",
        "keys": [{"name": "a", "value": "[keys/0/value]"}, {"name": "b", "value": "[keys/1/value]"}],
        "more": {"x": "[more/x]"},
    }


@pytest.mark.parametrize("mark", [{"writeOnly": True}, {"format": "password"}])
def test_either_keyword_marks_a_secret(mark):
    """`writeOnly` and `format: password` mark a field, and the values inside a marked object are secret too."""
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


def test_a_schema_without_marks_has_no_secrets():
    """A field's name does not make it secret."""
    schema = {"type": "object", "properties": {"password": {"type": "string", "writeOnly": False}}}
    assert not has_secrets(schema)
    assert secrets_in(schema, {"password": "p"}) == {}


def test_a_payload_that_does_not_fit_is_searched_too():
    """Secrets are found in an invalid payload too, since errors are about such payloads."""
    assert secrets_in(SCHEMA, {"keys": "p-3", "password": ["p-1"], "else": {"value": "x"}}) == {
        "password/0": "p-1"
    }
