"""No error and no log holds the secrets of the settings: keys, certificates and metadata."""

import os
import time
import uuid

import pytest

from tests.programs import Program

pytestmark = pytest.mark.usefixtures("processes")

TOML = """
[profile.default]
address = "127.0.0.1:{port}"
namespace = "seen-namespace"
api_key = "{secret}"
[profile.default.grpc_meta]
authorization = "Bearer {secret}"
"""
PATIENCE = 60.0
"""Seconds until a command that does not end is a failure."""

APP = "from sojourn import *\nasync def plan(turn): ...\napp = App(agents=[Agent('a.b', planner=plan)])"


@pytest.fixture
def ended(tmp_path):
    """Run a command at level debug with these settings, and return all that it prints before it waits for a server."""
    (tmp_path / "some_app.py").write_text(APP)

    def run(*arguments: str, **settings: str) -> str:
        printed = tmp_path / "printed"
        others = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
        env = {**others, "SOJOURN_LOG_LEVEL": "debug", "SOJOURN_LOG_FORMAT": "json", **settings}
        process = Program("-m", "sojourn", *arguments, cwd=tmp_path, env=env, out=printed, err=printed)
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None:
            assert time.monotonic() < deadline, printed.read_text()
            if "waiting_for_server" in printed.read_text():
                process.terminate()
            time.sleep(0.01)
        return printed.read_text()

    return run


@pytest.mark.parametrize(
    "command", [["worker", "some_app:app"], ["run", "a.b", "hello"]], ids=["worker", "run"]
)
@pytest.mark.parametrize(
    "settings",
    [
        {"TEMPORAL_API_KEY": "SECRET"},
        {"TEMPORAL_API_KEY": "SECRET\nSECRET"},
        {
            "TEMPORAL_TLS": "true",
            "TEMPORAL_TLS_CLIENT_KEY_DATA": "SECRET",
            "TEMPORAL_TLS_CLIENT_CERT_DATA": "x",
        },
        {"TEMPORAL_TLS": "true", "TEMPORAL_TLS_SERVER_CA_CERT_DATA": "-----BEGIN CERTIFICATE-----\nSECRET"},
        {"TEMPORAL_GRPC_META_AUTHORIZATION": "Bearer SECRET"},
        {"TEMPORAL_GRPC_META_AUTHORIZATION": "Bearer SECRET\n"},
    ],
    ids=["key", "bad key", "tls key", "ca", "metadata", "bad metadata"],
)
def test_no_secret_setting_is_printed(command, settings, ended):
    """A key, a certificate or metadata, valid or not, is never printed; the server's address or the fault is."""
    secret = f"sek-{uuid.uuid4().hex}"
    given = {name: value.replace("SECRET", secret) for name, value in settings.items()}
    printed = ended(*command, TEMPORAL_ADDRESS="127.0.0.1:1", **given)
    reasons = ("127.0.0.1:1", "the Temporal settings cannot be read", "certificate")
    assert any(each in printed for each in reasons)
    assert secret not in printed


@pytest.mark.parametrize(
    "end",
    ["", "\n[broken", 'authorization = "{secret}"', 'x = "{secret}'],
    ids=["good", "broken", "twice", "open"],
)
def test_no_text_of_a_profile_is_printed(end, ended, tmp_path):
    """A settings file that cannot be read is reported without its text."""
    secret = f"sek-{uuid.uuid4().hex}"
    file = tmp_path / "temporal.toml"
    file.write_text(TOML.format(port=1, secret=secret) + end.format(secret=secret))
    printed = ended("run", "a.b", "hello", TEMPORAL_CONFIG_FILE=str(file))
    reasons = ("127.0.0.1:1", "the Temporal settings cannot be read", "certificate")
    assert any(each in printed for each in reasons)
    assert secret not in printed
