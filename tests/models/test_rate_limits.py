"""How much a worker asks of a provider: the rate that adapts, the queue before it, and who shares it."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.exceptions import ModelRateLimitError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import FunctionModel

from sojourn import DefinitionError
from sojourn.models import rate_limits as module
from sojourn.models.allowance import LEAST_KNOWN, Allowance
from sojourn.models.guarded import settings_for, timeouts_name
from sojourn.models.rate_limits import LONGEST_CLOSED, LONGEST_WAIT, Limiter, RateLimits, limiter_for


class Time:
    """A clock that only a sleep moves on."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)  # let the others join the queue
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def time():
    """A clock for the test."""
    return Time()


@pytest.fixture
def limiter(time):
    """Make a limiter on the test's clock."""

    def make(**limits):
        return Limiter("openai", RateLimits(**limits), clock=time, sleep=time.sleep)

    return make


async def refused(limiter, retry_after=None, tokens=500):
    """A request that the provider refuses for its rate."""
    with pytest.raises(ModelRateLimitError):
        async with limiter.request(tokens):
            raise ModelRateLimitError("gpt-5", "slow down", retry_after=retry_after)


# The rate.


def test_nothing_is_limited_before_the_first_refusal():
    """Whatever is sent."""
    allowance = Allowance()
    for _ in range(100):
        assert allowance.wait(1e6, 0.0) == 0
        allowance.take(1e6, 0.0)


def test_a_bucket_holds_a_minutes_worth():
    """A burst of it may go at once; the rest as it fills."""
    allowance = Allowance()
    allowance.limit(600)
    allowance.take(600, 0.0)
    assert allowance.wait(60, 0.0) == pytest.approx(6)
    assert allowance.wait(60, 5.0) == pytest.approx(1)
    assert allowance.wait(60, 6.0) == 0
    assert allowance.wait(60, 0.0, ahead=60) > allowance.wait(60, 6.0)


def test_one_larger_than_the_bucket_waits_for_a_full_one():
    """It is sent all the same, and what comes after it pays."""
    allowance = Allowance()
    allowance.limit(600)
    assert allowance.wait(6000, 0.0) == 0
    allowance.take(6000, 0.0)
    assert allowance.wait(1, 0.0) == pytest.approx(540.1)


def test_what_was_not_used_is_given_back():
    """The estimate is corrected by what the provider counted, either way."""
    allowance = Allowance()
    allowance.limit(600)
    allowance.take(600, 0.0)
    allowance.take(-300, 0.0)
    assert allowance.wait(300, 0.0) == 0
    allowance.take(900, 0.0)
    assert allowance.wait(60, 0.0) == pytest.approx(66)


def test_a_refusal_halves_the_rate_and_successes_give_it_back():
    """5 % of the full rate for each, never more than all."""
    allowance = Allowance()
    allowance.limit(1000)
    allowance.refused(10.0, sent=9.0, retry_after=None)
    assert allowance.rate == 500
    allowance.succeeded()
    assert allowance.rate == 550
    for _ in range(20):
        allowance.succeeded()
    assert allowance.rate == 1000


def test_a_refusal_empties_the_bucket():
    """What was saved up before it is not sent on top: the next request waits for tokens at the halved rate."""
    allowance = Allowance()
    allowance.limit(1000)
    assert allowance.wait(100, 10.0) == 0
    allowance.refused(10.0, sent=9.0, retry_after=None)
    assert allowance.wait(100, 10.0) == pytest.approx(12)


def test_the_rate_never_falls_below_a_tenth():
    """However often it is refused."""
    allowance = Allowance()
    allowance.limit(1000)
    for second in range(1, 20):
        allowance.refused(float(second), sent=second - 0.5, retry_after=None)
    assert allowance.rate == 100


def test_requests_that_were_on_their_way_together_halve_once():
    """Fifty refusals of one burst are one."""
    allowance = Allowance()
    allowance.limit(1000)
    for _ in range(50):
        allowance.refused(10.0, sent=9.0, retry_after=3.0)
    assert allowance.rate == 500
    assert allowance.closed_until == 13.0


@pytest.mark.parametrize(("sent", "full"), [(500, LEAST_KNOWN), (90_000, 90_000)])
def test_an_unset_rate_is_learned_from_the_minute_before(sent, full):
    """At least 60,000: others may use the same account. Recovered, the limit goes."""
    allowance = Allowance()
    allowance.take(sent, 0.0)
    allowance.refused(0.5, sent=0.0, retry_after=None)
    assert allowance.full_rate == pytest.approx(full, rel=0.01)
    assert allowance.rate == pytest.approx(full / 2, rel=0.01)
    assert allowance.wait(500, 0.5) == pytest.approx(500 / allowance.rate * 60)
    for _ in range(10):
        allowance.succeeded()
    assert allowance.rate is None
    assert allowance.wait(1e9, 0.5) == 0


def test_what_was_sent_long_ago_is_not_of_the_minute_before():
    """The memory is a minute long."""
    allowance = Allowance()
    allowance.take(1_000_000, 0.0)
    allowance.refused(61.0, sent=60.9, retry_after=None)
    assert allowance.full_rate == LEAST_KNOWN


def test_nothing_is_sent_before_the_moment_that_the_provider_named():
    """A later, shorter one does not open the door again."""
    allowance = Allowance()
    allowance.refused(10.0, sent=9.0, retry_after=20.0)
    allowance.refused(11.0, sent=9.0, retry_after=2.0)
    assert allowance.wait(1, 12.0) == 18.0
    assert allowance.wait(1, 30.0) == 0


def test_the_strictest_rate_holds():
    """Of several planners for one provider; a looser one says nothing."""
    allowance = Allowance()
    allowance.limit(1000)
    allowance.take(900, 0.0)
    allowance.limit(2000)
    assert allowance.rate == 1000
    allowance.limit(300)
    assert (allowance.rate, allowance.full_rate) == (300, 300)
    assert allowance.wait(100, 0.0) == 0
    allowance.take(100, 0.0)
    assert allowance.wait(100, 0.0) == pytest.approx(20)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.floats(1, 1e5)),
            st.tuples(st.just("refused"), st.floats(0, 100)),
            st.tuples(st.just("succeeded"), st.just(0.0)),
            st.tuples(st.just("pass"), st.floats(0, 100)),
        ),
        max_size=60,
    )
)
def test_a_wait_is_as_long_as_it_says(events):
    """After whatever came before: when it has passed, the request may go; and the rate keeps its bounds."""
    allowance, now = Allowance(), 0.0
    allowance.limit(6000)
    for what, value in events:
        match what:
            case "take":
                allowance.take(value, now)
            case "refused":
                allowance.refused(now, sent=now, retry_after=value)
            case "succeeded":
                allowance.succeeded()
            case _:
                now += value
        assert 600 <= allowance.rate <= 6000
    wait = allowance.wait(500, now)
    assert allowance.wait(500, now + wait) == 0


# The queue.


async def test_without_limits_nobody_waits(limiter, time):
    """As many at once as there are."""
    free = limiter()
    async with free.request(500), free.request(500), free.request(500):
        assert time.slept == []


async def test_a_request_waits_for_its_tokens(limiter, time):
    """As long as the bucket needs, and no longer."""
    set_ = limiter(tokens_per_minute=6000)
    async with set_.request(6000):
        pass
    async with set_.request(600):
        pass
    assert time.slept == [pytest.approx(6)]


async def test_first_come_first_served(limiter, time):
    """A small request does not pass a large one by."""
    set_, order = limiter(tokens_per_minute=6000), []
    async with set_.request(6000):
        pass

    async def send(tokens):
        async with set_.request(tokens):
            order.append(tokens)

    await asyncio.gather(send(2000), send(10), send(900))
    assert order == [2000, 10, 900]
    assert sum(time.slept) == pytest.approx(29.1)


async def test_real_usage_corrects_the_estimate(limiter, time):
    """A request that used twice its estimate makes the next one wait for the rest."""
    set_ = limiter(tokens_per_minute=6000)
    async with set_.request(3000) as sent:
        sent.used = 6000
    async with set_.request(600):
        pass
    assert time.slept == [pytest.approx(6)]


async def test_a_refusal_holds_every_other_request_back(limiter, time):
    """Nothing goes out before the moment that the provider named, whichever run asks."""
    free = limiter()
    await refused(free, retry_after=20)
    async with free.request(500):
        assert time.now == pytest.approx(1020)


async def test_a_long_wait_is_handed_over(limiter, time):
    """At once, with the time to come back: it would hold a slot of the worker for nothing."""
    free = limiter()
    await refused(free, retry_after=90)
    with pytest.raises(ModelRateLimitError) as caught:
        async with free.request(500, "gpt-5"):
            pytest.fail("it was sent")
    assert caught.value.retry_after == pytest.approx(90)
    assert caught.value.model_name == "gpt-5"
    assert time.slept == []
    assert free.allowance.rate == LEAST_KNOWN / 2


async def test_those_handed_over_come_back_one_after_the_other(limiter):
    """As fast as tokens do, not all in one second."""
    free = limiter(tokens_per_minute=6000)
    await refused(free, retry_after=90)
    waits = []
    for _ in range(3):
        with pytest.raises(ModelRateLimitError) as caught:
            async with free.request(600):
                pytest.fail("it was sent")
        waits.append(caught.value.retry_after)
    assert waits == [pytest.approx(90), pytest.approx(102), pytest.approx(114)]


async def test_a_queue_that_grows_too_long_is_handed_over(limiter):
    """What stands before a request counts."""
    set_ = limiter(tokens_per_minute=6000)
    async with set_.request(6000):
        pass

    async def send(tokens):
        async with set_.request(tokens):
            return True

    done = await asyncio.gather(send(2000), send(900), send(200), return_exceptions=True)
    assert done[:2] == [True, True]
    assert isinstance(done[2], ModelRateLimitError)
    assert done[2].retry_after > LONGEST_WAIT


async def test_a_refusal_that_comes_while_others_wait_hands_them_over(limiter, time):
    """They look again before they go."""
    set_ = limiter(tokens_per_minute=6000)
    async with set_.request(6000):
        pass
    sleep = set_._sleep

    async def refuse_meanwhile(seconds):
        set_.allowance.refused(time(), sent=time(), retry_after=300)
        await sleep(seconds)

    set_._sleep = refuse_meanwhile
    with pytest.raises(ModelRateLimitError) as caught:
        async with set_.request(600):
            pytest.fail("it was sent")
    assert caught.value.retry_after == pytest.approx(294)


async def test_a_providers_moment_is_bounded(limiter, time):
    """A provider that says a year does not stop the worker for one."""
    free = limiter()
    await refused(free, retry_after=1e7)
    assert free.allowance.closed_until == time.now + LONGEST_CLOSED


async def test_a_cancelled_wait_leaves_nothing_behind(limiter):
    """Neither its place in the queue nor its tokens."""
    set_ = limiter(tokens_per_minute=6000, concurrency=1)
    async with set_.request(6000):
        pass
    entered = asyncio.Event()

    async def for_ever(_):
        entered.set()
        await asyncio.Event().wait()

    sleep, set_._sleep = set_._sleep, for_ever

    async def send(tokens=600):
        async with set_.request(tokens):
            return True

    task = asyncio.create_task(send())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    set_._sleep = sleep
    assert set_._queued == 0
    assert await send()


async def test_other_failures_say_nothing_of_the_rate(limiter):
    """A server error neither halves it nor gives any back."""
    set_ = limiter(tokens_per_minute=6000)
    await refused(set_)
    with pytest.raises(ValueError, match="odd"):
        async with set_.request(500):
            raise ValueError("odd")
    assert set_.allowance.rate == 3000


# At once.


async def test_no_more_requests_are_in_flight_than_allowed(limiter):
    """The others wait until one has ended."""
    two, flying, most = limiter(concurrency=2), 0, 0

    async def send():
        nonlocal flying, most
        async with two.request(500):
            flying += 1
            most = max(most, flying)
            for _ in range(5):
                await asyncio.sleep(0)
            flying -= 1

    await asyncio.gather(*(send() for _ in range(9)))
    assert (most, flying) == (2, 0)


async def test_a_slot_that_does_not_come_is_handed_over(limiter, monkeypatch):
    """The activity's own slot is worth more."""
    monkeypatch.setattr(module, "LONGEST_WAIT", 0.01)
    one = limiter(concurrency=1)
    async with one.request(500):
        with pytest.raises(ModelRateLimitError) as caught:
            async with one.request(500):
                pytest.fail("it was sent")
    assert caught.value.retry_after == 0.01
    async with one.request(500):
        pass


async def test_the_strictest_concurrency_holds(limiter):
    """Of several planners for one provider."""
    some = limiter(concurrency=3)
    some.limit(RateLimits(concurrency=5))
    assert some._slots.max_running == 3
    some.limit(RateLimits(concurrency=1))
    assert some._slots.max_running == 1


# Who shares it.


async def test_models_of_one_provider_and_key_share_a_limiter(standin):
    """And no others: another key, another address and another provider have their own."""
    chat = standin.model("openai-chat")
    assert limiter_for(chat) is limiter_for(standin.model("openai-responses"))
    assert limiter_for(chat) is not limiter_for(standin.model("openai-chat", api_key="another"))
    assert limiter_for(chat) is not limiter_for(standin.model("anthropic"))
    assert limiter_for(standin.model("anthropic"), RateLimits(tokens_per_minute=500)).allowance.rate == 500


def test_each_event_loop_has_its_own():
    """What waits in one cannot be woken from another."""
    model = FunctionModel(lambda *_: ModelResponse(parts=[]))

    async def limiter():
        return limiter_for(model)

    assert asyncio.run(limiter()) is not asyncio.run(limiter())


# Settings.


@pytest.mark.parametrize(
    ("environment", "given", "expected"),
    [
        ({}, (None, None), RateLimits()),
        ({"SOJOURN_MODEL_CONCURRENCY": "8", "SOJOURN_MODEL_TPM": ""}, (None, None), RateLimits(8, None)),
        ({"SOJOURN_MODEL_CONCURRENCY": "8", "SOJOURN_MODEL_TPM": "90000"}, (2, None), RateLimits(2, 90_000)),
    ],
)
def test_what_is_given_wins_over_the_environment(monkeypatch, environment, given, expected):
    """And an empty setting says nothing."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert RateLimits.given(*given) == expected


@pytest.mark.parametrize(
    ("environment", "given", "said"),
    [
        ({"SOJOURN_MODEL_CONCURRENCY": "many"}, (None, None), "SOJOURN_MODEL_CONCURRENCY is 'many'"),
        ({"SOJOURN_MODEL_TPM": "-1"}, (None, None), "SOJOURN_MODEL_TPM is '-1'"),
        ({"SOJOURN_MODEL_TPM": "0"}, (None, None), "SOJOURN_MODEL_TPM is '0'"),
        ({}, (0, None), "max_concurrency is 0"),
        ({}, (None, -5), "tokens_per_minute is -5"),
    ],
)
def test_a_limit_that_is_none_is_refused(monkeypatch, environment, given, said):
    """Where it is declared, not in the middle of a run."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DefinitionError, match=said):
        RateLimits.given(*given)


@pytest.mark.parametrize(
    ("given", "ignored", "expected"),
    [
        (None, (), {"timeout": 300, "max_retries": 0}),
        ({"timeout": 5, "temperature": 0.5}, (), {"timeout": 5, "temperature": 0.5, "max_retries": 0}),
        ({"max_retries": 7}, (), {"timeout": 300, "max_retries": 0}),
        (None, {"timeout", "max_retries", "seed"}, {}),
    ],
)
def test_the_settings_of_a_request(given, ignored, expected):
    """The provider's time-out, unless one is given; the SDK repeats nothing, whatever is given."""
    assert settings_for("anthropic", given, ignored) == expected


@pytest.mark.parametrize(
    ("protocol", "name", "row"),
    [
        ("anthropic", "claude-sonnet-4-5", "anthropic"),
        ("openai-chat", "gpt-5", "openai"),
        ("openai-chat", "anthropic/Claude-Opus-4", "claude"),
        ("openai-responses", "deepseek-r1", "deepseek"),
    ],
)
async def test_the_row_of_the_table_of_timeouts(standin, protocol, name, row):
    """A family of models that thinks long does so at every provider."""
    assert timeouts_name(standin.model(protocol, name)) == row
