"""Typed calls and setters of tools with injected fields (SR-5, SR-43, SR-46)."""

from datetime import UTC, datetime

import pytest
from pydantic import BaseModel, Field, SecretStr

from sojourn import ToolRequest, Toolset


class Credentials(BaseModel):
    user: str
    rights: list[int] = []


class GetData(BaseModel):
    """The payload of SR-46, with more to inject."""

    session_id: str
    query: str
    at: datetime | None = None
    token: SecretStr | None = None
    level: int = Field(default=1, ge=1, le=5)
    credentials: Credentials | None = None


INJECTED = ["session_id", "at", "token", "level", "credentials"]
tools = Toolset("test.data")


@tools.tool(inject=INJECTED)
async def by_model(get: GetData) -> str:
    return get.query


@tools.tool(inject=["session_id", "level"])
def by_parameters(session_id: str, query: str, level: int = 1, limit: int = 5) -> str:
    return query


declared = tools.declare("declared", args=GetData, result=str, inject=INJECTED)


@pytest.mark.parametrize("tool", [by_model, by_parameters, declared], ids=str)
def test_a_call_is_made_of_the_fields_that_are_not_injected(tool):
    """`call` needs no values for injected fields."""
    assert tool.call(query="orders") == ToolRequest(name=tool.id, payload={"query": "orders"})
    assert tool.validator.is_valid(tool.call(query="orders").payload)


def test_an_injected_field_is_never_written_into_a_call():
    """A call is recorded, so `call` drops the injected fields of a whole model or of keywords."""
    whole = GetData(session_id="s-1", query="orders", token=SecretStr("tok-5f2c91d7"))
    assert by_model.call(whole).payload == {"query": "orders"}
    assert by_parameters.call(query="orders", session_id="s-1", limit=3).payload == {
        "query": "orders",
        "limit": 3,
    }


@pytest.mark.parametrize("tool", [by_model, by_parameters, declared], ids=str)
def test_an_unknown_field_is_refused_at_once(tool):
    """`call` refuses an unknown field, since type checkers do not check the names of its arguments."""
    with pytest.raises(TypeError, match=rf"{tool.id} has no field 'querry'; its fields are query"):
        tool.call(querry="orders")


def test_the_setter_assigns_its_field():
    """`inject` sets a field to its value as JSON (SR-46)."""
    call = by_model.call(query="orders")
    when = datetime(2026, 1, 2, tzinfo=UTC)
    filled = by_model.inject(
        call,
        session_id="s-1",
        at=when,
        token=SecretStr("tok-5f2c91d7"),
        level=3,
        credentials=Credentials(user="ana"),
    )
    assert filled.payload == {
        "query": "orders",
        "session_id": "s-1",
        "at": "2026-01-02T00:00:00Z",
        "token": "tok-5f2c91d7",
        "level": 3,
        "credentials": {"user": "ana", "rights": []},
    }
    assert by_model.whole_validator.is_valid(filled.payload)
    got = declared.decode(declared.inject(declared.call(query="orders"), session_id="s-1", token="tok"))
    assert (got.session_id, got.token) == ("s-1", SecretStr("tok"))


def test_a_value_that_does_not_fit_is_refused_at_once(subtests: pytest.Subtests) -> None:
    """`inject` refuses a value that does not fit with an error that has the field and the rule, but not the value."""
    rows = [
        ({"session_id": 5}, "the value of session_id does not fit .*must be a string"),
        ({"session_id": None}, "the value of session_id does not fit"),
        ({"level": "tok-5f2c91d7"}, "the value of level does not fit .*must be an integer"),
        ({"level": 6}, "the value of level does not fit"),
        ({"credentials": {"user": "tok-5f2c91d7", "rights": ["x"]}}, r"the value of credentials"),
        ({"session_id": ...}, "session_id: a value of type ellipsis does not fit"),
        (
            {"query": "x"},
            "no injected field 'query'; its injected fields are session_id, at, token, level, credentials",
        ),
        ({"tokn": "x"}, "no injected field 'tokn'"),
    ]
    for values, message in rows:
        with subtests.test(values=values, message=message):
            with pytest.raises(TypeError, match=rf"test\.data\.by_model:? ?.*{message}") as caught:
                by_model.inject(by_model.call(query="orders"), **values)
            assert "tok-5f2c91d7" not in str(caught.value)


def test_a_setter_is_for_calls_of_its_tool():
    """`inject` refuses a call of another tool, which would be refused later for a field that its planner never sent."""
    with pytest.raises(ValueError, match=r"a call of test\.data\.declared cannot get the injected fields"):
        by_model.inject(declared.call(query="orders"), session_id="s")
