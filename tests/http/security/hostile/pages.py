"""Requests for what is another tenant's by every page of the console, and by every form of one."""

import asyncio
from urllib.parse import urlencode

from tests.http.security.hostile.world import PATIENCE, Answer, Row, World

FORM = "application/x-www-form-urlencoded"

OF_NO_TENANT = {
    "GET /agents/{agent_id}",
    "GET /grants",  # without a sign-in; `tests/http/test_grants.py` has those of tenants
    "GET /grants/{toolset}",
    "POST /grants/{toolset}",
    "GET /grants/{toolset}/done",
    "POST /grants/{toolset}/revoke",
    "GET /sign-in",
    "GET /start",
    "GET /static/{name}",
    "GET /talk/new",
    "POST /sign-in",
    "POST /sign-out",
}
"""Pages that say the same to every tenant."""

_READS = (
    *("", "/live", "/inside", "/folded", "/calls/call_1", "/timeline", "/transcript", "/events", "/policy"),
    *("/compare", "/fork"),
)
_ARTIFACT = "/runs/{run_id}/calls/{call_id}/artifacts/{kind}"
_FORMS = ("pause", "resume", "cancel", "retry-now", "set-aside", "retry", "fork")


def _read(route: str, path: str, status: int = 404, code: str = "run_not_found") -> Row:
    async def send(world: World) -> Answer:
        return await world.send("GET", path)

    return Row(f"GET {path}", send, status, code, f"GET {route}")


def _live(path: str) -> Row:
    """What is sent first to a page that is open."""

    async def send(world: World) -> Answer:
        headers = {"Authorization": f"Bearer {world.keys['ana']}"}
        async with asyncio.timeout(PATIENCE), world.http.stream("GET", path, headers=headers) as answer:
            text = await anext(answer.aiter_text())
            return Answer(answer.status_code, dict(answer.headers), text)

    return Row(f"GET {path}", send, 200, "", f"GET {path}")


def _form(route: str, path: str, form: dict[str, str], status: int = 404, code: str = "run_not_found") -> Row:
    async def send(world: World) -> Answer:
        headers = {"Content-Type": FORM, "Origin": world.url}
        return await world.send("POST", path, body=urlencode(world.filled(form)), headers=headers)

    return Row(f"form {path} {form}", send, status, code, f"POST {route}")


def _route(rest: str) -> str:
    return f"/runs/{{run_id}}{rest}".replace("call_1", "{call_id}")


PAGES = [
    _read("/", "/", 200, ""),
    _live("/live/home"),
    _form("/bulk", "/bulk", {"do": "cancel", "run": "$run"}, 200, ""),
    _form("/bulk/act", "/bulk/act", {"do": "cancel", "run": "$run"}, 200, ""),
    _read("/runs", "/runs", 200, ""),
    _read("/runs", "/runs?session=$session&children=1&q=a", 200, ""),
    _read("/live/runs", "/live/runs?label=x", 422, "invalid_input"),
    *(_read(_route(rest), f"/runs/$run{rest}") for rest in _READS),
    _read("/runs/{run_id}/attachments/{attachment_id}", "/runs/$ended/attachments/att_0123456789abcdef"),
    _read(_ARTIFACT, "/runs/$ended/calls/$measured/artifacts/curve"),
    _read(_ARTIFACT, "/runs/$ended/calls/$measured/artifacts/curve?as=json&at=0-000001-00000"),
    *(_form(_route(f"/{what}"), f"/runs/$run/{what}", {"reason": "x", "message": "x"}) for what in _FORMS),
    _read("/inbox", "/inbox", 200, ""),
    _read("/inbox", "/inbox?agent=shop.clerk&label=desk=x&tool=wipe", 200, ""),
    _read("/inbox/{path}", "/inbox/$run/$approval"),
    _read("/inbox/{path}", "/inbox/$asking/$question"),
    _live("/live/inbox"),
    _form("/inbox/{path}", "/inbox/$run/$approval", {"do": "approve", "digest": "$digest"}),
    _form("/inbox/{path}", "/inbox/$asking/$question", {"do": "answer", "text": "x"}),
    _read("/review", "/review?wait=$run%20$approval", 200, ""),
    _form("/review", "/review", {"wait": "$run $approval"}, 200, ""),
    _read("/decisions", "/decisions", 200, ""),
    _read("/decisions.csv", "/decisions.csv", 200, ""),
    _read("/talk", "/talk", 200, ""),
    _read("/talk", "/talk?session=$talk", 200, ""),
    _live("/live/talk"),
    _read("/talk/{agent_id}/{session_id}", "/talk/shop.clerk/$talk", 200, ""),
    _read("/live/talk/{agent_id}/{session_id}", "/live/talk/shop.clerk/$talk"),
    _form("/talk/{agent_id}/{session_id}", "/talk/shop.clerk/$talk", {"do": "stop"}),
    _form("/talk/{agent_id}/{session_id}", "/talk/shop.clerk/$talk", {"do": "close"}),
    _read("/talk/{agent_id}", "/talk/shop.clerk?session=$talk/..", 200, ""),
    _read("/live/talk/{agent_id}", "/live/talk/shop.clerk?session=$talk"),
    _form("/talk/{agent_id}", "/talk/shop.clerk?session=$talk", {"do": "close"}),
    _form("/talk/new", "/talk/new", {"agent": "shop.clerk", "session": "$chat", "text": "hello"}, 303, ""),
    _form("/start", "/start", {"agent": "shop.clerk", "made": "$key", "text": "hello"}, 303, ""),
    _read("/agents", "/agents", 200, ""),
    _read("/health-checks", "/health-checks", 200, ""),
    _live("/live/health-checks"),
]
"""The rows."""
