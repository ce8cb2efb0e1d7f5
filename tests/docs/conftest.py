"""Fixtures: the blocks and tables of a page, its Python blocks as one module, and its `temporal` command lines."""

import asyncio
import importlib
import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sojourn import Client, Run
from tests.cli.conftest import command, start_command
from tests.programs import Command

__all__ = ["command", "start_command"]  # fixtures

DOCS = Path(__file__).parents[2] / "docs"


def blocks_of(page: str, language: str = "python") -> list[str]:
    """The fenced blocks of a page in one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def named_blocks_of(page: str, name: str) -> list[str]:
    """The Python blocks of a page whose fence has this name."""
    return re.findall(rf"^```python {name}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def blocks() -> Callable[..., list[str]]:
    """The blocks of a page: `blocks("errors.md", "json")`."""
    return blocks_of


@pytest.fixture
def rows() -> Callable[..., list[list[str]]]:
    """The rows of a page's first table after a text, without its heading: `rows("limits.md", "## The policy")`."""

    def read(page: str, after: str) -> list[list[str]]:
        text = (DOCS / page).read_text()
        assert after in text
        table = re.search(r"^\|.*\n\|[-|]+\n((?:\|.*\n)+)", text.split(after, 1)[1], re.MULTILINE)
        assert table
        return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[1].splitlines()]

    return read


@pytest.fixture
def module_of(tmp_path, monkeypatch) -> Callable[..., ModuleType]:
    """The Python blocks of a page, and further ones, imported as one module from a new folder: `module_of("tools.md", "plant")`."""

    def load(page: str, name: str, *more: str) -> ModuleType:
        (tmp_path / f"{name}.py").write_text("\n\n".join([*blocks_of(page), *more]))
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return load


@pytest.fixture
def shop_of(module_of) -> Callable[[str], ModuleType]:
    """A module with the agents of flows.md, in which `shop.desk` is that of protocols.md, which asks the person who talks to it."""

    def load(name: str) -> ModuleType:
        (desk,) = named_blocks_of("protocols.md", "desk.py")
        both = 'app = App(agents=[shop_desk, Agent("shop.compare", planner=compare, uses=[orders])])'
        return module_of("flows.md", name, desk, both)

    return load


@pytest.fixture
def output_of(processes, tmp_path, temporal_address) -> Callable[..., Awaitable[str]]:
    """Run a whole program of a page with the server and the queue of a client; return what it prints."""

    async def execute(program: str, client: Client) -> str:
        env = {**os.environ, "TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": client.task_queue}
        (tmp_path / "client.py").write_text(program)
        with open(os.devnull) as nothing:
            process = await Command.start("client.py", cwd=tmp_path, env=env, stdin=nothing.fileno())
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, err.decode()
        return out.decode()

    return execute


@pytest.fixture
def temporal(processes, temporal_server) -> Callable[..., Awaitable[tuple[int | None, str]]]:
    """Execute a `temporal` command line of a page for a run, without a shell; returns its exit code and output."""

    async def execute(line: str, run: Run) -> tuple[int | None, str]:
        words = [run.id if word == "RUN" else word for word in shlex.split(line)]
        assert words.pop(0) == "temporal"
        process = await asyncio.create_subprocess_exec(
            temporal_server.cli.path,
            *words,
            "--address",
            temporal_server.address,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed, _ = await process.communicate()
        return process.returncode, printed.decode()

    return execute


@pytest.fixture
def lines() -> Callable[..., list[str]]:
    """The lines of a page's shell blocks that contain a text: `lines("waiting.md", "--name pause")`."""

    def read(page: str, holding: str) -> list[str]:
        found = [line for block in blocks_of(page, "sh") for line in block.splitlines() if holding in line]
        assert found
        return found

    return read


@pytest.fixture(scope="module")
def capturing() -> Any:
    """The module of docs/capture.py, which captures the screens."""
    spec = importlib.util.spec_from_file_location("capture", DOCS / "capture.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["capture"] = module
    spec.loader.exec_module(module)
    return module
