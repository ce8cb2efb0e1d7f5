"""Templates: declared fields are filled in, anything else is literal."""

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
        # A field that is left out is its default, or nothing.
        ("{count} times, {any}!", "3 times, !"),
        # What is not declared, or no name, is literal.
        (
            "{other} {site.x} {} {0} {{site}} {site!r} %s $site",
            "{other} {site.x} {} {0} {s-1} {site!r} %s $site",
        ),
        ("{ site }", "{ site }"),
        ("", ""),
    ],
)
def test_declared_fields_are_filled_in(template: str, text: str) -> None:
    """A text as it is, all else as JSON; an author's braces stay where they name no field."""
    payload = {"site": "s-1", "tags": ["ä", 1], "größe": None, "other": "not declared"}
    assert filled(template, SCHEMA, payload) == text


@pytest.mark.parametrize("value", ["{count}", "{site}", "\\1", "\\g<0>", "$&"])
def test_what_is_filled_in_is_not_filled_again(value: str) -> None:
    """A payload is text and no template, whoever wrote it."""
    assert filled("<{site}>", SCHEMA, {"site": value}) == f"<{value}>"


@given(st.text(), st.dictionaries(st.text(max_size=5), st.text(max_size=5)))
def test_without_declared_fields_a_template_is_its_text(template: str, payload: dict[str, str]) -> None:
    """Undeclared values never show, whatever the template."""
    assert filled(template, {}, payload) == template
