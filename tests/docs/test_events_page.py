"""What docs/events.md says is so: its module is served, and its table is that of the code."""

import asyncio

import pytest

from sojourn import Client, Worker
from sojourn.contracts.event import EVENT_CLASSES, BaseEvent
from sojourn.live.transport import topic_of


@pytest.fixture
async def ledger(serve, module_of):
    """The page's module, and a run of it that has ended."""
    module = module_of("events.md", "ledger")
    client = await serve(module.app)
    run = await client.start("ledger.head", "go")
    await run.result()
    return module, client, run


async def test_a_tree_is_told(ledger):
    """Calls of child runs stand inside the call that started them."""
    module, client, run = ledger
    assert await module.tell(client, run.id) == [
        "ledger.clerks.ask {'text': 'Does it balance?'}",
        "ledger.books.entries {'year': 2027}",
        "It balances.",
        "It balances.",
    ]


async def test_a_handler_hears_what_it_cares_for(ledger):
    """And nothing else."""
    module, client, run = ledger
    assert await module.watch(client, run.id) == ["ledger.clerk", "ledger.books.entries: 2 of 900"]


async def test_events_are_lines(ledger):
    """Each is read back."""
    module, client, run = ledger
    lines = await module.as_lines(client, run.id)
    assert len(lines) == len([event async for event in run.events()])
    assert not any(map(module.is_failure, lines))


async def test_a_screen_grows(module_of, temporal_address, until):
    """The page's screen shows the page's planner word by word, and then the message."""
    module = module_of("events.md", "ledger")
    client = await Client.connect(temporal_address, task_queue="ledger-speaks")
    run = await client.start("ledger.speaker", "go", wait_for_worker=True)
    showing = asyncio.create_task(module.show(client, run.id))
    await until(lambda: module.speaker.live.is_wanted(topic_of(client.temporal.namespace, run.id)))
    async with Worker(module.speaker, client):
        screens = await showing
    assert screens[0] == ""
    assert screens[-1] == "It balances."
    assert all("It balances.".startswith(screen) for screen in screens)
    assert len(screens) >= 3


def test_the_table_is_the_code_s(rows):
    """Each type, with its fields."""
    told = {
        row[0].strip("`"): set(row[2].replace("`", "").replace(",", " ").split())
        for row in rows("events.md", "## The events")
    }
    common = set(BaseEvent.model_fields) | {"type"}
    fields = {name: set(kind.model_fields) - common for name, kind in EVENT_CLASSES.items()}
    assert set(told) == set(fields)
    for name, own in fields.items():
        assert own <= told[name], name
