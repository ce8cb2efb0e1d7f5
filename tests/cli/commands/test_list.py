"""`sojourn list` and `sojourn sessions` on real runs."""

import asyncio
import contextlib
import os
import pty
import re
import signal
import sys
import uuid
from collections import Counter

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio import workflow
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from sojourn import AwaitClarification, Message, PlanResult, Principal, RateLimited, RunPolicy
from sojourn.contracts.message import ImagePart
from sojourn.reader import Reader

FIELDS = [
    "run_id",
    "agent_id",
    "session_id",
    "status",
    "awaiting",
    "gave_up",
    "forked_from",
    "started_at",
    "closed_at",
    "duration_seconds",
]


@pytest.fixture
async def session(served, until):
    """Three runs of one session, listed in visibility: one completed, then one failed, then one that waits."""
    session_id = f"s-{uuid.uuid4().hex[:8]}"
    runs = [await served.start(text, session_id=session_id) for text in ("add", "fail", "ask")]
    await runs[0].result()
    wanted = {"completed", "failed", "waiting"}

    async def is_listed() -> bool:
        found = [one async for one in served.client.list_runs(session_id=session_id)]
        return {one.status for one in found} == wanted and all(one.agent_id for one in found)

    await until(is_listed)
    return session_id, [run.id for run in runs]


async def test_runs_are_listed_newest_first_and_filtered(served, session):
    """Runs are in a table, newest first; the filters of status, agent and waiting select."""
    session_id, (added, failed, asked) = session
    table, waiting, done, none = await asyncio.gather(
        served.sojourn("list", "--session", session_id),
        served.sojourn("list", "--session", session_id, "--waiting", "--json"),
        served.sojourn(
            "list", "--session", session_id, "--status", "completed", "--agent", "desk.clerk", "--json"
        ),
        served.sojourn("list", "--session", session_id, "--agent", "desk.nobody"),
    )
    assert table.code == 0, table.err
    heading, *rows = table.out.splitlines()
    assert heading.split("  ")[0] == "RUN"
    assert [row.split()[0] for row in rows] == [asked, failed, added]
    assert rows[0].split()[1:4] == ["desk.clerk", "waiting", "question"]
    assert [one["run_id"] for one in waiting.objects] == [asked]
    assert [one["run_id"] for one in done.objects] == [added]
    assert (none.code, none.out) == (0, "no runs found; --all lists child runs too\n")


async def test_the_json_fields_stay(served, session):
    """`--json` prints one object a line, with these fields in this order."""
    session_id, (added, _, asked) = session
    done = await served.sojourn("list", "--session", session_id, "--json")
    by_id = {one["run_id"]: one for one in done.objects}
    assert all(list(one) == FIELDS for one in by_id.values())
    assert by_id[asked]["awaiting"] == "question"
    assert by_id[asked]["closed_at"] is None
    assert by_id[added]["awaiting"] == ""
    assert by_id[added]["duration_seconds"] > 0
    limited = await served.sojourn("list", "--session", session_id, "--limit", "1", "--json")
    assert [one["run_id"] for one in limited.objects] == [asked]


@workflow.defn(name="AgentRun")
class Broken:
    """A workflow that fails each workflow task."""

    @workflow.run
    async def run(self, _given: dict) -> None:
        """Fail the workflow task, not the run."""
        raise RuntimeError("deploy the \x1b[31mother version")


async def test_a_run_whose_workflow_task_fails_again_and_again_is_stuck(served, until):
    """`--stuck` lists the run with the message of its failure, and no healthy run."""
    healthy = await served.waiting("ask")
    queue, session_id = f"q-{uuid.uuid4().hex[:8]}", f"s-{uuid.uuid4().hex[:8]}"
    temporal = served.client.temporal
    async with Worker(
        temporal, task_queue=queue, workflows=[Broken], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        stuck_client = type(served.client)(temporal, task_queue=queue)
        run = await stuck_client.start("desk.clerk", "add", session_id=session_id)

        async def has_failed_often() -> bool:
            described = await temporal.get_workflow_handle(run.id).describe()
            return described.raw_description.pending_workflow_task.attempt >= 3

        await until(has_failed_often)
        found, table = await asyncio.gather(
            served.sojourn("list", "--stuck", "--json"),
            served.sojourn("list", "--status", "stuck", "--session", session_id),
        )
        stuck = {one["run_id"]: one["stuck"] for one in found.objects}
        assert {one["status"] for one in found.objects} == {"stuck"}
        assert stuck[run.id]["attempt"] >= 3
        assert "other version" in stuck[run.id]["reason"]
        assert "terminate" in stuck[run.id]["next"]
        assert healthy.id not in stuck
        assert "other version" in table.out
        assert "\x1b" not in table.out
        await temporal.get_workflow_handle(run.id).terminate()


async def test_a_planner_that_fails_again_and_again_is_stuck(serve, command, temporal_address, until):
    """After three failed attempts `--stuck` and `show` say why the planner fails and when it is tried again; after two they do not."""
    attempts = Counter()

    async def plan(turn):
        wish = turn.messages[0].text
        attempts[wish] += 1
        soon = attempts[wish] < int(wish)
        raise RateLimited("the provider is away", retry_after=0.01 if soon else 3_600)

    client = await serve(planner=plan)
    two, three = [await client.start("test.agent", wish) for wish in ("2", "3")]

    async def have_failed() -> bool:
        hints = [*(await two.status()).hints, *(await three.status()).hints]
        return len(hints) == 2 and all(" is due at " in hint for hint in hints)

    async def are_listed() -> bool:
        listed = {one.run_id async for one in client.list_runs(agent_id="test.agent")}
        return {two.id, three.id} <= listed

    await until(lambda: attempts == {"2": 2, "3": 3})
    await until(have_failed)
    await until(are_listed)
    env = {"TEMPORAL_ADDRESS": temporal_address}
    found, shown = await asyncio.gather(
        command("list", "--stuck", "--json", env=env), command("show", three.id, env=env)
    )
    stuck = {one["run_id"]: one["stuck"] for one in found.objects}
    assert two.id not in stuck
    assert stuck[three.id]["attempt"] == 4
    assert stuck[three.id]["reason"].startswith(
        "the planner of test.agent failed: the provider is away; attempt 4 is due at "
    )
    assert f"sojourn retry {three.id} --now" in stuck[three.id]["next"]
    assert "! plan: attempt 4 is due at " in shown.out
    for run in (two, three):
        await client.temporal.get_workflow_handle(run.id).terminate()


async def test_a_namespace_without_the_search_attributes(served, until):
    """A listing by agent exits with 1 and says how to register the search attributes; a listing without filters needs none."""
    name = f"bare-{uuid.uuid4().hex[:8]}"
    service = served.client.temporal.workflow_service
    await service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=Duration(seconds=86_400))
    )
    env = {**served.env, "TEMPORAL_NAMESPACE": name}

    async def is_known() -> bool:
        return (await served.command("list", env=env)).code == 0

    await until(is_known)
    done = await served.command("list", "--agent", "desk.clerk", env=env)
    assert done.code == 1, done.err
    assert "temporal operator search-attribute create --name SojournAgent --type Keyword" in done.err


async def test_child_runs_are_listed_when_asked_for_or_needed(served, until):
    """A listing has no child runs; with `--all` it has, and with `--waiting` those that wait."""
    run = await served.waiting("below")
    ((child_id, _),) = (await run.status()).child_awaits.items()

    async def is_listed() -> bool:
        return {child_id, run.id} <= {one.run_id async for one in served.client.list_runs()}

    await until(is_listed)
    found = await asyncio.gather(
        *(
            served.sojourn("list", *options, "--since", "1h", "--limit", "1000", "--json")
            for options in ((), ("--all",), ("--waiting",))
        )
    )
    own, everything, waiting = ({one["run_id"] for one in done.objects} for done in found)
    assert {run.id, child_id} & own == {run.id}
    assert {run.id, child_id} <= everything
    assert {run.id, child_id} & waiting == {child_id}


async def test_runs_are_found_by_label_and_start(served, until):
    """Labels must all fit, and a run that started before `--since` is left out."""
    session_id = f"s-{uuid.uuid4().hex[:8]}"
    ids = []
    for labels in ({"team": "ops", "stage": "two"}, {"team": "ops"}, {}):
        run = await served.client.start("desk.clerk", "add", session_id=session_id, labels=labels)
        await run.result()
        ids.append(run.id)
    two, one, _ = ids

    async def are_listed() -> bool:
        return len([each async for each in served.client.list_runs(session_id=session_id)]) == 3

    await until(are_listed)
    line = ("list", "--session", session_id, "--json")
    ops, both, later, none = await asyncio.gather(
        served.sojourn(*line, "--label", "team=ops", "--since", "1h"),
        served.sojourn(*line, "--label", "team=ops", "--label", "stage=two"),
        served.sojourn(*line, "--since", "2100-01-01"),
        served.sojourn(*line, "--label", "team=dev"),
    )
    assert [each["run_id"] for each in ops.objects] == [one, two]
    assert [each["run_id"] for each in both.objects] == [two]
    assert (later.out, none.out) == ("", "")
    found = [
        each.run_id
        async for each in served.client.list_runs(session_id=session_id, labels={"team": "ops"}, limit=1)
    ]
    assert found == [one]


async def test_watch_draws_again_until_ctrl_c(served, until):
    """`--watch` draws on a terminal what has changed since, and Ctrl-C is its normal end."""
    session_id = f"s-{uuid.uuid4().hex[:8]}"
    here, there = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sojourn", "list", "--watch", "--session", session_id),
        env={**os.environ, **served.env, "TERM": "xterm", "COLUMNS": "60", "LINES": "20"},
        stdin=there,
        stdout=there,
        stderr=there,
    )
    os.close(there)
    screen, run_id = b"", ""
    async with asyncio.timeout(120):
        while not run_id or run_id.encode() not in screen:
            screen += await asyncio.to_thread(os.read, here, 4096)
            if not run_id and b"no runs found" in screen:
                run_id = (await served.start("ask", session_id=session_id)).id
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the other end is closed
            while new := await asyncio.to_thread(os.read, here, 4096):
                screen += new
        assert await process.wait() == 0
    os.close(here)
    assert b"interrupted" not in screen


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--watch",), "on a terminal"),
        (("--since", "soon"), "use such as 30m"),
        (("--label", "team"), "NAME=VALUE"),
        (("--status", "lost"), "running, waiting"),
        (("--waiting", "--stuck"), "one of --status"),
        (("--limit", "0"), "--limit"),
    ],
)
async def test_bad_filters_are_refused_before_any_request(command, arguments, message):
    """Bad filters exit with 2, also without a server."""
    done = await command("list", *arguments, env={"TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert (done.code, message in done.err) == (2, True), done.err


async def test_a_run_that_no_worker_serves_is_stuck(served, until):
    """A run on a task queue without a worker is listed, with the command that serves the queue; a waiting run is not."""
    queue, asking = f"nobody-{uuid.uuid4().hex[:8]}", await served.waiting("ask")
    run = await type(served.client)(served.client.temporal, task_queue=queue).start(
        "desk.clerk", "add", wait_for_worker=True
    )

    async def is_listed() -> bool:
        return run.id in [one.run_id async for one in served.client.list_runs(agent_id="desk.clerk")]

    await until(is_listed)
    stuck = {
        one["run_id"]: one["stuck"] for one in (await served.sojourn("list", "--stuck", "--json")).objects
    }
    assert stuck[run.id]["reason"] == f"no worker polls task queue {queue}"
    assert stuck[run.id]["next"] == f"sojourn worker MODULE:APP --task-queue {queue}"
    assert asking.id not in stuck
    await run.cancel()
    await served.client.temporal.get_workflow_handle(run.id).terminate()


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
