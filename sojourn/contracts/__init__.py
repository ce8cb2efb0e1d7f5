"""The frozen records that cross a durable boundary.

Records that only Sojourn writes derive from `Record`: they ignore unknown fields, because during a deploy an
old and a new worker share a queue. Records that a person, a planner or a client writes derive from `Input`.
On the wire, defaults are left out, so a default here never changes (a test holds them).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
