"""Injected fields and interceptors: hidden from models, filled in, and never recorded (SR-41 to SR-49)."""

import json

import pytest
from pydantic import BaseModel

from sojourn import (
    Agent,
    App,
    Client,
    PlanResult,
    RateLimited,
    ToolCallMeta,
    ToolFailed,
    ToolRequest,
    Toolset,
)
from sojourn.errors import DefinitionError
from sojourn.storage import FolderStorage
from sojourn.testing import ScriptedPlanner

SECRET = "tok-5f2c91d7"  # a token that an interceptor injects


class UserData(BaseModel):
    data: list[str]


class UserService:
    """The service of SR-45."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def get_data(self, session_id: str, query: str) -> UserData:
        self.calls.append((session_id, query))
        return UserData(data=[query])


class Vault:
    """An interceptor that injects a token into calls of these tools, and records the metas of all calls."""

    def __init__(self, *tools) -> None:
        self.tools = {tool.id: tool for tool in tools}
        self.seen: list[ToolCallMeta] = []

    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        self.seen.append(meta)
        tool = self.tools.get(call.name)
        return tool.inject(call, token=SECRET) if tool else call


def app_with(tools, planner, **more) -> App:
    return App(agents=[Agent("test.agent", planner=planner, uses=[tools])], **more)


async def one_call(serve, tools, request, **more):
    """Run one call; return its result, the run and the planner."""
    planner = ScriptedPlanner([PlanResult.calls(request), PlanResult.final("done")])
    client = await serve(app_with(tools, planner, **more))
    run = await client.start("test.agent", "go", session_id="s-1")
    await run.result()
    return planner.turns[1].tool_results[0], run, planner


async def recorded(traces, run) -> str:
    """The whole history as text."""
    return "\n".join(str(event) for event in await traces(run).history())


async def test_the_session_id_is_filled_in(serve):
    """`get_user_data` advertises only `query`, and the service gets the session's id too (SR-41 to SR-46)."""
    tools, service = Toolset("users.data"), UserService()
    get = tools.bind(UserService.get_data, name="get_user_data", inject=["session_id"])
    schema = get.spec.payload.json_schema
    assert (list(schema["properties"]), schema["required"]) == (["query"], ["query"])
    assert get.spec.injected == ["session_id"]
    request = ToolRequest(name=get.id, payload={"query": "orders"})
    result, _, planner = await one_call(serve, tools, request, services=[service])
    assert result.result == {"data": ["orders"]}
    assert service.calls == [("s-1", "orders")]
    assert "session_id" not in json.dumps(planner.turns[0].tools[0].model_dump(mode="json")["payload"])


async def test_a_models_value_for_an_injected_field_is_dropped(serve):
    """A model cannot set a field that is hidden from it."""
    tools, service = Toolset("users.data"), UserService()
    get = tools.bind(UserService.get_data, inject=["session_id"])
    request = ToolRequest(name=get.id, payload={"query": "x", "session_id": "someone else's"})
    result, _, _ = await one_call(serve, tools, request, services=[service])
    assert result.ok
    assert service.calls == [("s-1", "x")]


async def test_functions_and_interceptors_fill_in_order(serve, traces):
    """The fields' functions run first, then each interceptor, with the call's meta; no value is recorded."""
    tools, got = Toolset("users.data"), []

    @tools.tool(inject={"tenant": lambda meta: f"tenant-of-{meta.session_id}", "token": None})
    def fetch(query: str, tenant: str, token: str) -> str:
        got.append((query, tenant, token))
        return query

    vault = Vault(fetch)
    result, run, _ = await one_call(
        serve, tools, ToolRequest(name=fetch.id, payload={"query": "q"}), interceptors=[vault]
    )
    assert result.result == "q"
    assert got == [("q", "tenant-of-s-1", SECRET)]
    (meta,) = vault.seen
    assert (meta.run_id, meta.session_id, meta.agent_id) == (run.id, "s-1", "test.agent")
    history = await recorded(traces, run)
    assert SECRET not in history
    assert "tenant-of" not in history


@pytest.mark.parametrize("fault", [ToolFailed, ValueError, RateLimited])
async def test_injected_values_are_masked_in_answers_of_a_tool(serve, traces, fault):
    """Results, errors and failures of attempts name the field in place of its value."""
    tools = Toolset("users.data")

    @tools.tool(inject=["token"])
    def fetch(query: str, token: str) -> str:
        if query == "echo":
            return f"you are {token}"
        raise fault(f"401 for {token}")

    calls = [ToolRequest(name=fetch.id, payload={"query": word}) for word in ("echo", "fail")]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    client = await serve(app_with(tools, planner, interceptors=[Vault(fetch)]))
    run = await client.start("test.agent", "go")
    await run.result()
    echoed, failed = planner.turns[1].tool_results
    assert echoed.result == "you are [token]"
    assert "401 for [token]" in failed.error.message
    assert SECRET not in await recorded(traces, run)


async def test_a_call_with_a_missing_injected_field_is_answered_unavailable(serve, caplog):
    """Where nothing fills a field in, the call is answered `tool_unavailable`, and only the log names the field (SR-44)."""
    tools, ran = Toolset("users.data"), []

    @tools.tool(inject=["token"])
    def fetch(query: str, token: str) -> str:
        ran.append(query)
        return query

    result, _, _ = await one_call(serve, tools, ToolRequest(name=fetch.id, payload={"query": "q"}))
    assert result.retry_hint.reason == "tool_unavailable"
    assert "token" not in str(result)
    assert ran == []
    assert "injected_fields_wrong" in (logged := caplog.text)
    assert "missing_field" in logged


async def test_faults_of_the_model_come_first(serve):
    """A bad payload is refused as it was sent, without what would be injected."""
    tools = Toolset("users.data")

    @tools.tool(inject=["token"])
    def fetch(query: str, token: str) -> str:
        return query

    request = ToolRequest(name=fetch.id, payload={"querry": "q"})
    result, _, _ = await one_call(serve, tools, request, interceptors=[Vault(fetch)])
    hint = result.retry_hint
    assert hint.prior_input == {"querry": "q"}
    assert hint.example_input == {"query": "q"}
    assert [issue.field for issue in hint.issues] == ["/query", "/querry"]
    assert SECRET not in str(result)


async def test_an_interceptor_that_raises_prevents_the_call(serve):
    """The interceptor's error is the call's, and the tool does not run (SR-47, SR-48)."""
    tools, ran = Toolset("users.data"), []

    @tools.tool
    def fetch(query: str) -> str:
        ran.append(query)
        return query

    class NoSession:
        async def intercept_tool_call(self, meta, call):
            raise ValueError("session ID not found in context")

    request = ToolRequest(name=fetch.id, payload={"query": "q"})
    result, _, _ = await one_call(serve, tools, request, interceptors=[NoSession()])
    assert "session ID not found in context" in result.error.message
    assert ran == []


def test_declarations_that_cannot_be_injected():
    """An injected field that the arguments lack, and an object that is no interceptor, are definition errors."""
    tools = Toolset("users.data")

    def fetch(query: str) -> str:
        return query

    with pytest.raises(DefinitionError, match="no field 'token' to inject"):
        tools.tool(inject=["token"])(fetch)
    with pytest.raises(DefinitionError, match="intercept_tool_call"):
        app_with(tools, ScriptedPlanner([]), interceptors=[object()])


def test_definitions_that_only_hidden_fields_use_are_hidden_too():
    """The advertised schema has no definition of an injected model."""
    tools = Toolset("users.data")

    class Credentials(BaseModel):
        user: str
        password: str

    def fetch(query: UserData, credentials: Credentials) -> str:
        return "x"

    fetch.__annotations__ = {"query": UserData, "credentials": Credentials, "return": str}
    tool = tools.tool(inject=["credentials"])(fetch)
    assert "assword" not in json.dumps(tool.spec.payload.json_schema)
    assert "UserData" in tool.spec.payload.json_schema["$defs"]


async def test_values_of_an_earlier_interceptor_are_masked_in_errors_of_a_later_one(serve, traces):
    """An interceptor that raises with the payload in its message exposes no value that was injected before."""
    tools = Toolset("users.data")

    @tools.tool(inject=["token"])
    def fetch(query: str, token: str) -> str:
        return query

    class Clumsy:
        async def intercept_tool_call(self, meta, call):
            raise ValueError(f"cannot use {call.payload}")

    request = ToolRequest(name=fetch.id, payload={"query": "q"})
    result, run, _ = await one_call(serve, tools, request, interceptors=[Vault(fetch), Clumsy()])
    assert "cannot use" in result.error.message
    assert "[token]" in result.error.message
    assert SECRET not in await recorded(traces, run)


async def test_a_stored_result_is_masked_and_still_found(serve, tmp_path):
    """A large result is stored without the secret; a value equal to a word in references (`result`) breaks none."""
    tools = Toolset("users.data")

    @tools.tool(inject={"tenant": lambda meta: "result", "token": None})
    def fetch(query: str, tenant: str, token: str) -> str:
        return f"{token} " * 200_000

    storage = FolderStorage(tmp_path)
    request = ToolRequest(name=fetch.id, payload={"query": "q"})
    result, run, _ = await one_call(serve, tools, request, interceptors=[Vault(fetch)], storage=storage)
    assert result.result["omitted"] is True
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 1
    assert SECRET.encode() not in files[0]
    reader = Client(run.client.temporal, storage=storage)
    assert (await reader.artifact(result.result["artifact"])).data.startswith("[token] [token]")
