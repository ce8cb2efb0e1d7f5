"""The declarations of authors, such as agents, toolsets, tools and the app.

The app validates them as a whole at import. The package decides whether a declaration is valid, and
names the place and the remedy of an invalid one (`DefinitionError`). It may import contracts and
the pure core, neither Temporal nor a run. Begin with `toolset.py` and `tool.py`, then `agent.py`
and `app.py`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
