"""The codec server: Temporal's own command line reads what the key of the operator's tenant has sealed, and nothing else."""

import asyncio
import json
import re
from base64 import b64decode, b64encode

import pytest
import structlog
from temporalio.converter import PayloadCodec

from sojourn import Agent, App, AwaitClarification, PlanResult, Principal, RunPolicy
from sojourn.asgi import create_app
from sojourn.crypto import SealingCodec
from sojourn.crypto.ring_file import erase_keys
from sojourn.network import http_client
from tests.crypto.ring import make_ring
from tests.http.conftest import listening

SECRET = "the-vault-code-is-4711"

PRINCIPALS = {
    f"{tenant}-{role}": Principal(subject=role, tenant=tenant, roles=[role])
    for tenant in ("", "acme", "other")
    for role in ("operator", "user")
}


async def by_name(request):
    """The principal that the credentials name."""
    return PRINCIPALS.get(request.headers.get("authorization", "").removeprefix("Bearer "))


async def ask(turn):
    if turn.messages[-1].text != "yes":
        return PlanResult.ask(AwaitClarification(id="q", question=f"{SECRET}?"))
    return PlanResult.final(SECRET)


APP = App(agents=[Agent("vault.agent", planner=ask, policy=RunPolicy(interrupts_allowed=True))])


@pytest.fixture
def temporal(processes, temporal_server):
    """Run Temporal's command line with a codec server."""

    async def execute(url: str, who: str, *words: str) -> str:
        process = await asyncio.create_subprocess_exec(
            temporal_server.cli.path, *words, "--address", temporal_server.address,
            "--codec-endpoint", f"{url}/codec", "--codec-auth", f"Bearer {who}",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await process.communicate()
        return out.decode()

    return execute


def contents(printed: str) -> str:
    """What a history as JSON has, also in Base64."""
    found = re.findall(r'"data": "([A-Za-z0-9+/=]+)"', printed)
    return printed + "".join(b64decode(data).decode(errors="replace") for data in found)


async def test_temporals_command_line_reads_and_answers_a_run(serve, status_when, temporal, tmp_path):
    """An operator of the run's tenant reads it, and signals it in cipher; one of another tenant, and a user, get no word of it."""
    codec = SealingCodec(make_ring(tmp_path / "ring", "acme"))
    client = await serve(APP, codec=codec, encrypted_only=True)
    shared = await client.start("vault.agent", "go")
    run = await client.start("vault.agent", "go", principal=Principal(subject="ana", tenant="acme"))
    for each in (shared, run):
        await status_when(each, lambda status: status.awaits)
    show = ("workflow", "show", "--output", "json", "--workflow-id")
    async with listening(create_app(APP, client=client, auth=by_name)) as url:
        assert SECRET in contents(await temporal(url, "acme-operator", *show, run.id))
        assert SECRET in contents(await temporal(url, "-operator", *show, shared.id))
        for who, other in (
            ("other-operator", run), ("acme-operator", shared), ("-operator", run), ("acme-user", run), ("nobody", run)
        ):  # fmt: skip
            assert SECRET not in contents(await temporal(url, who, *show, other.id))
        answer = json.dumps({"id": "q", "answer": "yes"})
        signal = ("workflow", "signal", "--name", "provide_clarification", "--input", answer, "--workflow-id")
        await temporal(url, "acme-operator", *signal, run.id)
        assert (await run.result()).text == SECRET


async def test_requests_are_checked_and_audited(serve, tmp_path):
    """The role is required, bad payloads are 422, and the audit line counts payloads; an erased tenant encodes nothing."""
    path = tmp_path / "ring"
    codec = SealingCodec(make_ring(path, "acme"))
    client = await serve(APP, codec=codec)
    plain = {"metadata": {"encoding": b64encode(b"json/plain").decode()}, "data": b64encode(b'"hi"').decode()}
    async with listening(create_app(APP, client=client, auth=by_name)) as url, http_client() as http:

        async def post(what: str, who: str, *payloads: object):
            return await http.post(
                f"{url}/codec/{what}",
                json={"payloads": payloads},
                headers={"Authorization": f"Bearer {who}", "X-Namespace": "default"},
            )

        with structlog.testing.capture_logs() as logs:
            sealed = (await post("encode", "acme-operator", plain)).json()["payloads"]
            assert sealed[0]["data"] != plain["data"]
            assert (await post("decode", "acme-operator", *sealed, plain)).json()["payloads"] == [
                plain,
                plain,
            ]
            assert (await post("decode", "other-operator", *sealed, plain)).json()["payloads"] == [
                *sealed,
                plain,
            ]
        lines = [line for line in logs if line["event"] == "decision"]
        assert [(line["tenant"], line["payloads"], line.get("decoded")) for line in lines] == [
            ("acme", 1, None), ("acme", 2, 1), ("other", 2, 0)
        ]  # fmt: skip
        for what in ("encode", "decode"):
            assert (await post(what, "acme-user", plain)).status_code == 403
            assert (await post(what, "nobody", plain)).status_code == 401
            for bad in ({"data": "a"}, {"data": 1}, {"metadata": {"x": "ä"}}, 7):
                assert (await post(what, "acme-operator", bad)).status_code == 422
        erase_keys(path, tenant="acme")
        refused = await post("encode", "acme-operator", plain)
        assert (refused.status_code, refused.json()["code"]) == (503, "codec_unavailable")
        assert "keyring create --tenant acme" in refused.text
        assert (await post("decode", "acme-operator", *sealed)).json()["payloads"] == sealed
        assert "--tenant other" in (await post("encode", "other-operator", plain)).text
        path.unlink()
        refused = await post("decode", "-operator", *sealed)
        assert (refused.status_code, refused.json()["code"]) == (503, "codec_unavailable")
        assert str(path) not in refused.text


class Mirror(PayloadCodec):
    """Encrypts nothing, and loses a payload if there are two."""

    async def encode(self, payloads):
        return list(payloads)

    async def decode(self, payloads):
        return list(payloads)[:1]


async def test_a_codec_of_ones_own_adds_no_mark(serve):
    """What a codec finds in clear text comes back as it is, with `encrypted_only` too; a codec that loses payloads is told."""
    client = await serve(APP, codec=Mirror(), encrypted_only=True)
    plain = {"metadata": {"encoding": b64encode(b"json/plain").decode()}, "data": b64encode(b"1").decode()}
    async with listening(create_app(APP, client=client, auth=by_name)) as url, http_client() as http:
        headers = {"Authorization": "Bearer -operator"}
        for count, status in ((1, 200), (2, 503)):
            body = {"payloads": [plain] * count}
            answer = await http.post(f"{url}/codec/decode", json=body, headers=headers)
            assert answer.status_code == status
            assert status == 503 or answer.json() == body


async def test_without_keys_payloads_come_back_as_they_are(serve):
    """A service that encrypts nothing still answers Temporal's tools."""
    client = await serve(APP)
    async with listening(create_app(APP, client=client, auth=by_name)) as url, http_client() as http:
        headers = {"Authorization": "Bearer acme-operator"}
        for what in ("encode", "decode"):
            answer = await http.post(f"{url}/codec/{what}", json={"payloads": [{}]}, headers=headers)
            assert answer.json() == {"payloads": [{"metadata": {}, "data": ""}]}
