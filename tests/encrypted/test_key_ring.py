"""Runs that a key ring encrypts: by tenant, through rotations, and after a key was erased or lost."""

import asyncio
from datetime import timedelta
from functools import partial

import pytest
from pydantic import BaseModel
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.converter import WorkflowSerializationContext

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    Client,
    PlanResult,
    Principal,
    RunPolicy,
    ToolRequest,
    Toolset,
)
from sojourn.crypto import KeyRing, SealingCodec
from sojourn.crypto.ring_file import erase_keys
from sojourn.crypto.sealed import ENCODING
from sojourn.errors import InvalidInput, RunFailed, RunUnreadable
from sojourn.storage import FolderStorage
from tests.crypto.ring import make_ring, rotate

SECRET = "the-vault-code-is-4711"
ANSWER = "provide_clarification"


class Question(BaseModel):
    text: str


vault = Toolset("vault.shelf", description="The vault")


@vault.tool
async def fetch(title: str) -> str:
    """Fetch."""
    return f"{title}: {SECRET}"


@vault.tool
async def fetch_all(title: str) -> str:
    """Fetch more than a history holds."""
    return f"{title}: {SECRET}" * 100_000


async def ask(turn):
    """Fetch, ask, and answer with what the user says."""
    if not any(message.tool_calls for message in turn.messages):
        return PlanResult.calls(fetch.call(title=SECRET))
    if turn.messages[-1].role == "tool":
        return PlanResult.ask(AwaitClarification(id="q", question=f"{SECRET}?"))
    return PlanResult.final(turn.messages[-1].text)


async def delegate(turn):
    """Let the child run ask."""
    if not turn.tool_results:
        return PlanResult.calls(
            ToolRequest(name="vault.child.ask", payload={"text": SECRET}, tool_call_id="c1")
        )
    return PlanResult.final(str(turn.tool_results[0].result))


async def fetch_much(turn):
    if not turn.tool_results:
        return PlanResult.calls(fetch_all.call(title=SECRET))
    return PlanResult.final("done")


ASKS = RunPolicy(interrupts_allowed=True)
asking = Agent("vault.asking", planner=ask, uses=[vault], policy=ASKS)
child = asking.export("vault.child", tools=[AgentTool("ask", args=Question)])


def app(storage=None):
    agents = [
        asking,
        Agent("vault.parent", planner=delegate, uses=[child], policy=ASKS),
        Agent("vault.much", planner=fetch_much, uses=[vault]),
    ]
    return App(agents=agents, storage=storage)


def of(tenant: str) -> Principal | None:
    return Principal(subject="ana", tenant=tenant) if tenant else None


async def keys_of(history) -> set[str]:
    """The ids of the keys that sealed the payloads of a history; no payload is in clear text."""
    found = set[str]()

    def visit(message) -> None:
        if message.DESCRIPTOR.full_name == "temporal.api.common.v1.Payload":
            assert message.metadata["encoding"] == ENCODING, message
            found.add(message.metadata["key"].decode())
            return
        for field, value in message.ListFields():
            if field.name in ("header", "search_attributes", "indexed_fields"):
                continue
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            for each in value.values() if is_map else value if hasattr(value, "append") else [value]:
                if hasattr(each, "ListFields"):
                    visit(each)

    for event in history:
        visit(event)
    return found


async def test_each_tenant_has_its_key(serve, status_when, traces, until, tmp_path):
    """Every payload of a run has its tenant's key: results, failures, memos, those of child runs and of answers from other processes."""
    path = tmp_path / "ring"
    make_ring(path, "acme", "other")
    key_ids = {key.tenant: key.key_id for key in KeyRing(path).all_keys()}
    client = await serve(app(), codec=SealingCodec(KeyRing(path)))
    elsewhere = await Client.connect(
        client.temporal.service_client.config.target_host, codec=SealingCodec(KeyRing(path))
    )
    for tenant in ("", "acme"):
        runs = [
            await client.start("vault.asking", SECRET, principal=of(tenant)),
            await client.start("vault.asking", SECRET, principal=of(tenant), run_id=f"mine-{tenant}"),
            await client.start("vault.parent", SECRET, principal=of(tenant), run_id=f"parent-{tenant}"),
        ]
        asked = [client.get_run(run_id) for run_id in (runs[0].id, runs[1].id, f"{runs[2].id}/c1")]
        for run in asked:
            await until(run.exists)
            await status_when(run, lambda status: status.awaits)
            await elsewhere.get_run(run.id).answer("q", f"{SECRET}!")
        for run in runs:
            assert SECRET in (await run.result()).text
            assert (await run.status()).status == "completed"
        for run in [*runs, *asked]:
            history = await traces(run).history()
            assert await keys_of(history) == {key_ids[tenant]}, run.id
            assert SECRET.encode() not in b"".join(event.SerializeToString() for event in history)


async def test_runs_go_on_through_rotations(serve, status_when, traces, tmp_path):
    """Three rotations while runs wait: each run goes on, is read whole, and its newest payloads have the newest key."""
    path = tmp_path / "ring"
    ring = make_ring(path, "acme")
    client = await serve(app(), codec=SealingCodec(ring))
    runs = [await client.start("vault.asking", SECRET, principal=of(tenant)) for tenant in ("", "acme") * 5]
    for run in runs:
        await status_when(run, lambda status: status.awaits)
    newest = {tenant: [rotate(path, tenant) for _ in range(3)][-1].key_id for tenant in ("", "acme")}
    for number, run in enumerate(runs):
        await run.answer("q", "yes")
        assert (await run.result()).text == "yes"
        used = await keys_of(await traces(run).history())
        assert newest["acme" if number % 2 else ""] in used
        assert len(used) == 2
        assert [event.type async for event in run.events(follow=False)][-2:] == [
            "run_completed",
            "run_stream_end",
        ]


async def last_run(schedule, before: str = "") -> str | None:
    """The id of the run that a schedule started last, after another one."""
    found = await schedule._handle.describe()
    ids = [each.action.workflow_id for each in found.info.recent_actions]
    return ids[-1] if ids and ids[-1] != before else None


async def test_an_erased_tenant_is_gone_and_the_others_go_on(serve, status_when, until, tmp_path):
    """After its key was erased, a tenant's runs say so; lists show all runs, and those of other tenants go on and start."""
    path, folder = tmp_path / "ring", tmp_path / "stored"
    ring = make_ring(path, "acme")
    storage = FolderStorage(folder)
    client = await serve(app(storage), codec=SealingCodec(ring), storage=storage)
    lost = await client.start("vault.asking", SECRET, principal=of("acme"))
    ended = await client.start("vault.much", SECRET, principal=of("acme"))
    kept = await client.start("vault.asking", SECRET)
    (artifact,) = (await ended.result()).artifacts
    for run in (lost, kept):
        await status_when(run, lambda status: status.awaits)
    assert SECRET in (await client.artifact(artifact.ref)).data
    daily = timedelta(days=1)
    schedule = await client.schedule("vault.much", SECRET, every=daily, principal=of("acme"))
    await schedule.trigger()
    scheduled = client.get_run(await until(partial(last_run, schedule)))
    assert (await scheduled.result()).text == "done"
    erase_keys(path, tenant="acme")
    await schedule.trigger()
    failed = client.get_run(await until(partial(last_run, schedule, scheduled.id)))
    with pytest.raises(RunFailed, match="the keys of the tenant were erased"):
        await asyncio.wait_for(failed.result(), 30)
    await schedule.delete()
    for read in (
        lost.status(),
        lost.transcript(),
        ended.result(),
        ended.status(),
        client.artifact(artifact.ref),
    ):
        with pytest.raises(RunUnreadable, match="of the tenant 'acme' was erased on"):
            await asyncio.wait_for(read, 30)
    with pytest.raises(RunUnreadable, match=r"nothing can be sent to run .* keyring create --tenant acme"):
        await lost.answer("q", "yes")
    with pytest.raises(InvalidInput, match="keyring create --tenant acme"):
        await client.start("vault.asking", SECRET, principal=of("acme"))
    listed = {status.run_id async for status in client.list_runs()}
    assert {lost.id, ended.id, kept.id} <= listed
    await kept.answer("q", "yes")
    assert (await kept.result()).text == "yes"
    assert (await (await client.start("vault.much", "go", principal=of("new"))).result()).text == "done"
    await client.temporal.get_workflow_handle(lost.id).terminate()


async def test_a_lost_key_is_named_and_harms_no_other_run(serve, status_when, tmp_path):
    """While a key is missing from the file its runs name it, and others go on; once it is back they go on too."""
    path = tmp_path / "ring"
    ring = make_ring(path)
    client = await serve(app(), codec=SealingCodec(ring))
    before = await client.start("vault.asking", SECRET)
    await status_when(before, lambda status: status.awaits)
    whole = path.read_text()
    path.unlink()
    make_ring(path)
    after = await client.start("vault.asking", SECRET)
    await status_when(after, lambda status: status.awaits)
    (lost,) = await keys_of(await history(before))
    with pytest.raises(RunUnreadable, match=f"its key {lost} is not in the key ring"):
        [event async for event in before.events(follow=False)]
    await after.answer("q", "yes")
    assert (await after.result()).text == "yes"
    path.write_text(whole)
    await before.answer("q", "yes")
    assert (await before.result()).text == "yes"


async def history(run):
    return [event async for event in run.client.temporal.get_workflow_handle(run.id).fetch_history_events()]


async def test_an_answer_of_another_run_is_refused(serve, status_when, traces, tmp_path):
    """Who may send to Temporal, and has no key, cannot answer a run with the answer that another run got."""
    client = await serve(app(), codec=SealingCodec(make_ring(tmp_path / "ring")), encrypted_only=True)
    first, second = [await client.start("vault.asking", SECRET) for _ in range(2)]
    for run in (first, second):
        await status_when(run, lambda status: status.awaits)
    await first.answer("q", "yes")
    await first.result()
    (accepted,) = [
        event.workflow_execution_update_accepted_event_attributes.accepted_request.input.args.payloads[0]
        for event in await history(first)
        if event.HasField("workflow_execution_update_accepted_event_attributes")
    ]
    plain = await TemporalClient.connect(client.temporal.service_client.config.target_host)
    outsider = plain.get_workflow_handle(second.id)
    await outsider.signal(ANSWER, RawValue(accepted))
    with pytest.raises(WorkflowUpdateFailedError):
        await outsider.execute_update(ANSWER, RawValue(accepted))
    status = await status_when(second, lambda status: status.notes)
    assert "written for another run" in status.notes[0]
    assert status.awaits
    context = WorkflowSerializationContext(namespace="default", workflow_id=second.id)
    own = await client.temporal.data_converter.with_context(context).encode([{"id": "q", "answer": "no"}])
    await outsider.signal(ANSWER, RawValue(own[0]))
    assert (await second.result()).text == "no"
    await traces(second).check()
    answers = [event async for event in second.events(follow=False) if event.type == "await_answered"]
    assert len(answers) == 1


async def test_a_fork_reads_what_its_origin_stored(serve, status_when, tmp_path):
    """A fork has the transcript and the artifacts of its origin, sealed for itself and for the origin."""
    storage = FolderStorage(tmp_path / "stored")
    client = await serve(
        app(storage), codec=SealingCodec(make_ring(tmp_path / "ring", "acme")), storage=storage
    )
    for principal in (None, of("acme")):
        run = await client.start("vault.much", SECRET, principal=principal)
        (artifact,) = (await run.result()).artifacts
        fork = await client.fork(run.id, message="again")
        assert (await fork.result()).text == "done"
        assert (await fork.transcript())[0].text == SECRET
        assert SECRET in (await client.artifact(artifact.ref)).data
