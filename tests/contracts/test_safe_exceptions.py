"""The place of an exception: the innermost line of the author's own code."""

import json
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from sojourn import ToolError, ToolFailed
from sojourn.contracts.safe_exceptions import source_location

HERE = Path(__file__).name


def raised(work) -> BaseException:
    try:
        work()
    except BaseException as error:
        return error
    raise AssertionError


def missing():
    return {}["b"]


def parsed():
    return json.loads("no JSON")


MISSING = f"{HERE}:{missing.__code__.co_firstlineno + 1}"
PARSED = f"{HERE}:{parsed.__code__.co_firstlineno + 1}"


def test_the_line_is_the_innermost_of_the_author():
    """The line is where the author's code raised, or called the standard library that raised."""
    assert source_location(raised(missing)) == MISSING
    assert source_location(raised(parsed)) == PARSED


class NoStockError(ToolFailed):
    """An author's error for the planner."""


@pytest.mark.parametrize("kind", [ToolFailed, NoStockError, ApplicationError])
def test_a_sentence_for_people_has_no_place(kind):
    """Errors of Sojourn and of Temporal, and those derived from them, are written for people."""

    def fail():
        raise kind("no stock")

    assert source_location(raised(fail)) is None


def test_an_exception_never_raised_has_no_place():
    """Without a traceback, or with none of the author's lines in it, there is no place."""
    assert source_location(RuntimeError("x")) is None
    code = compile("1 / 0", "<text>", "exec")
    inner = raised(lambda: exec(code, {"__name__": "sojourn.x"}))
    inner.__traceback__ = inner.__traceback__.tb_next.tb_next
    assert source_location(inner) is None


def test_the_text_names_type_and_place():
    """`text` has the type once and the place; the message itself, which a planner reads, has neither."""
    error = ToolError.from_error(raised(missing))
    assert (error.message, error.place) == ("KeyError: 'b'", MISSING)
    assert error.text == f"KeyError: 'b' ({error.place})"

    def fail():
        raise RuntimeError("no stock")

    told = ToolError.from_error(raised(fail))
    assert (told.message, told.text) == ("no stock", f"RuntimeError: no stock ({told.place})")
    assert ToolError.new("x", code="mine").text == "x"
    assert ToolError.from_error(raised(lambda: (_ for _ in ()).throw(RuntimeError()))).text.startswith(
        "RuntimeError ("
    )
