"""Shapes and arguments that several toolsets have: frozen models, described once."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

__all__ = ["BoundedShape", "DeviceId", "Limit", "Shape", "SiteId"]

SiteId = Annotated[str, Field(description="The site, such as s-7.", min_length=1, max_length=20)]
DeviceId = Annotated[str, Field(description="The device, such as d-0700.", min_length=1, max_length=20)]
Limit = Annotated[int, Field(description="Items to return at most.", ge=1, le=500)]


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
