"""TLS faults: the error says what is wrong with TLS, and does not suggest to start another server."""

import socket

import pytest

from sojourn import Client
from sojourn.errors import DefinitionError, ServerUnavailable

from .tls import Authority, listening

PAIR = ("TEMPORAL_TLS_CLIENT_CERT_PATH", "TEMPORAL_TLS_CLIENT_KEY_PATH")
CA = "TEMPORAL_TLS_SERVER_CA_CERT_PATH"


@pytest.fixture
def settings(monkeypatch):
    """Set environment variables of Temporal's TLS configuration."""

    def set_(**values) -> None:
        monkeypatch.setenv("TEMPORAL_TLS", "true")
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))

    return set_


@pytest.fixture
def ours(tmp_path):
    """The CA of the server and of its clients."""
    return Authority(tmp_path, "ours")


async def refused(address: str) -> str:
    """The message of the error of a failed connection."""
    with pytest.raises(ServerUnavailable) as caught:
        await Client.connect(address)
    message = str(caught.value)
    assert address in message
    assert "sojourn server" not in message
    assert "no Temporal server answers" not in message
    return message


async def test_a_trusted_server_is_connected_to(temporal_address, ours, settings):
    """With the right CA and a client certificate there is a connection: the tests below can fail."""
    mine = ours.certificate("mine")
    settings(**{CA: ours.path, PAIR[0]: mine, PAIR[1]: mine})
    certificate = ours.certificate("server")
    async with listening(temporal_address, certificate, clients_of=ours.path) as address:
        client = await Client.connect(address)
        assert [run async for run in client.list_runs(agent_id="no.such")] == []


@pytest.mark.parametrize("trusts", ["others", "nobody named"])
async def test_a_server_certificate_of_an_untrusted_ca(trusts, temporal_address, ours, settings, tmp_path):
    """The error names the setting for the CA certificate."""
    settings(**({CA: Authority(tmp_path, "theirs").path} if trusts == "others" else {}))
    async with listening(temporal_address, ours.certificate("server")) as address:
        assert f"does not trust the signer of its certificate; set {CA}" in await refused(address)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"days": -1}, "its certificate has expired"),
        ({"host": "temporal.example"}, "is for another name; set TEMPORAL_TLS_SERVER_NAME"),
        ({"host": "10.0.0.1"}, "is for another name; set TEMPORAL_TLS_SERVER_NAME"),
    ],
    ids=["expired", "other name", "other address"],
)
async def test_a_server_certificate_that_is_not_valid(made, message, temporal_address, ours, settings):
    """The error says whether the certificate has expired, or is for another name."""
    settings(**{CA: ours.path})
    async with listening(temporal_address, ours.certificate("server", **made)) as address:
        assert message in await refused(address)


async def test_a_server_without_tls(temporal_address, settings):
    """A TLS connection to a server without TLS fails with an error that says so."""
    settings()
    assert "it does not use TLS" in await refused(temporal_address)


async def test_a_plain_connection_to_a_server_with_tls(temporal_address, ours):
    """A plain connection to a TLS server fails as if nothing answered; the client probes for TLS to tell the cause."""
    async with listening(temporal_address, ours.certificate("server")) as address:
        assert "it requires TLS; set TEMPORAL_TLS=true" in await refused(address)


@pytest.mark.parametrize("shows", ["none", "another's"])
async def test_a_server_that_wants_a_certificate(shows, temporal_address, ours, settings, tmp_path):
    """A server that refuses the client certificate hangs up after the handshake; the error names the settings."""
    values = {CA: ours.path}
    if shows == "another's":
        values |= dict.fromkeys(PAIR, Authority(tmp_path, "theirs").certificate("stranger"))
    settings(**values)
    certificate = ours.certificate("server")
    async with listening(temporal_address, certificate, clients_of=ours.path) as address:
        assert f"wants another client certificate; set {' and '.join(PAIR)}" in await refused(address)


async def test_a_client_certificate_that_cannot_be_read(temporal_address, ours, settings, tmp_path):
    """A client certificate that cannot be read is a `DefinitionError`, whatever the server."""
    none = tmp_path / "none.pem"
    none.write_text("not a certificate")
    settings(**{CA: ours.path, PAIR[0]: none, PAIR[1]: none})
    async with listening(temporal_address, ours.certificate("server")) as address:
        with pytest.raises(DefinitionError, match="client certificate or its key cannot be read"):
            await Client.connect(address)


async def test_where_nothing_answers_a_server_is_offered():
    """The error for an address where nothing listens says so, and how to start a server."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ServerUnavailable, match=r"no Temporal server answers at .*`sojourn server`"):
            await Client.connect(address)
