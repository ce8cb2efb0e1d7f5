"""The pipeline, in processes: all loggers write the format that is set; lines are bounded, printable, and have no local variables."""

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
    """Both libraries write one JSON object a line: time in UTC, level, logger and event, then the fields."""
    first, second = program(BOTH).lines
    assert list(first)[:4] == list(second)[:4] == ["timestamp", "level", "logger", "event"]
    assert datetime.fromisoformat(first["timestamp"]).utcoffset() == timedelta(0)
    fields = [{key: line[key] for key in line if key != "timestamp"} for line in (first, second)]
    assert fields == [
        {"level": "info", "logger": "shop.tools", "event": "order_placed", "order": "o-7", "count": 3},
        {"level": "info", "logger": "shop.stock", "event": "4 left", "part": "p-1"},
    ]


def test_people_get_lines(program):
    """The console format has the same fields, aligned, and no colors outside a terminal."""
    output = program(BOTH, SOJOURN_LOG_FORMAT="console")
    first, second = output.err.splitlines()
    assert re.search(r"Z \[info +\] order_placed +\[shop.tools\] count=3 order=o-7$", first)
    assert re.search(r"Z \[info +\] 4 left +\[shop.stock\] part=p-1$", second)
    assert "\x1b" not in output.err


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("no_color", "colors"), [("", True), ("1", False)])
def test_a_terminal_gets_colors(no_color, colors):
    """On a terminal the default is the console format with colors, or without them by `NO_COLOR`."""
    ours, theirs = pty.openpty()
    code = (
        "from sojourn.logs import configure_logs; configure_logs(); import logging; logging.warning('hello')"
    )
    env = {**os.environ, "NO_COLOR": no_color, "SOJOURN_LOG_FORMAT": "", "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", code], stderr=theirs, stdin=subprocess.DEVNULL, env=env, check=True)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "hello" in shown
    assert not shown.startswith("{")
    assert ("\x1b[" in shown) is colors


@pytest.mark.parametrize(
    ("level", "levels"),
    [
        ("", ["info", "warning", "error"]),
        ("DEBUG", ["debug", "info", "warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_the_level_is_a_setting(level, levels, program):
    """`SOJOURN_LOG_LEVEL` sets the level of both libraries; the default is info."""
    text = """
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)("x")
        getattr(logging.getLogger("shop.stock"), name)("x")
    """
    lines = program(text, SOJOURN_LOG_LEVEL=level).lines
    for logger in ("shop.tools", "shop.stock"):
        assert [line["level"] for line in lines if line["logger"] == logger] == levels


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("SOJOURN_LOG_LEVEL", "loud", "'loud' is none of debug, info, warning, error, critical"),
        ("SOJOURN_LOG_FORMAT", "xml", "'xml' is none of console, json"),
    ],
)
def test_a_wrong_setting_is_refused(setting, value, message, ended, tmp_path):
    """A command with a wrong setting says so without a traceback, and exits with status 2."""
    app = "from sojourn import *\nasync def plan(turn): ...\napp = App(agents=[Agent('a.b', planner=plan)])"
    (tmp_path / "wrong_app.py").write_text(app)
    refused = ended("-m", "sojourn", "worker", "wrong_app:app", **{setting: value})
    assert refused.code == 2
    assert f"{setting}: {message}" in refused.err
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
    """An exception and its cause are fields with type, message and the innermost frames, without values of variables."""
    output = program(RAISES)
    for line in output.lines:
        outer, inner = line["exception"]
        assert (outer["type"], outer["message"]) == ("ValueError", "no such part")
        assert (inner["type"], inner["message"]) == ("KeyError", "'part'")
        assert all(re.fullmatch(r"\S+program.py:\d+ (fail|<module>)", place) for place in outer["at"])
    assert [len(line["exception"][0]["at"]) for line in output.lines] == [8, 4]
    assert "a-value-of-a-local" not in output.err


def test_exceptions_are_short_on_a_console(program):
    """On a console an exception takes a few lines, where its traceback would take sixty."""
    output = program(RAISES, SOJOURN_LOG_FORMAT="console")
    assert len(output.err.splitlines()) == 2 * 7
    assert "    ValueError: no such part\n        /" in output.err
    assert "    from KeyError: 'part'\n" in output.err
    assert "a-value-of-a-local" not in output.err
    assert "Traceback" not in output.err


def test_a_group_is_logged_with_its_exceptions(program):
    """The line of an exception group has each of its exceptions."""
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


@pytest.mark.parametrize("format", ["json", "console"])
def test_a_programs_own_fields_are_logged_as_they_are(program, format):
    """A program may name fields as the pipeline names its own: `raised`, `exception` and `says` hide nothing."""
    text = """
    log.info("bid", raised=7, says="", exception="none")
    try:
        {}["part"]
    except KeyError:
        log.exception("lookup failed", says=False, raised=["a"])
    """
    output = program(text, SOJOURN_LOG_FORMAT=format)
    assert "cannot be written" not in output.err
    assert "(left out)" not in output.err
    assert "'part'" in output.err
    if format == "json":
        bid, failed = output.lines
        assert (bid["raised"], bid["says"], bid["exception"]) == (7, "", "none")
        assert (failed["raised"], failed["says"], failed["exception"][0]["type"]) == (
            ["a"],
            False,
            "KeyError",
        )
    else:
        assert "raised=7" in output.err
        assert "\n    none" in output.err


def test_the_input_of_a_validation_error_is_left_out(program):
    """A validation error is logged without its input, which pydantic's own text quotes."""
    text = """
    from pydantic import BaseModel
    class Login(BaseModel):
        age: int
    try:
        Login(age="hunter2-hunter2")
    except ValueError:
        log.exception("refused")
    """
    output = program(text)
    assert "age: Input should be a valid integer" in output.lines[0]["exception"][0]["message"]
    assert "hunter2" not in output.err


def test_hostile_values_are_harmless(program):
    """Escape sequences, bells, direction marks and forged records are logged as text within their own record."""
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
    """Long texts, large and deep containers and many fields are cut, and the line shows that they are."""
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


def test_values_that_are_no_json_become_text(program):
    """Infinities, exceptions, durations and objects whose `__repr__` raises are logged as texts."""
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


def test_a_record_that_cannot_be_formatted_is_logged_without_its_arguments(program):
    """A wrong format string is one line with its place, where the standard library would print the arguments."""
    output = program('logging.getLogger("shop.stock").error("%d", "a-secret-argument")')
    (line,) = output.lines
    assert re.fullmatch(r"a record that cannot be written: TypeError at \S+program.py:5", line["event"])
    assert "a-secret-argument" not in output.err + output.out


def test_warnings_are_logged(program):
    """Python's own warnings are lines of the log."""
    (line,) = program('import warnings; warnings.warn("old", UserWarning, stacklevel=1)').lines
    assert (line["level"], line["logger"]) == ("warning", "py.warnings")
    assert "UserWarning: old" in line["event"]


@pytest.mark.parametrize(("level", "loggers"), [("info", []), ("debug", ["httpx2", "temporalio.worker"])])
def test_verbose_libraries_are_limited_to_warnings(level, loggers, program):
    """Records at level info of libraries that log URLs with their query are dropped, unless the level is debug."""
    text = """
    for name in ("httpx2", "temporalio.worker"):
        logging.getLogger(name).info("GET https://x/?key=1")
    """
    assert [line["logger"] for line in program(text, SOJOURN_LOG_LEVEL=level).lines] == loggers


# A program's own configuration.


@pytest.mark.usefixtures("processes")
def test_nothing_is_configured_on_import():
    """Importing the package and its parts configures neither logging nor structlog."""
    text = """
import logging, structlog, sojourn, sojourn.logs, sojourn.worker, sojourn.mcp
from sojourn import App, Worker, Client
print(logging.getLogger().handlers, structlog.is_configured())
"""
    assert subprocess.check_output([sys.executable, "-c", text], text=True) == "[] False\n"


def test_handlers_of_a_program_stay(program):
    """A program's own handlers keep their format and get Sojourn's lines as text, with short exceptions."""
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
    output = program(text, configured=False)
    lines = output.out.splitlines()
    assert lines[:4] == [
        "MINE INFO sojourn.worker: worker_ready task_queue='q 100%'",
        "MINE INFO shop: mine",
        "MINE ERROR sojourn.worker: failed",
        "    KeyError: 'part'",
    ]
    assert "a-value-of-a-local" not in output.out
    assert output.err == ""


def test_a_configuration_of_structlog_stays(program):
    """A program's own configuration of structlog is not changed."""
    text = """
    structlog.configure(processors=[lambda logger, name, event: f"MINE {event['event']}"])
    configure_logs()
    structlog.get_logger("sojourn.worker").info("worker_ready")
    """
    assert program(text, configured=False).out == "MINE worker_ready\n"


def test_force_replaces_the_configuration(program):
    """`force=True` replaces handlers and structlog's configuration that a library has set."""
    text = """
    logging.basicConfig(format="THEIRS %(message)s")
    structlog.configure(processors=[lambda logger, name, event: "THEIRS"])
    configure_logs(format="json", level="warning", force=True)
    logging.getLogger("shop").warning("one")
    structlog.get_logger("shop").warning("two")
    structlog.get_logger("shop").info("three")
    """
    output = program(text, configured=False)
    assert [line["event"] for line in output.lines] == ["one", "two"]
    assert output.out == ""
