"""Start runs, follow them, answer their questions, and end them.

Programs outside a run use this package. It decides how a caller reaches the server and which error
a failed RPC becomes. It may import the events and the Temporal SDK's client, no planner and no
tool. Begin with `client.py` and `run.py`. `sojourn.connection` makes the connection.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
