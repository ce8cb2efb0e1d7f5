"""Arguments: a call of a tool is checked against the schema that the tool is listed with, so that a misspelt field starts nothing."""

from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from sojourn.contracts.record import suggestion
from sojourn.http.problems import Problem

__all__ = ["check_arguments"]

MAX_FAULTS = 5
"""Most faults that one answer names."""


def check_arguments(tool: str, schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Check the arguments of a call.

    Args:
        tool: The name of the tool.
        schema: Its input schema, of an object whose fields are texts.
        arguments: What the client sent.

    Raises:
        Problem: They do not fit the schema (422); the detail names each field.
    """
    validator: Any = Draft202012Validator(schema)
    faults = [
        clause
        for error in validator.iter_errors(arguments)
        for clause in _clauses(error, schema["properties"], arguments)
    ]
    if not faults:
        return
    more = [f"{len(faults) - MAX_FAULTS} more"] if len(faults) > MAX_FAULTS else []
    required = schema.get("required", [])
    told = ", ".join(f"{name} (required)" if name in required else name for name in schema["properties"])
    raise Problem(
        422,
        "invalid_input",
        f"the arguments of the tool `{tool}` do not fit: {'; '.join([*faults[:MAX_FAULTS], *more])}",
        then=f"Call it again with these fields: {told}.",
    )


def _clauses(error: ValidationError, properties: dict[str, Any], arguments: dict[str, Any]) -> list[str]:
    """What is wrong, without the value."""
    rule: Any = error.validator_value
    if error.validator == "additionalProperties":
        unknown = [name for name in arguments if name not in properties]
        return [
            f"there is no field {name[:200]}{suggestion(name[:200], list(properties))}" for name in unknown
        ]
    if error.validator == "required":
        return [f"{name} is missing" for name in rule if name not in arguments]
    place = ".".join(map(str, error.absolute_path))
    if error.validator == "maxLength":
        return [f"{place} is longer than {rule} characters"]
    return [f"{place} is not of type {rule}"]
