"""Trust: who is asked before a call is for the app to say, and not for the server unless the app trusts it."""

import json
import uuid
from typing import Any

import pytest
from structlog.testing import capture_logs

from sojourn import App, ApprovalPolicy, Client, DefinitionError, RunPolicy, Worker, mcp

CONFIRMATION = {
    "files_*": "Change {path} with {mode}?",
    "files_delete_*": "never reached",
    "files_delete": "Delete {path}?",
}
CHANGES = ApprovalPolicy(asks_for="changes")


@pytest.fixture(scope="module")
def declared(shared_asking):
    """The asking server as a toolset with other terms."""

    def declare(name: str = "files", **terms: Any) -> mcp.McpToolset:
        return mcp.McpToolset(f"ops.{name}", transport=shared_asking.stdio(), **terms)

    return declare


@pytest.fixture(scope="module")
def toolsets(declared):
    """One server, declared in three ways."""
    return {
        "strange": declared("strange"),
        "trusted": declared("trusted", trusted=True),
        "confirmed": declared("confirmed", confirmation=CONFIRMATION),
    }


@pytest.fixture(scope="module")
async def desk(temporal_address, toolsets, calling):
    """A worker with an agent for each of them and each tool, such as `test.trusted-read`."""
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
    """The three, once their server is known."""
    del desk
    return toolsets


async def test_a_servers_word_is_shown_and_counts_only_where_it_is_trusted(known):
    """The catalogue says the same of both, and which of them is believed."""
    strange, trusted = known["strange"].tools, known["trusted"].tools
    for name in ("files_read", "files_delete", "files_touch"):
        assert strange[name].spec.annotations == trusted[name].spec.annotations
        assert (strange[name].spec.trusted, trusted[name].spec.trusted) == (False, True)
    assert strange["files_read"].spec.annotations.read_only
    assert strange["files_delete"].spec.annotations.destructive


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
    """Of patterns the first that fits counts; also for a tool that nobody has seen yet."""
    assert known["confirmed"][name].spec.confirmation == sentence
    assert declared(confirmation=CONFIRMATION)[name].spec.confirmation == sentence


@pytest.mark.parametrize("trusted", [False, True])
async def test_what_stands_in_is_as_much_trusted(trusted, declared):
    """A tool that nobody has seen yet says nothing of itself, and is believed no more than later."""
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
    ],
    ids=["trusted", "text", "list", "no name", "number", "blank", "bool", "long"],
)
def test_what_says_nothing_is_refused(terms, why, declared):
    """At once, with the toolset's name and what is wrong."""
    with pytest.raises(DefinitionError, match=f"toolset ops.files: .*{why}"):
        declared(**terms)


async def test_a_confirmation_of_no_tool_is_told(declared):
    """A name that is misspelt asks about nothing: the log says so, once."""
    toolset = declared(confirmation={"files_delete": "Delete {path}?", "file_*": "Sure?"})
    with capture_logs() as logs:
        for _ in range(2):
            await toolset.open()
            await toolset.close()
    told = [log for log in logs if log["event"] == "mcp_confirmation_unused"]
    assert [log["names"] for log in told] == [["file_*"]]


# In runs.


def arguments(**beside: Any) -> str:
    return json.dumps({"path": "/tmp/x", **beside})


@pytest.mark.parametrize("agent", ["strange-read", "strange-touch", "trusted-touch", "trusted-delete"])
async def test_a_person_is_asked(agent, desk, asked, shared_asking):
    """Where whatever may change something is asked about, a stranger's `read_only` spares nobody the question."""
    mark = uuid.uuid4().hex
    run = await desk.start(f"test.{agent}", arguments(mark=mark))
    wait = await asked(run)
    assert not shared_asking.calls(mark)
    await run.approve(wait.id, by="ana")
    assert json.loads((await run.result()).text) == "done"
    assert len(shared_asking.calls(mark)) == 1


async def test_a_trusted_server_is_believed(desk):
    """Its tool that only reads runs unasked."""
    output = await desk.execute("test.trusted-read", arguments())
    assert json.loads(output.text) == "done"


@pytest.mark.parametrize(
    ("agent", "prompt"),
    [
        ("confirmed-delete", "Delete /tmp/x?"),
        ("confirmed-touch", 'Change /tmp/x with {"a": [1]}?'),
        ("confirmed-read", 'Change /tmp/x with {"a": [1]}?'),
    ],
)
async def test_the_apps_own_sentence_is_asked(agent, prompt, desk, asked, shared_asking):
    """Whatever the server says of itself; its arguments stand in the sentence, and a denial keeps it from the call."""
    mark = uuid.uuid4().hex
    run = await desk.start(f"test.{agent}", arguments(mode={"a": [1]}, mark=mark))
    wait = await asked(run)
    assert wait.prompt == prompt
    await run.deny(wait.id, "leave it")
    assert json.loads((await run.result()).text)["error"]["code"] == "denied"
    assert not shared_asking.calls(mark)


async def test_a_call_may_be_confirmed_and_then_ask(declared, calling, temporal_address, asked):
    """First whether, then what: two waits of one call, one after the other."""
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
