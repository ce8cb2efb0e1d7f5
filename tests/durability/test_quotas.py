"""Quotas over four worker processes: the limits hold within 5 %."""

import asyncio
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise

from sojourn import Client, Principal, Run
from sojourn.client.quotas import read_quota_use
from sojourn.contracts.quota import QuotaUse

ACME = Principal(subject="ann", tenant="acme")
RUNS = 12
STARTS = 20


async def fleet(stage, workers: int = 4, **quota: int) -> tuple[str, list]:
    """So many workers of an app with this quota, and the app's name."""
    name = f"quotas-{uuid.uuid4().hex[:8]}"
    settings = {f"QUOTA_{key.upper()}": str(value) for key, value in quota.items()}
    return name, await asyncio.gather(
        *(stage.worker("quota_app:app", QUOTA_APP=name, **settings) for _ in range(workers))
    )


async def begin(client: Client, count: int, seconds: float) -> list[Run]:
    """Start so many runs of one tenant at once, each of which works for so long."""
    return await asyncio.gather(
        *(client.start("durable.quota", str(seconds), principal=ACME) for _ in range(count))
    )


async def spans_of(stage, runs: Iterable[Run]) -> list[tuple[datetime, datetime]]:
    """From when to when each run worked: from its place, or its start, to the end of its plan."""

    async def span(run: Run) -> tuple[datetime, datetime]:
        events = [event async for event in run.events(follow=False)]
        times = {event.type: event.time for event in events}
        return times.get("run_admitted") or times["plan_started"], times["assistant_message"]

    return list(await asyncio.gather(*map(span, runs)))


def at_work(spans: list[tuple[datetime, datetime]], until: datetime) -> tuple[int, float]:
    """The most runs at work at once, and how many they were on average until a moment."""
    moments = sorted([(began, 1) for began, _ in spans] + [(ended, -1) for _, ended in spans])
    most = count = 0
    area = timedelta(0)
    for (at, change), (after, _) in pairwise([*moments, (until, 0)]):
        count += change
        most = max(most, count)
        area += count * max(min(after, until) - at, timedelta(0))
    return most, area / (until - moments[0][0])


async def use_of(client: Client, app: str) -> QuotaUse:
    """How much of its quota the tenant uses."""
    return await read_quota_use(client.temporal, app, ACME.tenant, None)


async def test_runs_at_work_are_as_many_as_the_quota_and_never_more(stage):
    """While runs wait, at least 95 % of the places of four workers are at work, and at no moment one too many."""
    app, _ = await fleet(stage, runs=RUNS)
    runs = await begin(stage.client, 5 * RUNS, 6.0)
    outputs = await asyncio.gather(*(run.result() for run in runs))
    assert [output.text for output in outputs] == ["done"] * len(runs)
    spans = await spans_of(stage, runs)
    last_admitted = max(began for began, _ in spans)
    most, mean = at_work(spans, last_admitted)
    print(f"at work: at most {most}, on average {mean:.2f} of {RUNS}")
    assert most <= RUNS
    assert mean >= 0.95 * RUNS
    await stage.until("all places are free", lambda: is_free(stage.client, app))


async def is_free(client: Client, app: str) -> bool:
    """Whether no run has a place or waits for one."""
    use = await use_of(client, app)
    return (use.runs, use.waiting) == (0, 0)


async def test_starts_are_as_many_a_minute_as_the_quota_and_never_more(stage):
    """Any 60 seconds have at most the limit, and the minutes in which runs wait have 95 % of it."""
    await fleet(stage, starts=STARTS)
    runs = await begin(stage.client, 3 * STARTS, 0.0)
    await asyncio.gather(*(run.result() for run in runs))
    starts = sorted(began for began, _ in await spans_of(stage, runs))
    spread = [
        (after - before).total_seconds() for before, after in zip(starts, starts[STARTS:], strict=False)
    ]
    print(
        f"starts: {len(starts)} in {(starts[-1] - starts[0]).total_seconds():.1f} s, {min(spread):.1f} s apart"
    )
    assert min(spread) >= 60 * 0.95
    assert (starts[-1] - starts[0]).total_seconds() <= 2 * 60 / 0.95 + 3
