"""Rehearsals: real planners, tools and hints, without a server."""

import inspect
import shutil
from pathlib import Path
from typing import Any

import pytest

from sojourn import (
    AwaitClarification,
    Finalize,
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
)
from sojourn.agent import ExportedTool
from sojourn.core.hints import hint_for_issues
from toolsets import database
from worker import app


@pytest.fixture(scope="session")
def made_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the database once."""
    path = tmp_path_factory.mktemp("ops") / "ops.db"
    database.make(path)
    return path


@pytest.fixture(autouse=True)
def ops_database(made_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a copy of its own, and no pauses."""
    path = tmp_path / "ops.db"
    shutil.copy(made_database, path)
    monkeypatch.setenv("SOJOURN_OPS_DB", str(path))
    monkeypatch.setenv("SOJOURN_OPS_SCAN_PAUSE", "0")
    return path


class Rehearsal:
    """One run of an agent, turn by turn; every turn sees only the transcript."""

    def __init__(self, agent_id: str = "ops.assistant", *, may_ask: bool = True) -> None:
        self.agent_id = agent_id
        self.may_ask = may_ask
        self.broken: dict[str, RetryHint] = {}
        """Tools that fail with this hint in place of being called."""
        self.stop_before_step: int | None = None
        """The step that is refused, so that the run finalizes."""
        self.messages: list[Message] = []
        self.plans: list[PlanResult] = []
        self.results: list[ToolResult] = []

    @property
    def steps(self) -> list[list[str]]:
        """The tools of each plan with calls, by their last name."""
        return [
            [call.name.rsplit(".", 1)[-1] for call in plan.tool_calls]
            for plan in self.plans
            if plan.tool_calls
        ]

    def payloads(self, tool: str) -> list[dict[str, Any]]:
        """What a tool was called with, in order."""
        return [
            call.payload for plan in self.plans for call in plan.tool_calls if call.name.endswith(f".{tool}")
        ]

    def result(self, tool: str) -> dict[str, Any]:
        """The last successful result of a tool."""
        return [r.result for r in self.results if r.name.endswith(f".{tool}") and not r.error][-1]

    async def ask(self, text: str) -> AwaitClarification:
        """Say something; the run answers with a question."""
        plan = await self.say(text)
        assert plan.await_, plan
        return plan.await_

    async def finish(self, text: str) -> str:
        """Say something; the run ends with an answer."""
        plan = await self.say(text)
        assert plan.final_response, plan
        return plan.final_response.text

    async def say(self, text: str) -> PlanResult:
        self.messages.append(Message.user(text))
        return await self.advance()

    async def advance(self) -> PlanResult:
        results: list[ToolResult] = []
        reminders: list[str] = []
        for _ in range(20):
            if self.stop_before_step == len(self.steps):
                return await self.plan(results, [], Finalize(reason="max_tool_rounds", message="Answer now."))
            plan = await self.plan(results, reminders)
            if plan.await_ and not self.may_ask:
                reminders = ["this agent may not ask"]
                continue
            if not plan.tool_calls:
                said = (
                    plan.await_.question
                    if plan.await_
                    else (plan.final_response or Message.assistant("")).text
                )
                self.messages.append(Message.assistant(said))
                return plan
            calls = [
                call.model_copy(update={"tool_call_id": f"c{len(self.results) + n}"})
                for n, call in enumerate(plan.tool_calls)
            ]
            results = [await self.execute(call) for call in calls]
            self.results += results
            self.messages += [Message.calls(calls), Message.results(results)]
        raise AssertionError(f"no end in sight: {self.steps}")

    async def plan(
        self, results: list[ToolResult], reminders: list[str], finalize: Finalize | None = None
    ) -> PlanResult:
        agent = app.agent(self.agent_id)
        assert agent
        tools = [] if finalize else app.tool_specs_for_agent(self.agent_id) or []
        turn = PlanResumeInput(
            run=RunContext(run_id="r", agent_id=self.agent_id),
            messages=[Message.model_validate_json(m.model_dump_json()) for m in self.messages],
            tools=tools,
            tool_results=results,
            reminders=reminders,
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
            error, hint = hint_for_issues(tool.spec, call.payload, issues, tool.validator)
            return ToolResult(**answer, error=error, retry_hint=hint)
        if isinstance(tool, ExportedTool):
            child = Rehearsal(tool.agent.id)
            child.messages = tool.messages(call.payload)
            return ToolResult(**answer, result=(await child.advance()).result)
        meta = ToolCallMeta(run_id="r", tool_call_id=call.tool_call_id, idempotency_key=call.tool_call_id)
        try:
            value = tool.function(**tool.arguments(call.payload, meta))
            value = await value if inspect.isawaitable(value) else value
        except ToolFailed as error:
            return ToolResult(**answer, error=ToolError.from_error(error), retry_hint=error.hint)
        return ToolResult(**answer, result=tool.result.encode(value))


@pytest.fixture
def run() -> Rehearsal:
    """Rehearse the assistant."""
    return Rehearsal()
