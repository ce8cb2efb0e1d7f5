"""The two base classes of contracts: tolerant records and strict inputs."""

import inspect
from collections.abc import Callable
from typing import Any, cast

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationInfo, model_validator


class Record(BaseModel):
    """What Sojourn writes and reads: frozen, and tolerant of fields that a newer version adds."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
    )

    def __init_subclass__(cls, **options: Any) -> None:
        """Use a factory for defaults such as `[]` and `Caps()`: pydantic would deep-copy them, at four times the cost."""
        super().__init_subclass__(**options)
        for name in inspect.get_annotations(cls):
            default = vars(cls).get(name)
            if default in ([], {}) or (isinstance(default, Record) and not default.model_fields_set):
                factory = cast("Callable[[], Any]", type(default))
                setattr(cls, name, Field(default_factory=factory))


class Input(Record):
    """What a person, planner or client writes: frozen, and an unknown field is an error.

    In JSON an unknown field is ignored: the input was checked when it was made, so the field comes from a
    newer version, and refusing it would fail every workflow task of an older worker during a deploy.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _tolerate_newer(cls, value: Any, info: ValidationInfo) -> Any:
        if info.mode != "json" or not isinstance(value, dict):
            return value
        fields = cast("dict[str, Any]", value)
        known = set(cls.model_fields)
        for field in cls.model_fields.values():
            if isinstance(field.validation_alias, AliasChoices):
                known.update(str(choice) for choice in field.validation_alias.choices)
        return {name: item for name, item in fields.items() if name in known}
