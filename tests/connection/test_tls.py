"""TLS faults are told as what they are: a server that cannot be trusted is there, and another one is no help."""

import socket

import pytest

from sojourn import Client, DefinitionError, ServerUnavailable

from .tls import Authority, listening

PAIR = ("TEMPORAL_TLS_CLIENT_CERT_PATH", "TEMPORAL_TLS_CLIENT_KEY_PATH")
CA = "TEMPORAL_TLS_SERVER_CA_CERT_PATH"


@pytest.fixture
def settings(monkeypatch):
    """Set Temporal's own variables."""

    def set_(**values) -> None:
        monkeypatch.setenv("TEMPORAL_TLS", "true")
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))

    return set_


@pytest.fixture
def ours(tmp_path):
    """The CA that everybody trusts."""
    return Authority(tmp_path, "ours")


async def refused(address: str) -> str:
    """Why there is no connection."""
    with pytest.raises(ServerUnavailable) as caught:
        await Client.connect(address)
    said = str(caught.value)
    assert address in said
    assert "sojourn server" not in said
    assert "no Temporal server answers" not in said
    return said


async def test_a_trusted_server_is_connected_to(temporal_address, ours, settings):
    """With its CA, its name and a client certificate; else the cases below would prove nothing."""
    mine = ours.certificate("mine")
    settings(**{CA: ours.path, PAIR[0]: mine, PAIR[1]: mine})
    certificate = ours.certificate("server")
    async with listening(temporal_address, certificate, clients_of=ours.path) as address:
        client = await Client.connect(address)
        assert [run async for run in client.list_runs(agent_id="no.such")] == []


@pytest.mark.parametrize("trusts", ["others", "nobody named"])
async def test_a_server_signed_by_nobody_trusted(trusts, temporal_address, ours, settings, tmp_path):
    """The setting that names its CA is named."""
    settings(**({CA: Authority(tmp_path, "theirs").path} if trusts == "others" else {}))
    async with listening(temporal_address, ours.certificate("server")) as address:
        assert f"does not trust the signer of its certificate; set {CA}" in await refused(address)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"days": -1}, "its certificate has expired"),
        ({"host": "temporal.example"}, "is for another name; set TEMPORAL_TLS_SERVER_NAME"),
        ({"host": "10.0.0.1"}, "is for another name; set TEMPORAL_TLS_SERVER_NAME"),
    ],
    ids=["expired", "other name", "other address"],
)
async def test_a_certificate_that_does_not_hold(made, said, temporal_address, ours, settings):
    """Too old, or for somebody else."""
    settings(**{CA: ours.path})
    async with listening(temporal_address, ours.certificate("server", **made)) as address:
        assert said in await refused(address)


async def test_a_server_without_tls(temporal_address, settings):
    """Spoken to with TLS, which it does not know."""
    settings()
    assert "it does not use TLS" in await refused(temporal_address)


async def test_a_server_with_tls_is_spoken_to_without(temporal_address, ours):
    """It looks as if nothing answered: that it speaks TLS is asked of it."""
    async with listening(temporal_address, ours.certificate("server")) as address:
        assert "it requires TLS; set TEMPORAL_TLS=true" in await refused(address)


@pytest.mark.parametrize("shows", ["none", "another's"])
async def test_a_server_that_wants_a_certificate(shows, temporal_address, ours, settings, tmp_path):
    """It hangs up after the handshake, and says little."""
    values = {CA: ours.path}
    if shows == "another's":
        values |= dict.fromkeys(PAIR, Authority(tmp_path, "theirs").certificate("stranger"))
    settings(**values)
    certificate = ours.certificate("server")
    async with listening(temporal_address, certificate, clients_of=ours.path) as address:
        assert f"wants another client certificate; set {' and '.join(PAIR)}" in await refused(address)


async def test_a_client_certificate_that_is_none(temporal_address, ours, settings, tmp_path):
    """A setting that is wrong, whatever the server."""
    none = tmp_path / "none.pem"
    none.write_text("not a certificate")
    settings(**{CA: ours.path, PAIR[0]: none, PAIR[1]: none})
    async with listening(temporal_address, ours.certificate("server")) as address:
        with pytest.raises(DefinitionError, match="client certificate or its key cannot be read"):
            await Client.connect(address)


async def test_where_nothing_answers_a_server_is_offered():
    """TLS or not, an address where nobody is says so."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ServerUnavailable, match=r"no Temporal server answers at .*`sojourn server`"):
            await Client.connect(address)
