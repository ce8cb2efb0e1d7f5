"""Rate limits: the rate that adapts, the queue of requests, and the limiters that models share."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.exceptions import ModelRateLimitError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import FunctionModel

from sojourn.errors import DefinitionError
from sojourn.models import rate_limits as module
from sojourn.models.allowance import LEAST_KNOWN, Allowance
from sojourn.models.guarded import settings_for, timeouts_name
from sojourn.models.rate_limits import (
    LONGEST_CLOSED,
    LONGEST_WAIT,
    Limiter,
    RequestLimits,
    limiter_for,
)
from sojourn.testing.providers import PROTOCOLS
from sojourn.testing.providers.clients import model_of
from tests.acting import as_tenant


class Time:
    """A clock that only a sleep advances."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)  # lets other requests join the queue
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def time():
    """The test's clock."""
    return Time()


@pytest.fixture
def limiter(time):
    """Make a limiter on the test's clock."""

    def make(**limits):
        return Limiter("openai", RequestLimits(**limits), clock=time, sleep=time.sleep)

    return make


async def refused(limiter, retry_after=None, tokens=500):
    """Make a request that the provider refuses for its rate limit."""
    with pytest.raises(ModelRateLimitError):
        async with limiter.request(tokens):
            raise ModelRateLimitError("gpt-5", "slow down", retry_after=retry_after)


# The rate.


def test_nothing_is_limited_before_the_first_refusal():
    """Without a set rate no request waits before the first refusal, however much is sent."""
    allowance = Allowance()
    for _ in range(100):
        assert allowance.wait(1e6, 0.0) == 0
        allowance.take(1e6, 0.0)


def test_a_bucket_holds_the_tokens_of_a_minute():
    """The tokens of a minute may be sent at once, and further ones as the bucket fills."""
    allowance = Allowance()
    allowance.limit(600)
    allowance.take(600, 0.0)
    assert allowance.wait(60, 0.0) == pytest.approx(6)
    assert allowance.wait(60, 5.0) == pytest.approx(1)
    assert allowance.wait(60, 6.0) == 0
    assert allowance.wait(60, 0.0, ahead=60) > allowance.wait(60, 6.0)


def test_a_request_larger_than_the_bucket_waits_for_a_full_bucket():
    """A request larger than the bucket is sent when the bucket is full, and later requests wait for its debt."""
    allowance = Allowance()
    allowance.limit(600)
    assert allowance.wait(6000, 0.0) == 0
    allowance.take(6000, 0.0)
    assert allowance.wait(1, 0.0) == pytest.approx(540.1)


def test_the_estimate_is_corrected_in_both_directions():
    """Tokens that were estimated too high are put back, and those too low are taken."""
    allowance = Allowance()
    allowance.limit(600)
    allowance.take(600, 0.0)
    allowance.take(-300, 0.0)
    assert allowance.wait(300, 0.0) == 0
    allowance.take(900, 0.0)
    assert allowance.wait(60, 0.0) == pytest.approx(66)


def test_a_refusal_halves_the_rate_and_successes_raise_it():
    """A refusal halves the rate; each success adds 5 % of the full rate, up to the full rate."""
    allowance = Allowance()
    allowance.limit(1000)
    allowance.count_refusal(10.0, sent=9.0, retry_after=None)
    assert allowance.rate == 500
    allowance.count_success()
    assert allowance.rate == 550
    for _ in range(20):
        allowance.count_success()
    assert allowance.rate == 1000


def test_a_refusal_empties_the_bucket():
    """After a refusal the next request waits for its tokens at the halved rate, even if the bucket was full."""
    allowance = Allowance()
    allowance.limit(1000)
    assert allowance.wait(100, 10.0) == 0
    allowance.count_refusal(10.0, sent=9.0, retry_after=None)
    assert allowance.wait(100, 10.0) == pytest.approx(12)


def test_the_rate_never_falls_below_a_tenth():
    """After any number of refusals the rate is a tenth of the full rate."""
    allowance = Allowance()
    allowance.limit(1000)
    for second in range(1, 20):
        allowance.count_refusal(float(second), sent=second - 0.5, retry_after=None)
    assert allowance.rate == 100


def test_refusals_of_requests_in_flight_together_halve_once():
    """The refusals of requests that were sent before the last halving do not halve the rate again."""
    allowance = Allowance()
    allowance.limit(1000)
    for _ in range(50):
        allowance.count_refusal(10.0, sent=9.0, retry_after=3.0)
    assert allowance.rate == 500
    assert allowance.closed_until == 13.0


@pytest.mark.parametrize(("sent", "full"), [(500, LEAST_KNOWN), (90_000, 90_000)])
def test_an_unset_rate_is_learned_from_the_last_minute(sent, full):
    """At the first refusal the full rate is what was sent in the last minute, at least 60,000; recovered, the limit ends."""
    allowance = Allowance()
    allowance.take(sent, 0.0)
    allowance.count_refusal(0.5, sent=0.0, retry_after=None)
    assert allowance.full_rate == pytest.approx(full, rel=0.01)
    assert allowance.rate == pytest.approx(full / 2, rel=0.01)
    assert allowance.wait(500, 0.5) == pytest.approx(500 / allowance.rate * 60)
    for _ in range(10):
        allowance.count_success()
    assert allowance.rate is None
    assert allowance.wait(1e9, 0.5) == 0


def test_tokens_sent_longer_than_a_minute_ago_do_not_count():
    """The full rate is learned only from the tokens of the last minute."""
    allowance = Allowance()
    allowance.take(1_000_000, 0.0)
    allowance.count_refusal(61.0, sent=60.9, retry_after=None)
    assert allowance.full_rate == LEAST_KNOWN


def test_nothing_is_sent_before_retry_after_has_passed():
    """A later, shorter `Retry-After` does not end an earlier one."""
    allowance = Allowance()
    allowance.count_refusal(10.0, sent=9.0, retry_after=20.0)
    allowance.count_refusal(11.0, sent=9.0, retry_after=2.0)
    assert allowance.wait(1, 12.0) == 18.0
    assert allowance.wait(1, 30.0) == 0


def test_the_strictest_rate_applies():
    """Of the rates of several planners for one provider, the lowest applies."""
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
def test_after_a_wait_the_request_may_be_sent(events):
    """After any events, the request may be sent when its wait has passed, and the rate stays within its bounds."""
    allowance, now = Allowance(), 0.0
    allowance.limit(6000)
    for what, value in events:
        match what:
            case "take":
                allowance.take(value, now)
            case "refused":
                allowance.count_refusal(now, sent=now, retry_after=value)
            case "succeeded":
                allowance.count_success()
            case _:
                now += value
        assert 600 <= allowance.rate <= 6000
    wait = allowance.wait(500, now)
    assert allowance.wait(500, now + wait) == 0


# The queue.


async def test_without_limits_no_request_waits(limiter, time):
    """Without limits requests are sent at the same time."""
    free = limiter()
    async with free.request(500), free.request(500), free.request(500):
        assert time.slept == []


async def test_a_request_waits_for_its_tokens(limiter, time):
    """A request waits exactly until the bucket has its tokens."""
    set_ = limiter(tokens_per_minute=6000)
    async with set_.request(6000):
        pass
    async with set_.request(600):
        pass
    assert time.slept == [pytest.approx(6)]


async def test_first_come_first_served(limiter, time):
    """A small request does not overtake a large one."""
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


async def test_a_refusal_delays_every_other_request(limiter, time):
    """After a refusal no request is sent before `Retry-After` has passed."""
    free = limiter()
    await refused(free, retry_after=20)
    async with free.request(500):
        assert time.now == pytest.approx(1020)


async def test_a_long_wait_is_handed_over(limiter, time):
    """A request that would wait for more than 30 s raises at once with its delay, and keeps no slot of the worker."""
    free = limiter()
    await refused(free, retry_after=90)
    with pytest.raises(ModelRateLimitError) as caught:
        async with free.request(500, "gpt-5"):
            pytest.fail("it was sent")
    assert caught.value.retry_after == pytest.approx(90)
    assert caught.value.model_name == "gpt-5"
    assert time.slept == []
    assert free.allowance.rate == LEAST_KNOWN / 2


async def test_requests_handed_over_come_back_one_after_the_other(limiter):
    """The delays of requests handed over differ by the time that the bucket needs for their tokens."""
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
    """The tokens of earlier requests in the queue count in the wait of a request."""
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


async def test_a_refusal_while_a_request_waits_hands_it_over(limiter, time):
    """A waiting request computes its wait again before it is sent."""
    set_ = limiter(tokens_per_minute=6000)
    async with set_.request(6000):
        pass
    sleep = set_._sleep

    async def refuse_meanwhile(seconds):
        set_.allowance.count_refusal(time(), sent=time(), retry_after=300)
        await sleep(seconds)

    set_._sleep = refuse_meanwhile
    with pytest.raises(ModelRateLimitError) as caught:
        async with set_.request(600):
            pytest.fail("it was sent")
    assert caught.value.retry_after == pytest.approx(294)


async def test_retry_after_is_bounded(limiter, time):
    """A `Retry-After` stops the requests of a worker for at most an hour."""
    free = limiter()
    await refused(free, retry_after=1e7)
    assert free.allowance.closed_until == time.now + LONGEST_CLOSED


async def test_a_cancelled_wait_leaves_nothing_behind(limiter):
    """A cancelled wait leaves neither a place in the queue nor taken tokens."""
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
    assert len(set_._queue) == 0
    assert await send()


async def test_other_failures_do_not_change_the_rate(limiter):
    """A failure that is no refusal neither lowers nor raises the rate."""
    set_ = limiter(tokens_per_minute=6000)
    await refused(set_)
    with pytest.raises(ValueError, match="odd"):
        async with set_.request(500):
            raise ValueError("odd")
    assert set_.allowance.rate == 3000


# Tenants.


async def send_together(limiter, *requests):
    """Send requests of tenants, `(tenant, tokens, used)`, at once, and return the order in which they were sent, and the errors."""
    order = list[str]()

    async def send(tenant, tokens, used):
        async with limiter.request(tokens) as sent:
            order.append(tenant)
            await asyncio.sleep(0)
            sent.used = used

    sending = [as_tenant(each[0], send, *each) for each in requests]
    return order, [each for each in await asyncio.gather(*sending, return_exceptions=True) if each]


async def test_a_tenants_queue_turns_no_request_of_another_away(limiter):
    """With almost 30 s of one tenant's requests waiting, another tenant's is sent after one of them."""
    set_ = limiter(tokens_per_minute=6000)
    async with set_.request(6000):
        pass
    order, errors = await send_together(set_, *10 * [("noisy", 280, 280)], ("quiet", 600, 600))
    assert (order, errors) == (["noisy", "quiet", *9 * ["noisy"]], [])


async def test_a_tenants_own_queue_turns_its_request_away(limiter):
    """A request waits for its tenant's queue, and for as much of the others' as goes before it."""
    set_ = limiter(tokens_per_minute=6000)
    async with set_.request(6000):
        pass
    order, errors = await send_together(set_, *6 * [("noisy", 500, 500)], ("noisy", 600, 600))
    assert (order, [type(each) for each in errors]) == (6 * ["noisy"], [ModelRateLimitError])


async def test_each_tenant_is_handed_over_in_a_line_of_its_own(limiter):
    """While all is closed, a tenant's many requests put off those of another by no more than their share."""
    set_ = limiter(tokens_per_minute=6000)
    await refused(set_, retry_after=90)

    async def send():
        with pytest.raises(ModelRateLimitError) as caught:
            async with set_.request(600):
                pytest.fail("it was sent")
        return caught.value.retry_after

    noisy = [await as_tenant("noisy", send) for _ in range(20)]
    quiet = [await as_tenant("quiet", send) for _ in range(2)]
    assert noisy[-1] == pytest.approx(90 + 19 * 12)
    assert quiet == [pytest.approx(90), pytest.approx(90 + 2 * 12)]


async def test_a_tenant_pays_for_what_it_underestimates(limiter):
    """A tenant whose requests use more than was estimated waits for it, while others go first."""
    set_ = limiter(tokens_per_minute=6000)
    async with set_.request(6000):
        pass
    order, errors = await send_together(set_, *4 * [("greedy", 100, 300), ("modest", 100, 100)])
    assert errors == []
    assert order == ["greedy", "modest", "modest", "modest", "greedy", "modest", "greedy", "greedy"]


async def test_slots_go_to_tenants_in_turn(limiter):
    """Of requests that wait for a slot, another tenant's is the next but one."""
    order, errors = await send_together(limiter(concurrency=1), *10 * [("noisy", 500, 0)], ("quiet", 500, 0))
    assert (order, errors) == (["noisy", "noisy", "quiet", *8 * ["noisy"]], [])


# Requests in flight.


async def test_no_more_requests_are_in_flight_than_allowed(limiter):
    """Beyond the limit of requests in flight, a request waits until another has ended."""
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
    """A request that gets no slot within the longest wait raises with its delay."""
    monkeypatch.setattr(module, "LONGEST_WAIT", 0.01)
    one = limiter(concurrency=1)
    async with one.request(500):
        with pytest.raises(ModelRateLimitError) as caught:
            async with one.request(500):
                pytest.fail("it was sent")
    assert caught.value.retry_after == 0.01
    async with one.request(500):
        pass


async def test_the_strictest_concurrency_applies(limiter):
    """Of the limits of several planners for one provider, the lowest applies."""
    some = limiter(concurrency=3)
    some.limit(RequestLimits(concurrency=5))
    assert some._slots.slots == 3
    some.limit(RequestLimits(concurrency=1))
    assert some._slots.slots == 1


# Shared limiters.


async def test_models_of_one_provider_and_key_share_a_limiter(standin):
    """Models with another key or of another provider have another limiter."""
    chat = standin.model("openai-chat")
    assert limiter_for(chat) is limiter_for(standin.model("openai-responses"))
    for protocol in PROTOCOLS:
        one, other = standin.model(protocol), standin.model(protocol, api_key="another")
        assert limiter_for(one) is limiter_for(standin.model(protocol))
        assert limiter_for(one) is not limiter_for(other)
    assert limiter_for(chat) is not limiter_for(standin.model("anthropic"))
    elsewhere, client = model_of("openai-chat", "http://127.0.0.1:9", api_key=standin.key)
    async with client:
        assert limiter_for(chat) is not limiter_for(elsewhere)
    assert limiter_for(standin.model("anthropic"), RequestLimits(tokens_per_minute=500)).allowance.rate == 500


def test_each_event_loop_has_its_own_limiters():
    """A model has another limiter in another event loop, whose tasks cannot wake each other."""
    model = FunctionModel(lambda *_: ModelResponse(parts=[]))

    async def limiter():
        return limiter_for(model)

    assert asyncio.run(limiter()) is not asyncio.run(limiter())


# Settings.


@pytest.mark.parametrize(
    ("environment", "given", "expected"),
    [
        ({}, (None, None), RequestLimits()),
        ({"SOJOURN_MODEL_CONCURRENCY": "8", "SOJOURN_MODEL_TPM": ""}, (None, None), RequestLimits(8, None)),
        (
            {"SOJOURN_MODEL_CONCURRENCY": "8", "SOJOURN_MODEL_TPM": "90000"},
            (2, None),
            RequestLimits(2, 90_000),
        ),
    ],
)
def test_a_given_limit_replaces_that_of_the_environment(monkeypatch, environment, given, expected):
    """A given limit replaces the environment variable, and an empty variable sets no limit."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert RequestLimits.from_environment(*given) == expected


@pytest.mark.parametrize(
    ("environment", "given", "message"),
    [
        ({"SOJOURN_MODEL_CONCURRENCY": "many"}, (None, None), "SOJOURN_MODEL_CONCURRENCY is 'many'"),
        ({"SOJOURN_MODEL_TPM": "-1"}, (None, None), "SOJOURN_MODEL_TPM is '-1'"),
        ({"SOJOURN_MODEL_TPM": "0"}, (None, None), "SOJOURN_MODEL_TPM is '0'"),
        ({}, (0, None), "max_concurrency is 0"),
        ({}, (None, -5), "tokens_per_minute is -5"),
    ],
)
def test_a_limit_that_is_no_number_above_0_is_refused(monkeypatch, environment, given, message):
    """A wrong limit is refused when it is declared, not in the middle of a run."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DefinitionError, match=message):
        RequestLimits.from_environment(*given)


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
    """The time-out is the given one, else the provider's, and the SDK's retries are always off."""
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
    """A family of models with its own time-outs has them at every provider but Anthropic."""
    assert timeouts_name(standin.model(protocol, name)) == row
