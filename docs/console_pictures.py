"""`python docs/console_pictures.py`: take the pictures of docs/console.md, from a real console of real runs in a real browser.

The script starts a server, a worker of the operations desk of the tests, and runs in every state that a picture needs. It needs the
machine's Chromium. `--folder` writes the pictures elsewhere. `--every` takes each page of the console at three sizes, light and dark,
into build/pictures, and names what axe finds on them; with names, it takes those pages only.
"""

import argparse
import asyncio
import shutil
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvicorn
from playwright.async_api import Browser, Error, Page, async_playwright

from sojourn import App, Client, Principal, Run, RunPolicyOverride, Worker
from sojourn.asgi import create_app
from sojourn.server import Server
from tests.console import desk_app, office
from tests.console.axe import violations
from tests.console.conftest import SIZES, resize

__all__ = ["EVERY", "PICTURES", "take", "take_every"]

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "screens"
EVERY_FOLDER = ROOT / "build" / "pictures"
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
    await page.locator("#list .what", has_text="Delete 412 work orders").click()
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


async def _choose_two(page: Page) -> None:
    """Open two approvals of the inbox together."""
    for each in ("refund-1", "refund-2"):
        await page.locator(f"[id^='wait-{each}-'] [type=checkbox]").check()
    await page.get_by_role("button", name="Review the chosen approvals").click()
    await page.get_by_role("heading", name="Review 2 approvals").wait_for()


async def _cancel_all(page: Page) -> None:
    """Go to the page that names the runs to cancel."""
    await page.get_by_text("Cancel or retry several").click()
    await page.get_by_role("button", name="Cancel all that match").click()
    await page.get_by_role("heading", name="Cancel").wait_for()


async def _add_rows(page: Page) -> None:
    """Add a row to a nested form."""
    await page.get_by_role("button", name="Add a row").first.click()


async def _edit_arguments(page: Page) -> None:
    """Open the form of a call's arguments."""
    await page.get_by_text("Edit the arguments").click()


async def _edit_message(page: Page) -> None:
    """Open the form that edits the last message."""
    await page.locator(".edit summary").last.click()


async def _unfold(page: Page) -> None:
    """Open what is folded, but no menu."""
    await page.evaluate(
        "for (const each of document.querySelectorAll('details:not(.menu)')) each.open = true"
    )


EVERY: dict[str, tuple[str, Shot]] = {
    "home": ("/", _open_agent),
    "runs": ("/runs", _unfold),
    "runs_none": ("/runs?q=nothing+like+this", _nothing),
    "runs_cost": ("/runs?sort=cost", _nothing),
    "bulk": ("/runs?status=running", _cancel_all),
    "run": ("/runs/dark-site", _unfold),
    "run_failed": ("/runs/broken", _nothing),
    "run_gave_up": ("/runs/short", _nothing),
    "run_stuck": ("/runs/lonely", _nothing),
    "run_asks": ("/runs/old-orders", _nothing),
    "run_child_asks": ("/runs/fuse", _unfold),
    "run_in_progress": ("/runs/firmware", _unfold),
    "run_folded": ("/runs/all-sites", _unfold),
    "call": ("/runs/dark-site", _open_alone),
    "timeline": ("/runs/old-orders-decided/timeline", _nothing),
    "transcript": ("/runs/dark-site/transcript", _nothing),
    "events": ("/runs/dark-site/events", _nothing),
    "policy": ("/runs/dark-site/policy", _nothing),
    "fork": ("/runs/dark-site/fork", _nothing),
    "fork_call": ("/runs/dark-site", _open_fork),
    "compare": ("/runs/shorter/compare", _unfold),
    "inbox": ("/inbox", _nothing),
    "inbox_approval": ("/inbox", _open_deletion),
    "inbox_edit": ("/inbox/refund-1/{refund-1}", _edit_arguments),
    "inbox_question": ("/inbox/meter/{meter}", _nothing),
    "inbox_form": ("/inbox/tour/{tour}", _add_rows),
    "inbox_results": ("/inbox/scales/{scales}", _unfold),
    "inbox_receipt": ("/inbox/old-orders-decided/{old-orders-decided}", _nothing),
    "review": ("/inbox", _choose_two),
    "decisions": ("/decisions", _nothing),
    "talk": ("/talk", _nothing),
    "talk_new": ("/talk/new?agent=ops.assistant", _nothing),
    "conversation": ("/talk/ops.assistant/night-shift", _nothing),
    "conversation_branches": ("/talk/ops.assistant/branches", _edit_message),
    "conversation_asks": ("/talk/ops.assistant/asks", _nothing),
    "start": ("/start?agent=ops.assistant", _nothing),
    "start_tool": ("/start?agent=office.packer", _nothing),
    "agents": ("/agents", _nothing),
    "agent": ("/agents/office.clerk", _unfold),
    "health": ("/health-checks", _unfold),
    "sign_in": ("/sign-in", _nothing),
    "grants": ("/grants", _nothing),
    "nothing_there": ("/nothing-there", _nothing),
}
"""By name: the page, and what is done on it before; `{meter}` is the id of the wait of the run `meter`."""


async def take(folder: Path) -> list[Path]:
    """Take the pictures of docs/console.md, and return their paths."""
    async with AsyncExitStack() as stack:
        url, _ = await _console(stack, desk_app.app)
        shots = [partial(_take, url=url, folder=folder, name=name) for name in PICTURES]
        return [file for files in await _shots(shots) for file in files]


async def take_every(folder: Path, *names: str) -> list[str]:
    """Take pages at three sizes, light and dark, and return their faults.

    Without names it takes all pages. Faults are what axe finds, and pages wider than the screen.
    """
    async with AsyncExitStack() as stack:
        desk = (desk_app.assistant, desk_app.advisor, office.clerk, office.packer)
        url, client = await _console(stack, App(agents=[*desk], name="ops"))
        places = await _further_runs(client)
        shots = [
            partial(_take_sizes, url=url, folder=folder, name=name, scheme=scheme, places=places)
            for name in names or EVERY
            for scheme in ("light", "dark")
        ]
        return [fault for faults in await _shots(shots) for fault in faults]


async def _console(stack: AsyncExitStack, app: App) -> tuple[str, Client]:
    server = Server(port=0, ui=False, attach=False)
    await server.start()
    stack.push_async_callback(server.stop, grace=timedelta(0))
    client = await Client.connect(server.address)
    stack.push_async_callback(client.close)
    await stack.enter_async_context(Worker(app, client))
    desk_app.gate.clear()
    await _runs(client)
    return await _served(stack, client, app), client


async def _further_runs(client: Client) -> dict[str, str]:
    """Start the runs that only `--every` shows, and return the ids of their waits by run id."""
    limit = RunPolicyOverride(max_tool_rounds=1)
    await client.start("ops.assistant", "Count 120 sites", run_id="short", policy=limit)
    for run_id, text in (
        *(("refund-1", "refund Ana"), ("refund-2", "refund Ben")),
        *(("tour", "tour"), ("scales", "both"), ("pickup", "pickup")),
    ):
        await client.start("office.clerk", text, run_id=run_id)
    nobody = await Client.connect(client.temporal.service_client.config.target_host, task_queue="night-shift")
    await nobody.start("ops.lonely", "Is anybody there?", run_id="lonely", wait_for_worker=True)
    await nobody.close()
    branches, asks = (client.session("ops.assistant", each) for each in ("branches", "asks"))
    await (await branches.send("Echo all is quiet", message_id="m-1", by="ana")).result()
    await (await branches.edit("m-1", "Echo all is well", by="ana")).result()
    await (await branches.edit("m-1", by="ben")).result()
    await asks.send("Which meter is wrong?", by="ana")
    await _until(asks.run, "awaits")
    await asks.send("Echo and tell the customer", by="ben")
    waits = dict[str, str]()
    for run_id in ("refund-1", "refund-2", "tour", "scales", "pickup", "meter"):
        await _until(client.get_run(run_id), "awaits")
        waits[f"{{{run_id}}}"] = (await client.get_run(run_id).status()).awaits[0].id
    decided = [
        each async for each in client.get_run("old-orders-decided").events() if each.type == "await_answered"
    ]
    waits["{old-orders-decided}"] = decided[0].await_id
    while "lonely" not in {run.run_id async for run in client.list_runs(children=False)}:
        await asyncio.sleep(0.1)
    return waits


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


async def _served(stack: AsyncExitStack, client: Client, app: App) -> str:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    stack.callback(listener.close)
    web = create_app(app, client=client)
    server = uvicorn.Server(uvicorn.Config(web, log_level="critical", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve(sockets=[listener]))

    async def stop() -> None:
        server.should_exit = True
        await serving

    stack.push_async_callback(stop)
    while not server.started:
        await asyncio.sleep(0.02)
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


async def _shots(shots: Sequence[Callable[[Browser], Awaitable[list[Any]]]]) -> list[list[Any]]:
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no Chromium on this machine: apt-get install chromium-headless-shell")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium)
        gate = asyncio.Semaphore(AT_ONCE)

        async def take_one(shot: Callable[[Browser], Awaitable[list[Any]]]) -> list[Any]:
            async with gate:
                return await shot(browser)

        taken = await asyncio.gather(*map(take_one, shots))
        await browser.close()
    return taken


async def _take(browser: Browser, *, url: str, folder: Path, name: str) -> list[Path]:
    path, width, height, scheme, prepare = PICTURES[name]
    page = await _open(browser, url + path, (width, height), scheme, prepare)
    file = folder / f"{name}.png"
    await page.screenshot(path=file)
    await page.close()
    return [file]


async def _take_sizes(
    browser: Browser, *, url: str, folder: Path, name: str, scheme: str, places: dict[str, str]
) -> list[str]:
    path, prepare = EVERY[name]
    for place, wait in places.items():
        path = path.replace(place, quote(wait, safe=""))
    try:
        page = await _open(browser, url + path, SIZES["desk"], scheme, prepare)
    except Error as error:
        return [f"{name}, {scheme}: {error}"]
    faults = list[str]()
    for size in SIZES:
        await resize(page, size)
        await page.screenshot(path=folder / f"{name}-{size}-{scheme}.png", full_page=True)
        faults += [f"{name}, {size}, {scheme}: {each}" for each in await violations(page)]
        if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            faults.append(f"{name}, {size}: wider than the screen")
    await page.close()
    return faults


async def _open(browser: Browser, url: str, size: tuple[int, int], scheme: str, prepare: Shot) -> Page:
    page = await browser.new_page(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if scheme == "dark" else "light"
    )
    await page.goto(url)
    await page.locator("main").wait_for()
    await prepare(page)
    await page.wait_for_timeout(1_500)  # until it is live
    return page


def main() -> None:
    """Take the pictures from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--every", nargs="*", metavar="NAME", choices=[*EVERY, []])
    options = parser.parse_args()
    folder: Path = options.folder or (FOLDER if options.every is None else EVERY_FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    if options.every is not None:
        faults = asyncio.run(take_every(folder, *options.every))
        sys.exit("\n".join(faults) or 0)
    for file in asyncio.run(take(folder)):
        print(f"{file.name}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
