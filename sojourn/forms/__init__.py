"""Forms: a flat JSON Schema as fields, and the texts that a person fills in as values, with errors per field.

The package decides which schemas are forms, and what a text means for a field; every reader of a question, such as the console, the command
line and the protocols, only renders it. What workflow code checks an answer by is `mismatch_of` of `sojourn.core.awaits.form`; nothing here
may run in a workflow. It imports the core alone. Begin at `fields.py`, then `values.py`.
"""

from sojourn.forms.elicitation import elicitation_schema, sanitize_form
from sojourn.forms.fields import Choice, FormField, choices_of, form_fields, resolve_field, whole_field
from sojourn.forms.schema_table import SchemaRow, SchemaTable, schema_table
from sojourn.forms.values import (
    MISSING,
    FilledForm,
    FormTexts,
    check_answer,
    read_fields,
    read_number,
    read_value,
    typed_value,
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
    "elicitation_schema",
    "form_fields",
    "read_fields",
    "read_number",
    "read_value",
    "resolve_field",
    "sanitize_form",
    "schema_table",
    "typed_value",
    "whole_field",
]
