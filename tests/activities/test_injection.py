"""Injection: fields that callers must not choose are filled in order, and their values masked."""

from typing import Any

import pytest

from activities.interception import Injection
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest

META = ToolCallMeta(run_id="run-1", tool_call_id="c1")
CALL = ToolRequest(name="ops.test.send", payload={"text": "hi"}, tool_call_id="c1")


class Setting:
    """An interceptor that sets one field."""

    def __init__(self, value: str) -> None:
        self._value = value
        self.seen: Any = None

    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        del meta
        self.seen = call.payload.get("key")
        return call.model_copy(update={"payload": {**call.payload, "key": self._value}})


async def test_every_value_that_a_field_held_stays_masked():
    """The filler runs first, then the interceptors in order; the last value counts, and every value is masked."""
    first, second = Setting("first-interceptor"), Setting("second-interceptor")
    injection = Injection({"key": lambda _: "from-the-filler"}, [first, second])
    call = await injection.prepare(CALL, META)
    assert (first.seen, second.seen) == ("from-the-filler", "first-interceptor")
    assert call.payload == {"text": "hi", "key": "second-interceptor"}
    assert injection.mask is not None
    masked = injection.mask("from-the-filler first-interceptor second-interceptor hi")
    assert not any(word in masked for word in ("filler", "interceptor"))
    assert masked.endswith("hi")


async def test_a_marked_secret_and_an_injected_value_are_both_masked():
    """`whole` masks the secrets that the payload's schema marks, and injected values; `mask` only injected values."""
    injection = Injection({"key": lambda _: "injected-value"}, [])
    injection.mark({"password": ["open-sesame"]})
    await injection.prepare(CALL, META)
    assert injection.whole is not None
    assert injection.mask is not None
    assert injection.whole("open-sesame injected-value").find("sesame") == -1
    assert "injected" not in injection.whole("open-sesame injected-value")
    assert "sesame" in injection.mask("open-sesame")


@pytest.mark.parametrize(("injected", "marked"), [("abcd", "abcd-efgh"), ("abcd-efgh", "abcd")])
async def test_of_a_marked_secret_and_an_injected_value_the_longer_is_masked_first(injected, marked):
    """Where one of the two begins with the other, no part of the longer one remains."""
    injection = Injection({"key": lambda _: injected}, [])
    injection.mark({"password": [marked]})
    await injection.prepare(CALL, META)
    assert injection.whole is not None
    assert "efgh" not in injection.whole("no abcd-efgh here")
