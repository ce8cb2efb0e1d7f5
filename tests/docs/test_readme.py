"""The README's example runs as written."""

import re
import textwrap
from pathlib import Path

from sojourn.cli.options import load_app

README = (Path(__file__).parents[2] / "README.md").read_text()


async def test_the_readme_s_agent_and_client_do_what_the_readme_says(
    serve, temporal_address, tmp_path, monkeypatch, capsys
):
    """The agent is served as written, and the client's program prints the output of the README."""
    agent, program = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "readme_example.py").write_text(agent)
    monkeypatch.chdir(tmp_path)
    client = await serve(load_app("readme_example:app"))
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_address)
    monkeypatch.setenv("SOJOURN_TASK_QUEUE", client.task_queue)
    scope: dict = {}
    exec(f"async def main():\n{textwrap.indent(program, '    ')}", scope)
    await scope["main"]()
    comment = re.search(r"print\(output\.text\)  # (.*)", program)
    assert capsys.readouterr().out.strip() == comment[1]


def test_the_example_is_short():
    """The first agent has at most 16 lines."""
    agent = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    assert len([line for line in agent.splitlines() if line.strip()]) <= 16
