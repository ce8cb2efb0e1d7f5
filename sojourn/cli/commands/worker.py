"""`sojourn worker` serves an app."""

import os
from typing import Annotated

import typer

from sojourn.cli.failure import OK
from sojourn.cli.options import Target, connected, load_app, queue_for

__all__ = ["worker"]


@connected
def worker(
    target: Target,
    metrics_port: Annotated[
        str | None,
        typer.Option(
            "--metrics-port",
            metavar="[HOST:]PORT",
            help="Serve the Temporal SDK's metrics for Prometheus. Default: SOJOURN_METRICS_PORT, else off.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Log JSON, one object a line, on a terminal too.")
    ] = False,
) -> int:
    """Serve the runs of an app until SIGTERM or Ctrl-C, then drain.

    \b
    sojourn worker worker:app --task-queue support
    """
    from sojourn.cli.model_warning import warn_of_models
    from sojourn.worker import serve

    if as_json:
        os.environ["SOJOURN_LOG_FORMAT"] = "json"
    app = load_app(target)
    warn_of_models(app)
    serve(app, task_queue=queue_for(app, target), metrics_port=metrics_port)
    return OK
