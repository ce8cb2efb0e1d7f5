"""Describe pydantic's refusal of a declaration in one sentence, without the value."""

from collections.abc import Generator
from contextlib import contextmanager

from pydantic import ValidationError
from pydantic.errors import PydanticErrorMixin

from sojourn.contracts.record import faults_of
from sojourn.errors import DefinitionError

__all__ = ["declaration_fault", "declared_at"]


@contextmanager
def declared_at(place: str) -> Generator[None]:
    """Raise what pydantic refuses in this block as a `DefinitionError` of the place."""
    try:
        yield
    except ValidationError as error:
        raise DefinitionError(f"{place}: {faults_of(error)}") from error


def declaration_fault(error: BaseException) -> str | None:
    """Return what pydantic refuses, after the class that refuses it.

    None for an exception of another library.
    """
    if isinstance(error, ValidationError):
        return f"{error.title}: {faults_of(error)}"
    if isinstance(error, PydanticErrorMixin):
        return " ".join(error.message.split())
    return None
