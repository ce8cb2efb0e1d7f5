"""The examples of docs/ are run as they stand."""

import re
import textwrap
from pathlib import Path

from sojourn import Message
from sojourn.cli.load_app import load_app

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


async def test_authoring_and_clients_are_one_working_program(
    serve, temporal_address, tmp_path, monkeypatch, capsys
):
    """The module of authoring.md is served, and the program of clients.md starts, answers and prints a run of it."""
    (tmp_path / "clinic.py").write_text("\n".join(blocks("authoring.md")))
    monkeypatch.chdir(tmp_path)
    client = await serve(load_app("clinic:app"))
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_address)
    monkeypatch.setenv("SOJOURN_TASK_QUEUE", client.task_queue)
    (program,) = blocks("clients.md")
    scope: dict = {}
    exec(f"async def main():\n{textwrap.indent(program, '    ')}", scope)
    await scope["main"]()
    question, answer = capsys.readouterr().out.strip().splitlines()
    assert "day" in question
    assert answer == "Booked for 2027-01-05. 2"


async def test_the_nurse_leaves_it_to_the_desk(serve, tmp_path, monkeypatch):
    """The agent used as a tool on the page is a child run whose question can be answered by its own run id."""
    (tmp_path / "clinic_two.py").write_text("\n".join(blocks("authoring.md")))
    monkeypatch.chdir(tmp_path)
    client = await serve(load_app("clinic_two:app"))
    run = await client.start("clinic.nurse", [Message.user("Ana")])
    async for event in run.events():
        if event.type == "agent_run_started":
            child = client.get_run(event.run_link.run_id)
            async for inner in child.events():
                if inner.type == "await_clarification":
                    await child.answer(inner.question.id, "2027-01-05")
    assert (await run.result()).text == "Booked for 2027-01-05."
