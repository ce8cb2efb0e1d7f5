"""The HTTP service: runs, answers, waits and conversations for programs that are not in Python.

The package decides how a request becomes a call of the client and an answer or error of it becomes JSON; it holds nothing that
another process would not find in Temporal, and may import FastAPI, the client, the events and the app's declarations, but no
worker. Begin at `app.py`, then `routes/runs.py`, `hub.py` for streams, and `locks/locked.py` for who asks.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.http.app import create_app as create_app
    from sojourn.http.locks.keys import ApiKeys as ApiKeys
    from sojourn.http.locks.locked import Locked as Locked
    from sojourn.http.locks.locked import Locks as Locks
    from sojourn.http.locks.oidc import Oidc as Oidc
    from sojourn.http.locks.principals import Asking as Asking
    from sojourn.http.locks.principals import Auth as Auth
    from sojourn.http.locks.principals import FirstOf as FirstOf

__all__ = ["ApiKeys", "Asking", "Auth", "FirstOf", "Locked", "Locks", "Oidc", "create_app"]

_PLACES = {
    "ApiKeys": "sojourn.http.locks.keys",
    "Asking": "sojourn.http.locks.principals",
    "Auth": "sojourn.http.locks.principals",
    "FirstOf": "sojourn.http.locks.principals",
    "Locked": "sojourn.http.locks.locked",
    "Locks": "sojourn.http.locks.locked",
    "Oidc": "sojourn.http.locks.oidc",
    "create_app": "sojourn.http.app",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for: FastAPI takes half a second to import."""
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"No {__name__} attribute {name}")
