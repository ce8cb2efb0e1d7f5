"""docs/events.md: its module works as written, and its table agrees with the code."""

import asyncio

import pytest

from sojourn import Client, Worker
from sojourn.contracts.event import EVENT_CLASSES, BaseEvent
from sojourn.live.transport import topic_of


@pytest.fixture
async def ledger(serve, module_of):
    """The page's module, a client, and a run of the module's app that has ended."""
    module = module_of("events.md", "ledger")
    client = await serve(module.app)
    run = await client.start("ledger.head", "go")
    await run.result()
    return module, client, run


async def test_a_tree_of_events(ledger):
    """The calls of a child run come inside the call that started the child run."""
    module, client, run = ledger
    assert await module.tell(client, run.id) == [
        "ledger.clerks.ask {'text': 'Does it balance?'}",
        "ledger.books.entries {'year': 2027}",
        "It balances.",
        "It balances.",
    ]


async def test_a_handler_gets_the_events_of_its_methods(ledger):
    """The page's handler gets the events that it has methods for, and no others."""
    module, client, run = ledger
    assert await module.watch(client, run.id) == ["ledger.clerk", "ledger.books.entries: 2 of 900"]


async def test_a_view_of_ones_own_grows_with_the_events(ledger):
    """The page's view tells each call as it changes, and has the entries of the run and of its child run at the end."""
    module, client, run = ledger
    changes, tree = await module.view(client, run.id)
    assert changes[0].endswith(": ledger.clerks.ask is running")
    assert changes[-1].endswith(": ledger.clerks.ask is done")
    assert any(each.endswith(": ledger.books.entries is done") for each in changes)
    assert tree.top.end is not None
    assert [call.call.name for call in tree.top.calls] == ["ledger.clerks.ask"]
    (child,) = tree.parents
    assert [call.state for call in tree.runs[child].calls] == ["done"]
    assert not tree.open_waits


async def test_events_are_lines(ledger):
    """Each event is a line, which the page's function parses."""
    module, client, run = ledger
    lines = await module.as_lines(client, run.id)
    assert len(lines) == len([event async for event in run.events()])
    assert not any(map(module.is_failure, lines))


async def test_a_screen_grows(module_of, temporal_address, until):
    """The page's screen shows growing parts of the planner's text, and at last the whole message."""
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


def test_the_table_is_that_of_the_code(rows):
    """The table has every event type, with at least its own fields."""
    table = {
        row[0].strip("`"): set(row[2].replace("`", "").replace(",", " ").split())
        for row in rows("events.md", "## The events")
    }
    common = set(BaseEvent.model_fields) | {"type"}
    fields = {name: set(kind.model_fields) - common for name, kind in EVENT_CLASSES.items()}
    assert set(table) == set(fields)
    for name, own in fields.items():
        assert own <= table[name], name


async def test_a_tree_is_read_in_parts(ledger):
    """The page's function reads the events of a tree part by part, each from the text of the last."""
    module, client, run = ledger
    whole = [event.type async for event in run.events(children=True)]
    parts, after = list[str](), ""
    while len(parts) < len(whole):
        types, after = await module.some(client, run.id, after, 4)
        parts += types
    assert sorted(parts) == sorted(whole)
    assert parts[-1] == "run_stream_end"
