"""The pipeline, in processes of its own: one format for all loggers, by setting; bounded, printable, no locals."""

import json
import os
import pty
import re
import subprocess
import sys
from datetime import datetime, timedelta

import pytest

BOTH = """
log.info("order_placed", order="o-7", count=3)
logging.getLogger("shop.stock").info("%d left", 4, extra={"part": "p-1"})
"""


def test_machines_get_json(program):
    """One object a line for both libraries: when in UTC, how bad, who, what, then the fields."""
    first, second = program(BOTH).lines
    assert list(first)[:4] == list(second)[:4] == ["timestamp", "level", "logger", "event"]
    assert datetime.fromisoformat(first["timestamp"]).utcoffset() == timedelta(0)
    told = [{key: line[key] for key in line if key != "timestamp"} for line in (first, second)]
    assert told == [
        {"level": "info", "logger": "shop.tools", "event": "order_placed", "order": "o-7", "count": 3},
        {"level": "info", "logger": "shop.stock", "event": "4 left", "part": "p-1"},
    ]


def test_people_get_lines(program):
    """The same, aligned and without colours where nobody looks."""
    said = program(BOTH, SOJOURN_LOG_FORMAT="console")
    first, second = said.err.splitlines()
    assert re.search(r"Z \[info +\] order_placed +\[shop.tools\] count=3 order=o-7$", first)
    assert re.search(r"Z \[info +\] 4 left +\[shop.stock\] part=p-1$", second)
    assert "\x1b" not in said.err


@pytest.mark.parametrize(("no_color", "colours"), [("", True), ("1", False)])
def test_a_terminal_gets_colours(no_color, colours):
    """Standard error is a terminal, and nothing is set: lines for people; `NO_COLOR` is obeyed."""
    ours, theirs = pty.openpty()
    code = (
        "from sojourn.logs import configure_logs; configure_logs(); import logging; logging.warning('hello')"
    )
    env = {**os.environ, "NO_COLOR": no_color, "SOJOURN_LOG_FORMAT": "", "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", code], stderr=theirs, stdin=subprocess.DEVNULL, env=env, check=True)
    os.close(theirs)
    said = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "hello" in said
    assert not said.startswith("{")
    assert ("\x1b[" in said) is colours


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("", ["info", "warning", "error"]),
        ("DEBUG", ["debug", "info", "warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_the_level_is_a_setting(level, told, program):
    """For both libraries; info when nothing is set."""
    text = """
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)("said")
        getattr(logging.getLogger("shop.stock"), name)("said")
    """
    lines = program(text, SOJOURN_LOG_LEVEL=level).lines
    for logger in ("shop.tools", "shop.stock"):
        assert [line["level"] for line in lines if line["logger"] == logger] == told


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("SOJOURN_LOG_LEVEL", "loud", "'loud' is none of debug, info, warning, error, critical"),
        ("SOJOURN_LOG_FORMAT", "xml", "'xml' is none of console, json"),
    ],
)
def test_a_wrong_setting_is_told(setting, value, said, ended, tmp_path):
    """By the command too, in one line, with the exit code of wrong usage; it is never another level in silence."""
    app = "from sojourn import *\nasync def plan(turn): ...\napp = App(agents=[Agent('a.b', planner=plan)])"
    (tmp_path / "wrong_app.py").write_text(app)
    refused = ended("-m", "sojourn", "worker", "wrong_app:app", **{setting: value})
    assert refused.code == 2
    assert f"{setting}: {said}" in refused.err
    assert "Traceback" not in refused.err


RAISES = """
def fail(depth):
    secret_local = "a-value-of-a-local"
    if depth:
        fail(depth - 1)
    try:
        {}["part"]
    except KeyError as error:
        raise ValueError("no such part") from error

try:
    fail(30)
except ValueError:
    log.exception("lookup_failed")
try:
    fail(2)
except ValueError:
    logging.getLogger("shop.stock").exception("lookup failed")
"""


def test_exceptions_are_fields(program):
    """Type, message and the innermost places of what was raised and of its cause; never the values of variables."""
    said = program(RAISES)
    for line in said.lines:
        outer, inner = line["exception"]
        assert (outer["type"], outer["message"]) == ("ValueError", "no such part")
        assert (inner["type"], inner["message"]) == ("KeyError", "'part'")
        assert all(re.fullmatch(r"\S+program.py:\d+ (fail|<module>)", place) for place in outer["at"])
    assert [len(line["exception"][0]["at"]) for line in said.lines] == [8, 4]
    assert "a-value-of-a-local" not in said.err


def test_exceptions_are_short_on_a_console(program):
    """A few lines in place of sixty."""
    said = program(RAISES, SOJOURN_LOG_FORMAT="console")
    assert len(said.err.splitlines()) == 2 * 7
    assert "    ValueError: no such part\n        /" in said.err
    assert "    from KeyError: 'part'\n" in said.err
    assert "a-value-of-a-local" not in said.err
    assert "Traceback" not in said.err


def test_a_group_tells_what_is_in_it(program):
    """The failures of a task group, not only their number."""
    text = """
    async def main():
        import asyncio
        async def fail(word): raise ValueError(word)
        async with asyncio.TaskGroup() as group:
            group.create_task(fail("one")); group.create_task(fail("two"))
    import asyncio
    try:
        asyncio.run(main())
    except ExceptionGroup:
        log.exception("failed")
    """
    (line,) = program(text).lines
    assert [link["message"] for link in line["exception"][1:]] == ["one", "two"]


def test_the_input_of_a_validation_error_is_not_told(program):
    """Pydantic's own text repeats it."""
    text = """
    from pydantic import BaseModel
    class Login(BaseModel):
        age: int
    try:
        Login(age="hunter2-hunter2")
    except ValueError:
        log.exception("refused")
    """
    said = program(text)
    assert "age: Input should be a valid integer" in said.lines[0]["exception"][0]["message"]
    assert "hunter2" not in said.err


def test_hostile_values_are_harmless(program):
    """Escape sequences, bells, direction marks and forged records: nothing but text, on one record's lines."""
    text = r"""
    bad = "a\x1b[31mb\x07\u202ec\n2026-01-01T00:00:00Z [error    ] forged"
    log.info(bad, **{"key\x1b": bad, "nested": {bad: [bad]}})
    logging.getLogger("shop\x1b").warning("%s", bad)
    try:
        raise ValueError(bad)
    except ValueError:
        log.exception("failed")
    """
    console, machine = (program(text, SOJOURN_LOG_FORMAT=name).err for name in ("console", "json"))
    assert not re.search(
        "[\x1b\x07\u202e]", console + "".join(map(str, map(json.loads, machine.splitlines())))
    )
    starts = [line for line in console.splitlines() if not line.startswith("    ")]
    assert len(starts) == 3
    assert not [line for line in starts if line.startswith("2026-01-01")]


def test_large_values_are_cut(program):
    """Texts, containers, depth and fields; the line says so, and stays small."""
    text = """
    deep = []
    for _ in range(100):
        deep = [deep]
    log.info("large", text="x" * 1_000_000, items=list(range(1_000)), deep=deep, raw=b"x" * 1_000_000)
    log.info("wide", **{f"f{n}": "x" * 10_000 for n in range(1_000)})
    """
    large, wide = program(text).lines
    assert (len(large["text"]), large["text"][-1]) == (4_000, "…")
    assert (len(large["items"]), large["items"][-1]) == (51, "... 950 more")
    assert large["raw"] == "<1000000 bytes>"
    assert len(wide) == 51


def test_odd_values_cost_no_line(program):
    """What is no JSON is text: infinities, models, exceptions, what cannot be shown at all."""
    text = """
    from datetime import timedelta
    class Rude:
        def __repr__(self): raise RuntimeError("no")
    log.info("odd", inf=float("inf"), rude=Rude(), error=ValueError("x"), took=timedelta(seconds=3), key={1: {2}})
    """
    (line,) = program(text).lines
    del line["timestamp"], line["level"], line["logger"], line["event"]
    assert line == {
        "inf": "inf",
        "rude": "<Rude>",
        "error": "ValueError: x",
        "took": "0:00:03",
        "key": {"1": [2]},
    }


def test_a_record_that_cannot_be_written_tells_none_of_its_arguments(program):
    """The standard library would print them, with a traceback."""
    said = program('logging.getLogger("shop.stock").error("%d", "a-secret-argument")')
    (line,) = said.lines
    assert re.fullmatch(r"a record that cannot be written: TypeError at \S+program.py:5", line["event"])
    assert "a-secret-argument" not in said.err + said.out


def test_warnings_are_logged(program):
    """What Python says of deprecated calls is a line like any other."""
    (line,) = program('import warnings; warnings.warn("old", UserWarning, stacklevel=1)').lines
    assert (line["level"], line["logger"]) == ("warning", "py.warnings")
    assert "UserWarning: old" in line["event"]


@pytest.mark.parametrize(("level", "told"), [("info", []), ("debug", ["httpx2", "temporalio.worker"])])
def test_libraries_are_quiet_until_asked(level, told, program):
    """They write addresses with their query at level info."""
    text = """
    for name in ("httpx2", "temporalio.worker"):
        logging.getLogger(name).info("GET https://x/?key=1")
    """
    assert [line["logger"] for line in program(text, SOJOURN_LOG_LEVEL=level).lines] == told


# What a program has configured itself.


def test_nothing_is_configured_on_import():
    """Neither by the package nor by any part of it that a program imports."""
    text = """
import logging, structlog, sojourn, sojourn.logs, sojourn.worker, sojourn.mcp
from sojourn import App, Worker, Client
print(logging.getLogger().handlers, structlog.is_configured())
"""
    assert subprocess.check_output([sys.executable, "-c", text], text=True) == "[] False\n"


def test_handlers_of_a_program_stay(program):
    """Its own format, for Sojourn's lines too: as text, with an exception in short and no values of variables."""
    text = """
    import sys
    logging.basicConfig(format="MINE %(levelname)s %(name)s: %(message)s", stream=sys.stdout, level="INFO")
    configure_logs()
    structlog.get_logger("sojourn.worker").info("worker_ready", task_queue="q 100%")
    structlog.get_logger("sojourn.worker").debug("hidden")
    logging.getLogger("shop").info("mine")
    try:
        local = "a-value-of-a-local"
        {}["part"]
    except KeyError:
        structlog.get_logger("sojourn.worker").exception("failed")
    """
    said = program(text, configured=False)
    lines = said.out.splitlines()
    assert lines[:4] == [
        "MINE INFO sojourn.worker: worker_ready task_queue='q 100%'",
        "MINE INFO shop: mine",
        "MINE ERROR sojourn.worker: failed",
        "    KeyError: 'part'",
    ]
    assert "a-value-of-a-local" not in said.out
    assert said.err == ""


def test_a_configuration_of_structlog_stays(program):
    """A program that renders its own way goes on doing so."""
    text = """
    structlog.configure(processors=[lambda logger, name, event: f"MINE {event['event']}"])
    configure_logs()
    structlog.get_logger("sojourn.worker").info("worker_ready")
    """
    assert program(text, configured=False).out == "MINE worker_ready\n"


def test_force_replaces_what_there_is(program):
    """For who wants Sojourn's logs in spite of a library that has configured its own."""
    text = """
    logging.basicConfig(format="THEIRS %(message)s")
    structlog.configure(processors=[lambda logger, name, event: "THEIRS"])
    configure_logs(format="json", level="warning", force=True)
    logging.getLogger("shop").warning("one")
    structlog.get_logger("shop").warning("two")
    structlog.get_logger("shop").info("three")
    """
    said = program(text, configured=False)
    assert [line["event"] for line in said.lines] == ["one", "two"]
    assert said.out == ""
