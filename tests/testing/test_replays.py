"""A recorded history as a test of an app: it passes as long as the app decides the same."""

import json
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from sojourn import Agent, App, ModelPlanner, PlanResult, Toolset
from sojourn.testing import ScriptedPlanner, replays
from tests.encrypted.keys import FernetCodec

REPLAY = Path(__file__).parents[1] / "replay"


def shop_app(*, amount: int = 30, whole: bool = True, answer: str = "Refunded.", planner=None) -> App:
    """An app whose planner, tool and agent are as given."""
    refunds = Toolset("shop.refunds")

    async def pay(order_id: str, amount: int) -> str:
        """Pay an amount back."""
        return f"{order_id}: {amount}"

    if not whole:
        pay.__annotations__["amount"] = str
    tool = refunds.tool(pay)

    async def plan(turn):
        if turn.tool_results:
            return PlanResult.final(answer)
        return PlanResult.calls(tool.call(order_id="o-1", amount=amount))

    return App(agents=[Agent("shop.clerk", planner=planner or plan, uses=[refunds])])


async def record(client, path: Path) -> Path:
    """Execute a run and write its history."""
    run = await client.start("shop.clerk", "Refund o-1.")
    await run.result()
    history = await client.temporal.get_workflow_handle(run.id).fetch_history()
    path.parent.mkdir(exist_ok=True)
    path.write_text(history.to_json())
    return path


@pytest.fixture
async def refund(serve, tmp_path) -> Path:
    """The history of a run with one call."""
    return await record(await serve(shop_app()), tmp_path / "histories" / "refund.json")


async def test_an_unchanged_app_passes(refund):
    """A file, and a folder of files, pass with the app that was recorded."""
    await replays(refund, shop_app())
    await replays(refund.parent, shop_app())


async def test_another_call_is_shown_as_a_difference(refund):
    """The error names the file and the plan, and has what was recorded and what is decided now."""
    with pytest.raises(AssertionError) as raised:
        await replays(refund, shop_app(amount=25))
    told = str(raised.value)
    assert told.startswith(f"{refund} (clerk-")
    assert "): plan 1 is another one now\n" in told
    assert [line for line in told.splitlines()[3:] if line[0] in "+-"] == [
        '-        "amount": 30,',
        '+        "amount": 25,',
    ]
    await replays(refund, shop_app(amount=25), plans=False)


async def test_the_first_difference_is_told(refund):
    """A later plan that differs is named by its number."""
    with pytest.raises(AssertionError, match=r"plan 2 is another one now(?s:.*)\+.*Paid"):
        await replays(refund, shop_app(answer="Paid."))


async def test_the_fixture_fails_for_problems_alone(refund, replay_histories):
    """A planner that decides otherwise passes unless strict; a call that is refused fails, of every file."""
    await replay_histories(refund.parent, shop_app(answer="Paid."))
    with pytest.raises(AssertionError, match=r"plan 2 is another one now(?s:.*)\+.*Paid"):
        await replay_histories(refund, shop_app(answer="Paid."), strict=True)
    (refund.parent / "older").mkdir()
    (refund.parent / "older" / "copy.json").write_text(refund.read_text())
    with pytest.raises(AssertionError) as raised:
        await replay_histories(refund.parent, shop_app(whole=False))
    assert str(raised.value).count("no longer fits the schema of its tool") == 2


async def test_a_recorded_call_that_is_refused_now_is_a_difference(refund):
    """The planner decides the same, but its call no longer fits the schema of the tool."""
    with pytest.raises(
        AssertionError,
        match=r'shop\.refunds\.pay \{.*"amount": 30.*\} no longer fits the schema of its tool: .*amount',
    ):
        await replays(refund, shop_app(whole=False))


async def test_a_planner_that_raises_now_is_a_difference(refund):
    """The error of the planner is in the message."""
    app = shop_app(planner=ScriptedPlanner([]))
    with pytest.raises(AssertionError, match=r"plan 1 fails now, and did not then: .*0 steps"):
        await replays(refund, app)


async def test_a_history_that_does_not_replay(refund):
    """A history in which the workflow decided otherwise fails before any plan is made again."""
    stored = refund.read_text().replace('"ExecuteToolActivity"', '"AnotherActivity"')
    refund.write_text(stored)
    with pytest.raises(AssertionError, match="does not replay"):
        await replays(refund, shop_app(), plans=False)


async def test_a_model_planner_sends_no_request(refund, use_model):
    """A real model is not asked; another one in its place is, and without plans none is needed."""
    from pydantic_ai.models.test import TestModel

    app = shop_app(planner=ModelPlanner("openai:gpt-5-mini"))
    with pytest.raises(AssertionError, match="ModelMisconfigured"):
        await replays(refund, app)
    await replays(refund, app, plans=False)
    use_model(app, TestModel(call_tools=[], custom_output_text="Hello."))
    with pytest.raises(AssertionError, match=r"\+.*Hello"):
        await replays(refund, app)


async def test_an_encrypted_history_needs_its_codec(serve, tmp_path):
    """With the codec the plans are made again; without it the file cannot be decoded."""
    codec = FernetCodec(Fernet.generate_key())
    client = await serve(shop_app(), codec=codec)
    file = await record(client, tmp_path / "sealed.json")
    await replays(file, shop_app(), codec=codec)
    with pytest.raises(AssertionError, match="is another one now"):
        await replays(file, shop_app(amount=1), codec=codec)
    with pytest.raises(ValueError, match="cannot be decoded"):
        await replays(file, shop_app())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"events": [{"eventId": "1",',
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b'{"events": [{"eventId": {}}]}',
        b"[" * 100_000,
    ],
    ids=["empty", "truncated", "binary", "list", "null", "fields", "deep"],
)
async def test_a_file_that_is_no_history_is_named(tmp_path, content):
    """The error names the file, and the command that writes a history."""
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(
        ValueError, match=r"run\.json is not a history.*; write one with: sojourn export RUN --history FILE"
    ):
        await replays(tmp_path, shop_app())


async def test_replays_takes_an_app():
    """Anything else in its place is refused by name."""
    with pytest.raises(TypeError, match="a replay takes an App, such as the one that is served, not None"):
        await replays(REPLAY / "histories", None)  # type: ignore[arg-type]


async def test_what_is_no_history_is_named(tmp_path):
    """An empty folder and another JSON file are refused, and the command that writes a history is named."""
    with pytest.raises(FileNotFoundError, match="sojourn export RUN --history"):
        await replays(tmp_path, shop_app())
    (tmp_path / "run.json").write_text(json.dumps({"status": "completed"}))
    with pytest.raises(ValueError, match="sojourn export RUN --history"):
        await replays(tmp_path, shop_app())
