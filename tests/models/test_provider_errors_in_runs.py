"""Errors of models in runs: Temporal repeats those that may pass, and the others fail the run."""

import pytest
from temporalio.api.enums.v1 import EventType

from sojourn import PlanResult, RunFailed
from sojourn.models.guarded import guard
from sojourn.models.provider_errors import translate_provider_errors
from sojourn.testing.providers import HttpError, says


@pytest.fixture
def planner(standin, ask, protocol):
    """A planner that returns the text of a model of the stand-in as the answer."""
    model = guard(standin.model(protocol))

    async def plan(turn):
        with translate_provider_errors(model.system):
            response = await ask(model)
        return PlanResult.final(response.text)

    return plan


@pytest.mark.parametrize("protocol", ["openai-chat"])
async def test_a_run_continues_when_its_provider_recovers(serve, traces, standin, planner):
    """Each attempt is one request, and the history has one plan."""
    soon = {"retry-after-ms": "20"}
    standin.script = [
        says("cut off", cut=0.5),
        HttpError(error="overloaded", headers=soon),
        HttpError(error="server_error", headers=soon),
        HttpError(error="rate_limit", headers=soon),
        says("Hello to you"),
    ]
    client = await serve(planner=planner)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "Hello to you"
    assert len(standin.requests) == 5
    assert await traces(run).count(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) == 1
    await traces(run).check()


@pytest.mark.parametrize("protocol", ["openai-responses"])
async def test_an_error_that_a_person_must_repair_fails_the_run_at_once(serve, traces, standin, planner):
    """The run fails after one request, with a sentence that says what to do and has neither the key nor the URL."""
    standin.script = [HttpError(error="unauthorized")]
    client = await serve(planner=planner)
    run = await client.start("test.agent", "go")
    with pytest.raises(RunFailed) as failed:
        await run.result()
    assert failed.value.code == "ModelUnauthorized"
    assert "the planner of test.agent failed: " in str(failed.value)
    assert "refused the credentials (HTTP 401 Unauthorized); set " in str(failed.value)
    assert "ModelUnauthorized" not in str(failed.value)
    assert len(standin.requests) == 1
    history = str(await traces(run).history())
    assert "sk-" not in history
    assert standin.url not in history
