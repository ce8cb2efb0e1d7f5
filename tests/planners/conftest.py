"""Rehearsals: runs of the deployment's planners, tools and hints in this process, without a Temporal server."""

import inspect
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sojourn import (
    AwaitClarification,
    Message,
    PlanInput,
    PlanResult,
    PlanResumeInput,
    RetryHint,
    RunContext,
    ToolCallMeta,
    ToolError,
    ToolFailed,
    ToolRequest,
    ToolResult,
    ToolUnavailable,
)
from sojourn.authoring.agent import ExportedTool
from sojourn.contracts import Finalize
from sojourn.core.awaits.confirmation import deny
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import refusal
from toolsets import database
from toolsets.work_orders import transport, work_orders
from worker import app


@pytest.fixture(scope="session")
def made_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the database once."""
    path = tmp_path_factory.mktemp("ops") / "ops.db"
    database.make(path)
    return path


@pytest.fixture(scope="session")
def used_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the current test's database, which the MCP server of all tests uses too."""
    return tmp_path_factory.mktemp("used") / "ops.db"


@pytest.fixture(autouse=True)
def ops_database(made_database: Path, used_database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a copy of the database, and tools without pauses."""
    shutil.copy(made_database, used_database)
    monkeypatch.setenv("SOJOURN_OPS_DB", str(used_database))
    monkeypatch.setenv("SOJOURN_OPS_SCAN_PAUSE", "0")
    return used_database


@pytest.fixture(scope="session")
async def mcp_server(processes, used_database: Path) -> AsyncIterator[None]:
    """Open the MCP toolset once for all tests; its server is a process that uses the current test's database."""
    work_orders.transport = transport(used_database)
    await work_orders.open()
    assert work_orders.unavailable is None
    yield
    await work_orders.close()


class Rehearsal:
    """A run of an agent, plan by plan; each plan is made from the transcript alone."""

    def __init__(self, agent_id: str = "ops.assistant", *, may_ask: bool = True) -> None:
        self.agent_id = agent_id
        self.may_ask = may_ask
        self.broken: dict[str, RetryHint] = {}
        """The hints with which tools fail instead of being called, by tool id."""
        self.denied: dict[str, str] = {}
        """The reasons for which a person denies calls, by tool id."""
        self.stop_before_step: int | None = None
        """The number of the step, from 0, in place of which the last turn begins."""
        self.messages: list[Message] = []
        self.plans: list[PlanResult] = []
        self.results: list[ToolResult] = []

    @property
    def steps(self) -> list[list[str]]:
        """The tools of each plan with calls, by the last part of their ids."""
        return [
            [call.name.rsplit(".", 1)[-1] for call in plan.tool_calls]
            for plan in self.plans
            if plan.tool_calls
        ]

    def payloads(self, tool: str) -> list[dict[str, Any]]:
        """Return the payloads of a tool's calls, in order."""
        return [
            call.payload for plan in self.plans for call in plan.tool_calls if call.name.endswith(f".{tool}")
        ]

    def result(self, tool: str) -> dict[str, Any]:
        """Return the last successful result of a tool."""
        return [r.result for r in self.results if r.name.endswith(f".{tool}") and not r.error][-1]

    async def ask(self, text: str) -> AwaitClarification:
        """Send a message to which the run answers with a question, and return the question."""
        plan = await self.say(text)
        assert plan.await_, plan
        return plan.await_

    async def finish(self, text: str) -> str:
        """Send a message to which the run ends with an answer, and return its text."""
        plan = await self.say(text)
        assert plan.final_response, plan
        return plan.final_response.text

    async def say(self, text: str) -> PlanResult:
        self.messages.append(Message.user(text))
        return await self.advance()

    async def advance(self) -> PlanResult:
        results: list[ToolResult] = []
        for _ in range(20):
            if self.stop_before_step == len(self.steps):
                return await self.plan(results, Finalize(reason="max_tool_rounds", message="Answer now."))
            plan = await self.plan(results)
            assert self.may_ask or not plan.await_, "this agent may not ask"
            if not plan.tool_calls:
                text = (
                    plan.await_.question
                    if plan.await_
                    else (plan.final_response or Message.assistant("")).text
                )
                self.messages.append(Message.assistant(text))
                return plan
            calls = [
                call
                if call.tool_call_id
                else call.model_copy(update={"tool_call_id": f"c{len(self.results) + n}"})
                for n, call in enumerate(plan.tool_calls)
            ]
            results = [await self.execute(call) for call in calls]
            self.results += results
            self.messages += [Message.calls(calls), Message.results(results)]
        raise AssertionError(f"the run does not end: {self.steps}")

    async def plan(self, results: list[ToolResult], finalize: Finalize | None = None) -> PlanResult:
        agent = app.agent(self.agent_id)
        assert agent
        tools = [] if finalize else app.tool_specs_for_agent(self.agent_id) or []
        turn = PlanResumeInput(
            run=RunContext(run_id="r", agent_id=self.agent_id, interrupts_allowed=self.may_ask),
            messages=[Message.model_validate_json(m.model_dump_json()) for m in self.messages],
            tools=tools,
            tool_results=results,
            finalize=finalize,
        )
        if self.plans:
            plan = await agent.planner.plan_resume(turn)
        else:
            plan = await agent.planner.plan_start(
                PlanInput(run=turn.run, messages=turn.messages, tools=tools)
            )
        self.plans.append(plan)
        return plan

    async def execute(self, call: ToolRequest) -> ToolResult:
        answer = {"name": call.name, "tool_call_id": call.tool_call_id}
        tool = app.tools_of(self.agent_id)[call.name]
        if hint := self.broken.get(call.name):
            return ToolResult(**answer, error=ToolError.new(hint.message or "broken"), retry_hint=hint)
        if issues := tool.validator.issues(call.payload):
            error, hint = hints.hint_for_issues(tool.spec, call.payload, issues, tool.validator)
            return ToolResult(**answer, error=error, retry_hint=hint)
        if why := self.denied.get(call.name):
            return deny(call, why)
        if isinstance(tool, ExportedTool):
            child = Rehearsal(tool.agent.id)
            child.messages = tool.messages(call.payload)
            return ToolResult(**answer, result=(await child.advance()).result)
        meta = ToolCallMeta(run_id="r", tool_call_id=call.tool_call_id, idempotency_key=call.tool_call_id)
        try:
            value = tool.prepare(call.payload, call, meta)()
            value = await value if inspect.isawaitable(value) else value
        except ToolUnavailable as error:
            return refusal(call, hints.unavailable(call.name, str(error)))
        except ToolFailed as error:
            return ToolResult(**answer, error=ToolError.from_error(error), retry_hint=error.hint)
        return tool.deliver(call, value)


@pytest.fixture
def run(mcp_server: None) -> Rehearsal:
    """A rehearsal of the assistant."""
    return Rehearsal()
