"""Injected: which fields a typed call leaves out, and which values their setter accepts (SR-43, SR-46).

The boundary drops an injected field that a planner sends, but by then it is recorded. So that a
hidden value is not recorded, a typed call has none of these fields. The setter validates a value
at once, where its author gets the error, and no message repeats the value.
"""

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

from pydantic import SecretBytes, SecretStr

from sojourn.authoring.shape import as_payload
from sojourn.core.schema.validate import Validator
from sojourn.core.values.json_value import Schema, resolve
from sojourn.core.values.text import with_article

__all__ = ["Injected"]


class Injected:
    """The injected fields of a tool.

    Args:
        place: The tool, for messages.
        names: Its injected fields.
        schema: The schema of the whole payload.
    """

    def __init__(self, place: str, names: Collection[str], schema: Schema) -> None:
        self._place = place
        self._names = names
        self._schema = schema

    def left_out(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The payload without injected fields; each other field must be declared.

        Raises:
            TypeError: The tool has no such field; type checkers do not see it here.
        """
        if not self._names:
            return payload
        sent = {name: value for name, value in payload.items() if name not in self._names}
        if self._top.get("additionalProperties") is False:
            for name in sent:
                if name not in self._properties:
                    known = ", ".join(each for each in self._properties if each not in self._names) or "none"
                    raise TypeError(f"{self._place} has no field {name!r}; its fields are {known}")
        return sent

    def filled(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values as JSON.

        Raises:
            TypeError: A field is not injected.
        """
        made: dict[str, Any] = {}
        for name, value in values.items():
            if name not in self._names:
                known = ", ".join(self._names) or "none"
                raise TypeError(
                    f"{self._place} has no injected field {name!r}; its injected fields are {known}"
                )
            shown = value.get_secret_value() if isinstance(value, (SecretStr, SecretBytes)) else value
            try:
                made |= as_payload((), {name: shown})
            except ValueError as error:
                raise TypeError(
                    f"{self._place}: {name}: a value of type {type(value).__name__} does not fit"
                ) from error
        return made

    def check(self, filled: Mapping[str, Any]) -> None:
        """Check that each value fits its field.

        Raises:
            TypeError: A value does not fit; the message has the field and the constraint, not the value.
        """
        for name, value in filled.items():
            faults = self._validators[name].issues({name: value})
            if faults:
                where = ".".join(faults[0].field.split("/")[1:])
                wanted = faults[0].expected_type
                why = f"{faults[0].constraint}" + (f", it must be {with_article(wanted)}" if wanted else "")
                raise TypeError(f"{self._place}: the value of {where} does not fit ({why})")

    @cached_property
    def _top(self) -> Schema:
        found = resolve(self._schema, self._schema.get("$ref", "")) if "$ref" in self._schema else None
        return found if isinstance(found, dict) else self._schema

    @property
    def _properties(self) -> dict[str, Any]:
        return self._top.get("properties", {})

    @cached_property
    def _validators(self) -> dict[str, Validator]:
        """A validator for each field, since the other fields are still missing."""
        rest = {word: value for word, value in self._schema.items() if word == "$defs"}
        return {
            name: Validator({**rest, "type": "object", "properties": {name: self._properties[name]}})
            for name in self._names
        }
