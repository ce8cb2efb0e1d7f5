"""The codec of a key ring: for which run a payload is sealed, with which tenant's key, and what becomes of lost keys."""

import dataclasses
import os
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import ActivitySerializationContext, WorkflowSerializationContext
from temporalio.exceptions import ApplicationError

from sojourn.connection.connect import converter_with
from sojourn.connection.rpc_errors import unreadable
from sojourn.contracts.tenant_ids import tenant_in, tenant_part
from sojourn.converter.codec import (
    CodecFailedError,
    UnreadableError,
    admit_run,
    codec_of_tenant,
    converter_of_schedule,
    forget_run,
    reason_of,
)
from sojourn.core.run.ids import child_run_id
from sojourn.crypto import KeyRing, SealingCodec
from sojourn.crypto.ring_file import add_key, erase_keys, new_key
from sojourn.crypto.sealed import ENCODING, key_id_of, mark_of_run
from sojourn.errors import InvalidInput
from sojourn.storage import codec_for
from tests.crypto.ring import make_ring, rotate

PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"the secret"')


def context(run_id: str) -> WorkflowSerializationContext:
    return WorkflowSerializationContext(namespace="default", workflow_id=run_id)


def activity(run_id: str) -> ActivitySerializationContext:
    return ActivitySerializationContext(
        namespace="default", activity_id="1", activity_type="", activity_task_queue="", workflow_id=run_id, workflow_type="", is_local=False
    )  # fmt: skip


async def seal(codec, run_id: str) -> Payload:
    (sealed,) = await codec.with_context(context(run_id)).encode([PLAIN])
    return sealed


async def unseal(codec, payload: Payload, run_id: str = "") -> Payload:
    (found,) = await (codec.with_context(context(run_id)) if run_id else codec).decode([payload])
    return found


async def test_a_payload_opens_for_its_run_only(tmp_path):
    """What was sealed for a run opens in its activities and without a context, and in no other run."""
    codec = SealingCodec(make_ring(tmp_path / "ring"))
    sealed = await seal(codec, "daily")
    assert sealed.metadata["encoding"] == ENCODING
    assert b"secret" not in sealed.SerializeToString()
    for run_id in ("", "daily"):
        assert await unseal(codec, sealed, run_id) == PLAIN
    assert (await codec.with_context(activity("daily")).decode([sealed])) == [PLAIN]
    for other in ("daily2", "daily/call", "daily-2026", "daily-2026-11-27T08:00:00Z"):
        assert reason_of(await unseal(codec, sealed, other)) == "it was written for another run"
    stored = codec_for(converter_with(codec), "default", "fork")
    assert stored is not None
    assert await stored.decode([sealed]) == [PLAIN]  # the record has the run, and its reader compares it


@given(st.integers(min_value=0), st.integers(1, 255))
async def test_no_changed_byte_opens(tmp_path_factory, where, change):
    """A payload with any changed byte of its data, or another key's id, is marked, and raises nothing."""
    path = tmp_path_factory.mktemp("ring") / "ring"
    codec = SealingCodec(make_ring(path))
    sealed = await seal(codec, "run")
    data = bytearray(sealed.data)
    data[where % len(data)] ^= change
    bad = Payload(metadata=sealed.metadata, data=bytes(data))
    assert reason_of(await unseal(codec, bad, "run"))
    other = rotate(path)
    moved = Payload(metadata={**sealed.metadata, "key": other.key_id.encode()}, data=sealed.data)
    assert "another key" in str(reason_of(await unseal(codec, moved, "run")))
    cut = Payload(metadata=sealed.metadata, data=sealed.data[: where % len(data)])
    assert reason_of(await unseal(codec, cut))


async def test_equal_payloads_are_sealed_differently(tmp_path):
    """Nonces are random, so that equal payloads cannot be told from different ones."""
    codec = SealingCodec(make_ring(tmp_path / "ring"))
    assert len({(await seal(codec, "run")).data for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "run_id",
    [
        "acme=clerk-1",
        "acme=clerk-1/call_7/call_8",
        "desk.clerk:acme@chat",
        "desk.clerk:acme@a=b",
        "desk.clerk:acme@chat/wait/q",
        child_run_id(f"desk.clerk:acme@{'x' * 170}", "c" * 60),
    ],
)
async def test_the_id_of_a_run_says_the_tenant(tmp_path, run_id):
    """A tenant's runs, their child runs and notices get the tenant's key in every process, and others the shared one."""
    path = tmp_path / "ring"
    ring = make_ring(path, "acme", "other")
    own = {key.tenant: key.key_id for key in ring.all_keys()}
    assert key_id_of(await seal(SealingCodec(ring), run_id)) == own["acme"]
    for without in (
        "clerk-1",
        "desk.clerk@chat",
        "desk.clerk@acme=chat",
        "nobody=clerk-1",
        run_id.replace("acme", "acm"),
    ):
        assert key_id_of(await seal(SealingCodec(ring), without)) == own[""]


async def test_a_tenant_with_an_odd_name_has_its_key(tmp_path):
    """A name that no run id can have is a digest there, and the ring finds its key by that."""
    tenant = "Häuser & Söhne"
    ring = make_ring(tmp_path / "ring", tenant)
    run_id = f"{tenant_part(tenant)}=clerk-1"
    assert tenant_in(run_id) == tenant_part(tenant)
    assert key_id_of(await seal(SealingCodec(ring), run_id)) == ring.all_keys()[1].key_id


async def test_a_tenant_is_learned_from_the_run(tmp_path):
    """If an id does not say the tenant, who starts the run says it, and a worker learns it from the input before it writes."""
    make_ring(tmp_path / "ring", "acme")
    starter, worker = (
        converter_with(SealingCodec(KeyRing(tmp_path / "ring"))),
        SealingCodec(KeyRing(tmp_path / "ring")),
    )
    await admit_run(starter, "my-run", "acme")
    codec = starter.payload_codec
    sealed = await seal(codec, "my-run")
    assert key_id_of(await seal(worker, "my-run")) != key_id_of(sealed)
    assert await unseal(worker, sealed, "my-run") == PLAIN
    long = "y" * 180
    await admit_run(starter, long, "acme")
    for run_id in ("my-run", "my-run/call", long, child_run_id(long, "c" * 60)):
        assert key_id_of(await seal(codec, run_id)) == key_id_of(sealed)
    assert key_id_of(await seal(worker, "my-run/call")) == key_id_of(sealed)


async def test_a_tenant_is_looked_up_once(tmp_path):
    """Who writes to a run that it has not read asks for the tenant, once for each run, and again while there is no such run."""
    ring = make_ring(tmp_path / "ring", "acme")
    own = {key.tenant: key.key_id for key in ring.all_keys()}
    codec, asked = SealingCodec(ring), list[str]()

    async def lookup(run_id: str) -> str | None:
        asked.append(run_id)
        return {"mine": "acme", "shared": ""}.get(run_id)

    codec.use_lookup(lookup)
    for run_id, tenant in (
        ("mine", "acme"),
        ("mine/call", "acme"),
        ("shared", ""),
        ("shared", ""),
        ("a.b@c", ""),
        ("acme=1", "acme"),
    ):
        assert key_id_of(await seal(codec, run_id)) == own[tenant]
    assert asked == ["mine", "shared"]
    for _ in range(2):
        assert key_id_of(await seal(codec, "none")) == own[""]
    assert asked == ["mine", "shared", "none", "none"]


async def test_old_keys_read_and_the_newest_active_one_writes(tmp_path):
    """After a rotation what was sealed before opens; a key writes once its time has come, and reads at once."""
    path = tmp_path / "ring"
    ring, reader = make_ring(path), KeyRing(path)
    old = await seal(SealingCodec(ring), "run")
    later = rotate(path, after=timedelta(hours=1))
    assert key_id_of(await seal(SealingCodec(ring), "run")) == key_id_of(old)
    newest = rotate(path)
    new = await seal(SealingCodec(ring), "run")
    assert key_id_of(new) == newest.key_id != later.key_id
    for sealed in (old, new):
        assert await unseal(SealingCodec(reader), sealed, "run") == PLAIN


async def test_an_erased_tenant_is_unreadable_and_harms_no_other(tmp_path):
    """What its key sealed says so, it stores nothing more, and other tenants go on; a new key serves new runs."""
    path = tmp_path / "ring"
    converter = converter_with(SealingCodec(make_ring(path, "acme", "other")))
    codec = converter.payload_codec
    lost, kept = await seal(codec, "acme=1"), await seal(codec, "other=1")
    rotate(path, "acme")
    erased = erase_keys(path, tenant="acme")
    assert len(erased) == 2
    assert not any(key.secret in path.read_text() for key in erased)
    assert f"its key {erased[0].key_id} of the tenant 'acme' was erased on" in str(
        reason_of(await unseal(codec, lost))
    )
    with pytest.raises(UnreadableError, match="was erased on") as raised:
        await converter.decode([lost], [str])
    assert "--codec" not in str(unreadable("acme=1", str(raised.value)))
    with pytest.raises(CodecFailedError, match="keyring create --tenant acme"):
        await seal(codec, "acme=1")
    with pytest.raises(InvalidInput, match="keyring create --tenant acme"):
        await admit_run(converter, "any", "acme")
    assert await unseal(codec, kept, "other=1") == PLAIN
    with pytest.raises(InvalidInput, match="keyring create"):
        rotate(path, "acme")
    add_key(path, new_key("acme"), rotate=False)
    await admit_run(converter, "any", "acme")
    assert await unseal(codec, await seal(codec, "acme=2"), "acme=2") == PLAIN
    assert reason_of(await unseal(codec, lost))


async def test_a_lost_key_is_named(tmp_path):
    """A payload of a key that the ring does not have, or of made-up metadata, is marked with the key's id, and raises nothing."""
    make_ring(tmp_path / "one")
    codec = SealingCodec(make_ring(tmp_path / "two"))
    sealed = await seal(SealingCodec(KeyRing(tmp_path / "one")), "run")
    reason = str(reason_of(await unseal(codec, sealed, "run")))
    assert reason.startswith(f"its key {key_id_of(sealed)} is not in the key ring two")
    odd = Payload(metadata={"encoding": ENCODING, "key": b"\xff\x1b[31m"}, data=os.urandom(200))
    assert "no valid id" in str(reason_of(await unseal(codec, odd)))


async def test_while_the_ring_cannot_be_read_nothing_is_marked(tmp_path):
    """A ring that is away fails the task, which is tried again; once it is back, all opens."""
    path = tmp_path / "ring"
    converter = converter_with(SealingCodec(make_ring(path))).with_context(context("run"))
    sealed = await converter.encode(["the secret"])
    data = path.read_bytes()
    path.unlink()
    with pytest.raises(CodecFailedError):
        await converter.decode(sealed)
    path.write_bytes(data)
    path.chmod(0o600)
    assert await converter.decode(sealed) == ["the secret"]


async def test_a_guarded_converter_checks_the_run(tmp_path):
    """In a run's context an answer that was sealed for another run is undecodable, with a reason."""
    converter = dataclasses.replace(
        converter_with(SealingCodec(make_ring(tmp_path / "ring"))), encrypted_only=True
    )
    sealed = await converter.with_context(context("one")).encode([{"approved": True}])
    (found,) = await converter.with_context(context("two")).decode(sealed)
    assert "another run" in found.reason


@pytest.mark.parametrize("run_id", ["invoice-bob@example.com", "order=17", "other=17", "a.b:other@c"])
async def test_an_id_that_says_another_tenant_is_refused(tmp_path, run_id):
    """A program cannot choose an id for which another key would seal the run; without keys of tenants it may."""
    codec = SealingCodec(make_ring(tmp_path / "ring", "acme", "other"))
    with pytest.raises(InvalidInput, match="choose an id"):
        await codec.admit(run_id, "acme")
    await SealingCodec(make_ring(tmp_path / "plain")).admit(run_id, "acme")


async def test_what_is_for_no_run_opens_in_runs_of_its_tenant(tmp_path):
    """What an operator encodes is for the runs of the own tenant, also of one whose id says nothing; without a key nothing is."""
    codec = SealingCodec(make_ring(tmp_path / "ring", "acme", "other"))
    converter = converter_with(codec)

    async def lookup(run_id: str) -> str | None:
        return {"mine": "acme", "keyless": "new"}.get(run_id, "")

    codec.use_lookup(lookup)
    runs = ("acme=1", "mine", "other=1", "new=1", "keyless", "shared", "a.b@c")
    for tenant, own in (("acme", runs[:2]), ("other", runs[2:3]), ("", runs[3:])):
        (sealed,) = await codec_of_tenant(converter, tenant).encode([PLAIN])
        assert [run_id for run_id in runs if await unseal(codec, sealed, run_id) == PLAIN] == list(own)
    with pytest.raises(CodecFailedError, match="keyring create --tenant new"):
        await codec_of_tenant(converter, "new").encode([PLAIN])


async def test_a_lookup_reads_what_is_for_no_run(tmp_path):
    """A lookup that opens a payload of the same run asks no further."""
    codec = SealingCodec(make_ring(tmp_path / "ring", "acme"))
    (sealed,) = await codec.encode([PLAIN])

    async def lookup(run_id: str) -> str | None:
        return "" if await unseal(codec, sealed, run_id) == PLAIN else None

    codec.use_lookup(lookup)
    assert await unseal(codec, sealed, "run") == PLAIN


async def test_a_run_does_not_open_the_key_of_another_tenant(tmp_path):
    """What another tenant's key sealed for a run is refused; what the shared key sealed is older than the tenant's key."""
    path = tmp_path / "ring"
    codec = SealingCodec(make_ring(path))
    old = await seal(codec, "acme=1")
    for tenant in ("acme", "other"):
        add_key(path, new_key(tenant), rotate=False)
    own, other = [
        (await codec.ring.data_key(codec.ring.writing_key(part))).seal(PLAIN, mark_of_run("acme=1"))
        for part in ("acme", "other")
    ]
    for sealed in (old, own):
        assert await unseal(codec, sealed, "acme=1") == PLAIN
    assert "another tenant" in str(reason_of(await unseal(codec, other, "acme=1")))


async def test_a_child_of_a_long_id_teaches_its_tenant(tmp_path):
    """A worker that has read only a child run, whose id has a digest of the parent, writes with the tenant's key."""
    make_ring(tmp_path / "ring", "acme")
    starter, worker = (SealingCodec(KeyRing(tmp_path / "ring")) for _ in range(2))
    child = child_run_id("y" * 180, "c" * 60)
    await starter.admit("y" * 180, "acme")
    sealed = await seal(starter, child)
    assert await unseal(worker, sealed, child) == PLAIN
    for run_id in (child, f"{child}/call", "y" * 180):
        assert key_id_of(await seal(worker, run_id)) == key_id_of(sealed)


async def test_a_start_that_fails_teaches_nothing(tmp_path):
    """The run that has an id keeps its tenant, whoever tries to start another one; a deleted run's id is free."""
    ring = make_ring(tmp_path / "ring", "acme", "other")
    own = {key.tenant: key.key_id for key in ring.all_keys()}
    codec, runs = SealingCodec(ring), {"order-17": "acme"}

    async def lookup(run_id: str) -> str | None:
        return runs.get(run_id)

    codec.use_lookup(lookup)
    converter = converter_with(codec)
    await admit_run(converter, "order-17", "acme")
    await admit_run(converter, "order-17", "other")
    assert key_id_of(await seal(codec, "order-17")) == own["acme"]
    forget_run(converter, "order-17")
    await admit_run(converter, "order-17", "other")
    forget_run(converter, "order-17")  # its start failed
    assert key_id_of(await seal(codec, "order-17")) == own["acme"]
    runs.clear()
    await admit_run(converter, "order-17", "other")
    assert key_id_of(await seal(codec, "order-17")) == own["other"]


async def test_what_a_schedule_sends_opens_in_its_runs_only(tmp_path):
    """A schedule seals with its tenant's key, whatever its id, for runs with its id and a time, which learn the tenant."""
    path = tmp_path / "ring"
    ring = make_ring(path, "acme", "other")
    converter = converter_with(SealingCodec(ring))
    made = converter_of_schedule(converter, "daily", "acme").with_context(context("daily"))
    (sealed,) = await made.payload_codec.encode([PLAIN])
    assert key_id_of(sealed) == ring.all_keys()[1].key_id
    worker, scheduled = SealingCodec(KeyRing(path)), "daily-2026-11-27T08:00:00Z"
    assert await unseal(worker, sealed) == await unseal(worker, sealed, scheduled) == PLAIN
    assert key_id_of(await seal(worker, scheduled)) == key_id_of(sealed)
    for other in ("daily", "daily2-2026-11-27T08:00:00Z", "daily-1"):
        assert reason_of(await unseal(worker, sealed, other)) == "it was written for another run"
    with pytest.raises(InvalidInput, match="choose an id"):
        converter_of_schedule(converter, "other=daily", "acme")
    erase_keys(path, tenant="acme")
    with pytest.raises(InvalidInput, match="keyring create"):
        converter_of_schedule(converter, "daily", "acme")


async def test_a_run_without_a_key_can_end(tmp_path):
    """A failure of an erased tenant's run is sealed with the shared key, without its text, and nothing else is."""
    path = tmp_path / "ring"
    converter = converter_with(SealingCodec(make_ring(path, "acme"))).with_context(context("acme=1"))
    erase_keys(path, tenant="acme")
    failure = Failure()
    error = ApplicationError("the secret", type="InvalidInput", non_retryable=True)
    await converter.encode_failure(error, failure)
    assert b"secret" not in failure.SerializeToString()
    found = await converter.decode_failure(failure)
    assert isinstance(found, ApplicationError)
    assert (found.type, found.message) == (
        "InvalidInput",
        "the keys of the tenant were erased, and so is this error",
    )
    with pytest.raises(CodecFailedError, match="keyring create --tenant acme"):
        await converter.encode_failure(ApplicationError("the secret", "a detail"), Failure())


async def test_a_note_names_no_other_tenant(tmp_path):
    """Who sends to a run what an erased key of another tenant sealed does not learn the tenant."""
    path = tmp_path / "ring"
    codec = SealingCodec(make_ring(path, "acme"))
    sealed = await seal(codec, "acme=1")
    erase_keys(path, tenant="acme")
    for run_id, is_named in (("acme=1", True), ("", True), ("other=1", False), ("run", False)):
        reason = str(reason_of(await unseal(codec, sealed, run_id)))
        assert reason.startswith(f"its key {key_id_of(sealed)}")
        assert ("acme" in reason) == is_named


async def test_only_a_stored_file_of_nobody_known_is_looked_up(tmp_path):
    """Whose data is known to have no tenant is not asked for; without a word of the tenant the run says it."""
    codec, asked = SealingCodec(make_ring(tmp_path / "ring", "acme")), list[str]()

    async def lookup(run_id: str) -> str | None:
        asked.append(run_id)
        return "acme"

    codec.use_lookup(lookup)
    for tenant in ("", "acme", None):
        stored = codec_for(converter_with(codec), "default", "uploads", tenant=tenant)
        assert stored is not None
        (sealed,) = await stored.encode([PLAIN])
        assert (key_id_of(sealed) == codec.ring.all_keys()[0].key_id) == (tenant == "")
    assert asked == ["uploads"]
