"""docs/logs.md: its module works as written, and its tables agree with the code."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn import Client
from sojourn.logs import configure
from sojourn.logs.values import MAX_ITEMS, MAX_TEXT

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "logs.md").read_text()
TOKEN = "tok-5f2c91d7"


class Program:
    """A program of the page, as a process."""

    def __init__(self, command: list[str], folder: Path, settings: dict[str, str]) -> None:
        self._err = folder / "err"
        with self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                cwd=folder,
                env={**os.environ, "SOJOURN_LOG_FORMAT": "", "SOJOURN_LOG_LEVEL": "", **settings},
                stdin=subprocess.DEVNULL,
                stdout=err.fileno(),
                stderr=err,
            )

    @property
    def lines(self) -> list[str]:
        """The lines that the program has written so far."""
        return self._err.read_text().splitlines()


@pytest.fixture
def start(module_of, tmp_path, temporal_address) -> Iterator:
    """Start a program in a folder with the module of the page; the program is killed at the end of the test."""
    made: list[Program] = []
    module_of("logs.md", "depot_log")

    def run(*command: str, **settings: str) -> Program:
        given = {"TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": tmp_path.name, **settings}
        made.append(Program(list(command), tmp_path, given))
        return made[-1]

    yield run
    for each in made:
        each.process.kill()
        each.process.wait()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("command", "settings"),
    [(["depot_log.py"], {}), (["-m", "sojourn", "worker", "depot_log:app"], {"SOJOURN_LOG_FORMAT": "json"})],
    ids=["program", "command"],
)
async def test_the_module_of_the_page_logs_as_it_says(
    command, settings, start, until, temporal_address, tmp_path
):
    """The tool's lines, from both logging libraries, have the run's ids, and the token is masked."""
    program = start(*command, **settings)
    await until(lambda: any("worker_ready" in line for line in program.lines))
    client = await Client.connect(temporal_address, task_queue=tmp_path.name)
    output = await client.execute("depot.log-keeper", "bolt", session_id="s-7")
    assert output.text == "7"
    program.process.send_signal(signal.SIGTERM)
    assert program.process.wait(timeout=60) == 0
    counted = [line for line in program.lines if "counted" in line]
    assert len(counted) == 2
    for line in counted:
        fields = json.loads(line) if settings else dict(re.findall(r"(\w+)=(\S+)", line))
        assert (fields["run_id"], fields["session_id"]) == (output.run_id, "s-7")
        assert fields["tool"] == "depot.stock.count"
    assert "[token]" in counted[0]
    assert TOKEN not in "\n".join(program.lines)


@pytest.mark.usefixtures("processes")
def test_an_own_structlog_configuration_gets_ids_and_masks(start):
    """With the page's processor, lines of an own structlog configuration have the run's ids, and the token is masked."""
    code = f"""
import depot_log
from sojourn.logs.values import call_context, hide
depot_log.configure_my_logs()
with call_context(run_id="r-1"):
    hide(lambda text: text.replace({TOKEN!r}, "[token]"))
    try:
        raise ValueError({TOKEN!r})
    except ValueError:
        depot_log.log.exception("failed", asked_with={TOKEN!r})
"""
    program = start("-c", code)
    assert program.process.wait(timeout=60) == 0
    (line,) = program.lines
    fields = json.loads(line)
    assert (fields["event"], fields["run_id"], fields["asked_with"]) == ("failed", "r-1", "[token]")
    assert "ValueError: [token]" in fields["exception"]


def test_the_settings_of_the_page_are_those_of_the_code(rows):
    """The page has the values of both settings."""
    values = {
        row[0].strip("`"): re.findall(r"`(\w+)`", row[1]) for row in rows("logs.md", "of other libraries")
    }
    assert values["SOJOURN_LOG_LEVEL"] == list(configure.LEVELS)
    assert values["SOJOURN_LOG_FORMAT"] == ["console", "json"]


def test_the_events_of_the_page_are_logged_somewhere():
    """Each event name under Levels occurs in the code."""
    levels = PAGE.split("## Levels")[1].split("\n\n")[1]
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", levels))
    assert len(named) >= 7
    sources = [
        path.read_text() for folder in ("sojourn", "activities") for path in (ROOT / folder).rglob("*.py")
    ]
    assert {name for name in named if not any(f'"{name}"' in source for source in sources)} == set()


def test_the_line_of_the_page_has_the_fields_of_the_table(rows):
    """Each field of the sample line is explained in the table, but for the event's own fields."""
    sample = json.loads(PAGE.split("```json\n")[1].split("\n```")[0])
    explained = {name for row in rows("logs.md", "## Fields") for name in re.findall(r"`(\w+)`", row[0])}
    assert set(sample) - explained == {"reason", "error", "attempt", "retry_in"}


def test_the_bounds_of_the_page_are_those_of_the_code():
    """The page has the code's bounds of texts and containers."""
    assert f"a text is cut to {MAX_TEXT:,} characters" in PAGE
    assert f"container to {MAX_ITEMS} items" in PAGE
