"""Templates: declared fields are filled in, all other text is literal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.core.payload.template import filled

SCHEMA = {
    "properties": {
        "site": {"type": "string"},
        "count": {"type": "integer", "default": 3},
        "tags": {"type": "array"},
        "größe": {},
        "any": True,
    }
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("Reset {site}?", "Reset s-1?"),
        ("{site}{site}", "s-1s-1"),
        ("{tags} and {größe}", '["ä", 1] and null'),
        # A field that is left out becomes its default, or the empty text.
        ("{count} times, {any}!", "3 times, !"),
        # Braces around anything but a declared field are literal.
        (
            "{other} {site.x} {} {0} {{site}} {site!r} %s $site",
            "{other} {site.x} {} {0} {s-1} {site!r} %s $site",
        ),
        ("{ site }", "{ site }"),
        ("", ""),
    ],
)
def test_declared_fields_are_filled_in(template: str, text: str) -> None:
    """A text is inserted unchanged, other values as JSON; braces that name no declared field stay."""
    payload = {"site": "s-1", "tags": ["ä", 1], "größe": None, "other": "not declared"}
    assert filled(template, SCHEMA, payload) == text


@pytest.mark.parametrize("value", ["{count}", "{site}", "\\1", "\\g<0>", "$&"])
def test_an_inserted_value_is_not_filled_in_again(value: str) -> None:
    """A payload's value with braces or backslashes is inserted literally."""
    assert filled("<{site}>", SCHEMA, {"site": value}) == f"<{value}>"


@given(st.text(), st.dictionaries(st.text(max_size=5), st.text(max_size=5)))
def test_without_declared_fields_a_template_is_its_text(template: str, payload: dict[str, str]) -> None:
    """Without declared fields any template is its own text."""
    assert filled(template, {}, payload) == template
