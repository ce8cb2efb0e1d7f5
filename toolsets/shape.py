"""Shapes of payloads and results: frozen, each field's docstring is its schema description."""

from pydantic import BaseModel, ConfigDict, NonNegativeInt

__all__ = ["BoundedShape", "Shape"]


class Shape(BaseModel):
    """A payload or a result of these toolsets."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class BoundedShape(Shape):
    """A result that may be a part of what there is (SR-32)."""

    returned: NonNegativeInt
    """Items in this result."""
    total: NonNegativeInt | None = None
    """Items there are."""
    truncated: bool = False
    """Whether items were left out."""
    refinement_hint: str | None = None
    """How to ask for less, or for the rest."""
