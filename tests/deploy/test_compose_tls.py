"""deploy/compose/tls.yml: what it adds to docker-compose.yml, and that each client of Temporal has a certificate."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.test_compose import COMMAND, COMPOSE, needs_compose

ROOT = Path(__file__).parents[2]
TLS: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose" / "tls.yml").read_text())
CLIENTS = {"gateway", "http", "temporal-namespace", "temporal-ui"}
"""The services of compose that reach Temporal."""


def test_every_client_of_temporal_has_a_certificate_and_no_key_but_its_own() -> None:
    """What shares a network with Temporal has the client's pair, Temporal its own, workers none, and the CA's key none."""
    services = COMPOSE["services"]
    reached = set(services["temporal"]["networks"])
    clients = {
        name for name, each in services.items() if name != "temporal" and reached & set(each["networks"])
    }
    assert clients - {"postgres", "temporal-schema"} == CLIENTS
    secrets = {name: set(each["secrets"]) for name, each in TLS["services"].items()}
    client = {"ca.pem", "client.pem", "client.key"}
    assert secrets == {"temporal": {"ca.pem", "server.pem", "server.key"}, **dict.fromkeys(CLIENTS, client)}
    assert TLS["secrets"].keys() == set().union(*secrets.values())
    for name, each in TLS["services"].items():
        places = {value for value in each.get("environment", {}).values() if value.startswith("/run/")}
        assert places <= {f"/run/secrets/{secret}" for secret in secrets[name]}
    assert TLS["services"]["temporal"]["environment"]["TEMPORAL_TLS_REQUIRE_CLIENT_AUTH"] == "true"


def test_the_gateway_is_the_same_but_for_tls() -> None:
    """It lets through what the plain one does, and checks that it speaks to Temporal."""
    plain, secure = (each["configs"]["gateway"]["content"].splitlines() for each in (COMPOSE, TLS))
    added = [line.strip() for line in secure if line.strip().startswith("grpc_ssl_")]
    assert [line.replace("grpcs:", "grpc:") for line in secure if line.strip() not in added] == plain
    assert "\n".join(secure).count("grpc_pass") == "\n".join(secure).count("grpc_pass grpcs:") > 0
    assert {"grpc_ssl_verify on;", "grpc_ssl_name temporal;"} <= set(added)


@pytest.mark.usefixtures("processes")
@needs_compose
def test_compose_accepts_both_files(tmp_path: Path) -> None:
    """Merged, the worker's service is unchanged, and the others keep what the first file has of them."""
    assert COMMAND is not None
    files = ("--file", "docker-compose.yml", "--file", "deploy/compose/tls.yml")
    for name in TLS["secrets"]:
        (tmp_path / name).touch()
    command = [*COMMAND, "--env-file", ".env.example", "--profile", "http", *files, "config"]
    environment = {**os.environ, "SOJOURN_CERTS": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    merged = yaml.safe_load(done.stdout)
    assert "secrets" not in merged["services"]["worker"]
    for name in TLS["services"]:
        assert merged["services"][name]["read_only"] is True
        assert {each["source"] for each in merged["services"][name]["secrets"]} <= TLS["secrets"].keys()
    assert merged["services"]["http"]["environment"]["TEMPORAL_ADDRESS"] == "temporal:7233"
    assert "grpcs:" in merged["configs"]["gateway"]["content"]
