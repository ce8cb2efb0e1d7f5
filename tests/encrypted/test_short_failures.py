"""Failures of attempts: what Temporal holds of one keeps its message, with a codec and with tracing."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from sojourn.connection.connect import converter_with
from sojourn.converter.data_converter import data_converter
from sojourn.converter.failures import LARGEST
from tests.encrypted.keys import FernetCodec


def chain(texts: list[str], depth: int) -> BaseException:
    """A failure for each text, each the cause of the one before, raised at some depth."""
    failure: BaseException | None = None

    def raised(error: BaseException, left: int) -> None:
        if left:
            raised(error, left - 1)
            return
        raise error from failure

    for text in reversed(texts):
        try:
            raised(ApplicationError(text, type="ToolUnavailable"), depth)
        except ApplicationError as error:
            failure = error
    assert failure is not None
    return failure


async def test_a_failure_that_is_not_attempted_again_stays_whole():
    """The history has all of its messages, which the server does not bound so."""
    failure = Failure()
    await data_converter.encode_failure(ApplicationError("x" * 9_000, non_retryable=True), failure)
    assert failure.message == "x" * 9_000


@pytest.mark.parametrize("codec", [None, FernetCodec()])
@given(texts=st.lists(st.text(max_size=2_500), min_size=1, max_size=6), depth=st.integers(0, 40))
def test_no_failure_is_larger_than_the_server_holds(codec, texts, depth):
    """Whatever its messages, its causes and its stack traces, it keeps the beginning of its message, and its type."""
    converter = converter_with(codec) if codec else data_converter
    failure = Failure()

    async def there_and_back() -> BaseException:
        await converter.encode_failure(chain(texts, depth), failure)
        assert failure.ByteSize() <= LARGEST
        return await converter.decode_failure(failure)

    read = asyncio.run(there_and_back())
    assert isinstance(read, ApplicationError)
    assert read.type == "ToolUnavailable"
    begin = texts[0].encode(errors="replace")[:200].decode(errors="ignore")
    assert (read.message or "").startswith(begin or read.message or "")
