"""Sojourn: durable runs for tool-using agents, on Temporal.

The public names stand in `__init__.pyi`, with the module that each comes from. They are
loaded on first use, so that `import sojourn` costs nothing and the command line answers at once.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
