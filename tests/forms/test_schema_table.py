"""A schema as rows of a table: its fields in order, with types and rules, and an end."""

from sojourn.forms import schema_table
from sojourn.forms.schema_table import MAX_ROWS


def rows(schema):
    return [(row.name, row.depth, row.types, row.is_required) for row in schema_table(schema).rows]


def test_the_rows_of_a_schema_are_its_fields_in_their_order():
    """References are followed, arrays and choices are described, and what is nested is below its field."""
    schema = {
        "$defs": {"Line": {"properties": {"sku": {"type": "string"}}, "required": ["sku"], "type": "object"}},
        "properties": {
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}, "minItems": 1},
            "main": {"anyOf": [{"$ref": "#/$defs/Line"}, {"type": "null"}], "default": None},
            "kind": {"enum": ["a", "b"]},
            "other": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
        "required": ["lines"],
    }
    assert rows(schema) == [
        ("lines", 0, "array of object", True),
        ("sku", 1, "string", True),
        ("main", 0, "object or null", False),
        ("sku", 1, "string", True),
        ("kind", 0, "one of", False),
        ("other", 0, "object", False),
        ("any other name", 1, "integer", False),
    ]
    assert schema_table(schema).rows[0].rules == ["at least 1 item"]
    assert schema_table(schema).rows[4].rules == ['"a", "b"']


def test_what_is_no_schema_makes_a_table_all_the_same() -> None:
    """A schema of a stranger that is none, or that holds itself, has rows that end."""
    rows = [
        None,
        [],
        "x",
        {"properties": 5},
        {"properties": {"a": None, "b": [], "c": {"type": 7, "enum": 3, "anyOf": "x", "items": 1}}},
        {"$ref": "#"},
        {"$ref": "#/a/b"},
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#/properties/a"}]}}},
        {"allOf": [{"$ref": "#"}], "required": 3},
        {"properties": {"a": {"items": {"$ref": "#/properties/a"}, "type": ["array", None]}}},
    ]
    assert [schema for schema in rows if not (len(schema_table(schema).rows) < 50)] == []


def test_a_table_has_an_end():
    """A schema of more fields than a page holds says that there are more."""
    found = schema_table({"properties": {f"f{n}": {"type": "string"} for n in range(5_000)}})
    assert len(found.rows) == MAX_ROWS
    assert not found.is_whole
