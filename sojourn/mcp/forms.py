"""Forms: the input requests of a server (MCP, `inputRequests`), as forms for a person and responses to all others.

A form is a flat object of simple fields. Of the server's untrusted schema only those keywords are kept that a person
is shown or an answer is checked against. Names and choices go back to the server unchanged, so a form is refused if
one of them cannot be shown.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from sojourn.contracts.tool_call import InputForm, InputRequired
from sojourn.core.awaits.form import mismatch_of
from sojourn.core.payload.boundary import MAX_REQUEST_STATE
from sojourn.core.values.json_value import Schema, is_array, is_object
from sojourn.core.values.text import plain
from sojourn.mcp.errors import UnsupportedElicitation
from sojourn.mcp.limits import MAX_FORM_BYTES, MAX_FORM_FIELDS, MAX_INPUT_REQUESTS
from sojourn.mcp.text import cleaned, masked

if TYPE_CHECKING:
    from mcp_types import InputRequiredResult

__all__ = ["CleanText", "form_of", "to_input_required"]

CleanText = Callable[[str, int], str]
"""Makes a server's text safe to show; the second argument is the most characters."""

_MAX_KEY = 500
_MAX_MESSAGE = 2_000
_DECLINED = {"action": "decline"}
_NO_ROOTS: dict[str, Any] = {"roots": []}
"""The response to `roots/list`: the client has no folders."""

_MAX_NAME = 100
_MAX_TITLE = 200
_MAX_DESCRIPTION = 500
_MAX_CHOICES = 100
_MAX_CHOICE = 200
_FARTHEST = 1e300
"""Largest number that is shown, positive or negative; a larger integer may have thousands of digits."""


def to_input_required(answer: "InputRequiredResult", secrets: Sequence[str]) -> InputRequired:
    """Return the forms for a person, and the responses to all other requests.

    Sampling (`sampling/createMessage`) and elicitation by URL are declined. MCP has no refusal of sampling, so it
    gets the same response as a declined form, which a server reads as a response of the wrong kind.

    Args:
        answer: The server's answer, instead of a result.
        secrets: Values that are masked in what a person is shown.

    Raises:
        UnsupportedElicitation: A form cannot be shown, or requests or state are too large; the text holds no state.
    """

    def clean(text: str, limit: int) -> str:
        return cleaned(masked(text, secrets), limit)

    requests = answer.input_requests or {}
    if len(requests) > MAX_INPUT_REQUESTS:
        raise UnsupportedElicitation(f"it asks for more than {MAX_INPUT_REQUESTS} inputs at once")
    if any(len(key) > _MAX_KEY for key in requests) or len(answer.request_state or "") > MAX_REQUEST_STATE:
        raise UnsupportedElicitation("it asks for input under a name, or with a state, that is too long")
    forms: list[InputForm] = []
    responses: dict[str, dict[str, Any]] = {}
    for key, request in requests.items():
        if request.method == "elicitation/create" and request.params.mode == "form":
            message = clean(request.params.message, _MAX_MESSAGE)
            try:
                form = form_of(request.params.requested_schema, clean)
            except ValueError as error:
                raise UnsupportedElicitation(
                    f"it asks for input with a form that cannot be shown: {error}"
                ) from None
            forms.append(
                InputForm(key=key, message=message or f"Input for {plain(clean(key, 100), 100)}", form=form)
            )
        else:
            responses[key] = _NO_ROOTS if request.method == "roots/list" else _DECLINED
    return InputRequired(forms=forms, responses=responses, request_state=answer.request_state)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -_FARTHEST < value < _FARTHEST


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


_IS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str) and len(value) <= _MAX_DESCRIPTION and value.isprintable(),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
}
"""The simple types, each with a check whether a value from the server has the type and can be shown."""

_BOUNDS: Mapping[str, tuple[tuple[str, Callable[[Any], bool]], ...]] = {
    "string": (("minLength", _is_count), ("maxLength", _is_count), ("format", _IS["string"])),
    "integer": (("minimum", _is_number), ("maximum", _is_number)),
    "number": (("minimum", _is_number), ("maximum", _is_number)),
    "boolean": (),
    "array": (("minItems", _is_count), ("maxItems", _is_count)),
}
"""The JSON Schema keywords that bound a value of each type, each with a check of its own value."""


def form_of(schema: Schema, clean: CleanText) -> Schema:
    """Return the schema of an elicitation (MCP, `requestedSchema`) as a form.

    Args:
        schema: The server's schema.
        clean: Makes the schema's texts safe to show.

    Raises:
        ValueError: The schema is not a flat object of simple fields, or is too large; the text is a clause.
    """
    properties = schema.get("properties")
    if not is_object(properties) or len(properties) > MAX_FORM_FIELDS:
        raise ValueError(f"a form has at most {MAX_FORM_FIELDS} fields, in `properties`")
    form: Schema = {
        "type": "object",
        "properties": {name: _field(name, field, clean) for name, field in properties.items()},
    }
    required: Any = schema.get("required")
    if required is not None:
        if not is_array(required) or not all(
            isinstance(each, str) and each in properties for each in required
        ):
            raise ValueError("`required` must name fields of the form")
        form["required"] = list(dict.fromkeys(required))
    if len(json.dumps(form)) > MAX_FORM_BYTES:
        raise ValueError(f"a form has at most {MAX_FORM_BYTES:,} bytes")
    return form


def _field(name: str, schema: Any, clean: CleanText) -> Schema:
    place = f"`{plain(clean(name, _MAX_NAME), _MAX_NAME)}`"
    if not (0 < len(name) <= _MAX_NAME and name.isprintable()):
        raise ValueError(f"the field {place} has a name that cannot be shown")
    if not is_object(schema):
        raise ValueError(f"the field {place} has no type")
    choices = _choices(schema)
    kind: Any = schema.get("type", "string" if choices else None)
    if not isinstance(kind, str) or kind not in _BOUNDS:
        raise ValueError(f"the field {place} is not a text, a number, a boolean or a choice")
    field: Schema = {"type": kind}
    if kind == "array":
        field["items"] = _items(place, schema.get("items"), clean)
    elif choices is not None:
        field |= _chosen(place, kind, choices, clean)
    for word, limit in (("title", _MAX_TITLE), ("description", _MAX_DESCRIPTION)):
        if isinstance(schema.get(word), str):
            field[word] = clean(schema[word], limit)
    field |= {word: schema[word] for word, fits in _BOUNDS[kind] if word in schema and fits(schema[word])}
    if "default" in schema and _is_default(field, schema["default"]):
        field["default"] = schema["default"]
    return field


def _items(place: str, schema: Any, clean: CleanText) -> Schema:
    """Return the schema of an array field's items: texts, from choices if there are any."""
    if not is_object(schema) or schema.get("type", "string") != "string":
        raise ValueError(f"the field {place} is a list of values that are not texts")
    choices = _choices(schema)
    return {"type": "string", **(_chosen(place, "string", choices, clean) if choices is not None else {})}


def _choices(schema: Schema) -> list[tuple[Any, Any]] | None:
    """Return the choices of a field, each with its title or None; None for a field without choices."""
    for word in ("oneOf", "anyOf"):
        if is_array(schema.get(word)):
            return [_titled(one) for one in schema[word]]
    if "const" in schema:
        return [(schema["const"], None)]
    if not is_array(schema.get("enum")):
        return None
    values = cast("list[Any]", schema["enum"])
    titles: Any = schema.get("enumNames")
    named: Sequence[Any] = titles if is_array(titles) and len(titles) == len(values) else [None] * len(values)
    return list(zip(values, named, strict=True))


def _titled(choice: Any) -> tuple[Any, Any]:
    return (choice.get("const"), choice.get("title")) if is_object(choice) else (None, None)


def _chosen(place: str, kind: str, choices: Sequence[tuple[Any, Any]], clean: CleanText) -> Schema:
    fits = all(_IS[kind](value) and len(str(value)) <= _MAX_CHOICE for value, _ in choices)
    if not fits or not 0 < len(choices) <= _MAX_CHOICES:
        raise ValueError(f"the field {place} is not a choice of 1 to {_MAX_CHOICES} values that can be shown")
    made: Schema = {"enum": [value for value, _ in choices]}
    if any(isinstance(title, str) for _, title in choices):
        made["enumNames"] = [
            clean(title, _MAX_TITLE) if isinstance(title, str) else str(value) for value, title in choices
        ]
    return made


def _is_default(field: Schema, value: Any) -> bool:
    """Whether a value can be shown, and would be accepted as a person's answer to the field."""
    if field["type"] == "array":
        can_be_shown = is_array(value) and len(value) <= _MAX_CHOICES and all(map(_IS["string"], value))
    else:
        can_be_shown = _IS[field["type"]](value)
    return can_be_shown and mismatch_of({"properties": {"": field}}, {"": value}, whole=False) is None
