"""Errors of Temporal's RPCs: which error of Sojourn they are, and how long an outage is bridged."""

import asyncio

from temporalio.service import RPCError, RPCStatusCode

from sojourn.connection.rpc_errors import OutageRetry, translate_error
from sojourn.errors import InvalidInput, ServerUnavailable


async def test_each_outage_begins_with_the_shortest_delay(monkeypatch) -> None:
    """Delays double up to two seconds; an answer ends the outage, and the next one begins anew."""
    delays: list[float] = []
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: sleep(delays.append(seconds) or 0))
    outage, away = OutageRetry(), RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
    for _ in range(7):
        assert await outage.may_retry(away)
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    outage.end_outage()
    assert await outage.may_retry(away)
    assert delays[-1] == 0.1
    assert not await outage.may_retry(RPCError("no such run", RPCStatusCode.NOT_FOUND, b""))


def test_a_request_that_is_too_large_is_the_callers_mistake() -> None:
    """The server refuses it with the status of a busy server, and another attempt would not help."""
    busy = RPCStatusCode.RESOURCE_EXHAUSTED
    too_large = RPCError("grpc: received message larger than max (10000084 vs. 4194304)", busy, b"")
    assert type(translate_error(too_large, "r")) is InvalidInput
    assert (
        type(translate_error(RPCError("namespace rate limit exceeded", busy, b""), "r")) is ServerUnavailable
    )
