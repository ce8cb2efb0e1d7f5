"""`Client.list_sessions` and `sojourn sessions`: conversations by their state."""

import re
import uuid

import pytest

from sojourn import AwaitClarification, Message, PlanResult, Principal, RunPolicy
from sojourn.contracts.message import ImagePart
from sojourn.reader import Reader


async def plan(turn):
    said = [message.text for message in turn.messages if message.role == "user"]
    return (
        PlanResult.ask(AwaitClarification(question="which?")) if said[-1] == "ask" else PlanResult.final("ok")
    )


@pytest.fixture
async def talks(serve, until):
    """A client, a tag, and three sessions with it in their ids: idle, waiting and closed; and a run, and a fork with an id of another form, that are none."""
    client = await serve(planner=plan, policy=RunPolicy(interrupts_allowed=True))
    tag = uuid.uuid4().hex[:8]
    idle = client.session("test.agent", f"{tag} idle", labels={"tag": tag})
    asking, closed = (client.session("test.agent", f"{tag}-{name}") for name in ("asking", "closed"))
    for session, text in ((idle, "hi"), (asking, "ask"), (closed, "hi")):
        await session.send(text)
    await asking.run.until_waiting()
    await closed.close("done")
    await closed.run.result()
    plain = await client.start("test.agent", "hi", session_id=f"{tag} idle")
    await plain.result()
    await client.fork(idle.run.id, new_run_id=f"fork-{tag}")
    names = {session.session_id: session.run.id for session in (idle, asking, closed)}

    async def are_listed() -> bool:
        found = {each.run_id: each.status async for each in client.list_sessions()}
        mine = [found.get(run_id) for run_id in names.values()]
        runs = [each.run_id async for each in client.list_runs(session_id=f"{tag} idle")]
        return mine == ["idle", "waiting", "completed"] and len(runs) == 3

    await until(are_listed)
    return client, tag, names


async def test_conversations_are_found_by_their_state(talks):
    client, tag, names = talks

    async def found(**options):
        listed = client.list_sessions(**options)
        return {each.session_id for each in [x async for x in listed] if tag in each.session_id}

    assert await found() == await found(agent_id="test.agent") == set(names)
    assert await found(agent_id="test.other") == set()
    assert await found(status="idle") == {f"{tag} idle"}
    assert await found(status="waiting") == {f"{tag}-asking"}
    assert await found(status="completed") == {f"{tag}-closed"}
    assert await found(status="running") == {f"{tag} idle", f"{tag}-asking"}
    assert await found(session_id=f"{tag} idle") == {f"{tag} idle"}
    assert await found(labels={"tag": tag}) == {f"{tag} idle"}
    assert len([each async for each in client.list_sessions(session_id=f"{tag} idle", limit=1)]) == 1
    waiting = [each.run_id async for each in client.list_runs(status="waiting")]
    assert names[f"{tag}-asking"] in waiting
    assert names[f"{tag} idle"] not in waiting


async def test_the_command(talks, command, temporal_address):
    """The table has the names that `send` takes; `--json` has the fields of `list`."""
    _, tag, names = talks

    async def sojourn(*arguments):
        return await command(*arguments, env={"TEMPORAL_ADDRESS": temporal_address})

    table = await sojourn("sessions", "--label", f"tag={tag}")
    heading, row = table.out.splitlines()
    assert heading.split()[:3] == ["SESSION", "STATUS", "WAITS"]
    assert row.startswith(f"'test.agent@{tag} idle'  idle")
    done = await sojourn("sessions", "--session", f"{tag}-closed", "--json")
    assert [(one["run_id"], one["status"]) for one in done.objects] == [(names[f"{tag}-closed"], "completed")]
    none = await sojourn("sessions", "--session", f"{tag}-nobody")
    assert (none.code, none.out) == (0, "no conversations found\n")
    wrong = await sojourn("sessions", "--status", "sleepy")
    assert wrong.code == 2
    assert "'sleepy' is not a status" in wrong.err


async def test_the_conversations_of_a_tenant(talks, until, command, temporal_address):
    """`--tenant` lists a tenant's own by names that `send`, `interrupt` and `close` take, which meet no one else's."""
    client, tag, _ = talks
    ana = Principal(subject="ana", tenant=f"t-{tag}")
    session = client.session("test.agent", f"{tag}-asking", principal=ana)
    await session.send("hi")
    env = {"TEMPORAL_ADDRESS": temporal_address}
    name = f"test.agent:t-{tag}@{tag}-asking"

    async def listed() -> list[str]:
        return (await command("sessions", "--tenant", ana.tenant, env=env)).out.splitlines()[1:]

    (row,) = await until(listed)
    assert row.split()[0] == name
    runs = (await command("list", "--tenant", ana.tenant, "--json", env=env)).objects
    assert [one["run_id"] for one in runs] == [session.run.id]
    sent = await command("send", name, "more", "--wait", "--by", "bo", env=env)
    assert (sent.code, sent.out) == (0, "ok\n")
    said = [message.text for message in await session.transcript() if message.role == "user"]
    assert said == ["hi", "more"]
    closed = await command("close", name, env=env)
    assert closed.code == 0
    new = await command(
        "send",
        f"test.agent:t-{tag}@new",
        "hi",
        "--wait",
        "--by",
        "bo",
        env={**env, "SOJOURN_TASK_QUEUE": client.task_queue},
    )
    assert new.code == 0
    begun = await client.session("test.agent", "new", principal=ana).status()
    assert begun.principal == Principal(subject="bo", tenant=ana.tenant)
    for wrong in ("test.agent:@x", f"test.agent:t+{'0' * 32}@x", ":a@x"):
        assert (await command("send", wrong, "hi", env=env)).code == 2


async def test_the_histories_are_read_on_demand(talks, command, temporal_address):
    """`--long` adds the turns and the last message, without a worker; `--json` has them as fields, and null for neither."""
    client, tag, names = talks
    png = Message(role="user", parts=[ImagePart(type="image", media_type="image/png", data="aGk=")])
    turn = await client.session("test.agent", f"{tag} idle").send(png, message_id="picture", by="bo")
    await turn.result()
    env = {"TEMPORAL_ADDRESS": temporal_address}
    sessions = ("sessions", "--agent", "test.agent", "--limit", "50", "--long")
    table = (await command(*sessions, env=env)).out.splitlines()
    assert table[0].split() == ["SESSION", "STATUS", "TURNS", "LAST", "MESSAGE"]
    (row,) = [line for line in table if f"@{tag} idle'" in line]
    assert re.search(r"' +idle +2 +\d{4}-\d\d-\d\d [0-9:]{8} +\(image\)$", row.rstrip())
    done = await command(*sessions, "--json", env=env)
    by_id = {one["run_id"]: one for one in done.objects}
    asking, closed = (by_id[names[f"{tag}-{name}"]] for name in ("asking", "closed"))
    assert (asking["turns"], asking["queued"], asking["last_message"]["text"]) == (0, 0, "ask")
    assert (closed["turns"], closed["last_message"]["text"], closed["last_message"]["by"]) == (1, "hi", None)
    last = by_id[names[f"{tag} idle"]]["last_message"]
    assert (last["message_id"], last["text"], last["by"]) == ("picture", "", "bo")
    short = await command("sessions", "--session", f"{tag}-closed", "--json", env=env)
    assert "turns" not in short.objects[0]
    many = await command(*sessions, "--limit", "201", env=env)
    assert (many.code, "200 histories at most" in many.err) == (2, True)


async def test_a_last_message_of_an_execution_before(serve, monkeypatch):
    """A conversation that has just gone on in a new execution has its last message all the same; its turns are those of all."""
    monkeypatch.setattr("workflows.history_budget.CONTINUE_EVENTS", 15)
    client = await serve(planner=plan)
    session = client.session("test.agent", uuid.uuid4().hex[:8])
    for text in ("one", "two", "three"):
        await (await session.send(text)).result()
    history = [
        each async for each in client.temporal.get_workflow_handle(session.run.id).fetch_history_events()
    ]
    assert history[0].workflow_execution_started_event_attributes.continued_execution_run_id
    found = await Reader(client).turns([session.run.id, "test.agent@nobody"], most=2)
    assert set(found) == {session.run.id}
    turns = found[session.run.id]
    assert (turns.ended, turns.last.message.text) == (3, "three")
