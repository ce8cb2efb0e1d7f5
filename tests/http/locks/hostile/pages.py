"""Requests for what is another tenant's by every page of the console, and by every form of one."""

from tests.http.locks.hostile.world import Answer, Row, World

FORM = "application/x-www-form-urlencoded"

OF_NO_TENANT = {
    "GET /",
    "GET /sign-in",
    "GET /static/{name}",
    "POST /sign-in",
    "POST /sign-out",
}
"""Pages that say the same to every tenant."""

_READS = ("", "/live", "/inside", "/calls/call_1", "/timeline", "/transcript", "/events", "/policy", "/fork")
_FORMS = ("pause", "resume", "cancel", "retry", "fork")


def _read(route: str, path: str, status: int = 404, code: str = "run_not_found") -> Row:
    async def send(world: World) -> Answer:
        return await world.send("GET", path)

    return Row(f"GET {path}", send, status, code, f"GET {route}")


def _form(what: str) -> Row:
    async def send(world: World) -> Answer:
        headers = {"Content-Type": FORM, "Origin": world.url}
        return await world.send("POST", f"/runs/$run/{what}", body=b"reason=x&message=x", headers=headers)

    return Row(f"form {what}", send, 404, "run_not_found", f"POST /runs/{{run_id}}/{what}")


def _route(rest: str) -> str:
    return f"/runs/{{run_id}}{rest}".replace("call_1", "{call_id}")


PAGES = [
    _read("/runs", "/runs", 200, ""),
    _read("/runs", "/runs?session=$session&children=1&q=a", 200, ""),
    _read("/live/runs", "/live/runs?label=x", 422, "invalid_input"),
    *(_read(_route(rest), f"/runs/$run{rest}") for rest in _READS),
    *map(_form, _FORMS),
]
"""The rows."""
