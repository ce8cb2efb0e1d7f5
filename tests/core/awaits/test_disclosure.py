"""Disclosure: a payload in lines for the person who decides; every field, every end, and counts of what is left out."""

import json

from hypothesis import given
from hypothesis import strategies as st

from sojourn.core.awaits.disclosure import MAX_FIELDS, MAX_TEXT, disclose, disclose_changes
from sojourn.core.payload.masking import hide_secrets

NAMES = st.text(max_size=6) | st.sampled_from(
    ["a", "b", 'a = "x"', "a.b", "a[0]", "\n", "\\u200b", "\u200b", "…"]
)
TEXTS = st.text(max_size=8) | st.sampled_from(
    [
        "\\u200b",
        "\u200b",
        "\\\\",
        '"',
        "\n",
        "\\n",
        "e\u0301",
        "\u00e9",
        "\u202e",
        "\ud800",
        "d\u0430",
        "no arguments",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-20, 20) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
PAYLOADS = st.dictionaries(NAMES, JSON, max_size=4)


def leaves(value):
    """Each scalar and each empty object or array of a value."""
    if value and isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)
    else:
        yield value


@given(PAYLOADS, PAYLOADS)
def test_different_payloads_have_different_whole_views(one: dict, other: dict) -> None:
    """Two payloads have the same whole view only if they are the same JSON, so a person approves what was shown."""
    same = json.dumps(one) == json.dumps(other)
    assert (disclose(one, whole=True) == disclose(other, whole=True)) is same


@given(PAYLOADS)
def test_every_field_has_a_printable_line(payload: dict) -> None:
    """A whole view has one line for each scalar and each empty object or array, and no control characters."""
    shown = disclose(payload, whole=True)
    assert len(shown.lines) == max(1, len(list(leaves(payload))))
    assert len({line.split(" = ")[0] for line in shown.lines}) <= len(shown.lines)
    assert all(line.isprintable() for line in shown.lines)
    assert shown.is_whole


@given(PAYLOADS, st.integers(0, 60), st.integers(0, 3 * MAX_TEXT))
def test_no_padding_hides_a_field(payload: dict, fields: int, length: int) -> None:
    """However many fields come before, the last field is shown with its end, and a shortened view says so."""
    padded = {**{f"p{n}": n for n in range(fields)}, "rows": [["x"] * fields], **payload}
    padded |= {"path": "y" * length + "/PROD"}
    shown = disclose(padded)
    assert shown.lines[-1].startswith("path = ")
    assert shown.lines[-1].endswith('/PROD"')
    assert shown.is_whole is (shown == disclose(padded, whole=True))
    assert any(" left out …" in line for line in shown.lines) is not shown.is_whole
    assert len(shown.lines) <= 2 * MAX_FIELDS + 1


def test_a_view_reads_well() -> None:
    """A line is a path such as `lines[0].sku`, the value as JSON, and a warning where letters of scripts are mixed."""
    payload = {
        "path": "/srv/da\u200bta",
        "lines": [{"sku": "a-1", "count": 2}, {}],
        "a b": None,
        "name": "d\u0430ta",
    }
    assert disclose(payload).lines == (
        r'path = "/srv/da\u200bta"',
        'lines[0].sku = "a-1"',
        "lines[0].count = 2",
        "lines[1] = {}",
        '["a b"] = null',
        r'name = "dаta"  (! Cyrillic and Latin in one word: d\u0430ta)',  # noqa: RUF001
    )
    assert disclose({}).lines == ("no arguments",)


def test_a_long_text_shows_both_ends() -> None:
    """A long text shows its beginning, its end and the number of characters between; the whole view shows it all."""
    payload = {"text": "x" * 4_000 + "y", "path": "/PROD"}
    cut = disclose(payload)
    assert not cut.is_whole
    assert cut.lines[0] == f'text = "{"x" * 140}" … 3,801 characters left out … "{"x" * 59}y"'
    assert cut.lines[1] == 'path = "/PROD"'
    assert disclose(payload, whole=True).lines[0] == f'text = "{"x" * 4_000}y"'


def test_many_fields_share_a_screen() -> None:
    """Of a payload with many fields, some of each top-level field are shown, and the number of its items."""
    rows = [{"n": n} for n in range(5_000)]
    shown = disclose({"rows": rows, "path": "/PROD", "more": {str(n): n for n in range(100)}})
    assert not shown.is_whole
    assert shown.lines[9:13] == (
        "rows[9].n = 9",
        "rows … more of its 5,000 items left out …",
        'path = "/PROD"',
        'more["0"] = 0',
    )
    assert shown.lines[-1] == "more … more of its 100 fields left out …"
    many = disclose({f"f{n}": n for n in range(1_000)})
    assert many.lines[20] == "… 970 fields left out …"
    assert many.lines[-1] == "f999 = 999"
    assert len(many.lines) == MAX_FIELDS + 1
    assert disclose({f"f{n}": n for n in range(MAX_FIELDS + 1)}).lines[20] == "… 1 field left out …"


def test_a_text_without_one_character() -> None:
    """A text that is longer by one character has the place and the number of what is left out."""
    assert " … 1 character left out … " in disclose({"text": "x" * (MAX_TEXT + 1)}).lines[0]


def test_long_and_deep_paths_are_cut_too() -> None:
    """A long name in a path is shortened, and so is the path of a deeply nested field."""
    deep: object = 1
    for n in range(40):
        deep = {f"d{n}": deep}
    shown = disclose({"n" * 900: 1, "deep": deep})
    assert not shown.is_whole
    assert " … 700 characters left out … " in shown.lines[0]
    assert len(shown.lines[1]) < 100
    assert disclose({"n" * 900: 1}, whole=True).lines == ("n" * 900 + " = 1",)


def test_a_number_that_python_does_not_write_is_shown() -> None:
    """An integer that is too long for Python's decimal conversion is shown in hexadecimal."""
    assert disclose({"n": 10**5_000}).lines[0].startswith("n = 0x")


def test_changes_are_lines_from_what_to_what() -> None:
    """Changed, added, removed and nested values, each on its line; equal ones have none, and hidden characters are visible."""
    before = {"to": "a@x", "amount": 12.5, "note": "hi", "lines": [{"sku": "a"}], "same": [1, {}]}
    after = {
        "to": "a@x\u200b",
        "amount": 12,
        "cc": None,
        "lines": [{"sku": "b"}, {"sku": "c"}],
        "same": [1, {}],
    }
    assert disclose_changes(before, after) == (
        'to: "a@x" → "a@x\\u200b"',
        "amount: 12.5 → 12",
        'note: "hi" → nothing',
        'lines[0].sku: "a" → "b"',
        "cc: nothing → null",
        'lines[1].sku: nothing → "c"',
    )
    assert disclose_changes(before, before) == ()
    many = {str(n): n for n in range(MAX_FIELDS + 2)}
    assert disclose_changes({}, many)[-1] == "… 2 more changes"


def test_a_hidden_value_is_told_apart_from_a_text():
    """It has no quotation marks, which every text has."""
    assert disclose(hide_secrets({"password": "x", "a": "[hidden]"})).lines == (
        "password = [hidden]",
        'a = "[hidden]"',
    )
