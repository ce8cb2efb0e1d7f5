"""Warn before an app is served if its models cannot be made."""

import sys

from sojourn.authoring.app import App
from sojourn.checks.application import models_of
from sojourn.cli.failure import MAX_LINE
from sojourn.cli.screen.text import plain

__all__ = ["warn_of_models"]


def warn_of_models(app: App) -> None:
    """Print on standard error which of the app's models cannot be made.

    A reason is, for example, a missing key. Runs that use such a model would fail.
    """
    named, wrong = models_of(app)
    for model, reason in wrong.items():
        line = f"{', '.join(named[model])} by {model} cannot run yet: {reason}"
        print(f"sojourn: {plain(line, MAX_LINE)}", file=sys.stderr, flush=True)
