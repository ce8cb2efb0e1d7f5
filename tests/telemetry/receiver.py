"""An OTLP receiver, as a process of its own: `python receiver.py FOLDER`.

It serves OTLP over HTTP on a free loopback port, and writes the port to `port`, each span and each point of a
metric as a JSON line to `spans.jsonl` and `metrics.jsonl`, and the bytes of the requests to `raw`.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

FOLDER = Path(sys.argv[1])
LOCK = Lock()


def value_of(value):
    """Return the Python value of an `AnyValue`."""
    return getattr(value, value.WhichOneof("value"))


def attributes_of(pairs):
    """Return attributes as a dict."""
    return {pair.key: value_of(pair.value) for pair in pairs}


def spans_in(body):
    """Yield the spans of a request."""
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = attributes_of(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield {
                    "scope": scope.scope.name,
                    "resource": resource,
                    "name": span.name,
                    "kind": span.kind,
                    "trace_id": span.trace_id.hex(),
                    "span_id": span.span_id.hex(),
                    "parent_id": span.parent_span_id.hex(),
                    "start": span.start_time_unix_nano,
                    "end": span.end_time_unix_nano,
                    "is_error": span.status.code == 2,
                    "status_message": span.status.message,
                    "events": [event.name for event in span.events],
                    "attributes": attributes_of(span.attributes),
                }


def metrics_in(body):
    """Yield the points of the metrics of a request."""
    for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        resource = attributes_of(group.resource.attributes)
        for scope in group.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points:
                    shown = {
                        "scope": scope.scope.name,
                        "resource": resource,
                        "name": metric.name,
                        "unit": metric.unit,
                        "kind": kind,
                        "start": point.start_time_unix_nano,
                        "attributes": attributes_of(point.attributes),
                    }
                    if kind == "histogram":
                        yield {**shown, "count": point.count, "sum": point.sum}
                    else:
                        yield {**shown, "value": point.as_int}


class Handler(BaseHTTPRequestHandler):
    """Serves `/v1/traces` and `/v1/metrics`."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        name, found = (
            ("spans", spans_in(body)) if self.path == "/v1/traces" else ("metrics", metrics_in(body))
        )
        with LOCK:
            with (FOLDER / f"{name}.jsonl").open("a") as lines:
                lines.writelines(json.dumps(each) + "\n" for each in found)
            with (FOLDER / "raw").open("ab") as raw:
                raw.write(body)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format, *args):
        """Log nothing."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
(FOLDER / "port.new").write_text(str(server.server_port))
(FOLDER / "port.new").rename(FOLDER / "port")
server.serve_forever()
