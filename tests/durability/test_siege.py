"""One tenant works while hostile clients, with the keys of another tenant and without any, do to its service what they can.

`SOJOURN_CASES=2000 pytest -s tests/durability/test_siege.py` sends as many hostile requests, and prints the figures: the memory of the service, and
how long the requests of the tenant that works took, before and meanwhile.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import psutil
import pytest

from sojourn.http.security.keys import create_key
from sojourn.network import http_client
from sojourn.server.ports import pick

from .stage import Stage
from .until import until

pytestmark = pytest.mark.timeout(3600)

APP = "siege_app:app"

CASES = int(os.environ.get("SOJOURN_CASES", "60"))
"""Hostile requests."""

STEPS = 24 if CASES >= 1_000 else 3
"""Steps of the run that they read, of half a megabyte each."""

QUIET = 200 if CASES >= 1_000 else 20
"""Requests of the other tenant before the first hostile one, and after the last."""

PAUSE = 0.2
"""Seconds between the runs of the other tenant, so that it stays below what one principal may ask."""

MOST_MEMORY = 1_000_000_000
"""Bytes that the service may have, as docs/deploy.md says."""

BOMB = "[" * 100_000
"""A text that Markdown reads in the square of its length."""


class Tenant:
    """The tenant that works: it starts runs, waits for them, reads and lists them."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self.seconds = list[float]()
        """Of each request that does not wait."""
        self.failed = list[str]()

    async def work(self) -> None:
        """One run, from its start to its events."""
        body = {"agent_id": "siege.echo", "input": "hello"}
        started = await self._timed("POST", "/v1/runs", json=body)
        if started is None:
            return
        run_id = started["run_id"]
        output = await self._asked("GET", f"/v1/runs/{run_id}/output", params={"wait": 60})
        if output is not None and output["output"]["text"] != "hello":
            self.failed.append(f"another answer: {output}")
        await self._timed("GET", f"/v1/runs/{run_id}")
        await self._timed("GET", f"/v1/runs/{run_id}/events")
        await self._timed("GET", "/v1/runs?limit=20")
        await asyncio.sleep(PAUSE)

    async def _timed(self, method: str, path: str, **options):
        begin = time.monotonic()
        found = await self._asked(method, path, **options)
        self.seconds.append(time.monotonic() - begin)
        return found

    async def _asked(self, method: str, path: str, **options):
        answer = await self._http.request(method, path, **options)
        if answer.status_code not in (200, 201):
            self.failed.append(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
            return None
        return answer.json()


def p95(seconds: list[float]) -> float:
    """The time that 19 of 20 did not exceed, in milliseconds."""
    return sorted(seconds)[len(seconds) * 19 // 20] * 1_000


@asynccontextmanager
async def siege(told: dict) -> AsyncGenerator[asyncio.subprocess.Process]:
    """The hostile clients during the body, as a program of their own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.durability.siege", json.dumps(told)),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_tenant_works_while_others_are_hostile(stage: Stage, tmp_path):
    """Each of its requests is answered as it should be, no request of anybody is answered with 500, and the memory stays bounded."""
    keys = tmp_path / "keys.json"
    hostile = [
        create_key(keys, f"eve-{n}", tenant="eve", roles=["viewer", "user", "operator"])[1] for n in range(4)
    ]
    _, ben = create_key(keys, "ben", tenant="ben", roles=["viewer", "user"])
    port = pick(0, 0)
    url = f"http://127.0.0.1:{port}"
    await stage.worker(APP)
    service = await stage.service(APP, port, "--keys", str(keys))
    process = psutil.Process(service.pid)
    begin = most = process.memory_info().rss

    def bearer(key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    async with (
        http_client(base_url=url, timeout=120) as http,
        http_client(base_url=url, timeout=120, headers=bearer(ben)) as his,
    ):
        tenant = Tenant(his)
        run_id = (
            await http.post(
                "/v1/runs", json={"agent_id": "siege.much", "input": str(STEPS)}, headers=bearer(hostile[0])
            )
        ).json()["run_id"]
        for text in ("ask", BOMB):
            path = f"/v1/sessions/siege.echo/{'bomb' if text == BOMB else 'ask'}/messages"
            sent = await http.post(path, json={"text": text}, headers=bearer(hostile[0]))
            assert sent.status_code in (200, 201, 202), sent.text

        async def is_full() -> bool:
            answer = await http.get(f"/v1/runs/{run_id}", headers=bearer(hostile[0]))
            return answer.json()["status"] == "completed"

        await until("the run has much in it", is_full)
        while len(tenant.seconds) < QUIET:
            await tenant.work()
        quiet, tenant.seconds = tenant.seconds, []
        told = {"port": port, "cases": CASES, "keys": hostile, "run_id": run_id, "session": "bomb"}
        async with siege(told) as clients:
            assert clients.stdout is not None
            printing = asyncio.create_task(clients.stdout.read())
            while not printing.done():
                await tenant.work()
                most = max(most, process.memory_info().rss)
            found: dict[str, int] = json.loads(printing.result())
        fire, tenant.seconds = tenant.seconds, []
        while len(tenant.seconds) < QUIET:
            await tenant.work()
    statuses = dict(sorted(found.items()))
    end = process.memory_info().rss
    print(
        f"\n{CASES} hostile requests; memory {begin / 1e6:.0f} MB, at most {most / 1e6:.0f} MB, then {end / 1e6:.0f} MB; "
        f"p95 of {len(quiet)} requests of the other tenant {p95(quiet):.0f} ms, of {len(fire)} under fire {p95(fire):.0f} ms, "
        f"of {len(tenant.seconds)} afterwards {p95(tenant.seconds):.0f} ms: if that is not as before, others used the machine\n"
        + "\n".join(f"  {name}: {count}" for name, count in statuses.items())
    )
    assert tenant.failed == []
    assert [name for name in statuses if name.endswith(" 500")] == []
    assert sum(statuses.values()) == CASES
    assert most < MOST_MEMORY
    assert "Traceback" not in service.log()
