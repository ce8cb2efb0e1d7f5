"""Arguments and options that several commands share."""

from typing import Annotated

import typer

from sojourn.cli.completion import complete_runs

__all__ = ["By", "Deltas", "Json", "RunId", "Target", "TaskQueue", "Why"]

Target = Annotated[str, typer.Argument(metavar="MODULE:APP", help="Where the App is, such as worker:app.")]
TaskQueue = Annotated[
    str | None, typer.Option("--task-queue", help="Default: SOJOURN_TASK_QUEUE, else sojourn.")
]
Json = Annotated[bool, typer.Option("--json", help="For machines: JSON, one object a line.")]
Deltas = Annotated[
    bool, typer.Option("--deltas", help="With --json: what models are saying too, while they say it.")
]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id.", autocompletion=complete_runs, show_default=False)
]
Why = Annotated[str, typer.Argument(metavar="WHY", help="Why, for whoever reads on.", show_default=False)]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="Who you are, for the record; your user name when left out."),
]
