"""Errors of Temporal's RPCs: how long an outage is bridged."""

import asyncio

from temporalio.service import RPCError, RPCStatusCode

from sojourn.connection.rpc_errors import OutageRetry


async def test_each_outage_begins_with_the_shortest_delay(monkeypatch) -> None:
    """Delays double up to two seconds; an answer ends the outage, and the next one begins anew."""
    delays: list[float] = []
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: sleep(delays.append(seconds) or 0))
    outage, away = OutageRetry(), RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
    for _ in range(7):
        assert await outage.may_retry(away)
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    outage.answered()
    assert await outage.may_retry(away)
    assert delays[-1] == 0.1
    assert not await outage.may_retry(RPCError("no such run", RPCStatusCode.NOT_FOUND, b""))
