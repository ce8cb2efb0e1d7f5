"""HTTP: an ASGI application over the client, by which programs in any language start, follow and answer runs.

The package decides how a request becomes a call of the client and an answer or error of it becomes JSON; it holds nothing that
another process would not find in Temporal, and may import FastAPI, the client, the events and the app's declarations, but no
worker. Begin at `app.py`, then `routes/runs.py`, and `hub.py` for streams.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.http.app import create_app as create_app

__all__ = ["create_app"]


def __getattr__(name: str) -> Any:
    """Load what is asked for: FastAPI takes half a second to import."""
    if name == "create_app":
        from sojourn.http.app import create_app  # noqa: PLC0415

        return create_app
    raise AttributeError(f"No {__name__} attribute {name}")
