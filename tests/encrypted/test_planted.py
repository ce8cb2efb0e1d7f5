"""400 secrets, planted in runs of every kind, are found nowhere without the keys."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from sojourn import Client, Principal, RunFailed
from sojourn.crypto import KeyRing, SealingCodec
from sojourn.server import Server
from sojourn.storage import FolderStorage
from tests.crypto.ring import make_ring
from tests.encrypted.planted_app import secret
from tests.programs import Command
from tests.telemetry.conftest import opened

ROOT = Path(__file__).parents[2]
MARKS = re.compile(rb"planted-4711-[\w.=@:/-]+")

pytestmark = pytest.mark.usefixtures("processes")


async def play(client: Client, file: Path) -> list[str]:
    """Runs of each kind, one of them of a tenant and one that waits on; returns their ids."""
    acme = Principal(subject="ana", tenant="acme")
    runs = [
        await client.start(
            "vault.worker",
            secret("message"),
            labels={"note": secret("label")},
            attachments=[file],
        ),
        *[await client.start("vault.worker", secret(f"message-{n}"), principal=acme) for n in range(9)],
        await client.start("vault.parent", secret("parent-message"), principal=acme),
    ]
    broken = await client.start("vault.broken", secret("broken-message"))
    talk = client.session("vault.talker", "s-1", principal=acme)
    sent = await talk.send(secret("said"))
    await sent.result()
    await (await talk.edit(sent.message_id, secret("edited"))).result()
    schedule = await client.schedule(
        "vault.talker", secret("scheduled"), cron="0 8 * * 1", session_id="s-2", schedule_id="weekly"
    )
    await schedule.trigger()
    with pytest.raises(RunFailed):
        await broken.result()
    for number, run in enumerate(runs[1:]):
        async for event in run.events(follow=True, children=True):
            if event.type == "await_confirmation":
                await client.get_run(event.run_id).approve(event.confirmation.id, reason=secret("why"))
            if event.type == "await_clarification":
                asked = client.get_run(event.run_id)
                await asked.answer("q", secret(f"person-{number}"))
        await run.result()
    fork = await client.fork(runs[1].id, message=secret("fork"))
    await fork.pause(secret("pause"))
    return [runs[0].id, runs[1].id, runs[-1].id, fork.id, talk.run.id, broken.id]


LOOKS = [
    ("list",), ("list", "--json"), ("list", "--stuck"), ("sessions",), ("cost",), ("doctor",), ("schedule", "list")
]  # fmt: skip


async def output_of(words: tuple[str, ...], folder: Path, environment: dict[str, str]) -> bytes:
    """What a command prints."""
    with open(os.devnull) as nothing:
        process = await Command.start(
            "-m", "sojourn", *words, cwd=folder, env=environment, stdin=nothing.fileno()
        )
    return b"".join(await asyncio.wait_for(process.communicate(), 60))


async def outputs_of(ids: list[str], folder: Path, environment: dict[str, str]) -> bytes:
    """What commands without the ring print of these runs; they write their files to the folder."""
    lines = [*LOOKS, *[(name, run_id) for name in ("show", "export") for run_id in ids[:3]]]
    lines += [("export", run_id, "--history", f"{number}.json") for number, run_id in enumerate(ids)]
    return b"".join(await asyncio.gather(*(output_of(words, folder, environment) for words in lines)))


@pytest.mark.parametrize("is_sealed", [True, False], ids=["sealed", "in clear text"])
async def test_planted_secrets_are_nowhere(tmp_path, is_sealed):
    """With a ring there is no hit in the database, storage, logs, spans and outputs without the ring; without one they are all there."""
    make_ring(tmp_path / "ring", "acme")
    stored, log = tmp_path / "stored", tmp_path / "server.log"
    server = Server(db_filename=tmp_path / "temporal.db", log_filename=log, port=0, ui=False, attach=False)
    async with server:
        environment = {
            "PLANTED_FOLDER": str(stored),
            "PYTHONPATH": str(ROOT),
            "SOJOURN_PUBLIC_URL": "http://127.0.0.1:1",
        }
        ring = {"SOJOURN_KEYRING": str(tmp_path / "ring")} if is_sealed else {}
        async with opened(server.address, tmp_path) as desk:
            await desk.worker(
                "-m",
                "sojourn",
                "worker",
                "tests.encrypted.planted_app:app",
                **environment,
                **ring,
            )
            client = await Client.connect(
                server.address,
                task_queue=desk.client.task_queue,
                codec=SealingCodec(KeyRing(tmp_path / "ring")) if is_sealed else None,
                storage=FolderStorage(stored),
            )
            file = tmp_path / f"{secret('file-name')}.txt"
            file.write_text(secret("file"))
            ids = await play(client, file)
            folder = tmp_path / "outputs"
            folder.mkdir()
            printed = await outputs_of(ids, folder, {**desk.environment, **environment})
            places = {
                "database": b"".join(path.read_bytes() for path in tmp_path.glob("temporal.db*")),
                "storage": b"".join(path.read_bytes() for path in stored.rglob("*") if path.is_file()),
                "outputs": printed
                + b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file()),
                "spans": desk.raw(),
                # A log has the messages of exceptions, which their authors write.
                "logs": b"".join(path.read_bytes() for path in tmp_path.glob("worker-*")) + log.read_bytes(),
            }
            seen = await output_of(("show", ids[1]), tmp_path, {**desk.environment, **environment, **ring})
        hits = {place: set(MARKS.findall(data)) for place, data in places.items()}
    if is_sealed:
        raised = {secret(where).encode() for where in ("error", "attempt", "notice", "crash")}
        assert hits.pop("logs") <= raised
        assert hits.pop("spans") <= raised
        assert hits == {"database": set(), "storage": set(), "outputs": set()}
    else:
        assert len(hits["database"]) > 400
        assert hits["outputs"]
        assert {
            secret(where).encode()
            for where in ("error", "attempt", "answer", "why", "label", "pause", "file-name.txt")
        } <= (hits["database"] | hits["storage"] | hits["outputs"])
    assert secret("question").encode() in seen, (
        "with the ring, or without encryption, a command reads the run"
    )
    assert ids[0].encode() in places["outputs"], "a list needs no key"
    assert all(places.values())
