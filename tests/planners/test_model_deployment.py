"""The reference deployment with a model: the model that the environment chooses, and complete runs."""

import asyncio
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage, calc_price
from pydantic_ai.models import KnownModelName
from temporalio.exceptions import ApplicationError

from planners import models
from planners.facts import Advice
from planners.models import chosen_model
from sojourn import Client, RunFailed
from sojourn.checks.application import MODEL_VARIABLES
from sojourn.testing.providers import (
    Completion,
    ProviderServer,
    Request,
    ScriptedResponse,
    Text,
    ToolCall,
    calls,
    says,
)
from sojourn.testing.providers.clients import KEY
from tests.programs import Program

ROOT = Path(__file__).parents[2]
CLAUDE, GPT, GEMINI = "anthropic:claude-sonnet-5-5", "openai:gpt-6.1-terra", "google:gemini-3.8-flash"

# The choice of the model.


def test_the_environment_chooses() -> None:
    """The model is the named one, else that of the first key, else None for rules."""
    rows = [
        ({}, None),
        ({"SOJOURN_MODEL": ""}, None),
        ({"ANTHROPIC_API_KEY": ""}, None),
        ({"MISTRAL_API_KEY": "k"}, None),
        ({"ANTHROPIC_API_KEY": "k"}, CLAUDE),
        ({"OPENAI_API_KEY": "k"}, GPT),
        ({"GOOGLE_API_KEY": "k"}, GEMINI),
        ({"GEMINI_API_KEY": "k"}, GEMINI),
        ({"GEMINI_API_KEY": "k", "OPENAI_API_KEY": "k"}, GPT),
        ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, CLAUDE),
        ({"SOJOURN_MODEL": "ollama:qwen3"}, "ollama:qwen3"),
        ({"SOJOURN_MODEL": " openai-chat:qwen3 ", "ANTHROPIC_API_KEY": "k"}, "openai-chat:qwen3"),
        ({"SOJOURN_MODEL": "off", "ANTHROPIC_API_KEY": "k"}, None),
        ({"SOJOURN_MODEL": "OFF"}, None),
    ]
    assert [
        (environment, found) for environment, model in rows if (found := chosen_model(environment)) != model
    ] == []


@pytest.mark.parametrize("model", sorted(set(models.DEFAULTS.values())))
def test_the_defaults_are_models(model, monkeypatch):
    """Each default model is known to pydantic-ai, has a price, which `max_cost` needs, and can be made with its key."""
    assert model in KnownModelName.__value__.__args__
    provider, name = model.split(":")
    assert calc_price(Usage(input_tokens=1_000), name, provider_id=provider).total_price > 0
    for key in models.DEFAULTS:
        monkeypatch.setenv(key, KEY)
    models.assistant(model).check()
    models.advisor(model).check()


def test_a_compatible_server_needs_no_key(monkeypatch):
    """The address of a server with OpenAI's protocol is enough."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    planner = models.advisor("openai-chat:qwen3")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ApplicationError, match="OPENAI_API_KEY"):
        planner.check()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    models.advisor("openai-chat:qwen3").check()


def outcome(*, without_extra: bool = False, **environment: str) -> tuple[str, str]:
    """Import the deployment in another process, and return the classes of its planners and its standard error."""
    code = (
        f"import sys\nsys.modules.update({dict.fromkeys(['pydantic_ai']) if without_extra else {}})\n"
        "from worker import app\nprint(*(type(app.agent(id).planner).__name__ for id in app.list_agents()))"
    )
    env = {name: value for name, value in os.environ.items() if name not in MODEL_VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=env | environment,
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.usefixtures("processes")
def test_a_key_without_the_extra_means_rules():
    """With a key but without the extra, rules decide, and one warning says what to install."""
    planners, err = outcome(without_extra=True, OPENAI_API_KEY="sk-secret")
    assert planners == "Flow Flow"
    assert err.count("OPENAI_API_KEY is set, and rules decide") == 1
    assert "pip install 'sojourn[models]'" in err
    assert "sk-secret" not in err


@pytest.mark.usefixtures("processes")
def test_a_named_model_without_the_extra_is_an_error():
    """With a named model but without the extra, the deployment does not start."""
    planners, err = outcome(without_extra=True, SOJOURN_MODEL="openai:gpt-5")
    assert planners == ""
    assert re.search(r"DefinitionError: .*pip install 'sojourn\[models\]'", err)


@pytest.mark.usefixtures("processes")
def test_rules_import_no_model_layer():
    """A deployment without a model does not import pydantic-ai, and writes nothing."""
    code = "import sys, worker; print('pydantic_ai' in sys.modules)"
    env = {name: value for name, value in os.environ.items() if name not in MODEL_VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, check=True, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


# Complete runs.


def call(tool: str, **arguments: object) -> ToolCall:
    """Return a call as a model writes it."""
    return ToolCall(name=tool.replace(".", "__"), arguments=json.dumps(arguments))


def decoded(text: str) -> Any:
    """Return the JSON of a result; some servers have the notices of a request at its end."""
    return json.JSONDecoder().raw_decode(text)[0]


def read(text: str) -> str:
    """Return the text of a result; OpenAI's protocols have a failure as `{"error": text}`."""
    return decoded(text)["error"] if text.startswith('{"error":') else text


def decide(request: Request) -> ScriptedResponse:
    """Answer as a model for both agents, which decides by the results in the request."""
    offered = {tool.name for tool in request.tools}
    return advise(request) if "ops__runbooks__search_runbooks" in offered else look(request)


def advise(request: Request) -> ScriptedResponse:
    """Find the runbook, read it, and give a typed answer."""
    results = request.tool_results
    if not results:
        return calls(call("ops.runbooks.search_runbooks", query="gateway battery flat"))
    if len(results) == 1:
        best = decoded(results[0].text)["runbooks"][0]
        return calls(call("ops.runbooks.get_runbook", runbook_id=best["runbook_id"]))
    book = decoded(results[1].text)
    return calls(
        call("final_result", answer=book["title"], runbook_id=book["runbook_id"], steps=book["steps"][:2])
    )


def look(request: Request) -> ScriptedResponse:
    """Find out why s-7 is dark, with a call to repair, a question to a person, and a call to approve."""
    texts = [read(result.text) for result in request.tool_results]
    match len(texts):
        case 0:
            first = (call("ops.sites.get_site", site_id="s-7"), call("ops.devices.scan_site", site_id="s-7"))
            return Completion(parts=(Text(text="Let me look."), *first))
        case 2:
            return calls(call("ops.devices.get_time_series", device_id=decoded(texts[0])["gateway_id"]))
        case 3:
            template = re.search(r"^arguments to complete: (.*)$", texts[2], re.MULTILINE)
            assert template, texts[2]
            span = {"start_time": "2027-03-01T00:00:00Z", "end_time": "2027-03-02T00:00:00Z"}
            return calls(call("ops.devices.get_time_series", **{**json.loads(template[1]), **span}))
        case 4:
            return calls(call("ops.work_orders.list_work_orders", site_id="s-7", status="open"))
        case 5:
            return calls(call("ops.advice.ask", question="gateway battery flat", site_id="s-7"))
        case 6:
            return calls(
                call("ask_user", question="Whom shall I register?", missing_fields=["name", "email"])
            )
        case 7:
            name, email = texts[6].split(", ")
            contact = {"site_id": "s-7", "name": name, "email": email, "role": "operations"}
            return calls(call("ops.profiles.upsert", **contact))
        case _:
            advice, contact = decoded(texts[5]), decoded(texts[7])
            return says(
                f"{advice['runbook_id']}: {len(advice['steps'])} steps. {contact['name']} is registered."
            )


@pytest.fixture(scope="module")
async def provider() -> AsyncIterator[ProviderServer]:
    """A stand-in for providers, whose URL stays the same for all deployments of this file."""
    async with ProviderServer() as standin:
        yield standin


@pytest.fixture
def standin(provider: ProviderServer) -> Iterator[ProviderServer]:
    """The stand-in, as the model of both agents, without the requests of earlier tests."""
    provider.script = decide
    provider.requests.clear()
    provider.errors.clear()
    yield provider
    for error in provider.errors:
        raise error


STARTS = 90.0
"""Seconds until a worker that has not started is a failure."""

SDKS = ("sojourn.models", "pydantic_ai.models.anthropic", "pydantic_ai.models.openai")
"""Modules whose import takes three seconds, loaded before a worker starts."""

Deploy = Callable[..., Awaitable[tuple[Client, str]]]


@pytest.fixture(scope="module")
async def deploy(temporal_address: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deploy]:
    """Serve the deployment as a process, once for each environment, and return a client and the line `worker_ready`."""
    started: list[Program] = []
    served: dict[tuple[tuple[str, str], ...], tuple[Client, str]] = {}

    async def start(**environment: str) -> tuple[Client, str]:
        queue, log = f"q-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("deploy") / "worker.log"
        env = {name: value for name, value in os.environ.items() if name not in MODEL_VARIABLES}
        env |= {"TEMPORAL_ADDRESS": temporal_address, "SOJOURN_LOG_FORMAT": "json", **environment}
        command = ("-m", "sojourn", "worker", "worker:app", "--task-queue", queue)
        started.append(Program(*command, cwd=ROOT, env=env, out=log, err=log, imports=SDKS))

        def ready() -> str | None:
            assert started[-1].poll() is None, log.read_text()
            return next((line for line in log.read_text().splitlines() if '"worker_ready"' in line), None)

        async with asyncio.timeout(STARTS):
            while not (line := ready()):
                await asyncio.sleep(0.05)
        return await Client.connect(temporal_address, task_queue=queue), line

    async def find(**environment: str) -> tuple[Client, str]:
        key = tuple(sorted(environment.items()))
        if key not in served:
            served[key] = await start(**environment)
        return served[key]

    yield find
    for process in started:
        process.terminate()
    for process in started:
        await asyncio.to_thread(process.wait)


PROVIDERS = [
    pytest.param({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": ""}, CLAUDE, "anthropic", id="anthropic"),
    pytest.param({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "/v1"}, GPT, "openai-responses", id="openai"),
    pytest.param(
        {"SOJOURN_MODEL": "ollama:qwen3", "OLLAMA_BASE_URL": "/v1"},
        "ollama:qwen3",
        "openai-chat",
        id="ollama",
    ),
]
"""The environment, with the path of the base URL, the model, and the protocol."""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("environment", "model", "protocol"), PROVIDERS)
async def test_a_model_decides_a_complete_run(deploy, standin, traces, environment, model, protocol):
    """A run by a model has parallel calls, a repair, an MCP server, a child run, a question, an approval and an answer."""
    at = {
        name: f"{standin.url}{value}" if name.endswith("_URL") else value
        for name, value in environment.items()
    }
    client, line = await deploy(**at)
    assert json.loads(line)["planners"] == {"ops.assistant": model, "ops.advisor": model}
    run = await client.start("ops.assistant", "why is site s-7 dark")
    seen = []
    async for event in run.events(children=True):
        seen.append(event)
        if event.type == "await_clarification":
            await run.answer(event.question.id, "Mara Lindt, mara.lindt@example.org")
        elif event.type == "await_confirmation":
            await run.approve(event.confirmation.id, by="ana")
    output = await run.result()
    assert re.fullmatch(r"rb-\d+: 2 steps\. Mara Lindt is registered\.", output.text)
    failed = [event for event in seen if event.type == "tool_end" and event.error]
    assert [(event.tool_name, event.retry_hint.reason) for event in failed] == [
        ("ops.devices.get_time_series", "missing_fields")
    ]
    (advice,) = [event.result for event in seen if event.type == "tool_end" and event.result.run_link]
    assert Advice.model_validate(advice.result).steps
    assert {request.protocol for request in standin.requests} == {protocol}
    assert {request.model for request in standin.requests} == {model.split(":")[1]}
    assert {request.instructions.split("\n")[0] for request in standin.requests} >= {
        models.ASSISTANT.split("\n")[0]
    }
    assert len(standin.requests) == 8 + 3
    assert (output.usage.input_tokens, output.total_usage.input_tokens) == (10 * 8, 10 * (8 + 3))
    await traces(run).check()


@pytest.mark.usefixtures("processes")
async def test_without_a_model_rules_decide(deploy, standin):
    """With `off` rules decide although a key is set, and no model is asked."""
    client, line = await deploy(SOJOURN_MODEL="off", **standin.environment)
    assert json.loads(line)["planners"] == {"ops.assistant": "code", "ops.advisor": "code"}
    assert "dark" in (await client.execute("ops.assistant", "which sites are dark")).text
    assert standin.requests == []


@pytest.mark.usefixtures("processes")
async def test_a_spent_budget_ends_with_an_answer(deploy, standin):
    """A run that exceeds the tokens of the deployment's policy ends with the answer of its last turn."""

    def spend(request: Request) -> ScriptedResponse:
        if request.tool_choice == {"type": "none"}:  # the last turn
            return says("That is all I found.")
        return calls(call("ops.sites.get_site", site_id="s-7"), usage={"input": 700_000})

    standin.script = spend
    client, _ = await deploy(ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=standin.url)
    output = await client.execute("ops.assistant", "why is site s-7 dark")
    assert (output.text, output.reason) == ("That is all I found.", "max_tokens")
    assert len(standin.requests) == 2


@pytest.mark.usefixtures("processes")
async def test_a_model_without_its_key_fails_the_run(deploy):
    """Without the model's key a run fails with `ModelMisconfigured`, which names the variable."""
    client, _ = await deploy(SOJOURN_MODEL="anthropic:claude-sonnet-5-5")
    with pytest.raises(RunFailed, match="ANTHROPIC_API_KEY") as failed:
        await client.execute("ops.assistant", "why is site s-7 dark")
    assert failed.value.code == "ModelMisconfigured"
