"""`python docs/console_pictures.py`: take the pictures of docs/console.md, from a real console of real runs in a real browser.

The script starts a server, a worker of the operations desk of the tests, and runs in every state that a picture needs. It needs the
machine's Chromium. `--folder` writes the pictures elsewhere.
"""

import argparse
import asyncio
import shutil
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import uvicorn
from playwright.async_api import Browser, Page, async_playwright

from sojourn import Client, Principal, Run, Worker
from sojourn.asgi import create_app
from sojourn.server import Server
from tests.console import desk_app

__all__ = ["PICTURES", "take"]

FOLDER = Path(__file__).resolve().parent / "screens"
AT_ONCE = 6
"""Pages that are open at once."""

Shot = Callable[[Page], Awaitable[Any]]


async def _nothing(_: Page) -> None:
    """Leave the page as it is."""


async def _open_failed(page: Page) -> None:
    """Open the call that failed."""
    await page.locator("#tree > .is-state-failed summary").first.click()


async def _open_alone(page: Page) -> None:
    """Go to the page of the call that failed."""
    await _open_failed(page)
    await page.locator("#tree > .is-state-failed").first.get_by_role("link", name="Open call").click()
    await page.locator(".call-title").wait_for()


async def _open_fork(page: Page) -> None:
    """Go to the form of a fork from the call that failed, with other arguments."""
    await _open_failed(page)
    await page.locator("#tree > .is-state-failed").first.get_by_role("link", name="Fork from here").click()
    await page.locator("#change-arguments").check()


async def _open_deletion(page: Page) -> None:
    """Open the approval of the inbox."""
    await page.locator("#list").get_by_text("Delete 412 work orders").click()
    await page.get_by_role("button", name="Deny").wait_for()


async def _open_agent(page: Page) -> None:
    """Open the days of the first agent."""
    await page.locator(".of-agent summary").first.click()


PICTURES: dict[str, tuple[str, int, int, str, Shot]] = {
    "console-home": ("/", 1280, 900, "light", _open_agent),
    "console-home_phone": ("/", 390, 844, "dark", _nothing),
    "console-folded": ("/runs/all-sites", 1280, 620, "light", _nothing),
    "console-compare": ("/runs/shorter/compare", 1280, 760, "light", _nothing),
    "console-runs": ("/runs", 1280, 760, "light", _nothing),
    "console-run": ("/runs/dark-site", 1280, 1080, "light", _open_failed),
    "console-waiting": ("/runs/old-orders", 1280, 620, "dark", _nothing),
    "console-timeline": ("/runs/old-orders-decided/timeline", 1280, 560, "light", _nothing),
    "console-call": ("/runs/dark-site", 1280, 760, "light", _open_alone),
    "console-transcript": ("/runs/dark-site/transcript", 1280, 620, "light", _nothing),
    "console-events": ("/runs/dark-site/events", 1280, 560, "light", _nothing),
    "console-policy": ("/runs/dark-site/policy", 1280, 620, "light", _nothing),
    "console-fork": ("/runs/dark-site", 1280, 760, "light", _open_fork),
    "console-inbox": ("/inbox", 1280, 760, "light", _open_deletion),
    "console-decisions": ("/decisions", 1280, 420, "light", _nothing),
    "console-talk": ("/talk", 1280, 420, "dark", _nothing),
    "console-conversation": ("/talk/ops.assistant/night-shift", 1280, 860, "light", _nothing),
    "console-start": ("/start?agent=ops.assistant", 1280, 760, "light", _nothing),
    "console-agents": ("/agents", 1280, 620, "light", _nothing),
    "console-agent": ("/agents/ops.assistant", 1280, 900, "light", _nothing),
    "console-health": ("/health-checks", 1280, 760, "dark", _nothing),
    "console-phone": ("/runs/dark-site", 390, 844, "dark", _nothing),
}
"""By name: the page, the width and the height of the window, the colours, and what is done on the page before."""


async def take(folder: Path) -> list[Path]:
    """Take the pictures; returns their files."""
    server = Server(port=0, ui=False, attach=False)
    async with AsyncExitStack() as stack:
        await server.start()
        stack.push_async_callback(server.stop, grace=timedelta(0))
        client = await Client.connect(server.address)
        stack.push_async_callback(client.close)
        await stack.enter_async_context(Worker(desk_app.app, client))
        desk_app.gate.clear()
        await _runs(client)
        url = await _served(stack, client)
        return await _taken(url, folder)


async def _runs(client: Client) -> None:
    """Start runs, and wait until each is as the pictures show it."""
    for run_id, text in (
        ("broken", "Break the price list"),
        ("dark-site", "Why is site s-4 dark since Sunday, and what should we do about it?"),
        ("old-orders-decided", "Delete the work orders of the year before last"),
        ("old-orders", "Delete the old work orders of s-4"),
        ("meter", "Which meter is wrong?"),
        ("fuse", "Fuse or gateway, what do you think?"),
        ("firmware", "Roll out the firmware of October to s-2"),
        ("all-sites", "Count 40 sites"),
    ):
        labels = {"desk": "3"}
        await client.start(
            "ops.assistant", text, run_id=run_id, labels=labels, principal=Principal(subject="ana")
        )
    ended = [client.get_run(run_id) for run_id in ("dark-site", "old-orders-decided")]
    await asyncio.gather(
        *(_until(client.get_run(each), "awaits") for each in ("old-orders-decided", "old-orders", "meter"))
    )
    await asyncio.sleep(4)  # on the timeline somebody was waited for
    await ended[1].approve(by="eve", reason="they are older than two years")
    await asyncio.gather(*(run.result() for run in ended), _until(client.get_run("fuse"), "child_awaits"))
    for text in ("Echo all is quiet", "Why is site s-4 dark?"):
        turn = await client.session("ops.assistant", "night-shift").send(text, by="ana")
        await turn.result()
    failed = [
        event async for event in ended[0].events(follow=False) if event.type == "tool_end" and event.error
    ]
    arguments = {"device": "d-3", "hours": 24, "unit": "kWh"}
    fork = await client.fork("dark-site", at=failed[0].event_id, arguments=arguments, new_run_id="shorter")
    await fork.result()
    for number in range(2):
        await client.schedule(
            "ops.assistant",
            "Echo the night was quiet" if number else "Which devices of s-4 are down?",
            every=timedelta(hours=3 + 21 * number),
            schedule_id=("site-report", "morning")[number],
        )
    found: set[str] = set()
    while len(found) < 10:  # the store lists a run after about a second
        found = {run.run_id async for run in client.list_runs(children=False)}


async def _until(run: Run, what: str) -> None:
    while not getattr(await run.status(), what):
        await asyncio.sleep(0.05)


async def _served(stack: AsyncExitStack, client: Client) -> str:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    stack.callback(listener.close)
    web = create_app(desk_app.app, client=client)
    server = uvicorn.Server(uvicorn.Config(web, log_level="critical", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve(sockets=[listener]))

    async def stop() -> None:
        server.should_exit = True
        await serving

    stack.push_async_callback(stop)
    while not server.started:
        await asyncio.sleep(0.02)
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


async def _taken(url: str, folder: Path) -> list[Path]:
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no Chromium on this machine: apt-get install chromium-headless-shell")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium)
        gate = asyncio.Semaphore(AT_ONCE)
        taken = await asyncio.gather(*(_take(browser, url, folder, name, gate) for name in PICTURES))
        await browser.close()
    return taken


async def _take(browser: Browser, url: str, folder: Path, name: str, gate: asyncio.Semaphore) -> Path:
    path, width, height, scheme, prepare = PICTURES[name]
    dark = scheme == "dark"
    async with gate:
        page = await browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        await page.goto(url + path)
        await page.locator("main").wait_for()
        await prepare(page)
        await page.wait_for_timeout(1_500)  # until it is live
        file = folder / f"{name}.png"
        await page.screenshot(path=file)
        await page.close()
    return file


def main() -> None:
    """Take the pictures from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for file in asyncio.run(take(folder)):
        print(f"{file.name}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
