"""The hub: its bounds, its privacy, and its place."""

import asyncio
import os
import signal
import socket
import stat
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
import structlog

from sojourn.errors import DefinitionError
from sojourn.live import hub as answers_module
from sojourn.live import hub as module
from sojourn.live import unix as unix_module
from sojourn.live.address import NearbyTransport, as_transport
from sojourn.live.hub import CurrentAnswers, serving
from sojourn.live.transport import LocalTransport
from sojourn.live.unix import MAX_FRAME, Frame, UnixTransport, socket_of


@pytest.fixture
async def transport(hub):
    """A transport over the hub."""
    made = UnixTransport(hub.path)
    yield made
    await made.close()


async def test_only_its_user_can_reach_it(hub):
    """The socket and its lock have mode 0600, in a folder of mode 0700; a folder that others can enter is refused."""
    assert stat.S_IMODE(hub.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(f"{hub.path}.lock").stat().st_mode) == 0o600
    open_folder = hub.path.parent / "open"
    open_folder.mkdir()
    open_folder.chmod(0o755)
    with pytest.raises(PermissionError, match="only you can enter"):
        async with serving(f"unix://{open_folder}/hub.sock"):
            pass
    assert list(open_folder.iterdir()) == []


async def test_a_socket_that_others_can_replace_is_not_used(hub, transport, delta):
    """Nothing is sent to a hub in a folder that other users can enter."""
    hub.path.parent.chmod(0o777)
    assert not await transport.publish("ns/r", [delta("a")])
    hub.path.parent.chmod(0o700)


async def test_a_folder_is_made_private(hub):
    """A folder that does not exist yet is made, with mode 0700."""
    made = hub.path.parent / "a" / "b"
    async with serving(f"unix://{made}/hub.sock"):
        assert [stat.S_IMODE(each.stat().st_mode) for each in (made, made.parent)] == [0o700, 0o700]


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED") or os.getuid() != 0, reason="needs root of Linux")
async def test_another_user_is_turned_away(hub, transport, delta):
    """A process of another user gets nothing, even if the modes let it connect."""
    await transport.publish("ns/r", [delta("secret")])
    hub.path.chmod(0o777)
    hub.path.parent.chmod(0o755)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        got = b"?"
        try:
            os.setuid(65534)
            with socket.socket(socket.AF_UNIX) as other:
                other.connect(str(hub.path))
                other.sendall(Frame(topic="ns/r").line())
                got = other.recv(1000) or b"nothing"
        except ConnectionError:
            got = b"nothing"
        finally:
            os.write(writing, got)
            os._exit(0)
    os.close(writing)
    assert await asyncio.to_thread(os.read, reading, 1000) == b"nothing"
    os.close(reading)
    os.waitpid(child, 0)


async def test_lines_that_break_the_rules_end_only_their_connection(hub, transport, delta, first):
    """A line that is no frame, or is too long, ends its connection, while others go on."""
    for line in (
        b"{}\n",
        b"\xff\xfe\n",
        b"GET / HTTP/1.1\r\n",
        b"x" * (2 * MAX_FRAME),
        b"[" * 100_000 + b"\n",
    ):
        reader, writer = await asyncio.open_unix_connection(hub.path)
        writer.write(line)
        with suppress(ConnectionError):  # the hub may close the connection before it has read everything
            assert await reader.read() == b""
        writer.transport.abort()
    await transport.publish("ns/r", [delta("a")])
    async with aclosing(transport.subscribe("ns/r")) as subscription:
        assert [each.text for each in await first(subscription, 1)] == ["a"]


async def test_a_delta_that_is_too_large_is_not_sent(transport, delta):
    """A delta above the bound of a line is refused, and the transport stays usable."""
    assert not await transport.publish("ns/r", [delta("x", tool_name="t" * MAX_FRAME)])
    assert await transport.publish("ns/r", [delta("a")])


async def test_lines_of_a_foreign_hub_that_are_no_deltas_are_ignored(hub, delta, first):
    """A subscriber skips lines that are no frames, and reads on."""

    async def answer(reader, writer):
        await reader.readline()
        writer.write(b"{}\nnonsense\n" + Frame(topic="ns/r", delta=delta("a")).line())
        await writer.drain()
        writer.close()

    path = hub.path.parent / "other.sock"
    server = await asyncio.start_unix_server(answer, path)
    async with aclosing(UnixTransport(path).subscribe("ns/r")) as subscription:
        assert [each.text for each in await first(subscription, 1)] == ["a"]
    server.close()


async def test_a_subscriber_that_never_reads_is_dropped(tmp_path, hub, delta, monkeypatch, until):
    """A subscriber whose buffers are full is disconnected, and until then holds no more than they do."""
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    path = hub.path.parent / "own.sock"
    async with serving(f"unix://{path}"):
        with socket.socket(socket.AF_UNIX) as stuck:
            stuck.connect(str(path))
            stuck.sendall(Frame(topic="ns/r").line())
            transport = UnixTransport(path)
            for number in range(1000):
                assert await transport.publish("ns/r", [delta("x" * 8000, seq=number)])
            stuck.setblocking(False)
            received = 0

            def has_ended() -> bool:
                nonlocal received
                try:
                    new = stuck.recv(1_000_000)
                except BlockingIOError:
                    return False
                except ConnectionError:
                    return True
                received += len(new)
                return not new

            await asyncio.sleep(0.1)  # longer than the patience
            await until(has_ended)
            assert received < 4_000_000
        await transport.close()


async def test_a_hub_that_stands_still_delays_nothing(hub, transport, delta, monkeypatch):
    """While the hub is stopped, publishing gives up, and after it continues the transport works again."""
    monkeypatch.setattr(unix_module, "PATIENCE", 0.1)
    monkeypatch.setattr(unix_module, "PAUSE", 0.0)
    hub.signal(signal.SIGSTOP)
    sent = 0
    while await transport.publish("ns/r", [delta("x" * 8000, seq=sent)]):
        sent += 1
        assert sent < 1000
    monkeypatch.setattr(unix_module, "PATIENCE", 60.0)
    hub.signal(signal.SIGCONT)
    assert await transport.publish("ns/r", [delta("again")])


async def test_too_many_connections_are_closed(hub, monkeypatch):
    """Connections above the bound are closed at once, and a place is free again when one ends."""
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 2)
    path = hub.path.parent / "own.sock"
    async with serving(f"unix://{path}"):
        held = [await asyncio.open_unix_connection(path) for _ in range(2)]
        reader, writer = await asyncio.open_unix_connection(path)
        assert await reader.read() == b""
        writer.close()
        for _, writer in held:
            writer.close()


async def test_a_second_hub_takes_the_place_of_the_first(hub, transport, delta, first):
    """A hub at a path that is taken waits; when the first is killed it serves, and a subscriber finds it by itself."""
    async with serving(hub.url), aclosing(transport.subscribe("ns/r")) as subscription:
        await transport.publish("ns/r", [delta("a")])
        assert [each.text for each in await first(subscription, 1)] == ["a"]
        hub.kill()
        async with asyncio.timeout(60):
            while not await transport.publish("ns/r", [delta("b", plan=2)]):
                await asyncio.sleep(0.02)
        assert [each.text for each in await first(subscription, 1)] == ["b"]
    assert not hub.path.exists()


async def test_nothing_but_a_socket_is_replaced(hub):
    """A file at the path is left as it is, and refused."""
    path = hub.path.parent / "notes.txt"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="not a socket"):
        async with serving(f"unix://{path}"):
            pass
    assert path.read_text() == "mine"


def test_answers_are_bounded(delta, monkeypatch):
    """Each answer has bounds, and above those of all the one that has not grown for longest is forgotten."""
    monkeypatch.setattr(answers_module, "MAX_DELTAS", 3)
    monkeypatch.setattr(answers_module, "MAX_BYTES", 2_000)
    monkeypatch.setattr(answers_module, "MAX_TOTAL", 3_000)
    kept = CurrentAnswers()
    for seq in range(5):
        kept.add("a", delta("x", seq=seq), b"x")
    assert len(kept.get("a").lines) == 3
    for seq in range(5):
        kept.add("b", delta("x", seq=seq), b"x" * 500)
    assert len(kept.get("b").lines) == 2
    kept.add("a", delta("y", plan=2), b"y")
    assert kept.get("a").lines == [b"y"]
    kept.add("c", delta("x"), b"x" * 1_500)
    assert (kept.get("b"), kept.get("a").lines, len(kept.get("c").lines)) == (None, [b"y"], 1)
    kept.add("a", delta("late"), b"late")
    assert kept.get("a").lines == [b"y"]


def test_answers_expire(delta, monkeypatch):
    """An answer that has not grown for 15 minutes is forgotten with the next delta of any run."""
    kept = CurrentAnswers()
    kept.add("a", delta("x"), b"x")
    now = answers_module.time.monotonic()
    monkeypatch.setattr(answers_module.time, "monotonic", lambda: now + 901)
    kept.add("b", delta("x"), b"x")
    assert kept.get("a") is None
    assert kept.get("b") is not None


@pytest.mark.parametrize(
    ("server", "port"),
    [
        ("localhost:7233", 7233),
        ("127.0.0.1:1", 1),
        ("[::1]:9", 9),
        ("temporal:7233", None),
        ("127.0.0.1", None),
    ],
)
def test_the_socket_of_a_server(server, port, tmp_path, monkeypatch):
    """A server of this machine has a socket named by its port; any other has none."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
    path = socket_of(server)
    assert (path and path.name) == (port and f"live-{port}.sock")


def test_the_runtime_folder(monkeypatch, hub):
    """The user's runtime folder is used if it is private and short enough, else one of the user below /tmp."""
    folder = hub.path.parent
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    assert socket_of("localhost:7") == folder / "sojourn" / "live-7.sock"
    folder.chmod(0o755)
    assert folder not in socket_of("localhost:7").parents
    long = folder / ("x" * 80)
    long.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    assert len(os.fsencode(socket_of("localhost:65535"))) <= 100
    assert long not in socket_of("localhost:7").parents


@pytest.mark.parametrize("url", ["unix://hub.sock", "unix:///" + "x" * 100, "unix:///a\0b", "http://a"])
def test_an_address_that_cannot_be_used_is_refused(url):
    """A relative or overlong path is a fault of the declaration."""
    with pytest.raises(DefinitionError, match="SOJOURN_LIVE"):
        as_transport(url)


async def test_a_client_without_a_setting_reads_its_process_and_the_hub(
    hub, transport, delta, first, monkeypatch
):
    """Deltas of workers in the process and of `dev` reach the client; without a hub nothing is logged."""
    monkeypatch.setattr(unix_module, "RETRY", 0.01)
    local = LocalTransport()
    nearby = NearbyTransport(local, UnixTransport(hub.path, is_expected=False))
    hub.kill()
    with structlog.testing.capture_logs() as logs:
        async with aclosing(nearby.subscribe("ns/r")) as subscription:
            reading = asyncio.ensure_future(first(subscription, 1))
            while not nearby.is_wanted("ns/r"):
                await asyncio.sleep(0)
            assert await nearby.publish("ns/r", [delta("near")])
            assert [each.text for each in await reading] == ["near"]
            await hub.start()
            assert await transport.publish("ns/r", [delta("far", plan=2)])
            assert [each.text for each in await first(subscription, 1)] == ["far"]
    assert logs == []
    assert not nearby.is_wanted("ns/r")
