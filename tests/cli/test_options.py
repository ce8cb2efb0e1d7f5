"""Options and arguments of several commands: the codec of encrypted runs, and the completion of run ids."""

import shlex
from pathlib import Path

from cryptography.fernet import Fernet

from tests.encrypted.keys import FernetCodec

ROOT = Path(__file__).parents[2]


async def test_commands_need_the_codec_to_read_a_run(
    serve, desk, temporal_address, command, status_when, tmp_path
):
    """With `--codec` or `SOJOURN_CODEC` every command reads an encrypted run; without it only `list` works, and nothing is written."""
    key = Fernet.generate_key()
    client = await serve(desk.app, codec=FernetCodec(key), encrypted_only=True)
    run = await client.start("desk.clerk", "ask")
    await status_when(run, lambda status: status.awaits)
    blind = {
        "TEMPORAL_ADDRESS": temporal_address,
        "SOJOURN_TASK_QUEUE": client.task_queue,
        "PYTHONPATH": str(ROOT),
    }
    for arguments in (
        ("show", run.id),
        ("show", run.id, "--transcript"),
        ("watch", run.id),
        ("export", run.id),
    ):
        done = await command(*arguments, env=blind, cwd=tmp_path)
        assert (done.code, "cannot be read here" in done.err) == (1, True), (arguments, done)
        assert "Client" not in done.err
    assert not (tmp_path / run.id).exists()
    listed = await command("list", "--agent", "desk.clerk", "--json", env=blind)
    assert run.id in {one["run_id"] for one in listed.objects}

    seeing = {**blind, "TEST_KEY": key.decode()}
    codec = ("--codec", "tests.encrypted.keys:codec")
    shown = await command("show", run.id, *codec, env=seeing)
    assert shown.code == 0, shown.err
    assert f"sojourn answer {run.id} " in shown.out
    assert f" {' '.join(codec)}" in shown.out  # the printed command can be pasted as it is
    answered = await command("answer", run.id, "blue", env={**seeing, "SOJOURN_CODEC": codec[1]})
    assert answered.code == 0, answered.err
    exported = await command("export", run.id, *codec, "--out", str(tmp_path / "out"), env=seeing)
    assert exported.code == 0, exported.err
    assert "blue" in (tmp_path / "out" / "transcript.jsonl").read_text()
    wrong = await command("show", run.id, *codec, env={**seeing, "TEST_KEY": Fernet.generate_key().decode()})
    assert (wrong.code, "cannot be decrypted" in wrong.err) == (1, True), wrong
    nowhere = await command("show", run.id, "--codec", "nowhere:codec", env=seeing)
    assert nowhere.code == 2
    unknown = await command("show", run.id, "--codec", "tests.encrypted.keys:nope", env=seeing)
    assert (unknown.code, "keys:nope: there is no such codec; name a PayloadCodec" in unknown.err) == (
        2,
        True,
    )


async def test_run_ids_are_completed(served, until):
    """The shell is offered the ids of the namespace's runs that begin with the word; none without a server."""
    run = await served.waiting("ask")
    words = {
        "_SOJOURN_COMPLETE": "complete_bash",
        "COMP_WORDS": f"sojourn answer {run.id[:-2]}",
        "COMP_CWORD": "2",
    }

    async def is_offered() -> bool:
        done = await served.command(env={**served.env, **words})
        assert (done.code, done.err) == (0, "")
        return run.id in done.out.split()

    await until(is_offered)
    no_server = await served.command(env={**words, "TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert (no_server.code, no_server.out.strip(), no_server.err) == (0, "", "")


async def test_the_server_is_chosen_by_options(served):
    """`--address`, `--namespace` and `--task-queue` need no variable; printed command lines repeat those of the server, quoted."""
    address, queue = served.env["TEMPORAL_ADDRESS"], served.env["SOJOURN_TASK_QUEUE"]
    server = ("--address", address, "--namespace", "default")
    wrong = {"TEMPORAL_ADDRESS": "127.0.0.1:1", "SOJOURN_TASK_QUEUE": "nobody"}
    done = await served.command("run", "desk.clerk", "ask", *server, "--task-queue", queue, env=wrong)
    assert done.code == 4, done.err
    line = next(line for line in done.out.splitlines() if line.startswith("waiting; answer with: sojourn "))
    assert line.endswith(f" 'YOUR ANSWER' {' '.join(server)}")
    words = shlex.split(line.removeprefix("waiting; answer with: sojourn "))
    assert (await served.command(*words, env=wrong)).code == 0
    odd = await served.command("list", "--address", "no host", "--namespace", "x", env=wrong)
    assert (odd.code, "'no host' is not an address" in odd.err) == (2, True), odd.err
