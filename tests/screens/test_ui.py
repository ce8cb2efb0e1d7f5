"""Temporal's UI in a real browser: shows what a run waits for and how to answer; hostile text stays text."""

from urllib.parse import quote

import pytest
from playwright.async_api import FrameLocator, Page, expect

from sojourn import Agent, App, AwaitClarification, PlanResult, RunPolicy, ToolRequest, Toolset
from sojourn.answers import disclose

HOSTILE = (
    "Which site?\n"
    '</code></pre><script>alert("s")</script><img src="http://elsewhere.invalid/i" onerror="alert(1)">\n'
    "```\n# Approve everything\n````\n"
    "**bold** [link](javascript:alert(2)) ![image](http://elsewhere.invalid/m) `code` &lt;b&gt; $(reboot) {{7*7}}"
)

shelves = Toolset("ops.shelves")


@shelves.tool(destructive=True, confirmation="Clear {shelf}?")
async def clear(shelf: str) -> str:
    """Clear a shelf."""
    return f"cleared {len(shelf)}"


@shelves.tool
async def look_up(shelf: str) -> str:
    """Look at a shelf."""
    return "full"


async def ask(turn):
    """Ask, then return the answer."""
    if turn.run.turn_id == "t1":
        return PlanResult.ask(AwaitClarification(id="which", question=HOSTILE, missing_fields=["site"]))
    return PlanResult.final(turn.messages[-1].text)


async def tidy(turn):
    """Look, clear, then return the result."""
    if not turn.tool_results:
        return PlanResult.calls(look_up.call(shelf="a").model_copy(update={"tool_call_id": "c0"}))
    if turn.tool_results[0].name == look_up.id:
        return PlanResult.calls(ToolRequest(name=clear.id, payload={"shelf": HOSTILE}, tool_call_id="c1"))
    return PlanResult.final(str(turn.tool_results[0].error or turn.tool_results[0].result))


ASKS = RunPolicy(interrupts_allowed=True)
app = App(
    agents=[
        Agent("ops.asker", planner=ask, policy=ASKS),
        Agent("ops.tidier", planner=tidy, uses=[shelves], policy=ASKS),
    ]
)


@pytest.fixture
def waiting(serve, status_when):
    """A run of an agent that waits, started with hostile text."""

    async def start(agent_id: str):
        client = await serve(app)
        run = await client.start(agent_id, HOSTILE, labels={"by": HOSTILE[:100]})
        await status_when(run, lambda status: status.awaits)
        return run

    return start


def part(page: Page, name: str) -> FrameLocator:
    """One part of the page, which the UI renders in a frame of its own: `summary`, `details`, `current-details`."""
    return page.frame_locator(f"#user-metadata-{name}")


async def is_text(frame: FrameLocator) -> None:
    """Assert that a frame has titles, paragraphs and code only."""
    tags = await frame.locator("main *").evaluate_all("all => all.map(one => one.tagName)")
    assert set(tags) <= {"P", "STRONG", "PRE", "CODE"}
    titles = await frame.locator("strong").all_text_contents()
    assert set(titles) <= {"Asked:", "Labels:", "Waiting for an answer:", "Waiting for approval:"}


async def has_summary_and_details(page: Page) -> None:
    """Assert that the page shows the static summary and details, as text."""
    await expect(part(page, "summary").get_by_text("ops.asker: Which site?")).to_be_visible()
    await is_text(part(page, "summary"))
    asked, labels = await part(page, "details").locator("pre").all_text_contents()
    assert asked == f"{HOSTILE}\n"
    assert labels == f"by: {HOSTILE[:100]}\n"
    await is_text(part(page, "details"))


async def test_a_question_and_its_command_are_on_the_page(waiting, look, shell):
    """The page shows summary, details and the question verbatim; the command, copied from the page, answers the run."""
    run = await waiting("ops.asker")
    page = await look(run, "user-metadata")
    await has_summary_and_details(page)
    current = part(page, "current-details")
    await expect(current.get_by_text("Waiting for an answer:")).to_be_visible()
    question, command = await current.locator("pre").all_text_contents()
    assert question == f"{HOSTILE}\nWanted: site\n"
    assert command == (
        f"temporal workflow signal --workflow-id {run.id} --name provide_clarification "
        """--input '{"id": "which", "answer": "YOUR ANSWER"}'\n"""
    )
    await is_text(current)
    assert await shell(command.replace("YOUR ANSWER", "s-7")) == (0, "Signal workflow succeeded\n")
    assert (await run.result()).text == "s-7"


async def test_a_call_to_approve_and_its_commands_are_on_the_page(waiting, look, shell):
    """The page shows the call with its arguments, and the commands to approve and deny it; the history names plans and tools."""
    run = await waiting("ops.tidier")
    page = await look(run, "user-metadata")
    current = part(page, "current-details")
    await expect(current.get_by_text("Waiting for approval:")).to_be_visible()
    call, whole, approve, deny = await current.locator("pre").all_text_contents()
    prompt, tool, *fields = call.splitlines()
    assert prompt.startswith(r'Clear "Which site?\n\u003c/code\u003e\u003c/pre\u003e\u003cscript\u003e')
    assert tool == "ops.shelves.clear"
    assert fields == [f"  {line}" for line in disclose({"shelf": HOSTILE}).lines]
    assert '"payload_digest": "' in deny
    assert "--type approval" in whole  # the shelf's name is too long to be shown whole
    assert '"approved": true' in approve
    await is_text(current)
    page = await look(run, "history")
    for summary in ("plan 1", "ops.shelves.look_up", "plan 2"):
        await expect(page.get_by_text(summary, exact=True).first).to_be_visible()
    assert (await shell(deny.replace("THE REASON", "not today")))[0] == 0
    assert (await run.result()).text == "denied: not today"


async def test_memo_and_search_attributes_are_on_their_pages(waiting, look):
    """The memo has the first message; the search attributes have the agent and the open wait."""
    run = await waiting("ops.asker")
    await expect((await look(run, "memo")).get_by_text("# Approve everything").first).to_be_visible()
    page = await look(run, "search-attributes")
    shown = page.get_by_role("textbox", name="Search Attributes")
    await expect(shown).to_contain_text('"SojournAgent": "ops.asker"')
    await expect(shown).to_contain_text('"SojournAwaiting": "which"')


async def test_a_waiting_run_is_found_and_answered(waiting, look, temporal_server, shell, until):
    """A run is found by the search attribute of its wait, and answered by `Send a Signal`, which describes the signals."""
    run = await waiting("ops.asker")
    query = f"SojournAwaiting = 'which' AND WorkflowId = '{run.id}'"

    async def listed() -> bool:  # the list is eventually consistent
        return run.id in (await shell(f'temporal workflow list --query "{query}"'))[1]

    await until(listed)
    page = await look(f"{temporal_server.ui_url}/namespaces/default/workflows?query={quote(query)}")
    await page.get_by_role("link", name=run.id).click()
    await page.get_by_role("button", name="More Actions").click()
    await page.get_by_role("menuitem", name="Send a Signal").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_test_id("signal-select-button").click()
    await dialog.get_by_role("option", name="provide_clarification Answer a question.").click()
    await dialog.locator(".cm-content").first.click()
    await page.keyboard.insert_text('{"id": "which", "answer": "s-8"}')
    await dialog.get_by_role("button", name="Submit").press(
        "Enter"
    )  # a click would miss: the JSON is laid out anew
    assert (await run.result()).text == "s-8"
