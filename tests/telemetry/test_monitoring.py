"""deploy/monitoring: each metric and label of the dashboard and the alerts is one that a worker or the HTTP service exports."""

import json
import re
import shutil
import subprocess
import urllib.request
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from sojourn.http.metrics import Metrics
from sojourn.server.ports import pick
from sojourn.telemetry.recorder import METRICS
from tests.durability.wire import Wire

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ALERTS: dict[str, Any] = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
EXPRESSIONS = [
    *(target["expr"] for panel in PANELS for target in panel["targets"]),
    *(rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]),
]
SELECTOR = re.compile(r"\b([a-z]\w+)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)(?:=~|!~|!=|=)"[^"]*"')
GROUPING = re.compile(r"\b(?:by|ignoring) \(([^)]*)\)")
SCRAPED = re.compile(r"^([a-z]\w*)(?:\{(.*)\})? \S+$")
OURS = re.compile(r"\b(?:temporal|sojourn|gen_ai)_\w+")
OF_PROMETHEUS = {"instance", "job"}
PROMTOOL = shutil.which("promtool")


def scraped(text: str) -> dict[str, set[str]]:
    """Return the labels of each metric of a text in Prometheus' format."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in text.splitlines():
        if sample := SCRAPED.match(line):
            found[sample[1]] |= set(re.findall(r'(\w+)="', sample[2] or ""))
    return found


def translated(points: Iterable[dict[str, Any]]) -> dict[str, set[str]]:
    """Return the labels of each metric as Prometheus names what OTLP brings: dots, units and suffixes."""
    found: dict[str, set[str]] = defaultdict(set)
    for point in points:
        unit = {"s": "_seconds"}.get(point["unit"], "")
        name = point["name"].replace(".", "_") + unit
        labels = {label.replace(".", "_") for label in point["attributes"]}
        names = (
            [f"{name}_total"]
            if point["kind"] == "sum"
            else [f"{name}_{end}" for end in ("bucket", "sum", "count")]
        )
        for each in names:
            found[each] |= labels | ({"le"} if each.endswith("_bucket") else set())
    return found


async def test_every_metric_and_label_is_exported(desk, temporal_address, status_when) -> None:
    """A worker that ran, asked, failed, lost its server and could not continue a run exports all that is shown and alerted on."""
    wire, port = Wire(temporal_address), pick(0, 0)
    await wire.open()
    worker = await desk.worker(
        *("-m", "sojourn", "worker", "traced_app:app", "--metrics-port", str(port)),
        TEMPORAL_ADDRESS=wire.address,
    )
    await desk.run("desk.clerk")
    asking = await desk.client.start("desk.asker", "go")
    await status_when(asking, lambda status: status.awaits)
    await asking.answer(None, "that one")
    await desk.until(lambda: desk.points("sojourn.await.duration"))
    await desk.client.start("desk.lost", "go")
    await desk.until(
        lambda: (
            ("failed", "IndexError") in desk.count("sojourn.runs.ended", "sojourn.run.status", "error.type")
        )
    )
    stuck = await desk.client.temporal.start_workflow(
        "NoSuchWorkflow", id=f"stuck-{port}", task_queue=desk.client.task_queue
    )

    def exported() -> dict[str, set[str]]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return scraped(answer.read().decode())

    await desk.until(lambda: "temporal_workflow_task_execution_failed" in exported())
    await stuck.terminate()
    await asking.cancel()
    await wire.cut()
    await desk.until(
        lambda: exported().keys() >= {"temporal_request_failure", "temporal_long_request_failure"}
    )
    wire.mend()
    served = Metrics()
    served.requests["GET", "/v1/runs", 200] += 1
    served.seconds["GET", "/v1/runs"] += 0.1
    known = {**exported(), **translated(desk.points_of_all()), **scraped(served.text())}
    for expression in EXPRESSIONS:
        labels = OF_PROMETHEUS.copy()
        for name, matchers in SELECTOR.findall(expression):
            assert name in known, name
            labels |= known[name]
            assert set(MATCHER.findall(matchers)) <= known[name] | OF_PROMETHEUS, expression
        for group in GROUPING.findall(expression):
            assert set(group.split(", ")) <= labels, expression
    worker.kill()
    await wire.close()


def test_every_metric_is_written_with_its_selector() -> None:
    """A name without braces would escape the other tests; each metric of Sojourn's is shown or alerted on."""
    for expression in EXPRESSIONS:
        rest = GROUPING.sub("", SELECTOR.sub("", expression))
        assert not OURS.search(rest), expression
    text = " ".join(EXPRESSIONS)
    for name in METRICS:
        assert name.replace(".", "_") in text, name
    for name in scraped(Metrics().text()):
        assert name in text or name == "sojourn_http_kept_bytes", name


def test_the_dashboard_is_in_order() -> None:
    """Panels have their own ids and places, say what they show, and read the data source that the reader chooses."""
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    for one, other in combinations(places, 2):
        apart = [
            one[a] + one[size] <= other[a] or other[a] + other[size] <= one[a] for a, size in ("xw", "yh")
        ]
        assert any(apart)
    assert all(place["x"] + place["w"] <= 24 for place in places)
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables | {"__rate_interval"}


def test_every_alert_says_what_to_do_and_is_tested() -> None:
    """It has a severity, a summary and a next step, and a bad day on which `promtool` sees it fire."""
    rules = [rule for group in ALERTS["groups"] for rule in group["rules"]]
    for rule in rules:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"].endswith(".")
    tested = (FOLDER / "alerts_test.yaml").read_text()
    assert {rule["alert"] for rule in rules} == set(re.findall(r'alertname="(\w+)"', tested))


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(PROMTOOL is None, reason="no promtool here; docs/observability.md says how to get it")
def test_promtool_accepts_the_alerts_and_the_dashboard(tmp_path: Path) -> None:
    """It parses each rule, and each panel's expression as one; the alerts fire on a bad day, and on no usual one."""
    rules = [
        {"record": f"panel:{number}", "expr": re.sub(r"\$__rate_interval", "5m", expression)}
        for number, expression in enumerate(EXPRESSIONS)
    ]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    for command in (
        ["check", "rules", str(FOLDER / "alerts.yaml"), str(tmp_path / "panels.yaml")],
        ["test", "rules", str(FOLDER / "alerts_test.yaml")],
    ):
        done = subprocess.run([str(PROMTOOL), *command], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
