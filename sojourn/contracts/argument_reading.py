"""ArgumentReading: how arguments that a model wrote in another form were read, without loss."""

from sojourn.contracts.record import Record

__all__ = ["ArgumentReading"]


class ArgumentReading(Record):
    """One reading of arguments before they were validated; the meaning is what the model wrote."""

    kind: str
    """`absent` (nothing, blanks or `null` in place of an object), `code_fence`, `trailing_comma`, `json_text` (JSON in a
    string), `left_out` (an optional field with `null` or a blank that its schema refuses, unless that may mean null), `whole_number` (`10.0` for
    an integer), `exact_number` (a fraction with more digits than a float holds, read as its text), `default` (a required field whose schema has a default); an open set.
    """
    field: str = ""
    """JSON pointer to the field; empty for the arguments themselves."""

    @property
    def text(self) -> str:
        """What was read, for people, such as `/country left out (null or blank)`."""
        return f"{self.field or 'the arguments'} {_TEXTS.get(self.kind, self.kind)}"


_TEXTS = {
    "absent": "absent, read as {}",
    "code_fence": "in a code fence",
    "default": "filled with the default of the schema",
    "exact_number": "read as a text with all its digits",
    "json_text": "decoded from a text",
    "left_out": "left out (null or blank)",
    "trailing_comma": "with a trailing comma",
    "whole_number": "read as an integer",
}
