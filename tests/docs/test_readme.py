"""The README's programs run as they stand, and its lines fit what they are about."""

import re
import tomllib
from pathlib import Path

from sojourn.cli.options import load_app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
AGENT, CLIENT = re.findall(r"^```python.*\n((?:.*\n)*?)```", README, re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


async def test_the_readme_s_agent_and_client_do_what_the_readme_says(serve, tmp_path, monkeypatch, output_of):
    """The agent is served as written, and the client, a whole program, prints the output of the README."""
    (tmp_path / "readme_example.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    client = await serve(load_app("readme_example:app"))
    (comment,) = re.findall(r"print\(output\.text\)  # (.*)", CLIENT)
    assert await output_of(CLIENT, client) == f"{comment}\n"


def test_the_example_is_short():
    """The first agent has at most 16 lines."""
    assert len([line for line in AGENT.splitlines() if line.strip()]) <= 16


def test_the_wheel_and_the_extras_are_those_of_the_package():
    """The README names the wheel as it is built, and each extra once in its table."""
    pages = README + (ROOT / "docs" / "deploy.md").read_text()
    assert set(re.findall(r"sojourn-[\d.]+-\S+?\.whl", pages)) == {
        f"sojourn-{PROJECT['version']}-py3-none-any.whl"
    }
    extras = re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE)
    assert extras == list(PROJECT["optional-dependencies"])


async def test_the_first_project_is_the_one_that_init_makes(command, tmp_path):
    """The lines of the README for `support` are those that `sojourn init support` prints."""
    done = await command("init", "support")
    for line in ("cd support", "sojourn dev worker:app", 'sojourn run support.assistant "Refund A-1"'):
        assert f"  {line}\n" in done.out
        assert re.search(rf"^{re.escape(line)}$", README, re.MULTILINE)
