"""Injected: what a typed call leaves out, and what its setter takes (SR-43, SR-46).

A value that a planner sends is dropped at the boundary, but by then it is recorded; so that what
is meant to be hidden is not written down, a typed call has none of these fields. What a setter
is given is checked there, where its author can be told, and repeated in no message.
"""

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

from pydantic import SecretBytes, SecretStr

from sojourn.authoring.shape import as_payload
from sojourn.core.schema.validate import Validator
from sojourn.core.values.pointer import Schema, resolve

__all__ = ["Injected"]


class Injected:
    """The injected fields of a tool.

    Args:
        place: The tool, for messages.
        names: Its injected fields.
        schema: Of the whole payload.
    """

    def __init__(self, place: str, names: Collection[str], schema: Schema) -> None:
        self._place = place
        self._names = names
        self._schema = schema

    def left_out(self, payload: dict[str, Any]) -> dict[str, Any]:
        """A payload without them, whose every other field the tool has.

        Raises:
            TypeError: the tool has no such field; type checkers do not see it here.
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
            TypeError: one of them is not injected.
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
        """Make sure that each value is one of its field's type.

        Raises:
            TypeError: names the field and the rule that it breaks, and not the value.
        """
        for name, value in filled.items():
            faults = self._validators[name].issues({name: value})
            if faults:
                where = ".".join(faults[0].field.split("/")[1:])
                wanted = faults[0].expected_type
                said = f"{faults[0].constraint}" + (f", it must be {wanted}" if wanted else "")
                raise TypeError(f"{self._place}: the value of {where} does not fit ({said})")

    @cached_property
    def _top(self) -> Schema:
        found = resolve(self._schema, self._schema.get("$ref", "")) if "$ref" in self._schema else None
        return found if isinstance(found, dict) else self._schema

    @property
    def _properties(self) -> dict[str, Any]:
        return self._top.get("properties", {})

    @cached_property
    def _validators(self) -> dict[str, Validator]:
        """One a field: the others are not there yet."""
        rest = {word: value for word, value in self._schema.items() if word == "$defs"}
        return {
            name: Validator({**rest, "type": "object", "properties": {name: self._properties[name]}})
            for name in self._names
        }
