"""Requests by which another process controls a stand-in.

POST /admin/script      replaces the script, by JSON as for `tasks.load`
POST /admin/release     continues the answers on hold
GET  /admin/state       requests (protocol, headers, body, end, seconds), in_flight, most_in_flight, errors
"""

import json
from typing import TYPE_CHECKING, Any

from tests.models.standin import tasks

if TYPE_CHECKING:
    from tests.models.standin.server import Standin


def administer(standin: "Standin", path: str, content: bytes) -> tuple[int, dict[str, Any]]:
    """Carry out a request, and return the status and the body of the response."""
    match path:
        case "/admin/script":
            standin.script = tasks.load(json.loads(content))
            return 200, {}
        case "/admin/release":
            standin.release()
            return 200, {}
        case "/admin/state":
            return 200, state_of(standin)
        case _:
            return 404, {"error": {"message": f"Nothing here: {path}"}}


def state_of(standin: "Standin") -> dict[str, Any]:
    """Return the state of a stand-in as JSON."""
    requests = [
        {
            "protocol": request.protocol,
            "headers": request.headers,
            "body": request.body,
            "end": request.end,
            "arrived_at": request.arrived_at,
            "ended_at": request.ended_at,
        }
        for request in standin.requests
    ]
    return {
        "requests": requests,
        "in_flight": standin.in_flight,
        "most_in_flight": standin.most_in_flight,
        "errors": [repr(error) for error in standin.errors],
    }
