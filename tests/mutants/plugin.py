"""What pytest does in a copy: run chosen tests in a given order, and record what each took.

`SOJOURN_CHOSEN` names a file with the ids of the tests to run, as a JSON array; `SOJOURN_TIMES` one to write seconds and layers to.
"""

import json
import os
from pathlib import Path

import pytest

from tests.layers import LAYERS

_times: dict[str, tuple[str, float]] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen tests, in their order."""
    if path := os.environ.get("SOJOURN_CHOSEN"):
        ranks = {name: rank for rank, name in enumerate(json.loads(Path(path).read_text()))}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in ranks])
        items[:] = sorted(
            (item for item in items if item.nodeid in ranks), key=lambda item: ranks[item.nodeid]
        )


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what the setup, the call and the teardown of a test took."""
    layer = next((name for name in LAYERS if name in report.keywords), "")
    _times[report.nodeid] = layer, _times.get(report.nodeid, ("", 0.0))[1] + report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the times, where this is no process of pytest-xdist."""
    if (path := os.environ.get("SOJOURN_TIMES")) and not hasattr(session.config, "workerinput"):
        Path(path).write_text(json.dumps(_times))
