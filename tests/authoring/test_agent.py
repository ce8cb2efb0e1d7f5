"""Agent: a planner with tools and limits; and agents used as tools (SR-7 to SR-11, SR-52, SR-53)."""

import re
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from sojourn import (
    Agent,
    AgentTool,
    Message,
    ModelPlanner,
    PlanResult,
    RunPolicy,
    ToolRequest,
    Toolset,
)
from sojourn.authoring import AgentToolset
from sojourn.errors import DefinitionError
from sojourn.repair import RepairingPlanner


async def plan(turn: Any) -> PlanResult:
    return PlanResult.final("done")


class Question(BaseModel):
    topic: Annotated[str, Field(description="What about.")]
    depth: int = 2
    sources: list[str] = []


def researcher(**options: Any) -> Agent:
    return Agent("ops.researcher", planner=plan, description="Researches", **options)


def exported(**options: Any):
    return researcher(task_queue="deep").export(
        "ops.research", tools=[AgentTool("ask", args=Question, **options)]
    )["ask"]


# Agents.


def test_an_agent_is_a_planner_with_toolsets_and_limits() -> None:
    """An agent has the toolsets and the policy of its declaration; a policy is optional."""
    tools = Toolset("ops.devices")
    agent = researcher(uses=[tools], policy=RunPolicy(max_tool_calls=1))
    assert (agent.id, agent.uses, agent.policy.max_tool_calls) == ("ops.researcher", [tools], 1)
    assert researcher().policy == RunPolicy()


def test_an_agents_id_has_two_parts(subtests: pytest.Subtests) -> None:
    """An id that is not `<service>.<agent>` is refused at import; the error has the id."""
    rows = ["researcher", "a.b.c", "", "a b.c", "ops."]
    for id in rows:
        with (
            subtests.test(id=id),
            pytest.raises(DefinitionError, match=rf"^agent {re.escape(repr(id))}: .*<service>\.<agent>"),
        ):
            Agent(id, planner=plan)


@pytest.mark.parametrize("wrapped", [lambda model: model, RepairingPlanner], ids=["a model", "repaired"])
def test_a_local_agent_is_not_planned_by_a_model(wrapped: Any) -> None:
    """A model takes longer than a local activity may; an agent is local only where it says so."""
    with pytest.raises(DefinitionError, match=r"^agent ops.researcher: .* leave out local="):
        Agent("ops.researcher", planner=wrapped(ModelPlanner("openai:gpt-5")), local=True)
    assert researcher(local=True).local
    assert not researcher().local


def test_an_agent_uses_toolsets() -> None:
    """A tool, an agent or a text in place of a toolset is refused at import."""
    tools = Toolset("ops.devices")

    @tools.tool
    def ping(): ...

    for wrong in (ping, researcher(), "ops.devices"):
        with pytest.raises(DefinitionError, match=r"^agent ops\.x: uses=\[\.\.\.\] takes toolsets"):
            Agent("ops.x", planner=plan, uses=[tools, wrong])


# Agents as tools.


def test_an_exported_agent_is_a_toolset() -> None:
    """The tools of an exported agent have ids and specs like any other; the spec names the agent (SR-7, SR-85)."""
    agent = researcher(task_queue="deep")
    toolset = agent.export(
        "ops.research",
        tools=[
            AgentTool("ask", args=Question, title="Ask", tags=["slow"], example={"topic": "x"}),
            AgentTool("check", args=Question, result=bool, description="Checks a claim"),
        ],
    )
    assert isinstance(toolset, AgentToolset)
    ask, check = toolset["ask"], toolset["check"]
    assert (ask.id, check.id) == ("ops.research.ask", "ops.research.check")
    assert (ask.spec.kind, ask.spec.agent_id, ask.spec.task_queue) == ("agent", "ops.researcher", "deep")
    assert (ask.spec.title, ask.spec.tags, ask.spec.description) == ("Ask", ["slow"], "Researches")
    assert (check.spec.title, check.spec.description) == ("Check", "Checks a claim")
    assert ask.spec.payload.example == {"topic": "x"}
    assert ask.spec.result.json_schema == {"type": "string"}
    assert check.spec.result.json_schema == {"type": "boolean"}
    assert ask.spec.payload.json_schema["additionalProperties"] is False
    assert ask.validator.is_valid({"topic": "x"})
    assert toolset.description == "Researches"


def test_a_typed_call_of_an_agent_is_a_request() -> None:
    """`call` builds a request from a model or from plain fields (SR-85)."""
    ask = exported()
    expected = ToolRequest(name="ops.research.ask", payload={"topic": "x"})
    assert ask.call(Question(topic="x")) == ask.call(topic="x") == expected


def test_without_prompts_the_payload_is_the_question() -> None:
    """The child run's user message is the payload as JSON, with non-ASCII characters unescaped (SR-11)."""
    assert exported().messages({"topic": "Grüße"}) == [Message.user('{"topic": "Grüße"}')]


def test_a_template_is_filled_for_declared_fields_only() -> None:
    """`{field}` is filled, with its default when it was left out; anything else in braces is literal (SR-53)."""
    ask = exported(system="Depth {depth}. {unknown} {} {topic!r}", user="Tell about {topic}: {sources}")
    assert ask.messages({"topic": "{depth} {topic}", "sources": ["a"]}) == [
        Message.system("Depth 2. {unknown} {} {topic!r}"),
        Message.user('Tell about {depth} {topic}: ["a"]'),
    ]


def test_a_prompt_may_be_a_function_of_the_typed_payload() -> None:
    """A function that makes a prompt receives the decoded payload (SR-11)."""
    ask = exported(system=lambda q: f"{type(q).__name__} {q.depth}", user=lambda q: q.topic.upper())
    assert ask.messages({"topic": "x"}) == [Message.system("Question 2"), Message.user("X")]


@pytest.mark.parametrize(
    ("id", "tools", "message"),
    [
        ("research", [AgentTool("ask", args=Question)], r"toolset 'research': .*<service>\.<toolset>"),
        ("ops.research", [], "at least one AgentTool"),
        ("ops.research", [AgentTool("ask", args=Question)] * 2, r"ops\.research\.ask is declared twice"),
        ("ops.research", [AgentTool("a b", args=Question)], r"ops\.research\.a b: a tool's name has"),
        ("ops.research", [AgentTool("ask", args=Toolset)], r"^tool ops\.research\.ask: .*no JSON Schema"),
        (
            "ops.research",
            [AgentTool("ask", args=Question, result=Toolset)],
            r"ask -> result: .*no JSON Schema",
        ),
        (
            "ops.research",
            [AgentTool("ask", args=Question, example={})],
            r"ops\.research\.ask: the example .*/topic",
        ),
    ],
    ids=["id", "none", "twice", "name", "args", "result", "example"],
)
def test_an_export_that_cannot_work_is_refused(id: str, tools: list[AgentTool], message: str) -> None:
    """Each mistake in an export is a `DefinitionError` that names its place."""
    with pytest.raises(DefinitionError, match=message):
        researcher().export(id, tools=tools)
