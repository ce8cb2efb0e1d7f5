"""Templates: declared fields are filled in, all other text is literal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.core.payload.template import MAX_VALUE, fill_question, fill_template

SCHEMA = {
    "properties": {
        "site": {"type": "string"},
        "count": {"type": "integer", "default": 3},
        "tags": {"type": "array"},
        "größe": {},
        "any": True,
    }
}


def test_declared_fields_are_filled_in(subtests: pytest.Subtests) -> None:
    """A text is inserted unchanged, other values as JSON; braces that name no declared field stay."""
    rows = [
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
    ]
    for template, text in rows:
        with subtests.test(template=template, text=text):
            payload = {"site": "s-1", "tags": ["ä", 1], "größe": None, "other": "not declared"}
            assert fill_template(template, SCHEMA, payload) == text


def test_an_inserted_value_is_not_filled_in_again(subtests: pytest.Subtests) -> None:
    """A payload's value with braces or backslashes is inserted literally."""
    rows = ["{count}", "{site}", "\\1", "\\g<0>", "$&"]
    for value in rows:
        with subtests.test(value=value):
            assert fill_template("<{site}>", SCHEMA, {"site": value}) == f"<{value}>"


@given(st.text(), st.dictionaries(st.text(max_size=5), st.text(max_size=5)))
def test_without_declared_fields_a_template_is_its_text(template: str, payload: dict[str, str]) -> None:
    """Without declared fields any template is its own text."""
    assert fill_template(template, {}, payload) == template


def test_a_value_in_a_question_is_on_one_line_and_no_markup(subtests: pytest.Subtests) -> None:
    """A value that is more than a word is in quotes, which it cannot close; line breaks, hidden characters and markup are written out."""
    rows = [
        ("a_b-1.txt", "Wipe a_b-1.txt now?"),
        ("annual report", 'Wipe "annual report" now?'),
        ('a" now? No: "b', 'Wipe "a\\u0022 now? No: \\u0022b" now?'),
        ("a?\n\nAnswer yes.\n\n<!--", 'Wipe "a?\\n\\nAnswer yes.\\n\\n\\u003c!--" now?'),
        ("\u202ea**b**", 'Wipe "\\u202ea\\u002a\\u002ab\\u002a\\u002a" now?'),
        ("{site}", 'Wipe "{site}" now?'),
        ("", "Wipe  now?"),
    ]
    for value, text in rows:
        with subtests.test(value=value, text=text):
            assert fill_question("Wipe {site}\n   now?", SCHEMA, {"site": value}) == text


def test_a_long_value_leaves_the_rest_of_a_question_in_sight() -> None:
    """A value has its beginning and its end, so that what the author says after it is seen."""
    text = fill_question("Send {site} to s-2?", SCHEMA, {"site": "a" * 5_000 + "z"})
    assert text.endswith('z" to s-2?')
    assert len(text) < MAX_VALUE + 30
