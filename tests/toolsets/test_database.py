import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from sojourn import ToolUnavailable
from tests.programs import Program
from toolsets import database, generate
from toolsets.fleet import DAY

TABLES = ("dataset", "sites", "devices", "series", "readings", "profiles", "runbooks", "work_orders")


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of the generated tables."""
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES
        }


@pytest.fixture
def one_week(monkeypatch: pytest.MonkeyPatch) -> None:
    """Databases with the readings of a week, since those of a month take seconds."""
    monkeypatch.setattr(generate, "STARTS_AT", generate.AS_OF - 7 * DAY)


@pytest.mark.usefixtures("one_week")
def test_same_seed_same_data(tmp_path: Path):
    """A database made twice with one seed holds the same rows."""
    for name in ("once.db", "again.db"):
        database.make(tmp_path / name)
    assert rows(tmp_path / "again.db") == rows(tmp_path / "once.db")


@pytest.mark.usefixtures("one_week")
def test_other_seed_other_data(tmp_path: Path):
    """Another seed gives other rows."""
    database.make(tmp_path / "one.db")
    database.make(tmp_path / "other.db", seed=8)
    one, other = rows(tmp_path / "one.db"), rows(tmp_path / "other.db")
    assert one["readings"] != other["readings"]
    assert one["devices"] != other["devices"]


@pytest.mark.usefixtures("one_week")
def test_made_on_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The first connection makes the file, and nothing else stays in its folder."""
    path = tmp_path / "new" / "ops.db"
    monkeypatch.setenv("SOJOURN_OPS_DB", str(path))
    with database.opened() as connection:
        assert connection.execute("SELECT count(*) FROM sites").fetchone()[0] == 24
    assert os.listdir(path.parent) == ["ops.db"]


def test_default_location(monkeypatch: pytest.MonkeyPatch):
    """Without the setting the file is `.sojourn/ops.db` under the current folder."""
    monkeypatch.delenv("SOJOURN_OPS_DB")
    assert database.location() == Path(".sojourn/ops.db")


@pytest.mark.usefixtures("processes")
def test_made_once_by_many_processes(tmp_path: Path):
    """Of processes that make the file at once one wins, and what they write is all in it."""
    path = tmp_path / "race" / "ops.db"
    code = (
        "import pathlib, sys, time; from toolsets import executions, fleet, generate; from sojourn import ToolCallMeta\n"
        "generate.STARTS_AT = generate.AS_OF - 7 * fleet.DAY\n"
        "print('ready')\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.001)\n"
        "with executions.recorded(ToolCallMeta(run_id=sys.argv[1]), 'ops.test.tool'): pass"
    )
    environment = {
        **os.environ,
        "SOJOURN_OPS_DB": str(path),
        "PYTHONPATH": str(Path(database.__file__).parents[1]),
    }
    out = tmp_path / "out"
    workers = [Program("-c", code, str(n), cwd=tmp_path, env=environment, out=out, err=out) for n in range(3)]
    while out.read_text().count("ready") < 3:
        assert all(worker.poll() is None for worker in workers), out.read_text()
        time.sleep(0.01)
    (tmp_path / "go").touch()
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    with closing(sqlite3.connect(path)) as connection:
        runs = connection.execute(
            "SELECT run_id FROM executions WHERE finished_at IS NOT NULL ORDER BY 1"
        ).fetchall()
    assert runs == [("0",), ("1",), ("2",)]


def test_other_version_refused(ops_database: Path):
    """A file of another version is refused with what to do about it."""
    with closing(sqlite3.connect(ops_database)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(ToolUnavailable, match="delete it"), database.opened():
        pass


def test_failed_transaction_keeps_nothing(ops_database: Path):
    """A transaction that raises leaves no trace."""

    def fail() -> None:
        with database.transaction() as connection:
            connection.execute("DELETE FROM profiles")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with database.opened() as connection:
        assert connection.execute("SELECT count(*) FROM profiles").fetchone()[0] > 0


def test_size(ops_database: Path):
    """The month fits in a small file: hundreds of devices, hundreds of thousands of readings."""
    assert ops_database.stat().st_size < 20_000_000
    with database.opened() as connection:
        devices, readings = (
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("devices", "readings")
        )
    assert 300 <= devices <= 400
    assert 250_000 <= readings <= 500_000


def test_readings_have_gaps_and_stay_in_the_month(ops_database: Path):
    """Readings are lost now and then, and none is outside the month."""
    with database.opened() as connection:
        starts_at, now = connection.execute("SELECT starts_at, as_of FROM dataset").fetchone()
        first, last = connection.execute("SELECT min(time), max(time) FROM readings").fetchone()
        counts = [n for (n,) in connection.execute("SELECT count(*) FROM readings GROUP BY series_no")]
    assert (first, last) == (starts_at, now)
    assert len(set(counts)) > 50
