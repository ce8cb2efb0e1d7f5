"""Show a JSON Schema as a form, and read the filled-in texts as values.

The package decides which schemas are forms, reads the texts of their fields, and gives errors per
field. Every reader of a question, such as the console, the command line and the protocols, only
renders it.

Workflow code checks an answer by `mismatch_of` of `sojourn.core.awaits.form`. Nothing here may run
in a workflow. The package imports the core alone. Begin at `fields.py`, then `values.py`.
"""

from sojourn.forms.edit import edit_fields, read_edit
from sojourn.forms.elicitation import elicitation_schema, sanitize_form
from sojourn.forms.fields import Choice, FormField, choices_of, form_fields, resolve_field, whole_field
from sojourn.forms.schema_table import SchemaRow, SchemaTable, example_of, schema_table
from sojourn.forms.values import (
    MISSING,
    FilledForm,
    FormTexts,
    check_answer,
    edit_rows,
    field_paths,
    is_filled_in,
    parse_pairs,
    parse_value,
    place_fault,
    read_fields,
    read_number,
    read_value,
    typed_fields,
)

__all__ = [
    "MISSING",
    "Choice",
    "FilledForm",
    "FormField",
    "FormTexts",
    "SchemaRow",
    "SchemaTable",
    "check_answer",
    "choices_of",
    "edit_fields",
    "edit_rows",
    "elicitation_schema",
    "example_of",
    "field_paths",
    "form_fields",
    "is_filled_in",
    "parse_pairs",
    "parse_value",
    "place_fault",
    "read_edit",
    "read_fields",
    "read_number",
    "read_value",
    "resolve_field",
    "sanitize_form",
    "schema_table",
    "typed_fields",
    "whole_field",
]
