"""Shapes of payloads and results: frozen models, whose field docstrings are schema descriptions."""

from pydantic import BaseModel, ConfigDict, NonNegativeInt

__all__ = ["BoundedShape", "Shape"]


class Shape(BaseModel):
    """A payload or a result of these toolsets."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class BoundedShape(Shape):
    """A result that can be a part of all items (SR-32)."""

    returned: NonNegativeInt
    """Items in this result."""
    total: NonNegativeInt | None = None
    """Items in all; null if unknown."""
    truncated: bool = False
    """Whether items were left out."""
    refinement_hint: str | None = None
    """How to ask for fewer items, or for the rest."""
