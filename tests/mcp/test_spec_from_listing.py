"""Trust: the app decides who is asked before a call; the server's annotations count only if the app trusts them."""

import json
import uuid
from typing import Any

import pytest
from structlog.testing import capture_logs

from sojourn import Agent, App, ApprovalPolicy, Client, PlanResult, RunPolicy, Worker, mcp
from sojourn.contracts.tool_spec import Annotations
from sojourn.errors import DefinitionError
from sojourn.testing.scripted import ScriptedPlanner

pytestmark = pytest.mark.usefixtures("processes")

CONFIRMATION = {
    "files_*": "Change {path} with {mode}?",
    "files_delete_*": "never reached",
    "files_delete": "Delete {path}?",
}
CHANGES = ApprovalPolicy(asks_for="changes")


@pytest.fixture(scope="module")
def declared(shared_asking_transport):
    """Declare the asking server as a toolset with the given terms."""

    def declare(name: str = "files", **terms: Any) -> mcp.McpToolset:
        return mcp.McpToolset(f"ops.{name}", transport=shared_asking_transport, **terms)

    return declare


@pytest.fixture(scope="module")
def toolsets(declared):
    """Three toolsets of one server, with different terms."""
    return {
        "untrusted": declared("untrusted"),
        "trusted": declared("trusted", trusted=True),
        "confirmed": declared("confirmed", confirmation=CONFIRMATION),
    }


@pytest.fixture(scope="module")
async def desk(temporal_address, toolsets, calling):
    """A client, and a worker with an agent for each toolset and tool, such as `test.trusted-read`."""
    agents = []
    for way, toolset in toolsets.items():
        approval = ApprovalPolicy() if way == "confirmed" else CHANGES
        policy = RunPolicy(interrupts_allowed=True, approval=approval)
        agents += [
            calling(toolset, f"files_{short}", policy=policy, agent_id=f"test.{way}-{short}")
            for short in ("read", "delete", "touch")
        ]
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(App(agents=agents), client):
        yield client


@pytest.fixture(scope="module")
def known(desk, toolsets):
    """The toolsets, after their server was listed."""
    del desk
    return toolsets


async def test_annotations_are_shown_and_marked_as_trusted_or_not(known):
    """The specs of a trusted and an untrusted server have the same annotations, and differ in `trusted`."""
    untrusted, trusted = known["untrusted"].tools, known["trusted"].tools
    for name in ("files_read", "files_delete", "files_touch"):
        assert untrusted[name].spec.annotations == trusted[name].spec.annotations
        assert (untrusted[name].spec.trusted, trusted[name].spec.trusted) == (False, True)
    assert untrusted["files_read"].spec.annotations.read_only
    assert untrusted["files_delete"].spec.annotations.destructive


async def test_a_server_that_contradicts_itself_is_not_refused(known):
    """A read-only tool that its server also calls destructive, or not idempotent, is read-only (MCP)."""
    assert known["trusted"].tools["files_look"].spec.annotations == Annotations(read_only=True)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("files_delete", "Delete {path}?"),
        ("files_delete_all", "Change {path} with {mode}?"),
        ("files_read", "Change {path} with {mode}?"),
        ("ask", None),
    ],
)
async def test_a_name_goes_before_a_pattern(name, sentence, known, declared):
    """A name has priority, then the first pattern that fits; also for a tool that was not listed yet."""
    assert known["confirmed"][name].spec.confirmation == sentence
    assert declared(confirmation=CONFIRMATION)[name].spec.confirmation == sentence


@pytest.mark.parametrize("trusted", [False, True])
async def test_a_stand_in_is_as_trusted_as_its_toolset(trusted, declared):
    """A tool that was not listed yet has the toolset's `trusted`, and no annotations."""
    spec = declared(trusted=trusted)["files_read"].spec
    assert (spec.trusted, spec.annotations.read_only) == (trusted, None)


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ({"trusted": "yes"}, "trusted is True or False, not str"),
        ({"confirmation": "Sure?"}, "a sentence by name or pattern"),
        ({"confirmation": ["files_delete"]}, "a sentence by name or pattern"),
        ({"confirmation": {"": "Sure?"}}, "the name of a tool, or a pattern"),
        ({"confirmation": {3: "Sure?"}}, "the name of a tool, or a pattern"),
        ({"confirmation": {"files_*": " "}}, "the confirmation of 'files_\\*' is a sentence"),
        ({"confirmation": {"files_*": True}}, "the confirmation of 'files_\\*' is a sentence"),
        ({"confirmation": {"files_*": "x" * 501}}, "at most 500 characters"),
        ({"include": 5}, "include takes names or patterns"),
        ({"include": [""]}, "include takes names or patterns"),
        ({"exclude": [None]}, "exclude takes names or patterns"),
        ({"exclude": ""}, "exclude takes names or patterns"),
        ({"bounded": {3: "x"}}, "bounded takes names or patterns"),
    ],
    ids=[
        "trusted",
        "text",
        "list",
        "no name",
        "number",
        "blank",
        "bool",
        "long",
        "include a number",
        "include an empty name",
        "exclude nothing",
        "exclude an empty name",
        "bounded by number",
    ],
)
def test_invalid_terms_are_refused(terms, why, declared):
    """Invalid terms raise at once, with the toolset's id and the reason."""
    with pytest.raises(DefinitionError, match=f"toolset ops.files: .*{why}"):
        declared(**terms)


async def test_a_confirmation_of_no_tool_is_logged(declared):
    """A name or pattern that fits no tool is logged, once."""
    toolset = declared(confirmation={"files_delete": "Delete {path}?", "file_*": "Sure?"})
    with capture_logs() as logs:
        for _ in range(2):
            await toolset.open()
            await toolset.close()
    unused = [log for log in logs if log["event"] == "mcp_confirmation_unused"]
    assert [log["names"] for log in unused] == [["file_*"]]


async def test_a_confirmation_with_an_unknown_field_is_logged(declared):
    """A `{field}` that is none of the listed tool's arguments is logged, once; it cannot be known before the listing."""
    toolset = declared(confirmation={"files_delete": "Delete {path} of {town}?"})
    with capture_logs() as logs:
        for _ in range(2):
            await toolset.open()
            await toolset.close()
    unknown = [log["names"] for log in logs if log["event"] == "mcp_confirmation_field_unknown"]
    assert unknown == [["files_delete: {town}"]]


# In runs.


def arguments(**beside: Any) -> str:
    return json.dumps({"path": "/tmp/x", **beside})


@pytest.mark.parametrize("agent", ["untrusted-read", "untrusted-touch", "trusted-touch", "trusted-delete"])
async def test_a_person_is_asked(agent, desk, asked, shared_asking):
    """With `asks_for="changes"`, the tools of an untrusted server need approval, and a trusted one's unless read-only."""
    mark = uuid.uuid4().hex
    run = await desk.start(f"test.{agent}", arguments(mark=mark))
    wait = await asked(run)
    assert not shared_asking.calls(mark)
    await run.approve(wait.id, by="ana")
    assert json.loads((await run.result()).text) == "done"
    assert len(shared_asking.calls(mark)) == 1


async def test_a_trusted_servers_annotations_count(desk):
    """A trusted server's read-only tool runs without a question."""
    output = await desk.execute("test.trusted-read", arguments())
    assert json.loads(output.text) == "done"


@pytest.mark.parametrize(
    ("agent", "prompt"),
    [
        ("confirmed-delete", "Delete /tmp/x?"),
        ("confirmed-touch", r'Change /tmp/x with "{\u0022a\u0022: \u005b1\u005d}"?'),
        ("confirmed-read", r'Change /tmp/x with "{\u0022a\u0022: \u005b1\u005d}"?'),
    ],
)
async def test_the_apps_own_sentence_is_asked(agent, prompt, desk, asked, shared_asking):
    """The app's sentence is asked whatever the annotations, with the call's arguments; a denied call is not sent."""
    mark = uuid.uuid4().hex
    run = await desk.start(f"test.{agent}", arguments(mode={"a": [1]}, mark=mark))
    wait = await asked(run)
    assert wait.prompt == prompt
    await run.deny(wait.id, "leave it")
    assert json.loads((await run.result()).text)["error"]["code"] == "denied"
    assert not shared_asking.calls(mark)


async def test_a_call_may_be_confirmed_and_then_ask(declared, calling, temporal_address, asked):
    """A call that needs an approval and then input has two waits, one after the other."""
    toolset = declared("both", confirmation={"ask": "Let it ask?"})
    app = App(agents=[calling(toolset, "ask", policy=RunPolicy(interrupts_allowed=True))])
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    form = {"type": "object", "properties": {"name": {"type": "string"}}}
    async with Worker(app, client):
        run = await client.start("test.agent", json.dumps({"rounds": [{"q": {"form": form}}], "state": "s"}))
        confirm = await asked(run)
        assert confirm.prompt == "Let it ask?"
        await run.approve(confirm.id)
        question = await asked(run, confirm)
        assert question.tool_call_id == confirm.tool_call_id
        await run.answer(question.id, "Ana")
        given = json.loads((await run.result()).text)["given"]
    assert given == {"q": {"action": "accept", "content": {"name": "Ana"}}}


@pytest.mark.parametrize(
    ("terms", "may_ask", "ends"),
    [
        ({}, True, {"read": "done", "touch": "asks", "delete": "asks"}),
        ({}, False, {"read": "done", "touch": "done", "delete": "denied"}),
        ({"trusted": True}, True, {"read": "done", "touch": "done", "delete": "asks"}),
    ],
)
async def test_what_a_server_returns_is_text_from_outside(
    terms, may_ask, ends, declared, temporal_address, status_when
):
    """After one of its results a person decides about its tools but those that it calls read-only.

    A run that may ask nobody denies those that it calls destructive, and goes on with those that it says nothing about.
    """
    toolset = declared("outside", **terms)
    agents = []
    for short in ends:
        tools = ["files_read", f"files_{short}"]
        steps = [PlanResult.calls(toolset.call(tool, path="/tmp/x", mark=short)) for tool in tools]
        planner = ScriptedPlanner([*steps, lambda turn: PlanResult.final(str(turn.tool_results[0].error))])
        policy = RunPolicy(interrupts_allowed=may_ask)
        agents.append(Agent(f"test.{short}", planner=planner, uses=[toolset], policy=policy))
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(App(agents=agents), client):
        for short, end in ends.items():
            run = await client.start(f"test.{short}", "go")
            status = await status_when(run, lambda status: bool(status.awaits) or not status.is_open)
            if end == "asks":
                (wait,) = status.awaits
                assert wait.taint.sources[0].tool == "ops.outside.files_read"
                await run.deny(wait)
            else:
                text = (await run.result()).text
                assert ("and the run has read text from outside" in text) is (end == "denied")
