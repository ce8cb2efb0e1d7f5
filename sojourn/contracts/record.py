"""The two kinds of contract: tolerant records and strict inputs."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """What Sojourn writes and reads: frozen, tolerant of fields a newer version adds."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
    )


class Input(Record):
    """What somebody hands in: frozen, and a misspelt field is an error."""

    model_config = ConfigDict(extra="forbid")
