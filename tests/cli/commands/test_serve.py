"""`sojourn serve`: the HTTP service of an app, until Ctrl-C."""

import asyncio
import json
import signal
import socket

import httpx2
import pytest

from sojourn.network import http_client
from tests.cli.conftest import DESK
from tests.http.security.issuer import bearer, issuer

__all__ = ["issuer"]


@pytest.fixture
async def start_serve(start_command, served):
    """Start `sojourn serve` for the desk's app; returns the process and the address that it prints."""
    started = []

    async def start(*options: str):
        process = await start_command(
            "serve", "desk_app:app", "--json", *options, cwd=DESK.parent, env=served.env
        )
        started.append(process)
        told = json.loads(await process.stdout.readline())
        assert told["event"] == "http"
        return process, told["address"]

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_a_run_is_started_over_http(start_serve, tmp_path):
    """The service answers at the address that it prints, with a run of a worker elsewhere; Ctrl-C ends it with 0, and its streams.

    The file of `--audit` says who started the run, and who read it.
    """
    process, address = await start_serve("--audit", str(tmp_path / "audit.jsonl"))
    async with http_client(base_url=address, timeout=60) as http:
        started = await http.post("/v1/runs", json={"agent_id": "desk.clerk", "input": "ask"})
        path = f"/v1/runs/{started.json()['run_id']}/events"
        async with http.stream("GET", path, headers={"Accept": "text/event-stream"}) as stream:
            lines = []
            async for line in stream.aiter_lines():
                lines.append(line)
                if "await_clarification" in line:
                    process.send_signal(signal.SIGINT)
        (ended,) = [line for line in lines if "service_stops" in line]
        assert json.loads(ended.partition(": ")[2])["status"] == 503
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, b"Traceback" in err) == (0, False), err
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(each["event"], each["method"], each["path"]) for each in records] == [
        ("decision", "POST", "/v1/runs"),
        ("read", "GET", path),
    ]
    assert records[0]["run_id"] == started.json()["run_id"]


async def test_the_longest_cursor_is_read(start_serve):
    """A browser that resumes may send a cursor of 256,000 characters: the service reads it, and says what is wrong with it."""
    _, address = await start_serve()
    async with http_client(base_url=address, timeout=60) as http:
        started = await http.post("/v1/runs", json={"agent_id": "desk.clerk", "input": "ask"})
        path = f"/v1/runs/{started.json()['run_id']}/events"
        answer = await http.get(path, headers={"Last-Event-ID": "x" * 256_000})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


async def test_a_taken_port_is_told_or_passed_over(start_serve, command, served):
    """A port that is asked for and taken is an error; the usual one is passed over for the next."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = await command("serve", "desk_app:app", "--port", port, cwd=DESK.parent, env=served.env)
        assert done.code == 2
        assert f"127.0.0.1:{port}" in done.err
        assert "--port" in done.err
    addresses = {(await start_serve())[1] for _ in range(2)}
    assert len(addresses) == 2
    assert all(8_460 <= int(address.rpartition(":")[2]) < 8_560 for address in addresses)


async def test_an_address_is_told_only_where_the_service_answers(command):
    """Without a Temporal server the command ends with 3, and says of no address that it is served."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        env = {"TEMPORAL_ADDRESS": f"127.0.0.1:{nobody.getsockname()[1]}"}
        done = await command("serve", "desk_app:app", cwd=DESK.parent, env=env)
    assert (done.code, done.out) == (3, ""), done.err


async def test_nobody_but_this_machine_is_let_in_without_authentication(command):
    """Another address than a loopback one is refused, with the mend."""
    for host in ("0.0.0.0", "::", "example.com"):
        done = await command("serve", "desk_app:app", "--host", host, cwd=DESK.parent)
        assert (done.code, "sojourn keys create" in done.err) == (2, True)
        assert "--oidc-issuer" in done.err


async def test_a_server_that_is_not_there_ends_it(command):
    """Without a Temporal server the command ends with 3, and a sentence."""
    env = {"TEMPORAL_ADDRESS": "127.0.0.1:1"}
    done = await command("serve", "desk_app:app", "--port", "0", cwd=DESK.parent, env=env)
    assert (done.code, "Traceback" in done.err) == (3, False), done.err


async def test_with_keys_only_who_has_one_is_let_in(start_serve, command, tmp_path):
    """A service with `--keys` may be reached from elsewhere, asks for a key, and forgets a revoked one at once."""
    file = str(tmp_path / "keys.json")
    made = await command("keys", "create", "--name", "ana", "--file", file)
    headers = {"Authorization": f"Bearer {made.out.splitlines()[-1]}"}
    options = ("--host", "0.0.0.0", "--port", "0", "--keys", file, "--allow-host", "127.0.0.1")
    _, address = await start_serve(*options)
    async with http_client(base_url=f"http://127.0.0.1:{address.rpartition(':')[2]}") as http:
        assert (await http.get("/v1/agents")).status_code == 401
        assert (await http.get("/v1/agents", headers=headers)).status_code == 200
        elsewhere = {**headers, "Host": "evil.example"}
        assert (await http.get("/v1/agents", headers=elsewhere)).status_code == 421
        await command("keys", "revoke", "ana", "--file", file)
        assert (await http.get("/v1/agents", headers=headers)).status_code == 401


async def test_with_a_provider_its_tokens_let_in(start_serve, issuer):
    """Tokens of the issuer, for the audience, are accepted elsewhere too; tenant and roles are those of the claims that are named."""
    claims = ("--oidc-tenant-claim", "org", "--oidc-roles-claim", "/realm_access/roles")
    names = ("--oidc-role", "cn=crew,ou=x=viewer", "--oidc-role", "leads=viewer", "--oidc-role", "leads=user")
    provider = ("--oidc-issuer", issuer.url, "--oidc-audience", "agents", "--oidc-audience", "sojourn")
    _, address = await start_serve("--host", "0.0.0.0", "--port", "0", *provider, *claims, *names)

    def token(*roles: str, **claims: object) -> dict[str, str]:
        return bearer(issuer.token(realm_access={"roles": roles}, **claims))

    async with http_client(base_url=f"http://127.0.0.1:{address.rpartition(':')[2]}") as http:

        async def start(headers: dict[str, str]) -> httpx2.Response:
            body = {"agent_id": "desk.clerk", "input": "hello"}
            return await http.post("/v1/runs", json=body, headers={**headers, "Idempotency-Key": "one"})

        assert (await http.get("/v1/agents")).status_code == 401
        assert (await start(token("user"))).status_code == 403
        assert (await start(token("cn=crew,ou=x"))).status_code == 403
        assert (await http.get("/v1/agents", headers=token("cn=crew,ou=x"))).status_code == 200
        assert (await http.get("/v1/agents", headers=token("leads", aud="others"))).status_code == 401
        assert (await http.get("/v1/agents", headers=token("leads", org=None))).status_code == 401
        started = await start(token("leads", aud="agents"))
        assert (started.status_code, started.json()["run_id"]) == (201, "acme=one")


async def test_keys_and_a_provider_let_in_together(start_command, command, served, issuer, tmp_path):
    """The settings of the provider may come from the environment; a token and a key both open, and neither a stranger's."""
    file = str(tmp_path / "keys.json")
    made = await command("keys", "create", "--name", "bo", "--role", "viewer", "--file", file)
    settings = {
        "SOJOURN_OIDC_ISSUER": issuer.url,
        "SOJOURN_OIDC_AUDIENCE": "agents sojourn",
        "SOJOURN_OIDC_JWKS_URL": f"{issuer.url}/keys",
        "SOJOURN_OIDC_SUBJECT_CLAIM": "https://example.org/name",
        "SOJOURN_OIDC_ROLE": "crew=viewer; crew=user",
    }
    serving = ("serve", "desk_app:app", "--port", "0", "--keys", file, "--json")
    process = await start_command(*serving, cwd=DESK.parent, env={**served.env, **settings})
    try:
        address = json.loads(await process.stdout.readline())["address"]
        ana = bearer(issuer.token(roles=["crew"], **{"https://example.org/name": "ana"}))
        async with http_client(base_url=address) as http:
            for headers in (ana, bearer(made.out.splitlines()[-1])):
                assert (await http.get("/v1/agents", headers=headers)).status_code == 200
            for text in (issuer.token(), "sojourn_abc_def", "x"):
                assert (await http.get("/v1/agents", headers=bearer(text))).status_code == 401
            assert issuer.asked == ["/keys"]
    finally:
        process.kill()
        await process.communicate()


@pytest.mark.parametrize(
    ("options", "env", "told"),
    [
        (["--oidc-issuer", "https://i.example"], {}, ["--oidc-audience", "SOJOURN_OIDC_AUDIENCE"]),
        (["--oidc-audience", "a"], {}, ["--oidc-issuer", "SOJOURN_OIDC_ISSUER"]),
        ([], {"SOJOURN_OIDC_TENANT_CLAIM": "org"}, ["SOJOURN_OIDC_TENANT_CLAIM", "--oidc-issuer"]),
        (["--oidc-issuer", "", "--oidc-audience", "a"], {"SOJOURN_OIDC_ISSUER": "x"}, ["--oidc-issuer"]),
        (["--oidc-issuer", "http://i.example", "--oidc-audience", "a"], {}, ["https://"]),
        (["--oidc-issuer", "https://i.example", "--oidc-audience", "a", "--oidc-role", "x"], {}, ["NAME=ROLE"]),
        (["--oidc-issuer", "https://i.example", "--oidc-audience", "a", "--oidc-role", "=user"], {}, ["NAME=ROLE"]),
        (["--oidc-issuer", "https://i.example", "--oidc-audience", "a", "--oidc-role", "x="], {}, ["NAME=ROLE"]),
        (["--oidc-issuer", "https://i.example", "--oidc-audience", "a", "--oidc-roles-claim", "/a//b"], {},
         ["--oidc-roles-claim", "JSON pointer"]),
    ],
)  # fmt: skip
async def test_settings_of_a_provider_that_are_half_given_are_refused(command, options, env, told):
    """The error names what is missing or wrong, as an option and as a variable; nothing is served."""
    done = await command("serve", "desk_app:app", "--port", "0", *options, cwd=DESK.parent, env=env)
    assert done.code == 2, done.err
    assert all(each in done.err for each in told), done.err
    assert "Traceback" not in done.err


async def test_the_console_links_to_the_ui_of_temporal_that_it_is_told(start_serve, command, served):
    """`--temporal-ui` is where the page of a run links to; what is no address of a page is refused."""
    _, address = await start_serve("--temporal-ui", "https://temporal.example.org/")
    run = await served.waiting("ask")
    async with http_client(base_url=address, timeout=60) as http:
        page = (await http.get(f"/runs/{run.id}")).text
        assert f'href="https://temporal.example.org/namespaces/default/workflows/{run.id}/' in page
    done = await command(
        "serve", "desk_app:app", "--temporal-ui", "temporal:8080", cwd=DESK.parent, env=served.env
    )
    assert (done.code, done.out) == (2, "")
    assert "the address of Temporal's UI is an http or https URL" in done.err
