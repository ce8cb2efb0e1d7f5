"""docs/security.md: its commands and examples work, and its table names what the security middleware answers."""

import re
import shlex
from pathlib import Path

import httpx2
import pytest

from sojourn import Principal
from sojourn.http.security import disconnect
from sojourn.http.security.middleware import SecuritySettings
from sojourn.http.security.principals import AuthAgain, FirstOf
from tests.cli.conftest import command, start_command
from tests.http.security.conftest import serve_web

__all__ = ["command", "serve_web", "start_command"]  # fixtures

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()


async def _until_closed(site: httpx2.AsyncClient, sessions: dict[str, Principal]) -> None:
    """Read a stream of the session `s-1`, which is closed meanwhile."""
    async with site.stream("GET", "/events", headers={"Cookie": "session=s-1"}) as answer:
        async for _ in answer.aiter_lines():
            sessions.pop("s-1", None)


async def test_the_examples_lock_a_service(blocks, command, tmp_path, serve_web, monkeypatch):
    """A key of the page's commands opens the page's service until it is rotated and revoked; the examples make what they say."""
    scope: dict = {}
    for block in blocks("security.md"):
        exec(block, scope)
    assert [scope["app"].visibility_of(each) for each in ("desk.clerk", "desk.news")] == ["subject", "tenant"]
    lines = [shlex.split(line)[1:] for line in re.findall(r"^sojourn keys .*$", PAGE, re.MULTILINE)]
    create, list_, revoke, rotate, _, older = lines
    key = (await command(*create, cwd=tmp_path)).out.splitlines()[-1]
    auth = scope["people_and_programs"]("https://issuer.example", tmp_path / "keys.json")
    assert isinstance(auth, FirstOf)
    client = await serve_web(scope["own_service"](auth))
    headers = {"Authorization": f"Bearer {key}", "Host": "agents.example.org"}
    assert (await client.get("/me", headers=headers)).json() == "ana"
    assert (await client.get("/me", headers={**headers, "Host": "other.example"})).status_code == 421
    assert "ana" in (await command(*list_, cwd=tmp_path)).out
    new = (await command(*rotate, cwd=tmp_path)).out.splitlines()[-1]
    others = {**headers, "Authorization": f"Bearer {new}"}
    assert [(await client.get("/me", headers=each)).json() for each in (headers, others)] == ["ana"] * 2
    await command(*older, cwd=tmp_path)
    assert (await client.get("/me", headers=headers)).status_code == 401
    assert (await client.get("/me", headers=others)).json() == "ana"
    await command(*revoke, cwd=tmp_path)
    assert (await client.get("/me", headers=others)).status_code == 401
    behind = await serve_web(auth=scope["by_proxy"])
    assert (await behind.get("/who", headers={"X-Verified-User": "bo"})).json()["subject"] == "bo"
    assert (await behind.get("/who")).status_code == 401
    sessions = {"s-1": Principal(subject="cy", roles=["user"])}
    by_session = scope["BySession"](sessions)
    assert isinstance(by_session, AuthAgain)
    monkeypatch.setattr(disconnect, "RECHECK", 0.1)
    site = await serve_web(auth=by_session)
    with pytest.raises(httpx2.RemoteProtocolError):
        await _until_closed(site, sessions)


def test_the_codes_and_limits_are_those_of_the_middleware():
    """Each code that the middleware refuses with is on the page, and each limit is the default of its setting."""
    files = (ROOT / "sojourn" / "http" / "security").glob("*.py")
    sources = [re.sub(r"__all__ = \[.*?\]", "", path.read_text(), flags=re.DOTALL) for path in files]
    codes = {
        code for text in sources for code in re.findall(r'^\s+"([a-z0-9]+_[a-z0-9_]+)",$', text, re.MULTILINE)
    }
    assert {"local_only", "unknown_host", "foreign_origin", "slow_body"} <= codes
    table = PAGE.split("## What no request may")[1].split("The limits are")[0]
    named = set(re.findall(r"`([a-z0-9]+_[a-z0-9_]+)`", table))
    assert named <= {code for text in sources for code in re.findall(r'"([a-z0-9_]+)"', text)}
    assert codes - named <= {"issuer_unavailable", "bad_host", "bad_request"}
    defaults = SecuritySettings()
    for said in (
        f"{defaults.requests:g} a second",
        f"{defaults.burst} at once",
        f"{defaults.streams + 1}st open stream",
        f"{defaults.max_body_bytes // 1_000_000} MB",
        f"{defaults.max_depth} levels",
        f"{defaults.body_seconds:g} s",
    ):
        assert said in table


def test_the_roles_are_those_of_principals():
    """The table has every role, and no other."""
    from sojourn.contracts.principal import ROLES

    table = PAGE.split("## Roles")[1].split("## Tenants")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == tuple(ROLES)
    assert Principal(subject="x").roles == []
