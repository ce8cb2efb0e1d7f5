"""`python -m bench.console`: how soon the pages of the console are there: the inbox of many waits, a long run, and a run that many look at.

Server, worker, service, viewers and a Chromium are processes of their own. The service counts what it asks of Temporal, and which parts of
pages it makes.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from playwright.async_api import Browser, async_playwright

from bench import followers, waiting
from bench.waiting import some_at_once, worker_of
from sojourn import Agent, App, AwaitClarification, Client, PlanResult, Run, RunPolicy, Turn
from sojourn.asgi import create_app
from sojourn.console import page
from sojourn.http.listening import address_of, listen
from sojourn.http.server import serve as serve_until_stopped
from sojourn.logs import configure_logs
from sojourn.server import Server
from sojourn.worker import MAX_CACHED_RUNS

__all__: list[str] = []

INBOX_GOAL = 300.0
"""Milliseconds in which a page of the inbox answers, in the middle."""

RUN_GOAL = 2_000.0
"""Milliseconds in which a long run is open in a browser, in the middle."""

PARTS = 12
"""Parts before the newest one that are opened."""

FORGOTTEN = 12.0
"""Seconds after which the service remembers nothing of a run that nobody looks at."""


async def plan(turn: Turn) -> PlanResult:
    """Ask, or make calls as the first message says."""
    if turn.messages[0].text == "ask":
        return PlanResult.ask(AwaitClarification(id="go", question="Shall I go on?"))
    return await followers.plan(turn)


policy = RunPolicy(max_tool_rounds=1_000_000, interrupts_allowed=True)
app = App(agents=[Agent("bench.agent", planner=plan, uses=[followers.tools], policy=policy)])


# The service, and what it counts.

POLLS = "polls at once"
"""The most polls that were open at the same time."""


def counted(client: Client) -> Counter[str]:
    """Count the requests of a client to Temporal; `poll` is one that waits for new events of a history, `history` one that does not."""
    counts: Counter[str] = Counter()
    service: Any = client.temporal.service_client
    call = service._rpc_call  # noqa: SLF001 - the one place that every request passes

    polls = 0

    async def counting(**asked: Any) -> Any:
        nonlocal polls
        rpc: str = asked["rpc"]
        is_poll = getattr(asked["req"], "wait_new_event", False)
        if rpc == "get_workflow_execution_history":
            rpc = "poll" if is_poll else "history"
        counts[rpc] += 1
        polls += is_poll
        counts[POLLS] = max(counts[POLLS], polls)
        try:
            return await call(**asked)
        finally:
            polls -= is_poll

    service._rpc_call = counting  # noqa: SLF001
    render: Callable[..., str] = page.render

    def rendering(name: str, **values: Any) -> str:
        counts[name] += 1
        return render(name, **values)

    page.render = rendering
    return counts


async def show(address: str) -> None:
    """Serve the pages until the process is stopped; for each line of standard input, print what was counted since the last."""
    configure_logs()
    client = await Client.connect(address)
    counts = counted(client)

    async def tell() -> None:
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(counts), flush=True)
            counts.clear()

    telling = asyncio.create_task(tell())
    with listen("127.0.0.1", 0) as listener:
        at = address_of(listener)
        await serve_until_stopped(
            create_app(app, client=client), listener, announce=lambda: print(at, flush=True)
        )
    await telling


class Pages:
    """The service of the pages."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self.url = url

    async def counts(self) -> Counter[str]:
        """What it has counted since it was asked last."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(b"\n")
        return Counter(json.loads(await self._process.stdout.readline()))


@asynccontextmanager
async def pages_of(address: str) -> AsyncGenerator[Pages]:
    """A service of the pages as a process, which remembers nothing at first."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.console", "--pages", address,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin
    assert process.stdout
    try:
        yield Pages(process, (await process.stdout.readline()).decode().strip())
    finally:
        process.stdin.close()
        process.terminate()
        await process.wait()


# What is measured.


def say(what: str, *, holds: bool | None = None) -> None:
    """Print a figure, and whether its goal is reached."""
    verdict = {True: "holds     ", False: "DOES NOT  ", None: "          "}[holds]
    print(f"{verdict}{what}   [load {os.getloadavg()[0]:.1f}]", flush=True)


async def timed(http: httpx2.AsyncClient, path: str) -> tuple[float, str]:
    """Milliseconds of an answer, and its text."""
    began = time.perf_counter()
    answer = await http.get(path)
    assert answer.status_code == 200, answer.text
    return 1000 * (time.perf_counter() - began), answer.text


async def inbox(client: Client, address: str, waits: int, looks: int) -> None:
    """The inbox of many waits: its first page after a start, its pages later, and beside them a bare query."""
    began = time.perf_counter()
    await some_at_once(client.start("bench.agent", "ask") for _ in range(waits))
    await waiting.until_waiting(client, waits)
    say(f"{waits} runs wait, after {time.perf_counter() - began:.0f} s")
    query = "WorkflowType = 'AgentRun' AND SojournAwaiting = 'go' AND ExecutionStatus = 'Running'"
    async with pages_of(address) as pages, httpx2.AsyncClient(base_url=pages.url, timeout=120) as http:
        first, text = await timed(http, "/inbox")
        rows = text.count('<li id="wait-')
        say(f"inbox, first page after a start: {first:.0f} ms, with {rows} waits")
        began = time.perf_counter()
        while "runs are loading" in text:
            await asyncio.sleep(0.2)
            _, text = await timed(http, "/inbox")
        say(f"inbox, all runs read {time.perf_counter() - began + first / 1000:.1f} s after the start")
        await pages.counts()
        page_times: list[float] = []
        bare_times: list[float] = []
        for _ in range(looks):
            began = time.perf_counter()
            found = [each async for each in client.temporal.list_workflows(query, page_size=1_000)]
            bare_times.append(1000 * (time.perf_counter() - began))
            assert len(found) >= waits
            took, text = await timed(http, "/inbox")
            page_times.append(took)
            await asyncio.sleep(0.5)  # a person looks, and looks again
        assert f"<b>{waits:,}</b> open" in text, text
        counts = await pages.counts()
        assert not counts.get("history"), "the looks began before all runs were read"
        middle = statistics.median(page_times)
        slow = statistics.quantiles(page_times, n=20)[-1]
        say(
            f"inbox of {waits} waits: {middle:.0f} ms at the median, {slow:.0f} at the 95th of 100 (goal {INBOX_GOAL:.0f}); "
            f"a bare query of the waiting runs {statistics.median(bare_times):.0f} ms",
            holds=middle <= INBOX_GOAL,
        )
        asked = {name: round(count / looks, 1) for name, count in counts.items() if "." not in name}
        say(f"inbox, asked of Temporal for each page: {asked}")


async def opened(browser: Browser, url: str) -> dict[str, float]:
    """What a browser that knows nothing of the site takes to open a page, in milliseconds, and how much there is."""
    context = await browser.new_context(viewport={"width": 1600, "height": 1000})
    tab = await context.new_page()
    await tab.goto(url, wait_until="load")
    found: dict[str, float] = await tab.evaluate(
        """() => {
            const [visit] = performance.getEntriesByType("navigation");
            return {
                answer: visit.responseEnd - visit.requestStart, load: visit.loadEventStart,
                bytes: visit.decodedBodySize, nodes: document.getElementsByTagName("*").length,
                entries: document.querySelectorAll("#tree > .entry").length,
            };
        }"""
    )
    await context.close()
    return found


async def long_run(client: Client, address: str, browser: Browser, calls: int, looks: int) -> None:
    """A run of many calls, which is opened."""
    began = time.perf_counter()
    run = await client.start("bench.agent", f"echo {calls}")
    await run.result()
    say(f"a run of {calls} calls took {time.perf_counter() - began:.0f} s")
    await long_page(run.id, address, browser, calls, looks)


async def long_page(run_id: str, address: str, browser: Browser, calls: int, looks: int) -> None:
    """The page of a long run: opened by a service that knows nothing of it, opened again, and its parts from the last to the first."""
    cold: list[dict[str, float]] = []
    asked: Counter[str] = Counter()
    async with pages_of(address) as pages:
        await opened(browser, f"{pages.url}/agents")
        for look in range(looks):
            await pages.counts()
            cold.append(await opened(browser, f"{pages.url}/runs/{run_id}"))
            asked = await pages.counts()
            if look < looks - 1:
                await asyncio.sleep(FORGOTTEN)
        warm = [await opened(browser, f"{pages.url}/runs/{run_id}") for _ in range(looks)]
        load, answer = (statistics.median(each[name] for each in cold) for name in ("load", "answer"))
        say(
            f"a run of {calls} calls opens in {load:.0f} ms at the median, {max(each['load'] for each in cold):.0f} at most "
            f"(goal {RUN_GOAL:.0f}), of which the answer takes {answer:.0f}; again {statistics.median(each['load'] for each in warm):.0f} ms",
            holds=load <= RUN_GOAL,
        )
        say(
            f"its page has {cold[-1]['entries']} entries, {cold[-1]['nodes']} elements, {cold[-1]['bytes'] / 1000:.0f} kB; "
            f"asked of Temporal: { ({name: count for name, count in asked.items() if '.' not in name}) }"
        )
        await scrolled(browser, f"{pages.url}/runs/{run_id}", PARTS)


async def scrolled(browser: Browser, url: str, parts: int) -> None:
    """Follow the link to the earlier part again and again, and say how long each took."""
    context = await browser.new_context()
    tab = await context.new_page()
    await tab.goto(url)
    took: list[float] = []
    most = entries = 0
    while True:
        entries += await tab.locator("#tree > .entry").count()
        most = max(most, await tab.evaluate("document.getElementsByTagName('*').length"))
        link = tab.locator("#earlier a")
        if len(took) == parts or not await link.count():
            break
        began = time.perf_counter()
        await tab.goto(str(await link.evaluate("link => link.href")))
        took.append(1000 * (time.perf_counter() - began))
    await context.close()
    if took:
        say(
            f"the {len(took)} parts before open in {statistics.median(took):.0f} ms at the median, {max(took):.0f} at most; "
            f"together they have {entries} entries, a page has at most {most} elements",
            holds=statistics.median(took) <= RUN_GOAL,
        )


async def viewer(url: str, run_id: str, mark: str, seen: list[int]) -> None:
    """Look at a run to its end, as its page does."""
    async with (
        httpx2.AsyncClient(base_url=url, timeout=300) as http,
        http.stream("GET", f"/runs/{run_id}/live", params={"since": mark}) as answer,
    ):
        parts = 0
        async for line in answer.aiter_lines():
            parts += line.count("<hx-partial")
            if line == "event: ended":
                seen.append(parts)


async def looked_at(
    client: Client, address: str, count: int, calls: int
) -> tuple[Counter[str], Counter[str]]:
    """What it costs that so many look at one run to its end: what is asked of Temporal, and which parts are made."""
    async with pages_of(address) as pages:
        run: Run = await client.start("bench.agent", f"rest {calls}")
        async with httpx2.AsyncClient(base_url=pages.url, timeout=60) as http:
            _, text = await timed(http, f"/runs/{run.id}")
        mark = text.partition("live?since=")[2].partition('"')[0]
        await pages.counts()
        seen: list[int] = []
        await asyncio.gather(*(viewer(pages.url, run.id, mark, seen) for _ in range(count)))
        counts = await pages.counts()
    assert len(seen) == count, "each gets the end"
    asked, made = (
        Counter({name: each for name, each in sorted(counts.items()) if ("." in name) == is_part})
        for is_part in (False, True)
    )
    say(
        f"{count} viewers of a run of {calls} calls: {min(seen)} to {max(seen)} parts to each; asked of Temporal {dict(asked)}; "
        f"made {dict(made)}"
    )
    return asked, made


async def viewers(client: Client, address: str, count: int, calls: int) -> None:
    """Many who look at one run at once, beside one."""
    _, alone = await looked_at(client, address, 1, calls)
    asked, made = await looked_at(client, address, count, calls)
    say(f"{count} viewers of one run: {asked[POLLS]} poll of its history at a time", holds=asked[POLLS] == 1)
    # More versions of the head may be seen by many than by one, which looks three times a second.
    say(
        f"{count} viewers of one run: {made.total()} parts made, {alone.total()} for one viewer",
        holds=made.total() <= 2 * alone.total(),
    )


async def main(options: argparse.Namespace) -> None:
    """Measure, and say of each goal whether it is reached."""
    async with (
        Server(attach=False, port=0, ui=False) as server,
        worker_of(server.address, MAX_CACHED_RUNS, "bench.console"),
        async_playwright() as playwright,
    ):
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium")
        )
        client = await Client.connect(server.address)
        if options.viewers:
            await viewers(client, server.address, options.viewers, options.live)
        if options.calls:
            await long_run(client, server.address, browser, options.calls, options.opened)
        if options.waits:
            await inbox(client, server.address, options.waits, options.looks)
        await browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.console")
    parser.add_argument("--waits", type=int, default=1_000, help="open waits of the inbox; 0 leaves it out")
    parser.add_argument("--looks", type=int, default=40, help="how often the inbox is looked at")
    parser.add_argument("--calls", type=int, default=10_240, help="calls of the long run; 0 leaves it out")
    parser.add_argument("--opened", type=int, default=5, help="how often it is opened")
    parser.add_argument("--viewers", type=int, default=200, help="viewers of one run; 0 leaves them out")
    parser.add_argument("--live", type=int, default=10, help="calls of the run that they look at")
    parser.add_argument("--caches", type=int, nargs="+", default=[MAX_CACHED_RUNS], help=argparse.SUPPRESS)
    parser.add_argument("--serve", metavar="ADDRESS", help=argparse.SUPPRESS)
    parser.add_argument("--pages", metavar="ADDRESS", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        if chosen.serve:
            asyncio.run(waiting.serve(chosen.serve, chosen.caches[0], app))
        elif chosen.pages:
            asyncio.run(show(chosen.pages))
        else:
            asyncio.run(main(chosen))
