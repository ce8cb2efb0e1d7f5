"""The HTTP service, for programs that are not in Python.

It serves runs, answers, waits and conversations. The package decides how a request becomes a call
of the client, and how an answer or error becomes JSON. It holds no state that another process would
not find in Temporal. It may import FastAPI, the client, the events and the app's declarations, but
no worker.

Begin at `app.py`, then `routes/runs.py`, `event_streams.py` for streams, and
`security/middleware.py` for authentication.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.http.security.audit import AuditFile as AuditFile
    from sojourn.http.security.keys import ApiKeys as ApiKeys
    from sojourn.http.security.middleware import SecurityMiddleware as SecurityMiddleware
    from sojourn.http.security.middleware import SecuritySettings as SecuritySettings
    from sojourn.http.security.oidc import Oidc as Oidc
    from sojourn.http.security.principals import Asking as Asking
    from sojourn.http.security.principals import Auth as Auth
    from sojourn.http.security.principals import FirstOf as FirstOf

__all__ = [
    "ApiKeys",
    "Asking",
    "AuditFile",
    "Auth",
    "FirstOf",
    "Oidc",
    "SecurityMiddleware",
    "SecuritySettings",
]

_PLACES = {
    "ApiKeys": "sojourn.http.security.keys",
    "Asking": "sojourn.http.security.principals",
    "AuditFile": "sojourn.http.security.audit",
    "Auth": "sojourn.http.security.principals",
    "FirstOf": "sojourn.http.security.principals",
    "Oidc": "sojourn.http.security.oidc",
    "SecurityMiddleware": "sojourn.http.security.middleware",
    "SecuritySettings": "sojourn.http.security.middleware",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use.

    FastAPI takes half a second to import.
    """
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"No {__name__} attribute {name}")
