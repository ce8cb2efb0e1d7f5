"""docker-compose.yml: its ports, secrets, networks, limits and versions, checked without starting it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from sojourn.checks.application import MODEL_VARIABLES
from sojourn.cli.commands.serve import VARIABLES
from sojourn.search_attributes import NAMES
from sojourn.server import DYNAMIC_CONFIG

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONCE = {name for name, service in SERVICES.items() if service["restart"].startswith("on-failure")}
LONG_RUNNING = sorted(SERVICES.keys() - ONCE)
SECRET = re.compile(r"PASS|PWD|SECRET|TOKEN|KEY", re.IGNORECASE)


def compose_command() -> list[str] | None:
    """Return the command that is compose v2 here, if there is one."""
    if named := os.environ.get("SOJOURN_COMPOSE"):
        return shlex.split(named)
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is None:
            continue
        asked = subprocess.run([*command, "version", "--short"], check=False, capture_output=True, text=True)
        if asked.returncode == 0 and asked.stdout.lstrip("v").startswith("2."):
            return command
    return None


COMMAND = compose_command()
needs_compose = pytest.mark.skipif(
    COMMAND is None, reason="no compose v2 here; docs/deploy.md says how to get it"
)


PUBLISHED = {"temporal": ["7233"], "temporal-ui": ["8080"], "http": ["8460"], "redis": ["6379"]}


def test_ports_are_open_to_this_machine_only(subtests: pytest.Subtests) -> None:
    """Temporal has no password of its own: only these ports are published, on the loopback interface."""
    for name, service in SERVICES.items():
        with subtests.test(name=name):
            ports = [f"127.0.0.1:{port}:{port}" for port in PUBLISHED.get(name, [])]
            assert service.get("ports", []) == ports
            assert "network_mode" not in service


def test_secrets_come_from_the_environment() -> None:
    """No secret is in the file: the database's password is required, and API keys are passed to the worker if they are set."""
    secret = {
        (name, variable): value
        for name, service in SERVICES.items()
        for variable, value in service.get("environment", {}).items()
        if SECRET.search(variable)
    }
    given = {place: value for place, value in secret.items() if value is not None}
    assert given.keys() == {
        ("postgres", "POSTGRES_PASSWORD"),
        ("temporal-schema", "SQL_PASSWORD"),
        ("temporal", "POSTGRES_PWD"),
    }
    assert {re.sub(r":\?.*\.env.*\}$", ":?}", value) for value in given.values()} == {
        "${POSTGRES_PASSWORD:?}"
    }
    assert {name for name, _ in secret.keys() - given.keys()} == {"worker"}


NEIGHBOURS = {
    "postgres": {"temporal", "temporal-schema"},
    "worker": {"gateway", "redis"},
    "http": {"gateway", "redis", "temporal", "temporal-namespace", "temporal-ui"},
    "redis": {"gateway", "http", "worker"},
    "gateway": {"http", "worker", "redis", "temporal", "temporal-namespace", "temporal-ui"},
    "temporal-ui": {"gateway", "http", "temporal", "temporal-namespace"},
}


def test_a_service_reaches_these_and_no_others(subtests: pytest.Subtests) -> None:
    """A tool runs in the worker: the database, the UI, the HTTP service and Temporal's own ports are out of its reach."""
    for name, neighbours in NEIGHBOURS.items():
        with subtests.test(name=name):
            own = set(SERVICES[name]["networks"])
            reached = {other for other, service in SERVICES.items() if own & set(service["networks"])} - {
                name
            }
            assert reached == neighbours
            assert {network for service in SERVICES.values() for network in service["networks"]} == set(
                COMPOSE["networks"]
            )
            assert COMPOSE["networks"]["database"]["internal"] is True
            assert SERVICES["worker"]["environment"]["TEMPORAL_ADDRESS"] == "gateway:7233"


def test_every_service_is_hardened_and_bounded(subtests: pytest.Subtests) -> None:
    """No service may change its files, gain privileges, or take all of the machine."""
    for name, service in SERVICES.items():
        with subtests.test(name=name):
            assert service["read_only"] is True
            assert "/tmp" in service["tmpfs"]
            assert service["cap_drop"] == ["ALL"]
            assert "cap_add" not in service
            assert "privileged" not in service
            assert service["security_opt"] == ["no-new-privileges:true"]
            assert service["logging"]["options"].keys() == {"max-size", "max-file"}
            limits = service["deploy"]["resources"]["limits"]
            assert 0 < float(limits["cpus"]) <= 2
            assert re.fullmatch(r"\d+[mg]", limits["memory"])
            assert 0 < limits["pids"] <= 1024


def test_a_long_running_service_has_a_health_check_and_is_restarted(subtests: pytest.Subtests) -> None:
    """A service that hangs is detected, and a service that ends is restarted."""
    for name in LONG_RUNNING:
        with subtests.test(name=name):
            if name == "worker":
                assert re.search(
                    r"^HEALTHCHECK .*CMD \[", (ROOT / "Dockerfile").read_text(), re.MULTILINE | re.DOTALL
                )
            else:
                assert SERVICES[name]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
            assert SERVICES[name]["restart"] == "unless-stopped"


NEEDS = {
    "postgres": set[str](),
    "temporal-schema": {"postgres"},
    "temporal": {"temporal-schema"},
    "temporal-namespace": {"temporal"},
    "temporal-ui": {"temporal"},
    "gateway": {"temporal"},
    "worker": {"gateway", "temporal-namespace"},
    "http": {"temporal", "temporal-namespace"},
    "redis": set[str](),
}


def test_nothing_starts_before_what_it_needs_is_ready(subtests: pytest.Subtests) -> None:
    """Each service waits until those that it needs are healthy, or, if they run once, have completed."""
    for name, service in SERVICES.items():
        with subtests.test(name=name):
            waits = {needed: how["condition"] for needed, how in service.get("depends_on", {}).items()}
            assert waits == {
                needed: "service_completed_successfully" if needed in ONCE else "service_healthy"
                for needed in NEEDS[name]
            }


def test_images_are_pinned(subtests: pytest.Subtests) -> None:
    """Images have exact versions; the image that is built here takes its Python image as an argument."""
    for name, service in SERVICES.items():
        with subtests.test(name=name):
            if name in ("worker", "http"):
                assert service["build"] == {"context": ".", "args": {"PYTHON": None}}
            else:
                assert "build" not in service
                assert re.fullmatch(r"[\w/-]+:\d+\.\d+(\.\d+)?(-[a-z]+)?", service["image"])


VOLUMES = {
    "postgres": ["postgres:/var/lib/postgresql/data"],
    "worker": ["operations:/data"],
    "http": ["keys:/keys"],
}


def test_data_lies_in_named_volumes(subtests: pytest.Subtests) -> None:
    """Nothing is written into a folder of the host, and `down` keeps the data."""
    for name, service in SERVICES.items():
        with subtests.test(name=name):
            assert service.get("volumes", []) == VOLUMES.get(name, [])
            assert COMPOSE["volumes"].keys() == {"postgres", "operations", "keys"}


def test_the_server_is_tuned_as_the_development_server_is() -> None:
    """The dynamic configuration holds the values of `sojourn.server.DYNAMIC_CONFIG`, and no others."""
    (mounted,) = SERVICES["temporal"]["configs"]
    content = yaml.safe_load(COMPOSE["configs"][mounted["source"]]["content"])
    assert mounted["target"] == SERVICES["temporal"]["environment"]["DYNAMIC_CONFIG_FILE_PATH"]
    assert content == {key: [{"value": value}] for key, value in DYNAMIC_CONFIG.items()}


def test_the_search_attributes_are_registered() -> None:
    """`sojourn list` can filter by agent, by session and by open wait."""
    (script,) = SERVICES["temporal-namespace"]["command"]
    assert set(re.findall(r"--name (\w+) --type Keyword", script)) == set(NAMES)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", sorted(ONCE))
def test_scripts_are_valid_shell(name: str) -> None:
    """A shell can parse the scripts of the services that run once."""
    (script,) = SERVICES[name]["command"]
    subprocess.run(["sh", "-n", "-c", script.replace("$$", "$")], check=True)


def test_the_example_names_every_variable() -> None:
    """.env.example shows each variable that the file reads."""
    read = set(re.findall(r"(?<!\$)\$\{(\w+)", TEXT))
    for service in ("worker", "http"):
        read |= {name for name, value in SERVICES[service]["environment"].items() if value is None}
    read |= set(SERVICES["worker"]["build"]["args"])
    shown = set(re.findall(r"^(?:# )?(\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    assert read == shown


def test_variables_of_models_reach_the_worker() -> None:
    """Each variable is passed on without a default: an empty one would count as set for the providers' SDKs."""
    environment = SERVICES["worker"]["environment"]
    assert {name for name in MODEL_VARIABLES if name in environment and environment[name] is None} == {
        *MODEL_VARIABLES
    }


def test_variables_of_traces_reach_the_worker() -> None:
    """Every `OTEL_` variable in the table of docs/observability.md is passed to the worker."""
    page = (ROOT / "docs" / "observability.md").read_text()
    documented = set(re.findall(r"`(OTEL_[A-Z_]+[A-Z])`", page.split("| variable |")[1].split("\n\n")[0]))
    environment = SERVICES["worker"]["environment"]
    passed = {name for name, value in environment.items() if name.startswith("OTEL_") and value is None}
    assert len(documented) >= 10
    assert documented <= passed


def test_two_services_start_with_their_profiles_only() -> None:
    """Redis, and the HTTP service, which needs a key to be made first, start where they are asked for."""
    profiles = {name: service["profiles"] for name, service in SERVICES.items() if "profiles" in service}
    assert profiles == {"redis": ["live"], "http": ["http"]}


def test_redis_stores_nothing() -> None:
    """What Redis carries is gone when it stops."""
    command = SERVICES["redis"]["command"]
    assert command[command.index("--save") + 1] == ""
    assert "redis://redis:6379/0" in (ROOT / ".env.example").read_text()


def test_the_http_service_asks_for_a_key() -> None:
    """It runs the worker's image and app, listens at every address of its container, and lets in who has a key of the volume's file."""
    service = SERVICES["http"]
    assert service["image"] == SERVICES["worker"]["image"]
    command = service["command"]
    worker = re.search(r"^CMD (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert worker
    assert command[:3] == ["sojourn", "serve", json.loads(worker[1])[2]]
    options = dict(zip(command[3::2], command[4::2], strict=True))
    assert options == {"--host": "0.0.0.0", "--port": "8460", "--keys": "/keys/keys.json"}
    assert "/health" in service["healthcheck"]["test"][-1]
    page = (ROOT / "docs" / "deploy.md").read_text()
    assert re.search(
        r"run --rm --no-deps --build http \\\n\s+sojourn keys create .*--file /keys/keys.json", page
    )


@pytest.mark.usefixtures("processes")
def test_its_command_and_its_health_check_work(temporal_address: str, tmp_path: Path) -> None:
    """The command starts with a key made as docs/deploy.md says, is healthy without one, and answers who has it."""
    keys = tmp_path / "keys.json"
    sojourn = [sys.executable, "-m", "sojourn"]
    create = [*sojourn, "keys", "create", "--name", "ana", "--role", "user", "--file", str(keys)]
    key = subprocess.run(create, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    places = {"8460": "0", "/keys/keys.json": str(keys), "0.0.0.0": "127.0.0.1"}
    command = [places.get(word, word) for word in SERVICES["http"]["command"][1:]]
    environment = {**os.environ, "TEMPORAL_ADDRESS": temporal_address}
    serving = subprocess.Popen(
        [*sojourn, *command, "--json"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    with serving:
        assert serving.stdout is not None
        address = json.loads(serving.stdout.readline())["address"]
        _, python, *check = SERVICES["http"]["healthcheck"]["test"]
        assert python == "python"
        check = [word.replace("http://127.0.0.1:8460", address) for word in check]
        assert subprocess.run([sys.executable, *check], check=False).returncode == 0
        assert httpx2.get(f"{address}/v1/agents").status_code == 401
        answer = httpx2.get(f"{address}/v1/agents", headers={"Authorization": f"Bearer {key}"})
        assert "ops.assistant" in answer.text
        serving.terminate()
    assert serving.returncode == 0
    assert subprocess.run([sys.executable, *check], check=False, stderr=subprocess.DEVNULL).returncode == 1


def test_the_http_service_reads_what_the_worker_writes() -> None:
    """What decides where runs are, and how they are encrypted, is the same for both, but for the gateway; whose tokens open is its own."""
    worker, http = (dict(SERVICES[name]["environment"]) for name in ("worker", "http"))
    assert (worker.pop("TEMPORAL_ADDRESS"), http.pop("TEMPORAL_ADDRESS")) == ("gateway:7233", "temporal:7233")
    shared = {name: worker[name] for name in worker if name in http}
    assert {name: value for name, value in http.items() if name not in VARIABLES} == shared
    assert {name for name in VARIABLES if name in http and http[name] is None} == {*VARIABLES}
    assert {"SOJOURN_CODEC", "SOJOURN_LIVE", "SOJOURN_TASK_QUEUE", "TEMPORAL_NAMESPACE"} <= http.keys()


def test_the_image_holds_what_its_programs_need() -> None:
    """The extras of the reference deployment are installed."""
    installed = re.search(r"'sojourn\[([\w,]+)\]'", (ROOT / "Dockerfile").read_text())
    assert installed
    assert {"http", "mcp", "models", "otlp", "redis"} <= set(installed[1].split(","))


@pytest.mark.usefixtures("processes")
@needs_compose
def test_compose_accepts_the_file() -> None:
    """Compose accepts the file with the values of `.env.example`."""
    done = run_config("--env-file", ".env.example", "--profile", "live", "--profile", "http")
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("processes")
@needs_compose
def test_compose_refuses_to_start_without_a_password(tmp_path: Path) -> None:
    """The message names the missing variable."""
    empty = tmp_path / ".env"
    empty.touch()
    done = run_config("--env-file", str(empty))
    assert done.returncode != 0
    assert "set POSTGRES_PASSWORD" in done.stderr


def run_config(*options: str) -> subprocess.CompletedProcess[str]:
    """Run compose's `config` on the file."""
    assert COMMAND is not None
    environment = {key: value for key, value in os.environ.items() if key != "POSTGRES_PASSWORD"}
    command = [*COMMAND, *options, "--file", "docker-compose.yml", "config", "--quiet"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
