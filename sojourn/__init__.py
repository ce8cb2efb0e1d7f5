"""Durable runs for tool-using agents, on Temporal.

`__init__.pyi` lists the public names and the module of each. A module is loaded when one of its
names is first used, so that `import sojourn` and the command line start fast.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
