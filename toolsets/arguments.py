"""Arguments that several tools take, described once."""

from typing import Annotated

from pydantic import Field

__all__ = ["DeviceId", "Limit", "SiteId"]

SiteId = Annotated[str, Field(description="The site, such as s-7.", min_length=1, max_length=20)]
DeviceId = Annotated[str, Field(description="The device, such as d-0700.", min_length=1, max_length=20)]
Limit = Annotated[int, Field(description="Items to return at most.", ge=1, le=500)]
