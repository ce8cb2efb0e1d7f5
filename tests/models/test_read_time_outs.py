"""Read time-outs: after how many the run ends, and how long a local server has."""

import pytest
from pydantic_ai.exceptions import ModelConnectionError, ModelRequestTimeout, ModelTimeoutError
from temporalio.exceptions import ApplicationError

from sojourn import Message, ModelPlanner, PlanInput, RunContext
from sojourn.contracts.run_policy import Caps
from sojourn.models.guarded import MAX_RUNS, GuardedModel, ReadTimeOuts, guard
from sojourn.models.provider_errors import translate_provider_errors
from sojourn.network.client import Timeouts, is_local_url, timeouts_for
from sojourn.testing.providers import HttpError, ProviderServer, says


def failed(error: Exception) -> ApplicationError:
    """The error of a request as the planner gets it."""
    with pytest.raises(ApplicationError) as caught, translate_provider_errors("vllm", attempt=1):
        raise error
    return caught.value


def read(phase="read") -> ApplicationError:
    return failed(ModelTimeoutError("m", "timed out", phase=phase))


@pytest.mark.parametrize("error", [read(), read(None), failed(ModelRequestTimeout("m", 5))])
def test_the_third_read_time_out_in_a_row_is_final(error: ApplicationError) -> None:
    """Two are tried again; the third says how often it was tried, and what to set."""
    counts = ReadTimeOuts()
    first, second, third, fourth = (counts.judge("r", error) for _ in range(4))
    assert (first, second) == (error, error)
    assert (third.type, third.non_retryable) == ("ModelTimeout", True)
    assert "asked 3 times" in third.message
    assert "max_tokens" in third.message
    assert fourth is error


def test_an_answer_begins_the_count_anew() -> None:
    """Time-outs count only in a row, and for each run."""
    counts, error = ReadTimeOuts(), read()
    for _ in range(5):
        assert counts.judge("r", error) is error
        assert counts.judge("r", error) is error
        counts.forget("r")
    assert counts.judge("r", error) is counts.judge("other", error) is error


@pytest.mark.parametrize(
    "error",
    [read("connect"), read("pool"), read("write"), failed(ModelConnectionError("m", "reset", phase="read"))],
)
def test_an_outage_is_waited_for(error: ApplicationError) -> None:
    """What a provider that is away causes, such as a time-out of connecting, is tried as long as before."""
    counts = ReadTimeOuts()
    assert all(counts.judge("r", error) is error for _ in range(20))


def test_the_count_is_of_a_bounded_number_of_runs() -> None:
    """The oldest runs are forgotten."""
    counts, error = ReadTimeOuts(), read()
    for number in range(MAX_RUNS + 1):
        counts.judge(f"r{number}", error)
    counts.judge("r0", error)
    assert counts.judge("r0", error) is error
    counts.judge("r1000", error)
    assert counts.judge("r1000", error) is not error


async def test_a_model_that_never_answers_is_asked_three_times(standin: ProviderServer) -> None:
    """A plan whose requests all time out fails for good with the third; an overload between does not count."""
    standin.script = lambda request: (
        HttpError(error="overloaded", headers={"retry-after-ms": "1"})
        if request.number == 1
        else says("late", hold=0)
    )
    planner = ModelPlanner(standin.model("openai-chat"), settings={"timeout": 0.2})
    turn = PlanInput(
        run=RunContext(run_id="r", agent_id="test.agent"),
        messages=[Message.user("go")],
        tools=[],
        caps=Caps(),
    )
    kinds = []
    for _ in range(4):
        with pytest.raises(ApplicationError) as caught:
            await planner.plan_start(turn)
        kinds.append((caught.value.type, caught.value.non_retryable))
    assert kinds == [
        ("ModelTimeout", False),
        ("ModelOverloaded", False),
        ("ModelTimeout", False),
        ("ModelTimeout", True),
    ]


def test_a_local_server_is_known_by_its_address(subtests: pytest.Subtests) -> None:
    """Loopback and private addresses, and names without a dot, are local."""
    rows = [
        ("http://127.0.0.1:8080/v1", True),
        ("http://localhost:11434/v1/", True),
        ("http://[::1]:8000", True),
        ("http://10.1.2.3/v1", True),
        ("http://192.168.0.9:1234", True),
        ("http://vllm:8000/v1", True),
        ("http://host.docker.internal:11434", True),
        ("https://api.openai.com/v1/", False),
        ("https://8.8.8.8/v1", False),
        ("http://[broken", False),
        ("", False),
        (None, False),
    ]
    for url, is_local in rows:
        with subtests.test(url=url, is_local=is_local):
            assert is_local_url(url) is is_local


async def test_a_local_server_has_more_time(standin: ProviderServer, monkeypatch) -> None:
    """A local server has ten minutes, unless a variable of its provider, of local servers, or of all says otherwise."""
    long = Timeouts(10, 600, 600)
    assert timeouts_for("openai", is_local=True) == timeouts_for("deepseek", is_local=True) == long
    assert timeouts_for("ollama") == timeouts_for("vllm") == long
    model = guard(standin.model("openai-chat"))
    assert isinstance(model, GuardedModel)
    assert model._ready(None)[1]["timeout"] == 600
    monkeypatch.setenv("SOJOURN_TIMEOUT_DEFAULT", "1/2/3")
    assert timeouts_for("openai", is_local=True) == Timeouts(1, 2, 3)
    assert timeouts_for("ollama", is_local=True) == long
    monkeypatch.setenv("SOJOURN_TIMEOUT_LOCAL", "4/5/6")
    assert timeouts_for("ollama", is_local=True) == timeouts_for("openai", is_local=True) == Timeouts(4, 5, 6)
    monkeypatch.setenv("SOJOURN_TIMEOUT_OPENAI", "7/8/9")
    assert timeouts_for("openai", is_local=True) == Timeouts(7, 8, 9)
